//! evenkeel, set up by its own command as a user does it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;
use crate::fio::Reach;
use crate::process::{self, command};
use crate::result::Family;
use crate::scratch::Undo;
use crate::target::{Lab, Protocol, START_PATIENCE, Servers, Target, configuration};

/// One node with copies on its own disks: what md RAID1 is for.
pub fn local(lab: &mut Lab<'_>, id: &str, copies: u32, mirrors: u32) -> Result<Target, Failure> {
    let disks = (copies * mirrors) as usize;
    let node = Node::start(lab, id, "n1", None)?;
    let mut on = Vec::new();
    for index in 0..disks {
        on.push(node.add_disk(lab, id, index)?);
    }
    let shape = format!("--replicas {copies} --stripe {mirrors} --protocol C");
    let name = match mirrors {
        1 => format!("evenkeel mirror({copies})"),
        _ => format!("evenkeel stripe({mirrors}) of mirror({copies})"),
    };
    finish(lab, id, vec![node], &on, &shape, &name, copies)
}

/// Three nodes with a process and a copy each; the primary's node has the first one.
pub fn three_nodes(lab: &mut Lab<'_>, id: &str, protocol: Protocol) -> Result<Target, Failure> {
    let first = Node::start(lab, id, "n1", None)?;
    let port = first.port;
    let mut nodes = vec![first];
    for name in ["n2", "n3"] {
        nodes.push(Node::start(lab, id, name, Some(port))?);
    }
    let mut on = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        on.push(node.add_disk(lab, id, index)?);
    }
    await_members(lab, &nodes[0], nodes.len())?;
    let shape = format!("--replicas 3 --protocol {}", protocol.letter());
    let name = format!("evenkeel replica 3, protocol {}", protocol.letter());
    finish(lab, id, nodes, &on, &shape, &name, 3)
}

/// Creates the volume, attaches it, and fills it.
fn finish(
    lab: &mut Lab<'_>,
    id: &str,
    nodes: Vec<Node>,
    on: &[String],
    shape: &str,
    name: &str,
    copies: u32,
) -> Result<Target, Failure> {
    let node = &nodes[0];
    let size = lab.size.to_string();
    // Devices of all nodes of a machine share one directory: their names must differ.
    let volume = format!("bench-{id}-{}", std::process::id());
    let mut create = vec!["volume", "create", &volume, "--size", &size, "--same-node"];
    create.extend(shape.split(' '));
    create.extend(on.iter().flat_map(|place| ["--on", place.as_str()]));
    node.ask(lab, &create)?;
    let how = if lab.devices { "device" } else { "nbd" };
    lab.scratch.note(Undo::Run { words: node.words(&lab.evenkeel, &["detach", &volume]) })?;
    let answer = node.ask(lab, &["attach", &volume, "--as", how])?;
    let mut configuration = configuration(name, Family::Evenkeel, copies, "NBD over a unix socket");
    let (reach, device) = match lab.devices {
        true => {
            let path = text(&answer, &["device"]).map(PathBuf::from);
            let path = path.ok_or_else(|| unexpected("attach", &answer))?;
            let kind = text(&answer, &["device_kind"]).unwrap_or_default();
            configuration.access = format!("block device ({kind})");
            (Reach::File(path.clone()), Some(path))
        }
        false => {
            let socket = text(&answer, &["export", "socket"]).map(PathBuf::from);
            let socket = socket.ok_or_else(|| unexpected("attach", &answer))?;
            (Reach::Nbd { socket, export: volume.clone() }, None)
        }
    };
    lab.fill(&reach, lab.size, None)?;
    configuration.note = match nodes.len() {
        1 => "One node with all copies on its own disks.".to_owned(),
        count => format!("{count} nodes as processes of this machine, a copy on each, over TCP."),
    };
    let servers = Servers::Processes(nodes.iter().map(|node| node.pid).collect());
    Ok(Target { configuration, reach, device, directory: None, namespace: None, servers })
}

/// One node's process.
struct Node {
    name: String,
    port: u16,
    pid: u32,
    socket: PathBuf,
}

impl Node {
    /// Writes its configuration, starts it and waits until it answers.
    fn start(lab: &mut Lab<'_>, id: &str, name: &str, join: Option<u16>) -> Result<Self, Failure> {
        let directory = lab.scratch.directory(&format!("{id}/{name}"))?;
        let failed =
            |error: std::io::Error| Failure::new(format!("cannot prepare node {name}"), error);
        let port = free_port().map_err(failed)?;
        let path = directory.join("evenkeel.toml");
        fs::write(&path, node_configuration(&directory, name, port, join)).map_err(failed)?;
        let mut daemon = command([&lab.evenkeel]);
        daemon.args(["node", "run", "--config"]).arg(&path);
        let log = format!("{id}-{name}");
        let pid = lab.serve(&log, daemon)?;
        let node =
            Self { name: name.to_owned(), port, pid, socket: directory.join("run/api.sock") };
        lab.await_path(&log, pid, &node.socket)?;
        lab.interrupt.poll(&format!("node {name} answers"), START_PATIENCE, || {
            let words = node.words(&lab.evenkeel, &["node", "status"]);
            Ok(process::run(lab.interrupt, &mut command(words), Duration::from_secs(10)).ok())
        })?;
        Ok(node)
    }

    /// Gives it a directory as a disk. Returns the disk's name as `--on` wants it.
    fn add_disk(&self, lab: &mut Lab<'_>, id: &str, index: usize) -> Result<String, Failure> {
        let path = lab.place(index, &format!("{id}-disk-{index}"))?.display().to_string();
        let disk = format!("d{index}");
        self.ask(lab, &["disk", "add", &path, "--name", &disk])?;
        Ok(format!("{}:{disk}", self.name))
    }

    fn words(&self, evenkeel: &Path, words: &[&str]) -> Vec<String> {
        let start = [
            evenkeel.display().to_string(),
            "--socket".to_owned(),
            self.socket.display().to_string(),
            "--json".to_owned(),
        ];
        start.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    fn ask(&self, lab: &mut Lab<'_>, words: &[&str]) -> Result<Value, Failure> {
        let words = self.words(&lab.evenkeel.clone(), words);
        let answer = lab.helper(&words)?;
        if answer.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&answer)
            .map_err(|error| Failure::new("evenkeel's answer is not JSON", error))
    }
}

fn node_configuration(directory: &Path, name: &str, port: u16, join: Option<u16>) -> String {
    let role = match join {
        None => "here = true".to_owned(),
        Some(port) => format!("join = \"127.0.0.1:{port}\""),
    };
    let path = directory.display();
    format!(
        "name = \"{name}\"\ncluster = \"bench\"\nstate = \"{path}/state\"\nruntime = \"{path}/run\"\n\n\
         [peer]\nlisten = [\"127.0.0.1:{port}\"]\n\n[coordinator]\n{role}\n"
    )
}

fn await_members(lab: &mut Lab<'_>, node: &Node, count: usize) -> Result<(), Failure> {
    let words = node.words(&lab.evenkeel, &["node", "status"]);
    lab.interrupt.poll("all nodes know each other", START_PATIENCE, || {
        let output = process::run(lab.interrupt, &mut command(&words), Duration::from_secs(10))?;
        let answer: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
        // One document with the nodes, whatever else it tells.
        let nodes = answer.pointer("/nodes").or_else(|| answer.pointer("/nodes/nodes"));
        let alive = nodes.and_then(Value::as_array).map_or(0, |nodes| {
            nodes.iter().filter(|node| node["alive"].as_bool() == Some(true)).count()
        });
        Ok((alive == count).then_some(()))
    })
}

fn text(value: &Value, path: &[&str]) -> Option<String> {
    path.iter().try_fold(value, |value, key| value.get(key))?.as_str().map(str::to_owned)
}

fn unexpected(what: &str, answer: &Value) -> Failure {
    Failure::new(format!("`evenkeel {what}` answered without what is needed"), answer)
}

/// A port that nobody uses at this moment.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

//! evenkeel, set up by its own command as a user does it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::failure::{Failure, Kind};
use crate::fio::Reach;
use crate::process::{self, command};
use crate::result::Family;
use crate::scratch::Undo;
use crate::target::{Lab, Protocol, START_PATIENCE, Servers, Target, configuration};

/// What to set up: nodes, and on which of them each replica lies, mirror by mirror.
struct Shape {
    nodes: usize,
    /// Numbers of nodes. The volume is attached on node 0, which need not be among them.
    replicas: Vec<usize>,
    mirrors: usize,
    protocol: Protocol,
    /// On how many nodes it is attached at once: on node 0, by which it is measured, and the next
    /// ones.
    primaries: usize,
    /// How it is reached.
    way: Way,
    /// Nodes have certificates and speak TLS over TCP, instead of plainly over unix sockets.
    over_tls: bool,
    name: String,
    note: String,
}

/// How a volume is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By a device, or NBD on a unix socket.
    Shortest,
    /// NBD over TCP, by the client of [`crate::load`].
    Nbd,
    /// NVMe over TCP, by the same.
    Nvme,
}

impl Way {
    /// What it is called, if it goes over TCP.
    const fn over_tcp(self) -> Option<&'static str> {
        match self {
            Self::Shortest => None,
            Self::Nbd => Some("NBD over TCP"),
            Self::Nvme => Some("NVMe over TCP"),
        }
    }

    /// What a node's configuration has for it; an earlier program need not know it otherwise.
    const fn configuration(self) -> &'static str {
        match self {
            Self::Shortest => "",
            Self::Nbd => "\n[nbd]\nlisten = [\"127.0.0.1:0\"]\n",
            Self::Nvme => "\n[nvme]\nlisten = [\"127.0.0.1:0\"]\n",
        }
    }
}

/// How the client of NVMe calls itself.
const HOST: &str = "nqn.2026-11.org.example:bench";

impl Default for Shape {
    fn default() -> Self {
        Self {
            nodes: 1,
            replicas: vec![0],
            mirrors: 1,
            protocol: Protocol::C,
            primaries: 1,
            way: Way::Shortest,
            over_tls: false,
            name: String::new(),
            note: String::new(),
        }
    }
}

/// One node with copies on its own disks: what md RAID1 is for.
pub fn local(lab: &mut Lab<'_>, id: &str, copies: usize) -> Result<Target, Failure> {
    let shape = Shape {
        replicas: vec![0; copies],
        name: format!("evenkeel mirror({copies})"),
        note: "One node with all copies on its own disks.".to_owned(),
        ..Shape::default()
    };
    shape.set_up(lab, id)
}

/// The same attached on three nodes at once, as cluster-md is for: what it costs that others might
/// write.
pub fn shared(lab: &mut Lab<'_>, id: &str, copies: usize) -> Result<Target, Failure> {
    let shape = Shape {
        nodes: 3,
        replicas: vec![0; copies],
        primaries: 3,
        name: format!("evenkeel mirror({copies}), attached on 3 nodes"),
        note:
            "One node with all copies on its own disks, by which it is measured; two more have the \
               volume attached and are idle."
                .to_owned(),
        ..Shape::default()
    };
    shape.set_up(lab, id)
}

/// As many nodes as copies; the primary's node has the first one.
pub fn nodes(
    lab: &mut Lab<'_>,
    id: &str,
    copies: usize,
    protocol: Protocol,
) -> Result<Target, Failure> {
    let shape = Shape {
        nodes: copies,
        replicas: (0..copies).collect(),
        protocol,
        name: format!("evenkeel replica {copies}, protocol {}", protocol.letter()),
        note: format!(
            "{copies} nodes as processes of this machine, a copy on each, over unix sockets."
        ),
        ..Shape::default()
    };
    shape.set_up(lab, id)
}

/// The same with protocol C over TCP: everything between the nodes is encrypted.
pub fn encrypted(lab: &mut Lab<'_>, id: &str, copies: usize) -> Result<Target, Failure> {
    let shape = Shape {
        nodes: copies,
        replicas: (0..copies).collect(),
        over_tls: true,
        name: format!("evenkeel replica {copies}, protocol C, TLS over TCP"),
        note: format!(
            "{copies} nodes as processes of this machine, a copy on each, over TCP with TLS."
        ),
        ..Shape::default()
    };
    shape.set_up(lab, id)
}

/// As many nodes as copies with protocol C, used over NBD on TCP.
pub fn over_nbd(lab: &mut Lab<'_>, id: &str, copies: usize) -> Result<Target, Failure> {
    over_tcp(lab, id, copies, (Way::Nbd, "NBD"))
}

/// The same over NVMe.
pub fn over_nvme(lab: &mut Lab<'_>, id: &str, copies: usize) -> Result<Target, Failure> {
    over_tcp(lab, id, copies, (Way::Nvme, "NVMe"))
}

fn over_tcp(
    lab: &mut Lab<'_>,
    id: &str,
    copies: usize,
    (way, name): (Way, &str),
) -> Result<Target, Failure> {
    let shape = Shape {
        nodes: copies,
        replicas: (0..copies).collect(),
        way,
        name: format!("evenkeel replica {copies}, {name} over TCP"),
        note: format!(
            "{copies} nodes as processes of this machine, a copy on each, over unix sockets; used \
             over {name} on TCP by evenkeel's own client, one thread with one connection."
        ),
        ..Shape::default()
    };
    shape.set_up(lab, id)
}

/// A copy on each of so many nodes, none of them the one that uses it: with one copy, a plain
/// export.
pub fn remote(lab: &mut Lab<'_>, id: &str, copies: usize) -> Result<Target, Failure> {
    let name = match copies {
        1 => "evenkeel, one remote copy".to_owned(),
        _ => format!("evenkeel, {copies} remote copies"),
    };
    let shape = Shape {
        nodes: copies + 1,
        replicas: (1..=copies).collect(),
        name,
        note: "Nodes as processes of this machine: each has a disk with a copy but the one that \
               uses them over unix sockets."
            .to_owned(),
        ..Shape::default()
    };
    shape.set_up(lab, id)
}

/// A stripe of two mirrors, each of two copies on two other nodes.
pub fn remote_stripe(lab: &mut Lab<'_>, id: &str) -> Result<Target, Failure> {
    let shape = Shape {
        nodes: 3,
        replicas: vec![1, 2, 1, 2],
        mirrors: 2,
        name: "evenkeel stripe(2) of remote mirror(2)".to_owned(),
        note: "Three nodes as processes of this machine: two have two disks each, the third uses \
               them over unix sockets."
            .to_owned(),
        ..Shape::default()
    };
    shape.set_up(lab, id)
}

/// The same on one node.
pub fn local_stripe(lab: &mut Lab<'_>, id: &str) -> Result<Target, Failure> {
    let shape = Shape {
        replicas: vec![0; 4],
        mirrors: 2,
        name: "evenkeel stripe(2) of mirror(2)".to_owned(),
        note: "One node with all copies on its own disks.".to_owned(),
        ..Shape::default()
    };
    shape.set_up(lab, id)
}

impl Shape {
    fn copies(&self) -> usize {
        self.replicas.len() / self.mirrors
    }

    fn set_up(self, lab: &mut Lab<'_>, id: &str) -> Result<Target, Failure> {
        let mut nodes = vec![Node::start(lab, id, "n1", &self)?];
        for number in 1..self.nodes {
            let node = Node::start(lab, id, &format!("n{}", number + 1), &self)?;
            node.join(lab, &nodes[0], self.over_tls)?;
            nodes.push(node);
        }
        let mut on = Vec::new();
        for (index, number) in self.replicas.iter().enumerate() {
            on.push(nodes[*number].add_disk(lab, id, index)?);
        }
        await_members(lab, &nodes[0], nodes.len())?;
        finish(lab, id, &self, &nodes, &on)
    }
}

/// Creates the volume, attaches it, and fills it.
fn finish(
    lab: &mut Lab<'_>,
    id: &str,
    shape: &Shape,
    nodes: &[Node],
    on: &[String],
) -> Result<Target, Failure> {
    let node = &nodes[0];
    // Devices of all nodes of a machine share one directory: their names must differ.
    let volume = format!("bench-{id}-{}", std::process::id());
    let (size, copies) = (lab.size.to_string(), shape.copies().to_string());
    let mirrors = shape.mirrors.to_string();
    let mut create = vec!["volume", "create", &volume, "--size", &size, "--same-node"];
    create.extend(["--replicas", &copies, "--stripe", &mirrors]);
    create.extend(["--protocol", shape.protocol.letter()]);
    let primaries = shape.primaries.to_string();
    create.extend(["--primaries", &primaries]);
    create.extend(on.iter().flat_map(|place| ["--on", place.as_str()]));
    node.ask(lab, &create)?;
    let by_device = lab.devices && shape.way == Way::Shortest;
    let how = if by_device { "device" } else { "nbd" };
    lab.scratch.note(Undo::run(node.words(&lab.evenkeel, &["detach", &volume])))?;
    let answer = node.ask(lab, &["attach", &volume, "--as", how])?;
    let copies = u32::try_from(shape.copies()).unwrap_or(u32::MAX);
    let mut configuration =
        configuration(&shape.name, Family::Evenkeel, copies, "NBD over a unix socket");
    let (mut reach, device) = match by_device {
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
    for other in &nodes[1..shape.primaries] {
        lab.scratch.note(Undo::run(other.words(&lab.evenkeel, &["detach", &volume])))?;
        other.ask(lab, &["attach", &volume, "--as", "none"])?;
    }
    lab.fill(&reach, lab.size, None)?;
    if let Some(access) = shape.way.over_tcp() {
        reach = node.export(lab, &volume, shape.way)?;
        configuration.access = access.to_owned();
    }
    configuration.note.clone_from(&shape.note);
    let servers = Servers::Processes(nodes.iter().map(|node| node.pid).collect());
    Ok(Target { configuration, reach, device, directory: None, namespace: None, servers })
}

/// One node's process.
struct Node {
    name: String,
    /// Where others reach it.
    address: String,
    pid: u32,
    socket: PathBuf,
}

impl Node {
    /// Writes its configuration, starts it and waits until it answers. The first one, `n1`, serves
    /// the coordinator.
    fn start(lab: &mut Lab<'_>, id: &str, name: &str, shape: &Shape) -> Result<Self, Failure> {
        let over_tls = shape.over_tls;
        let directory = lab.scratch.directory(&format!("{id}/{name}"))?;
        let failed =
            |error: std::io::Error| Failure::new(format!("cannot prepare node {name}"), error);
        let path = directory.join("evenkeel.toml");
        let runtime = lab.scratch.sockets().join(format!("{id}-{name}"));
        let address = match over_tls {
            true => format!("127.0.0.1:{}", free_port().map_err(failed)?),
            false => format!("unix:{}", runtime.join("peer.sock").display()),
        };
        let is_first = name == "n1";
        let role = if is_first { "\n[coordinator]\nhere = true\n" } else { "" };
        let more = format!("{}{role}", shape.way.configuration());
        let text = node_configuration(&directory, &runtime, name, &address, &more);
        fs::write(&path, &text).map_err(failed)?;
        lab.said.push(format!("cat > {} << END\n{}END", path.display(), text));
        let (evenkeel, config) = (lab.evenkeel.display().to_string(), path.display().to_string());
        if over_tls && is_first {
            lab.helper([&evenkeel, "cluster", "init", "--config", &config])?;
        }
        let mut daemon = command([&lab.evenkeel]);
        daemon.args(["node", "run", "--config"]).arg(&path);
        let log = format!("{id}-{name}");
        let pid = lab.serve(&log, daemon)?;
        let node = Self { name: name.to_owned(), address, pid, socket: runtime.join("api.sock") };
        lab.await_path(&log, pid, &node.socket)?;
        lab.interrupt.poll(&format!("node {name} answers"), START_PATIENCE, || {
            let words = node.words(&lab.evenkeel, &["node", "status"]);
            Ok(process::run(lab.interrupt, &mut command(words), Duration::from_secs(10)).ok())
        })?;
        Ok(node)
    }

    /// Lets it join the first node; over TCP by a token of that one.
    fn join(&self, lab: &mut Lab<'_>, first: &Self, over_tls: bool) -> Result<(), Failure> {
        if !over_tls {
            return self.ask(lab, &["node", "join", &first.address]).map(drop);
        }
        let invited = first.ask(lab, &["node", "invite"])?;
        let token =
            text(&invited, &["token"]).ok_or_else(|| unexpected("node invite", &invited))?;
        self.ask(lab, &["node", "join", &first.address, "--token", &token]).map(drop)
    }

    /// Gives it a directory as a disk. Returns the disk's name as `--on` wants it.
    fn add_disk(&self, lab: &mut Lab<'_>, id: &str, index: usize) -> Result<String, Failure> {
        let path = lab.place(index, &format!("{id}-disk-{index}"))?.display().to_string();
        let disk = format!("d{index}");
        self.ask(lab, &["disk", "add", &path, "--name", &disk])?;
        Ok(format!("{}:{disk}", self.name))
    }

    /// Exports a volume over TCP.
    fn export(&self, lab: &mut Lab<'_>, volume: &str, way: Way) -> Result<Reach, Failure> {
        let words = match way {
            Way::Nvme => vec!["export", "nvme", volume, "--host", HOST],
            Way::Nbd | Way::Shortest => vec!["export", "nbd", volume, "--tcp"],
        };
        let answer = self.ask(lab, &words)?;
        let of = |place: &str| answer.pointer(place).and_then(Value::as_str).map(str::to_owned);
        let unexpected = || unexpected("export", &answer);
        let address = of("/export/tcp/0").ok_or_else(unexpected)?;
        let options = match way {
            Way::Nvme => {
                let subsystem = of("/export/nvme/subsystem").ok_or_else(unexpected)?;
                vec![format!("--subsystem={subsystem}"), format!("--host={HOST}")]
            }
            Way::Nbd | Way::Shortest => vec![format!("--export={volume}")],
        };
        // The client that runs this, also where an earlier program is measured.
        let program = std::env::current_exe()
            .map_err(|error| Failure::new("cannot find the program that runs", error))?;
        Ok(Reach::Load { program, address, options })
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
        let answer = lab.helper(&words).map_err(unpacked)?;
        if answer.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&answer)
            .map_err(|error| Failure::new("evenkeel's answer is not JSON", error))
    }
}

fn node_configuration(
    directory: &Path,
    runtime: &Path,
    name: &str,
    address: &str,
    more: &str,
) -> String {
    let (path, runtime) = (directory.display(), runtime.display());
    format!(
        "name = \"{name}\"\ncluster = \"bench\"\nstate = \"{path}/state\"\nruntime = \"{runtime}\"\n\n\
         [peer]\nlisten = [\"{address}\"]\n{more}"
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

/// A failure of the command whose JSON says what, why, and what to do.
fn unpacked(failure: Failure) -> Failure {
    let told = failure.why.lines().find_map(|line| {
        let error = serde_json::from_str::<Value>(line.trim()).ok()?.get("error")?.clone();
        let of = |key: &str| text(&error, &[key]).unwrap_or_default();
        Some(Failure::new(of("what"), of("why")).advise(of("do")))
    });
    match told.filter(|told| !told.what.is_empty()) {
        Some(told) if failure.kind == Kind::Failed => told,
        _ => failure,
    }
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

//! Three nodes as processes of their own, each with a disk in a directory.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use evenkeel_api::routes;
use evenkeel_api::types::{AddDiskRequest, DisksAnswer, NodesAnswer, VolumeAnswer, VolumeStatus};

use crate::client::Client;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long a node may take to answer after its start.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a node may take to end when asked.
const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// Lines of its log that are shown when something failed.
const LOG_LINES: usize = 8;

/// One node.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The way to its API.
    pub client: Client,
    /// Its API's socket.
    pub socket: PathBuf,
    directory: PathBuf,
    child: Option<Child>,
}

impl Node {
    /// Writes the configuration of a node that is not started yet.
    fn prepare(scratch: &Path, name: &str) -> Result<Self, Failure> {
        let directory = scratch.join(name);
        let coordinator = scratch.join("n1");
        let failed = |error: io::Error| Failure::new(format!("cannot prepare node {name}"), error);
        fs::create_dir_all(directory.join("disk")).map_err(failed)?;
        let role = match directory == coordinator {
            true => "here = true".to_owned(),
            false => format!("join = \"unix:{}/run/peer.sock\"", coordinator.display()),
        };
        let path = directory.display();
        let text = format!(
            "name = \"{name}\"\ncluster = \"quickstart\"\nstate = \"{path}/state\"\n\
             runtime = \"{path}/run\"\n\n\
             [coordinator]\n{role}\n\n\
             # A disk that stalls is no fault to show; a node that is killed is seen at once.\n\
             [times]\ndeadline_ms = 30000\n"
        );
        fs::write(directory.join("evenkeel.toml"), text).map_err(failed)?;
        let socket = directory.join("run/api.sock");
        let client = Client::new(&socket)?;
        Ok(Self { name: name.to_owned(), client, socket, directory, child: None })
    }

    /// Starts the node's process.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&mut self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::new(format!("cannot start {}", self.name), error);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.directory.join("node.log"))
            .map_err(failed)?;
        let child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["node", "run", "--config"])
            .arg(self.directory.join("evenkeel.toml"))
            // A group of its own: Ctrl-C goes to the quickstart only, which ends the nodes in
            // order.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until the node answers.
    ///
    /// # Errors
    /// If it has ended, or takes too long.
    pub fn await_ready(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let what = format!("node {} answers", self.name);
        let (child, client, name) = (&mut self.child, &self.client, &self.name);
        interrupt.poll(&what, START_PATIENCE, || {
            if let Some(status) = child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                return Err(Failure::new(format!("node {name} ended at its start"), status));
            }
            Ok(client.get(routes::NODE).ok().map(drop))
        })
    }

    /// The process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills the process with SIGKILL, as a crash would.
    ///
    /// # Errors
    /// If it does not run.
    pub fn kill(&mut self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::new(format!("cannot kill {}", self.name), error);
        let Some(mut child) = self.child.take() else {
            return Err(Failure::new(format!("cannot kill {}", self.name), "it does not run"));
        };
        child.kill().and_then(|()| child.wait()).map(drop).map_err(failed)
    }

    /// Ends the process cleanly, or by force if it does not end.
    fn stop(&mut self) {
        // It does not run: the story has killed it, or it has ended before.
        let Some(mut child) = self.child.take() else { return };
        if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
            crate::system::terminate(pid, STOP_PATIENCE);
        }
        // It has ended: this takes its exit status, so that no zombie is left.
        drop(child.wait());
    }

    /// The file of the replica of a volume on this node.
    ///
    /// # Errors
    /// If the node does not answer or has none.
    pub fn replica_path(&self, volume: &str) -> Result<PathBuf, Failure> {
        let disks: DisksAnswer = self.client.fetch(routes::DISKS)?;
        let mut replicas = disks.disks.into_iter().flat_map(|disk| disk.replicas);
        replicas
            .find(|replica| replica.volume.as_deref() == Some(volume))
            .map(|replica| PathBuf::from(replica.path))
            .ok_or_else(|| Failure::new(format!("node {} has no replica", self.name), ""))
    }
}

/// The three nodes. Dropping it ends their processes.
#[derive(Debug)]
pub struct Cluster {
    /// n1 (the coordinator's), n2, n3.
    pub nodes: Vec<Node>,
}

impl Cluster {
    /// Nodes that are not started yet.
    ///
    /// # Errors
    /// If their directories cannot be made.
    pub fn prepare(scratch: &Path) -> Result<Self, Failure> {
        let nodes = ["n1", "n2", "n3"].map(|name| Node::prepare(scratch, name));
        Ok(Self { nodes: nodes.into_iter().collect::<Result<_, _>>()? })
    }

    /// Starts the nodes, waits until they know each other, and gives each a disk.
    ///
    /// # Errors
    /// If one does not start.
    pub fn start(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        for node in &mut self.nodes {
            node.start()?;
            node.await_ready(interrupt)?;
        }
        self.await_members(interrupt)?;
        for node in &self.nodes {
            let request = AddDiskRequest {
                path: node.directory.join("disk").display().to_string(),
                name: Some("disk".to_owned()),
                force: false,
            };
            node.client.post(routes::DISKS, &request)?;
        }
        Ok(())
    }

    fn await_members(&self, interrupt: &Interrupt) -> Result<(), Failure> {
        interrupt.poll("all nodes know each other", START_PATIENCE, || {
            let Ok(known) = self.nodes[0].client.fetch::<NodesAnswer>(routes::NODES) else {
                return Ok(None);
            };
            let alive = known.nodes.iter().filter(|node| node.alive).count();
            Ok((alive == self.nodes.len()).then_some(()))
        })
    }

    /// The node of the coordinator, where the volume is attached.
    pub fn first(&self) -> &Node {
        &self.nodes[0]
    }

    /// The state of a volume.
    ///
    /// # Errors
    /// If the first node does not answer.
    pub fn volume(&self, name: &str) -> Result<VolumeStatus, Failure> {
        let path = routes::fill(routes::VOLUME, &[name]);
        Ok(self.first().client.fetch::<VolumeAnswer>(&path)?.volume)
    }

    /// The ends of the nodes' logs, for when something failed.
    pub fn log_ends(&self) -> String {
        self.nodes.iter().map(log_end).collect()
    }
}

fn log_end(node: &Node) -> String {
    let log = fs::read_to_string(node.directory.join("node.log")).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
    format!("--- the end of {}'s log\n{}\n", node.name, end.join("\n"))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The coordinator's node last: the others take their leave of it.
        for node in self.nodes.iter_mut().rev() {
            node.stop();
        }
        drop(io::stdout().flush());
    }
}

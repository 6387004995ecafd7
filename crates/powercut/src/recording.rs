//! A recording: three nodes serve a volume to clients, one of them is killed and comes back, and
//! all that they do to their disks goes to a tape.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fuser::BackgroundSession;

use crate::clients::{BLOCK, History, Writer};
use crate::nodes::Node;
use crate::random::Random;
use crate::recorder;
use crate::tape::{Entry, Moment, Tape};

/// Nodes, each with a disk and a replica.
pub const DISKS: usize = 3;
/// Of the volume, in MiB.
pub const SIZE: u64 = 64;
/// The volume's name.
pub const VOLUME: &str = "powercut";

/// Clients that write at the same time.
const WRITERS: u64 = 12;

/// The result of a recording.
#[derive(Debug)]
pub struct Recording {
    /// For each disk, a directory with what it held when the tape began.
    pub before: Vec<PathBuf>,
    /// The operations on the disks.
    pub tape: Vec<Entry>,
    /// The writes and flushes of clients.
    pub history: History,
    /// From the first request of a client to the end.
    pub span: (Moment, Moment),
}

/// Nodes whose disks are recorded. Dropped in this order: processes first.
struct Cluster {
    nodes: Vec<Node>,
    mounts: Vec<BackgroundSession>,
}

/// Records so many seconds.
///
/// # Errors
/// If the nodes can't be started, or a command fails.
pub fn record(
    program: &Path,
    place: &Path,
    protocol: &str,
    time: Duration,
    random: &mut Random,
) -> io::Result<Recording> {
    let tape = Arc::new(Tape::default());
    let mut cluster = Cluster { nodes: Vec::new(), mounts: Vec::new() };
    for disk in 0..DISKS {
        cluster.add(program, place, disk, &tape)?;
    }
    let (size, replicas) = (format!("{SIZE}M"), DISKS.to_string());
    let create = ["volume", "create", VOLUME, "--size", &size, "--replicas", &replicas];
    cluster.nodes[0].run(&[&create[..], &["--protocol", protocol]].concat())?;
    let before =
        (0..DISKS).map(|disk| copy(&held(place, disk), &place.join(format!("before{disk}"))));
    let before = before.collect::<io::Result<Vec<_>>>()?;
    tape.start();
    cluster.nodes[0].run(&["attach", VOLUME, "--as", "nbd"])?;
    let from = tape.now();
    let history = cluster.write(&tape, time, random)?;
    let span = (from, tape.now());
    cluster.nodes.iter_mut().for_each(Node::kill);
    for mount in cluster.mounts {
        mount.umount_and_join()?;
    }
    Ok(Recording { before, tape: tape.take(), history, span })
}

/// Where a disk's files are.
fn held(place: &Path, disk: usize) -> PathBuf {
    place.join(format!("held{disk}"))
}

impl Cluster {
    fn add(
        &mut self,
        program: &Path,
        place: &Path,
        disk: usize,
        tape: &Arc<Tape>,
    ) -> io::Result<()> {
        let (held, shown) = (held(place, disk), place.join(format!("disk{disk}")));
        fs::create_dir_all(&held)?;
        fs::create_dir_all(&shown)?;
        self.mounts.push(recorder::mount(disk, &held, &shown, tape.clone())?);
        let join = self.nodes.first().map(|node| node.address.clone());
        let (directory, name) = (place.join(format!("node{disk}")), format!("n{disk}"));
        let mut node = Node::new(program, directory, &name, join.as_deref())?;
        node.start()?;
        node.run_until(&["disk", "add", &shown.to_string_lossy(), "--name", "disk"])?;
        self.nodes.push(node);
        Ok(())
    }

    /// Has clients write. In the middle the last node's process is killed, and starts again.
    fn write(
        &mut self,
        tape: &Arc<Tape>,
        time: Duration,
        random: &mut Random,
    ) -> io::Result<History> {
        let stop = Arc::new(AtomicBool::new(false));
        let socket = self.nodes[0].export(VOLUME);
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let blocks = (SIZE << 20) / BLOCK as u64;
                let (random, tape, stop) = (Random::new(random.bits()), tape.clone(), stop.clone());
                let writer = Writer { number, of: WRITERS, blocks, random, tape, stop };
                let socket = socket.clone();
                thread::spawn(move || writer.run(&socket, VOLUME))
            })
            .collect();
        thread::sleep(time * 2 / 5);
        self.nodes[DISKS - 1].kill();
        thread::sleep(time / 5);
        self.nodes[DISKS - 1].start()?;
        thread::sleep(time * 2 / 5);
        stop.store(true, Ordering::SeqCst);
        let mut history = History::default();
        for writer in writers {
            let done = writer.join().map_err(|_| io::Error::other("a client has panicked"))?;
            history.add(done?);
        }
        history.note_flushes();
        Ok(history)
    }
}

/// Copies a directory of sparse files.
///
/// # Errors
/// If `cp` fails.
pub fn copy(from: &Path, to: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(to)?;
    let all = from.join(".");
    let status =
        Command::new("cp").args(["--archive", "--sparse=always"]).arg(&all).arg(to).status()?;
    match status.success() {
        true => Ok(to.to_owned()),
        false => Err(io::Error::other(format!("{} can't be copied", from.display()))),
    }
}

//! A cluster of engines in one process: real files, real sockets, a coordinator in memory.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod client;
pub mod hanging;
pub mod tls;

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_core::primary::{CoordinatorAnswer, Earlier, Note, PrimaryConfig};
use evenkeel_core::*;
use evenkeel_engine::*;
use evenkeel_format::{
    ALLOCATION_OFFSET, AllocationMap, DATA_OFFSET, Superblock, disk_length, metadata_offset, newest,
};

/// What a test's volume looks like.
#[derive(Clone)]
pub struct Shape {
    pub size: u64,
    pub block_size: u32,
    pub chunk: u32,
    pub protocol: Protocol,
    /// For each mirror, the nodes of its replicas.
    pub mirrors: Vec<Vec<usize>>,
    pub nodes: usize,
    pub settings: Settings,
    pub lease: Lease,
    pub memory: Option<usize>,
    pub small_sockets: bool,
    /// Links are protected by TLS.
    pub keys: Option<tls::Keys>,
    pub has_checksums: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            size: 16 << 20,
            block_size: 512,
            chunk: 64 << 10,
            protocol: Protocol::C,
            mirrors: vec![vec![0]],
            nodes: 1,
            settings: Settings::default(),
            lease: Lease::default(),
            memory: None,
            small_sockets: false,
            keys: None,
            has_checksums: true,
        }
    }
}

pub struct Cluster {
    pub directory: tempfile::TempDir,
    pub engines: Vec<Engine>,
    pub shape: Shape,
    pub volume: VolumeId,
    pub view: Arc<Mutex<View>>,
    /// A block device in the place of the first replica's file.
    pub device: Option<PathBuf>,
    /// Nodes that cannot be reached.
    pub cut: Arc<Mutex<Vec<usize>>>,
    /// What is of interest to tests.
    pub events: Receiver<EngineEvent>,
    pub next_frontend: u64,
}

pub fn node_id(index: usize) -> NodeId {
    NodeId(100 + index as u128)
}

fn replica_id(mirror: usize, index: usize) -> ReplicaId {
    ReplicaId(1000 + 100 * mirror as u128 + index as u128)
}

fn first_view(volume: VolumeId, shape: &Shape) -> View {
    let record = |mirror: usize, index: usize, node: usize| {
        ReplicaRecord::first(replica_id(mirror, index), node_id(node))
    };
    let mirrors = shape.mirrors.iter().enumerate().map(|(mirror, nodes)| MirrorView {
        replicas: nodes.iter().enumerate().map(|(i, node)| record(mirror, i, *node)).collect(),
    });
    View {
        protocol: shape.protocol,
        intents: IntentLayout { region: 1 << 20, places: 200, slots: 1 },
        lease: shape.lease,
        ..View::first(
            volume,
            History(7),
            CoordinatorId(8),
            Geometry { size: shape.size, block_size: shape.block_size, chunk: shape.chunk },
            mirrors.collect(),
        )
    }
}

pub fn open_direct(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options
        .clone()
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .or_else(|_| options.open(path))
        .expect("the replica's file opens")
}

/// Bytes that tell where they belong.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// The open regions that a start would find.
pub fn open_regions(path: &Path) -> Vec<u64> {
    let newest = read_newest(path);
    let found = read_metadata(open_direct(path), &newest.superblock).expect("readable");
    found.open_regions.into_iter().flat_map(|table| table.open).collect()
}

/// Reads the superblocks of a replica's file.
pub fn read_newest(path: &Path) -> evenkeel_format::Newest {
    let file = File::open(path).expect("opens");
    let mut slots = [vec![0; 16 << 10], vec![0; 16 << 10]];
    file.read_exact_at(&mut slots[0], 0).expect("readable");
    file.read_exact_at(&mut slots[1], 512 << 10).expect("readable");
    newest(&slots[0], &slots[1]).expect("a valid superblock")
}

impl Cluster {
    pub fn start(shape: Shape) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self::start_in(directory, shape)
    }

    pub fn start_in(directory: tempfile::TempDir, shape: Shape) -> Self {
        Self::start_on(directory, None, shape)
    }

    pub fn start_on(directory: tempfile::TempDir, device: Option<PathBuf>, shape: Shape) -> Self {
        let volume = VolumeId(0x1234_5678_9abc);
        let view = Arc::new(Mutex::new(first_view(volume, &shape)));
        let (sender, receiver) = channel();
        let (to_test, events) = channel();
        let engines: Vec<Engine> =
            (0..shape.nodes).map(|node| start_engine(node, sender.clone())).collect();
        let cut = Arc::new(Mutex::new(Vec::new()));
        let control = Control {
            engines: engines.clone(),
            view: view.clone(),
            cut: cut.clone(),
            to_test,
            small_sockets: shape.small_sockets,
            keys: shape.keys.clone(),
        };
        std::thread::spawn(move || control.run(receiver));
        let cluster =
            Self { directory, engines, shape, volume, view, device, cut, events, next_frontend: 0 };
        cluster.create_replicas();
        cluster
    }

    pub fn path(&self, mirror: usize, index: usize) -> PathBuf {
        let file = self.directory.path().join(format!("replica-{mirror}-{index}"));
        self.device.clone().unwrap_or(file)
    }

    fn create_replicas(&self) {
        let view = self.view.lock().unwrap().clone();
        for (mirror, nodes) in self.shape.mirrors.iter().enumerate() {
            for (index, node) in nodes.iter().enumerate() {
                let path = self.path(mirror, index);
                if self.device.is_none() {
                    let file = File::create(&path).expect("created");
                    file.set_len(disk_length(view.replica_size())).expect("sized");
                }
                let superblock = Superblock {
                    sequence: 1,
                    volume: self.volume,
                    name: "test".to_owned(),
                    replica: replica_id(mirror, index),
                    mirror: mirror as u32,
                    data_offset: DATA_OFFSET,
                    data_length: view.replica_size(),
                    incarnations: Incarnations::default(),
                    saved: 0,
                    metadata_offset: metadata_offset(view.replica_size()),
                    has_checksums: self.shape.has_checksums,
                    view: view.clone(),
                };
                let bytes = superblock.encode().expect("encodes");
                let file = OpenOptions::new().write(true).open(&path).expect("opens");
                file.write_all_at(bytes.as_ref().as_ref(), 0).expect("written");
                file.write_all_at(bytes.as_ref().as_ref(), 512 << 10).expect("written");
                if self.device.is_some() {
                    let map = AllocationMap::new(superblock.data_length);
                    let bytes = map.encode(superblock.replica);
                    file.write_all_at(&bytes, ALLOCATION_OFFSET).expect("written");
                }
                self.open_replica(*node, mirror, index, 1).expect("opens");
            }
        }
    }

    pub fn open_replica(
        &self,
        node: usize,
        mirror: usize,
        index: usize,
        incarnation: u64,
    ) -> Result<(), EngineError> {
        let newest = read_newest(&self.path(mirror, index));
        self.open_with(newest, node, mirror, index, incarnation)
    }

    /// Opens the first replica as if its volume had this block size.
    pub fn try_open_with_block_size(&self, block_size: u32) -> Result<(), EngineError> {
        let mut newest = read_newest(&self.path(0, 0));
        newest.superblock.view.geometry.block_size = block_size;
        self.open_with(newest, 0, 0, 0, 9)
    }

    fn open_with(
        &self,
        newest: evenkeel_format::Newest,
        node: usize,
        mirror: usize,
        index: usize,
        incarnation: u64,
    ) -> Result<(), EngineError> {
        let incarnation = (Incarnation(incarnation * 1000 + index as u64), BootId(1));
        let file = OwnedFd::from(open_direct(&self.path(mirror, index)));
        let replica =
            OpenReplica::read(file, newest, incarnation, self.shape.settings).expect("readable");
        ask(|answer| self.engines[node].open_replica(replica, answer))
    }

    pub fn close_replica(&self, node: usize, mirror: usize, index: usize) {
        let id = replica_id(mirror, index);
        ask(|answer| self.engines[node].close_replica(self.volume, id, answer)).expect("closes");
    }

    pub fn attach(&self) {
        let config = PrimaryConfig {
            id: PrimaryId { node: node_id(0), incarnation: Incarnation(77) },
            volume: self.volume,
            settings: self.shape.settings,
            earlier: Earlier::Ended,
        };
        ask(|answer| self.engines[0].attach(config, self.shape.memory, answer)).expect("attaches");
        self.wait_for("serving", |event| {
            matches!(event, EngineEvent::Note { note: Note::Serving { .. }, .. })
        });
    }

    /// Waits for an event; panics after 2 minutes.
    pub fn wait_for(&self, what: &str, mut is_it: impl FnMut(&EngineEvent) -> bool) -> EngineEvent {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).unwrap_or_else(|_| panic!("no {what}"));
            if is_it(&event) {
                return event;
            }
        }
    }

    /// Waits until a replica has left the view.
    pub fn wait_until_left(&self, replica: ReplicaId) {
        self.wait_for("leaving", |event| {
            matches!(event, EngineEvent::Note { note: Note::Left(left, _), .. } if *left == replica)
        });
    }

    /// Waits until the newest view calls all replicas in-sync. One that a busy machine made late
    /// leaves, and comes back after a pause of up to a minute.
    pub fn wait_until_in_sync(&self) {
        let end = Instant::now() + Duration::from_secs(120);
        let is_in_sync = |(_, replica): (_, &ReplicaRecord)| replica.state == ReplicaState::InSync;
        while !self.view.lock().unwrap().replicas().all(is_in_sync) {
            assert!(Instant::now() < end, "not all in-sync: {:?}", self.view.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn detach(&self) {
        let command = evenkeel_core::primary::Command::Detach;
        let (sender, _receiver) = channel();
        self.engines[0].command(self.volume, command, move |result| {
            let _ = sender.send(result);
        });
        self.wait_for("end", |event| matches!(event, EngineEvent::Ended { .. }));
    }

    pub fn status(&self, node: usize) -> VolumeStatus {
        let (sender, receiver) = channel();
        self.engines[node].volume_status(self.volume, move |status| {
            let _ = sender.send(status);
        });
        receiver.recv_timeout(Duration::from_secs(60)).expect("an answer").expect("known")
    }

    /// Stops all engines.
    pub fn stop(&self) {
        for engine in &self.engines {
            engine.stop();
        }
    }

    pub fn replica(&self, mirror: usize, index: usize) -> ReplicaId {
        replica_id(mirror, index)
    }

    pub fn remove(&self, client: &client::Client) {
        ask(|answer| self.engines[0].remove_frontend(self.volume, client.id, answer))
            .expect("removed");
    }

    /// The data of a replica, as it is in its file.
    pub fn data(&self, mirror: usize, index: usize) -> Vec<u8> {
        let mut bytes = std::fs::read(self.path(mirror, index)).expect("readable");
        let end = DATA_OFFSET + self.view.lock().unwrap().replica_size();
        bytes.truncate(end as usize);
        bytes.split_off(DATA_OFFSET as usize)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Calls something that answers a result, and waits for the answer.
pub fn ask<T: Send + 'static>(call: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> T {
    let (sender, receiver) = channel();
    call(Box::new(move |result| {
        let _ = sender.send(result);
    }));
    receiver.recv_timeout(Duration::from_secs(60)).expect("an answer in time")
}

fn start_engine(node: usize, sender: Sender<(usize, EngineEvent)>) -> Engine {
    let mut config = EngineConfig::new(move |event| {
        let _ = sender.send((node, event));
    });
    config.workers = 2;
    Engine::start(config).expect("io_uring is there")
}

/// The control plane of all nodes.
struct Control {
    engines: Vec<Engine>,
    view: Arc<Mutex<View>>,
    cut: Arc<Mutex<Vec<usize>>>,
    to_test: Sender<EngineEvent>,
    small_sockets: bool,
    keys: Option<tls::Keys>,
}

impl Control {
    fn run(&self, events: Receiver<(usize, EngineEvent)>) {
        for (node, event) in events {
            match event {
                EngineEvent::ReadView { volume, primary, call } => {
                    let view = self.view.lock().unwrap().clone();
                    let answer = CoordinatorAnswer::Newest(Box::new(view));
                    self.engines[node].coordinator_answer(volume, primary, call, answer);
                }
                EngineEvent::SwapView { volume, primary, call, view, .. } => {
                    let answer = self.swap(*view);
                    self.engines[node].coordinator_answer(volume, primary, call, answer);
                }
                EngineEvent::Connect { volume, request, replica, node: target, .. } => {
                    let target = (target.0 - 100) as usize;
                    let connection = self.connect(volume, replica, node, target);
                    self.engines[node].connected(volume, request, connection);
                }
                event => {
                    let _ = self.to_test.send(event);
                }
            }
        }
    }

    fn swap(&self, view: View) -> CoordinatorAnswer {
        let mut newest = self.view.lock().unwrap();
        if newest.generation != view.parent {
            return CoordinatorAnswer::Newest(Box::new(newest.clone()));
        }
        *newest = view;
        CoordinatorAnswer::Committed
    }

    fn connect(
        &self,
        volume: VolumeId,
        replica: ReplicaId,
        from: usize,
        to: usize,
    ) -> Option<Connection> {
        let cut = self.cut.lock().unwrap();
        if from == to || cut.contains(&to) || cut.contains(&from) {
            return None;
        }
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        if self.small_sockets {
            for socket in [&ours, &theirs] {
                rustix::net::sockopt::set_socket_send_buffer_size(socket, 4096).expect("set");
            }
        }
        let (ours, theirs) = (OwnedFd::from(ours), OwnedFd::from(theirs));
        let (ours, theirs) = match &self.keys {
            Some(keys) => keys.protect((ours, theirs)),
            None => (ours.into(), theirs.into()),
        };
        let peer = NodeId(100 + from as u128);
        self.engines[to].accept_link(volume, replica, peer, theirs);
        Some(ours)
    }
}

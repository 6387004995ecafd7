//! What the control plane tells the engine, and what it is told.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::message::RebuildProgress;
use evenkeel_core::primary::{EndReason, Note, PrimaryStatus};
use evenkeel_core::replica::{ReplicaConfig, ReplicaStatus};
use evenkeel_core::{
    BootId, CoordinatorCall, Incarnation, NodeId, PrimaryId, ReplicaId, Settings, View, VolumeId,
};
use evenkeel_format::{AllocationMap, Newest};

use crate::counters::{DiskCounters, Failure, Kind, LinkCounters, VolumeCounters, WorkerCounters};
use crate::disk::device::{Drive, Flushes, Layout};
use crate::disk::{self, Recovered, Tables};

/// How an engine is set up.
#[derive(Clone)]
pub struct EngineConfig {
    /// Worker threads, each with a ring; 1 to 64. One volume lives on one of them.
    pub workers: usize,
    /// The most bytes that each worker admits (see [`crate::memory`]).
    pub memory_per_worker: usize,
    /// The most bytes that the clients of one volume may hold.
    pub memory_per_volume: usize,
    /// The most bytes that one primary may hold at one replica of this node.
    pub memory_per_link: usize,
    /// How long a worker polls at most before it sleeps, while peers talk to it; zero: never.
    pub max_poll: Duration,
    /// Told what the control plane must know or do. Called on a worker's thread: it must not
    /// block; send the event on.
    pub on_event: Arc<dyn Fn(EngineEvent) + Send + Sync>,
}

impl EngineConfig {
    /// Defaults: as many workers as there are cores, at most 4; 512 MiB per worker; 64 MiB per
    /// volume and per link; 100 µs of polling.
    pub fn new(on_event: impl Fn(EngineEvent) + Send + Sync + 'static) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers: cores.min(4),
            memory_per_worker: 512 << 20,
            memory_per_volume: 64 << 20,
            memory_per_link: 64 << 20,
            max_poll: Duration::from_micros(100),
            on_event: Arc::new(on_event),
        }
    }
}

impl fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineConfig {{ workers: {} }}", self.workers)
    }
}

/// A replica to be opened on this node.
#[derive(Debug)]
pub struct OpenReplica {
    /// Opened for reading and writing, with O_DIRECT where the filesystem has it, and locked by
    /// the caller; the lock must live in this open file, which the engine keeps until the last
    /// operation on it has ended.
    pub file: OwnedFd,
    /// Its superblock, as found.
    pub newest: Newest,
    /// Where its data lie there, and how they are addressed.
    pub(crate) layout: Layout,
    /// Where its tables of open regions go, as [`crate::read_metadata`] found.
    pub tables: Tables,
    /// Which parts of it hold anything, if it has a map of that.
    pub allocation: Option<AllocationMap>,
    /// Where the journal of its block checksums goes on, if it has any.
    pub checksums: Option<Recovered>,
    /// Which flushes of its drive have failed since what is there was made durable.
    pub(crate) flushes: Flushes,
    /// What the core needs to know; its view must be that of the superblock.
    pub config: ReplicaConfig,
}

impl OpenReplica {
    /// A replica on an opened and locked file or device. Makes durable what is there, and reads its
    /// metadata: it blocks on the disk.
    ///
    /// # Errors
    /// If the disk can't be flushed or read.
    pub fn read(
        file: OwnedFd,
        newest: Newest,
        incarnation: (Incarnation, BootId),
        settings: Settings,
    ) -> std::io::Result<Self> {
        let drive = Drive::of(&file)?;
        Self::read_on(drive, file, newest, incarnation, settings)
    }

    /// As [`Self::read`], on this drive.
    pub(crate) fn read_on(
        drive: Arc<Drive>,
        file: OwnedFd,
        mut newest: Newest,
        incarnation: (Incarnation, BootId),
        settings: Settings,
    ) -> std::io::Result<Self> {
        let layout = Layout::of(&file, &newest.superblock)?;
        let flushes = Flushes::new(drive);
        let (metadata, checksums) = disk::prepare(&file, &mut newest)?;
        let superblock = &newest.superblock;
        let config = ReplicaConfig {
            id: superblock.replica,
            incarnation: incarnation.0,
            boot: incarnation.1,
            view: superblock.view.clone(),
            incarnations: superblock.incarnations,
            open_regions: metadata.open_regions,
            missing: metadata.missing,
            settings,
            has_fua: Drive::has_fua(&file),
        };
        let (tables, allocation) = (metadata.tables, metadata.allocation);
        Ok(Self { file, newest, layout, tables, allocation, checksums, flushes, config })
    }
}

/// Names a connection that the engine has asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectRequest(pub u64);

/// Names a front end of a volume. Chosen by the control plane, never used twice for one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontendId(pub u64);

/// Who opens a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// This primary of the volume, on this node.
    Primary(PrimaryId),
    /// A rebuilding replica on this node, towards its source.
    Replica(ReplicaId),
}

/// What the control plane must know or do.
#[derive(Debug)]
pub enum EngineEvent {
    /// Connect to a replica on another node, do the hello, and answer with
    /// [`crate::Engine::connected`].
    Connect {
        /// The volume.
        volume: VolumeId,
        /// Names the answer.
        request: ConnectRequest,
        /// For whom.
        caller: Caller,
        /// The replica to be reached.
        replica: ReplicaId,
        /// The node that has its disk, by the newest view.
        node: NodeId,
    },
    /// Read the volume's newest view; answer with [`crate::Engine::coordinator_answer`].
    ReadView {
        /// The volume.
        volume: VolumeId,
        /// Who asks: each primary numbers its calls from 1.
        primary: PrimaryId,
        /// Names the answer.
        call: CoordinatorCall,
    },
    /// Commit this view if its parent is still the newest; answer with
    /// [`crate::Engine::coordinator_answer`].
    SwapView {
        /// The volume.
        volume: VolumeId,
        /// Who asks: each primary numbers its calls from 1.
        primary: PrimaryId,
        /// Names the answer.
        call: CoordinatorCall,
        /// The view.
        view: Box<View>,
        /// Its parent.
        replaces: Box<View>,
    },
    /// Something that an administrator wants to read in the log.
    Note {
        /// The volume.
        volume: VolumeId,
        /// What to log.
        note: Note,
    },
    /// Requests of clients were answered with an error: the first one of its kind and reason, after
    /// that at most one a minute, and what was not told when the primary has ended.
    RequestsFailed {
        /// The volume.
        volume: VolumeId,
        /// How many by now, and why.
        failure: Failure,
    },
    /// The primary has ended, its front ends are closed, and it is gone from the engine.
    Ended {
        /// The volume.
        volume: VolumeId,
        /// Which: the next one may be there when this is read.
        primary: PrimaryId,
        /// What ended it.
        reason: EndReason,
    },
    /// A front end has ended by itself.
    FrontendEnded {
        /// The volume.
        volume: VolumeId,
        /// As [`crate::Engine`] named it when it was added; it is gone by now.
        frontend: FrontendId,
        /// Why, for the log.
        reason: String,
    },
    /// A connection to or from a replica has ended; for the log.
    LinkClosed {
        /// The volume.
        volume: VolumeId,
        /// The replica at the other end, or the one that was connected to.
        replica: ReplicaId,
        /// Why: closed by the other side, an error, or bytes that can't be understood.
        reason: String,
    },
    /// A replica's disk reported an error; for the log. The core decides what follows.
    DiskError {
        /// The volume.
        volume: VolumeId,
        /// The replica.
        replica: ReplicaId,
        /// What was tried.
        kind: Kind,
        /// The same as a sentence, with the place and the system's error.
        reason: String,
    },
}

/// The rebuilds of volumes, and how far each has come.
pub type VolumeRebuilds = Vec<(VolumeId, Vec<(ReplicaId, RebuildProgress)>)>;

/// The state of a volume on this node.
#[derive(Debug, Clone)]
pub struct VolumeStatus {
    /// Its identity.
    pub volume: VolumeId,
    /// Its primary, if it is attached here.
    pub primary: Option<PrimaryStatus>,
    /// What its clients did.
    pub counters: VolumeCounters,
    /// Its replicas on this node.
    pub replicas: Vec<OpenReplicaStatus>,
    /// Its front ends: who, and the name given with it.
    pub frontends: Vec<(FrontendId, String)>,
    /// Connections of the primary and of the replicas.
    pub links: Vec<LinkStatus>,
    /// Bytes reserved by its clients, of the most that it may hold.
    pub memory: (usize, usize),
}

/// A replica that is open on this node.
#[derive(Debug, Clone)]
pub struct OpenReplicaStatus {
    /// As the core sees it.
    pub core: ReplicaStatus,
    /// What its disk did.
    pub disk: DiskCounters,
}

/// A connection between nodes.
#[derive(Debug, Clone)]
pub struct LinkStatus {
    /// Who opened it; `None`: the other side.
    pub caller: Option<Caller>,
    /// The replica that is reached over it.
    pub replica: ReplicaId,
    /// What went over it.
    pub counters: LinkCounters,
}

/// The state of one worker.
#[derive(Debug, Clone)]
pub struct WorkerStatus {
    /// Its index.
    pub worker: usize,
    /// What it did.
    pub counters: WorkerCounters,
    /// Bytes of buffers in use.
    pub memory: usize,
    /// Its volumes.
    pub volumes: Vec<VolumeStatus>,
}

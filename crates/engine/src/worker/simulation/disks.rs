//! Replicas in files in memory, each on a drive of its node.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use evenkeel_core::{BootId, Incarnation, Incarnations, ReplicaId, Settings, View, VolumeId};
use evenkeel_format::{
    DATA_OFFSET, Newest, Superblock, SuperblockCopy, disk_length, metadata_offset, newest,
};
use rustix::fs::{FlockOperation, MemfdFlags, Mode, OFlags, flock, ftruncate, memfd_create, open};

use crate::api::OpenReplica;
use crate::disk::device::Drive;

/// How far a replica is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    Opening,
    Open,
    Closing,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) id: ReplicaId,
    /// Which of the world's volumes, and nodes.
    pub(super) volume: usize,
    pub(super) node: usize,
    /// Which of the node's drives, and how its process knows it.
    place: usize,
    pub(super) drive: Arc<Drive>,
    pub(super) phase: Phase,
    /// Failed flushes of the drive when it was opened, and of which it has been told.
    pub(super) opened_at: u64,
    pub(super) told_of: u64,
    /// How often it was told that somebody's flush has failed.
    pub(super) times_told: u64,
    /// Operations that found no space on its worker when it was opened.
    pub(super) refusals: u64,
    has_fua: bool,
    incarnation: u64,
    file: OwnedFd,
}

impl Replica {
    /// One with a superblock and nothing else.
    pub(super) fn new(
        place: (usize, usize, u32),
        id: ReplicaId,
        (on, drive): (usize, Arc<Drive>),
        view: &View,
        (has_checksums, has_fua): (bool, bool),
    ) -> Self {
        let (volume, node, mirror) = place;
        let file = memfd_create("replica", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&file, disk_length(view.replica_size())).expect("a length");
        let superblock = Superblock {
            sequence: 1,
            volume: view.volume,
            name: "simulated".to_owned(),
            replica: id,
            mirror,
            data_offset: DATA_OFFSET,
            data_length: view.replica_size(),
            incarnations: Incarnations::default(),
            saved: 0,
            metadata_offset: metadata_offset(view.replica_size()),
            has_checksums,
            view: view.clone(),
        };
        let bytes = superblock.encode().expect("it can be encoded");
        for copy in [SuperblockCopy::A, SuperblockCopy::B] {
            rustix::io::pwrite(&file, &bytes.0, copy.offset()).expect("written");
        }
        let phase = Phase::Closed;
        let (opened_at, told_of, times_told, refusals) = (0, 0, 0, 0);
        Self {
            id,
            volume,
            node,
            place: on,
            drive,
            phase,
            opened_at,
            told_of,
            times_told,
            refusals,
            has_fua,
            incarnation: 0,
            file,
        }
    }

    /// Opens the file anew: it has a lock of its own.
    fn again(&self) -> OwnedFd {
        let path = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
        open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("opens")
    }

    /// Whether nobody has the file open as a replica.
    pub(super) fn is_free(&self) -> bool {
        flock(self.again(), FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    fn newest(&self) -> Newest {
        let read = |copy: SuperblockCopy| {
            let mut bytes = vec![0; 16 << 10];
            rustix::io::pread(&self.file, &mut bytes, copy.offset()).expect("reads");
            bytes
        };
        newest(&read(SuperblockCopy::A), &read(SuperblockCopy::B)).expect("a superblock")
    }

    /// What the engine opens it with. `None`: its file is still locked.
    pub(super) fn read(&mut self, node: usize) -> Option<OpenReplica> {
        let file = self.again();
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        self.incarnation += 1;
        let incarnation = Incarnation(self.incarnation * 1000 + self.id.0 as u64 % 1000);
        self.opened_at = self.drive.failures();
        (self.told_of, self.times_told) = (self.opened_at, 0);
        let (drive, incarnation) = (self.drive.clone(), (incarnation, BootId(1 + node as u128)));
        let replica =
            OpenReplica::read_on(drive, file, self.newest(), incarnation, Settings::default());
        let mut replica = replica.expect("it can be read");
        replica.config.has_fua = self.has_fua;
        Some(replica)
    }

    /// The process of its node has ended; the next one knows the drives as these.
    pub(super) fn process_ended(&mut self, drives: &[Arc<Drive>]) {
        self.drive = drives[self.place].clone();
        self.phase = Phase::Closed;
    }

    /// Whether a flush of its drive has failed of which it has to be told.
    pub(super) fn is_untold(&self) -> bool {
        self.phase == Phase::Open && self.drive.failures() != self.told_of
    }
}

/// Which replica: of the volume with this identity.
pub(super) fn find(replicas: &[Replica], volume: usize, id: ReplicaId) -> Option<usize> {
    replicas.iter().position(|it| it.volume == volume && it.id == id)
}

/// The identity of the volume with this number, which lies on this worker of a node.
pub(super) const fn volume_id(number: usize, worker: usize, workers: usize) -> VolumeId {
    VolumeId(((1 + number) * workers + worker) as u128)
}

//! The replicas that are open on this worker: what happens between each core and its disk.
//!
//! A replica that is to be closed stays until nothing is under way on its disk. Whoever has
//! something end on a disk is told when the replica has gone by that: see [`Gone`].

mod host;

use std::io;
use std::sync::Arc;

use evenkeel_core::{
    DiskAction, DiskTicket, Extent, Instant, Replica, ReplicaEffect, ReplicaEvent, ReplicaId,
    VolumeId,
};

use self::host::ReplicaHost;
use super::context::{Context, Work};
use crate::api::{EngineEvent, OpenReplica, OpenReplicaStatus};
use crate::counters::Kind;
use crate::disk::device::{Listeners, Means};
use crate::disk::{Disk, Ended, Found, Helper, SpaceFailure, SpaceRequest};
use crate::error::{Answer, EngineError};
use crate::memory::Buffer;
use crate::ring::{Completion, Key, SharedFile, Slab};

/// All replicas that are open on this worker.
pub(super) struct Replicas {
    hosts: Slab<ReplicaHost>,
    /// For what of a disk may block, and must not do so here: each disk has a clone of it.
    helper: Helper,
    listeners: Arc<Listeners>,
    /// Flushes of all drives that had failed when the replicas were last told.
    failed_flushes: u64,
}

/// A replica that has gone, and its volume.
#[must_use = "its volume still names it"]
pub(super) struct Gone {
    pub volume: Key,
    pub replica: Key,
}

impl Replicas {
    /// None yet. Their disks begin with such a helper, and these are told of failed flushes of
    /// their drives.
    pub fn new(helper: Helper, listeners: Arc<Listeners>) -> Self {
        let failed_flushes = listeners.failures();
        Self { hosts: Slab::new(), helper, listeners, failed_flushes }
    }

    /// Opens a replica of this volume.
    pub fn open(&mut self, cx: &mut Context, volume: Key, replica: OpenReplica) -> Key {
        let OpenReplica { file, newest, layout, tables, allocation, checksums, flushes, config } =
            replica;
        let file = SharedFile::with_blocking_submission(file, layout.submission_blocks());
        let recovered = checksums;
        let found = Found { file, layout, newest, tables, allocation, recovered, flushes };
        let disk = Disk::open(found, self.helper.clone());
        let core = Replica::new(config, cx.now());
        let key = self.hosts.insert(ReplicaHost::new(volume, core, disk));
        if let Some(host) = self.hosts.get_mut(key) {
            host.arm(cx, key);
            // Since what it holds was made durable.
            report_failed_flush(cx, key, host);
        }
        key
    }

    /// Closes the file of one that is not opened, and answers then: that may wait for its disk.
    pub fn refuse(
        &self,
        replica: OpenReplica,
        refused: EngineError,
        answer: Answer<Result<(), EngineError>>,
    ) {
        self.helper.clone().close(replica.file, Box::new(move || answer(Err(refused))));
    }

    /// Those that hear something: they are not being closed.
    #[inline]
    fn open_host(&mut self, key: Key) -> Option<&mut ReplicaHost> {
        self.hosts.get_mut(key).filter(|host| !host.is_closing())
    }

    /// Whether a replica is open, and not to be closed.
    pub fn is_open(&self, key: Key) -> bool {
        self.hosts.get(key).is_some_and(|host| !host.is_closing())
    }

    /// A replica's volume and its name.
    pub fn identity(&self, key: Key) -> Option<(Key, ReplicaId)> {
        self.hosts.get(key).map(|host| (host.volume(), host.id()))
    }

    /// Tells a replica's core something; its effects are for the caller to carry out.
    #[inline]
    pub fn step(
        &mut self,
        cx: &mut Context,
        key: Key,
        event: ReplicaEvent<Buffer>,
        effects: &mut Vec<ReplicaEffect<Buffer>>,
    ) {
        if let Some(host) = self.open_host(key) {
            host.step(cx, key, event, effects);
        }
    }

    /// A wake-up of a core has come.
    pub fn timer_came(&mut self, cx: &mut Context, key: Key, at: Instant) {
        // It may have gone since it wanted that.
        if let Some(host) = self.hosts.get_mut(key)
            && host.is_due(cx, key, at)
        {
            cx.queue(Work::Replica(key, ReplicaEvent::Tick));
        }
    }

    /// Begins an action on a replica's disk.
    #[inline]
    pub fn begin(
        &mut self,
        cx: &mut Context,
        key: Key,
        ticket: DiskTicket,
        action: DiskAction<Buffer>,
    ) {
        self.with_disk(cx, key, |disk, means| disk.begin(means, ticket, action));
    }

    /// An operation on a disk has ended.
    pub fn completed(
        &mut self,
        cx: &mut Context,
        key: Key,
        job: Key,
        completion: Completion,
    ) -> Option<Gone> {
        self.with_disk(cx, key, |disk, means| disk.completed(means, job, completion));
        self.advance(cx, key)
    }

    /// A filesystem has told which parts of a range hold data.
    pub fn mapped(
        &mut self,
        cx: &mut Context,
        key: Key,
        job: Key,
        extents: io::Result<Vec<Extent>>,
    ) -> Option<Gone> {
        self.with_disk(cx, key, |disk, means| disk.mapped(means.now, job, extents));
        self.advance(cx, key)
    }

    /// Something has ended on a disk: what waited for that begins. It may be one that nobody waits
    /// for.
    fn advance(&mut self, cx: &mut Context, key: Key) -> Option<Gone> {
        let host = self.hosts.get_mut(key)?;
        report_failed_flush(cx, key, host);
        if host.disk().waits_for_space() {
            self.with_disk(cx, key, Disk::advance_space);
        }
        self.remove_if_closed(key)
    }

    /// Takes a step of making room on a replica's disk.
    pub fn make_space(&mut self, cx: &mut Context, key: Key, request: SpaceRequest) {
        self.with_disk(cx, key, |disk, means| disk.make_space(means, request));
    }

    /// A disk's helper has written a step of making room, or failed to.
    pub fn space_made(
        &mut self,
        cx: &mut Context,
        key: Key,
        result: Result<(), SpaceFailure>,
    ) -> Option<Gone> {
        self.with_disk(cx, key, |disk, means| disk.space_made(means, result));
        self.remove_if_closed(key)
    }

    /// Has a disk do something, and tells what has ended by that.
    #[inline]
    fn with_disk<E: IntoIterator<Item = Ended>>(
        &mut self,
        cx: &mut Context,
        key: Key,
        run: impl FnOnce(&mut Disk, &mut Means<'_>) -> E,
    ) {
        let Some(host) = self.hosts.get_mut(key) else {
            debug_assert!(false, "a replica stays until nothing is under way on its disk");
            return;
        };
        let all = run(host.disk_mut(), &mut cx.means(key));
        if cfg!(debug_assertions) {
            host.disk().check_invariants();
        }
        let (volume, replica) = names(host.disk());
        for Ended { ticket, outcome, failed } in all {
            if let Some((kind, reason)) = failed {
                cx.report(EngineEvent::DiskError { volume, replica, kind, reason });
            }
            if let Some(ticket) = ticket {
                // Not heard any more by a replica that is being closed.
                cx.queue(Work::Replica(key, ReplicaEvent::Disk { ticket, outcome }));
            }
        }
    }

    /// Flushes may have failed, by whoever: then the replicas are told whose drives these are.
    pub fn look_for_failed_flushes(&mut self, cx: &mut Context) {
        let failed = self.listeners.failures();
        if std::mem::replace(&mut self.failed_flushes, failed) == failed {
            return;
        }
        #[cfg(test)]
        if crate::canary::is(crate::canary::Canary::ShareNoDrive) {
            return;
        }
        for key in self.hosts.keys() {
            if let Some(host) = self.hosts.get_mut(key) {
                report_failed_flush(cx, key, host);
            }
        }
    }

    /// Closes a replica, whose links are closed, when nothing is under way on its disk. All who ask
    /// for that until then are answered when it is closed.
    pub fn close(&mut self, key: Key, answer: Answer<Result<(), EngineError>>) -> Option<Gone> {
        let Some(host) = self.hosts.get_mut(key) else {
            debug_assert!(false, "a replica is found by its identity while it is there");
            return None;
        };
        host.close_for(answer);
        self.remove_if_closed(key)
    }

    #[inline]
    fn remove_if_closed(&mut self, key: Key) -> Option<Gone> {
        if !self.hosts.get(key).is_some_and(ReplicaHost::is_closed) {
            return None;
        }
        let host = self.hosts.remove(key)?;
        let volume = host.volume();
        host.close();
        Some(Gone { volume, replica: key })
    }

    /// Has all files closed because the worker ends; returns how many.
    pub fn close_at_end(&mut self) -> usize {
        let keys = self.hosts.keys();
        let count = keys.len();
        keys.into_iter()
            .filter_map(|key| self.hosts.remove(key))
            .for_each(ReplicaHost::close_at_end);
        count
    }

    pub fn status(&self, key: Key) -> Option<OpenReplicaStatus> {
        self.hosts.get(key).map(ReplicaHost::status)
    }
}

/// The core learns of a flush that has failed, unless it was its own.
fn report_failed_flush(cx: &mut Context, key: Key, host: &mut ReplicaHost) {
    if host.disk_mut().take_failed_flush() {
        let (volume, replica) = names(host.disk());
        let reason = "a flush of its drive has failed, which may have lost what was written";
        let (kind, reason) = (Kind::Flush, reason.to_owned());
        cx.report(EngineEvent::DiskError { volume, replica, kind, reason });
        cx.queue(Work::Replica(key, ReplicaEvent::FlushFailed));
    }
}

fn names(disk: &Disk) -> (VolumeId, ReplicaId) {
    (disk.volume(), disk.replica())
}

//! A replica's driver: its core, its disk, and what happens between them.

use std::io;

use evenkeel_core::{
    Extent, Instant, LinkId, NodeId, Replica, ReplicaEffect, ReplicaEvent, ReplicaId,
};

use super::{Timer, Work, Worker};
use crate::api::{Caller, EngineEvent};
use crate::counters::Kind;
use crate::disk::{Disk, Ended, Means, RoomFailure, RoomRequest};
use crate::error::{Answer, EngineError};
use crate::memory::Buffer;
use crate::ring::Completion;
use crate::slab::Key;

/// See the module's documentation.
pub(super) struct ReplicaHost {
    pub(super) volume: Key,
    pub(super) core: Replica<Buffer>,
    pub(super) disk: Disk,
    pub(super) armed: Option<Instant>,
    /// Who has asked for the replica to be closed: to be told when its disk is.
    pub(super) closing: Vec<Answer<Result<(), EngineError>>>,
}

impl ReplicaHost {
    /// Whether it is to be closed.
    pub(super) const fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// The same, and nothing is under way on its disk.
    fn is_closed(&self) -> bool {
        self.is_closing() && self.disk.is_idle()
    }
}

impl Worker {
    pub(super) fn step_replica(&mut self, key: Key, event: ReplicaEvent<Buffer>) {
        // What came over a link that has been closed meanwhile is not heard any more.
        match &event {
            ReplicaEvent::Message { link, .. } | ReplicaEvent::LinkOpened { link }
                if !self.has_link(*link) =>
            {
                return;
            }
            ReplicaEvent::LinkClosed { link } if !self.remove_link(*link) => return,
            _ => {}
        }
        // One that is being closed hears nothing more.
        let replica = self.replicas.get_mut(key).filter(|replica| !replica.is_closing());
        let Some(replica) = replica else { return };
        let mut effects = std::mem::take(&mut self.replica_effects);
        replica.core.step(self.now, event, &mut effects);
        for effect in effects.drain(..) {
            self.replica_effect(key, effect);
        }
        self.replica_effects = effects;
        self.arm(Timer::Replica(key));
    }

    fn replica_effect(&mut self, key: Key, effect: ReplicaEffect<Buffer>) {
        match effect {
            ReplicaEffect::Send { link, message, payload } => self.send(link, message, payload),
            ReplicaEffect::Disk { ticket, action } => {
                self.with_disk(key, |disk, means| disk.begin(means, ticket, action));
            }
            ReplicaEffect::ConnectSource { replica, node } => {
                self.connect_source(key, replica, node);
            }
            ReplicaEffect::Disconnect { link } => self.close_link(Key::from_number(link.0)),
        }
    }

    /// Flushes have failed, by whoever: the replicas are told whose drives these are.
    pub(super) fn tell_failed_flushes(&mut self) {
        for key in self.replicas.keys() {
            self.tell_failed_flush(key);
        }
    }

    /// The core learns of a flush that has failed, unless it was its own.
    pub(super) fn tell_failed_flush(&mut self, key: Key) {
        if let Some(host) = self.replicas.get_mut(key)
            && host.disk.take_failed_flush()
        {
            let (volume, replica) = (host.disk.volume(), host.disk.replica());
            let reason = "a flush of its drive has failed, which may have lost what was written";
            let (kind, reason) = (Kind::Flush, reason.to_owned());
            self.tell(EngineEvent::DiskError { volume, replica, kind, reason });
            self.work.push_back(Work::Replica(key, ReplicaEvent::FlushFailed));
        }
    }

    pub(super) fn disk_completed(&mut self, key: Key, job: Key, completion: Completion) {
        self.with_disk(key, |disk, means| disk.completed(means, job, completion));
        self.disk_advanced(key);
    }

    /// Something has ended on a disk: what waited for that begins. It may be one that nobody waits
    /// for.
    fn disk_advanced(&mut self, key: Key) {
        self.tell_failed_flush(key);
        self.with_disk(key, Disk::advance_room);
        self.close_if_idle(key);
    }

    pub(super) fn make_room(&mut self, key: Key, request: RoomRequest) {
        self.with_disk(key, |disk, means| disk.make_room(means, request));
    }

    pub(super) fn room_made(&mut self, key: Key, result: Result<(), RoomFailure>) {
        self.with_disk(key, |disk, means| disk.room_made(means, result));
        self.close_if_idle(key);
    }

    /// Has a disk do something, and tells what has ended by that.
    fn with_disk<E: IntoIterator<Item = Ended>>(
        &mut self,
        key: Key,
        run: impl FnOnce(&mut Disk, &mut Means<'_>) -> E,
    ) {
        let Some(host) = self.replicas.get_mut(key) else {
            debug_assert!(false, "a replica stays until nothing is under way on its disk");
            return;
        };
        let mut means =
            Means { ring: &mut self.ring, pool: &self.pool, replica: key, now: self.now };
        let all = run(&mut host.disk, &mut means);
        let (volume, replica) = (host.disk.volume(), host.disk.replica());
        for Ended { ticket, outcome, failed } in all {
            if let Some((kind, reason)) = failed {
                self.tell(EngineEvent::DiskError { volume, replica, kind, reason });
            }
            if let Some(ticket) = ticket {
                // Not heard any more by a replica that is being closed.
                let event = ReplicaEvent::Disk { ticket, outcome };
                self.work.push_back(Work::Replica(key, event));
            }
        }
    }

    pub(super) fn disk_mapped(&mut self, key: Key, job: Key, extents: io::Result<Vec<Extent>>) {
        self.with_disk(key, |disk, means| disk.mapped(means.now, job, extents));
        self.disk_advanced(key);
    }

    /// Reaches the source of a rebuild: in memory if it is open here, else by the control plane.
    fn connect_source(&mut self, key: Key, source: ReplicaId, node: NodeId) {
        let Some(host) = self.replicas.get(key) else {
            debug_assert!(false, "a replica asks while it is open");
            return;
        };
        let (volume, caller) = (host.volume, Caller::Replica(host.disk.replica()));
        let found = self.volumes.get(volume).and_then(|volume| volume.replica(source));
        let Some(local) = found else {
            return self.ask_for_connection(volume, caller, source, node);
        };
        let (ours, theirs) = self.join_locally(volume, caller, Some(key), source, local);
        self.work.push_back(Work::Replica(local, ReplicaEvent::LinkOpened { link: theirs }));
        self.source_link(key, source, Some(ours));
    }

    pub(super) fn source_link(&mut self, key: Key, replica: ReplicaId, link: Option<LinkId>) {
        self.work.push_back(Work::Replica(key, ReplicaEvent::SourceLink { replica, link }));
    }

    /// Closes a replica's links; its disk is closed when it is idle. All who ask for that until then
    /// are answered when it is closed.
    pub(super) fn close_replica(&mut self, key: Key, answer: Answer<Result<(), EngineError>>) {
        self.close_links_of_replica(key);
        let Some(host) = self.replicas.get_mut(key) else {
            debug_assert!(false, "a replica is found by its identity while it is there");
            return;
        };
        host.closing.push(answer);
        let (volume, id) = (host.volume, host.disk.replica());
        if let Some(volume) = self.volumes.get_mut(volume) {
            volume.connects.retain(|_, (caller, ..)| *caller != Caller::Replica(id));
        }
        self.close_if_idle(key);
    }

    /// Ends the closing of a replica when nothing is under way on its disk.
    fn close_if_idle(&mut self, key: Key) {
        let is_closed = self.replicas.get(key).is_some_and(ReplicaHost::is_closed);
        let closed = is_closed.then(|| self.replicas.remove(key)).flatten();
        let Some(host) = closed else { return };
        if let Some(volume) = self.volumes.get_mut(host.volume) {
            volume.replicas.retain(|(_, replica)| *replica != key);
        }
        self.forget_unused_volume(host.volume);
        let answers = host.closing;
        host.disk.close(Box::new(move || answers.into_iter().for_each(|answer| answer(Ok(())))));
    }
}

//! Stale clones of disks: made at some time, as a backup or a snapshot is, and put back later.

use evenkeel_core::{Incarnation, ReplicaId, ReplicaRecord, ReplicaState};

use super::replicas::SimReplica;
use super::{Cluster, Event};
use crate::marks::Mark;
use crate::oracles::fencing::Fence;
use crate::queue::{MILLISECOND, Time};
use crate::store::Store;

impl Cluster {
    /// Copies the disk of a replica, or puts a copy back.
    pub(super) fn copy_disk_or_put_back(&mut self, replica: usize, pause: Time) {
        if self.random.chance(500) {
            let replicas = 0..self.replicas.len();
            let possible: Vec<_> = replicas
                .filter(|replica| self.is_shown_by_its_incarnation(*replica))
                .filter(|replica| self.is_dispensable(*replica))
                .collect();
            if !possible.is_empty() {
                let replica = self.random.pick(&possible);
                self.put_back(replica, pause);
            }
            return;
        }
        // A copy has to be old to be worth anything.
        if self.replicas[replica].copy.is_some() && self.random.chance(800) {
            return;
        }
        let mut copy = self.replicas[replica].disk.clone();
        // Of what runs, a copy shows what a power cut would leave.
        copy.forget_dropped(&mut self.random);
        copy.power_cut(&mut self.random);
        self.replicas[replica].copy = Some(copy);
    }

    fn record(&self, replica: usize) -> Option<ReplicaRecord> {
        let id = self.replicas[replica].id;
        self.coordinator.newest().replica(id).map(|(_, record)| *record)
    }

    /// Whether the newest view names an incarnation that began after the copy was made: a copy of
    /// the same incarnation can't be told, by nobody.
    fn is_shown_by_its_incarnation(&self, replica: usize) -> bool {
        let copy = self.replicas[replica].copy.as_ref().and_then(Store::examine);
        let record = self.record(replica);
        copy.zip(record).is_some_and(|(copy, record)| !copy.incarnations.knows(record.incarnation))
    }

    /// Whether another replica of its mirror has all data, too: what is left of a mirror otherwise
    /// is the stale clone.
    fn is_dispensable(&self, replica: usize) -> bool {
        if self.record(replica).is_some_and(|record| record.state != ReplicaState::InSync) {
            return true;
        }
        let slot = &self.replicas[replica];
        let Some(mirror) = self.coordinator.newest().mirrors.get(slot.mirror) else { return false };
        let is_whole = |record: &ReplicaRecord| {
            let mut slots = self.replicas.iter();
            slots.any(|other| {
                let has_failed = other.failed_change == Some((record.incarnation, record.since));
                let is_sound = !other.is_old && other.lost.is_empty() && !has_failed;
                other.id == record.id && other.id != slot.id && is_sound
            })
        };
        mirror.in_sync().any(is_whole)
    }

    fn put_back(&mut self, replica: usize, pause: Time) {
        self.log(|| format!("   a stale clone of the disk of replica {replica} is put back"));
        self.replica_dies(replica, true);
        let Some(copy) = self.replicas[replica].copy.take() else { return };
        let mut copy = self.passing_for(&self.replicas[replica].disk, copy);
        let slot = &mut self.replicas[replica];
        copy.extend(slot.disk.sectors());
        let newest = (std::mem::replace(&mut slot.disk, copy), std::mem::take(&mut slot.lost));
        if !slot.is_old {
            slot.newest_disk = Some(newest);
        }
        slot.is_old = true;
        // Until it starts it has no incarnation: the one that rebuilt may be about to become
        // in-sync.
        slot.incarnation = Incarnation(0);
        // What it promised, its disk has forgotten.
        slot.fence = Fence::default();
        slot.joined.clear();
        self.begins_with_another_disk(replica, pause);
    }

    /// An attach ended because nothing else was there than a stale clone: its operator puts the
    /// newest disk back, if it is there.
    pub(super) fn put_newest_back(&mut self, id: ReplicaId) {
        let is_meant = |slot: &SimReplica| slot.id == id && slot.is_old;
        let Some(replica) = self.replicas.iter().position(is_meant) else { return };
        let Some((mut disk, lost)) = self.replicas[replica].newest_disk.take() else { return };
        if !self.faulty {
            // It was in no machine when all were put in order.
            disk.repair_all();
            disk.extend(self.replicas[replica].disk.sectors());
        }
        self.log(|| format!("   the newest disk of replica {replica} is put back"));
        self.marks.reach(Mark::NewestPutBack);
        self.replica_dies(replica, true);
        let slot = &mut self.replicas[replica];
        (slot.disk, slot.lost, slot.is_old) = (disk, lost, false);
        self.begins_with_another_disk(replica, MILLISECOND);
    }

    fn begins_with_another_disk(&mut self, replica: usize, pause: Time) {
        for sector in 0..self.replicas[replica].disk.sectors() {
            self.order.forget(replica, sector);
        }
        // As the kernel counts disks that appear.
        self.replicas[replica].swaps += 1;
        self.replicas[replica].tables.forget();
        let starts = self.replicas[replica].starts;
        self.queue.push(self.now + pause, Event::ReplicaStarts { replica, starts });
    }

    /// Replicas with old disks that are known to lack everything are like any other such replica.
    pub(super) fn note_distrust(&mut self) {
        for replica in 0..self.replicas.len() {
            let record = self.record(replica);
            // One that rebuilt before with another disk may be about to become in-sync, see
            // `put_back`.
            let incarnation = self.replicas[replica].incarnation;
            let is_out = |r: ReplicaRecord| !r.state.takes_writes() || r.incarnation == incarnation;
            let lacks_all = |r: ReplicaRecord| {
                r.state != ReplicaState::InSync && r.missing_since.is_none() && is_out(r)
            };
            if self.replicas[replica].is_old && record.is_none_or(lacks_all) {
                self.replicas[replica].is_old = false;
                self.replicas[replica].newest_disk = None;
            }
        }
    }
}

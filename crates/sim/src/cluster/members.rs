//! Operators who change who belongs to the mirrors, and by which protocol writes are acknowledged.

use std::cmp::Ordering;

use evenkeel_core::primary::Command;
use evenkeel_core::*;

use super::{Cluster, Event, replicas};
use crate::marks::Mark;
use crate::payload::SECTOR;

/// Replicas of a mirror above which operators rather take one out.
const MANY: usize = 6;

impl Cluster {
    /// An operator does something to the mirror of this replica.
    pub(super) fn change_members(&mut self, replica: usize) {
        let mirror = self.replicas[replica].mirror;
        let records = self.coordinator.newest().mirrors[mirror].replicas.clone();
        let chosen = records[self.random.index(records.len())].id;
        let draw = self.random.below(14);
        // Now and then the most that a mirror may have is met.
        let is_full = records.len() >= MANY && !self.random.chance(20);
        match draw {
            0..=5 if is_full => self.command_somewhere(Command::Retire(chosen)),
            0 | 1 => self.add_replica(mirror, Role::Own),
            2 | 3 => self.add_replica(mirror, Role::Spare(None)),
            4..=7 => self.add_replica(mirror, Role::Replaces(chosen)),
            8 | 9 => self.command_somewhere(Command::Retire(chosen)),
            10 | 11 => self.grow(),
            _ => {
                let protocol = self.random.pick(&[Protocol::A, Protocol::B, Protocol::C]);
                self.command_somewhere(Command::Change(view::Change::Protocol(protocol)));
            }
        }
    }

    /// Makes a replica on some node's disk, and tells a primary of it. Its superblocks hold the
    /// newest view, which does not know it yet.
    fn add_replica(&mut self, mirror: usize, role: Role) {
        let Some(primary) = self.serving_primary() else { return };
        if !self.coordinator.is_usable() {
            return;
        }
        let up: Vec<_> = (0..self.nodes.len()).filter(|node| self.nodes[*node].up).collect();
        if up.is_empty() {
            return;
        }
        let node = self.random.pick(&up);
        let view = self.coordinator.newest().clone();
        let replica = self.replicas.len();
        let id = ReplicaId(replica as u128 + 1);
        let place = replicas::Place { id, mirror, node };
        let mut slot = replicas::make(&view, place);
        if self.profile.forgets_checksums {
            slot.disk.keep_checksums();
        }
        self.replicas.push(slot);
        self.queue.push(self.now, Event::ReplicaStarts { replica, starts: 0 });
        let node = NodeId(node as u128 + 1);
        self.command(primary, Command::Add(Newcomer { id, node, mirror, role }));
    }

    /// All replicas of the newest view make room, then a primary is told to use it. One that joins
    /// meanwhile may lack the room: it can't adopt the view.
    fn grow(&mut self) {
        let Some(primary) = self.serving_primary() else { return };
        if !self.coordinator.is_usable() {
            return;
        }
        let block = self.profile.geometry.block_size / SECTOR;
        let more = self.random.between(1, 40) as u32 * block;
        let sectors = (self.sectors + more).min(self.profile.max_sectors() / block * block);
        let size = u64::from(sectors) * u64::from(SECTOR);
        let view = self.coordinator.newest().clone();
        if view.geometry.size >= size {
            return;
        }
        let geometry = Geometry { size, ..view.geometry };
        let length = stripe::replica_size(geometry, view.mirrors.len());
        for slot in &mut self.replicas {
            if view.replica(slot.id).is_some() {
                slot.disk.extend((length / u64::from(SECTOR)) as u32);
            }
        }
        self.command(primary, Command::Grow(size));
    }

    /// The volume has become larger: clients use it.
    pub(super) fn grown(&mut self, size: u64) {
        self.marks.reach(Mark::Grown);
        self.sectors = self.sectors.max((size / u64::from(SECTOR)) as u32);
    }

    /// Whether the volume has ever become larger.
    pub(super) fn has_grown(&self) -> bool {
        self.sectors > self.profile.sectors() || self.coordinator.was_touched
    }

    /// A view was committed: notes what it does to the members.
    pub(super) fn mark_members(&mut self, before: &View, after: &View) {
        for (_, record) in after.replicas() {
            let old = before.replica(record.id).map(|(_, old)| *old);
            let role = old.map(|old| old.role);
            let was = old.map(|old| old.state);
            let mark = match (was, role, record.state, record.role) {
                (None, _, _, Role::Own) => Mark::Added,
                (None, _, _, Role::Spare(_)) => Mark::SpareGiven,
                (Some(_), Some(Role::Replaces(_)), ReplicaState::InSync, _) => Mark::Replaced,
                (Some(ReplicaState::Spare), _, ReplicaState::Rebuilding, _) => Mark::StoodIn,
                (_, Some(Role::Spare(Some(_))), ReplicaState::Spare, _) => Mark::SpareReturned,
                _ => continue,
            };
            self.marks.reach(mark);
        }
        let is_gone = |record: &ReplicaRecord| after.replica(record.id).is_none();
        let gone: Vec<_> = before.replicas().map(|(_, r)| *r).filter(is_gone).collect();
        for record in gone {
            self.forget_losses(record.id);
            if record.state == ReplicaState::InSync {
                self.marks.reach(Mark::RetiredInSync);
            }
        }
        if before.protocol != after.protocol {
            self.marks.reach(Mark::ProtocolChanged);
        }
        match after.lease.time().cmp(&before.lease.time()) {
            Ordering::Less if after.has_several_primaries() => {
                self.marks.reach(Mark::LeaseShortened);
            }
            Ordering::Greater => self.marks.reach(Mark::LeaseLengthened),
            Ordering::Less | Ordering::Equal => {}
        }
        self.mark_intents(before, after);
        self.relaxed |= after.protocol != Protocol::C;
    }
}

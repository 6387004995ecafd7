//! Blocks whose checksums a disk has forgotten, and whose bits rot then: it returns garbage, and
//! says only that nothing vouches for it (I9).
//!
//! What rots is always vouched for by another in-sync replica. When that one goes too, the data
//! would be lost and nobody to blame: then the bits count as whole again. So does what was on its
//! way meanwhile, if it was right to take it.

use std::collections::{BTreeMap, HashMap};

use evenkeel_core::replica::DiskOutcome;
use evenkeel_core::*;

use super::Cluster;
use super::clients::{Kind, Request};
use super::disks::{ChangeKind, Work};
use super::replicas::SimReplica;
use crate::disk;
use crate::marks::Mark;
use crate::network::Party;
use crate::oracles::registers::Moment;
use crate::payload::{Cell, SECTOR, Sectors, as_garbage, garbage};
use crate::sabotage::Sabotage;

/// Beside how many of 1,000 faults bits rot where no checksum tells, if any can.
const ROTS: u64 = 800;

/// How often clients read what has rotted so: replicas take turns.
const READS_OF_ROTTEN: u64 = 3;

/// All garbage that disks have returned.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    of: Vec<Rotten>,
    numbers: HashMap<Rotten, u32>,
    /// When a primary last received garbage from a sector of a mirror.
    received: BTreeMap<(usize, usize, u32), Moment>,
}

/// A sector that was read as garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Rotten {
    replica: usize,
    sector: u32,
    /// What was written there.
    written: Cell,
}

impl Garbage {
    /// What a disk returns of the sector: the same as long as the same was written there.
    fn returned(&mut self, rotten: Rotten) -> Cell {
        let next = self.of.len() as u32;
        let number = *self.numbers.entry(rotten).or_insert(next);
        if number == next {
            self.of.push(rotten);
        }
        garbage(number)
    }

    fn find(&self, cell: Cell) -> Option<Rotten> {
        self.of.get(as_garbage(cell)? as usize).copied()
    }

    /// What was written where the garbage is.
    fn whole(&self, cell: Cell) -> Cell {
        self.find(cell).map_or(cell, |rotten| rotten.written)
    }
}

impl Cluster {
    /// A disk reads these sectors, of which some may be garbage.
    pub(super) fn read_unverified(
        &mut self,
        replica: usize,
        first: u32,
        cells: Sectors,
    ) -> DiskOutcome<Sectors> {
        let sectors = first..first + cells.cells().len() as u32;
        let disk = &self.replicas[replica].disk;
        for sector in disk.garbled(sectors.clone()) {
            if !self.is_vouched_for(replica, sector) {
                self.replicas[replica].disk.restore(sector..sector + 1);
            }
        }
        let disk = &self.replicas[replica].disk;
        let unverified = disk.unverified(sectors.clone());
        let mut cells = cells.cells().to_vec();
        for sector in disk.garbled(sectors) {
            let cell = &mut cells[(sector - first) as usize];
            *cell = self.garbage.returned(Rotten { replica, sector, written: *cell });
        }
        let cells = Sectors::new(cells.into_iter());
        match unverified {
            Some(what) if what.is_forgotten() => {
                self.marks.reach(Mark::ForgottenRead);
                match self.sabotage {
                    Some(Sabotage::TrustForgotten) => DiskOutcome::Data(cells),
                    _ => DiskOutcome::Unverified(cells, what),
                }
            }
            Some(what) => DiskOutcome::Unverified(cells, what),
            None => DiskOutcome::Data(cells),
        }
    }

    /// Whether another in-sync replica that runs has the block of a sector with its checksum.
    pub(super) fn is_vouched_for(&self, replica: usize, sector: u32) -> bool {
        let mut others = 0..self.replicas.len();
        others.any(|other| other != replica && self.vouches(replica, other, sector))
    }

    fn vouches(&self, replica: usize, other: usize, sector: u32) -> bool {
        let slot = &self.replicas[other];
        let is_whole = |slot: &SimReplica| {
            let is_there = slot.mirror == self.replicas[replica].mirror && slot.core.is_some();
            is_there
                && !slot.is_old
                && sector < slot.disk.sectors()
                && slot.disk.vouches_for(sector)
        };
        is_whole(slot) && self.is_in_sync_now(slot)
    }

    fn is_in_sync_now(&self, slot: &SimReplica) -> bool {
        let record = self.coordinator.newest().replica(slot.id).map(|(_, record)| *record);
        record.is_some_and(|record| {
            record.state == ReplicaState::InSync && record.incarnation == slot.incarnation
        })
    }

    /// A primary receives what a replica has read.
    pub(super) fn note_garbage(&mut self, primary: usize, payload: Option<&Sectors>) {
        let Some(payload) = payload else { return };
        let found = payload.cells().iter().filter_map(|cell| self.garbage.find(*cell));
        for rotten in found.collect::<Vec<_>>() {
            let place = (primary, self.replicas[rotten.replica].mirror, rotten.sector);
            self.garbage.received.insert(place, self.moment);
        }
    }

    /// Whether a primary has received garbage from any of these sectors of the volume since.
    pub(super) fn met_garbage(
        &self,
        primary: usize,
        first: u32,
        count: u32,
        since: Moment,
    ) -> bool {
        let received = |mirror, sector| self.garbage.received.get(&(primary, mirror, sector));
        !self.garbage.received.is_empty()
            && self.parts(first, count).iter().any(|part| {
                let mut sectors = part.replica_sector..part.replica_sector + part.count;
                sectors.any(|s| received(part.mirror, s).is_some_and(|at| *at >= since))
            })
    }

    /// What a client reads, judged, with what was written in the place of garbage.
    pub(super) fn without_garbage(
        &mut self,
        primary: usize,
        asked: &Request,
        reply: Reply<Sectors>,
    ) -> Reply<Sectors> {
        let Reply::Data(pieces) = reply else { return reply };
        let Kind::Read { first, count } = *asked.kind() else { return Reply::Data(pieces) };
        let is_garbage = |(_, piece): &(u32, Sectors)| {
            piece.cells().iter().any(|cell| self.garbage.find(*cell).is_some())
        };
        if !pieces.iter().any(is_garbage) {
            if self.met_garbage(primary, first, count, asked.invoked()) {
                self.marks.reach(Mark::ForgottenVouched);
            }
            return Reply::Data(pieces);
        }
        let mut whole = |piece: &Sectors| {
            let cells: Vec<_> = piece.cells().to_vec();
            let cells = cells.into_iter().map(|cell| self.judge_garbage(primary, asked, cell));
            Sectors::new(cells.collect::<Vec<_>>().into_iter())
        };
        Reply::Data(pieces.iter().map(|(from, piece)| (*from, whole(piece))).collect())
    }

    /// I9: a client gets no garbage while another in-sync replica answers that has the block with
    /// its checksum. Returns what it would have got from that one.
    fn judge_garbage(&mut self, primary: usize, asked: &Request, cell: Cell) -> Cell {
        let Some(rotten) = self.garbage.find(cell) else { return cell };
        let others = 0..self.replicas.len();
        let mut others = others.filter(|other| *other != rotten.replica);
        let better = others.find(|other| {
            self.vouches(rotten.replica, *other, rotten.sector)
                && self.has_answered(primary, *other, asked)
        });
        if let Some(other) = better {
            let Rotten { replica, sector, .. } = rotten;
            self.fail("I9", format!(
                "primary {primary} reads garbage of replica {replica}, sector {sector}; replica {other} has it with its checksum"
            ));
        }
        self.garbage.whole(cell)
    }

    /// Whether nothing can have kept a primary from asking a replica since the request was made.
    fn has_answered(&self, primary: usize, replica: usize, asked: &Request) -> bool {
        let (slot, other) = (&self.primaries[primary], &self.replicas[replica]);
        let settings = &self.profile.own_settings[slot.node];
        // Clocks differ by less.
        let is_quick = self.now - asked.at < settings.deadline.as_nanos() as u64 * 9 / 10;
        let changed = self.committed_at.max(slot.view_since).max(slot.paused_until);
        let is_calm = changed < asked.at;
        let can_read = other.failed_read < asked.at;
        let is_linked = self.network.links.range(..=asked.newest_link).any(|(_, link)| {
            let ends = [Party::Primary(primary), Party::Replica(replica, other.starts)];
            !link.cut && [link.ends[0].party, link.ends[1].party] == ends
        });
        let status = slot.core.status(self.nodes[slot.node].clock(self.now));
        let peer = status.replicas.iter().find(|peer| peer.replica == other.id);
        // Whoever is to leave because it is slow is asked as long as it is there, unless its disk
        // fails as well.
        let is_only_slow = |(_, cause): (ReplicaState, view::Cause)| {
            matches!(cause, view::Cause::Late | view::Cause::Lagging | view::Cause::Disconnected)
                && !self.profile.disks_fail()
        };
        let is_used = peer.is_some_and(|p| {
            p.connected && p.leaving.is_none_or(is_only_slow) && !p.may_be_out_of_sync
        });
        // Of what was committed it may not have heard.
        let own = slot.core.view().and_then(|view| view.replica(other.id));
        let is_used = is_used && own.is_some_and(|(_, r)| r.state == ReplicaState::InSync);
        is_quick && is_calm && can_read && is_linked && is_used
    }

    /// I9: no repair writes garbage over a copy that a checksum vouches for, and no rebuild gives
    /// garbage a checksum. Returns what is written then.
    pub(super) fn judge_repair(&mut self, replica: usize, mut work: Work) -> Work {
        let Work::Change { first, cells, kind, .. } = &mut work else { return work };
        let (begins, is_copy) = (*first, matches!(kind, ChangeKind::Copy { .. }));
        if matches!(kind, ChangeKind::Copy { forgotten } if forgotten.iter().any(|word| *word != 0))
        {
            self.marks.reach(Mark::ForgottenCopied);
        }
        let mut wrong = None;
        for (sector, cell) in (begins..).zip(cells.iter_mut()) {
            let Some(rotten) = self.garbage.find(*cell) else { continue };
            let block = sector / disk::BLOCK;
            let is_wrong = match is_copy {
                true => !kind.forgets(block, begins),
                false => self.replicas[replica].disk.vouches_for(sector),
            };
            if is_wrong {
                wrong = Some((rotten, sector));
            }
            *cell = rotten.written;
        }
        if let Some((rotten, sector)) = wrong {
            let from = rotten.replica;
            let harm =
                if is_copy { "give it a checksum" } else { "overwrite a copy that fits its own" };
            self.fail("I9", format!(
                "replica {replica} is to write garbage of replica {from} to sector {sector}, and to {harm}"
            ));
        }
        work
    }

    /// Beside some faults bits rot where no checksum tells.
    pub(super) fn rot_forgotten(&mut self) {
        if !self.profile.forgets_checksums || !self.random.chance(ROTS) {
            return;
        }
        let replicas = 0..self.replicas.len();
        let rottable =
            |replica: usize| self.rottable(replica).into_iter().map(move |s| (replica, s));
        let rottable: Vec<_> = replicas.flat_map(rottable).collect();
        if !rottable.is_empty() {
            let (replica, sector) = self.random.pick(&rottable);
            if self.can_damage(replica, sector) {
                self.log(|| format!("   sector {sector} rots on replica {replica}, unseen"));
                self.replicas[replica].disk.damage(sector);
                self.read_rotten(replica, sector);
            }
        }
    }

    /// Clients read what has just rotted.
    fn read_rotten(&mut self, replica: usize, sector: u32) {
        let (geometry, mirrors) = (self.profile.geometry, self.profile.placement.len());
        let mirror = self.replicas[replica].mirror;
        let offset = u64::from(sector) * u64::from(SECTOR);
        let offset = stripe::volume_offset(geometry, mirrors, mirror, offset);
        // Requests are of whole blocks of the volume.
        let block = self.profile.geometry.block_size / SECTOR;
        let first = (offset / u64::from(SECTOR)) as u32 / block * block;
        for primary in self.serving_primaries() {
            for _ in 1..READS_OF_ROTTEN {
                self.issue_read_of(primary, first, block);
            }
            // With its neighbour, which another replica may have forgotten.
            self.issue_read_of(primary, first, 2 * block);
        }
    }

    /// Where a block of a disk can rot while nothing vouches for it there, and another replica
    /// vouches for it.
    fn rottable(&self, replica: usize) -> Vec<u32> {
        let disk = &self.replicas[replica].disk;
        let step = settings::BLOCK / SECTOR;
        let blocks = (0..disk.sectors()).step_by(step as usize);
        blocks
            .filter(|sector| disk.has_forgotten(*sector) && self.is_vouched_for(replica, *sector))
            .collect()
    }
}

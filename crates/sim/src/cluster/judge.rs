//! What happens in the cluster, told to the oracles.

use std::ops::Range;

use evenkeel_core::replica::ALL_OPEN;
use evenkeel_core::*;

use super::Cluster;
use crate::marks::Mark;
use crate::oracles::agreement::{self, Member};
use crate::payload::{Cell, SECTOR, Sectors, stamp, stamped};
use crate::queue::MILLISECOND;

/// How often one life of a replica may refuse the same thing: more is a loop without a pause.
const MOST_REFUSALS: u32 = 2_000;

/// A run of sectors of the volume that lies on one mirror, and where.
#[derive(Debug, Clone, Copy)]
struct Part {
    mirror: usize,
    volume_sector: u32,
    replica_sector: u32,
    count: u32,
}

impl Cluster {
    fn parts(&self, first: u32, count: u32) -> Vec<Part> {
        let (geometry, mirrors) = (self.profile.geometry, self.profile.placement.len());
        let sector = u64::from(SECTOR);
        let (offset, length) = (u64::from(first) * sector, u64::from(count) * sector);
        stripe::pieces(geometry, mirrors, offset, length, 1 << 30)
            .map(|piece| Part {
                mirror: piece.mirror,
                volume_sector: first + (piece.from / sector) as u32,
                replica_sector: (piece.offset / sector) as u32,
                count: piece.length / SECTOR,
            })
            .collect()
    }

    /// A replica begins to change its disk.
    pub(super) fn judge_change(&mut self, replica: usize, action: &DiskAction<Sectors>) {
        if let DiskAction::Write { payload, .. } = action
            && let Some(sent) = payload.arrived()
        {
            let slot = &self.replicas[replica];
            let verdict = slot.fence.changes(replica, sent, slot.adopted);
            self.judge(verdict);
            self.judge_intent(replica, action);
        } else {
            self.judge_copy(replica, action);
        }
    }

    /// I7: a rebuild copies only what it must, if it is known what that is.
    fn judge_copy(&mut self, replica: usize, action: &DiskAction<Sectors>) {
        let DiskAction::Write { offset, payload } = action else { return };
        let slot = &self.replicas[replica];
        let view = slot.core.as_ref().map(|core| core.status().view);
        let record = view.as_ref().and_then(|view| view.replica(slot.id)).map(|(_, r)| *r);
        if record.is_none_or(|record| record.missing_since.is_none()) {
            return;
        }
        let mut regions = self.regions(*offset, u64::from(payload.length()));
        let mirror = slot.mirror;
        let verdict = regions.try_for_each(|n| self.minimal.copies(replica, (mirror, n)));
        self.judge(verdict);
    }

    /// I5: a write begins only when all regions that it touches are open on the disk.
    fn judge_intent(&mut self, replica: usize, action: &DiskAction<Sectors>) {
        let DiskAction::Write { offset, payload } = action else { return };
        let region = self.profile.layout.region;
        let end = offset + u64::from(payload.length());
        let open = &self.replicas[replica].open_regions;
        if open.contains(&ALL_OPEN) {
            return;
        }
        let closed = (offset / region..end.div_ceil(region)).find(|region| !open.contains(region));
        if let Some(closed) = closed {
            self.fail(
                "I5",
                format!(
                    "replica {replica} writes to region {closed}, which is not open on its disk"
                ),
            );
        }
    }

    /// The regions of the intent log that a range touches.
    pub(super) fn regions(&self, offset: u64, length: u64) -> Range<u64> {
        let region = self.profile.layout.region;
        offset / region..(offset + length).div_ceil(region)
    }

    /// A replica says something.
    pub(super) fn judge_answer(&mut self, replica: usize, message: &Message) {
        let slot = &mut self.replicas[replica];
        match message {
            Message::Adopted { generation } => {
                let under_way = slot.pending.values().filter_map(|p| p.changes_data_of());
                slot.joined.entry(*generation).or_insert(self.moment);
                let verdict = slot.fence.answers(replica, *generation, under_way);
                self.judge(verdict);
            }
            Message::Data { id } => {
                let verdict = slot.fence.reads(replica, id.generation, slot.adopted);
                self.judge(verdict);
            }
            Message::Refused { sequence, .. } => {
                let times = slot.refused.entry(*sequence).or_insert(0);
                *times += 1;
                let too_often = *times > MOST_REFUSALS;
                self.marks.reach(Mark::Refused);
                if too_often {
                    self.fail(
                        "I11",
                        format!("replica {replica} is asked for {sequence:?} again and again"),
                    );
                }
            }
            Message::DiskFailed { .. } => self.marks.reach(Mark::DiskFailed),
            _ => {}
        }
    }

    /// A primary says for the first time that it serves: what crashes took back is now history.
    pub(super) fn begins_to_serve(&mut self, primary: usize) {
        if std::mem::replace(&mut self.primaries[primary].served, true) {
            return;
        }
        let moment = self.tick_moment();
        let volume = 0..self.sectors;
        let parts = self.parts(volume.start, volume.end);
        let is_relaxed = self.coordinator.newest().protocol != Protocol::C;
        let volatile = std::mem::replace(&mut self.relaxed, is_relaxed);
        let mut lost = vec![volatile; volume.len()];
        for slot in self.replicas.iter().filter(|slot| !slot.lost.is_empty()) {
            for part in parts.iter().filter(|part| part.mirror == slot.mirror) {
                for n in 0..part.count {
                    if slot.lost.contains(&(part.replica_sector + n)) {
                        lost[(part.volume_sector + n) as usize] = true;
                    }
                }
            }
        }
        self.registers.serving(primary, moment, |sector| lost[sector as usize]);
        self.replicas.iter_mut().for_each(|slot| slot.lost.clear());
    }

    /// A replica is not in-sync any more: what its machine took back can't be read from it.
    pub(super) fn forget_losses(&mut self, replica: ReplicaId) {
        if let Some(slot) = self.replicas.iter_mut().find(|slot| slot.id == replica) {
            slot.lost.clear();
        }
    }

    /// I4: the primary acknowledges this write.
    pub(super) fn judge_acknowledgement(&mut self, primary: usize, write: u32, durable: bool) {
        let slot = &self.primaries[primary];
        let Some(view) = slot.core.status(self.nodes[slot.node].clock(self.now)).view else {
            return self.fail(
                "I4",
                format!("primary {primary} acknowledges write #{write} without a view"),
            );
        };
        let Some(change) = self.registers.change(write).cloned() else { return };
        for part in self.parts(change.first, change.count) {
            let members = view.mirrors[part.mirror].members();
            let members: Vec<_> =
                members.filter_map(|record| self.member(record, write, part, primary)).collect();
            let verdict = agreement::check(view.protocol, durable, &members);
            self.judge(verdict.map_err(|mut violation| {
                let (first, count) = (part.volume_sector, part.count);
                violation.text += &format!(" (write #{write}, sectors {first}+{count})");
                violation
            }));
        }
    }

    /// What is to be seen of a part of a write at one member.
    fn member(
        &self,
        record: &ReplicaRecord,
        write: u32,
        part: Part,
        primary: usize,
    ) -> Option<Member> {
        let replica = self.replicas.iter().position(|slot| slot.id == record.id)?;
        let slot = &self.replicas[replica];
        let change = self.registers.change(write)?;
        // It answered the view that made it a member after the write began: the copy brings it.
        let joined = slot.joined.range(record.since..).next().map_or(self.moment, |(_, at)| *at);
        let came_later = record.state == ReplicaState::Rebuilding && change.invoked <= joined;
        let holds = |content: &dyn Fn(u32) -> Cell| {
            (0..part.count).all(|n| {
                let cell = content(part.replica_sector + n);
                self.registers.supersedes(part.volume_sector + n, cell, write)
            })
        };
        Some(Member {
            replica,
            in_sync: record.state == ReplicaState::InSync,
            local: slot.node == self.primaries[primary].node,
            written: holds(&|s| slot.disk.content(s)),
            durable: holds(&|s| slot.disk.durable_content(s)),
            received: change.zero || slot.received.contains(&stamp(write, part.volume_sector)),
            excused: came_later || slot.ended > change.invoked,
        })
    }

    /// I6: the in-sync replicas of each mirror hold the same bytes. `alive`: of those only that run.
    pub(super) fn judge_convergence(&mut self, when: &str) {
        let view = self.coordinator.newest().clone();
        for mirror in &view.mirrors {
            let members: Vec<_> = mirror
                .in_sync()
                .filter_map(|r| self.replicas.iter().position(|slot| slot.id == r.id))
                .filter(|replica| self.replicas[*replica].core.is_some())
                .collect();
            for pair in members.windows(2) {
                let (a, b) = (&self.replicas[pair[0]].disk, &self.replicas[pair[1]].disk);
                // One may have made room for a growth that did not come.
                let sectors = a.sectors().min(b.sectors());
                let different = (0..sectors).find(|s| a.content(*s) != b.content(*s));
                if let Some(sector) = different {
                    let contents = (a.content(sector), b.content(sector));
                    let names = [contents.0, contents.1].map(|cell| stamped(cell).0);
                    self.fail("I6", format!(
                        "{when}: in-sync replicas {} and {} differ in their sector {sector}: writes #{} and #{}",
                        pair[0], pair[1], names[0], names[1]
                    ));
                }
            }
        }
    }

    /// A volume was detached cleanly: everything is flushed and equal, and the view says so.
    pub(super) fn judge_clean_detach(&mut self, primary: usize) {
        self.registers.detached(primary);
        let view = self.coordinator.newest();
        if view.primaries.contains(&self.primaries[primary].id) {
            self.fail("I6", format!("primary {primary} detached, but the newest view names it"));
        } else if view.primaries.is_empty() {
            self.judge_convergence("after a clean detach");
        }
    }

    /// A write is told as acknowledged when it is sent: only the canary does that.
    pub(super) fn acknowledge_early(&mut self, primary: usize, cell: u64) {
        let (write, _) = stamped(cell);
        if self.random.below(MILLISECOND) < MILLISECOND / 50 {
            self.judge_acknowledgement(primary, write, false);
        }
    }
}

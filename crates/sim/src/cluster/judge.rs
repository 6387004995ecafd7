//! Passes what happens in the cluster to the oracles.

use std::ops::Range;

use evenkeel_core::message::CopyContent;
use evenkeel_core::replica::OpenRegions;
use evenkeel_core::*;

use super::Cluster;
use super::replicas::SimReplica;
use crate::marks::Mark;
use crate::network::Party;
use crate::oracles::agreement::{self, Member};
use crate::oracles::lines;
use crate::oracles::registers::Change;
use crate::payload::{Cell, SECTOR, Sectors, stamp, stamped};
use crate::queue::MILLISECOND;

/// How often one incarnation of a replica may refuse the same thing: more is a loop without a
/// pause.
const MAX_REFUSALS: u32 = 2_000;

/// A run of sectors of the volume that lies on one mirror, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub mirror: usize,
    pub volume_sector: u32,
    pub replica_sector: u32,
    pub count: u32,
}

impl Cluster {
    pub(super) fn parts(&self, first: u32, count: u32) -> Vec<Part> {
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
        if let DiskAction::Write { offset, payload, .. } = action
            && let Some(sent) = payload.arrived()
        {
            let slot = &self.replicas[replica];
            let verdict = slot.fence.changes(replica, sent.generation, slot.adopted);
            self.judge(verdict);
            self.judge_intent(replica, *offset, payload.length());
        } else if let DiskAction::Zero { offset, length, .. } = action
            && self.is_in_sync(replica)
        {
            // Else it may be a rebuild's, whose source remembers it until it is durable.
            self.judge_intent(replica, *offset, *length);
        } else {
            self.judge_copy(replica, action);
        }
    }

    /// Whether a replica is in-sync by the view that it has adopted.
    fn is_in_sync(&self, replica: usize) -> bool {
        let slot = &self.replicas[replica];
        let view = slot.core.as_ref().map(|core| core.view().clone());
        let record = view.as_ref().and_then(|view| view.replica(slot.id)).map(|(_, r)| *r);
        record.is_some_and(|record| record.state == ReplicaState::InSync)
    }

    /// I7: a rebuild copies only what it must, if it is known what that is.
    fn judge_copy(&mut self, replica: usize, action: &DiskAction<Sectors>) {
        let DiskAction::Write { offset, payload, .. } = action else { return };
        if self.is_relaid {
            // What is open has been rounded to regions of another size.
            return;
        }
        let slot = &self.replicas[replica];
        let view = slot.core.as_ref().map(|core| core.view().clone());
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
    fn judge_intent(&mut self, replica: usize, offset: u64, length: u32) {
        let end = offset + u64::from(length);
        let slot = &self.replicas[replica];
        let is_open = |table: &OpenRegions| {
            let mut regions = offset / table.region..end.div_ceil(table.region);
            table.is_all() || regions.all(|region| table.open.binary_search(&region).is_ok())
        };
        let view = slot.core.as_ref().map(|core| core.view().clone());
        let primaries = view.map(|view| view.primaries).unwrap_or_default();
        // Only the slots of those count who may write in the adopted view.
        let mut own = primaries.iter().filter_map(|primary| slot.open_regions.get(&primary.slot));
        if !own.any(is_open) {
            let slots: Vec<_> = primaries.iter().map(|primary| primary.slot).collect();
            self.fail(
                "I5",
                format!(
                    "replica {replica} writes to bytes {offset} to {end}, which are not open on its disk in slot {slots:?}"
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
    pub(super) fn judge_answer(&mut self, replica: usize, link: LinkId, message: &Message) {
        let slot = &mut self.replicas[replica];
        match message {
            Message::Adopted { generation } => {
                let under_way = slot.pending.values().filter_map(|p| p.changes_data_of());
                slot.joined.entry(*generation).or_insert(self.moment);
                let verdict = slot.fence.answers(replica, *generation, under_way);
                self.judge(verdict);
            }
            Message::Data { id, .. }
            | Message::Digests { id, .. }
            | Message::Extents { id, .. } => {
                let verdict = slot.fence.reads(replica, id.generation, slot.adopted);
                self.judge(verdict);
            }
            Message::Copied { token, content } => {
                let asked = slot.copies_asked.remove(&(link, *token));
                let reports = !matches!(content, CopyContent::Refused | CopyContent::Failed(_));
                if let Some(asked) = asked.filter(|_| reports) {
                    let verdict = slot.fence.reads(replica, asked, slot.adopted);
                    self.judge(verdict);
                }
            }
            Message::Refused { sequence, .. } => {
                let times = slot.refused.entry(*sequence).or_insert(0);
                *times += 1;
                let too_often = *times > MAX_REFUSALS;
                self.marks.reach(Mark::Refused);
                if too_often {
                    self.fail(
                        "I11",
                        format!("replica {replica} is asked for {sequence:?} again and again"),
                    );
                }
            }
            Message::DiskFailed { .. } => self.marks.reach(Mark::DiskFailed),
            Message::Granted { .. } if self.coordinator.newest().has_several_primaries() => {
                self.marks.reach(Mark::ClusterLocked);
            }
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
        let slot = &self.primaries[primary];
        let Some(view) = slot.core.view().cloned() else {
            return self.fail("I4", format!("primary {primary} serves without a view"));
        };
        let epoch = lines::epoch(&view);
        self.lines.serves(primary, epoch);
        let is_newest_epoch = epoch == lines::epoch(self.coordinator.newest());
        let is_relaxed = view.protocol != Protocol::C;
        let volatile = !is_newest_epoch || std::mem::replace(&mut self.relaxed, is_relaxed);
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
        let lost = |sector: u32| lost.get(sector as usize).copied().unwrap_or(true);
        self.lines.of_mut(primary).serving(primary, moment, lost);
        if is_newest_epoch {
            self.replicas.iter_mut().for_each(|slot| slot.lost.clear());
        }
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
        let Some(view) = slot.core.view().cloned() else {
            return self.fail(
                "I4",
                format!("primary {primary} acknowledges write #{write} without a view"),
            );
        };
        let Some(change) = self.lines.change(write).cloned() else { return };
        for part in self.parts(change.first, change.count) {
            let members = view.mirrors[part.mirror].members();
            let members: Vec<_> =
                members.filter_map(|record| self.member(record, write, part, primary)).collect();
            if view.protocol == Protocol::A && !durable && self.had_local(primary, write, part) {
                continue;
            }
            let verdict = agreement::check(view.protocol, durable, &members);
            let member = |record: &ReplicaRecord| self.member(record, write, part, primary);
            if verdict.is_err()
                && self.was_permitted(&view, &change, (durable, part.mirror), member)
            {
                continue;
            }
            self.judge(verdict.map_err(|mut violation| {
                let (first, count) = (part.volume_sector, part.count);
                violation.text += &format!(" (write #{write}, sectors {first}+{count})");
                violation
            }));
        }
    }

    /// A flush is acknowledged, which covers these writes: all who must have them durably.
    pub(super) fn judge_flush(&mut self, primary: usize, covered: &[u32]) {
        for write in covered {
            let change = self.lines.change(*write);
            if change.is_some_and(|change| change.primary == primary && !change.zero) {
                self.judge_acknowledgement(primary, *write, true);
            }
        }
    }

    /// A request of several parts is answered with the last of them. The others were decided
    /// before, perhaps by the view that this one has replaced.
    fn was_permitted(
        &self,
        view: &View,
        change: &Change,
        (durable, mirror): (bool, usize),
        member: impl Fn(&ReplicaRecord) -> Option<Member>,
    ) -> bool {
        let parts = self.parts(change.first, change.count).len();
        let parent = self.coordinator.parent_of(view);
        let Some(parent) = parent.filter(|_| parts > 1) else {
            return false;
        };
        let members: Vec<_> = parent.mirrors[mirror].members().filter_map(member).collect();
        agreement::check(parent.protocol, durable, &members).is_ok()
    }

    /// Whether a replica on the primary's node has a part of a write. It decided about that part,
    /// and may have left before the parts on other mirrors were decided; the others have it in
    /// their queues.
    fn had_local(&self, primary: usize, write: u32, part: Part) -> bool {
        let has_room = |slot: &SimReplica| slot.disk.sectors() >= part.replica_sector + part.count;
        let identity = self.primaries[primary].id.node;
        let mut local = self
            .replicas
            .iter()
            .filter(|slot| slot.is_of(identity) && slot.mirror == part.mirror && has_room(slot));
        local.any(|slot| {
            (0..part.count).all(|n| {
                let cell = slot.disk.content(part.replica_sector + n);
                self.lines.of(primary).supersedes(part.volume_sector + n, cell, write)
            })
        })
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
        let change = self.lines.change(write)?;
        // It answered the view that made it a member after the write began: the copy brings it.
        let joined = slot.joined.range(record.since..).next().map_or(self.moment, |(_, at)| *at);
        // One of several primaries may not have known yet of who had joined by another's view.
        let knew = self.asked_in.get(&write).is_none_or(|generation| *generation >= record.since);
        let came_later = record.state == ReplicaState::Rebuilding
            && (change.invoked <= joined || (self.coordinator.newest().is_shared() && !knew));
        // It answered before it went over to another epoch, which need not have the write.
        let epoch = slot.core.as_ref().map(|core| lines::epoch(core.view()));
        let is_elsewhere = epoch.is_some_and(|epoch| Some(epoch) != self.epoch_of(primary));
        let comes_with_the_copy = |sector: u32| {
            let offset = u64::from(sector) * u64::from(SECTOR);
            slot.core.as_ref().is_some_and(|core| core.is_to_be_copied(offset))
        };
        let holds = |content: &dyn Fn(u32) -> Cell| {
            (part.replica_sector..).zip(0..part.count).all(|(sector, n)| {
                let written = part.volume_sector + n;
                self.lines.of(primary).supersedes(written, content(sector), write)
                    || comes_with_the_copy(sector)
            })
        };
        Some(Member {
            replica,
            in_sync: record.state == ReplicaState::InSync,
            local: slot.is_of(self.primaries[primary].id.node),
            written: holds(&|s| slot.disk.content(s)),
            durable: holds(&|s| slot.disk.durable_content(s)),
            received: change.zero || slot.received.contains(&stamp(write, part.volume_sector)),
            excused: came_later || is_elsewhere || slot.ended > change.invoked,
        })
    }

    /// I6: the in-sync replicas of each mirror hold the same bytes. `alive`: of those only that
    /// run.
    pub(super) fn judge_convergence(&mut self, when: &str) {
        let view = self.coordinator.newest().clone();
        for mirror in &view.mirrors {
            // Whose disk was swapped since is in-sync no more, which the next session tells.
            let is_here = |record: &ReplicaRecord, slot: &SimReplica| {
                let is_swapped = slot.is_old && slot.incarnation != record.incarnation;
                slot.id == record.id && slot.core.is_some() && !is_swapped
            };
            let members: Vec<_> = mirror
                .in_sync()
                .filter_map(|r| self.replicas.iter().position(|slot| is_here(r, slot)))
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
        self.lines.of_mut(primary).detached(primary);
        let view = self.coordinator.newest();
        if Some(lines::epoch(view)) != self.epoch_of(primary) {
            // It has detached what was given up meanwhile.
        } else if view.has_primary(self.primaries[primary].id) {
            // Unless the database was restored while the answer was on its way.
            if !self.relaxed {
                self.fail(
                    "I6",
                    format!("primary {primary} detached, but the newest view names it"),
                );
            }
        } else if view.primaries.is_empty() {
            self.judge_convergence("after a clean detach");
        }
    }

    /// The epoch of the view by which a primary works.
    pub(super) fn epoch_of(&self, primary: usize) -> Option<lines::EpochKey> {
        let slot = &self.primaries[primary];
        slot.core.view().map(lines::epoch)
    }

    /// I3: what a replica adopts goes on from what it has adopted.
    pub(super) fn judge_adoption(&mut self, replica: usize, view: &View) {
        let slot = &self.replicas[replica];
        let Some(core) = &slot.core else { return };
        let old = View { generation: slot.adopted, ..core.view().clone() };
        if lines::epoch(&old) != lines::epoch(view) {
            self.marks.reach(Mark::EpochAdopted);
        }
        if !view.continues(&old) {
            let (generation, before) = (view.generation, old.generation);
            self.fail("I3", format!("replica {replica} adopts generation {generation}, which does not go on from its own, {before}"));
        }
    }

    /// A replica is asked for a copy: in which generation, to judge its answer by.
    pub(super) fn note_copy_asked(&mut self, replica: usize, link: LinkId, message: &Message) {
        if let Message::Copy { generation, token, .. } = message {
            self.replicas[replica].copies_asked.insert((link, *token), *generation);
        }
    }

    /// I3: a replica is asked, in the generation that it has adopted, by one of its own epoch only.
    pub(super) fn judge_epoch(&mut self, replica: usize, link: LinkId, message: &Message) {
        let (Message::Write { id, .. } | Message::Zero { id, .. } | Message::Read { id, .. }) =
            message
        else {
            return;
        };
        let asks = self.network.links.get(&link).map(|link| link.ends[0].party);
        let theirs = match asks {
            Some(Party::Primary(primary)) => self.epoch_of(primary),
            _ => None,
        };
        let Some(core) = &self.replicas[replica].core else { return };
        let own = core.status();
        let is_meant = own.view.generation == id.generation && !own.is_adopting;
        if is_meant && theirs.is_some_and(|theirs| theirs != lines::epoch(&own.view)) {
            self.fail("I3", format!("replica {replica} takes {message:?} of another epoch"));
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

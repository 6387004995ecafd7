//! The intent log and the bitmaps at work: regions are opened before writes, bitmaps saved before
//! regions are closed, and both follow the view (rules W6, W7).

use core::ops::Range;

use super::flush_queue::FlushWaiter;
use super::intent_log::{OpenRegions, Reservation};
use super::missing::MissingPage;
use super::slots::IntentSlots;
use super::{Context, DiskAction, DiskError, DiskTicket, Replica};
use crate::block_set::BlockSet;
use crate::ids::*;
use crate::message::{Failure, Message};
use crate::payload::Payload;
use crate::range_lock::LockNumber;
use crate::settings::BLOCK;
use crate::view::{ReplicaRecord, ReplicaState, View};

impl<P: Payload> Replica<P> {
    /// A write has come: its regions have to be open before it begins. Whoever gets no writes at
    /// present lacks it from now on, whatever becomes of it.
    pub(super) fn reserve_intent(&mut self, cx: &mut Context<'_, P>, number: LockNumber) {
        if self.intent_work.first_in_line().is_none() && self.try_reserve(cx, number) {
            return;
        }
        // Before the primary's later writes, which become stable after it: one that is sent again
        // comes late.
        let operations = &self.operations;
        let sent_by = operations.sent_by(number);
        let is_later = |other| match (sent_by, operations.sent_by(other)) {
            (Some((primary, sequence)), Some((by, other))) => by == primary && other > sequence,
            _ => false,
        };
        self.intent_work.wait_for_room(number, is_later);
    }

    fn try_reserve(&mut self, cx: &mut Context<'_, P>, number: LockNumber) -> bool {
        let Some((by, blocks)) = self.operations.wants_room(number) else {
            debug_assert!(false, "operation {number} is in line and wants nothing");
            return true;
        };
        let slot = self.view.slot_of(by.0).unwrap_or(0);
        let missing = &self.missing;
        let may_close = |region: &Range<u64>| !missing.has_unsaved(region);
        let reservation = self.intents.reserve(cx.now, slot, &blocks, by, may_close);
        if reservation == Reservation::Full {
            return false;
        }
        self.missing.note(&blocks);
        let is_open = reservation == Reservation::Open;
        self.operations.has_room(number, slot, is_open);
        if is_open {
            self.begin_if_ready(cx, number);
        } else {
            self.intent_work.wait_for_table(number);
        }
        true
    }

    /// Takes the intent log and the bitmaps as far as they go now.
    pub(super) fn advance_intents(&mut self, cx: &mut Context<'_, P>) {
        self.intent_work.advance(cx.now);
        self.missing.advance(cx.now);
        while let Some(number) = self.intent_work.first_in_line() {
            if !self.try_reserve(cx, number) {
                break;
            }
            self.intent_work.first_has_room();
        }
        let is_full = self.intent_work.first_in_line().is_some();
        if is_full {
            self.save_missing(cx);
            self.fail_what_cannot_stabilize(cx);
        }
        if is_full || self.intents.is_filling() {
            self.ask_to_stabilize(cx);
        }
        self.save_intents(cx, IntentSlots::urgent_table);
        self.close_unused(cx);
    }

    /// On a disk that has failed a flush nothing becomes stable any more, so a full log stays full.
    fn fail_what_cannot_stabilize(&mut self, cx: &mut Context<'_, P>) {
        if let Some(error) = self.flushes.failure() {
            for number in self.intent_work.give_up_line() {
                self.operation_done(cx, number, Err(error));
            }
        }
    }

    /// Lets go of what has not been used for a while, so that a crash finds little open.
    fn close_unused(&mut self, cx: &mut Context<'_, P>) {
        let unused_for = self.config.settings.stabilize_after;
        let is_open = !self.intents.is_empty() || !self.missing.is_saved();
        if !self.intent_work.take_time_to_look(cx.now, unused_for, is_open) {
            return self.save_intents(cx, IntentSlots::empty_table);
        }
        self.save_missing(cx);
        let missing = &self.missing;
        self.intents.close_unused(cx.now, unused_for, |region| !missing.has_unsaved(region));
        self.save_intents(cx, IntentSlots::outdated_table);
    }

    fn ask_to_stabilize(&mut self, cx: &mut Context<'_, P>) {
        if self.intent_work.take_time_to_ask(cx.now) {
            let generation = self.view.generation;
            self.tell_primaries(cx, Message::LogFilling { generation });
        }
    }

    /// Saves the next of the wanted tables, one at a time.
    fn save_intents(
        &mut self,
        cx: &mut Context<'_, P>,
        next: impl FnOnce(&mut IntentSlots) -> Option<OpenRegions>,
    ) {
        if let Some(table) = self.intent_work.begin_save(|| next(&mut self.intents)) {
            cx.disk(DiskTicket::Intents, DiskAction::SaveIntents(table));
        }
    }

    pub(super) fn intents_saved(
        &mut self,
        cx: &mut Context<'_, P>,
        outcome: Result<(), DiskError>,
    ) {
        let Some(table) = self.intent_work.saved(cx.now, outcome.is_ok()) else {
            return; // A driver has answered twice, which is asserted there.
        };
        if outcome.is_ok() {
            self.intents.saved(&table);
        }
        for number in self.intent_work.take_opening() {
            let Some((slot, blocks)) = self.operations.opening(number) else {
                debug_assert!(false, "operation {number} is in line and opens nothing");
                continue;
            };
            if self.intents.is_open(slot, &blocks) {
                self.operations.opened(number);
                self.begin_if_ready(cx, number);
            } else if let Err(error) = outcome
                && slot == table.slot
            {
                self.operation_done(cx, number, Err(error));
            } else {
                self.intent_work.wait_for_table(number);
            }
        }
        if let Err(error) = outcome {
            if error == DiskError::Lost {
                self.flushes.fail(error);
            }
            self.tell_disk_failed(cx, error.into());
        }
    }

    /// Saves pages of bitmaps that are not on the disk.
    pub(super) fn save_missing(&mut self, cx: &mut Context<'_, P>) {
        let pages = self.missing.begin_save();
        Self::save_pages(cx, pages);
    }

    pub(super) fn save_pages(cx: &mut Context<'_, P>, pages: Vec<MissingPage>) {
        if !pages.is_empty() {
            cx.disk(DiskTicket::Bitmaps, DiskAction::SaveMissing(pages));
        }
    }

    pub(super) fn missing_saved(
        &mut self,
        cx: &mut Context<'_, P>,
        outcome: Result<(), DiskError>,
    ) {
        self.missing.saved(cx.now, outcome.is_ok());
        if let Err(error) = outcome {
            return self.tell_disk_failed(cx, error.into());
        }
        if self.intent_work.first_in_line().is_some() {
            self.save_missing(cx);
        }
    }

    pub(super) fn tell_disk_failed(&mut self, cx: &mut Context<'_, P>, failure: Failure) {
        let generation = self.view.generation;
        self.tell_primaries(cx, Message::DiskFailed { generation, failure });
    }

    /// A primary says how far its writes are stable.
    pub(super) fn stable(
        &mut self,
        link: LinkId,
        generation: Generation,
        through: Sequence,
        last_of_earlier_incarnations: Option<Sequence>,
    ) {
        let Some(primary) = self.links.primary_of(link) else {
            return; // Only a primary's writes become stable.
        };
        if self.is_current(generation) && self.view.has_primary(primary) {
            let has_progressed = self.intents.stable(primary, through);
            if let Some(last) = last_of_earlier_incarnations {
                self.intents.note_earlier_incarnations(primary, last);
                if last <= through {
                    self.intents.stabilize_earlier_incarnations(primary, &self.view.primaries);
                }
            }
            if has_progressed {
                self.intent_work.has_progressed();
            }
        }
    }

    /// A view has been adopted: notes what is missing on whom from now on, and what is stable by
    /// it (rule W7).
    pub(super) fn intents_follow(&mut self, cx: &mut Context<'_, P>, old: &View) {
        let me = self.config.id;
        let Some((mirror, record)) = self.view.replica(me).map(|(m, r)| (m, *r)) else {
            debug_assert!(false, "a view is adopted only by who is in it");
            return;
        };
        self.missing.follow(&self.view.mirrors[mirror], me);
        self.intents.follow(&self.view, cx.now);
        let before = old.replica(me).map(|(_, record)| *record);
        let begins_anew = record.state != ReplicaState::InSync
            && before.is_none_or(|before| before.since != record.since);
        let became_in_sync = record.state == ReplicaState::InSync
            && before.is_some_and(|before| before.state != ReplicaState::InSync);
        let was_in_sync = record.state == ReplicaState::InSync && !became_in_sync;
        let view = &self.view;
        let is_gone = |primary| !view.has_primary(primary);
        let others_go_on = view.is_of_epoch(old)
            && old.primaries.iter().any(|primary| view.has_primary(primary.id));
        let has_detached = was_in_sync && others_go_on && self.is_beside_in_sync();
        if !has_detached {
            self.intents.orphan(is_gone);
        }
        if begins_anew && !stays_member(old, view, &record) {
            self.intents.begin_anew();
        }
        // One that begins anew gets its own unstable blocks from its source, which knows who else
        // lacks them.
        let left: Vec<_> = self.view.mirrors[mirror]
            .replicas
            .iter()
            .filter(|_| !begins_anew)
            .filter(|after| after.id != me && after.state != ReplicaState::InSync)
            .filter(|after| left_between(old, after) && !stays_member(old, view, after))
            .map(|after| after.id)
            .collect();
        let touched = if left.is_empty() { BlockSet::default() } else { self.intents.touched() };
        for replica in left {
            self.missing.add(replica, &touched);
        }
        if has_detached {
            // Else only one would be in-sync. Before it detached all was written, and flushed.
            self.intents.stabilize_gone(is_gone);
        }
        if was_in_sync && self.view.primaries.is_empty() {
            self.intents.stabilize_all();
        } else if became_in_sync && self.has_rebuilt() && self.is_beside_in_sync() {
            // What was open has been copied. After a restart it has not: it was written since. If
            // this is the only one in-sync, a primary has gone, whose last writes may not be
            // durable here.
            self.intents.stabilize_orphans();
        } else {
            self.resolve_orphans(cx, mirror, record.state == ReplicaState::InSync);
        }
    }

    /// Writes of which no primary will tell any more whether they are stable: those that may lack
    /// them are known, if there is only one truth.
    fn resolve_orphans(&mut self, cx: &mut Context<'_, P>, mirror: usize, is_in_sync: bool) {
        let me = self.config.id;
        if is_in_sync && self.is_beside_in_sync() {
            return;
        }
        let others: Vec<ReplicaRecord> =
            self.view.mirrors[mirror].replicas.iter().filter(|r| r.id != me).copied().collect();
        let orphaned = self.intents.orphaned();
        if !orphaned.is_empty() {
            let lacking = if is_in_sync { others.iter().map(|r| r.id).collect() } else { vec![me] };
            for replica in lacking {
                self.missing.add(replica, &orphaned);
            }
        }
        if !is_in_sync {
            // It will get these blocks anew.
            self.intents.stabilize_orphans();
        } else if self.intents.adopt_orphans() {
            self.flush(cx, FlushWaiter::Intents);
        }
    }

    /// Whether another replica of the mirror is in-sync.
    fn is_beside_in_sync(&self) -> bool {
        let me = self.config.id;
        let own = self.view.replica(me).map(|(mirror, _)| &self.view.mirrors[mirror]);
        own.is_some_and(|mirror| mirror.in_sync().any(|record| record.id != me))
    }

    /// After a crash: any write to an open region may lack on any other replica. The regions stay
    /// open until a view is adopted: the one in the superblocks may not be the newest, so those
    /// that it says are missing may have been in-sync since, and have left again.
    pub(super) fn distrust_open_regions(&mut self) {
        let lacking: Vec<_> =
            self.missing.replicas().filter(|replica| *replica != self.config.id).collect();
        let touched = self.intents.touched();
        for replica in lacking {
            self.missing.add(replica, &touched);
        }
        if self.view.primaries.is_empty() && self.state() == Some(ReplicaState::InSync) {
            // Detached cleanly: the others that are in-sync have all.
            self.intents.stabilize_all();
        }
    }

    /// The bytes of a run of blocks, cut at the replica's end.
    pub(super) fn bytes_of(&self, blocks: &Range<u64>) -> Range<u64> {
        let block = u64::from(BLOCK);
        blocks.start * block..(blocks.end * block).min(self.size())
    }
}

/// Whether a replica rebuilds because one of several primaries has died, and has got all writes of
/// the others without a break: it lacks only what is open in the slot of the dead one.
fn stays_member(old: &View, new: &View, after: &ReplicaRecord) -> bool {
    let Some((_, before)) = old.replica(after.id) else { return false };
    let ceased_here =
        after.missing_since == Some(after.since) && before.incarnation == after.incarnation;
    before.state == ReplicaState::InSync
        && after.state == ReplicaState::Rebuilding
        && ceased_here
        && old.primaries.iter().any(|primary| new.has_primary(primary.id))
}

/// Whether a replica that is not in-sync now was a member in an older view, and not without a
/// break.
fn left_between(old: &View, after: &ReplicaRecord) -> bool {
    let Some((_, before)) = old.replica(after.id) else { return false };
    let stayed = after.state.takes_writes() && before.since == after.since;
    before.state.takes_writes() && !stayed
}

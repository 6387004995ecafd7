//! The intent log and the bitmaps: which regions may differ from the other replicas' ([`slots`]),
//! what other replicas lack ([`missing`], [`bits`]), and what of both is being saved
//! ([`intent_work`]). Both follow the view ([`following`]; rules W6, W7).
//!
//! It uses the view and the sessions. It never knows an operation but by its number: whoever waits
//! for room or for a region is told by its caller.

mod bits;
mod following;
mod intent_log;
mod intent_work;
mod missing;
mod slots;

pub use self::intent_log::{ALL_OPEN, OpenRegions};
pub use self::missing::{FoundPage, MissingPage};

pub(super) use self::bits::save_pages;
pub(super) use self::intent_log::Reservation;

use core::ops::Range;

use self::intent_work::IntentWork;
use self::missing::Missing;
use self::slots::IntentSlots;
use super::sessions::Sessions;
use super::views::Views;
use super::{Context, DiskAction, DiskTicket, Sender};
use crate::ids::*;
use crate::message::Message;
use crate::time::Instant;
use crate::view::ReplicaState;

/// What a replica remembers of writes, so that it is known who may lack them.
#[derive(Debug)]
pub(super) struct Log {
    slots: IntentSlots,
    work: IntentWork,
    /// What other replicas lack, and this one while it is not in-sync.
    missing: Missing,
}

/// What the log uses: the rooms below.
#[derive(Clone, Copy)]
pub(super) struct Lower<'a> {
    pub views: &'a Views,
    pub sessions: &'a Sessions,
}

impl Log {
    /// The tables of open regions and the bitmaps as they were found on the disk.
    pub fn new(
        me: ReplicaId,
        views: &Views,
        tables: &[OpenRegions],
        pages: &[FoundPage],
        now: Instant,
    ) -> Self {
        let missing = views
            .mirror()
            .map_or_else(Missing::default, |own| Missing::found(own, me, pages, views.blocks()));
        let slots = IntentSlots::new(views.view(), tables, now);
        let mut log = Self { slots, work: IntentWork::default(), missing };
        log.distrust_open_regions(me, views);
        log
    }

    /// After a crash: any write to an open region may lack on any other replica. The regions stay
    /// open until a view is adopted: the one in the superblocks may not be the newest, so those
    /// that it says are missing may have been in-sync since, and have left again.
    fn distrust_open_regions(&mut self, me: ReplicaId, views: &Views) {
        let out_of_sync: Vec<_> =
            self.missing.replicas().filter(|replica| *replica != me).collect();
        let touched = self.slots.touched();
        for replica in out_of_sync {
            self.missing.add(replica, &touched);
        }
        if views.view().primaries.is_empty() && views.state() == Some(ReplicaState::InSync) {
            // Detached cleanly: the others that are in-sync have all.
            self.slots.stabilize_all();
        }
    }

    /// The blocks of a range of bytes.
    pub fn blocks(&self, offset: u64, length: u32) -> Range<u64> {
        self.slots.blocks(offset, length)
    }

    /// A write is to come to these blocks, `by` a primary: its regions have to be open before it
    /// begins. Whoever gets no writes at present lacks it from now on, whatever becomes of it.
    /// Returns the slot, and whether the regions are open there.
    pub fn reserve(
        &mut self,
        now: Instant,
        views: &Views,
        blocks: &Range<u64>,
        by: WriteId,
    ) -> (u8, Reservation) {
        let slot = views.view().slot_of(by.primary).unwrap_or(0);
        let missing = &self.missing;
        let may_close = |region: &Range<u64>| !missing.has_unsaved(region);
        let reservation = self.slots.reserve(now, slot, blocks, by, may_close);
        if reservation != Reservation::Full {
            self.missing.note(blocks);
        }
        (slot, reservation)
    }

    /// Whether the regions of these blocks are open on the disk.
    pub fn is_open(&self, slot: u8, blocks: &Range<u64>) -> bool {
        self.slots.is_open(slot, blocks)
    }

    /// An operation for which regions were reserved has ended.
    pub fn release(&mut self, slot: u8, blocks: &Range<u64>) {
        self.slots.release(slot, blocks);
    }

    /// The operation that is first in the line for room in the log.
    pub fn first_in_line(&self) -> Option<OperationNumber> {
        self.work.first_in_line()
    }

    /// Puts an operation in the line: before the first one that is to come after it.
    pub fn wait_for_room(
        &mut self,
        number: OperationNumber,
        is_later: impl Fn(OperationNumber) -> bool,
    ) {
        self.work.wait_for_room(number, is_later);
    }

    /// Room is reserved for the first operation of the line.
    pub fn first_has_room(&mut self) {
        self.work.first_has_room();
    }

    /// Nobody waits for room any more. Returns who did.
    pub fn give_up_line(&mut self) -> Vec<OperationNumber> {
        self.work.give_up_line()
    }

    /// An operation waits until its regions are open on the disk.
    pub fn wait_for_table(&mut self, number: OperationNumber) {
        self.work.wait_for_table(number);
    }

    /// A table was saved, or not: takes those out who waited for one.
    pub fn take_opening(&mut self) -> Vec<OperationNumber> {
        self.work.take_opening()
    }

    /// An operation that had not begun is over.
    pub fn forget(&mut self, number: OperationNumber) {
        self.work.forget(number);
    }

    /// Whether anything is being saved.
    pub fn is_saving(&self) -> bool {
        self.work.is_saving() || self.missing.is_saving()
    }

    /// When it is to be gone on with.
    pub fn next_wakeup(&self) -> Option<Instant> {
        Instant::earliest(self.work.next_wakeup(), self.missing.next_wakeup())
    }

    /// The slots in which anything is open, a bit each.
    pub fn open_slots(&self) -> u32 {
        self.slots.open_slots()
    }

    /// How many regions are open, as far as they are known one by one.
    pub fn open_regions(&self) -> usize {
        self.slots.open_regions()
    }

    /// How many saves of tables were begun.
    pub const fn saves(&self) -> u64 {
        self.work.saves()
    }

    /// Time has passed.
    pub fn advance(&mut self, now: Instant) {
        self.work.advance(now);
        self.missing.advance(now);
    }

    /// Takes the log and the bitmaps as far as they go now, when all have room that can.
    pub fn advance_saves<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        views: &Views,
        sessions: &Sessions,
        is_full: bool,
    ) {
        if is_full || self.slots.is_filling() {
            self.ask_to_stabilize(cx, views, sessions);
        }
        self.save_table(cx, IntentSlots::urgent_table);
        self.close_unused(cx);
    }

    fn ask_to_stabilize<P>(&mut self, cx: &mut Context<'_, P>, views: &Views, sessions: &Sessions) {
        if self.work.take_time_to_ask(cx.now) {
            let generation = views.generation();
            sessions.report_primaries(cx, &Message::LogFilling { generation });
        }
    }

    /// Lets go of what has not been used for a while, so that a crash finds little open.
    fn close_unused<P>(&mut self, cx: &mut Context<'_, P>) {
        let unused_for = cx.me.settings.stabilize_after;
        let is_open = !self.slots.is_empty() || !self.missing.is_saved();
        if !self.work.take_time_to_look(cx.now, unused_for, is_open) {
            return self.save_table(cx, IntentSlots::empty_table);
        }
        self.save_missing(cx);
        let missing = &self.missing;
        self.slots.close_unused(cx.now, unused_for, |region| !missing.has_unsaved(region));
        self.save_table(cx, IntentSlots::outdated_table);
    }

    /// Saves the next of the wanted tables, one at a time.
    fn save_table<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        next: impl FnOnce(&mut IntentSlots) -> Option<OpenRegions>,
    ) {
        if let Some(table) = self.work.begin_save(|| next(&mut self.slots)) {
            cx.disk(DiskTicket::Intents, DiskAction::SaveIntents(table));
        }
    }

    /// The save of a table has ended. Returns its slot.
    pub fn table_saved(&mut self, now: Instant, succeeded: bool) -> Option<u8> {
        let table = self.work.saved(now, succeeded)?;
        if succeeded {
            self.slots.saved(&table);
        }
        Some(table.slot)
    }

    /// A device flush has ended that makes stable what lacked only that.
    pub fn flushed(&mut self) {
        self.slots.flushed();
    }

    /// A primary says how far its writes are stable.
    pub fn stable(
        &mut self,
        lower: Lower<'_>,
        from: Sender,
        through: Sequence,
        last_of_earlier_incarnations: Option<Sequence>,
    ) {
        let Lower { views, sessions } = lower;
        let Some(primary) = sessions.primary_of(from.link) else {
            return; // Only a primary's writes become stable.
        };
        if views.is_current(from.generation) && views.view().has_primary(primary) {
            let has_progressed = self.slots.stable(primary, through);
            if let Some(last) = last_of_earlier_incarnations {
                self.slots.note_earlier_incarnations(primary, last);
                if last <= through {
                    self.slots.stabilize_earlier_incarnations(primary, &views.view().primaries);
                }
            }
            if has_progressed {
                self.work.has_progressed();
            }
        }
    }

    /// Panics if a replica lacks a part that no bitmap names (W7), or the intent log contradicts
    /// itself (W6).
    pub fn check_invariants(&self, me: ReplicaId, views: &Views) {
        self.slots.check_invariants(views.view());
        if let Some(mirror) = views.mirror() {
            self.missing.check_invariants(mirror, me);
        }
    }

    /// Whether an operation waits for room.
    pub fn is_waiting(&self, number: OperationNumber) -> bool {
        self.work.is_waiting(number)
    }

    /// Whether an operation waits until its regions are open on the disk.
    pub fn is_opening(&self, number: OperationNumber) -> bool {
        self.work.is_opening(number)
    }

    /// See [`intent_log::IntentLog::stays_open`].
    pub fn stays_open(&self, slot: u8, blocks: &Range<u64>) -> bool {
        self.slots.stays_open(slot, blocks)
    }
}

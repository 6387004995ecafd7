//! What the intent log is at work on: which table is being saved, which operations wait for room or
//! for their regions to be open, and when it is looked at next.

use core::time::Duration;

use super::intent_log::OpenRegions;
use crate::ids::OperationNumber;
use crate::time::Instant;

/// How often primaries are asked to let writes become stable, and a save that failed is repeated.
const ASK_PERIOD: Duration = Duration::from_millis(100);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct IntentWork {
    /// The table that is being saved.
    saving: Option<OpenRegions>,
    /// Operations for which there is no room in the log, in their order.
    waiting: Vec<OperationNumber>,
    /// Operations whose regions are being opened.
    opening: Vec<OperationNumber>,
    asked_at: Option<Instant>,
    /// The disk failed a save: it is not asked for another one before this moment.
    save_again_at: Option<Instant>,
    /// When unused regions are looked for next.
    look_at: Option<Instant>,
    saves: u64,
}

impl IntentWork {
    /// Time has passed.
    pub fn advance(&mut self, now: Instant) {
        self.save_again_at.take_if(|at| *at <= now);
    }

    /// When it is to be gone on with.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let ask_again =
            self.asked_at.filter(|_| !self.waiting.is_empty()).map(|at| at + ASK_PERIOD);
        Instant::earliest(Instant::earliest(self.look_at, ask_again), self.save_again_at)
    }

    /// Whether a table is being saved.
    pub const fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// How many saves were begun.
    pub const fn saves(&self) -> u64 {
        self.saves
    }

    /// The operation that is first in the line for room in the log.
    pub fn first_in_line(&self) -> Option<OperationNumber> {
        self.waiting.first().copied()
    }

    /// Puts an operation in the line: before the first one that is to come after it.
    pub fn wait_for_room(
        &mut self,
        number: OperationNumber,
        is_later: impl Fn(OperationNumber) -> bool,
    ) {
        let place = self.waiting.iter().position(|other| is_later(*other));
        self.waiting.insert(place.unwrap_or(self.waiting.len()), number);
    }

    /// Room is reserved for the first operation of the line.
    pub fn first_has_room(&mut self) {
        self.waiting.remove(0);
    }

    /// Nobody waits for room any more. Returns who did.
    pub fn give_up_line(&mut self) -> Vec<OperationNumber> {
        core::mem::take(&mut self.waiting)
    }

    /// An operation waits until its regions are open on the disk.
    pub fn wait_for_table(&mut self, number: OperationNumber) {
        self.opening.push(number);
    }

    /// A table was saved, or not: takes those out who waited for one.
    pub fn take_opening(&mut self) -> Vec<OperationNumber> {
        core::mem::take(&mut self.opening)
    }

    /// An operation that had not begun is over.
    pub fn forget(&mut self, number: OperationNumber) {
        self.waiting.retain(|waiting| *waiting != number);
        self.opening.retain(|opening| *opening != number);
    }

    /// Whether an operation waits for room in the log.
    pub fn is_waiting(&self, number: OperationNumber) -> bool {
        self.waiting.contains(&number)
    }

    /// Whether an operation waits until its regions are open on the disk.
    pub fn is_opening(&self, number: OperationNumber) -> bool {
        self.opening.contains(&number)
    }

    /// Begins the save of the next table that is wanted, if none is under way or has just failed.
    pub fn begin_save(
        &mut self,
        next: impl FnOnce() -> Option<OpenRegions>,
    ) -> Option<OpenRegions> {
        if self.saving.is_some() || self.save_again_at.is_some() {
            return None;
        }
        let table = next()?;
        self.saving = Some(table.clone());
        self.saves += 1;
        Some(table)
    }

    /// The save has ended. Returns what was saved.
    pub fn saved(&mut self, now: Instant, succeeded: bool) -> Option<OpenRegions> {
        debug_assert!(self.saving.is_some(), "a driver answers each action once");
        if !succeeded {
            self.save_again_at = Some(now + ASK_PERIOD);
        }
        self.saving.take()
    }

    /// Whether primaries are to be asked now to let writes become stable. Who is told so asks.
    pub fn take_time_to_ask(&mut self, now: Instant) -> bool {
        let is_time = self.asked_at.is_none_or(|at| now.since(at) >= ASK_PERIOD);
        if is_time {
            self.asked_at = Some(now);
        }
        is_time
    }

    /// Some have become stable: if that is not enough, the next question need not wait.
    pub fn has_progressed(&mut self) {
        self.asked_at = None;
    }

    /// Whether unused regions are to be looked for now, which comes once in a `period` while
    /// anything `is_open`. Who is told so looks for them.
    pub fn take_time_to_look(&mut self, now: Instant, period: Duration, is_open: bool) -> bool {
        if !is_open {
            self.look_at = None;
            return false;
        }
        let is_time = now >= *self.look_at.get_or_insert(now + period);
        if is_time {
            self.look_at = Some(now + period);
        }
        is_time
    }
}

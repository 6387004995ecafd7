//! Writes on their way into the intent log: each waits until there is room for its regions, and
//! until they are open on the disk (I5).

use super::{Data, Lower};
use crate::ids::OperationNumber;
use crate::payload::Payload;
use crate::replica::log::Reservation;
use crate::replica::{Context, DiskError};

impl<P: Payload> Data<P> {
    /// A write has come: its regions have to be open before it begins.
    pub(super) fn reserve_intent(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        number: OperationNumber,
    ) {
        if lower.log.first_in_line().is_none() && self.try_reserve(cx, lower, number) {
            return;
        }
        // Before the primary's later writes, which become stable after it: one that is sent again
        // comes late.
        let operations = &self.operations;
        let write = operations.write_id(number);
        let is_later = |other| match (write, operations.write_id(other)) {
            (Some(write), Some(other)) => {
                other.primary == write.primary && other.sequence > write.sequence
            }
            _ => false,
        };
        lower.log.wait_for_room(number, is_later);
    }

    fn try_reserve(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        number: OperationNumber,
    ) -> bool {
        let Some((by, blocks)) = self.operations.wants_room(number) else {
            debug_assert!(false, "operation {number} is in line and wants nothing");
            return true;
        };
        let (slot, reservation) = lower.log.reserve(cx.now, lower.views, &blocks, by);
        if reservation == Reservation::Full {
            return false;
        }
        let is_open = reservation == Reservation::Open;
        self.operations.has_room(number, slot, is_open);
        if is_open {
            self.begin_if_ready(cx, number);
        } else {
            lower.log.wait_for_table(number);
        }
        true
    }

    /// Takes the intent log and what waits for it as far as they go now.
    pub fn advance_log(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        lower.log.advance(cx.now);
        while let Some(number) = lower.log.first_in_line() {
            if !self.try_reserve(cx, lower, number) {
                break;
            }
            lower.log.first_has_room();
        }
        let is_full = lower.log.first_in_line().is_some();
        if is_full {
            lower.log.save_missing(cx);
            self.fail_what_cannot_stabilize(cx, lower);
        }
        lower.log.advance_saves(cx, lower.views, lower.sessions, is_full);
    }

    /// On a disk that has failed a flush nothing becomes stable any more, so a full log stays full.
    fn fail_what_cannot_stabilize(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        if let Some(error) = self.flushes.failure() {
            for number in lower.log.give_up_line() {
                self.operation_done(cx, lower, number, Err(error));
            }
        }
    }

    /// The save of a table of open regions has ended.
    pub fn table_saved(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        outcome: Result<(), DiskError>,
    ) {
        let Some(saved) = lower.log.table_saved(cx.now, outcome.is_ok()) else {
            return; // A driver has answered twice, which is asserted there.
        };
        for number in lower.log.take_opening() {
            let Some((slot, blocks)) = self.operations.opening(number) else {
                debug_assert!(false, "operation {number} is in line and opens nothing");
                continue;
            };
            if lower.log.is_open(slot, &blocks) {
                self.operations.opened(number);
                self.begin_if_ready(cx, number);
            } else if let Err(error) = outcome
                && slot == saved
            {
                self.operation_done(cx, lower, number, Err(error));
            } else {
                lower.log.wait_for_table(number);
            }
        }
        if let Err(error) = outcome {
            if error == DiskError::Lost {
                self.flushes.fail(error);
            }
            lower.sessions.report_disk_failed(cx, lower.views, error.into());
        }
    }
}

//! The primary's part in reservations: it refuses what the view forbids, and calls a change done
//! when nothing is under way any more, at any primary, that was permitted before.

use super::Requests;
use super::table::RequestNumber;
use crate::ids::*;
use crate::operation::{Operation, RequestError};
use crate::payload::Payload;
use crate::primary::io::Lower;
use crate::primary::views::edits::{Edit, PendingEdit};
use crate::primary::views::finish_command;
use crate::primary::{CommandError, Context, Note, PrimaryEffect};
use crate::view::Change;

impl<P: Payload> Requests<P> {
    /// Refuses a request that is about to be sent if another host has reserved the volume by the
    /// present view. Returns whether it has.
    #[inline]
    pub(super) fn refuse_reserved(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        number: RequestNumber,
        operation: &Operation<P>,
    ) -> bool {
        let permits = |host| lower.views.view().reservations.permit(host, operation);
        let is_reserved = !self.table.host_of(number).is_none_or(permits);
        if is_reserved {
            self.table.refuse(number, RequestError::Reserved);
            self.reply(cx, number);
        }
        is_reserved
    }

    /// An edit is in the view.
    pub fn edit_done(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>, pending: PendingEdit) {
        match (pending.edit(), pending.command()) {
            (Edit::Change(Change::Reservation(_)), Some(command)) => {
                let number = self.keep_out(cx, lower, 0..u64::MAX);
                self.exclusions.clear(number, command, cx.now);
            }
            (Edit::Evict(id), _) if lower.views.view().has_primary(id) => {
                cx.note(Note::Evicted(id.node));
            }
            _ => finish_command(cx, pending, Ok(())),
        }
    }

    /// Answers changes that have waited for too long.
    pub fn give_up_clearing(&mut self, cx: &mut Context<'_, P>) {
        let patience = cx.config.settings.coordinator_patience;
        while let Some((number, command)) = self.exclusions.give_up(patience, cx.now) {
            self.end_clearing(cx, number, command, Err(CommandError::Unfinished));
        }
    }

    /// A change is done, or given up: lets go of its cluster lock.
    pub(super) fn end_clearing(
        &mut self,
        cx: &mut Context<'_, P>,
        number: RequestNumber,
        command: CommandId,
        result: Result<(), CommandError>,
    ) {
        self.end_kept(number);
        cx.effects.push(PrimaryEffect::CommandDone { id: command, result });
    }
}

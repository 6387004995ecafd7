//! The primary's part in reservations: it refuses what the view forbids, and calls a change done when
//! nothing is under way any more, at any primary, that was permitted before.

use crate::ids::*;
use crate::operation::{Operation, RequestError};
use crate::payload::Payload;
use crate::primary::io::requests::RequestNumber;
use crate::primary::views::change::finish_command;
use crate::primary::views::edits::{Edit, PendingEdit};
use crate::primary::{CommandError, Context, Note, Primary, PrimaryEffect};
use crate::time::Instant;
use crate::view::Change;

/// A change of reservations that is made. Its claim to the whole volume is granted when what was under
/// way has ended.
#[derive(Debug)]
pub(in crate::primary) struct Clearing {
    number: RequestNumber,
    pub command: CommandId,
    since: Instant,
}

impl<P: Payload> Primary<P> {
    /// Sends a request, unless another host has reserved the volume by the present view.
    pub(in crate::primary) fn dispatch_permitted(
        &mut self,
        cx: &mut Context<'_, P>,
        number: RequestNumber,
        operation: Operation<P>,
    ) {
        let (Some(request), Some(view)) = (self.requests.get_mut(&number), &self.view) else {
            return;
        };
        if request.client.is_none() || view.reservations.permit(request.host, &operation) {
            return self.dispatch(cx, number, operation);
        }
        request.error = Some(RequestError::Reserved);
        self.reply(cx, number);
    }

    /// An edit is in the view.
    pub(in crate::primary) fn edit_done(&mut self, cx: &mut Context<'_, P>, pending: PendingEdit) {
        match (pending.edit(), pending.command()) {
            (Edit::Change(Change::Reservation(_)), Some(command)) => {
                let number = self.keep_out(0..u64::MAX);
                self.clearing.push(Clearing { number, command, since: cx.now });
            }
            (Edit::Evict(id), _) if self.view.as_ref().is_some_and(|v| v.has_primary(id)) => {
                cx.note(Note::Evicted(id.node));
            }
            _ => finish_command(cx, pending, Ok(())),
        }
    }

    /// Nothing is under way any more, if this is the claim of a change.
    pub(in crate::primary) fn cleared(
        &mut self,
        cx: &mut Context<'_, P>,
        number: RequestNumber,
    ) -> bool {
        let Some(at) = self.clearing.iter().position(|clearing| clearing.number == number) else {
            return false;
        };
        self.end_clearing(cx, at, Ok(()));
        true
    }

    /// Answers changes that have waited for too long.
    pub(in crate::primary) fn give_up_clearing(&mut self, cx: &mut Context<'_, P>) {
        let (now, patience) = (cx.now, self.config.settings.coordinator_patience);
        let is_late = |clearing: &Clearing| now.since(clearing.since) >= patience;
        while let Some(at) = self.clearing.iter().position(is_late) {
            self.end_clearing(cx, at, Err(CommandError::Unfinished));
        }
    }

    fn end_clearing(
        &mut self,
        cx: &mut Context<'_, P>,
        at: usize,
        result: Result<(), CommandError>,
    ) {
        let Clearing { number, command: id, .. } = self.clearing.remove(at);
        self.end_kept(number);
        cx.effects.push(PrimaryEffect::CommandDone { id, result });
    }
}

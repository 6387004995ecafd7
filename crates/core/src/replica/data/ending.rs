//! Operations end: their answers, and what may begin by that.

use super::operations::{Digested, Durability, Origin, Over};
use super::{Data, FlushWaiter, Lower};
use crate::ids::*;
use crate::message::{CopyContent, Message, OperationId};
use crate::operation::Extent;
use crate::payload::Payload;
use crate::replica::{Context, DiskError, DiskOutcome, DiskTicket};

impl<P: Payload> Data<P> {
    /// Ends an operation: gives its lock back and lets those begin that waited for it.
    fn end_operation(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        number: OperationNumber,
    ) {
        let Some(Over { reserved, waited, granted }) = self.operations.end(number) else {
            debug_assert!(false, "operation {number} ends twice");
            return;
        };
        if let Some((slot, blocks)) = reserved {
            lower.log.release(slot, &blocks);
        }
        if waited {
            lower.log.forget(number);
        }
        for number in granted {
            self.lock_granted(cx, lower, number);
        }
    }

    /// A copy is over: lets the writes go that wait for its range. With `is_flush_due` what was
    /// copied is to be made durable, too.
    pub fn let_go(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        lock: OperationNumber,
        is_flush_due: bool,
    ) {
        self.end_operation(cx, lower, lock);
        if is_flush_due && !self.flushes.awaits_copies() {
            self.flush(cx, lower, FlushWaiter::Copies);
        }
        self.start_flush(cx, lower);
    }

    /// The disk action of an operation has ended.
    pub fn operation_done(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        number: OperationNumber,
        outcome: Result<DiskOutcome<P>, DiskError>,
    ) {
        let Some((origin, answer)) = self.operations.asked(number) else {
            debug_assert!(false, "an operation is there until its disk action has ended");
            return;
        };
        let outcome = match answer.durability {
            Durability::Write => self.durable_write_done(cx, lower, outcome),
            Durability::Later | Durability::Flush => outcome,
        };
        match origin {
            Origin::Rebuild(_) => return,
            Origin::Copier(link, _, token) => self.answer_copy(cx, lower, link, token, outcome),
            Origin::Primary(link, _, id)
                if answer.durability == Durability::Flush && outcome.is_ok() =>
            {
                self.flush(cx, lower, FlushWaiter::Primary { link, id, after: None });
            }
            Origin::Primary(link, _, id) if answer.digests => {
                if !self.digest_read(cx, lower, number, link, id, &outcome) {
                    return;
                }
            }
            Origin::Primary(link, _, id) => self.answer_operation(cx, lower, link, id, outcome),
        }
        self.end_operation(cx, lower, number);
        self.start_flush(cx, lower);
        self.answer_waiting_sessions(cx, lower);
    }

    /// A read for digests has ended. Returns whether that was the last one, and all is answered.
    fn digest_read(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        number: OperationNumber,
        link: LinkId,
        id: OperationId,
        outcome: &Result<DiskOutcome<P>, DiskError>,
    ) -> bool {
        match self.operations.digest_read(number, outcome) {
            Some(Digested::Next(action)) => {
                // Neither a session that has ended nor an adoption waits for all pieces.
                let is_over = lower.sessions.opener(link).is_none();
                if is_over || lower.views.is_adopting() {
                    lower.sessions.refuse(cx, lower.views, link, Some(id.sequence));
                } else {
                    cx.disk(DiskTicket::Operation(number), action);
                    return false;
                }
            }
            Some(Digested::All(digests)) => {
                lower.sessions.confirm(
                    cx,
                    lower.views,
                    link,
                    Message::Digests { id, digests },
                    None,
                );
            }
            None => debug_assert!(false, "{id:?} is not answered with digests"),
        }
        true
    }

    fn answer_operation(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        link: LinkId,
        id: OperationId,
        outcome: Result<DiskOutcome<P>, DiskError>,
    ) {
        let (message, payload) = match outcome {
            Ok(DiskOutcome::Done) => (Message::Done { id, result: Ok(()) }, None),
            Ok(DiskOutcome::Data(payload)) => {
                (Message::Data { id, is_unverified: false }, Some(payload))
            }
            Ok(DiskOutcome::Unverified(payload, what)) => {
                (Message::Data { id, is_unverified: what.is_forgotten() }, Some(payload))
            }
            Ok(DiskOutcome::Extents(extents)) => (Message::Extents { id, extents }, None),
            Err(error) => (Message::Done { id, result: Err(error.into()) }, None),
        };
        lower.sessions.confirm(cx, lower.views, link, message, payload);
    }

    fn answer_copy(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        link: LinkId,
        token: CopyToken,
        outcome: Result<DiskOutcome<P>, DiskError>,
    ) {
        let (content, payload) = match outcome {
            Ok(DiskOutcome::Unverified(payload, what)) if what.is_forgotten() => {
                (CopyContent::Unverified { forgotten: what.forgotten() }, Some(payload))
            }
            Ok(DiskOutcome::Data(payload) | DiskOutcome::Unverified(payload, _)) => {
                match payload.is_zero() {
                    true => (CopyContent::Zeroes, None),
                    false => (CopyContent::Data, Some(payload)),
                }
            }
            Ok(DiskOutcome::Extents(extents)) => (beginning(&extents), None),
            Ok(_) => (CopyContent::Refused, None),
            Err(error) => (CopyContent::Failed(error.into()), None),
        };
        lower.sessions.confirm(cx, lower.views, link, Message::Copied { token, content }, payload);
    }

    /// Forgets what a closed link asked for and has not begun. What has begun ends on the disk,
    /// but is not answered.
    pub fn forget_operations_of(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        link: LinkId,
    ) {
        self.flushes.forget(link);
        for number in self.operations.waiting_of(link) {
            self.end_operation(cx, lower, number);
        }
        self.start_flush(cx, lower);
    }

    /// A view is to be adopted: what primaries asked for and has not begun is refused, and will be
    /// sent again. It might wait for something that comes only after the adoption.
    pub fn refuse_waiting(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        for (link, id) in self.flushes.take_waiting() {
            lower.sessions.refuse(cx, lower.views, link, Some(id.sequence));
        }
        for (number, link, sequence) in self.operations.waiting_of_primaries() {
            lower.sessions.refuse(cx, lower.views, link, Some(sequence));
            self.end_operation(cx, lower, number);
        }
    }
}

/// How a range of these extents begins.
fn beginning(extents: &[Extent]) -> CopyContent {
    let sum = |extents: &[Extent]| extents.iter().map(|extent| extent.length).sum::<u64>() as u32;
    let holes = extents.iter().take_while(|extent| !extent.allocated).count();
    let data = extents[holes..].iter().take_while(|extent| extent.allocated).count();
    CopyContent::Begins { zeroes: sum(&extents[..holes]), data: sum(&extents[holes..][..data]) }
}

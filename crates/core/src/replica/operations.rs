//! Reads, writes, zeroes and maps: accepted in the adopted generation only, kept apart by range
//! locks, answered when the disk is done.

mod under_way;

use self::under_way::{Answer, Digested, Durability, Over};
pub(super) use self::under_way::{Operations, Origin};
use super::flush_queue::FlushWaiter;
use super::{Context, DiskAction, DiskError, DiskOutcome, DiskTicket, Replica};
use crate::ids::*;
use crate::message::{CopyContent, Failure, Message, OperationId};
use crate::operation::Extent;
use crate::payload::Payload;
use crate::range_lock::LockNumber;
use crate::settings::{MAX_PAYLOAD, MAX_ZERO};
use crate::view::ReplicaState;

impl<P: Payload> Replica<P> {
    /// Accepts or refuses one operation of a primary.
    pub(super) fn operation(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) {
        let Some(id) = operation_id(&message) else {
            debug_assert!(false, "{message:?} asks for no operation");
            return;
        };
        let Some(primary) = self.links.primary_of(link) else { return self.drop_link(cx, link) };
        let wanted = match message {
            Message::Read { .. } | Message::Map { .. } | Message::Digest { .. } => {
                self.state() == Some(ReplicaState::InSync)
            }
            _ => self.state().is_some_and(ReplicaState::takes_writes),
        };
        if !wanted || !self.is_current(id.generation) || !self.view.has_primary(primary) {
            return self.refuse(cx, link, Some(id.sequence));
        }
        if let Message::Flush { id, covers } = message {
            return self.flush(cx, FlushWaiter::Primary { link, id, after: Some(covers) });
        }
        let Some((action, answer, receipt)) = self.parse(message, payload) else {
            let result = Err(Failure::Invalid);
            return self.confirm(cx, link, Message::Done { id, result }, None);
        };
        if receipt {
            self.confirm(cx, link, Message::Received { id }, None);
        }
        if self.comes_with_the_copy(&action) {
            return self.confirm(cx, link, Message::Done { id, result: Ok(()) }, None);
        }
        self.start_operation(cx, Origin::Primary(link, primary, id), action, answer);
    }

    /// Turns a message into a disk action, if it is inside the replica.
    fn parse(&self, message: Message, payload: Option<P>) -> Option<(DiskAction<P>, Answer, bool)> {
        let written = |durability| Answer { durability, digests: false };
        let (offset, length, most, parsed) = match message {
            Message::Write { offset, length, durable, receipt, .. } => {
                let payload = payload.filter(|p| p.length() == length)?;
                let durability = match (durable, self.config.has_fua) {
                    (false, _) => Durability::Later,
                    (true, true) => Durability::Write,
                    (true, false) => Durability::Flush,
                };
                let durable = durability == Durability::Write;
                let action = DiskAction::Write { offset, payload, durable };
                (offset, length, MAX_PAYLOAD, (action, written(durability), receipt))
            }
            Message::Zero { offset, length, unmap, durable, receipt, .. } => {
                let action = DiskAction::Zero { offset, length, unmap };
                let durability = if durable { Durability::Flush } else { Durability::Later };
                (offset, length, MAX_ZERO, (action, written(durability), receipt))
            }
            Message::Read { offset, length, .. } => {
                let action = DiskAction::Read { offset, length };
                (offset, length, MAX_PAYLOAD, (action, Answer::default(), false))
            }
            Message::Digest { offset, length, .. } => {
                let action = DiskAction::Read { offset, length };
                let answer = Answer { digests: true, ..Answer::default() };
                (offset, length, MAX_PAYLOAD, (action, answer, false))
            }
            Message::Map { offset, length, .. } => {
                let action = DiskAction::Map { offset, length };
                (offset, length, MAX_ZERO, (action, Answer::default(), false))
            }
            _ => return None,
        };
        self.is_inside(offset, length, most).then_some(parsed)
    }

    /// Whether an action writes only what a rebuild of the whole replica is still to copy. Then
    /// nothing needs to be done: the source has it before it is copied from there, and whichever
    /// source is asked, this replica lacks all that it has not copied. (If it lacks only a part,
    /// what that is may be known to one source and not to another one.)
    fn comes_with_the_copy(&self, action: &DiskAction<P>) -> bool {
        let Some((offset, length, true)) = action.range() else { return false };
        let blocks = self.intents.blocks(offset, length);
        self.rebuild_of_all().is_some_and(|rebuild| rebuild.is_to_copy(&blocks))
    }

    /// Whether a range is of whole logical blocks of the replica, and not too long.
    fn is_inside(&self, offset: u64, length: u32, most: u32) -> bool {
        let end = offset.checked_add(u64::from(length));
        let block = self.view.geometry.block_size;
        let is_whole = offset.is_multiple_of(block.into()) && length.is_multiple_of(block);
        is_whole && (1..=most).contains(&length) && end.is_some_and(|end| end <= self.size())
    }

    /// A rebuilding replica wants to copy a range from this one.
    pub(super) fn copy_asked(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        token: CopyToken,
        offset: u64,
        length: u32,
    ) {
        let Some(copier) = self.links.copier_of(link) else {
            return self.drop_link(cx, link);
        };
        let is_source = self.state() == Some(ReplicaState::InSync);
        if !is_source || !self.is_current(generation) || !self.is_inside(offset, length, MAX_ZERO) {
            return cx.send(link, Message::Copied { token, content: CopyContent::Refused }, None);
        }
        let action = match length {
            ..=MAX_PAYLOAD => DiskAction::Read { offset, length },
            _ => DiskAction::Map { offset, length },
        };
        self.start_operation(cx, Origin::Copier(link, copier, token), action, Answer::default());
    }

    /// Accepts an operation. It begins when it has the lock on its range, and a write also not
    /// before its regions are open in the intent log. Both are asked for here, so both are given in
    /// the order in which operations came.
    fn start_operation(
        &mut self,
        cx: &mut Context<'_, P>,
        origin: Origin,
        action: DiskAction<P>,
        answer: Answer,
    ) {
        let Some((offset, length, is_write)) = action.range() else {
            debug_assert!(false, "an operation has a range");
            return;
        };
        let number = self.next_number();
        let blocks = self.intents.blocks(offset, length);
        // Of whole blocks: a disk with checksums writes no less.
        let range = self.bytes_of(&blocks);
        self.operations.add(number, origin, (action, blocks), answer);
        if is_write {
            self.reserve_intent(cx, number);
        }
        if self.operations.lock(number, range) {
            self.lock_granted(cx, number);
        }
    }

    /// Holds a range for the rebuild: writes that come in wait.
    pub(super) fn hold(
        &mut self,
        cx: &mut Context<'_, P>,
        token: CopyToken,
        offset: u64,
        length: u32,
    ) -> LockNumber {
        let number = self.next_number();
        self.operations.add_hold(number, token);
        if self.operations.lock(number, offset..offset + u64::from(length)) {
            self.lock_granted(cx, number);
        }
        number
    }

    /// Begins a disk action in a range that is held by the rebuild.
    pub(super) fn begin_held(
        &mut self,
        cx: &mut Context<'_, P>,
        number: LockNumber,
        token: CopyToken,
        action: DiskAction<P>,
    ) {
        self.operations.begin_held(number);
        self.count_written(&action);
        cx.disk(DiskTicket::Copy(token), action);
    }

    fn count_written(&mut self, action: &DiskAction<P>) {
        if let DiskAction::Write { payload, .. } = action {
            self.bytes_written += u64::from(payload.length());
        }
    }

    fn lock_granted(&mut self, cx: &mut Context<'_, P>, number: LockNumber) {
        match self.operations.copy_of(number) {
            Some(token) => self.range_held(cx, token),
            None => self.begin_if_ready(cx, number),
        }
    }

    /// Begins an operation that has its lock and whose regions are open.
    pub(super) fn begin_if_ready(&mut self, cx: &mut Context<'_, P>, number: LockNumber) {
        if let Some(action) = self.operations.take_ready(number) {
            self.count_written(&action);
            cx.disk(DiskTicket::Operation(number), action);
        }
    }

    /// Ends an operation: gives its lock back and lets those begin that waited for it.
    pub(super) fn end_operation(&mut self, cx: &mut Context<'_, P>, number: LockNumber) {
        let Some(Over { reserved, waited, granted }) = self.operations.end(number) else {
            debug_assert!(false, "operation {number} ends twice");
            return;
        };
        if let Some((slot, blocks)) = reserved {
            self.intents.release(slot, &blocks);
        }
        if waited {
            self.intent_work.forget(number);
        }
        for number in granted {
            self.lock_granted(cx, number);
        }
    }

    pub(super) fn operation_done(
        &mut self,
        cx: &mut Context<'_, P>,
        number: LockNumber,
        outcome: Result<DiskOutcome<P>, DiskError>,
    ) {
        let Some((origin, answer)) = self.operations.asked(number) else {
            debug_assert!(false, "an operation is there until its disk action has ended");
            return;
        };
        let outcome = match answer.durability {
            Durability::Write => self.durable_write_done(cx, outcome),
            Durability::Later | Durability::Flush => outcome,
        };
        match origin {
            Origin::Rebuild(_) => return,
            Origin::Copier(link, _, token) => self.answer_copy(cx, link, token, outcome),
            Origin::Primary(link, _, id)
                if answer.durability == Durability::Flush && outcome.is_ok() =>
            {
                self.flush(cx, FlushWaiter::Primary { link, id, after: None });
            }
            Origin::Primary(link, _, id) if answer.digests => {
                if !self.digest_read(cx, number, (link, id), &outcome) {
                    return;
                }
            }
            Origin::Primary(link, _, id) => self.answer_operation(cx, link, id, outcome),
        }
        self.end_operation(cx, number);
        self.start_flush(cx);
        self.answer_waiting_sessions(cx);
    }

    /// A read for digests has ended. Returns whether that was the last one, and all is answered.
    fn digest_read(
        &mut self,
        cx: &mut Context<'_, P>,
        number: LockNumber,
        (link, id): (LinkId, OperationId),
        outcome: &Result<DiskOutcome<P>, DiskError>,
    ) -> bool {
        match self.operations.digest_read(number, outcome) {
            Some(Digested::Next(action)) => {
                // Neither a session that has ended nor an adoption waits for all pieces.
                let is_over = self.links.opener(link).is_none();
                if is_over || self.adoption.is_under_way() {
                    self.refuse(cx, link, Some(id.sequence));
                } else {
                    cx.disk(DiskTicket::Operation(number), action);
                    return false;
                }
            }
            Some(Digested::All(digests)) => {
                self.confirm(cx, link, Message::Digests { id, digests }, None);
            }
            None => debug_assert!(false, "{id:?} is not answered with digests"),
        }
        true
    }

    fn answer_operation(
        &mut self,
        cx: &mut Context<'_, P>,
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
        self.confirm(cx, link, message, payload);
    }

    fn answer_copy(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        token: CopyToken,
        outcome: Result<DiskOutcome<P>, DiskError>,
    ) {
        let (content, payload) = match outcome {
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
        self.confirm(cx, link, Message::Copied { token, content }, payload);
    }

    /// Forgets what a closed link asked for and has not begun. What has begun ends on the disk,
    /// but is not answered.
    pub(super) fn forget_operations_of(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        self.flushes.forget(link);
        for number in self.operations.waiting_of(link) {
            self.end_operation(cx, number);
        }
        self.start_flush(cx);
    }

    /// A view is to be adopted: what primaries asked for and has not begun is refused, and will be
    /// sent again. It might wait for something that comes only after the adoption.
    pub(super) fn refuse_waiting(&mut self, cx: &mut Context<'_, P>) {
        for (link, id) in self.flushes.take_waiting() {
            self.refuse(cx, link, Some(id.sequence));
        }
        for (number, link, sequence) in self.operations.waiting_of_primaries() {
            self.refuse(cx, link, Some(sequence));
            self.end_operation(cx, number);
        }
    }
}

impl From<DiskError> for Failure {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Medium | DiskError::Lost => Self::Medium,
            DiskError::Damaged => Self::Damaged,
            DiskError::NoSpace => Self::NoSpace,
        }
    }
}

impl<P: Payload> DiskAction<P> {
    /// The range of data that it is about, and whether it changes that.
    fn range(&self) -> Option<(u64, u32, bool)> {
        match self {
            Self::Write { offset, payload, .. } => Some((*offset, payload.length(), true)),
            Self::Zero { offset, length, .. } => Some((*offset, *length, true)),
            Self::Read { offset, length } | Self::Map { offset, length } => {
                Some((*offset, *length, false))
            }
            Self::Flush { .. }
            | Self::SaveView(..)
            | Self::SaveIntents(_)
            | Self::SaveMissing(_) => None,
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

fn operation_id(message: &Message) -> Option<OperationId> {
    match message {
        Message::Write { id, .. }
        | Message::Zero { id, .. }
        | Message::Read { id, .. }
        | Message::Digest { id, .. }
        | Message::Map { id, .. }
        | Message::Flush { id, .. } => Some(*id),
        _ => None,
    }
}

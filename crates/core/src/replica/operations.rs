//! Reads, writes, zeroes and maps: accepted in the adopted generation only, kept apart by range
//! locks, answered when the disk is done.

mod digests;
mod invariants;

use core::ops::Range;

use self::digests::Digesting;
use super::flush::FlushWaiter;
use super::{Context, DiskAction, DiskError, DiskOutcome, DiskTicket, Replica};
use crate::ids::*;
use crate::message::{CopyContent, Failure, Message, Opener, OperationId};
use crate::operation::Extent;
use crate::payload::Payload;
use crate::range_lock::{LockMode, LockNumber};
use crate::settings::{MAX_PAYLOAD, MAX_ZERO};
use crate::view::ReplicaState;

/// Who wants an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A primary, over a link.
    Primary(LinkId, PrimaryId, OperationId),
    /// A rebuilding replica, over a link.
    Copier(LinkId, ReplicaId, CopyToken),
    /// This replica's own rebuild, which holds the range.
    Rebuild(CopyToken),
}

impl Origin {
    pub fn opener(self) -> Option<Opener> {
        match self {
            Self::Primary(_, primary, _) => Some(Opener::Primary(primary)),
            Self::Copier(_, replica, _) => Some(Opener::Copier(replica)),
            Self::Rebuild(_) => None,
        }
    }

    pub fn link(self) -> Option<LinkId> {
        match self {
            Self::Primary(link, ..) | Self::Copier(link, ..) => Some(link),
            Self::Rebuild(_) => None,
        }
    }
}

/// An operation that holds or waits for the lock on its range.
#[derive(Debug)]
pub(super) struct DataOperation<P> {
    pub origin: Origin,
    /// What to do once the lock is granted; taken when it has begun. A rebuild's hold has none.
    action: Option<DiskAction<P>>,
    /// Whether the disk action has begun.
    pub begun: bool,
    /// Whether it changes data.
    is_write: bool,
    answer: Answer,
    /// Of one that is answered with digests: how far they are.
    digesting: Option<Digesting>,
    /// Whether it has the lock on its range.
    is_locked: bool,
    /// Where its regions are on their way into the intent log.
    pub intent: Intent,
}

/// What the answer to an operation is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Answer {
    /// What makes it durable, if it is to be.
    durability: Durability,
    /// It tells digests of the blocks that were read, not what they hold.
    digests: bool,
}

/// What makes a write durable before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Durability {
    /// Nothing: a later flush does.
    #[default]
    Later,
    /// The write itself (forced unit access).
    Write,
    /// A device flush after it.
    Flush,
}

/// How far the intent log is for an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    /// It changes nothing, or what it changes is noted elsewhere.
    None,
    /// It waits for room to be reserved for the regions of these blocks.
    Waiting(Range<u64>),
    /// Room is reserved in this slot, but not all regions of these blocks are open on the disk.
    Opening(u8, Range<u64>),
    /// The regions of these blocks are open in this slot.
    Open(u8, Range<u64>),
}

impl<P: Payload> Replica<P> {
    /// Accepts or refuses one operation of a primary.
    pub(super) fn operation(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) {
        let Some(id) = operation_id(&message) else { return };
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
        let Some((offset, length, is_write)) = action.range() else { return };
        let number = self.next_number();
        let blocks = self.intents.blocks(offset, length);
        let range = self.bytes_of(&blocks);
        let operation = DataOperation {
            origin,
            action: Some(action),
            begun: false,
            is_write,
            answer,
            digesting: answer.digests.then(|| Digesting::new(offset, length)),
            is_locked: false,
            intent: if is_write { Intent::Waiting(blocks) } else { Intent::None },
        };
        self.operations.insert(number, operation);
        if is_write {
            self.reserve_intent(cx, number);
        }
        let mode = if is_write { LockMode::Exclusive } else { LockMode::Shared };
        // Of whole blocks: a disk with checksums writes no less.
        if self.locks.acquire(number, range, mode) {
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
        let operation = DataOperation {
            origin: Origin::Rebuild(token),
            action: None,
            begun: false,
            is_write: true,
            answer: Answer::default(),
            digesting: None,
            is_locked: false,
            intent: Intent::None,
        };
        self.operations.insert(number, operation);
        if self.locks.acquire(number, offset..offset + u64::from(length), LockMode::Exclusive) {
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
        if let Some(operation) = self.operations.get_mut(&number) {
            operation.begun = true;
            self.count_written(&action);
            cx.disk(DiskTicket::Copy(token), action);
        }
    }

    fn count_written(&mut self, action: &DiskAction<P>) {
        if let DiskAction::Write { payload, .. } = action {
            self.bytes_written += u64::from(payload.length());
        }
    }

    fn lock_granted(&mut self, cx: &mut Context<'_, P>, number: LockNumber) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        operation.is_locked = true;
        if let Origin::Rebuild(token) = operation.origin {
            return self.range_held(cx, token);
        }
        self.begin_if_ready(cx, number);
    }

    /// Begins an operation that has its lock and whose regions are open.
    pub(super) fn begin_if_ready(&mut self, cx: &mut Context<'_, P>, number: LockNumber) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let is_open = matches!(operation.intent, Intent::None | Intent::Open(..));
        if !operation.is_locked || !is_open {
            return;
        }
        if let Some(action) = operation.action.take() {
            operation.begun = true;
            self.count_written(&action);
            cx.disk(DiskTicket::Operation(number), action);
        }
    }

    /// Ends an operation: gives its lock back and lets those begin that waited for it.
    pub(super) fn end_operation(&mut self, cx: &mut Context<'_, P>, number: LockNumber) {
        let Some(operation) = self.operations.remove(&number) else { return };
        match &operation.intent {
            Intent::Opening(slot, blocks) | Intent::Open(slot, blocks) => {
                self.intents.release(*slot, blocks);
            }
            Intent::None | Intent::Waiting(_) => {}
        }
        if matches!(operation.intent, Intent::Opening(..) | Intent::Waiting(_)) {
            self.forget_intent_of(number);
        }
        let mut granted = Vec::new();
        self.locks.release(number, &mut granted);
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
        let Some(operation) = self.operations.get(&number) else { return };
        let (origin, answer) = (operation.origin, operation.answer);
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
            Origin::Primary(..) if answer.digests => {
                if !self.digest_read(cx, number, &outcome) {
                    return;
                }
            }
            Origin::Primary(link, _, id) => self.answer_operation(cx, link, id, outcome),
        }
        self.end_operation(cx, number);
        self.start_flush(cx);
        self.answer_waiting_sessions(cx);
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
        let waiting: Vec<_> = self
            .operations
            .iter()
            .filter(|(_, operation)| operation.origin.link() == Some(link) && !operation.begun)
            .map(|(number, _)| *number)
            .rev() // Newest first, so that giving one up does not begin another one of them.
            .collect();
        for number in waiting {
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
        let waiting: Vec<_> = self
            .operations
            .iter()
            .filter(|(_, operation)| !operation.begun)
            .filter_map(|(number, operation)| match operation.origin {
                Origin::Primary(link, _, id) => Some((*number, link, id.sequence)),
                _ => None,
            })
            .rev() // Newest first, so that ending one does not begin another one of them.
            .collect();
        for (number, link, sequence) in waiting {
            self.refuse(cx, link, Some(sequence));
            self.end_operation(cx, number);
        }
    }

    /// Whether a write up to `covers` that came over this link is not on the disk yet.
    pub(super) fn has_earlier_write(&self, link: LinkId, covers: Sequence) -> bool {
        self.operations.values().any(|operation| match operation.origin {
            Origin::Primary(from, _, id) => {
                operation.is_write && from == link && id.sequence <= covers
            }
            _ => false,
        })
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

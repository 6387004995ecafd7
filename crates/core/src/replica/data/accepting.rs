//! Reads, writes, zeroes and maps: accepted in the adopted generation only, kept apart by range
//! locks, begun when each has its lock and its regions are open.

use super::operations::{Answer, Durability, Origin};
use super::{Data, FlushWaiter, Lower};
use crate::ids::*;
use crate::message::{CopyContent, Failure, Message, OperationId};
use crate::payload::Payload;
use crate::replica::views::Views;
use crate::replica::{Context, DiskAction, DiskTicket, Obeyed, Sender, Violation};
use crate::settings::{MAX_PAYLOAD, MAX_ZERO};
use crate::view::ReplicaState;

impl<P: Payload> Data<P> {
    /// Accepts or refuses one operation of a primary.
    pub fn operation(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) -> Obeyed {
        let Some(id) = operation_id(&message) else {
            debug_assert!(false, "{message:?} asks for no operation");
            return Ok(());
        };
        let primary = lower.sessions.primary_of(link).ok_or(Violation)?;
        let wanted = match message {
            Message::Read { .. } | Message::Map { .. } | Message::Digest { .. } => {
                lower.views.state() == Some(ReplicaState::InSync)
            }
            _ => lower.views.state().is_some_and(ReplicaState::takes_writes),
        };
        if !wanted
            || !lower.views.is_current(id.generation)
            || !lower.views.view().has_primary(primary)
        {
            lower.sessions.refuse(cx, lower.views, link, Some(id.sequence));
            return Ok(());
        }
        if let Message::Flush { id, covers } = message {
            self.flush(cx, lower, FlushWaiter::Primary { link, id, after: Some(covers) });
            return Ok(());
        }
        let Some((action, answer, receipt)) = parse(cx, lower.views, message, payload) else {
            let result = Err(Failure::Invalid);
            lower.sessions.confirm(cx, lower.views, link, Message::Done { id, result }, None);
            return Ok(());
        };
        if receipt {
            lower.sessions.confirm(cx, lower.views, link, Message::Received { id }, None);
        }
        if comes_with_the_copy(lower, &action) {
            lower.sessions.confirm(
                cx,
                lower.views,
                link,
                Message::Done { id, result: Ok(()) },
                None,
            );
            return Ok(());
        }
        self.start_operation(cx, lower, Origin::Primary(link, primary, id), action, answer);
        Ok(())
    }

    /// A rebuilding replica wants to copy a range from this one.
    pub fn copy_asked(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        from: Sender,
        token: CopyToken,
        offset: u64,
        length: u32,
    ) -> Obeyed {
        let Sender { link, generation } = from;
        let copier = lower.sessions.copier_of(link).ok_or(Violation)?;
        let is_source = lower.views.state() == Some(ReplicaState::InSync);
        if !is_source
            || !lower.views.is_current(generation)
            || !lower.sessions.is_copier_of_the_view(lower.views, link)
            || !is_inside(lower.views, offset, length, MAX_ZERO)
        {
            cx.send(link, Message::Copied { token, content: CopyContent::Refused }, None);
            return Ok(());
        }
        let action = match length {
            ..=MAX_PAYLOAD => DiskAction::Read { offset, length },
            _ => DiskAction::Map { offset, length },
        };
        self.start_operation(
            cx,
            lower,
            Origin::Copier(link, copier, token),
            action,
            Answer::default(),
        );
        Ok(())
    }

    /// Accepts an operation. It begins when it has the lock on its range, and a write also not
    /// before its regions are open in the intent log. Both are asked for here, so both are given in
    /// the order in which operations came.
    fn start_operation(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        origin: Origin,
        action: DiskAction<P>,
        answer: Answer,
    ) {
        let Some((offset, length, is_write)) = action.range() else {
            debug_assert!(false, "an operation has a range");
            return;
        };
        let number = OperationNumber(cx.next_number());
        let blocks = lower.log.blocks(offset, length);
        // Of whole blocks: a disk with checksums writes no less.
        let range = lower.views.bytes_of(&blocks);
        self.operations.add(number, origin, action, blocks, answer);
        if is_write {
            self.reserve_intent(cx, lower, number);
        }
        if self.operations.lock(number, range) {
            self.lock_granted(cx, lower, number);
        }
    }

    /// Holds a range for the rebuild: writes that come in wait.
    pub fn hold(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        token: CopyToken,
        offset: u64,
        length: u32,
    ) -> OperationNumber {
        let number = OperationNumber(cx.next_number());
        self.operations.add_hold(number, token);
        if self.operations.lock(number, offset..offset + u64::from(length)) {
            self.lock_granted(cx, lower, number);
        }
        number
    }

    /// Begins a disk action in a range that is held by the rebuild.
    pub fn begin_held(
        &mut self,
        cx: &mut Context<'_, P>,
        number: OperationNumber,
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

    pub(super) fn lock_granted(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        number: OperationNumber,
    ) {
        match self.operations.copy_of(number) {
            Some(token) => self.range_held(cx, lower, token),
            None => self.begin_if_ready(cx, number),
        }
    }

    /// A hold was granted: asks all primaries to drain the range.
    fn range_held(&self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>, token: CopyToken) {
        let Lower { views, sessions, copier, .. } = lower;
        let generation = views.generation();
        // Those that are not connected at present, too: what they sent before may not have reached
        // the source.
        let primaries = views.view().primaries.iter().map(|primary| primary.id).collect();
        if let Some((source, blocks)) = copier.held(cx.now, token, primaries) {
            let (offset, length) = views.place_of(&blocks);
            let drain = Message::Drain { generation, token, offset, length, source };
            sessions.tell_those_of_the_view(cx, views, &drain);
        }
    }

    /// Begins an operation that has its lock and whose regions are open.
    pub(super) fn begin_if_ready(&mut self, cx: &mut Context<'_, P>, number: OperationNumber) {
        if let Some(action) = self.operations.take_ready(number) {
            self.count_written(&action);
            cx.disk(DiskTicket::Operation(number), action);
        }
    }
}

/// Turns a message into a disk action, if it is inside the replica.
fn parse<P: Payload>(
    cx: &Context<'_, P>,
    views: &Views,
    message: Message,
    payload: Option<P>,
) -> Option<(DiskAction<P>, Answer, bool)> {
    let written = |durability| Answer { durability, digests: false };
    let (offset, length, most, parsed) = match message {
        Message::Write { offset, length, durable, receipt, .. } => {
            let payload = payload.filter(|p| p.length() == length)?;
            let durability = match (durable, cx.me.has_fua) {
                (false, _) => Durability::Later,
                (true, true) => Durability::Write,
                (true, false) => Durability::Flush,
            };
            let durable = durability == Durability::Write;
            let action = DiskAction::Write { offset, payload, durable, forgotten: None };
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
    is_inside(views, offset, length, most).then_some(parsed)
}

/// Whether an action writes only what a rebuild of the whole replica is still to copy. Then
/// nothing needs to be done: the source has it before it is copied from there, and whichever
/// source is asked, this replica lacks all that it has not copied. (If it lacks only a part,
/// what that is may be known to one source and not to another one.)
fn comes_with_the_copy<P: Payload>(lower: &Lower<'_>, action: &DiskAction<P>) -> bool {
    let Some((offset, length, true)) = action.range() else { return false };
    let blocks = lower.log.blocks(offset, length);
    lower.views.is_all_out_of_sync() && lower.copier.is_to_copy(&blocks)
}

/// Whether a range is of whole logical blocks of the replica, and not too long.
fn is_inside(views: &Views, offset: u64, length: u32, most: u32) -> bool {
    let end = offset.checked_add(u64::from(length));
    let block = views.view().geometry.block_size;
    let is_whole = offset.is_multiple_of(block.into()) && length.is_multiple_of(block);
    is_whole && (1..=most).contains(&length) && end.is_some_and(|end| end <= views.size())
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

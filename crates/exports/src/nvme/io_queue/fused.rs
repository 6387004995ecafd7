//! Compare and Write: two commands that are one operation (Base 3.4.2).
//!
//! The second half has to be the command that comes right behind the first one, for the same
//! blocks. If it is not, the first one is aborted. When the first one begins it takes room for the
//! data of both, and for what the volume reads to compare, so that it never has one and waits for
//! another. The volume is asked once the data of both is here: nothing is locked for a host that is
//! slow.
//!
//! Bounds: a pair that has begun holds three times its length, 192 KiB at most, of the volume's
//! memory, also while the host keeps data back; one that has not begun holds nothing. A queue has
//! as many pairs as half its entries. A host that keeps data back for longer than
//! [`crate::stream::PATIENCE`] while memory is short loses its queue, and the memory returns.

use evenkeel_core::{Operation, Reply, RequestError};
use evenkeel_engine::memory::Reservation;
use evenkeel_engine::{Buffer, BufferMut, FrontendContext, RequestToken};

use super::{Phase, Queue};
use crate::nvme::command::{Fuse, Status};
use crate::nvme::connection::{Tag, Transfer};
use crate::nvme::io::Ask;

/// What a command was, to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// No first half.
    Other,
    /// A first half, whose second one has to follow.
    First(Tag),
    /// A first half that has failed.
    Failed,
}

/// A first half that is under way, with its second one if that has come.
#[derive(Debug)]
pub(super) struct Pair {
    first: Tag,
    second: Option<Tag>,
    /// For the second half's data, from when the first one has begun until the second one does.
    payload: Option<BufferMut>,
    /// For what the volume reads, from when the first one has begun until the volume is asked.
    answer: Option<Reservation>,
}

impl Queue {
    /// A command has come with this part in a fused operation: what the one before it was. A first
    /// half that is not followed by its second one is aborted.
    pub(super) fn follow(&mut self, fuse: Result<Fuse, Status>) -> Before {
        let before = std::mem::replace(&mut self.before, Before::Other);
        if let Before::First(first) = before
            && fuse != Ok(Fuse::Second)
        {
            self.abort_first(first, Status::FusedMissing);
        }
        before
    }

    /// A command has come whose data pointer is wrong: it stands between others, too, and may be a
    /// half that has failed.
    pub(super) fn refused(&mut self, fuse: Fuse) {
        if let Before::First(first) = self.follow(Ok(fuse))
            && fuse == Fuse::Second
        {
            self.abort_first(first, Status::FusedFailed);
        }
        if fuse == Fuse::First {
            self.before = Before::Failed;
        }
    }

    /// There is no room for a half whose data comes next. It can't wait, because the memory may be
    /// held for data behind that: the host tries again.
    pub(super) fn interrupt(&mut self, tag: Tag) {
        if self.before == Before::First(tag) {
            self.before = Before::Failed;
        }
        if let Some(index) = self.pair_of(tag) {
            let first = self.pairs[index].first;
            self.waiting.retain(|waiting| *waiting != first);
            self.end_pair(first, [Status::Interrupted, Status::FusedFailed]);
        }
    }

    /// A first half.
    pub(super) fn first(
        &mut self,
        tag: Tag,
        ask: Result<Ask, Status>,
        transfer: Transfer,
        context: &mut FrontendContext,
    ) {
        match ask {
            Ok(ask) => {
                self.before = Before::First(tag);
                self.pairs.push(Pair { first: tag, second: None, payload: None, answer: None });
                self.take(tag, ask, transfer, context);
            }
            Err(status) => {
                self.before = Before::Failed;
                self.answer(tag, status);
            }
        }
    }

    /// A second half.
    pub(super) fn second(
        &mut self,
        before: Before,
        tag: Tag,
        ask: Result<Ask, Status>,
        transfer: Transfer,
        context: &mut FrontendContext,
    ) {
        let first = match before {
            Before::First(first) => first,
            Before::Failed => return self.answer(tag, Status::FusedFailed),
            Before::Other => return self.answer(tag, Status::FusedMissing),
        };
        match ask {
            Ok(ask) if self.range(first) == range(&ask) => {
                if let Some(pair) = self.pairs.iter_mut().find(|pair| pair.first == first) {
                    pair.second = Some(tag);
                }
                self.take(tag, ask, transfer, context);
            }
            Ok(_) => {
                self.abort_first(first, Status::InvalidField);
                self.answer(tag, Status::InvalidField);
            }
            Err(status) => {
                self.abort_first(first, Status::FusedFailed);
                self.answer(tag, status);
            }
        }
    }

    /// The blocks of a half.
    fn range(&self, tag: Tag) -> Option<(u64, u32)> {
        self.open[tag.index()].as_ref().and_then(|open| range(&open.ask))
    }

    /// Answers a first half without its second one.
    fn abort_first(&mut self, first: Tag, status: Status) {
        self.pairs.retain(|pair| pair.first != first);
        self.abort_half(first, status);
    }

    fn abort_half(&mut self, tag: Tag, status: Status) {
        self.waiting.retain(|waiting| *waiting != tag);
        self.answer(tag, status);
    }

    /// Makes room for both halves, and requests the first one's data. Returns whether there was
    /// some. One in a capsule can't wait, and so doesn't wait for others.
    pub(super) fn fill_first(
        &mut self,
        tag: Tag,
        length: u32,
        transfer: Transfer,
        context: &mut FrontendContext,
    ) -> bool {
        let length = length as usize;
        if matches!(transfer, Transfer::OnRequest(_)) && !self.is_next(tag) {
            return false;
        }
        let Some([expected, payload, answer]) = context.reserve([length; 3]) else {
            return false;
        };
        self.fill_into(tag, expected.into_buffer(length), transfer, context);
        if let Some(pair) = self.pairs.iter_mut().find(|pair| pair.first == tag) {
            (pair.payload, pair.answer) = (Some(payload.into_buffer(length)), Some(answer));
        }
        true
    }

    /// Requests the second half's data, if the first one has begun. Returns whether it has.
    pub(super) fn fill_second(
        &mut self,
        tag: Tag,
        transfer: Transfer,
        context: &FrontendContext,
    ) -> bool {
        let pair = self.pairs.iter_mut().find(|pair| pair.second == Some(tag));
        let Some(buffer) = pair.and_then(|pair| pair.payload.take()) else { return false };
        self.fill_into(tag, buffer, transfer, context);
        true
    }

    /// The data of a half is here. If that of the other one is, too, the volume is asked.
    pub(super) fn compare_and_write(&mut self, tag: Tag, context: &mut FrontendContext) {
        // Its other half was aborted, and this one is answered for that.
        let Some(index) = self.pair_of(tag) else { return };
        // The second half has not come.
        let (first, Some(second)) = (self.pairs[index].first, self.pairs[index].second) else {
            return;
        };
        if !self.is_held(first) || !self.is_held(second) {
            return;
        }
        // It is taken once: the volume is asked already.
        let Some(room) = self.pairs[index].answer.take() else { return };
        // Both are held.
        let (Some((expected, _)), Some((payload, ask))) =
            (self.submitted(first), self.submitted(second))
        else {
            return;
        };
        // It is the second one that writes.
        let Ask::FusedWrite { offset, durable, .. } = ask else { return };
        let operation = Operation::CompareAndWrite { offset, expected, payload, durable };
        context.submit_in(RequestToken::of_index(first.index()), operation, room);
    }

    /// Where the pair of this half is.
    pub(super) fn pair_of(&self, tag: Tag) -> Option<usize> {
        self.pairs.iter().position(|pair| pair.first == tag || pair.second == Some(tag))
    }

    /// The halves of the pair that is there.
    pub(super) fn halves(&self, index: usize) -> (Tag, Option<Tag>) {
        (self.pairs[index].first, self.pairs[index].second)
    }

    /// By which token the volume has a command: both halves of a pair by the first one's.
    pub(super) fn token(&self, tag: Tag) -> RequestToken {
        let first = self.pair_of(tag).map_or(tag, |index| self.halves(index).0);
        RequestToken::of_index(first.index())
    }

    fn is_held(&self, tag: Tag) -> bool {
        let open = self.open[tag.index()].as_ref();
        open.is_some_and(|open| matches!(open.phase, Phase::Held(_)))
    }

    /// The data of a half, which the volume gets now.
    fn submitted(&mut self, tag: Tag) -> Option<(Buffer, Ask)> {
        let open = self.open[tag.index()].as_mut()?;
        match std::mem::replace(&mut open.phase, Phase::Submitted(Vec::new())) {
            Phase::Held(data) => Some((data, open.ask)),
            _ => None,
        }
    }

    /// The volume has compared, and written or not.
    pub(super) fn compared_and_written(
        &mut self,
        first: Tag,
        result: &Result<Reply<Buffer>, RequestError>,
    ) {
        if matches!(result, Err(RequestError::Cancelled)) {
            self.report_cancelled(first);
        }
        self.end_pair(
            first,
            match result {
                Ok(Reply::Done) => [Status::Success; 2],
                Ok(Reply::Miscompare { .. }) => [Status::CompareFailure, Status::FusedFailed],
                Ok(_) => [Status::Internal, Status::FusedFailed],
                Err(error) => [self.failure(*error, false), Status::FusedFailed],
            },
        );
    }

    pub(super) fn end_pair(&mut self, first: Tag, [of_first, of_second]: [Status; 2]) {
        // Each pair is answered once.
        let Some(index) = self.pairs.iter().position(|pair| pair.first == first) else { return };
        let pair = self.pairs.swap_remove(index);
        self.answer(first, of_first);
        if let Some(second) = pair.second {
            self.answer(second, of_second);
        }
    }

    /// The data of a command was damaged, which its host knows: the other half can't be done.
    pub(super) fn damaged(&mut self, tag: Tag) {
        if self.before == Before::First(tag) {
            self.before = Before::Failed;
        }
        // Most commands have no other half.
        let Some(index) = self.pair_of(tag) else { return };
        let pair = self.pairs.swap_remove(index);
        let other = if pair.first == tag { pair.second } else { Some(pair.first) };
        if let Some(other) = other {
            self.abort_half(other, Status::FusedFailed);
        }
    }

    /// What was not begun has been dropped.
    pub(super) fn forget_pairs(&mut self) {
        self.before = Before::Other;
        self.pairs.retain(|pair| self.open[pair.first.index()].is_some());
    }

    /// Asserts what holds of pairs after each step of a queue that serves its host.
    pub(super) fn check_pairs(&self) {
        for pair in &self.pairs {
            let first = self.open[pair.first.index()].as_ref().expect("it is under way");
            assert!(matches!(first.ask, Ask::FusedCompare { .. }));
            let is_last = self.before == Before::First(pair.first);
            assert_eq!(
                is_last,
                pair.second.is_none(),
                "only the last command lacks its other half"
            );
            if let Some(second) = pair.second {
                let second = self.open[second.index()].as_ref().expect("it is under way");
                assert!(matches!(second.ask, Ask::FusedWrite { .. }));
                assert_eq!(range(&first.ask), range(&second.ask));
                let submitted = [first, second].map(|it| matches!(it.phase, Phase::Submitted(_)));
                assert_eq!(submitted[0], submitted[1], "they are begun together");
            }
        }
        let halves = self.open.iter().flatten().filter(|open| range(&open.ask).is_some()).count();
        let paired: usize = self.pairs.iter().map(|it| 1 + usize::from(it.second.is_some())).sum();
        assert_eq!(halves, paired, "no half is left alone");
    }
}

/// The blocks of a half.
const fn range(ask: &Ask) -> Option<(u64, u32)> {
    match ask {
        Ask::FusedCompare { offset, length } | Ask::FusedWrite { offset, length, .. } => {
            Some((*offset, *length))
        }
        _ => None,
    }
}

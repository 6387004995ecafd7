//! What a primary does for requests ([`super::table`]): accepts them, has them locked, answers
//! them, or fails them.

use core::ops::Range;

use super::Requests;
use super::exclusions::Exclusion;
use super::ranges::Holder;
use super::table::{
    Answer, Asked, Client, Failed, Next, Origin, RequestLock, RequestNumber, RequestStep,
};
use crate::operation::{Operation, RequestError};
use crate::payload::Payload;
use crate::primary::io::Lower;
use crate::primary::{Context, PrimaryEffect, Stage};
use crate::range_lock::LockMode;
use crate::settings::{MAX_COMPARE, MAX_REQUEST};
use crate::stripe::Geometry;

impl<P: Payload> Requests<P> {
    /// A client asks before any may be served. It is checked, and its range locked, when it may be.
    pub fn wait(&mut self, asked: Asked<P>) {
        self.table.wait(asked);
    }

    /// A client asks for something.
    pub fn request(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>, asked: Asked<P>) {
        let is_early = cx.stage == Stage::Starting
            || self.exclusions.are_joining() && self.suspension.failing().is_none();
        if is_early {
            return self.wait(asked);
        }
        let Asked { client, origin, operation } = asked;
        if let Some(error) = self.refusal(cx, lower, &operation) {
            return client.refuse(cx, error);
        }
        self.table.note_asked(cx.now);
        self.accept(cx, lower, Some(client), origin, operation);
    }

    /// Why a request can't even be accepted.
    fn refusal(
        &self,
        cx: &Context<'_, P>,
        lower: &Lower<'_>,
        operation: &Operation<P>,
    ) -> Option<RequestError> {
        match cx.stage {
            Stage::Detaching | Stage::Ended => return Some(RequestError::Detached),
            Stage::Starting | Stage::Serving => {}
        }
        if let Some(error) = self.suspension.failing() {
            return Some(error);
        }
        let is_valid = is_valid(lower.views.view().geometry, operation);
        (!is_valid).then_some(RequestError::Invalid)
    }

    /// Requests may be served: takes in those that came before.
    pub fn accept_early(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>) {
        for asked in self.table.take_early() {
            self.request(cx, lower, asked);
        }
    }

    /// Takes a request in and asks for its lock.
    pub fn accept(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        client: Option<Client>,
        origin: Origin,
        operation: Operation<P>,
    ) -> RequestNumber {
        let number = RequestNumber(cx.next_number());
        let cluster_locks =
            matches!(operation, Operation::CompareAndWrite { .. }) && lower.views.has_others();
        let range = operation.range();
        let mode = if operation.changes_data() { LockMode::Exclusive } else { LockMode::Shared };
        let lock = match &range {
            None => RequestLock::None,
            Some(_) if cluster_locks => RequestLock::ClusterLock,
            Some(_) => RequestLock::Local,
        };
        self.table.begin(number, client, origin, operation, lock);
        match range {
            Some(range) if cluster_locks => self.cluster_locks.want(number, range),
            Some(range) => self.ranges.lock(number, range, mode),
            None => self.ranges.go_on(number),
        }
        number
    }

    /// This primary joins others: it serves nothing before it has had the whole volume for itself.
    pub fn join(&mut self, cx: &mut Context<'_, P>) {
        let cluster_lock = self.cluster_lock_for_itself(cx, 0..u64::MAX);
        self.exclusions.join(cluster_lock);
    }

    /// A request of the primary itself, of so many parts.
    pub fn accept_internal(&mut self, cx: &mut Context<'_, P>, parts: usize) -> RequestNumber {
        let number = RequestNumber(cx.next_number());
        self.table.begin_internal(number, parts);
        number
    }

    /// A request of the primary itself that keeps everybody out of a range for several rounds of
    /// parts, until [`Self::end_kept`].
    pub fn keep_out(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        range: Range<u64>,
    ) -> RequestNumber {
        if lower.views.has_others() {
            return self.cluster_lock_for_itself(cx, range);
        }
        let number = RequestNumber(cx.next_number());
        self.table.keep(number, RequestLock::Local);
        self.ranges.lock(number, range, LockMode::Exclusive);
        number
    }

    /// A request of the primary itself that locks a range until [`Self::end_kept`].
    fn cluster_lock_for_itself(
        &mut self,
        cx: &mut Context<'_, P>,
        range: Range<u64>,
    ) -> RequestNumber {
        let number = RequestNumber(cx.next_number());
        self.table.keep(number, RequestLock::ClusterLock);
        self.cluster_locks.want(number, range);
        number
    }

    /// What a range was kept for is over: gives it back.
    pub fn end_kept(&mut self, number: RequestNumber) {
        self.table.end_kept(number);
        self.forget_if_over(number);
    }

    /// Who has its range, if everybody has adopted the view, and what is to be done of it by
    /// somebody else. Asked again after each.
    pub fn next_ready(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>) -> Option<Next<P>> {
        while lower.views.can_send(cx.stage) {
            match self.ranges.next()? {
                Holder::ClusterLock(lock) => self.yield_range(cx, lower, lock),
                Holder::Request(number) if self.table.is_kept(number) => {
                    match self.exclusions.granted(number) {
                        Some(exclusion) => self.excluded(cx, lower, number, exclusion),
                        None => return Some(Next::Kept(number)),
                    }
                }
                Holder::Request(number) => {
                    if let Some(operation) = self.go_on(cx, lower, number) {
                        return Some(Next::Dispatch(number, operation));
                    }
                }
            }
        }
        None
    }

    /// A request has its range, or has read what it is to compare. Returns what is to be sent.
    #[inline]
    fn go_on(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        number: RequestNumber,
    ) -> Option<Operation<P>> {
        match self.table.go_on(number) {
            RequestStep::Compare(comparison) => self.compare(cx, number, comparison),
            RequestStep::Send(operation) => {
                if self.refuse_reserved(cx, lower, number, &operation) {
                    return None;
                }
                Some(self.read_to_compare(number, operation))
            }
            RequestStep::Nothing => None,
        }
    }

    /// Everybody else keeps out of the volume, as was wanted.
    fn excluded(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        number: RequestNumber,
        exclusion: Exclusion,
    ) {
        match exclusion {
            Exclusion::Joining => self.joined(cx, lower, number),
            Exclusion::Clearing(command) => self.end_clearing(cx, number, command, Ok(())),
        }
    }

    /// A part permits the answer now, or has failed.
    pub fn part_answered(
        &mut self,
        cx: &mut Context<'_, P>,
        number: RequestNumber,
        error: Option<RequestError>,
    ) {
        if self.table.part_answered(number, error) {
            self.reply(cx, number);
        }
    }

    /// Every member has carried out a part.
    pub fn part_finished(&mut self, number: RequestNumber) {
        if self.table.part_finished(number) {
            self.ranges.go_on(number);
        } else {
            self.forget_if_over(number);
        }
    }

    /// Answers the client. Overlapping writes wait until every member has carried out this request
    /// or has left, so that a resend never meets a later write (W2). Overlapping reads may pass
    /// once a write has succeeded; one that failed must not be seen to come and go.
    pub(super) fn reply(&mut self, cx: &mut Context<'_, P>, number: RequestNumber) {
        if let Some(Answer { reply, lets_readers_pass }) = self.table.answer(number) {
            if let Some((request, result)) = reply {
                self.suspension.answered();
                cx.effects.push(PrimaryEffect::Reply { request, result });
            }
            if lets_readers_pass {
                self.ranges.let_readers_pass(number);
            }
            self.forget_if_over(number);
        }
    }

    /// A request is over, if nothing of it is under way and nobody waits for it.
    pub fn forget_if_over(&mut self, number: RequestNumber) {
        match self.table.forget_if_over(number) {
            None | Some(RequestLock::None) => {}
            Some(RequestLock::Local) => self.ranges.unlock(number),
            Some(RequestLock::ClusterLock) => self.cluster_locks.end(number),
        }
    }

    /// Fails a request, if a client waits for it. Tells what its caller has to look after, before
    /// it says that this is done ([`Self::forget_if_over`]).
    pub fn fail(
        &mut self,
        cx: &mut Context<'_, P>,
        number: RequestNumber,
        error: RequestError,
    ) -> Option<Failed> {
        let (client, failed) = self.table.fail(number, error)?;
        client.refuse(cx, error);
        Some(failed)
    }

    /// Requests have failed: those that are over by that go on no more.
    pub fn forget_ready(&mut self) {
        let (requests, cluster_locks) = (&self.table, &self.cluster_locks);
        self.ranges.keep_ready(|ready| match ready {
            Holder::Request(number) => requests.is_under_way(number),
            Holder::ClusterLock(lock) => cluster_locks.are_honoured_by(lock),
        });
    }

    /// Fails those requests that came before any may be served.
    pub fn fail_early(
        &mut self,
        cx: &mut Context<'_, P>,
        error: RequestError,
        fails: impl Fn(&Client) -> bool,
    ) {
        for client in self.table.take_early_of(fails) {
            client.refuse(cx, error);
        }
    }
}

impl Client {
    fn refuse<P>(self, cx: &mut Context<'_, P>, error: RequestError) {
        cx.effects.push(PrimaryEffect::Reply { request: self.request, result: Err(error) });
    }
}

/// Whether a request lies inside the volume, on whole blocks, and is not too long.
fn is_valid<P: Payload>(geometry: Geometry, operation: &Operation<P>) -> bool {
    let (offset, length, most) = match operation {
        Operation::Flush => return true,
        Operation::Read { offset, length } => (*offset, u64::from(*length), MAX_REQUEST.into()),
        Operation::Write { offset, payload, .. } => {
            (*offset, u64::from(payload.length()), MAX_REQUEST.into())
        }
        Operation::CompareAndWrite { offset, expected, payload, .. } => {
            if expected.length() != payload.length() {
                return false;
            }
            (*offset, u64::from(payload.length()), MAX_COMPARE.into())
        }
        Operation::Zero { offset, length, .. } | Operation::Map { offset, length } => {
            (*offset, *length, u64::MAX)
        }
    };
    let block = u64::from(geometry.block_size);
    (1..=most).contains(&length)
        && offset % block == 0
        && length % block == 0
        && offset.checked_add(length).is_some_and(|end| end <= geometry.size)
}

//! What a primary does for requests ([`super::requests`]): accepts them, has them locked, sends and
//! answers them, or fails them.

use core::ops::Range;

use super::exclusions::Exclusion;
use super::ranges::Ready;
use super::requests::{Answer, Asked, Client, Failed, RequestLock, RequestNumber, Step};
use crate::ids::*;
use crate::operation::{Operation, RequestError};
use crate::payload::Payload;
use crate::primary::io::{Io, Lower};
use crate::primary::{Context, PrimaryEffect, Stage};
use crate::range_lock::LockMode;
use crate::settings::{MAX_COMPARE, MAX_REQUEST};
use crate::stripe::Geometry;

impl<P: Payload> Io<P> {
    pub fn request(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>, asked: Asked<P>) {
        let is_early = matches!(cx.stage, Stage::Idle | Stage::Starting)
            || self.exclusions.are_joining() && self.suspension.failing().is_none();
        if is_early {
            // It is checked, and its range locked, when it may be served.
            return self.requests.wait(asked);
        }
        let Asked { client, host, operation } = asked;
        if let Some(error) = self.refusal(cx, lower, &operation) {
            return client.refuse(cx, error);
        }
        self.requests.note_asked(cx.now);
        self.accept(cx, lower, Some(client), host, operation);
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
            Stage::Idle | Stage::Starting | Stage::Serving => {}
        }
        if let Some(error) = self.suspension.failing() {
            return Some(error);
        }
        let geometry = lower.views.view().map(|view| view.geometry);
        match geometry {
            Some(geometry) if is_valid(geometry, operation) => None,
            _ => Some(RequestError::Invalid),
        }
    }

    /// Requests may be served: takes in those that came before.
    pub fn accept_early(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>) {
        for asked in self.requests.take_early() {
            self.request(cx, lower, asked);
        }
    }

    /// Takes a request in and asks for its lock.
    pub fn accept(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        client: Option<Client>,
        host: HostId,
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
        self.requests.begin(number, client, host, operation, lock);
        match range {
            Some(range) if cluster_locks => self.cluster_locks.want(number, range),
            Some(range) => self.ranges.lock(number, range, mode),
            None => self.ranges.go_on(number),
        }
        number
    }

    /// Parts of a request that keeps its range are sent next: these many.
    pub fn expect_parts(&mut self, number: RequestNumber, parts: usize) {
        self.requests.expect_parts(number, parts);
    }

    /// Whether parts of a request are under way.
    pub fn has_parts(&self, number: RequestNumber) -> bool {
        self.requests.has_parts(number)
    }

    /// Whether a part of a request has failed.
    pub fn has_failed(&self, number: RequestNumber) -> bool {
        self.requests.has_failed(number)
    }

    /// Whether a request keeps its range.
    pub fn is_kept(&self, number: RequestNumber) -> bool {
        self.requests.is_kept(number)
    }

    /// Takes what a round of parts has read. What they could not read is no failure of the next
    /// round.
    pub fn take_data(&mut self, number: RequestNumber) -> Vec<(u32, P)> {
        self.requests.take_data(number)
    }

    /// The number that the next part will have.
    pub fn upcoming(&self) -> Sequence {
        self.writes.upcoming()
    }

    /// This primary joins others: it serves nothing before it has had the whole volume for itself.
    pub fn join(&mut self, cx: &mut Context<'_, P>) {
        let cluster_lock = self.cluster_lock_for_itself(cx, 0..u64::MAX);
        self.exclusions.join(cluster_lock);
    }

    /// A request of the primary itself, of so many parts.
    pub(in crate::primary::io) fn accept_internal(
        &mut self,
        cx: &mut Context<'_, P>,
        parts: usize,
    ) -> RequestNumber {
        let number = RequestNumber(cx.next_number());
        self.requests.begin_internal(number, parts);
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
        self.requests.keep(number, RequestLock::Local);
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
        self.requests.keep(number, RequestLock::ClusterLock);
        self.cluster_locks.want(number, range);
        number
    }

    /// What a range was kept for is over: gives it back.
    pub fn end_kept(&mut self, number: RequestNumber) {
        self.requests.end_kept(number);
        self.forget_if_over(number);
    }

    /// Sends what has its lock, if everybody has adopted the view. Tells of a request of the
    /// primary itself that has the range which it keeps: its owner goes on with it, and asks again.
    pub fn dispatch_ready(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
    ) -> Option<RequestNumber> {
        while lower.views.can_send(cx.stage) {
            match self.ranges.next()? {
                Ready::ClusterLock(lock) => self.yield_range(cx, lower, lock),
                Ready::Request(number) if self.requests.is_kept(number) => {
                    if let Some(exclusion) = self.exclusions.granted(number) {
                        self.excluded(cx, lower, number, exclusion);
                    } else {
                        return Some(number);
                    }
                }
                Ready::Request(number) => self.go_on(cx, lower, number),
            }
        }
        None
    }

    /// A request has its range, or has read what it is to compare.
    fn go_on(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>, number: RequestNumber) {
        match self.requests.go_on(number) {
            Step::Compare(comparison) => self.compare(cx, lower, number, comparison),
            Step::Send(operation) => self.dispatch_permitted(cx, lower, number, operation),
            Step::Nothing => {}
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
    pub(in crate::primary::io) fn part_answered(
        &mut self,
        cx: &mut Context<'_, P>,
        number: RequestNumber,
        error: Option<RequestError>,
    ) {
        if self.requests.part_answered(number, error) {
            self.reply(cx, number);
        }
    }

    /// Every member has carried out a part.
    pub(in crate::primary::io) fn part_finished(&mut self, number: RequestNumber) {
        if self.requests.part_finished(number) {
            self.ranges.go_on(number);
        } else {
            self.forget_if_over(number);
        }
    }

    /// Answers the client. Overlapping writes wait until every member has carried out this request
    /// or has left, so that a resend never meets a later write (W2). Overlapping reads may pass
    /// once a write has succeeded; one that failed must not be seen to come and go.
    pub(in crate::primary::io) fn reply(&mut self, cx: &mut Context<'_, P>, number: RequestNumber) {
        if let Some(Answer { reply, lets_readers_pass }) = self.requests.answer(number) {
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

    fn forget_if_over(&mut self, number: RequestNumber) {
        match self.requests.forget_if_over(number) {
            None | Some(RequestLock::None) => {}
            Some(RequestLock::Local) => self.ranges.unlock(number),
            Some(RequestLock::ClusterLock) => self.cluster_locks.end(number),
        }
    }

    /// Fails every request of a client.
    pub fn fail_requests(&mut self, cx: &mut Context<'_, P>, error: RequestError) {
        self.fail_early(cx, error, |_| true);
        let waiting = self.requests.of_clients(|_| true);
        self.fail_accepted(cx, error, waiting);
    }

    /// Fails these requests of clients. Parts that were sent stay until every member has them or
    /// has left (W2).
    pub(in crate::primary::io) fn fail_accepted(
        &mut self,
        cx: &mut Context<'_, P>,
        error: RequestError,
        waiting: Vec<RequestNumber>,
    ) {
        for number in waiting {
            if let Some(Failed { client, was_sent }) = self.requests.fail(number, error) {
                client.refuse(cx, error);
                if was_sent {
                    self.forget_reads_of(number);
                }
                // Also what has read and waits to compare: nothing of it is under way.
                self.forget_if_over(number);
            }
        }
        let (requests, cluster_locks) = (&self.requests, &self.cluster_locks);
        self.ranges.keep_ready(|ready| match ready {
            Ready::Request(number) => requests.is_under_way(number),
            Ready::ClusterLock(lock) => cluster_locks.are_honoured_by(lock),
        });
    }

    /// Fails those requests that came before any may be served.
    pub fn fail_early(
        &mut self,
        cx: &mut Context<'_, P>,
        error: RequestError,
        fails: impl Fn(&Client) -> bool,
    ) {
        for client in self.requests.take_early_of(fails) {
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

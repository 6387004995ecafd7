//! Requests of clients: accepted, locked, sent, answered once.

use core::ops::Range;

use super::{Context, Phase, Primary, PrimaryEffect};
use crate::ids::*;
use crate::operation::{Extent, Operation, Reply, RequestError};
use crate::payload::Payload;
use crate::range_lock::LockMode;
use crate::settings::LONGEST_REQUEST;
use crate::view::Geometry;

/// Numbers requests inside the primary; also the number of a request's lock.
pub(super) type RequestNumber = u64;

/// A request under way.
#[derive(Debug)]
pub(super) struct Request<P> {
    /// Whom to answer; `None` once answered, and for the flush of a detach.
    pub client: Option<RequestId>,
    /// What is asked; taken when it is sent.
    pub operation: Option<Operation<P>>,
    is_locked: bool,
    /// Whether its owner ends it, and not its last part: a check has several rounds of parts.
    is_kept: bool,
    /// Parts that do not permit the answer yet.
    pub unanswered: usize,
    /// Parts that some replica has not carried out yet.
    pub unfinished: usize,
    pub error: Option<RequestError>,
    pub data: Vec<(u32, P)>,
    pub extents: Vec<(u64, Vec<Extent>)>,
}

impl<P: Payload> Primary<P> {
    pub(super) fn request(
        &mut self,
        cx: &mut Context<'_, P>,
        client: RequestId,
        operation: Operation<P>,
    ) {
        if matches!(self.phase, Phase::Idle | Phase::Starting(_)) && self.view.is_none() {
            // It is checked when the view, and with it the volume's size, is known.
            return self.early.push((client, operation));
        }
        if let Some(error) = self.refusal(&operation) {
            return cx.effects.push(PrimaryEffect::Reply { request: client, result: Err(error) });
        }
        self.requested_at = Some(cx.now);
        self.accept(Some(client), operation);
    }

    /// Why a request can't even be accepted.
    fn refusal(&self, operation: &Operation<P>) -> Option<RequestError> {
        match &self.phase {
            Phase::Detaching(_) | Phase::Ended => return Some(RequestError::Detached),
            Phase::Idle | Phase::Starting(_) | Phase::Serving => {}
        }
        if let Some(error) = self.suspension.as_ref().and_then(|s| s.failing) {
            return Some(error);
        }
        let geometry = self.view.as_ref().map(|view| view.geometry);
        match geometry {
            Some(geometry) if is_valid(geometry, operation) => None,
            _ => Some(RequestError::Invalid),
        }
    }

    /// The view is known: takes in the requests that came before it.
    pub(super) fn accept_early(&mut self, cx: &mut Context<'_, P>) {
        for (client, operation) in core::mem::take(&mut self.early) {
            self.request(cx, client, operation);
        }
    }

    /// Takes a request in and asks for its lock.
    pub(super) fn accept(&mut self, client: Option<RequestId>, operation: Operation<P>) {
        let number = self.next_number();
        let lock = match &operation {
            Operation::Read { offset, length } => {
                Some((*offset, u64::from(*length), LockMode::Shared))
            }
            Operation::Map { offset, length } => Some((*offset, *length, LockMode::Shared)),
            Operation::Write { offset, payload, .. } => {
                Some((*offset, u64::from(payload.length()), LockMode::Exclusive))
            }
            Operation::Zero { offset, length, .. } => Some((*offset, *length, LockMode::Exclusive)),
            Operation::Flush => None,
        };
        let is_locked = lock.is_some();
        let request = Request { client, operation: Some(operation), is_locked, ..Request::new() };
        self.requests.insert(number, request);
        let granted = lock.is_none_or(|(offset, length, mode)| {
            self.locks.acquire(number, offset..offset + length, mode)
        });
        if granted {
            self.ready.push_back(number);
        }
    }

    /// A request of the primary itself, of so many parts.
    pub(super) fn accept_internal(&mut self, parts: usize) -> RequestNumber {
        let number = self.next_number();
        let request = Request { unanswered: parts, unfinished: parts, ..Request::new() };
        self.requests.insert(number, request);
        number
    }

    /// A request of the primary itself that holds a range for several rounds of parts, until
    /// [`Self::end_check`].
    pub(super) fn accept_check(&mut self, range: Range<u64>) -> RequestNumber {
        let number = self.next_number();
        let request = Request { is_locked: true, is_kept: true, ..Request::new() };
        self.requests.insert(number, request);
        if self.locks.acquire(number, range, LockMode::Exclusive) {
            self.ready.push_back(number);
        }
        number
    }

    /// The next round of parts of a check.
    pub(super) fn expect_parts(&mut self, number: RequestNumber, parts: usize) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.unanswered = parts;
            request.unfinished = parts;
        }
    }

    /// A check is over: gives its range back.
    pub(super) fn end_check(&mut self, number: RequestNumber) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.is_kept = false;
        }
        self.forget_if_over(number);
    }

    /// Sends what has its lock, if everybody has adopted the view.
    pub(super) fn dispatch_ready(&mut self, cx: &mut Context<'_, P>) {
        while self.can_send() {
            let Some(number) = self.ready.pop_front() else { return };
            if self.is_check(number) {
                self.check_locked(cx);
                continue;
            }
            let operation = self.requests.get_mut(&number).and_then(|r| r.operation.take());
            if let Some(operation) = operation {
                self.dispatch(cx, number, operation);
            }
        }
    }

    /// A part permits the answer now, or has failed.
    pub(super) fn part_answered(
        &mut self,
        cx: &mut Context<'_, P>,
        number: RequestNumber,
        error: Option<RequestError>,
    ) {
        let Some(request) = self.requests.get_mut(&number) else { return };
        request.unanswered -= 1;
        request.error = request.error.or(error);
        if request.unanswered == 0 {
            self.reply(cx, number);
        }
    }

    /// Every member has carried out a part.
    pub(super) fn part_finished(&mut self, number: RequestNumber) {
        let Some(request) = self.requests.get_mut(&number) else { return };
        request.unfinished -= 1;
        self.forget_if_over(number);
    }

    /// Answers the client. Overlapping writes wait until every member has carried out this request or
    /// has left, so that a resend never meets a later write (W2). Overlapping reads may pass once a
    /// write has succeeded; one that failed must not be seen to come and go.
    fn reply(&mut self, cx: &mut Context<'_, P>, number: RequestNumber) {
        let Some(request) = self.requests.get_mut(&number) else { return };
        let succeeded = request.error.is_none();
        if let Some(client) = request.client.take() {
            self.unanswered_since = None;
            let result = request.outcome();
            cx.effects.push(PrimaryEffect::Reply { request: client, result });
        }
        if succeeded && !self.is_check(number) {
            self.let_readers_pass(number);
        }
        self.forget_if_over(number);
    }

    fn let_readers_pass(&mut self, number: RequestNumber) {
        let unfinished =
            self.requests.get(&number).is_some_and(|r| r.is_locked && r.unfinished > 0);
        if unfinished {
            let mut granted = Vec::new();
            self.locks.downgrade(number, &mut granted);
            self.ready.extend(granted);
        }
    }

    fn unlock(&mut self, number: RequestNumber) {
        let Some(request) = self.requests.get_mut(&number) else { return };
        if core::mem::take(&mut request.is_locked) {
            let mut granted = Vec::new();
            self.locks.release(number, &mut granted);
            self.ready.extend(granted);
        }
    }

    fn forget_if_over(&mut self, number: RequestNumber) {
        let is_over = self.requests.get(&number).is_some_and(|request| {
            let has_parts = request.unanswered > 0 || request.unfinished > 0;
            !has_parts && !request.is_kept && request.operation.is_none()
        });
        if is_over {
            self.unlock(number);
            self.requests.remove(&number);
        }
    }

    /// Fails every request of a client. Parts that were sent stay until every member has them or
    /// has left (W2).
    pub(super) fn fail_requests(&mut self, cx: &mut Context<'_, P>, error: RequestError) {
        for (request, _) in core::mem::take(&mut self.early) {
            cx.effects.push(PrimaryEffect::Reply { request, result: Err(error) });
        }
        let waiting: Vec<_> = self
            .requests
            .iter()
            .filter(|(_, request)| request.client.is_some())
            .map(|(number, _)| *number)
            .collect();
        for number in waiting {
            let Some(request) = self.requests.get_mut(&number) else { continue };
            let Some(client) = request.client.take() else { continue };
            let never_sent = request.operation.take().is_some();
            request.error = Some(error);
            cx.effects.push(PrimaryEffect::Reply { request: client, result: Err(error) });
            if never_sent {
                self.forget_if_over(number);
            } else {
                self.forget_reads_of(number);
            }
        }
        self.ready.retain(|number| self.requests.contains_key(number));
    }
}

impl<P> Request<P> {
    fn new() -> Self {
        Self {
            client: None,
            operation: None,
            is_locked: false,
            is_kept: false,
            unanswered: 0,
            unfinished: 0,
            error: None,
            data: Vec::new(),
            extents: Vec::new(),
        }
    }

    fn outcome(&mut self) -> Result<Reply<P>, RequestError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if !self.data.is_empty() {
            self.data.sort_by_key(|(from, _)| *from);
            return Ok(Reply::Data(core::mem::take(&mut self.data)));
        }
        if !self.extents.is_empty() {
            self.extents.sort_by_key(|(from, _)| *from);
            return Ok(Reply::Extents(join_extents(&self.extents)));
        }
        Ok(Reply::Done)
    }
}

/// Puts the maps of consecutive parts together, up to the first gap.
fn join_extents(parts: &[(u64, Vec<Extent>)]) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::new();
    let mut end = parts.first().map_or(0, |(from, _)| *from);
    for (from, extents) in parts {
        if *from != end {
            break;
        }
        for extent in extents {
            end += extent.length;
            match joined.last_mut() {
                Some(last) if last.allocated == extent.allocated => last.length += extent.length,
                _ => joined.push(*extent),
            }
        }
    }
    joined
}

/// Whether a request lies inside the volume, on whole blocks, and is not too long.
fn is_valid<P: Payload>(geometry: Geometry, operation: &Operation<P>) -> bool {
    let (offset, length, most) = match operation {
        Operation::Flush => return true,
        Operation::Read { offset, length } => (*offset, u64::from(*length), LONGEST_REQUEST.into()),
        Operation::Write { offset, payload, .. } => {
            (*offset, u64::from(payload.length()), LONGEST_REQUEST.into())
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

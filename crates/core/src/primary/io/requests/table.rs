//! All requests of clients and of the primary itself: what is asked, how far it is, and what its
//! client is told. What is done for them is in [`super::requesting`].
//!
//! A request is here for as long as a client waits for it, it has parts, or its owner keeps it. So
//! whoever has one of its parts, or keeps it, finds it.

mod invariants;

use super::compare::Comparison;
use crate::ids::*;
use crate::operation::{Extent, Operation, Reply, RequestError};
use crate::payload::Payload;
use crate::rising_map::RisingMap;
use crate::time::Instant;
use core::time::Duration;

/// Numbers requests inside the primary; also the number of a request's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::primary) struct RequestNumber(pub u64);

impl From<RequestNumber> for u64 {
    fn from(number: RequestNumber) -> Self {
        number.0
    }
}

/// Whom to answer.
#[derive(Debug, Clone, Copy)]
pub(in crate::primary) struct Client {
    pub request: RequestId,
    /// Since when it waits.
    pub since: Instant,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(in crate::primary) struct Origin {
    pub host: HostId,
    /// Over which path.
    pub path: PathNumber,
}

impl Origin {
    /// The primary itself.
    pub const ITSELF: Self = Self { host: HostId(0), path: PathNumber(0) };
}

/// What a client asks.
#[derive(Debug)]
pub(in crate::primary) struct Asked<P> {
    pub client: Client,
    pub origin: Origin,
    pub operation: Operation<P>,
}

/// All requests of a primary.
#[derive(Debug)]
pub(super) struct RequestTable<P> {
    /// Those that came before any may be served.
    early: Vec<Asked<P>>,
    under_way: RisingMap<RequestNumber, Request<P>>,
    /// When a client last asked for anything.
    asked_at: Option<Instant>,
}

/// What keeps others out of a request's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestLock {
    /// It has none.
    None,
    /// A lock on the range here.
    Local,
    /// A cluster lock of the range, which all primaries honour.
    ClusterLock,
}

/// What a request does next.
#[derive(Debug)]
pub(super) enum RequestStep<P> {
    /// It has its range when this is sent.
    Send(Operation<P>),
    /// What there is has been read when this compares it.
    Compare(Comparison<P>),
    /// Nothing: its parts are sent, or its owner makes them.
    Nothing,
}

/// A request that is under way.
#[derive(Debug)]
struct Request<P> {
    /// Whom to answer; `None` once answered, and for those of the primary itself.
    client: Option<Client>,
    origin: Origin,
    next: RequestStep<P>,
    lock: RequestLock,
    /// Whether its owner ends it, and not its last part: a check has several rounds of parts.
    is_kept: bool,
    /// Parts that do not permit the answer yet.
    unanswered: usize,
    /// Parts that some replica has not carried out yet.
    unfinished: usize,
    /// Whether every member has carried out a part of what it sends now.
    has_ended_part: bool,
    error: Option<RequestError>,
    /// Where a comparison has found something else.
    differs_at: Option<u32>,
    data: Vec<(u32, P)>,
    extents: Vec<(u64, Vec<Extent>)>,
}

/// What follows when a request may be answered.
#[derive(Debug)]
pub(super) struct Answer<P> {
    /// What a client is told; `None` if none waits.
    pub reply: Option<(RequestId, Result<Reply<P>, RequestError>)>,
    /// Whether others may read what it has written, although some member has not. Not if its owner
    /// keeps its range.
    pub lets_readers_pass: bool,
}

/// How far a client's request was that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::primary::io) enum Failed {
    /// Nothing of it was sent.
    Unsent,
    /// Parts of it may be under way.
    Sent,
}

/// What is done next because a request has its range.
#[derive(Debug)]
pub(in crate::primary::io) enum Next<P> {
    /// It is cut into parts, and these are sent.
    Dispatch(RequestNumber, Operation<P>),
    /// The primary itself keeps the range: whoever does goes on.
    Kept(RequestNumber),
}

impl<P> Default for RequestTable<P> {
    fn default() -> Self {
        Self { early: Vec::new(), under_way: RisingMap::default(), asked_at: None }
    }
}

impl<P: Payload> RequestTable<P> {
    /// A client asks before any may be served.
    pub fn wait(&mut self, asked: Asked<P>) {
        self.early.push(asked);
    }

    /// Takes out those that came before any might be served.
    pub fn take_early(&mut self) -> Vec<Asked<P>> {
        core::mem::take(&mut self.early)
    }

    /// Takes out those of them whose clients are these.
    pub fn take_early_of(&mut self, which: impl Fn(&Client) -> bool) -> Vec<Client> {
        self.early.extract_if(.., |asked| which(&asked.client)).map(|asked| asked.client).collect()
    }

    /// A client's request is taken in.
    pub fn note_asked(&mut self, now: Instant) {
        self.asked_at = Some(now);
    }

    /// Whether a client has asked for anything within the last `period`.
    pub fn came_within(&self, period: Duration, now: Instant) -> bool {
        self.asked_at.is_some_and(|at| now.since(at) < period)
    }

    /// Something is to be done as soon as it has its range; `client` is told what comes of it.
    pub fn begin(
        &mut self,
        number: RequestNumber,
        client: Option<Client>,
        origin: Origin,
        operation: Operation<P>,
        lock: RequestLock,
    ) {
        let next = RequestStep::Send(operation);
        self.under_way.insert(number, Request { client, origin, next, lock, ..Request::new() });
    }

    /// The primary itself has something done, in so many parts.
    pub fn begin_internal(&mut self, number: RequestNumber, parts: usize) {
        let request = Request { unanswered: parts, unfinished: parts, ..Request::new() };
        self.under_way.insert(number, request);
    }

    /// The primary itself keeps a range until [`Self::end_kept`].
    pub fn keep(&mut self, number: RequestNumber, lock: RequestLock) {
        self.under_way.insert(number, Request { lock, is_kept: true, ..Request::new() });
    }

    /// What a range was kept for is over.
    pub fn end_kept(&mut self, number: RequestNumber) {
        if let Some(request) = self.known(number) {
            request.is_kept = false;
        }
    }

    /// One that is here, because it has parts or is kept.
    fn known(&mut self, number: RequestNumber) -> Option<&mut Request<P>> {
        let request = self.under_way.get_mut(&number);
        debug_assert!(request.is_some(), "{number:?} is over");
        request
    }

    /// A request has its range, or has read what it is to compare: what it does now. Nothing if it
    /// was given up after it had its range.
    pub fn go_on(&mut self, number: RequestNumber) -> RequestStep<P> {
        let request = self.under_way.get_mut(&number);
        request.map_or(RequestStep::Nothing, |request| {
            core::mem::replace(&mut request.next, RequestStep::Nothing)
        })
    }

    /// Parts of it are sent: these many.
    pub fn expect_parts(&mut self, number: RequestNumber, parts: usize) {
        if let Some(request) = self.known(number) {
            (request.unanswered, request.unfinished) = (parts, parts);
            request.has_ended_part = false;
        }
    }

    /// So many take the place of one part.
    pub fn expect_pieces(&mut self, number: RequestNumber, pieces: usize) {
        if let Some(request) = self.known(number) {
            request.unanswered += pieces - 1;
            request.unfinished += pieces - 1;
        }
    }

    /// What its parts read now is to be compared.
    pub fn will_compare(&mut self, number: RequestNumber, comparison: Comparison<P>) {
        if let Some(request) = self.known(number) {
            request.next = RequestStep::Compare(comparison);
        }
    }

    /// Compares what was read. Returns whether that is what was expected.
    pub fn compare(&mut self, number: RequestNumber, expected: &P) -> bool {
        self.known(number).is_some_and(|request| {
            let found = core::mem::take(&mut request.data);
            let difference = |(from, piece): &(u32, P)| {
                let wanted = expected.slice(*from, piece.length());
                piece.first_difference(&wanted).map(|at| from + at)
            };
            request.differs_at = found.iter().filter_map(difference).min();
            request.error.is_none() && request.differs_at.is_none()
        })
    }

    /// One of its parts, which begins there, has read this.
    pub fn keep_data(&mut self, number: RequestNumber, from: u64, payload: P) {
        if let Some(request) = self.known(number) {
            request.data.push((from as u32, payload));
        }
    }

    /// One of its parts, which begins there, has this map.
    pub fn keep_extents(&mut self, number: RequestNumber, from: u64, extents: Vec<Extent>) {
        if let Some(request) = self.known(number) {
            request.extents.push((from, extents));
        }
    }

    /// What its part has read that begins there is read anew.
    pub fn forget_read(&mut self, number: RequestNumber, from: u64) {
        if let Some(request) = self.known(number) {
            request.data.retain(|(other, _)| u64::from(*other) != from);
            request.extents.retain(|(other, _)| *other != from);
        }
    }

    /// Takes what a round of parts has read. What they could not read is no failure of the next
    /// round.
    pub fn take_data(&mut self, number: RequestNumber) -> Vec<(u32, P)> {
        self.known(number).map_or_else(Vec::new, |request| {
            request.error = None;
            core::mem::take(&mut request.data)
        })
    }

    /// A part permits the answer now, or has failed. Returns whether it was the last one.
    pub fn part_answered(&mut self, number: RequestNumber, error: Option<RequestError>) -> bool {
        self.known(number).is_some_and(|request| {
            request.unanswered -= 1;
            request.error = request.error.or(error);
            request.unanswered == 0
        })
    }

    /// Nobody waits for the answer of a part any more.
    pub fn part_forgotten(&mut self, number: RequestNumber) {
        if let Some(request) = self.known(number) {
            request.unanswered -= 1;
        }
    }

    /// Every member has carried out a part. Returns whether all that is to be compared has been
    /// read by that.
    pub fn part_finished(&mut self, number: RequestNumber) -> bool {
        self.known(number).is_some_and(|request| {
            request.unfinished -= 1;
            request.has_ended_part = true;
            request.unfinished == 0 && request.next.is_comparison()
        })
    }

    /// Whether all parts but one have been answered, with success.
    pub fn awaits_last_part(&self, number: RequestNumber) -> bool {
        let request = self.under_way.get(&number);
        request.is_some_and(|request| request.unanswered == 1 && request.error.is_none())
    }

    /// Whether parts of it are under way.
    pub fn has_parts(&self, number: RequestNumber) -> bool {
        self.under_way.get(&number).is_some_and(Request::has_parts)
    }

    /// Whether its owner keeps its range.
    pub fn is_kept(&self, number: RequestNumber) -> bool {
        self.under_way.get(&number).is_some_and(|request| request.is_kept)
    }

    /// Whether a part of it has failed.
    pub fn has_failed(&self, number: RequestNumber) -> bool {
        self.under_way.get(&number).is_some_and(|request| request.error.is_some())
    }

    /// Who asks, if a client waits for it.
    pub fn host_of(&self, number: RequestNumber) -> Option<HostId> {
        self.under_way.get(&number).filter(|it| it.client.is_some()).map(|it| it.origin.host)
    }

    /// It is not done, for this reason.
    pub fn refuse(&mut self, number: RequestNumber, error: RequestError) {
        if let Some(request) = self.known(number) {
            request.error = Some(error);
        }
    }

    /// All that its client waits for is done, or has failed. `None` if that was only the reading of
    /// what is to be compared.
    pub fn answer(&mut self, number: RequestNumber) -> Option<Answer<P>> {
        let request = self.known(number).filter(|it| !it.next.is_comparison())?;
        let has_succeeded = request.error.is_none();
        let (client, is_kept) = (request.client.take(), request.is_kept);
        let is_locked = request.lock == RequestLock::Local && request.unfinished > 0;
        Some(Answer {
            reply: client.map(|client| (client.request, request.outcome())),
            lets_readers_pass: has_succeeded && is_locked && !is_kept,
        })
    }

    /// Fails a request that a client waits for. Parts that were sent stay.
    pub fn fail(&mut self, number: RequestNumber, error: RequestError) -> Option<(Client, Failed)> {
        let request = self.known(number)?;
        let client = request.client.take()?;
        let failed = match core::mem::replace(&mut request.next, RequestStep::Nothing) {
            RequestStep::Send(_) => Failed::Unsent,
            RequestStep::Compare(_) | RequestStep::Nothing => Failed::Sent,
        };
        request.error = Some(error);
        Some((client, failed))
    }

    /// Forgets a request if it is over. Returns the lock that it had.
    pub fn forget_if_over(&mut self, number: RequestNumber) -> Option<RequestLock> {
        let is_over = self.under_way.get(&number).is_some_and(Request::is_over);
        is_over.then(|| self.under_way.remove(&number).map(|request| request.lock))?
    }

    /// Whether none is under way.
    pub fn are_over(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether nobody waits to be served.
    pub fn are_answered(&self) -> bool {
        self.under_way.is_empty() && self.early.is_empty()
    }

    #[inline]
    pub fn is_under_way(&self, number: RequestNumber) -> bool {
        self.under_way.contains_key(&number)
    }

    /// Since when each client waits whose request is under way.
    pub fn waits(&self) -> impl Iterator<Item = Instant> {
        self.under_way.values().filter_map(|request| Some(request.client?.since))
    }

    /// The requests that are under way for these clients.
    pub fn of_clients(&self, which: impl Fn(&Client) -> bool) -> Vec<RequestNumber> {
        let requests = self.under_way.iter();
        let requests = requests.filter(|(_, request)| request.client.as_ref().is_some_and(&which));
        requests.map(|(number, _)| *number).collect()
    }

    /// The request that is under way for this client.
    pub fn of_client(&self, request: RequestId) -> Option<RequestNumber> {
        let is_its = |it: &Request<P>| it.client.is_some_and(|client| client.request == request);
        let found = self.under_way.iter().rev().find(|(_, it)| is_its(it));
        found.map(|(number, _)| *number)
    }

    /// Whether nothing of a request was sent yet, or only the read of what it is to compare.
    pub fn changes_nothing_yet(&self, number: RequestNumber) -> bool {
        let request = self.under_way.get(&number);
        request.is_some_and(|request| !matches!(request.next, RequestStep::Nothing))
    }

    /// Whether every member has carried out a part of what it sends now.
    pub fn has_ended_part(&self, number: RequestNumber) -> bool {
        self.under_way.get(&number).is_some_and(|request| request.has_ended_part)
    }

    /// What was asked over this path, has been answered, and is not over.
    pub fn answered_over(&self, path: PathNumber) -> Vec<RequestNumber> {
        let is_answered = |request: &Request<P>| {
            request.origin.path == path && request.client.is_none() && !request.is_kept
        };
        let answered = self.under_way.iter().filter(|(_, request)| is_answered(request));
        answered.map(|(number, _)| *number).collect()
    }

    /// Whether something is under way that was asked over this path. The newest, which ends last as
    /// a rule, is looked at first.
    pub fn came_over(&self, path: PathNumber) -> bool {
        self.under_way.values().rev().any(|request| request.origin.path == path)
            || self.early.iter().any(|asked| asked.origin.path == path)
    }

    /// Those that were not sent yet.
    pub fn unsent(&self) -> impl Iterator<Item = RequestNumber> {
        let requests = self.under_way.iter();
        let unsent = requests.filter(|(_, request)| matches!(request.next, RequestStep::Send(_)));
        unsent.map(|(number, _)| *number)
    }

    /// The primary has ended.
    pub fn forget(&mut self) {
        self.under_way.clear();
    }
}

impl<P> RequestStep<P> {
    const fn is_comparison(&self) -> bool {
        matches!(self, Self::Compare(_))
    }
}

impl<P> Request<P> {
    fn new() -> Self {
        Self {
            client: None,
            origin: Origin::ITSELF,
            next: RequestStep::Nothing,
            lock: RequestLock::None,
            is_kept: false,
            unanswered: 0,
            unfinished: 0,
            has_ended_part: false,
            error: None,
            differs_at: None,
            data: Vec::new(),
            extents: Vec::new(),
        }
    }

    fn has_parts(&self) -> bool {
        self.unanswered > 0 || self.unfinished > 0
    }

    fn is_over(&self) -> bool {
        !self.has_parts() && !self.is_kept && matches!(self.next, RequestStep::Nothing)
    }

    fn outcome(&mut self) -> Result<Reply<P>, RequestError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if let Some(at) = self.differs_at {
            return Ok(Reply::Miscompare { at });
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

#[cfg(test)]
mod tests;

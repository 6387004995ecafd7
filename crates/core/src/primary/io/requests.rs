//! Requests of clients and of the primary itself that are under way. What is done for them is in
//! [`super::requesting`].

mod invariants;

use crate::ids::*;
use crate::operation::{Extent, Operation, Reply, RequestError};
use crate::primary::io::compare::Comparison;
use crate::time::Instant;

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

/// What a client asks.
#[derive(Debug)]
pub(in crate::primary) struct Asked<P> {
    pub client: Client,
    pub host: HostId,
    pub operation: Operation<P>,
}

/// What keeps others out of a request's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestLock {
    None,
    /// A lock on the range here.
    Local,
    /// A cluster lock of the range, which all primaries honour.
    ClusterLock,
}

/// A request under way.
#[derive(Debug)]
pub(in crate::primary) struct Request<P> {
    /// Whom to answer; `None` once answered, and for the flush of a detach.
    pub client: Option<Client>,
    /// Who asks.
    pub host: HostId,
    /// What is asked; taken when it is sent.
    pub operation: Option<Operation<P>>,
    pub(super) lock: RequestLock,
    /// Whether its owner ends it, and not its last part: a check has several rounds of parts.
    pub(super) is_kept: bool,
    /// Parts that do not permit the answer yet.
    pub unanswered: usize,
    /// Parts that some replica has not carried out yet.
    pub unfinished: usize,
    pub error: Option<RequestError>,
    /// What a compare-and-write is to do when it has been read what there is.
    pub comparison: Option<Comparison<P>>,
    /// Where it holds something else.
    pub differs_at: Option<u32>,
    pub data: Vec<(u32, P)>,
    pub extents: Vec<(u64, Vec<Extent>)>,
}

impl<P> Request<P> {
    pub(super) fn new() -> Self {
        Self {
            client: None,
            host: HostId(0),
            operation: None,
            lock: RequestLock::None,
            is_kept: false,
            unanswered: 0,
            unfinished: 0,
            error: None,
            comparison: None,
            differs_at: None,
            data: Vec::new(),
            extents: Vec::new(),
        }
    }

    pub(super) fn outcome(&mut self) -> Result<Reply<P>, RequestError> {
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

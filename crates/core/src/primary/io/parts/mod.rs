//! The parts of requests ([`part`]): [`sending`] brings them to the members, and again after a
//! reconnect; [`answers`] acknowledges them by the protocol's rule, and ends them when every member
//! has carried them out; [`blockwise`] reads once more what nobody could read as a whole, and
//! [`unverified`] elsewhere what nothing vouches for. [`stabilizing`] flushes for the sake of the
//! intent logs, [`rebuilds`] tells rebuilding replicas what is under way, [`withdrawing`] forgets
//! what was sent to nobody, and [`held_up`] knows what waits for another view.
//!
//! The highest of the rooms of [`super::Io`]: it uses the requests, and how far writes are stable
//! ([`Below`]). When replicas have lost what was acknowledged it tells its caller.

mod answers;
mod blockwise;
mod confirming;
mod disk_failures;
mod findings;
mod held_up;
mod invariants;
mod part;
mod placing;
mod rebuild_waits;
mod rebuilds;
mod sending;
mod stabilizing;
mod table;
mod unverified;
mod withdrawing;

pub(in crate::primary) use self::findings::Finding;
pub(in crate::primary) use self::part::{MirrorTask, PartAction};
pub(super) use self::rebuilds::DrainAsked;

use self::findings::Findings;
use self::rebuild_waits::RebuildWaits;
use self::table::PartTable;
use super::Lower;
use super::requests::Requests;
use super::stability::Stability;
use crate::ids::*;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::primary::membership::{LateWrite, Membership};
use crate::primary::views::Views;
use crate::time::Instant;
use core::time::Duration;

/// The parts that are under way, and what waits for them.
#[derive(Debug)]
pub(super) struct Parts<P> {
    table: PartTable<P>,
    rebuild_waits: RebuildWaits,
    findings: Findings,
}

/// What parts use: the requests of which they are, how far writes are stable by them, the replicas
/// and the view.
#[derive(Debug)]
pub(super) struct Below<'a, P> {
    pub requests: &'a mut Requests<P>,
    pub stability: &'a mut Stability,
    pub peers: &'a mut Membership,
    pub views: &'a mut Views,
}

impl<P> Below<'_, P> {
    /// How far writes are stable, and what that uses.
    #[inline]
    fn stability(&mut self) -> (&mut Stability, Lower<'_>) {
        (self.stability, Lower { peers: self.peers, views: self.views })
    }
}

impl<P> Default for Parts<P> {
    fn default() -> Self {
        Self {
            table: PartTable::default(),
            rebuild_waits: RebuildWaits::default(),
            findings: Findings::default(),
        }
    }
}

impl<P: Payload> Parts<P> {
    /// Whether none is under way.
    #[inline]
    pub fn are_over(&self) -> bool {
        self.table.are_over()
    }

    /// The replicas of a mirror that have failed a write which is acknowledged and under way still.
    pub fn out_of_sync(&self, mirror: usize) -> ReplicaSet {
        self.table.out_of_sync(mirror)
    }

    /// Writes that are not answered and have taken this long already.
    pub fn late_writes(&self, now: Instant, least: Duration) -> Vec<LateWrite> {
        self.table.late_writes(now, least)
    }

    /// Whether a replica has not answered an operation that was sent at such a moment.
    pub fn are_unanswered_by(
        &self,
        mirror: usize,
        bit: ReplicaSet,
        then: impl Fn(Instant) -> bool,
    ) -> bool {
        let mut parts = self.table.of_mirror(mirror);
        parts.any(|(_, part)| part.waits_for(bit) && then(part.sent_at()))
    }

    /// How many operations a replica has not answered, and for how long the oldest of them.
    pub fn unanswered_by(
        &self,
        mirror: usize,
        bit: ReplicaSet,
        now: Instant,
    ) -> (usize, Option<Duration>) {
        let of_mirror = self.table.of_mirror(mirror).map(|(_, part)| part);
        let ages = of_mirror.filter(|part| part.waits_for(bit)).map(|part| part.sent_at());
        ages.fold((0, None), |(count, oldest), sent_at| {
            (count + 1, oldest.max(Some(now.since(sent_at))))
        })
    }

    /// A link has closed: nobody waits for anything over it.
    pub fn forget_link(&mut self, link: LinkId) {
        self.rebuild_waits.forget_link(link);
    }

    /// Whether anything was found since it was last taken out.
    #[inline]
    pub fn has_findings(&self) -> bool {
        self.findings.is_any()
    }

    /// Takes out what was found since this was last asked.
    #[inline]
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.findings.take()
    }

    /// A range that a replica could not read, for tests to make up.
    #[cfg(test)]
    pub fn must_repair(&mut self, mirror: usize, bytes: core::ops::Range<u64>) {
        self.findings.must_repair(mirror, bytes);
    }

    /// The primary has ended.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

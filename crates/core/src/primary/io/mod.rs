//! What clients ask: from the request ([`requests`]) to what each mirror does of it ([`parts`]),
//! and what follows when every member has done it. Who has which range ([`ranges`],
//! [`cluster_locks`], [`exclusions`]), what rebuilding replicas wait for ([`rebuild_waits`]), how
//! far writes are stable ([`stability`]), and what requests wait for ([`waiting`]).
//!
//! It uses the replicas and the view ([`Lower`]). It never compares or repairs what replicas hold:
//! what a read finds wanting it notes as [`Finding`]s, which its caller takes. When replicas have
//! lost what was acknowledged it tells its caller, who ends the primary ([`Flow`]).

mod cluster_locking;
mod cluster_locks;
mod compare;
mod disk_failures;
mod exclusions;
mod findings;
mod invariants;
mod messages;
mod part;
mod parts;
mod ranges;
mod rebuild_waits;
mod rebuilds;
mod requesting;
mod requests;
mod reservations;
mod stability;
mod suspension;
mod waiting;
mod writes;

pub(super) use self::findings::Finding;
pub(super) use self::part::PartAction;
pub(super) use self::requests::{Asked, Client, RequestNumber};

use self::cluster_locks::ClusterLocks;
use self::exclusions::Exclusions;
use self::parts::under_way::Parts;
use self::ranges::Ranges;
use self::rebuild_waits::RebuildWaits;
use self::requests::Requests;
use self::stability::Stability;
use self::suspension::Suspension;
use self::writes::Writes;
use super::membership::{LateWrite, Membership};
use super::views::Views;
use super::{Context, Flow, Waiting};
use crate::ids::*;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::time::Instant;
use core::time::Duration;

/// What clients and the primary itself have under way.
#[derive(Debug)]
pub(super) struct Io<P> {
    requests: Requests<P>,
    ranges: Ranges,
    cluster_locks: ClusterLocks,
    exclusions: Exclusions,
    parts: Parts<P>,
    rebuild_waits: RebuildWaits,
    stability: Stability,
    suspension: Suspension,
    writes: Writes,
    findings: Vec<Finding>,
}

/// What it uses: the replicas and the view.
#[derive(Debug)]
pub(super) struct Lower<'a> {
    pub peers: &'a mut Membership,
    pub views: &'a mut Views,
}

impl<P: Payload> Io<P> {
    pub fn new(now: Instant) -> Self {
        Self {
            requests: Requests::default(),
            ranges: Ranges::default(),
            cluster_locks: ClusterLocks::default(),
            exclusions: Exclusions::default(),
            parts: Parts::default(),
            rebuild_waits: RebuildWaits::default(),
            stability: Stability::new(now),
            suspension: Suspension::default(),
            writes: Writes::default(),
            findings: Vec::new(),
        }
    }

    /// Whether nothing is under way.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.requests.are_over() && self.parts.are_over()
    }

    /// Whether no replica has anything to do for a request.
    #[inline]
    pub fn are_parts_over(&self) -> bool {
        self.parts.are_over()
    }

    /// Whether a request is under way.
    pub fn is_under_way(&self, number: RequestNumber) -> bool {
        self.requests.is_under_way(number)
    }

    /// Whether writes were acknowledged that no flush covers yet.
    pub fn is_unflushed(&self) -> bool {
        self.writes.are_unflushed()
    }

    /// A primary that has gone may have acknowledged what no flush covers: losing it counts.
    pub fn inherit_writes(&mut self) {
        self.writes.inherit();
    }

    /// The replicas of a mirror that have failed a write which is acknowledged and under way still.
    pub fn lacking(&self, mirror: usize) -> ReplicaSet {
        self.parts.lacking(mirror)
    }

    /// What requests wait for, and since when.
    pub fn waiting(&self) -> Option<(Waiting, Instant)> {
        self.suspension.waiting()
    }

    /// How many requests of clients wait.
    pub fn waits(&self) -> usize {
        self.requests.waits().count()
    }

    /// This primary joins others: it serves when it has had the whole volume for itself once.
    #[inline]
    pub fn is_joining(&self) -> bool {
        self.exclusions.are_joining()
    }

    /// A change of reservations, for tests to break.
    #[cfg(test)]
    pub fn clear(&mut self, number: RequestNumber, command: CommandId) {
        self.exclusions.clear(number, command, Instant(0));
    }

    /// The commands that wait until others keep out.
    pub fn commands(&self) -> impl Iterator<Item = CommandId> {
        self.exclusions.commands()
    }

    /// Writes that are not answered and have taken this long already.
    pub fn late_writes(&self, now: Instant, least: Duration) -> Vec<LateWrite> {
        self.parts.late_writes(now, least)
    }

    /// Whether a replica has not answered an operation that was sent at such a moment.
    pub fn leaves_unanswered(
        &self,
        mirror: usize,
        bit: ReplicaSet,
        then: impl Fn(Instant) -> bool,
    ) -> bool {
        let mut parts = self.parts.of_mirror(mirror);
        parts.any(|(_, part)| part.waits_for(bit) && then(part.sent_at()))
    }

    /// A link has closed: nobody waits for anything over it.
    pub fn forget_link(&mut self, link: LinkId) {
        self.rebuild_waits.forget_link(link);
    }

    /// How many operations a replica has not answered, and for how long the oldest of them.
    pub fn unanswered_by(
        &self,
        mirror: usize,
        bit: ReplicaSet,
        now: Instant,
    ) -> (usize, Option<Duration>) {
        let of_mirror = self.parts.of_mirror(mirror).map(|(_, part)| part);
        let ages = of_mirror.filter(|part| part.waits_for(bit)).map(|part| part.sent_at());
        ages.fold((0, None), |(count, oldest), sent_at| {
            (count + 1, oldest.max(Some(now.since(sent_at))))
        })
    }

    /// Operations may be sent to a replica: it gets what it has not answered, and what it may have
    /// missed.
    pub fn go_on_with(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>, replica: ReplicaId) {
        self.resend(cx, lower, replica);
        self.tell_stable_to(cx, lower, replica);
        self.restate_cluster_lock(lower, replica);
    }

    /// The view has changed: parts go to its members, what was read and not told is read anew, and
    /// who waits for it asks again.
    pub fn follow_view(&mut self, lower: &Lower<'_>) {
        self.retarget_parts(lower);
        if lower.views.view().is_some_and(|view| view.is_shared()) {
            self.read_again();
        }
        self.cluster_locks_follow(lower);
        self.rebuild_waits.forget_drains();
    }

    /// The primary has ended: gives back what it held.
    pub fn forget(&mut self) {
        self.requests.forget();
        self.ranges.forget();
        self.parts.forget();
        self.rebuild_waits.forget();
        self.cluster_locks.forget();
        self.exclusions.forget();
        self.findings.clear();
    }
}

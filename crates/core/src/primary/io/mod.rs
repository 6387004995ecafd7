//! What clients ask, in three rooms with fields that nobody else sees. Each uses only those before
//! it: [`stability`] knows how far writes are acknowledged, flushed and stable; [`requests`] what
//! is asked, who has which range, and what requests wait for; [`parts`] what each mirror does of a
//! request, what follows when every member has done it, and what rebuilding replicas wait for.
//! [`Io`] does what follows for several of them: it has requests that have their range cut into
//! parts, fails those that wait for too long ([`failing`]) or are given up ([`cancelling`]), and
//! passes on what is asked of one ([`passing`]).
//!
//! It uses the replicas and the view ([`Lower`]). It never compares or repairs what replicas hold:
//! what a read finds wanting it notes as [`Finding`]s, which its caller takes. When replicas have
//! lost what was acknowledged it tells its caller, who ends the primary ([`Flow`]).

mod cancelling;
mod failing;
mod invariants;
mod messages;
mod parts;
mod passing;
mod requests;
mod stability;

pub(super) use self::parts::{Finding, MirrorTask, PartAction};
pub(super) use self::requests::{Asked, Client, Origin, RequestNumber};

use self::parts::{Below, Parts};
use self::requests::{Next, Requests};
use self::stability::Stability;
use super::membership::Membership;
use super::views::Views;
use super::{Context, Flow};
use crate::ids::*;
use crate::payload::Payload;
use crate::time::Instant;

/// What clients and the primary itself have under way.
#[derive(Debug)]
pub(super) struct Io<P> {
    stability: Stability,
    requests: Requests<P>,
    parts: Parts<P>,
}

/// What it uses: the replicas and the view.
#[derive(Debug)]
pub(super) struct Lower<'a> {
    pub peers: &'a mut Membership,
    pub views: &'a mut Views,
}

impl<P: Payload> Io<P> {
    pub fn new(now: Instant) -> Self {
        let (requests, parts) = (Requests::default(), Parts::default());
        Self { stability: Stability::new(now), requests, parts }
    }

    /// The parts, and what they use.
    #[inline]
    fn parts<'a>(&'a mut self, lower: &'a mut Lower<'_>) -> (&'a mut Parts<P>, Below<'a, P>) {
        let (requests, stability) = (&mut self.requests, &mut self.stability);
        let below = Below { requests, stability, peers: lower.peers, views: lower.views };
        (&mut self.parts, below)
    }

    /// Whether nothing is under way.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.requests.are_over() && self.parts.are_over()
    }

    /// Sends what has its lock, if everybody has adopted the view. Tells of a request of the
    /// primary itself that has the range which it keeps: its owner goes on with it, and asks again.
    pub fn dispatch_ready(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
    ) -> Option<RequestNumber> {
        loop {
            match self.requests.next_ready(cx, lower)? {
                Next::Dispatch(number, operation) => {
                    let (parts, below) = &mut self.parts(lower);
                    parts.dispatch(cx, below, number, operation);
                }
                Next::Kept(number) => return Some(number),
            }
        }
    }

    /// Operations may be sent to a replica: it gets what it has not answered, and what it may have
    /// missed.
    pub fn go_on_with(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
    ) {
        self.resend(cx, lower, replica);
        self.stability.report_to(cx, lower, replica);
        self.requests.restate_cluster_lock(lower, replica);
    }

    /// The view has changed: parts go to its members, what was read and not told is read anew, and
    /// who waits for it asks again.
    pub fn follow_view(&mut self, lower: &mut Lower<'_>) {
        let (parts, below) = &mut self.parts(lower);
        parts.follow_view(below);
        self.requests.cluster_locks_follow(lower);
    }

    /// The primary has ended: gives back what it held.
    pub fn forget(&mut self) {
        self.requests.forget();
        self.parts.forget();
    }
}

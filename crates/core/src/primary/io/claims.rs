//! Claims: how one primary has all others stand aside from a range of a volume that several run.
//!
//! A claim is asked of the replica that keeps their order ([`View::keeper`]). It has every primary of the
//! view, the claimant too, lock the range here as a write would; when all have, the claim is granted. A
//! primary has one claim at a time.
//!
//! A claim that was granted is honoured until its claimant says that it is over, or is no primary any
//! more, whatever views come: what it has sent may be sent again by it. One that was not granted when the
//! view changes is asked for anew. Who joins others knows of no claim, and claims the whole volume once
//! before it serves anything. All that is said of claims tells a state and not a step, so it is said again
//! with every session and view.

use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};

use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::primary::io::requests::RequestNumber;
use crate::primary::membership::peers::Peer;
use crate::primary::{Context, Note, Phase, Primary};
use crate::range_lock::{LockMode, LockNumber};
use crate::view::View;

/// The claims of one primary, and those that it honours.
#[derive(Debug, Default)]
pub(in crate::primary) struct Claims {
    /// Requests that wait until a claim is asked for on their behalf.
    wanted: VecDeque<(RequestNumber, Range<u64>)>,
    own: Option<OwnClaim>,
    /// Of the last own claim.
    number: ClaimNumber,
    /// Whether the keeper has not been told of what is.
    is_untold: bool,
    /// The claims of every primary, its own too, for which it stands aside or is about to.
    honoured: BTreeMap<PrimaryId, Honoured>,
}

#[derive(Debug)]
struct OwnClaim {
    request: RequestNumber,
    range: Range<u64>,
    is_granted: bool,
}

#[derive(Debug)]
struct Honoured {
    number: ClaimNumber,
    lock: LockNumber,
    is_locked: bool,
}

impl Claims {
    /// A request wants a range for itself. It is ready when the claim is granted.
    pub fn want(&mut self, request: RequestNumber, range: Range<u64>) {
        self.wanted.push_back((request, range));
    }

    /// A request is over.
    pub fn end(&mut self, request: RequestNumber) {
        self.wanted.retain(|(other, _)| *other != request);
        if self.own.take_if(|own| own.request == request).is_some() {
            self.is_untold = true;
        }
    }

    /// Whether a lock is one that is held for the sake of a claim.
    pub fn is_honoured_by(&self, lock: LockNumber) -> bool {
        self.honoured.values().any(|honoured| honoured.lock == lock)
    }

    /// Whether a request has the claim that it wants.
    pub fn is_granted(&self, request: RequestNumber) -> bool {
        self.own.as_ref().is_some_and(|own| own.request == request && own.is_granted)
    }

    /// What there is to tell the keeper: the claim that is asked for, or the last one that is over.
    fn state(&self) -> (ClaimNumber, Option<Range<u64>>) {
        match &self.own {
            None => (self.number, None),
            Some(own) if own.is_granted => (ClaimNumber(self.number.0 - 1), None),
            Some(own) => (self.number, Some(own.range.clone())),
        }
    }
}

impl<P: Payload> Primary<P> {
    /// Asks for the next claim, and tells the keeper what it does not know.
    pub(in crate::primary) fn advance_claims(&mut self, cx: &mut Context<'_, P>) {
        let claims = &mut self.claims;
        if claims.own.is_none()
            && let Some((request, range)) = claims.wanted.pop_front()
        {
            claims.number = claims.number.next();
            claims.own = Some(OwnClaim { request, range, is_granted: false });
            claims.is_untold = true;
        }
        if !claims.is_untold {
            return;
        }
        let keeper = self.keeper().filter(|keeper| !self.adoption.awaits(keeper.id));
        if let Some(link) = keeper.and_then(Peer::ready_link) {
            let (generation, claimant) = (self.generation(), self.config.id);
            let (number, range) = self.claims.state();
            self.claims.is_untold = false;
            cx.send(link, Message::Claim { generation, claimant, number, range }, None);
        }
    }

    /// The replica that keeps the order of claims.
    fn keeper(&self) -> Option<&Peer> {
        self.peers.get(&self.view.as_ref()?.keeper()?)
    }

    /// A session with a replica goes on, or it has adopted the view: a keeper may have missed what was said.
    pub(in crate::primary) fn restate_claim(&mut self, replica: ReplicaId) {
        let is_keeper = self.keeper().is_some_and(|keeper| keeper.id == replica);
        self.claims.is_untold |= is_keeper && self.claims.number > ClaimNumber(0);
    }

    /// The view has changed: claims of those that are no primaries any more are over. An own one that was
    /// not granted counts as another one, because the new keeper may have another order.
    pub(in crate::primary) fn claims_follow(&mut self, view: &View) {
        let gone: Vec<_> =
            self.claims.honoured.keys().filter(|id| !view.has_primary(**id)).copied().collect();
        gone.into_iter().for_each(|claimant| self.honour_no_more(claimant));
        let claims = &mut self.claims;
        if claims.own.as_ref().is_some_and(|own| !own.is_granted) {
            claims.number = claims.number.next();
        }
        claims.is_untold = claims.number > ClaimNumber(0);
    }

    fn honour_no_more(&mut self, claimant: PrimaryId) {
        if let Some(honoured) = self.claims.honoured.remove(&claimant) {
            self.release(honoured.lock);
        }
    }

    /// The keeper tells of a claim: locks its range, or unlocks that of one that is over.
    pub(in crate::primary) fn claim_heard(
        &mut self,
        generation: Generation,
        claimant: PrimaryId,
        number: ClaimNumber,
        range: Option<Range<u64>>,
    ) {
        let is_primary = self.view.as_ref().is_some_and(|view| view.has_primary(claimant));
        if generation != self.generation() || !is_primary {
            return; // It is said again when the keeper knows that the view is known here.
        }
        let known = self.claims.honoured.get_mut(&claimant);
        match (known, &range) {
            (Some(honoured), Some(_)) if honoured.number == number => {
                if honoured.is_locked {
                    // The keeper has missed it.
                    self.ready.push_back(honoured.lock);
                }
                return;
            }
            (Some(honoured), _) if honoured.number > number => return,
            (Some(_), _) => self.honour_no_more(claimant),
            (None, _) => {}
        }
        if let Some(range) = range {
            let lock = self.next_number();
            if self.locks.acquire(lock, range, LockMode::Exclusive) {
                self.ready.push_back(lock);
            }
            let honoured = Honoured { number, lock, is_locked: false };
            self.claims.honoured.insert(claimant, honoured);
        }
    }

    /// Tells the keeper that nothing is under way in a claimed range, if this is the lock on one.
    pub(in crate::primary) fn stands_aside(
        &mut self,
        cx: &mut Context<'_, P>,
        lock: LockNumber,
    ) -> bool {
        let mut honoured = self.claims.honoured.iter_mut();
        let Some((claimant, claim)) = honoured.find(|(_, claim)| claim.lock == lock) else {
            return false;
        };
        claim.is_locked = true;
        let (claimant, number) = (*claimant, claim.number);
        let generation = self.generation();
        if let Some(link) = self.keeper().and_then(Peer::ready_link) {
            cx.send(link, Message::Granted { generation, claimant, number }, None);
        }
        true
    }

    /// All primaries stand aside for a claim of this one: the request for which it is may go on.
    pub(in crate::primary) fn claim_granted(
        &mut self,
        generation: Generation,
        claimant: PrimaryId,
        number: ClaimNumber,
    ) {
        let is_current = generation == self.generation() && number == self.claims.number;
        let own = self.claims.own.as_mut().filter(|own| !own.is_granted);
        if let Some(own) = own.filter(|_| is_current && claimant == self.config.id) {
            own.is_granted = true;
            self.ready.push_back(own.request);
        }
    }

    /// Nobody has anything under way that this primary, which has just joined, does not know of.
    pub(in crate::primary) fn joined(&mut self, cx: &mut Context<'_, P>) {
        let Some(number) = self.joining.take() else { return };
        self.end_kept(number);
        if matches!(self.phase, Phase::Serving) {
            cx.note(Note::Serving { view: self.generation(), follows: self.adoption.follows() });
            self.accept_early(cx);
        }
    }
}

//! What a primary says of claims, and what it is told of them ([`super::claims`]).

use core::ops::Range;

use super::claims::Heard;
use super::ranges::ClaimLock;
use super::requests::RequestNumber;
use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, Note, Phase, Primary};
use crate::view::View;

impl<P: Payload> Primary<P> {
    /// Asks for the next claim, and tells the keeper what it does not know.
    pub(in crate::primary) fn advance_claims(&mut self, cx: &mut Context<'_, P>) {
        self.claims.begin_next();
        if !self.claims.are_untold() {
            return;
        }
        let keeper = self.keeper().filter(|keeper| !self.adoption.awaits(keeper.id()));
        if let Some(link) = keeper.and_then(Peer::ready_link) {
            let (generation, claimant) = (self.generation(), self.config.id);
            let (number, range) = self.claims.tell();
            cx.send(link, Message::Claim { generation, claimant, number, range }, None);
        }
    }

    /// The replica that keeps the order of claims.
    fn keeper(&self) -> Option<&Peer> {
        self.peers.get(&self.view.as_ref()?.keeper()?)
    }

    /// A session with a replica goes on, or it has adopted the view: a keeper may have missed what was said.
    pub(in crate::primary) fn restate_claim(&mut self, replica: ReplicaId) {
        if self.keeper().is_some_and(|keeper| keeper.id() == replica) {
            self.claims.restate();
        }
    }

    /// The view has changed: claims of those that are no primaries any more are over.
    pub(in crate::primary) fn claims_follow(&mut self, view: &View) {
        let over = self.claims.follow(|id| view.has_primary(id));
        over.into_iter().for_each(|lock| self.ranges.unlock_claim(lock));
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
        let over = match self.claims.hear(claimant, number, range.is_none()) {
            Heard::Nothing => return,
            Heard::Missed(lock) => return self.ranges.restate(lock),
            Heard::New(over) => over,
        };
        over.into_iter().for_each(|lock| self.ranges.unlock_claim(lock));
        if let Some(range) = range {
            let lock = ClaimLock::numbered(self.next_number());
            self.ranges.lock_for_claim(lock, range);
            self.claims.honour(claimant, number, lock);
        }
    }

    /// Tells the keeper that nothing is under way in a claimed range, unless the claim is over.
    pub(super) fn stand_aside(&mut self, cx: &mut Context<'_, P>, lock: ClaimLock) {
        let generation = self.generation();
        let aside = self.claims.stand_aside(lock);
        let link = self.keeper().and_then(Peer::ready_link);
        if let (Some((claimant, number)), Some(link)) = (aside, link) {
            cx.send(link, Message::Granted { generation, claimant, number }, None);
        }
    }

    /// All primaries stand aside for a claim of this one: the request for which it is may go on.
    pub(in crate::primary) fn claim_granted(
        &mut self,
        generation: Generation,
        claimant: PrimaryId,
        number: ClaimNumber,
    ) {
        if generation == self.generation()
            && claimant == self.config.id
            && let Some(request) = self.claims.granted(number)
        {
            self.ranges.go_on(request);
        }
    }

    /// Nobody has anything under way that this primary, which has just joined, does not know of.
    pub(super) fn joined(&mut self, cx: &mut Context<'_, P>, number: RequestNumber) {
        self.end_kept(number);
        if matches!(self.phase, Phase::Serving) {
            cx.note(Note::Serving { view: self.generation(), follows: self.adoption.follows() });
            self.accept_early(cx);
        }
    }
}

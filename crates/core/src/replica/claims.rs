//! The keeper's part in claims ([`crate::primary`]): overlapping ones have their turn in the order in which
//! they came, and one is granted when every primary of the view stands aside. What is kept here
//! lasts as long as the view: each primary says anew in the next one what it wants.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use super::{Context, Replica};
use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::range_lock::{LockMode, LockNumber, RangeLock};
use crate::view::View;

/// The claims of all primaries of a view: one each at most.
#[derive(Debug, Default)]
pub(super) struct Claims {
    order: RangeLock,
    last_lock: LockNumber,
    of: BTreeMap<PrimaryId, Claim>,
}

/// The last claim that a primary has told of.
#[derive(Debug)]
struct Claim {
    number: ClaimNumber,
    /// The range and its place in the order; `None` if it is over.
    wanted: Option<(Range<u64>, LockNumber)>,
    /// Whether no earlier one overlaps it.
    has_turn: bool,
    granted_by: BTreeSet<PrimaryId>,
}

impl Claims {
    /// Takes in what a primary says of its claims. Returns those of whom the primaries are to hear.
    fn take(
        &mut self,
        claimant: PrimaryId,
        number: ClaimNumber,
        range: Option<Range<u64>>,
    ) -> Vec<PrimaryId> {
        let mut changed = vec![claimant];
        let before = self.of.remove(&claimant);
        if let Some((_, lock)) = before.and_then(|claim| claim.wanted) {
            let mut granted = Vec::new();
            self.order.release(lock, &mut granted);
            for (claimant, claim) in &mut self.of {
                if claim.wanted.as_ref().is_some_and(|(_, lock)| granted.contains(lock)) {
                    claim.has_turn = true;
                    changed.push(*claimant);
                }
            }
        }
        let mut has_turn = false;
        let wanted = range.map(|range| {
            self.last_lock += 1;
            has_turn = self.order.acquire(self.last_lock, range.clone(), LockMode::Exclusive);
            (range, self.last_lock)
        });
        let claim = Claim { number, wanted, has_turn, granted_by: BTreeSet::new() };
        self.of.insert(claimant, claim);
        changed
    }
}

impl Claims {
    /// Panics if the claims of two primaries that overlap have their turn at once (I12).
    pub fn check_invariants(&self, view: &View) {
        self.order.check_invariants();
        for (claimant, claim) in &self.of {
            assert!(view.has_primary(*claimant), "I12: {claimant:?} claims, and is no primary");
            let is_granted = claim.wanted.as_ref().is_some_and(|(_, l)| self.order.is_granted(*l));
            assert!(claim.has_turn == is_granted, "I12: {claimant:?} has a turn out of order");
            let is_granted = claim.has_turn || claim.granted_by.is_empty();
            assert!(is_granted, "I12: others stand aside for {claimant:?} before its turn");
        }
    }
}

impl Claim {
    /// What the primaries are to do about it: stand aside, or no more for those before.
    fn state(&self) -> (ClaimNumber, Option<Range<u64>>) {
        match &self.wanted {
            None => (self.number, None),
            Some((range, _)) if self.has_turn => (self.number, Some(range.clone())),
            Some(_) => (ClaimNumber(self.number.0.saturating_sub(1)), None),
        }
    }

    /// What says so.
    fn message(&self, generation: Generation, claimant: PrimaryId) -> Message {
        let (number, range) = self.state();
        Message::Claim { generation, claimant, number, range }
    }
}

impl<P: Payload> Replica<P> {
    /// A primary says what it claims.
    pub(super) fn claim_asked(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        (claimant, number): (PrimaryId, ClaimNumber),
        range: Option<Range<u64>>,
    ) {
        if self.primary_of(link) != Some(claimant) {
            return self.drop_link(cx, link);
        }
        if !self.is_current(generation) || !self.view.has_primary(claimant) {
            return self.refuse(cx, link, None);
        }
        match self.claims.of.get(&claimant) {
            Some(claim) if claim.number > number => {}
            Some(claim) if claim.number == number && range.is_some() => {
                self.grant_if_all_stand_aside(cx, claimant);
            }
            _ => {
                for changed in self.claims.take(claimant, number, range) {
                    self.tell_claim(cx, changed);
                }
            }
        }
    }

    /// A primary stands aside for a claim.
    pub(super) fn stands_aside(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        (claimant, number): (PrimaryId, ClaimNumber),
    ) {
        let Some(from) = self.primary_of(link) else { return };
        if !self.is_current(generation) {
            return;
        }
        let claim = self.claims.of.get_mut(&claimant);
        if let Some(claim) = claim.filter(|claim| claim.number == number && claim.has_turn) {
            claim.granted_by.insert(from);
            self.grant_if_all_stand_aside(cx, claimant);
        }
    }

    fn grant_if_all_stand_aside(&mut self, cx: &mut Context<'_, P>, claimant: PrimaryId) {
        let Some(claim) = self.claims.of.get(&claimant) else { return };
        let mut primaries = self.view.primaries.iter();
        if !primaries.all(|primary| claim.granted_by.contains(&primary.id)) {
            return;
        }
        let (generation, number) = (self.view.generation, claim.number);
        let link = self.open_primaries().find(|(_, primary)| *primary == claimant);
        if let Some((link, _)) = link {
            cx.send(link, Message::Granted { generation, claimant, number }, None);
        }
    }

    /// Tells all primaries of a claim.
    fn tell_claim(&self, cx: &mut Context<'_, P>, claimant: PrimaryId) {
        let Some(claim) = self.claims.of.get(&claimant) else { return };
        for (link, primary) in self.open_primaries() {
            if self.view.has_primary(primary) {
                cx.send(link, claim.message(self.view.generation, claimant), None);
            }
        }
    }

    /// A session with a primary begins, or it knows of the view: tells it of all claims.
    pub(super) fn tell_claims_to(&self, cx: &mut Context<'_, P>, link: LinkId) {
        if !self.primary_of(link).is_some_and(|primary| self.view.has_primary(primary)) {
            return;
        }
        for (claimant, claim) in &self.claims.of {
            cx.send(link, claim.message(self.view.generation, *claimant), None);
        }
    }
}

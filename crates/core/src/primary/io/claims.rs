//! Claims: how one primary has all others stand aside from a range of a volume that several run.
//!
//! A claim is asked of the replica that keeps their order ([`crate::view::View::keeper`]). It has every primary of
//! the view, the claimant too, lock the range here as a write would; when all have, the claim is granted. A
//! primary has one claim at a time.
//!
//! A claim that was granted is honoured until its claimant says that it is over, or is no primary any
//! more, whatever views come: what it has sent may be sent again by it. One that was not granted when the
//! view changes is asked for anew. Who joins others knows of no claim, and claims the whole volume once
//! before it serves anything. All that is said of claims tells a state and not a step, so it is said again
//! with every session and view.

use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};

use super::ranges::ClaimLock;
use super::requests::RequestNumber;
use crate::ids::*;

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
    lock: ClaimLock,
    is_locked: bool,
}

/// What follows when the keeper tells of a claim.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::primary) enum Heard {
    /// Nothing: it is known, or a newer one is.
    Nothing,
    /// The keeper has missed that this primary stands aside by this lock.
    Missed(ClaimLock),
    /// It takes the place of the one for which this lock was taken, if there was one.
    New(Option<ClaimLock>),
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
    pub fn are_honoured_by(&self, lock: ClaimLock) -> bool {
        self.honoured.values().any(|honoured| honoured.lock == lock)
    }

    /// Whether a request has the claim that it wants.
    pub fn are_granted_to(&self, request: RequestNumber) -> bool {
        self.own.as_ref().is_some_and(|own| own.request == request && own.is_granted)
    }

    /// Makes the next claim that is wanted, if there is none.
    pub fn begin_next(&mut self) {
        if self.own.is_none()
            && let Some((request, range)) = self.wanted.pop_front()
        {
            self.number = self.number.next();
            self.own = Some(OwnClaim { request, range, is_granted: false });
            self.is_untold = true;
        }
    }

    /// Whether there is something to tell the keeper.
    pub fn are_untold(&self) -> bool {
        self.is_untold
    }

    /// What there is to tell the keeper, who is told now: the claim that is asked for, or the last one that is over.
    pub fn tell(&mut self) -> (ClaimNumber, Option<Range<u64>>) {
        self.is_untold = false;
        match &self.own {
            None => (self.number, None),
            Some(own) if own.is_granted => (ClaimNumber(self.number.0 - 1), None),
            Some(own) => (self.number, Some(own.range.clone())),
        }
    }

    /// The keeper may have missed what was said.
    pub fn restate(&mut self) {
        self.is_untold |= self.number > ClaimNumber(0);
    }

    /// The view has changed: claims of those that are no primaries any more are over, and their locks are told. An
    /// own one that was not granted counts as another one, because the new keeper may have another order.
    pub fn follow(&mut self, is_primary: impl Fn(PrimaryId) -> bool) -> Vec<ClaimLock> {
        let gone = self.honoured.extract_if(.., |claimant, _| !is_primary(*claimant));
        let gone = gone.map(|(_, honoured)| honoured.lock).collect();
        if self.own.as_ref().is_some_and(|own| !own.is_granted) {
            self.number = self.number.next();
        }
        self.is_untold = self.number > ClaimNumber(0);
        gone
    }

    /// The keeper tells of a claim, or that one is over.
    pub fn hear(&mut self, claimant: PrimaryId, number: ClaimNumber, is_over: bool) -> Heard {
        match self.honoured.get(&claimant) {
            Some(honoured) if honoured.number == number && !is_over => match honoured.is_locked {
                true => Heard::Missed(honoured.lock),
                false => Heard::Nothing,
            },
            Some(honoured) if honoured.number > number => Heard::Nothing,
            _ => Heard::New(self.honoured.remove(&claimant).map(|honoured| honoured.lock)),
        }
    }

    /// This primary stands aside for a claim when it gets this lock.
    pub fn honour(&mut self, claimant: PrimaryId, number: ClaimNumber, lock: ClaimLock) {
        self.honoured.insert(claimant, Honoured { number, lock, is_locked: false });
    }

    /// A lock is granted: this primary stands aside. Tells for which claim, unless that is over.
    pub fn stand_aside(&mut self, lock: ClaimLock) -> Option<(PrimaryId, ClaimNumber)> {
        let mut honoured = self.honoured.iter_mut();
        let (claimant, claim) = honoured.find(|(_, claim)| claim.lock == lock)?;
        claim.is_locked = true;
        Some((*claimant, claim.number))
    }

    /// All primaries stand aside for a claim of this one: the request for which it is may go on. `None` if that
    /// claim is over, or was granted before.
    pub fn granted(&mut self, number: ClaimNumber) -> Option<RequestNumber> {
        let is_current = number == self.number;
        let own = self.own.as_mut().filter(|own| is_current && !own.is_granted)?;
        own.is_granted = true;
        Some(own.request)
    }

    /// The primary has ended.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests;

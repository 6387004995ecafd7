//! Which other primaries no member has answered, and for how long that has been so.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::ids::*;
use crate::time::Instant;

/// Other primaries that no member has answered for longer than their lease.
#[derive(Debug, Default)]
pub(in crate::primary) struct Silences {
    /// For how long all members have told so since.
    silent_for: BTreeMap<PrimaryId, Duration>,
    /// When all members had last told whom they hear; `None` if not all have told by the present
    /// view.
    listened_at: Option<Instant>,
}

impl Silences {
    /// All members have told whom they hear, and of these primaries they hear nothing.
    pub fn seen_nothing_of(&mut self, silent: &[PrimaryId], now: Instant) {
        let listened = self.listened_at.map_or(Duration::ZERO, |at| now.since(at));
        self.listened_at = Some(now);
        self.silent_for.retain(|id, _| silent.contains(id));
        self.silent_for.values_mut().for_each(|silent_for| *silent_for += listened);
        silent.iter().for_each(|id| {
            self.silent_for.entry(*id).or_default();
        });
    }

    /// Not all members have told, as while a view is adopted: they answer nobody then, so nobody is
    /// silent.
    pub fn listen_no_more(&mut self) {
        self.listened_at = None;
    }

    /// What the members said is no word of now: the others get the time to answer anew.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// For how long all members have told that they hear nothing of this primary.
    pub fn of(&self, primary: PrimaryId) -> Duration {
        self.silent_for.get(&primary).copied().unwrap_or_default()
    }

    /// Panics if this primary counts its own silence, or counts any from a moment that is still to
    /// come.
    pub fn check_invariants(&self, me: PrimaryId, now: Instant) {
        assert!(!self.silent_for.contains_key(&me), "V5: this primary is silent to itself");
        let is_past = self.listened_at.is_none_or(|at| at <= now);
        assert!(is_past, "V5: it has listened at {:?}, and it is {now:?}", self.listened_at);
    }
}

#[cfg(test)]
mod tests;

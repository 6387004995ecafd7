//! What must hold of a slot of the intent log after every step (see
//! [`crate::replica::invariants`]).

use super::IntentLog;
use super::region::{Pending, Region};

impl IntentLog {
    /// Panics if this is not the log of that slot, no table will name a region that is open, or
    /// regions are counted wrongly.
    pub fn check_invariants(&self, slot: usize) {
        assert!(usize::from(self.slot) == slot, "W6: slot {} is kept as {slot}", self.slot);
        let known = self.wanted.max(self.durable);
        for (region, entry) in &self.regions {
            let is_named = entry.named_by() <= known;
            assert!(is_named, "I5: nothing has region {region} named on the disk");
        }
        let is_saved = self.durable.max(self.covered) <= self.made;
        assert!(is_saved, "I5: a table is on the disk that was not made");
        assert!(self.wanted <= self.made + 1, "I5: a table is wanted that is not the next one");
        let pending = self.regions.values().map(Region::pending).chain(self.remnant);
        let unstable = pending.filter(|pending: &Pending| !pending.is_stable()).count();
        let counted = self.unstable;
        assert!(counted == unstable, "W6: {unstable} regions are not stable, and {counted} count");
    }
}

#[cfg(test)]
mod tests;

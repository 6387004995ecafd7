//! I5 on the disk: a table of open regions counts from the end of its save until the next one has
//! ended, whatever becomes of saves in between.
//!
//! A save that fails, or that a crash interrupts, may leave its table on the disk or not. So what
//! it closes may be found closed; everything else is found open that the last whole save has named.

use std::collections::BTreeMap;
use std::ops::Range;

use evenkeel_core::replica::OpenRegions;

use super::Violation;

/// What a replica's disk says, slot by slot.
#[derive(Debug, Default)]
pub struct Tables(BTreeMap<u8, Saves>);

#[derive(Debug, Default)]
struct Saves {
    /// The last one that has ended well.
    last: Option<OpenRegions>,
    /// Those after it, which have not.
    unsure: Vec<OpenRegions>,
}

impl Tables {
    /// A save begins.
    pub fn begins(&mut self, table: &OpenRegions) {
        self.0.entry(table.slot).or_default().unsure.push(table.clone());
    }

    /// A save has ended well.
    pub fn saved(&mut self, table: &OpenRegions) {
        let saves = Saves { last: Some(table.clone()), unsure: Vec::new() };
        self.0.insert(table.slot, saves);
    }

    /// Another disk has taken the place of this one.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// A replica starts and finds this.
    ///
    /// # Errors
    /// If a region is not open that the disk had said to be.
    pub fn found(&mut self, replica: usize, found: &[OpenRegions]) -> Result<(), Violation> {
        let forgotten = self.0.iter().find_map(|(slot, saves)| {
            let found = found.iter().find(|table| table.slot == *slot);
            saves.forgotten_by(found).map(|bytes| (*slot, bytes))
        });
        self.forget();
        found.iter().for_each(|table| self.saved(table));
        let Some((slot, bytes)) = forgotten else { return Ok(()) };
        let text = format!(
            "replica {replica} starts and does not find bytes {bytes:?} open in slot {slot}, which its disk had said"
        );
        Err(Violation::new("I5", text))
    }
}

impl Saves {
    /// What all saves say to be open since the last one that has ended well, and this table does
    /// not.
    fn forgotten_by(&self, found: Option<&OpenRegions>) -> Option<Range<u64>> {
        let last = self.last.as_ref()?;
        let regions = last.open.iter().map(|region| match last.is_all() {
            true => 0..u64::MAX,
            false => region * last.region..(region + 1) * last.region,
        });
        let mut stay = regions.filter(|bytes| self.unsure.iter().all(|table| names(table, bytes)));
        stay.find(|bytes| !found.is_some_and(|table| names(table, bytes)))
    }
}

fn names(table: &OpenRegions, bytes: &Range<u64>) -> bool {
    let mut regions = bytes.start / table.region..bytes.end.div_ceil(table.region);
    table.is_all()
        || (bytes.end != u64::MAX
            && regions.all(|region| table.open.binary_search(&region).is_ok()))
}

#[cfg(test)]
mod tests;

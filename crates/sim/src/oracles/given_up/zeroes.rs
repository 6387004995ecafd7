//! Zeroings carry no number: which of them an operation is of follows from what was asked, and is
//! not always certain.

use std::collections::HashMap;
use std::ops::Range;

use evenkeel_core::Sequence;

/// Of which mirror, and which of its bytes.
pub type Share = (usize, Range<u64>);

/// What clients have asked to be zeroed.
#[derive(Debug, Default)]
pub struct Zeroes {
    /// Of each primary: those of which something may be sent that was not sent before.
    asked: HashMap<usize, Vec<(u32, Vec<Share>)>>,
    /// The zeroings that an operation of a primary may be of.
    of: HashMap<(usize, Sequence), Vec<u32>>,
}

impl Zeroes {
    pub fn asks(&mut self, primary: usize, write: u32, shares: Vec<Share>) {
        self.asked.entry(primary).or_default().push((write, shares));
    }

    /// All of it was sent.
    pub fn succeeds(&mut self, primary: usize, write: u32) {
        if let Some(asked) = self.asked.get_mut(&primary) {
            asked.retain(|(other, _)| *other != write);
        }
    }

    /// The zeroings that this operation may be of; what it was sent as first counts.
    pub fn sends(
        &mut self,
        (primary, sequence): (usize, Sequence),
        (mirror, bytes): &Share,
    ) -> &[u32] {
        let has_it =
            |(of, own): &Share| of == mirror && own.start <= bytes.start && bytes.end <= own.end;
        let asked = self.asked.get(&primary).into_iter().flatten();
        self.of.entry((primary, sequence)).or_insert_with(|| {
            let may_be = asked.filter(|(_, shares)| shares.iter().any(has_it));
            may_be.map(|(write, _)| *write).collect()
        })
    }
}

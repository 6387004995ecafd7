//! What simulations draw: seeds by the commit, and numbers that follow from a seed (splitmix64).

use std::process::Command;

/// A source of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Another source of numbers, which takes none of these.
    pub(crate) const fn aside(&self) -> Self {
        Self(self.0 ^ 0x5bd1_e995_9ac4_31d7)
    }

    /// How often a fault comes: in half of all cases never.
    pub(crate) const fn fault(&mut self, most: u64) -> u64 {
        if self.chance(500) { 1 + self.below(most) } else { 0 }
    }

    /// Below `limit`; 0 if that is 0.
    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        let bits = self.bits();
        if limit == 0 { 0 } else { bits % limit }
    }

    pub(crate) const fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// So often in a thousand.
    pub(crate) const fn chance(&mut self, thousandths: u64) -> bool {
        self.below(1000) < thousandths
    }

    pub(crate) const fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A number that whoever runs the tests has set.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// The first seed of a sample: each commit has its own.
pub(crate) fn first_of_commit() -> u64 {
    let of_commit = || {
        let output = Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
        String::from_utf8(output.stdout).ok()
    };
    let text = std::env::var("EVENKEEL_TEST_SEED").ok().or_else(of_commit).unwrap_or_default();
    u64::from_str_radix(text.get(..12).unwrap_or("0"), 16).unwrap_or(0)
}

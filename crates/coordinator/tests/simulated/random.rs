//! Numbers that follow from a seed: splitmix64.

/// A source of numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`, which is not 0.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    pub const fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// So often in a thousand.
    pub const fn chance(&mut self, thousandths: u64) -> bool {
        self.below(1000) < thousandths
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { Some(&of[self.index(of.len())]) }
    }
}

//! Numbers that follow from a seed: splitmix64.

/// A source of numbers.
#[derive(Debug, Clone)]
pub(in crate::disk) struct Random(u64);

impl Random {
    pub(in crate::disk) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(in crate::disk) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Another source of numbers, which takes none of these.
    pub(in crate::disk) const fn aside(&self) -> Self {
        Self(self.0 ^ 0x5bd1_e995_9ac4_31d7)
    }

    /// How often a fault comes: in half of all cases never.
    pub(in crate::disk) const fn fault(&mut self, most: u64) -> u64 {
        if self.chance(500) { 1 + self.below(most) } else { 0 }
    }

    /// Below `limit`; 0 if that is 0.
    pub(in crate::disk) const fn below(&mut self, limit: u64) -> u64 {
        let bits = self.bits();
        if limit == 0 { 0 } else { bits % limit }
    }

    pub(in crate::disk) const fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// So often in a thousand.
    pub(in crate::disk) const fn chance(&mut self, thousandths: u64) -> bool {
        self.below(1000) < thousandths
    }

    pub(in crate::disk) const fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

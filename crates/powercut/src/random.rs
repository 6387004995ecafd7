//! Choices that follow from a seed (SplitMix64; Steele, Lea and Flood, OOPSLA 2014).

/// A source of choices.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The choices that follow from this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below this one, which is not zero.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    /// Whether something happens that happens so often of a hundred times.
    pub const fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

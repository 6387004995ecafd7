//! Payloads of which nothing but the length is held.

use evenkeel_core::Payload;

/// So many bytes, all of this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blank {
    /// Bytes.
    pub length: u32,
    /// What they are.
    pub value: u8,
}

impl Blank {
    /// So many bytes that are no zeroes.
    pub const fn of(length: u32) -> Self {
        Self { length, value: 1 }
    }
}

impl Payload for Blank {
    fn length(&self) -> u32 {
        self.length
    }

    fn slice(&self, from: u32, length: u32) -> Self {
        assert!(from.checked_add(length).is_some_and(|end| end <= self.length));
        Self { length, ..*self }
    }

    fn digest(&self, from: u32, length: u32) -> u64 {
        u64::from(self.slice(from, length).value)
    }

    fn first_difference(&self, other: &Self) -> Option<u32> {
        (self.value != other.value).then_some(0)
    }

    fn is_zero(&self) -> bool {
        self.value == 0
    }
}

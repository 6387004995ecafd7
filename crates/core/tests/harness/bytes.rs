//! Payloads that hold their bytes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use evenkeel_core::Payload;

/// Shared bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(Rc<[u8]>);

impl Bytes {
    /// `length` bytes of `value`.
    pub fn of(value: u8, length: usize) -> Self {
        Self(vec![value; length].into())
    }

    /// These.
    pub fn copied(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes themselves.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl Payload for Bytes {
    fn length(&self) -> u32 {
        self.0.len() as u32
    }

    fn slice(&self, from: u32, length: u32) -> Self {
        Self(self.0[from as usize..(from + length) as usize].into())
    }

    fn digest(&self, from: u32, length: u32) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0[from as usize..(from + length) as usize].hash(&mut hasher);
        hasher.finish()
    }

    fn first_difference(&self, other: &Self) -> Option<u32> {
        let mut pairs = self.0.iter().zip(other.0.iter());
        pairs.position(|(own, other)| own != other).map(|byte| byte as u32)
    }

    fn is_zero(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }
}

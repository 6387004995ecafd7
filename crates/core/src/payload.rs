//! Data that passes through the core without being touched by it.

use core::fmt::Debug;

/// A shared, immutable run of bytes: the engine's is a reference-counted slot of its buffer pool,
/// the simulator's a reference-counted slice. Cloning one shares it.
pub trait Payload: Clone + Debug {
    /// Length in bytes.
    fn length(&self) -> u32;

    /// The part that starts at `from` and is `length` bytes long, sharing the same bytes.
    ///
    /// # Panics
    /// If the part is not inside the payload.
    #[must_use]
    fn slice(&self, from: u32, length: u32) -> Self;

    /// The digest of a part, for comparisons between replicas: 64-bit xxHash3 where bytes are real.
    ///
    /// # Panics
    /// If the part is not inside the payload.
    fn digest(&self, from: u32, length: u32) -> u64;

    /// The first byte in which another payload of the same length differs.
    fn first_difference(&self, other: &Self) -> Option<u32>;

    /// Whether every byte is zero.
    fn is_zero(&self) -> bool;
}

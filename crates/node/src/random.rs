//! Random numbers, for new identities.

use evenkeel_core::Incarnation;

/// A random identity.
///
/// # Panics
/// If the kernel has no randomness, which it always has once booted.
#[must_use]
pub fn random_u128() -> u128 {
    let mut bytes = [0; 16];
    fill_random(&mut bytes);
    u128::from_be_bytes(bytes)
}

/// Fills a buffer with random bytes.
///
/// # Panics
/// If the kernel has no randomness, which it always has once booted.
pub fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the kernel gives random bytes");
}

/// An incarnation, drawn anew; never 0.
#[must_use]
pub fn random_incarnation() -> Incarnation {
    let mut bytes = [0; 8];
    fill_random(&mut bytes);
    Incarnation(u64::from_be_bytes(bytes).max(1))
}

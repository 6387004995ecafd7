//! Groups for Diffie-Hellman: those of RFC 7919, and none.

use std::fmt;

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize as _};
use zeroize::Zeroizing;

use super::primes::{FFDHE2048, FFDHE3072, FFDHE4096, FFDHE6144, FFDHE8192};

/// Bytes of an exponent. RFC 7919 asks for 400 bits with the largest group.
pub const EXPONENT_LENGTH: usize = 64;
const GENERATOR: u8 = 2;

/// A group of a challenge (Base 8.3.5.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Group {
    /// None: the responses depend on nothing but the keys and what everybody hears.
    Null = 0,
    /// ffdhe2048.
    Ffdhe2048 = 1,
    /// ffdhe3072.
    Ffdhe3072 = 2,
    /// ffdhe4096.
    Ffdhe4096 = 3,
    /// ffdhe6144.
    Ffdhe6144 = 4,
    /// ffdhe8192.
    Ffdhe8192 = 5,
}

impl Group {
    /// Those that are taken if a host has them, the first one first: the least with 128 bits of
    /// security, as the keys have them; then what is more costly, then what is weaker.
    pub(super) const BY_PREFERENCE: [Self; 6] = [
        Self::Ffdhe3072,
        Self::Ffdhe4096,
        Self::Ffdhe6144,
        Self::Ffdhe8192,
        Self::Ffdhe2048,
        Self::Null,
    ];

    /// The group of this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::BY_PREFERENCE.into_iter().find(|group| group.number() == number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    const fn prime(self) -> Option<&'static str> {
        match self {
            Self::Null => None,
            Self::Ffdhe2048 => Some(FFDHE2048),
            Self::Ffdhe3072 => Some(FFDHE3072),
            Self::Ffdhe4096 => Some(FFDHE4096),
            Self::Ffdhe6144 => Some(FFDHE6144),
            Self::Ffdhe8192 => Some(FFDHE8192),
        }
    }

    /// Bytes of a value.
    #[must_use]
    pub const fn length(self) -> usize {
        match self.prime() {
            None => 0,
            Some(digits) => digits.len() / 2,
        }
    }

    fn modulus(self) -> Option<BoxedUint> {
        let bits = self.length() as u32 * 8;
        BoxedUint::from_be_hex(self.prime()?, bits).into_option()
    }

    /// Whether the other side may have sent this value: 2 to p - 2, so that none of the two small
    /// subgroups is left.
    fn permits(self, value: &[u8]) -> bool {
        let Some(modulus) = self.modulus() else { return false };
        if value.len() != self.length() {
            return false;
        }
        // What everybody hears is no secret.
        let value = BoxedUint::from_be_slice_vartime(value);
        let one = BoxedUint::one_with_precision(modulus.bits_precision());
        value > one && value < modulus.wrapping_sub(&one)
    }
}

/// A power that is to be computed. It takes up to tenths of a second, so that whoever drives a
/// machine computes where nothing waits for it.
pub struct Computation {
    group: Group,
    exponent: Zeroizing<[u8; EXPONENT_LENGTH]>,
    /// The other side's value; `None`: the group's generator.
    base: Option<Vec<u8>>,
}

impl Computation {
    /// Whether it takes several times as long as with the group that is preferred.
    #[must_use]
    pub const fn is_long(&self) -> bool {
        matches!(self.group, Group::Ffdhe6144 | Group::Ffdhe8192)
    }

    /// The value for the other side. `None` without a group.
    #[must_use]
    pub fn of_generator(group: Group, exponent: &Zeroizing<[u8; EXPONENT_LENGTH]>) -> Option<Self> {
        group.prime()?;
        Some(Self { group, exponent: exponent.clone(), base: None })
    }

    /// What both sides will know. `None` if the other side's value is none that is permitted.
    #[must_use]
    pub fn of_value(
        group: Group,
        exponent: &Zeroizing<[u8; EXPONENT_LENGTH]>,
        value: &[u8],
    ) -> Option<Self> {
        let base = group.permits(value).then(|| value.to_vec())?;
        Some(Self { group, exponent: exponent.clone(), base: Some(base) })
    }

    /// Computes it, in a time that does not depend on the exponent. As long as the group's prime.
    #[must_use]
    pub fn run(&self) -> Zeroizing<Vec<u8>> {
        let modulus = self.group.modulus().and_then(|modulus| Odd::new(modulus).into_option());
        // There is a computation only with a group, and its prime is odd.
        let Some(modulus) = modulus else { return Zeroizing::default() };
        let bits = modulus.bits_precision();
        let base = match &self.base {
            None => BoxedUint::from(GENERATOR).resize(bits),
            Some(value) => BoxedUint::from_be_slice_vartime(value).resize(bits),
        };
        let mut exponent = BoxedUint::from_be_slice_vartime(&*self.exponent);
        let base = BoxedMontyForm::new(base, &BoxedMontyParams::new_vartime(modulus));
        let power = base.pow_bounded_exp(&exponent, EXPONENT_LENGTH as u32 * 8);
        zeroize::Zeroize::zeroize(&mut exponent);
        Zeroizing::new(power.retrieve().to_be_bytes().into_vec())
    }
}

impl fmt::Debug for Computation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computation").field("group", &self.group).finish_non_exhaustive()
    }
}

//! Hash functions, what they make of keys, and the responses that prove a key (Base 8.3.5.5).

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

use super::Secret;

/// A hash function of a challenge or of a secret (Base 8.3.5.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Hash {
    /// SHA-256.
    Sha256 = 1,
    /// SHA-384.
    Sha384 = 2,
    /// SHA-512.
    Sha512 = 3,
}

/// Does the same for each function.
macro_rules! with {
    ($hash:expr, $kind:ident => $does:expr) => {
        match $hash {
            Hash::Sha256 => {
                type $kind = Sha256;
                $does
            }
            Hash::Sha384 => {
                type $kind = Sha384;
                $does
            }
            Hash::Sha512 => {
                type $kind = Sha512;
                $does
            }
        }
    };
}

impl Hash {
    /// Bytes of the longest result.
    pub const MAX_LENGTH: usize = 64;

    /// The function of this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Sha256),
            2 => Some(Self::Sha384),
            3 => Some(Self::Sha512),
            _ => None,
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Bytes of its result.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    fn of(self, bytes: &[u8]) -> Zeroizing<Vec<u8>> {
        with!(self, Kind => Zeroizing::new(Kind::digest(bytes).to_vec()))
    }

    pub(super) fn mac(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        with!(self, Kind => {
            Zeroizing::new(begun::<Hmac<Kind>>(key, parts).finalize().into_bytes().to_vec())
        })
    }

    /// Whether these bytes are the result, in a time that does not depend on where they differ.
    fn is_mac(self, key: &[u8], parts: &[&[u8]], bytes: &[u8]) -> bool {
        with!(self, Kind => begun::<Hmac<Kind>>(key, parts).verify_slice(bytes).is_ok())
    }
}

#[allow(clippy::expect_used)]
fn begun<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// What a response is about; each side makes it of what was said.
#[derive(Debug)]
pub struct Proof<'a> {
    /// Of the Challenge.
    pub hash: Hash,
    /// T_ID.
    pub transaction: u16,
    /// The challenge: C1 for a host, C2 for a controller.
    pub challenge: &'a [u8],
    /// Its sequence number: S1 for a host, S2 for a controller.
    pub sequence: u32,
    /// What both sides have computed by Diffie-Hellman; `None` without.
    pub session: Option<&'a [u8]>,
    /// HOSTNQN.
    pub host: &'a str,
    /// SUBNQN.
    pub subsystem: &'a str,
}

impl Proof<'_> {
    /// What a host with this key responds.
    #[must_use]
    pub fn of_host(&self, secret: &Secret) -> Zeroizing<Vec<u8>> {
        self.parts(self.host, b"HostHost", self.subsystem, |parts| {
            self.hash.mac(&secret.key_of(self.host), parts)
        })
    }

    /// Whether that is what a host with this key responds.
    pub(super) fn is_of_host(&self, secret: &Secret, response: &[u8]) -> bool {
        self.parts(self.host, b"HostHost", self.subsystem, |parts| {
            self.hash.is_mac(&secret.key_of(self.host), parts, response)
        })
    }

    /// What a controller with this key responds.
    #[must_use]
    pub fn of_controller(&self, secret: &Secret) -> Zeroizing<Vec<u8>> {
        self.parts(self.subsystem, b"Controller", self.host, |parts| {
            self.hash.mac(&secret.key_of(self.subsystem), parts)
        })
    }

    fn parts<T>(&self, own: &str, role: &[u8], other: &str, then: impl Fn(&[&[u8]]) -> T) -> T {
        let augmented = self.session.map(|session| {
            let key = self.hash.of(session);
            self.hash.mac(&key, &[self.challenge])
        });
        let challenge = augmented.as_ref().map_or(self.challenge, |augmented| augmented);
        then(&[
            challenge,
            &self.sequence.to_le_bytes(),
            &self.transaction.to_le_bytes(),
            // Without a secure channel.
            &[0],
            role,
            own.as_bytes(),
            &[0],
            other.as_bytes(),
        ])
    }
}

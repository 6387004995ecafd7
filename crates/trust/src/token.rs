//! A one-time token: what an administrator carries from the authority's node to a new one.
//!
//! It contains the fingerprint of the authority that the new node is to trust, and a secret that
//! proves to the authority that the node was invited. The new node does not send the secret, but an
//! HMAC over its request and the TLS connection, which is useless to anybody who relays or records
//! it.
//!
//! As text it is 88 small letters and digits (base32, RFC 4648, without padding):
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version: 1 |
//! | 16 | the authority's [`Fingerprint`] |
//! | 8 | which token it is |
//! | 16 | the secret |
//! | 5 | when it was made, in seconds since 1970 |
//! | 4 | for how many seconds it is valid |
//! | 5 | the beginning of the SHA-256 of all before, for mistyped ones |

use std::fmt;
use std::str::FromStr;

use evenkeel_core::NodeId;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::authority::PublicKey;
use crate::fingerprint::{Fingerprint, LENGTH as FINGERPRINT};

const VERSION: u8 = 1;
const CHECKED: usize = 1 + FINGERPRINT + 8 + 16 + 5 + 4;
const BYTES: usize = CHECKED + 5;
/// Characters of a token.
pub const LENGTH: usize = BYTES * 8 / 5;
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// What a TLS connection is asked to export for a proof (RFC 8446, section 7.5).
pub const CHANNEL_LABEL: &[u8] = b"EXPORTER-evenkeel-join-1";

/// Identifies a token among all of an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenId(pub [u8; 8]);

/// A token. Whoever has it may join until it is used up or has expired. Not shown in logs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token {
    authority: Fingerprint,
    id: TokenId,
    secret: [u8; 16],
    made: u64,
    lasts: u32,
}

/// Why a text is not a valid token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Too long, too short, or with characters that tokens have not.
    #[error("a token has {LENGTH} letters and digits, without 0, 1, 8 and 9: copy all of it")]
    Form,
    /// The checksum does not match: a character is wrong.
    #[error("it is mistyped: its checksum differs")]
    Checksum,
    /// A later version of this software has made it.
    #[error("it has version {0}, and this software knows version {VERSION}: upgrade this node")]
    Version(u8),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:?})", self.id)
    }
}

impl Token {
    /// A token of an authority, made at `made` in seconds since 1970 and valid for `lasts` seconds.
    /// `id` and `secret` are random. `None`: the time lies beyond what a token can hold (the year
    /// 36812).
    #[must_use]
    pub fn new(
        authority: Fingerprint,
        id: TokenId,
        secret: [u8; 16],
        made: u64,
        lasts: u32,
    ) -> Option<Self> {
        (made < 1 << 40).then_some(Self { authority, id, secret, made, lasts })
    }

    /// The fingerprint of the authority to trust.
    #[must_use]
    pub const fn authority(&self) -> Fingerprint {
        self.authority
    }

    /// Its identifier.
    #[must_use]
    pub const fn id(&self) -> TokenId {
        self.id
    }

    /// When it was made, in seconds since 1970, by the clock of the authority's node. A node whose
    /// clock is wrong takes the certificate that it is shown as it was at that time.
    #[must_use]
    pub const fn made(&self) -> u64 {
        self.made
    }

    /// From when on it is not valid any more, in seconds since 1970.
    #[must_use]
    pub const fn expires(&self) -> u64 {
        self.made + self.lasts as u64
    }

    /// What the authority keeps of it in place of its secret.
    #[must_use]
    pub fn key(&self) -> TokenKey {
        let digest = Sha256::new()
            .chain_update(b"evenkeel token 1\0")
            .chain_update(self.id.0)
            .chain_update(self.secret);
        TokenKey(digest.finalize().into())
    }

    fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.authority.0);
        bytes.extend_from_slice(&self.id.0);
        bytes.extend_from_slice(&self.secret);
        bytes.extend_from_slice(&self.made.to_be_bytes()[3..]);
        bytes.extend_from_slice(&self.lasts.to_be_bytes());
        let mut all = [0; BYTES];
        all[..CHECKED].copy_from_slice(&bytes);
        let sum = checksum(&all);
        all[CHECKED..].copy_from_slice(&sum);
        all
    }
}

fn checksum(bytes: &[u8; BYTES]) -> [u8; BYTES - CHECKED] {
    let digest = Sha256::digest(&bytes[..CHECKED]);
    let mut sum = [0; BYTES - CHECKED];
    sum.copy_from_slice(&digest[..BYTES - CHECKED]);
    sum
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes();
        let text: String = bytes.chunks_exact(5).flat_map(digits).collect();
        f.write_str(&text)
    }
}

/// Eight digits for each five bytes.
fn digits(bytes: &[u8]) -> [char; 8] {
    let bits = bytes.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    std::array::from_fn(|index| char::from(DIGITS[(bits >> (35 - 5 * index)) as usize & 31]))
}

impl FromStr for Token {
    type Err = TokenError;

    /// Capital letters and white space around it do no harm.
    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim().as_bytes();
        if text.len() != LENGTH {
            return Err(TokenError::Form);
        }
        let mut bytes = [0; BYTES];
        for (five, eight) in bytes.chunks_exact_mut(5).zip(text.chunks_exact(8)) {
            let mut bits = 0u64;
            for letter in eight {
                let letter = letter.to_ascii_lowercase();
                let digit = DIGITS.iter().position(|digit| *digit == letter);
                bits = bits << 5 | digit.ok_or(TokenError::Form)? as u64;
            }
            five.copy_from_slice(&bits.to_be_bytes()[3..]);
        }
        if checksum(&bytes)[..] != bytes[CHECKED..] {
            return Err(TokenError::Checksum);
        }
        if bytes[0] != VERSION {
            return Err(TokenError::Version(bytes[0]));
        }
        Ok(Self::from_bytes(&bytes))
    }
}

impl Token {
    fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
            let (taken, left) = rest.split_first_chunk().expect("a token has these bytes");
            *rest = left;
            *taken
        }
        let mut rest = &bytes[1..];
        let authority = Fingerprint(take(&mut rest));
        let id = TokenId(take(&mut rest));
        let secret = take(&mut rest);
        let made = take::<5>(&mut rest).iter().fold(0, |made, byte| made << 8 | u64::from(*byte));
        let lasts = u32::from_be_bytes(take(&mut rest));
        Self { authority, id, secret, made, lasts }
    }
}

/// Bytes of a proof.
pub const PROOF_LENGTH: usize = 32;

/// What proves that somebody has a token: the token's secret, but not the secret itself. It is
/// enough to make proofs with, so it is kept as a secret, too. Not shown in logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenKey([u8; 32]);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

/// What a proof is about. None that was made for one of these fits another.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// What the TLS connection exports for [`CHANNEL_LABEL`].
    pub channel: &'a [u8; 32],
    /// The key that is to be certified.
    pub key: &'a PublicKey,
    /// The node that asks.
    pub node: NodeId,
    /// Its name.
    pub name: &'a str,
}

impl TokenKey {
    fn mac(&self, id: TokenId, asked: &Asked<'_>) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(b"evenkeel join 1\0");
        mac.update(&id.0);
        mac.update(asked.channel);
        mac.update(asked.key.bytes());
        mac.update(&asked.node.0.to_be_bytes());
        // The only part without a length of its own is the last.
        mac.update(asked.name.as_bytes());
        mac
    }

    /// The proof that somebody who asks has the token.
    #[must_use]
    pub fn prove(&self, id: TokenId, asked: &Asked<'_>) -> [u8; PROOF_LENGTH] {
        self.mac(id, asked).finalize().into_bytes().into()
    }

    /// Whether a proof is right; takes the same time whatever is wrong with it.
    #[must_use]
    pub fn verify(&self, id: TokenId, asked: &Asked<'_>, proof: &[u8; PROOF_LENGTH]) -> bool {
        self.mac(id, asked).verify_slice(proof).is_ok()
    }
}

#[cfg(test)]
mod tests;

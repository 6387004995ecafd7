//! The request of a node that joins, and the answer of the authority's node: one of each, on a TLS
//! connection without a client certificate, because the new node has none yet.
//!
//! Each begins with its length in two bytes; numbers are big endian.
//!
//! | request | bytes |
//! |---|---|
//! | version: 1 | 1 |
//! | the token's identity | 8 |
//! | the node's identity | 16 |
//! | its public key | 65 |
//! | the proof | 32 |
//! | its name | the rest, 1 to 64 |
//!
//! | answer | bytes |
//! |---|---|
//! | 1: it is let in | 1 |
//! | the cluster | 16 |
//! | when the certificate was made | 8 |
//! | the certificate | the rest |
//!
//! | answer | bytes |
//! |---|---|
//! | 2: it is refused | 1 |
//! | why, and what to do | the rest |

use evenkeel_core::{CoordinatorId, NodeId};
use evenkeel_format::is_name;

use crate::authority::PublicKey;
use crate::token::{PROOF_LENGTH, TokenId};

const VERSION: u8 = 1;
/// Bytes of a request before the name.
const FIXED: usize = 1 + 8 + 16 + PublicKey::LENGTH + PROOF_LENGTH;
/// Most bytes of a request, its length left out.
pub const MAX_REQUEST: usize = FIXED + 64;
/// Most bytes of an answer, its length left out.
pub const MAX_ANSWER: usize = 4096;
const ADMITTED: u8 = 1;
const REFUSED: u8 = 2;

/// Why bytes cannot be decoded as a request or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// They have not the form of one.
    #[error("what came is none of what nodes say when one joins: is it an evenkeel node?")]
    Form,
    /// A version that this software does not know.
    #[error("version {0} of the request to join is not known here: upgrade this node")]
    Version(u8),
}

/// The request of a node that wants to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRequest {
    /// The token that it has.
    pub token: TokenId,
    /// Its identity.
    pub node: NodeId,
    /// Its name, of which [`JoinRequest::decode`] knows only that it is one.
    pub name: String,
    /// The key that is to be certified.
    pub key: PublicKey,
    /// Proves that the node has the token: an HMAC with the token's secret over this request and
    /// the TLS connection.
    pub proof: [u8; PROOF_LENGTH],
}

impl JoinRequest {
    /// The bytes to send, with their length before them.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let content = [
            &[VERSION][..],
            &self.token.0,
            &self.node.0.to_be_bytes(),
            self.key.bytes(),
            &self.proof,
            self.name.as_bytes(),
        ];
        with_length(&content.concat())
    }

    /// Reads what came, its length left out.
    ///
    /// # Errors
    /// If it is no request, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, ExchangeError> {
        let mut rest = bytes;
        match take::<1>(&mut rest)? {
            [VERSION] => {}
            [other] => return Err(ExchangeError::Version(other)),
        }
        let token = TokenId(take(&mut rest)?);
        let node = NodeId(u128::from_be_bytes(take(&mut rest)?));
        let key = take::<{ PublicKey::LENGTH }>(&mut rest)?;
        let key = PublicKey::new(&key).ok_or(ExchangeError::Form)?;
        let proof = take(&mut rest)?;
        let name = std::str::from_utf8(rest).map_err(|_| ExchangeError::Form)?;
        match is_name(name) {
            true => Ok(Self { token, node, name: name.to_owned(), key, proof }),
            false => Err(ExchangeError::Form),
        }
    }
}

/// The answer of the authority's node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinAnswer {
    /// The node is let in.
    Admitted {
        /// The cluster, as certificates name it.
        cluster: CoordinatorId,
        /// When the certificate was made, in seconds since 1970.
        made: u64,
        /// The certificate (DER).
        certificate: Vec<u8>,
    },
    /// The node is refused.
    Refused {
        /// The reason and what to do about it, for people.
        why: String,
    },
}

impl JoinAnswer {
    /// The bytes to send, with their length before them. What is too long is cut off.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let content = match self {
            Self::Admitted { cluster, made, certificate } => {
                let (cluster, made) = (cluster.0.to_be_bytes(), made.to_be_bytes());
                [&[ADMITTED][..], &cluster, &made, certificate].concat()
            }
            Self::Refused { why } => [&[REFUSED], why.as_bytes()].concat(),
        };
        with_length(&content[..content.len().min(MAX_ANSWER)])
    }

    /// Reads what came, its length left out.
    ///
    /// # Errors
    /// If it is no answer.
    pub fn decode(bytes: &[u8]) -> Result<Self, ExchangeError> {
        let mut rest = bytes;
        match take::<1>(&mut rest)? {
            [ADMITTED] => {
                let cluster = CoordinatorId(u128::from_be_bytes(take(&mut rest)?));
                let made = u64::from_be_bytes(take(&mut rest)?);
                Ok(Self::Admitted { cluster, made, certificate: rest.to_vec() })
            }
            [REFUSED] => Ok(Self::Refused { why: String::from_utf8_lossy(rest).into_owned() }),
            _ => Err(ExchangeError::Form),
        }
    }
}

fn with_length(content: &[u8]) -> Vec<u8> {
    // Both are bounded far below it.
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes(), content].concat()
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], ExchangeError> {
    let (taken, left) = rest.split_first_chunk().ok_or(ExchangeError::Form)?;
    *rest = left;
    Ok(*taken)
}

#[cfg(test)]
mod tests;

//! The identities of a cluster: its authority, the certificates that this signs, the tokens by
//! which a new node gets its first one, and how all of them are verified.
//!
//! Nothing here reads a file, a socket or a clock: times are arguments, in seconds since 1970, and
//! so are random numbers, but for those of new keys, which the TLS library draws itself.
//! [The decision](../../../docs/decisions/0076-a-node-is-who-its-certificate-says.md) says why;
//! `evenkeel-node` stores the files and makes the connections.
//!
//! - [`names`]: the DNS names in certificates of nodes and clients.
//! - [`authority`]: makes keys and signs certificates.
//! - [`fingerprint`]: identifies an authority in 16 bytes.
//! - [`token`], [`invitation`]: the two sides of a one-time token.
//! - [`exchange`]: the request of a node that joins, and the answer of the authority's node.
//! - [`verifier`]: verifies certificates of other nodes and of clients.
//! - [`pem`]: keys and certificates as text.

pub mod authority;
pub mod exchange;
pub mod fingerprint;
pub mod invitation;
pub mod names;
pub mod pem;
pub mod time;
pub mod token;
pub mod verifier;

pub use authority::{Authority, Key, PublicKey};
pub use exchange::{JoinAnswer, JoinRequest};
pub use fingerprint::Fingerprint;
pub use invitation::{Invitation, Refused};
pub use token::{Token, TokenId};
pub use verifier::{Standing, Verifier};

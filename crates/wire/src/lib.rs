//! Bytes on the network: the hello and the frames of a link, version 1.
//!
//! Sans-I/O: bytes in, bytes out, every length bounded before anything is allocated for it. The
//! byte tables and the rules of order are in `docs/protocol.md`.
//!
//! - [`hello`]: identities, purpose and version of a connection.
//! - [`frame`]: one [`evenkeel_core::Message`] as a header of 64 bytes, a short body for the few
//!   messages that need one, and a payload that its sender and receiver handle apart.

mod error;
pub mod frame;
pub mod hello;
mod message;

pub use error::FrameError;
pub use evenkeel_format::bytes::crc32c as payload_crc;
pub use frame::{
    HEADER_LENGTH, Header, MAX_BODY_LENGTH, PayloadSummary, carries_payload, decode, decode_header,
    encode,
};

/// The versions of the frames that this software speaks.
pub const VERSIONS: hello::VersionRange = hello::VersionRange { oldest: 1, newest: 1 };

//! NBD: fixed newstyle handshake, simple and structured replies, `base:allocation`.
//!
//! 1. [`Handshake`]: bytes in, bytes out, until the client has chosen an [`Export`].
//! 2. [`connection`]: a front end that serves the client's requests inside the engine.
//!
//! The protocol is described in the NBD project's `doc/proto.md`; names here follow it.
//!
//! Bounds, per connection: 64 KiB of option data, [`MAX_OPTIONS`] options; one receive buffer of
//! [`crate::RECEIVE_BUFFER`] bytes, [`connection::MAX_REQUESTS`] requests in flight, and
//! [`crate::MAX_QUEUED`] bytes of answers that the client has not yet taken. The data of
//! requests comes out of the volume's memory budget.

pub mod connection;
mod handshake;
mod option;
mod reply;
mod request;

pub use connection::front_end;
pub use handshake::{Handshake, HandshakeError, MAX_OPTION_LENGTH, MAX_OPTIONS, Progress};
pub use option::Tls;
pub use request::{HEADER_LENGTH, Request, RequestFault};

use evenkeel_core::VolumeId;

/// What a client can choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The volume behind it.
    pub volume: VolumeId,
    /// Its name, as listed; at most 4,096 bytes.
    pub name: String,
    /// For people; may be empty; at most 4,096 bytes.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Logical block size: requests must be multiples of it.
    pub block_size: u32,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether zeroing is always quicker than writing zeroes.
    pub fast_zeroes: bool,
}

/// Tells which exports there are.
pub trait Exports {
    /// The export of this name. The empty name asks for the default one, if there is one.
    fn find(&self, name: &str) -> Option<Export>;

    /// All exports that may be listed.
    fn list(&self) -> Vec<Export>;

    /// Whether the client that asks may use it. If not, it is told so.
    fn admits(&self, _export: &Export) -> bool {
        true
    }

    /// Whether its volume takes one more client. If not, whoever chooses it is told so.
    fn has_room(&self, _export: &Export) -> bool {
        true
    }
}

/// What client and server have agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// What the client chose.
    pub export: Export,
    /// Whether reads are answered by structured replies.
    pub structured_replies: bool,
    /// Whether the client may ask for the block status in the context `base:allocation`.
    pub block_status: bool,
    /// Bytes that came after the handshake and belong to the first requests.
    pub rest: Vec<u8>,
}

/// Longest name of an export, and longest string of any kind, in bytes.
pub const MAX_NAME_LENGTH: usize = 4096;

/// The block size that is recommended to clients, in bytes.
const PREFERRED_BLOCK: u32 = 4096;

/// The flags of an export, as the client learns them.
fn transmission_flags(export: &Export, structured_replies: bool) -> u16 {
    const HAS_FLAGS: u16 = 1 << 0;
    const READ_ONLY: u16 = 1 << 1;
    const SEND_FLUSH: u16 = 1 << 2;
    const SEND_FUA: u16 = 1 << 3;
    const SEND_TRIM: u16 = 1 << 5;
    const SEND_WRITE_ZEROES: u16 = 1 << 6;
    const SEND_DF: u16 = 1 << 7;
    const CAN_MULTI_CONN: u16 = 1 << 8;
    const SEND_CACHE: u16 = 1 << 10;
    const SEND_FAST_ZERO: u16 = 1 << 11;
    let always = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN | SEND_CACHE;
    // Fast zeroing is offered always: where it is not fast, it is answered so at once.
    let writes = SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO;
    let access = if export.read_only { READ_ONLY } else { writes };
    always | access | if structured_replies { SEND_DF } else { 0 }
}

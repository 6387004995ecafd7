//! Protocol data units (TCP 3.6.2): a header of a fixed length, its digest, padding, data, its
//! digest.
//!
//! A receiver reads [`COMMON_LENGTH`] bytes and makes a [`Layout`] of them. It reads on until it
//! has [`Layout::lead`] bytes, has the digest checked by [`Layout::check`], and gives the header to
//! the type that fits [`Layout::kind`]. [`Layout::data_length`] bytes of data follow, and their
//! digest if [`Layout::has_data_digest`].

mod body;
mod digest;
mod header;

pub use body::{
    Data, InitializeRequest, InitializeResponse, MAX_ALIGNMENT, MAX_QUOTED, Ready, Terminate,
    put_command, put_response,
};
pub use digest::DataDigest;
pub use header::{COMMON_LENGTH, DIGEST_LENGTH, Flags, Framing, Kind, Layout, MAX_LEAD, Side};

use thiserror::Error;

/// Fatal error status (TCP 3.6.2.4, field FES): why a side ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u16)]
pub enum FatalStatus {
    /// A field of a header is wrong; the information is the field's offset in the header.
    #[error("a field of a PDU's header is invalid")]
    InvalidHeaderField = 1,
    /// A PDU came when it was not expected.
    #[error("a PDU came out of sequence")]
    Sequence = 2,
    /// A header does not match its digest.
    #[error("a PDU's header was damaged on its way: check the network")]
    HeaderDigest = 3,
    /// Data was sent that was not asked for.
    #[error("data lies outside of what was requested")]
    OutOfRange = 4,
    /// More data was sent at once than is permitted. In the other direction: too many R2Ts.
    #[error("more was sent at once than is permitted")]
    LimitExceeded = 5,
    /// A parameter has a value that is not supported; the information is its offset.
    #[error("a parameter of the connection is not supported")]
    UnsupportedParameter = 6,
}

impl FatalStatus {
    /// The status of this number.
    #[must_use]
    pub const fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::InvalidHeaderField,
            2 => Self::Sequence,
            3 => Self::HeaderDigest,
            4 => Self::OutOfRange,
            5 => Self::LimitExceeded,
            6 => Self::UnsupportedParameter,
            _ => return None,
        })
    }
}

/// What the peer sent cannot be understood or was not permitted: the connection must end, with a
/// [`Terminate`] that says this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{status} (information {information})")]
pub struct Malformed {
    /// What is wrong.
    pub status: FatalStatus,
    /// Fatal error information (FEI): the field's offset in the header if the status names a field;
    /// the digest that came if it does not match; otherwise 0.
    pub information: u32,
}

impl Malformed {
    /// The header's field at this offset is wrong.
    #[must_use]
    pub const fn field(offset: u32) -> Self {
        Self { status: FatalStatus::InvalidHeaderField, information: offset }
    }

    /// An error that no field stands for.
    #[must_use]
    pub const fn status(status: FatalStatus) -> Self {
        Self { status, information: 0 }
    }
}

//! The envelope of the parts of a hello. Its layout never changes.

use evenkeel_format::bytes::{Put, Reader, Short, crc32c_of_parts};
use evenkeel_format::{NAME_RULE, is_name};
use thiserror::Error;

use super::MAX_NAME_LENGTH;

/// Bytes of a part's prefix.
pub const PREFIX_LENGTH: usize = 16;
/// Most bytes of a part, prefix included.
pub const MAX_PART_LENGTH: usize = 2048;

const MAGIC: &[u8; 8] = b"evenkeel";
const CRC_OFFSET: usize = 12;

/// Why bytes are not the expected part of a hello. The connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PartError {
    /// The first bytes are not evenkeel's.
    #[error(
        "the peer does not speak evenkeel's protocol (or speaks TLS, or expects it): check the address, the port and the TLS settings of both nodes"
    )]
    Magic,
    /// Another part was expected here.
    #[error("the peer sent part {found} of the hello where part {expected} was expected")]
    Kind {
        /// The kind that this step of the hello expects: 1 hello, 2 answer.
        expected: u16,
        /// The kind that the received envelope names.
        found: u16,
    },
    /// A length above the limits, or fewer bytes than the part needs.
    #[error("a part of the hello has an impossible length")]
    Length,
    /// The checksum does not match.
    #[error("the hello was damaged on its way: check the network")]
    Checksum,
    /// A field has a value that has no meaning here.
    #[error("the hello's field \"{0}\" has a value unknown here: upgrade the older node")]
    Field(&'static str),
    /// A node or a cluster is called something that is no name.
    #[error(
        "the hello's {0} name is none: {NAME_RULE}; check the configuration of the node at the other end"
    )]
    Name(&'static str),
}

impl From<Short> for PartError {
    fn from(_: Short) -> Self {
        Self::Length
    }
}

/// How many bytes follow a part's prefix.
///
/// # Errors
/// [`PartError::Magic`] and [`PartError::Length`].
pub fn rest_length(prefix: &[u8; PREFIX_LENGTH]) -> Result<usize, PartError> {
    if &prefix[..8] != MAGIC {
        return Err(PartError::Magic);
    }
    let length = usize::from(u16::from_le_bytes([prefix[10], prefix[11]]));
    if length > MAX_PART_LENGTH - PREFIX_LENGTH { Err(PartError::Length) } else { Ok(length) }
}

/// Over all bytes but the checksum's own.
fn checksum(part: &[u8]) -> u32 {
    crc32c_of_parts(&[&part[..CRC_OFFSET], &part[PREFIX_LENGTH..]])
}

/// Writes one part.
pub(super) struct PartWriter(Vec<u8>);

impl PartWriter {
    pub(super) fn new(kind: u16) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.put(MAGIC);
        bytes.put_u16(kind);
        bytes.put_padded(&[], PREFIX_LENGTH - 10);
        Self(bytes)
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.put_u8(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.put_u16(value);
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.put_u64(value);
    }

    pub(super) fn u128(&mut self, value: u128) {
        self.0.put_u128(value);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.put(bytes);
    }

    /// Length and text, cut at a character if it is longer than `longest` bytes.
    pub(super) fn text(&mut self, text: &str, longest: usize) {
        let text = &text[..text.floor_char_boundary(longest)];
        self.0.put_u16(text.len() as u16);
        self.0.put(text.as_bytes());
    }

    /// The lengths of all fields are bounded such that the sum is below [`MAX_PART_LENGTH`].
    pub(super) fn finish(mut self) -> Vec<u8> {
        let rest = (self.0.len() - PREFIX_LENGTH) as u16;
        self.0[10..CRC_OFFSET].copy_from_slice(&rest.to_le_bytes());
        let crc = checksum(&self.0).to_le_bytes();
        self.0[CRC_OFFSET..PREFIX_LENGTH].copy_from_slice(&crc);
        self.0
    }
}

/// Reads one part whose envelope has been checked. Bytes after the fields known here are passed
/// over: newer software may add some.
pub(super) struct PartReader<'a>(Reader<'a>);

impl<'a> PartReader<'a> {
    pub(super) fn new(expected: u16, bytes: &'a [u8]) -> Result<Self, PartError> {
        let (prefix, rest) = bytes.split_first_chunk().ok_or(PartError::Length)?;
        if rest_length(prefix)? != rest.len() {
            return Err(PartError::Length);
        }
        if checksum(bytes).to_le_bytes() != prefix[CRC_OFFSET..] {
            return Err(PartError::Checksum);
        }
        let found = u16::from_le_bytes([prefix[8], prefix[9]]);
        if found != expected {
            return Err(PartError::Kind { expected, found });
        }
        Ok(Self(Reader::new(rest)))
    }

    pub(super) fn u8(&mut self) -> Result<u8, PartError> {
        Ok(self.0.u8()?)
    }

    pub(super) fn u16(&mut self) -> Result<u16, PartError> {
        Ok(self.0.u16()?)
    }

    pub(super) fn u64(&mut self) -> Result<u64, PartError> {
        Ok(self.0.u64()?)
    }

    pub(super) fn u128(&mut self) -> Result<u128, PartError> {
        Ok(self.0.u128()?)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], PartError> {
        Ok(self.0.array()?)
    }

    /// Whether nothing follows: older software wrote no more fields.
    pub(super) fn is_at_end(&self) -> bool {
        self.0.left() == 0
    }

    /// A name; `whose` it is.
    pub(super) fn name(&mut self, whose: &'static str) -> Result<String, PartError> {
        let name = self.text(MAX_NAME_LENGTH)?;
        if is_name(&name) { Ok(name) } else { Err(PartError::Name(whose)) }
    }

    /// Text without control characters: it is shown to people and written to logs.
    pub(super) fn text(&mut self, longest: usize) -> Result<String, PartError> {
        let length = usize::from(self.0.u16()?);
        if length > longest {
            return Err(PartError::Length);
        }
        let text =
            core::str::from_utf8(self.0.take(length)?).map_err(|_| PartError::Field("text"))?;
        if text.chars().any(char::is_control) {
            return Err(PartError::Field("text"));
        }
        Ok(text.to_owned())
    }
}

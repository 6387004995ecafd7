//! The common header (TCP 3.6.2.1), and what lies where in a PDU.
//!
//! ```text
//! 0 type   1 flags   2 HLEN   3 PDO   4..8 PLEN
//! ```

use super::{DataDigest, FatalStatus, Malformed};

/// Bytes of the common header.
pub const COMMON_LENGTH: usize = 8;
/// Bytes of a digest.
pub const DIGEST_LENGTH: usize = 4;
/// Most bytes before a PDU's data: an offset of the data is one byte.
pub const MAX_LEAD: usize = 255;

const FLAGS: u32 = 1;
const HLEN: u32 = 2;
const PDO: u32 = 3;
/// Most bytes of a PDU that ends the connection.
const MAX_TERMINATE: u32 = 152;

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The initiator.
    Host,
    /// The target.
    Controller,
}

/// Types of PDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// ICReq (TCP 3.6.2.2).
    InitializeRequest = 0,
    /// ICResp (TCP 3.6.2.3).
    InitializeResponse = 1,
    /// H2CTermReq (TCP 3.6.2.4).
    HostTerminate = 2,
    /// C2HTermReq (TCP 3.6.2.5).
    ControllerTerminate = 3,
    /// CapsuleCmd (TCP 3.6.2.6).
    Command = 4,
    /// CapsuleResp (TCP 3.6.2.7).
    Response = 5,
    /// H2CData (TCP 3.6.2.8).
    HostData = 6,
    /// C2HData (TCP 3.6.2.9).
    ControllerData = 7,
    /// R2T (TCP 3.6.2.10).
    Ready = 9,
}

impl Kind {
    /// The type of this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::InitializeRequest,
            1 => Self::InitializeResponse,
            2 => Self::HostTerminate,
            3 => Self::ControllerTerminate,
            4 => Self::Command,
            5 => Self::Response,
            6 => Self::HostData,
            7 => Self::ControllerData,
            9 => Self::Ready,
            _ => return None,
        })
    }

    /// Bytes of the header, the common one included.
    #[must_use]
    pub const fn header_length(self) -> u8 {
        match self {
            Self::InitializeRequest | Self::InitializeResponse => 128,
            Self::Command => 72,
            Self::HostTerminate
            | Self::ControllerTerminate
            | Self::Response
            | Self::HostData
            | Self::ControllerData
            | Self::Ready => 24,
        }
    }

    /// Who sends it.
    #[must_use]
    pub const fn sender(self) -> Side {
        match self {
            Self::InitializeRequest | Self::HostTerminate | Self::Command | Self::HostData => {
                Side::Host
            }
            Self::InitializeResponse
            | Self::ControllerTerminate
            | Self::Response
            | Self::ControllerData
            | Self::Ready => Side::Controller,
        }
    }

    /// Whether it comes with the digests that were agreed on.
    #[must_use]
    pub const fn has_digests(self) -> bool {
        !matches!(
            self,
            Self::InitializeRequest
                | Self::InitializeResponse
                | Self::HostTerminate
                | Self::ControllerTerminate
        )
    }
}

/// Flags of a data PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// LAST_PDU: no further data of this transfer follows.
    pub last: bool,
    /// SUCCESS: the command has succeeded, and no response follows.
    pub success: bool,
}

impl Flags {
    const HEADER_DIGEST: u8 = 1 << 0;
    const DATA_DIGEST: u8 = 1 << 1;
    const LAST: u8 = 1 << 2;
    const SUCCESS: u8 = 1 << 3;

    const fn of(byte: u8) -> Self {
        Self { last: byte & Self::LAST != 0, success: byte & Self::SUCCESS != 0 }
    }

    const fn byte(self) -> u8 {
        (if self.last { Self::LAST } else { 0 }) | (if self.success { Self::SUCCESS } else { 0 })
    }
}

/// What both sides agreed on for the PDUs of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Framing {
    /// Whether a digest follows each header.
    pub header_digest: bool,
    /// Whether a digest follows data.
    pub data_digest: bool,
    /// Where data may begin: at multiples of so many dwords and one more (fields HPDA, CPDA); at
    /// most [`super::MAX_ALIGNMENT`].
    pub alignment: u8,
}

impl Framing {
    const fn boundary(&self) -> usize {
        (self.alignment as usize + 1) * 4
    }

    /// Appends a PDU up to where its data begins. `body` is what follows the common header. At most
    /// 2³⁰ bytes of data follow.
    pub(super) fn put(
        &self,
        kind: Kind,
        flags: Flags,
        body: &[u8],
        data_length: u32,
        out: &mut Vec<u8>,
    ) {
        let header_digest = self.header_digest && kind.has_digests();
        let data_digest = self.data_digest && data_length > 0 && kind.has_digests();
        let header = COMMON_LENGTH + body.len();
        let mut lead = header + if header_digest { DIGEST_LENGTH } else { 0 };
        if data_length > 0 && kind.has_digests() {
            lead = lead.next_multiple_of(self.boundary());
        }
        let data_offset = if data_length > 0 && kind.has_digests() { lead } else { 0 };
        let trailer = if data_digest { DIGEST_LENGTH } else { 0 };
        let start = out.len();
        let flags = flags.byte()
            | if header_digest { Flags::HEADER_DIGEST } else { 0 }
            | if data_digest { Flags::DATA_DIGEST } else { 0 };
        out.extend_from_slice(&[kind as u8, flags, header as u8, data_offset as u8]);
        out.extend_from_slice(&(data_length + (lead + trailer) as u32).to_le_bytes());
        out.extend_from_slice(body);
        if header_digest {
            let digest = DataDigest::of(&out[start..]);
            out.extend_from_slice(&digest);
        }
        out.resize(start + lead, 0);
    }
}

/// What lies where in a PDU, by its common header. All lengths are consistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    kind: Kind,
    flags: Flags,
    has_header_digest: bool,
    has_data_digest: bool,
    lead: u8,
    data_length: u32,
}

impl Layout {
    /// PLEN's offset in the header.
    pub const LENGTH_FIELD: u32 = 4;

    /// Reads a common header that `sender` has sent.
    ///
    /// # Errors
    /// If the header is wrong; with the offset of the first field that is.
    pub fn read(
        bytes: &[u8; COMMON_LENGTH],
        sender: Side,
        framing: &Framing,
    ) -> Result<Self, Malformed> {
        let [number, flags, header_length, data_offset, length @ ..] = *bytes;
        let kind = Kind::from_number(number)
            .filter(|kind| kind.sender() == sender)
            .ok_or(Malformed::field(0))?;
        let has_header_digest = flags & Flags::HEADER_DIGEST != 0;
        if has_header_digest != (framing.header_digest && kind.has_digests()) {
            return Err(Malformed::field(FLAGS));
        }
        if header_length != kind.header_length() {
            return Err(Malformed::field(HLEN));
        }
        let layout = Self {
            kind,
            flags: Flags::of(flags),
            has_header_digest,
            has_data_digest: flags & Flags::DATA_DIGEST != 0,
            lead: header_length + if has_header_digest { DIGEST_LENGTH as u8 } else { 0 },
            data_length: 0,
        };
        let length = u32::from_le_bytes(length);
        match kind {
            Kind::Command if length != u32::from(layout.lead) => {
                layout.with_data(data_offset, length, framing)
            }
            Kind::HostData | Kind::ControllerData => layout.with_data(data_offset, length, framing),
            Kind::HostTerminate | Kind::ControllerTerminate => layout.with_quoted(length),
            _ => layout.without_data(length, framing),
        }
    }

    fn without_data(mut self, length: u32, framing: &Framing) -> Result<Self, Malformed> {
        // A capsule without data may have the flag where digests of data were agreed on; no digest
        // follows (TCP 3.6.2.6, field DDGST).
        if self.has_data_digest && !(self.kind == Kind::Command && framing.data_digest) {
            return Err(Malformed::field(FLAGS));
        }
        self.has_data_digest = false;
        if length == u32::from(self.lead) {
            Ok(self)
        } else {
            Err(Malformed::field(Self::LENGTH_FIELD))
        }
    }

    fn with_data(
        mut self,
        data_offset: u8,
        length: u32,
        framing: &Framing,
    ) -> Result<Self, Malformed> {
        if self.has_data_digest != framing.data_digest {
            return Err(Malformed::field(FLAGS));
        }
        let is_aligned = usize::from(data_offset).is_multiple_of(framing.boundary());
        if data_offset < self.lead || !is_aligned {
            return Err(Malformed::field(PDO));
        }
        let trailer = if self.has_data_digest { DIGEST_LENGTH as u32 } else { 0 };
        self.data_length = length
            .checked_sub(u32::from(data_offset) + trailer)
            .filter(|length| *length > 0)
            .ok_or(Malformed::field(Self::LENGTH_FIELD))?;
        self.lead = data_offset;
        Ok(self)
    }

    /// A PDU that ends the connection quotes the header that was wrong.
    fn with_quoted(mut self, length: u32) -> Result<Self, Malformed> {
        let rest = length.checked_sub(self.lead.into()).filter(|_| length <= MAX_TERMINATE);
        self.has_data_digest = false;
        self.data_length = rest.ok_or(Malformed::field(Self::LENGTH_FIELD))?;
        Ok(self)
    }

    /// Checks the digest of a header, of which all [`Layout::lead`] bytes are here.
    ///
    /// # Errors
    /// If there is a digest and it does not match, or if bytes are missing.
    pub fn check(&self, lead: &[u8]) -> Result<(), Malformed> {
        let mut error = Malformed::status(FatalStatus::HeaderDigest);
        let (header, rest) = lead.split_at_checked(self.header_length()).ok_or(error)?;
        if !self.has_header_digest {
            return Ok(());
        }
        let digest = rest.first_chunk::<DIGEST_LENGTH>().ok_or(error)?;
        error.information = u32::from_le_bytes(*digest);
        if *digest == DataDigest::of(header) { Ok(()) } else { Err(error) }
    }

    /// The type.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The flags.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// Bytes of the header alone.
    #[must_use]
    pub const fn header_length(&self) -> usize {
        self.kind.header_length() as usize
    }

    /// Bytes from the start to the data: header, digest and padding. At most [`MAX_LEAD`].
    #[must_use]
    pub const fn lead(&self) -> usize {
        self.lead as usize
    }

    /// Bytes of data.
    #[must_use]
    pub const fn data_length(&self) -> u32 {
        self.data_length
    }

    /// Whether [`DIGEST_LENGTH`] bytes of digest follow the data.
    #[must_use]
    pub const fn has_data_digest(&self) -> bool {
        self.has_data_digest
    }
}

#[cfg(test)]
mod tests;

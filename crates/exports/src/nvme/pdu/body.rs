//! What each type of PDU says, behind the common header. Offsets count from the PDU's start.
//!
//! Each `read` takes the whole header of a PDU whose [`super::Layout`] has been read.

use evenkeel_format::bytes::{Put, Reader};

use super::header::{COMMON_LENGTH, Flags, Framing, Kind};
use super::{FatalStatus, Malformed};

/// Largest alignment of data: 31 stands for 128 bytes.
pub const MAX_ALIGNMENT: u8 = 31;
/// Most bytes of a wrong header that a [`Terminate`] quotes.
pub const MAX_QUOTED: usize = 128;

const VERSION: u32 = 8;
const ALIGNMENT: u32 = 10;
const MAX_HOST_DATA: u32 = 12;
/// Least that a controller may let a host send in one PDU, in bytes.
const LEAST_HOST_DATA: u32 = 4096;

const HEADER_DIGEST: u8 = 1 << 0;
const DATA_DIGEST: u8 = 1 << 1;

/// What follows the common header; an error that no caller sees: the layout fixes its length.
fn body(header: &[u8]) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::new(header);
    reader.take(COMMON_LENGTH).map_err(|_| SHORT)?;
    Ok(reader)
}

/// The header is shorter than its type's, so HLEN is wrong.
const SHORT: Malformed = Malformed::field(2);

/// ICReq: the first PDU of a connection, sent by the host (TCP 3.6.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InitializeRequest {
    /// HPDA: how data that the controller sends has to be aligned, see [`Framing::alignment`].
    pub alignment: u8,
    /// Whether headers shall have digests.
    pub header_digest: bool,
    /// Whether data shall have digests.
    pub data_digest: bool,
    /// MAXR2T: how many R2Ts of one command may be outstanding, less one.
    pub max_ready: u32,
}

impl InitializeRequest {
    /// Reads one.
    ///
    /// # Errors
    /// If the version of the format is not 0, or a field is invalid.
    pub fn read(header: &[u8]) -> Result<Self, Malformed> {
        let (alignment, digests, max_ready) = read_initialize(header)?;
        Ok(Self {
            alignment,
            header_digest: digests & HEADER_DIGEST != 0,
            data_digest: digests & DATA_DIGEST != 0,
            max_ready,
        })
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let digests = digests(self.header_digest, self.data_digest);
        put_initialize(Kind::InitializeRequest, self.alignment, digests, self.max_ready, out);
    }
}

/// ICResp: the controller's answer to an [`InitializeRequest`] (TCP 3.6.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitializeResponse {
    /// CPDA: how data that the host sends has to be aligned, see [`Framing::alignment`]. Linux
    /// refuses anything but 0.
    pub alignment: u8,
    /// Whether headers have digests.
    pub header_digest: bool,
    /// Whether data has digests.
    pub data_digest: bool,
    /// MAXH2CDATA: most bytes of data in one PDU of the host; a multiple of 4, at least 4,096.
    pub max_host_data: u32,
}

impl InitializeResponse {
    /// Reads one.
    ///
    /// # Errors
    /// If the version of the format is not 0, or a field is invalid.
    pub fn read(header: &[u8]) -> Result<Self, Malformed> {
        let (alignment, digests, max_host_data) = read_initialize(header)?;
        if max_host_data < LEAST_HOST_DATA || !max_host_data.is_multiple_of(4) {
            return Err(Malformed::field(MAX_HOST_DATA));
        }
        Ok(Self {
            alignment,
            header_digest: digests & HEADER_DIGEST != 0,
            data_digest: digests & DATA_DIGEST != 0,
            max_host_data,
        })
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let digests = digests(self.header_digest, self.data_digest);
        put_initialize(Kind::InitializeResponse, self.alignment, digests, self.max_host_data, out);
    }
}

const fn digests(header: bool, data: bool) -> u8 {
    (if header { HEADER_DIGEST } else { 0 }) | (if data { DATA_DIGEST } else { 0 })
}

/// Alignment, digests, and the number after them.
fn read_initialize(header: &[u8]) -> Result<(u8, u8, u32), Malformed> {
    let mut reader = body(header)?;
    if reader.u16().map_err(|_| SHORT)? != 0 {
        let status = FatalStatus::UnsupportedParameter;
        return Err(Malformed { status, information: VERSION });
    }
    let alignment = reader.u8().map_err(|_| SHORT)?;
    if alignment > MAX_ALIGNMENT {
        return Err(Malformed::field(ALIGNMENT));
    }
    let digests = reader.u8().map_err(|_| SHORT)?;
    Ok((alignment, digests, reader.u32().map_err(|_| SHORT)?))
}

fn put_initialize(kind: Kind, alignment: u8, digests: u8, number: u32, out: &mut Vec<u8>) {
    let mut body = Vec::with_capacity(120);
    body.put_u16(0);
    body.put_u8(alignment);
    body.put_u8(digests);
    body.put_u32(number);
    body.put_padded(&[], 112);
    Framing::default().put(kind, Flags::default(), &body, 0, out);
}

/// H2CTermReq and C2HTermReq: why the sender ends the connection (TCP 3.6.2.4, 3.6.2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminate {
    /// FES: a [`FatalStatus`], or a number that is unknown here.
    pub status: u16,
    /// FEI, see [`Malformed::information`].
    pub information: u32,
}

impl Terminate {
    /// Reads one. The header that it quotes follows as data.
    ///
    /// # Errors
    /// If the header is too short.
    pub fn read(header: &[u8]) -> Result<Self, Malformed> {
        let mut reader = body(header)?;
        let status = reader.u16().map_err(|_| SHORT)?;
        Ok(Self { status, information: reader.u32().map_err(|_| SHORT)? })
    }

    /// Appends it with the header that was wrong, of which [`MAX_QUOTED`] bytes are quoted.
    pub fn put(&self, kind: Kind, wrong: &[u8], out: &mut Vec<u8>) {
        let quoted = &wrong[..wrong.len().min(MAX_QUOTED)];
        let mut body = Vec::with_capacity(16);
        body.put_u16(self.status);
        body.put_u32(self.information);
        body.put_padded(&[], 10);
        Framing::default().put(kind, Flags::default(), &body, quoted.len() as u32, out);
        out.extend_from_slice(quoted);
    }
}

impl From<Malformed> for Terminate {
    fn from(malformed: Malformed) -> Self {
        Self { status: malformed.status as u16, information: malformed.information }
    }
}

/// Appends a CapsuleCmd up to where its data begins (TCP 3.6.2.6): a submission queue entry.
pub fn put_command(entry: &[u8; 64], data_length: u32, framing: &Framing, out: &mut Vec<u8>) {
    framing.put(Kind::Command, Flags::default(), entry, data_length, out);
}

/// Appends a CapsuleResp (TCP 3.6.2.7): a completion queue entry.
pub fn put_response(entry: &[u8; 16], framing: &Framing, out: &mut Vec<u8>) {
    framing.put(Kind::Response, Flags::default(), entry, 0, out);
}

/// H2CData and C2HData: a piece of a command's data (TCP 3.6.2.8, 3.6.2.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data {
    /// CCCID: the command's identifier.
    pub command: u16,
    /// TTAG: the tag of the [`Ready`] that it answers; 0 from a controller.
    pub tag: u16,
    /// DATAO: where in the command's data it begins, in bytes.
    pub offset: u32,
    /// DATAL: bytes.
    pub length: u32,
}

impl Data {
    /// CCCID's offset in the header.
    pub const COMMAND_FIELD: u32 = 8;
    /// TTAG's offset.
    pub const TAG_FIELD: u32 = 10;
    /// DATAO's offset.
    pub const OFFSET_FIELD: u32 = 12;
    /// DATAL's offset.
    pub const LENGTH_FIELD: u32 = 16;

    /// Reads one. `data_length` is the layout's.
    ///
    /// # Errors
    /// If its length is not that of the data that follows.
    pub fn read(header: &[u8], data_length: u32) -> Result<Self, Malformed> {
        let (command, tag, offset, length) = read_range(header)?;
        if length != data_length {
            return Err(Malformed::field(Self::LENGTH_FIELD));
        }
        Ok(Self { command, tag, offset, length })
    }

    /// Appends it up to where its data begins. At most 2³⁰ bytes follow.
    pub fn put(&self, kind: Kind, flags: Flags, framing: &Framing, out: &mut Vec<u8>) {
        let body = range(self.command, self.tag, self.offset, self.length);
        framing.put(kind, flags, &body, self.length, out);
    }
}

/// R2T: the controller is ready for this part of a command's data (TCP 3.6.2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// CCCID: the command's identifier.
    pub command: u16,
    /// TTAG: names the transfer; the host's data carries it.
    pub tag: u16,
    /// R2TO: the first byte of the part.
    pub offset: u32,
    /// R2TL: bytes.
    pub length: u32,
}

impl Ready {
    /// Reads one.
    ///
    /// # Errors
    /// If the header is too short.
    pub fn read(header: &[u8]) -> Result<Self, Malformed> {
        let (command, tag, offset, length) = read_range(header)?;
        Ok(Self { command, tag, offset, length })
    }

    /// Appends it.
    pub fn put(&self, framing: &Framing, out: &mut Vec<u8>) {
        let body = range(self.command, self.tag, self.offset, self.length);
        framing.put(Kind::Ready, Flags::default(), &body, 0, out);
    }
}

fn read_range(header: &[u8]) -> Result<(u16, u16, u32, u32), Malformed> {
    let mut reader = body(header)?;
    let command = reader.u16().map_err(|_| SHORT)?;
    let tag = reader.u16().map_err(|_| SHORT)?;
    let offset = reader.u32().map_err(|_| SHORT)?;
    Ok((command, tag, offset, reader.u32().map_err(|_| SHORT)?))
}

fn range(command: u16, tag: u16, offset: u32, length: u32) -> [u8; 16] {
    let mut body = [0; 16];
    body[..2].copy_from_slice(&command.to_le_bytes());
    body[2..4].copy_from_slice(&tag.to_le_bytes());
    body[4..8].copy_from_slice(&offset.to_le_bytes());
    body[8..12].copy_from_slice(&length.to_le_bytes());
    body
}

#[cfg(test)]
mod tests;

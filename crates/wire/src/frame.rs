//! Frames: header, body, payload.
//!
//! A receiver reads 64 bytes, calls [`decode_header`], reads `body_length` bytes, calls
//! [`decode`], and then reads `payload_length` bytes to where they belong and compares their
//! [`crate::payload_crc`] with `payload_crc`. Each step checks what the next one relies on.

use evenkeel_core::Message;
use evenkeel_core::message::CopyContent;
use evenkeel_core::settings::MAX_PAYLOAD;
use evenkeel_format::MAX_VIEW_LENGTH;
use evenkeel_format::bytes::{Put, Reader, Short, crc32c};

use crate::error::FrameError;
use crate::message::{Fields, fields_of, put_body, read_message};

/// Bytes of a header.
pub const HEADER_LENGTH: usize = 64;

/// Most bytes that a body has: those of the largest view.
pub const MAX_BODY_LENGTH: u32 = MAX_VIEW_LENGTH as u32;

const MAGIC: u32 = u32::from_le_bytes(*b"EKfr");
const VERSION: u16 = 1;
const CRC_OFFSET: usize = HEADER_LENGTH - 4;

impl From<Short> for FrameError {
    fn from(_: Short) -> Self {
        Self::Length(0)
    }
}

impl FrameError {
    /// Names the message type where the reader of numbers did not know it.
    const fn of(self, kind: u16) -> Self {
        match self {
            Self::Length(0) => Self::Length(kind),
            error => error,
        }
    }
}

/// What the frame says of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadSummary {
    /// Bytes; 1 to [`MAX_PAYLOAD`].
    pub length: u32,
    /// Their [`crate::payload_crc`].
    pub crc: u32,
}

/// A header whose checksum matches and whose lengths are within the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes that follow the header, at most [`MAX_BODY_LENGTH`].
    pub body_length: u32,
    /// Bytes that follow the body, at most [`MAX_PAYLOAD`]; 0 if there is no payload.
    pub payload_length: u32,
    /// What [`crate::payload_crc`] of the payload must be.
    pub payload_crc: u32,
    body_crc: u32,
    fields: Fields,
}

/// Whether a message travels with a payload.
#[must_use]
pub const fn carries_payload(message: &Message) -> bool {
    matches!(
        message,
        Message::Write { .. }
            | Message::Data { .. }
            | Message::Copied { content: CopyContent::Data | CopyContent::Unverified { .. }, .. }
    )
}

/// Appends header and body to `out`; the payload is sent right after them by the caller, who also
/// knows its checksum.
///
/// # Errors
/// [`FrameError::Payload`] if the payload does not fit the message, [`FrameError::View`] if a view
/// is not valid, [`FrameError::Length`] if a list is too long; then `out` is as it was.
pub fn encode(
    message: &Message,
    payload: Option<PayloadSummary>,
    out: &mut Vec<u8>,
) -> Result<(), FrameError> {
    if carries_payload(message) != payload.is_some() {
        return Err(FrameError::Payload);
    }
    let start = out.len();
    out.resize(start + HEADER_LENGTH, 0);
    let encoded = put_body(message, out).and_then(|()| {
        let body = &out[start + HEADER_LENGTH..];
        Header::of(message, payload, body)?.bytes()
    });
    match encoded {
        Ok(header) => out[start..start + HEADER_LENGTH].copy_from_slice(&header),
        Err(_) => out.truncate(start),
    }
    encoded.map(|_| ())
}

/// Reads a header. Its checksum and its lengths are checked, its meaning is not.
///
/// # Errors
/// See [`FrameError`].
pub fn decode_header(bytes: &[u8; HEADER_LENGTH]) -> Result<Header, FrameError> {
    let mut reader = Reader::new(bytes);
    if reader.u32()? != MAGIC {
        return Err(FrameError::Magic);
    }
    let (version, kind) = (reader.u16()?, reader.u16()?);
    let header = Header {
        payload_length: reader.u32()?,
        payload_crc: reader.u32()?,
        body_length: reader.u32()?,
        body_crc: reader.u32()?,
        fields: Fields {
            kind,
            generation: reader.u64()?,
            number: reader.u64()?,
            offset: reader.u64()?,
            length: reader.u32()?,
            flags: reader.u16()?,
            code: reader.u16()?,
        },
    };
    if reader.u32()? != 0 {
        // Reserved; told apart below, once the checksum is known to match.
        verify_header(bytes)?;
        return Err(FrameError::Field(kind));
    }
    verify_header(bytes)?;
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    header.check_lengths()?;
    Ok(header)
}

fn verify_header(bytes: &[u8; HEADER_LENGTH]) -> Result<(), FrameError> {
    let (covered, stored) = bytes.split_at(CRC_OFFSET);
    if crc32c(covered).to_le_bytes() == *stored { Ok(()) } else { Err(FrameError::HeaderChecksum) }
}

/// Reads the message that `header` and the body after it stand for.
///
/// # Errors
/// See [`FrameError`].
pub fn decode(header: &Header, body: &[u8]) -> Result<Message, FrameError> {
    let kind = header.fields.kind;
    if body.len() != header.body_length as usize {
        return Err(FrameError::Length(kind));
    }
    if !body.is_empty() && crc32c(body) != header.body_crc {
        return Err(FrameError::BodyChecksum);
    }
    let message = read_message(&header.fields, body).map_err(|error| error.of(kind))?;
    // Fields that the message does not use must be zero: one meaning, one encoding.
    if fields_of(&message) != header.fields {
        return Err(FrameError::Field(kind));
    }
    let has_payload = header.payload_length > 0;
    let fits = match &message {
        Message::Write { length, .. } => *length == header.payload_length,
        _ => true,
    };
    if !fits || carries_payload(&message) != has_payload {
        return Err(FrameError::Length(kind));
    }
    Ok(message)
}

impl Header {
    fn of(
        message: &Message,
        payload: Option<PayloadSummary>,
        body: &[u8],
    ) -> Result<Self, FrameError> {
        if let (Message::Write { length, .. }, Some(payload)) = (message, payload)
            && *length != payload.length
        {
            return Err(FrameError::Payload);
        }
        if payload.is_some_and(|payload| payload.length == 0 || payload.length > MAX_PAYLOAD) {
            return Err(FrameError::Payload);
        }
        Ok(Self {
            body_length: body.len() as u32,
            payload_length: payload.map_or(0, |payload| payload.length),
            payload_crc: payload.map_or(0, |payload| payload.crc),
            body_crc: if body.is_empty() { 0 } else { crc32c(body) },
            fields: fields_of(message),
        })
    }

    /// Without a payload or body, its checksum is zero.
    fn check_lengths(&self) -> Result<(), FrameError> {
        let fits = self.payload_length <= MAX_PAYLOAD
            && self.body_length <= MAX_BODY_LENGTH
            && (self.payload_length > 0 || self.payload_crc == 0)
            && (self.body_length > 0 || self.body_crc == 0);
        if fits { Ok(()) } else { Err(FrameError::Length(self.fields.kind)) }
    }

    fn bytes(&self) -> Result<[u8; HEADER_LENGTH], FrameError> {
        self.check_lengths()?;
        let fields = &self.fields;
        let mut bytes = [0; HEADER_LENGTH];
        let mut out = Cursor { bytes: &mut bytes, at: 0 };
        out.put_u32(MAGIC);
        out.put_u16(VERSION);
        out.put_u16(fields.kind);
        out.put_u32(self.payload_length);
        out.put_u32(self.payload_crc);
        out.put_u32(self.body_length);
        out.put_u32(self.body_crc);
        out.put_u64(fields.generation);
        out.put_u64(fields.number);
        out.put_u64(fields.offset);
        out.put_u32(fields.length);
        out.put_u16(fields.flags);
        out.put_u16(fields.code);
        let crc = crc32c(&bytes[..CRC_OFFSET]).to_le_bytes();
        bytes[CRC_OFFSET..].copy_from_slice(&crc);
        Ok(bytes)
    }
}

/// Puts numbers one after the other into an array that is large enough.
struct Cursor<'a> {
    bytes: &'a mut [u8; HEADER_LENGTH],
    at: usize,
}

impl Put for Cursor<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

#[cfg(test)]
mod tests;

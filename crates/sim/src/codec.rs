//! The way of a message through the shipped encoders: to bytes when it is sent, back to a message
//! when it arrives.

use evenkeel_core::{Message, Payload};
use evenkeel_wire::{HEADER_LENGTH, PayloadSummary, decode, decode_header, encode, payload_crc};

use crate::payload::Sectors;
use crate::queue::Time;

/// A message on its way.
#[derive(Debug)]
pub struct Frame {
    /// When it arrives, if nothing stands in its way.
    pub arrives: Time,
    bytes: Vec<u8>,
}

impl Frame {
    /// Encodes a message.
    ///
    /// # Errors
    /// If the wire format does not take it.
    pub fn encode(
        message: &Message,
        payload: Option<&Sectors>,
        arrives: Time,
    ) -> Result<Self, String> {
        let mut data = Vec::new();
        let summary = payload.map(|payload| {
            data.reserve(payload.length() as usize);
            payload.write_bytes(&mut data);
            PayloadSummary { length: payload.length(), crc: payload_crc(&data) }
        });
        let mut bytes = Vec::with_capacity(HEADER_LENGTH + data.len());
        encode(message, summary, &mut bytes)
            .map_err(|error| format!("can't be sent: {error}: {message:?}"))?;
        bytes.extend_from_slice(&data);
        Ok(Self { arrives, bytes })
    }

    /// Decodes it.
    ///
    /// # Errors
    /// If the bytes are not a message with the payload that its header names.
    pub fn decode(&self) -> Result<(Message, Option<Sectors>), String> {
        let (header, rest) =
            self.bytes.split_first_chunk::<HEADER_LENGTH>().ok_or("shorter than a header")?;
        let header = decode_header(header).map_err(|error| error.to_string())?;
        let (body, data) =
            rest.split_at_checked(header.body_length as usize).ok_or("shorter than its body")?;
        let message = decode(&header, body).map_err(|error| error.to_string())?;
        if data.len() != header.payload_length as usize {
            return Err("its payload has another length".into());
        }
        if data.is_empty() {
            return Ok((message, None));
        }
        if payload_crc(data) != header.payload_crc {
            return Err("its payload's checksum does not match".into());
        }
        let sectors = Sectors::from_bytes(data).ok_or("its payload is cut inside a sector")?;
        Ok((message, Some(sectors)))
    }
}

#[cfg(test)]
mod tests;

//! The way of a message through the shipped encoders.

use evenkeel_core::Message;

use crate::payload::Sectors;

/// A message on its way.
#[derive(Debug)]
pub struct Frame {
    /// When it arrives, if nothing stands in its way.
    pub arrives: u64,
    message: Message,
    payload: Option<Sectors>,
}

impl Frame {
    /// Encodes a message.
    ///
    /// # Errors
    /// If the wire format does not take it.
    pub fn encode(
        message: &Message,
        payload: Option<Sectors>,
        arrives: u64,
    ) -> Result<Self, String> {
        Ok(Self { arrives, message: message.clone(), payload })
    }

    /// Decodes it.
    ///
    /// # Errors
    /// If it is not what was encoded.
    pub fn decode(self) -> Result<(Message, Option<Sectors>), String> {
        Ok((self.message, self.payload))
    }
}

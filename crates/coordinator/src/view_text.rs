//! Views as text.

use evenkeel_core::View;
use evenkeel_format::{decode_view, encode_view};
use serde::{Deserialize, Serialize};

use crate::CallError;

/// A view in the form of the `format` crate, as hexadecimal text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ViewText(String);

impl ViewText {
    /// Encodes a view.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn encode(view: &View) -> Result<Self, CallError> {
        let bytes = encode_view(view).map_err(|e| CallError::Refused(e.to_string()))?;
        Ok(Self(to_hex(&bytes)))
    }

    /// Decodes it.
    ///
    /// # Errors
    /// If it is not a view that this software reads.
    pub fn decode(&self) -> Result<View, CallError> {
        let bytes =
            from_hex(&self.0).ok_or_else(|| CallError::Refused("not hexadecimal".into()))?;
        decode_view(&bytes).map_err(|e| CallError::Refused(e.to_string()))
    }
}

/// Bytes as hexadecimal text.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|b| [b >> 4, b & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Hexadecimal text as bytes.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: &u8| char::from(*b).to_digit(16);
    let pair = |p: &[u8]| Some((digit(p.first()?)? << 4 | digit(p.get(1)?)?) as u8);
    text.as_bytes().chunks(2).map(pair).collect()
}

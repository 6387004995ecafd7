//! Little-endian numbers in and out of byte slices, and CRC-32C.

use thiserror::Error;

/// The bytes end before the structure does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it ends too early")]
pub struct Short;

/// CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The checksum of a 32-bit algorithm is always in the lower half.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC-32C of several runs of bytes, as if they were one.
#[must_use]
pub fn crc32c_of_parts(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

/// Takes numbers from the front of a slice; never past its end.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not yet taken.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// [`Short`] if there are fewer.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Short> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`Short`] if there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next byte.
    ///
    /// # Errors
    /// [`Short`] if there is none.
    pub fn u8(&mut self) -> Result<u8, Short> {
        self.array().map(u8::from_le_bytes)
    }

    /// The next two bytes.
    ///
    /// # Errors
    /// [`Short`] if there are fewer.
    pub fn u16(&mut self) -> Result<u16, Short> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes.
    ///
    /// # Errors
    /// [`Short`] if there are fewer.
    pub fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes.
    ///
    /// # Errors
    /// [`Short`] if there are fewer.
    pub fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next sixteen bytes.
    ///
    /// # Errors
    /// [`Short`] if there are fewer.
    pub fn u128(&mut self) -> Result<u128, Short> {
        self.array().map(u128::from_le_bytes)
    }
}

/// Appends little-endian numbers.
pub trait Put {
    /// Appends bytes as they are.
    fn put(&mut self, bytes: &[u8]);

    /// Appends one byte.
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Appends two bytes.
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    /// Appends four bytes.
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends eight bytes.
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends sixteen bytes.
    fn put_u128(&mut self, value: u128) {
        self.put(&value.to_le_bytes());
    }

    /// Appends `text` and zeroes up to `length` bytes in all. Text that is longer is cut.
    fn put_padded(&mut self, text: &[u8], length: usize) {
        let kept = text.len().min(length);
        self.put(&text[..kept]);
        for _ in kept..length {
            self.put_u8(0);
        }
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Text from a field that is padded with zeroes; `None` if it is not UTF-8 or has bytes after a
/// zero.
#[must_use]
pub fn padded_text(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let padding_is_zero = field[end..].iter().all(|byte| *byte == 0);
    padding_is_zero.then(|| core::str::from_utf8(&field[..end]).ok()).flatten()
}

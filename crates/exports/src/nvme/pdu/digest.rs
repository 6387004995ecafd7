//! Digests: CRC-32C (TCP 3.3.1.1).

use crc_fast::{CrcAlgorithm, Digest};

/// The digest of data that arrives or leaves in pieces.
#[derive(Debug, Clone)]
pub struct DataDigest(Digest);

impl Default for DataDigest {
    fn default() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }
}

impl DataDigest {
    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces, as it is sent.
    #[must_use]
    pub fn finish(&self) -> [u8; 4] {
        // The checksum of a 32-bit algorithm is always in the lower half.
        (self.0.finalize() as u32).to_le_bytes()
    }

    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> [u8; 4] {
        (crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32).to_le_bytes()
    }
}

#[cfg(test)]
mod tests;

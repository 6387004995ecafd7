//! Secrets as people and commands have them (Base 8.3.5.5.7): `DHHC-1:01:…:`.

use std::fmt;

use base64ct::{Base64, Encoding as _};
use crc_fast::{CrcAlgorithm, checksum};
use thiserror::Error;
use zeroize::Zeroizing;

use super::Hash;

const FORM: &str = "DHHC-1:";
const CRC_LENGTH: usize = 4;
/// Bytes of a secret that is made here.
pub const SECRET_LENGTH: usize = 32;

/// A key of a host or of a controller. It is not shown in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// By which a name is mixed into the key; `None`: the key is used as it is.
    transform: Option<Hash>,
    key: Zeroizing<Vec<u8>>,
}

/// What is wrong with a text that should be a secret. The text is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SecretError {
    /// It does not have the form.
    #[error("it is not as in \"DHHC-1:01:…:\"")]
    Form,
    /// The hash function's number is unknown.
    #[error("the number behind \"DHHC-1:\" is none of 00, 01, 02 and 03")]
    Transform,
    /// It is no base64.
    #[error("its last part is not base64")]
    Digits,
    /// Its length is wrong.
    #[error("its key does not have 32, 48 or 64 bytes, as the number behind \"DHHC-1:\" says")]
    Length,
    /// Its checksum is wrong.
    #[error("its checksum is wrong: a part is missing or mistyped")]
    Checksum,
}

impl Secret {
    /// Whether it has the same key, whatever is mixed into that.
    #[must_use]
    pub fn has_key_of(&self, other: &Self) -> bool {
        self.key == other.key
    }

    /// One of random bytes, which a host and a volume's controllers share.
    #[must_use]
    pub fn new(random: &[u8; SECRET_LENGTH]) -> Self {
        Self { transform: Some(Hash::Sha256), key: Zeroizing::new(random.to_vec()) }
    }

    /// Reads one. White space around it does not count.
    ///
    /// # Errors
    /// [`SecretError`], if it is none.
    pub fn read(text: &str) -> Result<Self, SecretError> {
        let parts = text.trim().strip_prefix(FORM).and_then(|rest| rest.strip_suffix(':'));
        let (transform, digits) =
            parts.and_then(|rest| rest.split_once(':')).ok_or(SecretError::Form)?;
        let transform = match transform {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            _ => return Err(SecretError::Transform),
        };
        let mut key = Zeroizing::new(Base64::decode_vec(digits).map_err(|_| SecretError::Digits)?);
        let length = key.len().checked_sub(CRC_LENGTH).ok_or(SecretError::Length)?;
        // A transformed key has the length of the function's result, which Linux relied on.
        let fits = transform.map_or(matches!(length, 32 | 48 | 64), |hash| hash.length() == length);
        if !fits {
            return Err(SecretError::Length);
        }
        if key[length..] != crc(&key[..length]) {
            return Err(SecretError::Checksum);
        }
        key.truncate(length);
        Ok(Self { transform, key })
    }

    /// As text.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        let transform = self.transform.map_or(0, Hash::number);
        let mut bytes = self.key.clone();
        bytes.extend_from_slice(&crc(&self.key));
        let digits = Zeroizing::new(Base64::encode_string(&bytes));
        Zeroizing::new(format!("{FORM}{transform:02}:{}:", *digits))
    }

    /// The key with which the owner of this name computes.
    pub(super) fn key_of(&self, name: &str) -> Zeroizing<Vec<u8>> {
        match self.transform {
            None => self.key.clone(),
            Some(hash) => hash.mac(&self.key, &[name.as_bytes(), b"NVMe-over-Fabrics"]),
        }
    }
}

fn crc(key: &[u8]) -> [u8; CRC_LENGTH] {
    (checksum(CrcAlgorithm::Crc32IsoHdlc, key) as u32).to_le_bytes()
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

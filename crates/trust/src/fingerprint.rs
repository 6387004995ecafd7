//! An authority in 16 bytes: the beginning of the SHA-256 of its public key, as
//! `openssl x509 -pubkey | openssl pkey -pubin -outform der | sha256sum` shows it. Finding another
//! key with the same 16 bytes takes 2^128 tries.

use std::fmt;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};

/// Bytes of a fingerprint.
pub const LENGTH: usize = 16;

/// The fingerprint of an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; LENGTH]);

impl Fingerprint {
    /// That of the authority whose certificate this is; `None`: it is no certificate. Says nothing
    /// of who has signed it.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let mut store = RootCertStore::empty();
        store.add(certificate.clone().into_owned()).ok()?;
        let content = &store.roots.first()?.subject_public_key_info;
        let digest = Sha256::new()
            .chain_update(sequence_header(content.len())?)
            .chain_update(content)
            .finalize();
        digest.first_chunk().copied().map(Self)
    }
}

/// The head of a SEQUENCE in DER, which the TLS library leaves out. `None`: longer than keys are.
fn sequence_header(length: usize) -> Option<Vec<u8>> {
    let short = u8::try_from(length).ok();
    match (short, u16::try_from(length)) {
        (Some(length @ 0..=0x7f), _) => Some(vec![0x30, length]),
        (Some(length), _) => Some(vec![0x30, 0x81, length]),
        (None, Ok(length)) => Some([&[0x30, 0x82][..], &length.to_be_bytes()].concat()),
        (None, Err(_)) => None,
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests;

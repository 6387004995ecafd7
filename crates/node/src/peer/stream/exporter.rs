//! The value that only the two ends of a connection can derive (RFC 8446, 7.5).
//!
//! The TLS library derives it for connections that do their own I/O only; for others it gives the
//! secret to who keeps a log of keys.

use std::fmt;
use std::sync::OnceLock;

use rustls::crypto::tls13::OkmBlock;
use rustls::{CommonState, KeyLog, Tls13CipherSuite};

/// What the library calls the secret in a log of keys.
const SECRET: &str = "EXPORTER_SECRET";

/// The secret of one connection, once its handshake is over.
#[derive(Default)]
pub(super) struct Exporter(OnceLock<OkmBlock>);

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}

impl KeyLog for Exporter {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if label == SECRET {
            // There is one in a handshake.
            let _ = self.0.set(OkmBlock::new(secret));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == SECRET
    }
}

impl Exporter {
    /// The value with this label and no context; `None` without TLS 1.3, or before the handshake is
    /// over.
    pub(super) fn export(&self, agreed: &CommonState, label: &[u8]) -> Option<[u8; 32]> {
        let suite = agreed.negotiated_cipher_suite()?.tls13()?;
        let nothing = suite.common.hash_provider.hash(&[]);
        let mut derived = vec![0; suite.common.hash_provider.output_len()];
        expand_label(suite, self.0.get()?, label, nothing.as_ref(), &mut derived)?;
        let mut value = [0; 32];
        let derived = OkmBlock::new(&derived);
        expand_label(suite, &derived, b"exporter", nothing.as_ref(), &mut value)?;
        Some(value)
    }
}

/// HKDF-Expand-Label (RFC 8446, 7.1).
fn expand_label(
    suite: &Tls13CipherSuite,
    secret: &OkmBlock,
    label: &[u8],
    context: &[u8],
    out: &mut [u8],
) -> Option<()> {
    const PREFIX: &[u8] = b"tls13 ";
    let length = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_length = [u8::try_from(PREFIX.len() + label.len()).ok()?];
    let context_length = [u8::try_from(context.len()).ok()?];
    let info = [&length[..], &label_length, PREFIX, label, &context_length, context];
    suite.hkdf_provider.expander_for_okm(secret).expand_slice(&info, out).ok()
}

//! The key that all nodes of a cluster share, and proofs of it.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use evenkeel_wire::hello::{PROOF_LENGTH, Proof};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The fewest bytes that a key may have.
const SHORTEST: usize = 16;
/// The most: a longer file was hardly meant.
const MAX_KEY_LENGTH: usize = 4096;

/// The key. Not shown in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey(Vec<u8>);

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey")
    }
}

impl SharedKey {
    /// Reads a key file. White space around the key does not count.
    ///
    /// # Errors
    /// If it cannot be read, others than its owner and group may read it, or it is too short.
    pub fn load(path: &Path) -> Result<Self, String> {
        let failed = |why: String| format!("the key file {}: {why}", path.display());
        let metadata = fs::metadata(path).map_err(|e| failed(e.to_string()))?;
        if metadata.permissions().mode() & 0o007 != 0 {
            return Err(failed("others may read it; run `chmod o-rwx` on it".into()));
        }
        if metadata.len() > MAX_KEY_LENGTH as u64 {
            return Err(failed(format!(
                "it has more than {MAX_KEY_LENGTH} bytes; is it the right file?"
            )));
        }
        let content = fs::read(path).map_err(|e| failed(e.to_string()))?;
        let key = content.trim_ascii();
        match key.len() >= SHORTEST {
            true => Ok(Self(key.to_vec())),
            false => Err(failed(format!(
                "a key has at least {SHORTEST} bytes; make one by `head -c 32 /dev/urandom | base64`"
            ))),
        }
    }

    fn mac(&self, input: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(input);
        mac
    }

    /// The proof of this key over what was said.
    #[must_use]
    pub fn prove(&self, input: &[u8]) -> Proof {
        let mut proof = [0; PROOF_LENGTH];
        proof.copy_from_slice(&self.mac(input).finalize().into_bytes());
        Proof(proof)
    }

    /// Whether a proof is right; takes the same time whatever is wrong with it.
    #[must_use]
    pub fn verify(&self, input: &[u8], proof: &Proof) -> bool {
        self.mac(input).verify_slice(&proof.0).is_ok()
    }
}

#[cfg(test)]
mod tests;

//! Authentication Send and Authentication Receive (Base 6.1, 6.2).

use super::{Entry, Fabrics, Status};

/// SECP of NVMe's own protocols, with the one that authenticates.
const PROTOCOL: u8 = 0xe9;

/// A command that carries a message of authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// The host sends one, with so many bytes (TL).
    Send(u32),
    /// The host receives one, of so many bytes at most (AL).
    Receive(u32),
}

impl Security {
    /// Reads an entry of a host that has to authenticate.
    ///
    /// # Errors
    /// What to answer if it is another command, of another protocol, or has no length.
    pub fn read(entry: &Entry) -> Result<Self, Status> {
        let kind = entry.namespace as u8;
        if entry.opcode != Fabrics::OPCODE || !matches!(kind, 0x05 | 0x06) {
            return Err(Status::AuthenticationRequired);
        }
        let [_, first, second, protocol] = entry.words[0].to_le_bytes();
        let length = entry.words[1];
        if (protocol, first, second) != (PROTOCOL, 1, 1) || length == 0 {
            return Err(Status::InvalidField);
        }
        Ok(if kind == 0x05 { Self::Send(length) } else { Self::Receive(length) })
    }
}

//! A connection to another node, after its hello.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::tls::{MAX_UNREAD, Tls};

/// A stream socket in blocking mode, and how what goes over it is encrypted.
pub struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) tls: Option<Handover>,
}

/// The keys of a connection, and ciphertext that was received and not decrypted.
pub(crate) struct Handover {
    pub(crate) tls: Box<Tls>,
    pub(crate) received: Vec<u8>,
}

impl Connection {
    /// One that TLS protects, whose handshake is over. `received` is ciphertext that came and has
    /// not been decrypted, at most [`MAX_UNREAD`] bytes.
    ///
    /// # Panics
    /// If there is more.
    #[must_use]
    pub fn encrypted(socket: OwnedFd, tls: Tls, received: Vec<u8>) -> Self {
        assert!(received.len() <= MAX_UNREAD, "no more is received before it is decrypted");
        Self { socket, tls: Some(Handover { tls: Box::new(tls), received }) }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// One whose bytes are as they are meant.
impl From<OwnedFd> for Connection {
    fn from(socket: OwnedFd) -> Self {
        Self { socket, tls: None }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.tls.is_some() { "TLS" } else { "plain" };
        write!(f, "Connection({how})")
    }
}

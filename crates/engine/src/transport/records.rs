//! Between a socket and its inbox: ciphertext is received, and what the inbox wants to receive is
//! filled with plaintext.

use std::ops::Range;

use super::connection::Handover;
use super::tls::{MAX_UNREAD, Tls};
use crate::memory::{BufferMut, Pool};

/// See the module's documentation.
pub(crate) struct Records {
    tls: Box<Tls>,
    /// Ciphertext. `None` while it is lent to the kernel.
    cipher: Option<BufferMut>,
    /// The bytes in it that have not been decrypted.
    pending: Range<usize>,
    /// What the inbox wants to be filled.
    wanted: Option<(BufferMut, Range<usize>)>,
}

/// What is to be done next.
pub(crate) enum Advance {
    /// The inbox gets its memory back, with so many bytes.
    Filled(BufferMut, usize),
    /// Receive into this range of the memory, then call [`Records::received`].
    Receive(BufferMut, Range<usize>),
    /// The inbox wants nothing, or a receive is under way.
    Idle,
}

impl Records {
    pub(crate) fn new(handover: Handover, pool: &Pool) -> Self {
        let Handover { tls, received } = handover;
        let mut cipher = pool.take(MAX_UNREAD);
        cipher[..received.len()].copy_from_slice(&received);
        Self { tls, cipher: Some(cipher), pending: 0..received.len(), wanted: None }
    }

    pub(crate) fn tls(&mut self) -> &mut Tls {
        &mut self.tls
    }

    /// Takes note of what the inbox wants.
    pub(crate) fn want(&mut self, memory: BufferMut, range: Range<usize>) {
        debug_assert!(self.wanted.is_none(), "one receive at a time is under way");
        self.wanted = Some((memory, range));
    }

    /// Takes back the memory of a receive, with the bytes that came.
    pub(crate) fn received(&mut self, memory: BufferMut, count: usize) {
        self.cipher = Some(memory);
        self.pending.end += count;
    }

    /// Fills what is wanted, or says what is to be received for that.
    pub(crate) fn advance(&mut self) -> Result<Advance, String> {
        let Some(mut cipher) = self.cipher.take() else { return Ok(Advance::Idle) };
        let Some((mut memory, range)) = self.wanted.take() else {
            self.cipher = Some(cipher);
            return Ok(Advance::Idle);
        };
        let received = self
            .tls
            .receive(&mut cipher[self.pending.clone()], &mut memory[range.clone()])
            .map_err(|error| format!("TLS: {error}"))?;
        self.pending.start += received.taken;
        if received.filled > 0 {
            self.cipher = Some(cipher);
            return Ok(Advance::Filled(memory, received.filled));
        }
        if self.tls.is_closed() {
            return Err("the other side has closed it".to_owned());
        }
        self.wanted = Some((memory, range));
        self.receive(cipher)
    }

    fn receive(&mut self, mut cipher: BufferMut) -> Result<Advance, String> {
        if self.pending.start > 0 {
            cipher.copy_within(self.pending.clone(), 0);
            self.pending = 0..self.pending.len();
        }
        if self.pending.end == cipher.len() {
            return Err(format!("TLS: a message is longer than {MAX_UNREAD} bytes"));
        }
        let range = self.pending.end..cipher.len();
        Ok(Advance::Receive(cipher, range))
    }
}

#[cfg(test)]
mod tests;

//! Parts that are sent or written in one system call, as the kernel wants them named.

use crate::memory::Part;

/// Parts that are sent or written at once.
#[derive(Default)]
pub(crate) struct Batch {
    parts: Vec<Part>,
    iovecs: Vec<libc::iovec>,
    header: Option<Box<libc::msghdr>>,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} parts)", self.parts.len())
    }
}

impl Batch {
    pub(crate) fn of(parts: Vec<Part>) -> Self {
        Self { parts, ..Self::default() }
    }

    pub(crate) fn push(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// How many parts it has.
    pub(crate) const fn len(&self) -> usize {
        self.parts.len()
    }

    /// Takes out all parts.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Part> {
        self.parts.drain(..)
    }

    /// Points the vectors at the parts, without the first `skip` bytes of them.
    pub(crate) fn prepare(&mut self, mut skip: usize) {
        self.iovecs.clear();
        for part in &self.parts {
            let skipped = skip.min(part.len());
            skip -= skipped;
            if skipped < part.len() {
                let base = part[skipped..].as_ptr().cast_mut().cast();
                self.iovecs.push(libc::iovec { iov_base: base, iov_len: part.len() - skipped });
            }
        }
    }

    /// The vectors, as prepared: where they are, and how many.
    pub(crate) fn vectors(&self) -> (*const libc::iovec, u32) {
        (self.iovecs.as_ptr(), self.iovecs.len() as u32)
    }

    /// The message header over the vectors; stays where it is until the next call.
    pub(crate) fn message(&mut self) -> *const libc::msghdr {
        // SAFETY: a message header of zeroes is valid: no name, no vectors, no control data.
        let header = self.header.get_or_insert_with(|| Box::new(unsafe { std::mem::zeroed() }));
        header.msg_iov = self.iovecs.as_mut_ptr();
        header.msg_iovlen = self.iovecs.len();
        &raw const **header
    }
}

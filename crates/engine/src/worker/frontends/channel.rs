//! One descriptor of a front end, and what is on its way over it.

use std::io;

use rustix::net::Shutdown;

use crate::frontend::FrontendEvent;
use crate::memory::Buffer;
use crate::ring::{Batch, Descriptor, Owner, Ring, SharedFile, is_transient};
use crate::transport::{Outbox, Sent, prepare_socket};

/// See the module's documentation.
pub(super) struct Channel {
    file: SharedFile,
    kind: Kind,
    outbox: Outbox,
    /// Whether something has been queued since the last flush.
    queued: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Socket,
    /// A file or device.
    File,
}

impl Channel {
    pub fn new(file: SharedFile) -> Self {
        let kind = if prepare_socket(&file) { Kind::Socket } else { Kind::File };
        Self { file, kind, outbox: Outbox::default(), queued: false }
    }

    #[inline]
    pub const fn file(&self) -> &SharedFile {
        &self.file
    }

    /// Queues bytes. Returns whether they are the first since the last flush.
    pub fn queue_bytes(&mut self, bytes: &[u8]) -> bool {
        self.outbox.bytes(|queued| queued.extend_from_slice(bytes));
        !std::mem::replace(&mut self.queued, true)
    }

    /// Queues data. Returns whether they are the first since the last flush.
    pub fn queue_buffer(&mut self, buffer: Buffer) -> bool {
        self.outbox.buffer(buffer);
        !std::mem::replace(&mut self.queued, true)
    }

    /// Begins to send what was queued during the turn.
    pub fn flush(&mut self, ring: &mut Ring, owner: Owner) {
        self.queued = false;
        self.outbox.flush(ring, owner, &self.file);
    }

    /// A send has ended. Returns what the front end is told: nothing until all of it is sent.
    pub fn sent(
        &mut self,
        ring: &mut Ring,
        owner: Owner,
        descriptor: Descriptor,
        batch: Box<Batch>,
        result: io::Result<usize>,
    ) -> Option<FrontendEvent> {
        let count = match result {
            Ok(count) => count,
            Err(error) if is_transient(&error) => 0,
            Err(error) => {
                self.outbox = Outbox::default();
                return Some(FrontendEvent::Sent { descriptor, result: Err(error) });
            }
        };
        let Sent::All(bytes) = self.outbox.sent(ring, owner, &self.file, batch, count) else {
            return None;
        };
        self.outbox.flush(ring, owner, &self.file);
        Some(FrontendEvent::Sent { descriptor, result: Ok(bytes) })
    }

    pub fn has_sent_all(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Ends what is under way.
    pub fn close(self, ring: &mut Ring) {
        match self.kind {
            // What is under way ends by itself then; it may have ended already.
            Kind::Socket => {
                let _ = rustix::net::shutdown(&self.file, Shutdown::Both);
            }
            Kind::File => ring.cancel(&self.file),
        }
    }
}

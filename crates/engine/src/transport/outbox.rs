//! What waits to be sent on one stream socket.
//!
//! Everything that is queued during one turn of the worker's loop leaves in one system call; one
//! send at a time is under way. A socket that takes nothing delays nobody else.

use rustls::Error;

use super::tls::{KEY_UPDATES, MAX_PLAIN, RECORD_OVERHEAD, Tls};
use crate::memory::{Buffer, Part, Pool};
use crate::ring::{Batch, Owner, Ring, SharedFile};

/// Most parts in one system call (the kernel's limit is 1,024).
const MAX_PARTS: usize = 512;
/// Small bytes are joined up to this length.
const MAX_JOINED: usize = 64 << 10;
/// Most bytes in one system call, so that what has been sent is freed in time.
const MAX_BYTES: usize = 4 << 20;
/// Most records in one system call: their memory is 1 MiB.
const MAX_RECORDS: usize = 63;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Not yet given to the kernel.
    queued: std::collections::VecDeque<Part>,
    /// Bytes of the first of them that have been encrypted.
    sealed: usize,
    /// Bytes in `queued` that are not data.
    small: usize,
    /// Bytes of the batch that is under way, and how many of them have been sent.
    under_way: Option<(usize, usize)>,
    /// Kept for its memory.
    spare: Option<Box<Batch>>,
    spare_bytes: Vec<Vec<u8>>,
    /// The plaintext of one record, if it is in several parts. Kept for its memory.
    gathered: Vec<u8>,
}

/// What a completed send means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The rest of the batch is being sent.
    Partly,
    /// So many bytes have been sent, and nothing is under way.
    All(usize),
}

impl Outbox {
    /// Where header bytes are to be appended.
    pub(crate) fn bytes(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let joins = matches!(self.queued.back(), Some(Part::Bytes(b)) if b.len() < MAX_JOINED);
        if !joins {
            self.queued.push_back(Part::Bytes(self.spare_bytes.pop().unwrap_or_default()));
        }
        if let Some(Part::Bytes(bytes)) = self.queued.back_mut() {
            let before = bytes.len();
            write(bytes);
            self.small += bytes.len() - before;
        }
    }

    /// Queues data.
    pub(crate) fn buffer(&mut self, buffer: Buffer) {
        if !buffer.is_empty() {
            self.queued.push_back(Part::Buffer(buffer));
        }
    }

    /// Bytes queued that are not data, of which nothing else bounds the amount.
    pub(crate) fn small(&self) -> usize {
        self.small
    }

    /// Whether nothing is queued or under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.under_way.is_none()
    }

    /// Begins to send what is queued, unless a send is under way.
    pub(crate) fn flush(&mut self, ring: &mut Ring, owner: Owner, file: &SharedFile) {
        if self.under_way.is_some() || self.queued.is_empty() {
            return;
        }
        let mut batch = self.spare.take().unwrap_or_default();
        let mut length = 0;
        while batch.len() < MAX_PARTS && length < MAX_BYTES {
            let Some(part) = self.queued.pop_front() else { break };
            if let Part::Bytes(bytes) = &part {
                self.small -= bytes.len();
            }
            length += part.len();
            batch.push(part);
        }
        self.under_way = Some((length, 0));
        ring.send(owner, file, batch, 0);
    }

    /// The same through TLS: encrypts what is queued, as far as that is sent at once.
    pub(crate) fn flush_sealed(
        &mut self,
        (tls, pool): (&mut Tls, &Pool),
        ring: &mut Ring,
        owner: Owner,
        file: &SharedFile,
    ) -> Result<(), Error> {
        if self.under_way.is_some() || self.queued.is_empty() {
            return Ok(());
        }
        let sealed = self.seal(tls, pool)?;
        let mut batch = self.spare.take().unwrap_or_default();
        self.under_way = Some((sealed.len(), 0));
        batch.push(Part::Buffer(sealed));
        ring.send(owner, file, batch, 0);
        Ok(())
    }

    /// Encrypts as much of what is queued as is sent at once.
    pub(super) fn seal(&mut self, tls: &mut Tls, pool: &Pool) -> Result<Buffer, Error> {
        let all: usize = self.queued.iter().map(|part| part.len()).sum();
        let all = (all - self.sealed).min(MAX_RECORDS * MAX_PLAIN);
        let records = all.div_ceil(MAX_PLAIN);
        let room = tls.queued().len() + all + records * RECORD_OVERHEAD + KEY_UPDATES;
        let mut cipher = pool.take(room);
        let (mut written, mut gathered) = (0, std::mem::take(&mut self.gathered));
        for _ in 0..records {
            let front = self.queued.front().map_or(&[][..], |part| &part[self.sealed..]);
            written += if let Some(plain) = front.get(..MAX_PLAIN) {
                let length = tls.seal(plain, &mut cipher[written..])?;
                self.consume(MAX_PLAIN);
                length
            } else {
                gathered.clear();
                self.gather(&mut gathered);
                tls.seal(&gathered, &mut cipher[written..])?
            };
        }
        self.gathered = gathered;
        cipher.truncate(written);
        Ok(cipher.freeze())
    }

    /// Moves as much of what is queued as one record holds.
    fn gather(&mut self, record: &mut Vec<u8>) {
        while record.len() < MAX_PLAIN
            && let Some(part) = self.queued.front()
        {
            let rest = &part[self.sealed..];
            let count = rest.len().min(MAX_PLAIN - record.len());
            record.extend_from_slice(&rest[..count]);
            self.consume(count);
        }
    }

    /// So much of the first part has been encrypted.
    fn consume(&mut self, count: usize) {
        self.sealed += count;
        if let Some(part) = self.queued.pop_front_if(|part| part.len() == self.sealed) {
            self.sealed = 0;
            if let Part::Bytes(bytes) = part {
                self.small -= bytes.len();
                self.keep(bytes);
            }
        }
    }

    /// Keeps memory for what is queued later.
    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare_bytes.len() < 4 {
            bytes.clear();
            self.spare_bytes.push(bytes);
        }
    }

    /// Takes note of a send that has ended with this many bytes.
    pub(crate) fn sent(
        &mut self,
        ring: &mut Ring,
        owner: Owner,
        file: &SharedFile,
        mut batch: Box<Batch>,
        count: usize,
    ) -> Sent {
        let (length, before) = self.under_way.take().unwrap_or_default();
        let sent = before + count;
        if sent < length {
            self.under_way = Some((length, sent));
            ring.send(owner, file, batch, sent);
            return Sent::Partly;
        }
        for part in batch.drain() {
            if let Part::Bytes(bytes) = part {
                self.keep(bytes);
            }
        }
        self.spare = Some(batch);
        Sent::All(length)
    }
}

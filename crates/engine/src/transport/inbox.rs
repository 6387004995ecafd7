//! Reads frames from one link: bytes in, messages out.
//!
//! Small things come through a stream buffer, many in one system call; the rest of a long payload
//! is received straight into its buffer. One receive at a time is under way.

use std::ops::Range;

use evenkeel_core::Message;
use evenkeel_wire::{FrameError, HEADER_LENGTH, Header, PayloadSummary, decode, decode_header};

use crate::memory::{Buffer, BufferMut, Pool};

/// Bytes of the stream buffer; a header with the longest body, and a payload that is copied, fit.
const STREAM_BUFFER: usize = 64 << 10;
/// Of a payload, this much or more is received straight into its buffer.
const DIRECT: usize = 16 << 10;
/// How much is received at once after a long payload: another one is likely to follow, and is
/// better received straight into its buffer than copied.
const SHORT_RECEIVE: usize = 4 << 10;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// `None` while it is lent to the kernel.
    stream: Option<BufferMut>,
    /// The bytes in the buffer that have not been understood yet.
    pending: Range<usize>,
    /// A message whose payload is not complete.
    partial: Option<Partial>,
    under_way: bool,
    last_was_long: bool,
}

#[derive(Debug)]
struct Partial {
    message: Message,
    summary: PayloadSummary,
    /// `None` until there is memory for it, and while it is lent to the kernel.
    buffer: Option<BufferMut>,
    filled: usize,
}

/// What is to be done next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Receive into this range of the memory (all of it, if so), then call [`Inbox::received`].
    Receive { memory: BufferMut, range: Range<usize>, all: bool },
    /// A message has come.
    Message(Message, Option<Buffer>),
    /// There is no memory for this message's payload now: call [`Inbox::next`] again later.
    NoMemory,
    /// A receive is under way already.
    Nothing,
}

/// Why the link must be closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InboxError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a payload was damaged on its way: check the network")]
    PayloadChecksum,
}

impl Inbox {
    pub(crate) fn new(pool: &Pool) -> Self {
        let stream = Some(pool.take(STREAM_BUFFER));
        Self { stream, pending: 0..0, partial: None, under_way: false, last_was_long: false }
    }

    /// Takes back the memory of a receive, with the bytes that came.
    pub(crate) fn received(&mut self, memory: BufferMut, count: usize) {
        self.under_way = false;
        match &mut self.partial {
            Some(partial) if self.stream.is_some() => {
                partial.buffer = Some(memory);
                partial.filled += count;
            }
            _ => {
                self.stream = Some(memory);
                self.pending.end += count;
            }
        }
    }

    /// What is to be done next. `allocate` admits a message and gives memory for its payload: a
    /// message with a payload for which it has none waits.
    pub(crate) fn next(
        &mut self,
        mut allocate: impl FnMut(usize) -> Option<BufferMut>,
    ) -> Result<Next, InboxError> {
        if self.under_way {
            return Ok(Next::Nothing);
        }
        let mut partial = match self.partial.take() {
            Some(partial) => partial,
            None => match self.frame()? {
                None => return Ok(self.receive_stream()),
                Some((message, None)) => {
                    self.last_was_long = false;
                    return Ok(Next::Message(message, None));
                }
                Some((message, Some(summary))) => {
                    Partial { message, summary, buffer: None, filled: 0 }
                }
            },
        };
        let length = partial.summary.length as usize;
        let Some(mut buffer) = partial.buffer.take().or_else(|| allocate(length)) else {
            self.partial = Some(partial);
            return Ok(Next::NoMemory);
        };
        let missing = self.fill(&mut partial, &mut buffer);
        if missing == 0 {
            return self.complete(partial, buffer);
        }
        if missing >= DIRECT {
            self.under_way = true;
            let range = partial.filled..length;
            self.partial = Some(partial);
            return Ok(Next::Receive { memory: buffer, range, all: true });
        }
        partial.buffer = Some(buffer);
        self.partial = Some(partial);
        Ok(self.receive_stream())
    }

    /// Moves what the stream has of a message's payload to where it belongs. Returns how many bytes
    /// are missing.
    fn fill(&mut self, partial: &mut Partial, buffer: &mut BufferMut) -> usize {
        let missing = partial.summary.length as usize - partial.filled;
        let Some(stream) = &self.stream else { return missing };
        let part = &stream[self.pending.clone()];
        let part = &part[..part.len().min(missing)];
        buffer[partial.filled..][..part.len()].copy_from_slice(part);
        partial.filled += part.len();
        self.pending.start += part.len();
        missing - part.len()
    }

    fn complete(&mut self, partial: Partial, buffer: BufferMut) -> Result<Next, InboxError> {
        let buffer = buffer.freeze();
        self.last_was_long = buffer.len() >= DIRECT;
        // Computed over the bytes as they are, and kept for sending them on.
        if buffer.checksum() != partial.summary.crc {
            return Err(InboxError::PayloadChecksum);
        }
        Ok(Next::Message(partial.message, Some(buffer)))
    }

    /// Takes a header and its body out of the buffer, if they are there in full.
    fn frame(&mut self) -> Result<Option<(Message, Option<PayloadSummary>)>, FrameError> {
        let Some(stream) = &self.stream else {
            debug_assert!(false, "nothing is read while a receive is under way");
            return Ok(None);
        };
        let bytes = &stream[self.pending.clone()];
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER_LENGTH>() else {
            return Ok(None);
        };
        let header: Header = decode_header(head)?;
        let Some(body) = rest.get(..header.body_length as usize) else { return Ok(None) };
        let message = decode(&header, body)?;
        self.pending.start += HEADER_LENGTH + body.len();
        let summary = (header.payload_length > 0)
            .then_some(PayloadSummary { length: header.payload_length, crc: header.payload_crc });
        Ok(Some((message, summary)))
    }

    fn receive_stream(&mut self) -> Next {
        let Some(mut stream) = self.stream.take() else {
            debug_assert!(false, "one receive at a time is under way");
            return Next::Nothing;
        };
        if self.pending.start > 0 {
            stream.copy_within(self.pending.clone(), 0);
            self.pending = 0..self.pending.len();
        }
        self.under_way = true;
        let is_between_frames = self.partial.is_none() && self.pending.is_empty();
        let most =
            if is_between_frames && self.last_was_long { SHORT_RECEIVE } else { stream.len() };
        let range = self.pending.end..most;
        Next::Receive { memory: stream, range, all: false }
    }
}

#[cfg(test)]
mod tests;

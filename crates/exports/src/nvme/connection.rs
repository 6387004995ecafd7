//! One TCP connection, which is one queue (TCP 3.2): a machine without I/O.
//!
//! [`Connection::receive`] takes bytes of any length and tells what they mean: a command, a piece
//! of its data, that its data is complete. Data is borrowed from the input and never kept: whoever
//! gives the bytes copies it to where it belongs, or has received it there. The host sends data
//! that isn't in a capsule only after [`Connection::request`], so the caller holds the memory
//! budget.
//!
//! Bounds: a header of at most [`MAX_LEAD`] bytes, and one tag for each command that may be under
//! way, which are allocated by [`Connection::connected`]. Nothing else is kept. One call of
//! `receive` appends at most 152 bytes more to `out` than it uses of its input.
//!
//! A header that is damaged or wrong ends the connection, with a PDU that says why (TCP 3.5).
//! Damaged data doesn't: its command is answered by [`Status::TransientTransport`].
//!
//! Of a fused operation the first half is answered first (Base 3.4.2): the answer of a second half
//! that comes before that is kept.

mod answers;
mod invariants;
mod tags;
mod transfer;

use thiserror::Error;

use super::command::{ENTRY_LENGTH, Entry, Fabrics, Fuse, Status};
use super::pdu::{
    COMMON_LENGTH, Data, DataDigest, FatalStatus, Framing, InitializeRequest, InitializeResponse,
    Kind, Layout, MAX_LEAD, Malformed, Side, Terminate,
};
use tags::{Open, Tags};

pub use tags::Tag;
pub use transfer::Transfer;

/// Most bytes of data in a capsule (TCP 3.3.1; Identify's field IOCCSZ says it for I/O queues).
pub const MAX_IN_CAPSULE: u32 = 8192;
/// Most bytes of data of one command: 2 to the power of MDTS, in units of 4 KiB.
pub const MAX_TRANSFER: u32 = 1 << 20;
/// Most bytes of data in one PDU of the host (MAXH2CDATA). Linux before 5.17 sends all that an R2T
/// asks for in one PDU, whatever is announced: so it must be as much as a command may have.
pub const MAX_HOST_DATA: u32 = MAX_TRANSFER;

/// What bytes of the host meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A command. It has its tag until it is answered.
    Command {
        /// What to answer to.
        tag: Tag,
        /// The command.
        entry: Entry,
        /// Its data.
        transfer: Transfer,
    },
    /// A piece of a command's data.
    Data {
        /// Whose.
        tag: Tag,
        /// Where in the command's data it begins, in bytes.
        offset: u32,
        /// The piece; never empty.
        bytes: &'a [u8],
    },
    /// A command with a wrong data pointer has come, with this part in a fused operation. It has
    /// been answered, or is when the data of its capsule has come.
    Refused(Fuse),
    /// All data has come that the capsule brings, or that was last requested.
    Received(Tag),
    /// As [`Event::Received`], but data was damaged on its way. The command has been answered.
    Damaged(Tag),
    /// Send what was appended, then close. Commands under way can't be answered any more, and what
    /// still arrives means nothing.
    End(End),
}

/// Why a connection has to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum End {
    /// The host sent something wrong. It is told so.
    #[error("the host broke the protocol: {0}")]
    Malformed(#[from] Malformed),
    /// The host says that it was sent something wrong.
    #[error(
        "the host ended the connection with error {} (information {})", .0.status, .0.information
    )]
    Terminated(Terminate),
    /// The host ends the connection, with a PDU that is itself wrong.
    #[error("the host ended the connection without a valid reason")]
    Unexplained,
}

/// The caller asked for something that the command's state does not permit. Nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the command has been answered already, or expects something else")]
pub struct NotExpected;

/// What comes next from the host.
#[derive(Debug)]
enum Expected {
    /// A header of which only the first bytes are known, or its rest.
    Header(Option<Layout>),
    /// So many bytes of a command's data, then their digest if there is one.
    Data { tag: Tag, left: u32, has_digest: bool },
    /// The digest that should follow. As many bytes as are known are in the buffer for headers.
    Digest { tag: Tag, digest: [u8; 4] },
    /// Nothing that matters.
    Nothing,
}

/// What bytes have led to.
enum Parsed<'a> {
    GoOn,
    /// All bytes are used.
    Wait,
    Event(Event<'a>),
}

/// A connection from the moment when it was accepted.
#[derive(Debug)]
pub struct Connection {
    is_open: bool,
    /// Of the host's PDUs, and of those for the host. They differ by alignment.
    incoming: Framing,
    outgoing: Framing,
    expected: Expected,
    /// Collects what must be there as a whole: `collected` bytes of a header or of a digest.
    buffer: [u8; MAX_LEAD],
    collected: usize,
    /// Of the data that has come of a PDU whose data has a digest.
    digest: DataDigest,
    tags: Tags,
    without_flow_control: bool,
    /// How many commands of the submission queue are consumed, modulo its size.
    head: u16,
    /// The first half of a fused operation that came last, until another command comes or it is
    /// answered.
    first: Option<Tag>,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            is_open: false,
            incoming: Framing::default(),
            outgoing: Framing::default(),
            expected: Expected::Header(None),
            buffer: [0; MAX_LEAD],
            collected: 0,
            digest: DataDigest::default(),
            tags: Tags::default(),
            without_flow_control: false,
            head: 0,
            first: None,
        }
    }
}

impl Connection {
    /// Takes bytes as they come. Returns how many were used and what they meant, and appends what
    /// has to be sent. It is to be called with the rest until it returns no event, also if the rest
    /// is empty.
    pub fn receive<'a>(
        &mut self,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> (usize, Option<Event<'a>>) {
        let mut rest = bytes;
        let result = loop {
            match self.step(&mut rest, out) {
                Parsed::GoOn => {}
                Parsed::Wait => break (bytes.len(), None),
                Parsed::Event(event) => break (bytes.len() - rest.len(), Some(event)),
            }
        };
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
        result
    }

    /// The data that comes next, if no other bytes come before it: whose, where in the command's
    /// data, and how many bytes. A driver may receive them to where they belong, and give them to
    /// [`Connection::receive`] from there.
    #[must_use]
    pub fn next_data(&self) -> Option<(Tag, u32, u32)> {
        let Expected::Data { tag, left, .. } = self.expected else { return None };
        let open = self.tags.get(tag)?;
        (left > 0 && !open.is_dropped()).then_some((tag, open.received, left))
    }

    /// How many commands may be under way at once.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        self.tags.depth()
    }

    fn step<'a>(&mut self, rest: &mut &'a [u8], out: &mut Vec<u8>) -> Parsed<'a> {
        match self.expected {
            Expected::Header(layout) => self.header(layout, rest, out),
            Expected::Data { tag, .. } => self.data(tag, rest, out),
            Expected::Digest { tag, digest } => {
                if !self.collect(digest.len(), rest) {
                    return Parsed::Wait;
                }
                self.collected = 0;
                let is_sound = self.buffer.starts_with(&digest);
                self.data_ended(tag, is_sound, out)
            }
            Expected::Nothing => {
                *rest = &[];
                Parsed::Wait
            }
        }
    }

    /// Whether so many bytes are in the buffer.
    fn collect(&mut self, length: usize, rest: &mut &[u8]) -> bool {
        let count = length.saturating_sub(self.collected).min(rest.len());
        let (taken, left) = rest.split_at(count);
        self.buffer[self.collected..self.collected + count].copy_from_slice(taken);
        self.collected += count;
        *rest = left;
        self.collected == length
    }

    fn header<'a>(
        &mut self,
        layout: Option<Layout>,
        rest: &mut &'a [u8],
        out: &mut Vec<u8>,
    ) -> Parsed<'a> {
        if !self.collect(layout.map_or(COMMON_LENGTH, |layout| layout.lead()), rest) {
            return Parsed::Wait;
        }
        let result = match layout {
            None => self.common_header().map(|layout| {
                self.expected = Expected::Header(Some(layout));
                Parsed::GoOn
            }),
            Some(layout) => self.pdu(layout, out),
        };
        result.unwrap_or_else(|end| self.end(layout, end, out))
    }

    fn common_header(&self) -> Result<Layout, End> {
        let common = self.buffer.first_chunk().ok_or(End::Unexplained)?;
        let layout = Layout::read(common, Side::Host, &self.incoming).map_err(|malformed| {
            // Such a PDU is not answered by another one of its kind (TCP 3.5).
            let is_end = common[0] == Kind::HostTerminate as u8;
            if is_end { End::Unexplained } else { malformed.into() }
        })?;
        let is_first = layout.kind() == Kind::InitializeRequest;
        if layout.kind() != Kind::HostTerminate && is_first == self.is_open {
            return Err(Malformed::status(FatalStatus::Sequence).into());
        }
        if layout.kind() == Kind::Command && layout.data_length() > MAX_IN_CAPSULE {
            return Err(Malformed::field(Layout::LENGTH_FIELD).into());
        }
        Ok(layout)
    }

    /// Ends, quoting as much of the header as was needed to see that it is wrong.
    fn end<'a>(&mut self, layout: Option<Layout>, end: End, out: &mut Vec<u8>) -> Parsed<'a> {
        if let End::Malformed(malformed) = end {
            let length = layout.map_or(COMMON_LENGTH, |layout| layout.header_length());
            let quoted = &self.buffer[..length];
            Terminate::from(malformed).put(Kind::ControllerTerminate, quoted, out);
        }
        self.expected = Expected::Nothing;
        self.tags.clear();
        Parsed::Event(Event::End(end))
    }

    /// A PDU whose header is here.
    fn pdu<'a>(&mut self, layout: Layout, out: &mut Vec<u8>) -> Result<Parsed<'a>, End> {
        layout.check(&self.buffer[..self.collected])?;
        match layout.kind() {
            Kind::InitializeRequest => self.initialize(out)?,
            Kind::Command => return Ok(self.command(layout, out)?),
            Kind::HostData => self.host_data(layout)?,
            _ => return Err(End::Terminated(Terminate::read(&self.buffer)?)),
        }
        self.collected = 0;
        Ok(Parsed::GoOn)
    }

    fn initialize(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let request = InitializeRequest::read(&self.buffer)?;
        let response = InitializeResponse {
            alignment: 0,
            header_digest: request.header_digest,
            data_digest: request.data_digest,
            max_host_data: MAX_HOST_DATA,
        };
        response.put(out);
        self.incoming = Framing {
            header_digest: request.header_digest,
            data_digest: request.data_digest,
            alignment: response.alignment,
        };
        self.outgoing = Framing { alignment: request.alignment, ..self.incoming };
        self.is_open = true;
        self.expected = Expected::Header(None);
        Ok(())
    }

    fn command<'a>(&mut self, layout: Layout, out: &mut Vec<u8>) -> Result<Parsed<'a>, Malformed> {
        let sequence = Malformed::status(FatalStatus::Sequence);
        let bytes = self.buffer[COMMON_LENGTH..].first_chunk::<ENTRY_LENGTH>().ok_or(sequence)?;
        let entry = Entry::read(bytes);
        let in_capsule = layout.data_length();
        let transfer = Transfer::of(&entry, in_capsule);
        let open = Open::new(&entry, in_capsule, transfer);
        let tag = self.tags.take(open).ok_or(sequence)?;
        self.collected = 0;
        self.expect_data(tag, &layout);
        let fuse = fuse_of(&entry);
        self.follow(tag, fuse);
        Ok(Parsed::Event(match transfer {
            Ok(transfer) => Event::Command { tag, entry, transfer },
            Err(_) => {
                if in_capsule == 0 {
                    self.finish(tag, out);
                }
                Event::Refused(fuse)
            }
        }))
    }

    /// A command with this part in a fused operation has come. The answer of a second half waits
    /// for that of the first one.
    fn follow(&mut self, tag: Tag, fuse: Fuse) {
        let first = std::mem::replace(&mut self.first, (fuse == Fuse::First).then_some(tag));
        // Only a second half right behind its first one follows anything.
        let Some(first) = first.filter(|_| fuse == Fuse::Second) else { return };
        if let Some(open) = self.tags.get_mut(first) {
            open.second = Some(tag);
            if let Some(open) = self.tags.get_mut(tag) {
                open.is_behind = true;
            }
        }
    }

    /// Checks a PDU with data against what was requested (TCP 3.3.2.2).
    fn host_data(&mut self, layout: Layout) -> Result<(), Malformed> {
        let data = Data::read(&self.buffer, layout.data_length())?;
        let tag = Tag::of(data.tag);
        let open = self.tags.get(tag).filter(|open| open.received < open.requested);
        let open = open.ok_or(Malformed::field(Data::TAG_FIELD))?;
        if data.command != open.command {
            return Err(Malformed::field(Data::COMMAND_FIELD));
        }
        if !data.offset.is_multiple_of(4) {
            return Err(Malformed::field(Data::OFFSET_FIELD));
        }
        if !data.length.is_multiple_of(4) {
            return Err(Malformed::field(Data::LENGTH_FIELD));
        }
        if data.length > MAX_HOST_DATA {
            return Err(Malformed::status(FatalStatus::LimitExceeded));
        }
        let end = u64::from(data.offset) + u64::from(data.length);
        if data.offset < open.first || end > u64::from(open.requested) {
            return Err(Malformed::status(FatalStatus::OutOfRange));
        }
        let is_last = end == u64::from(open.requested);
        if data.offset != open.received || layout.flags().last != is_last {
            return Err(Malformed::status(FatalStatus::Sequence));
        }
        self.expect_data(tag, &layout);
        Ok(())
    }

    fn expect_data(&mut self, tag: Tag, layout: &Layout) {
        self.digest = DataDigest::default();
        self.expected = match layout.data_length() {
            0 => Expected::Header(None),
            left => Expected::Data { tag, left, has_digest: layout.has_data_digest() },
        };
    }

    fn data<'a>(&mut self, tag: Tag, rest: &mut &'a [u8], out: &mut Vec<u8>) -> Parsed<'a> {
        let Expected::Data { left, has_digest, .. } = &mut self.expected else {
            return Parsed::GoOn;
        };
        if *left == 0 {
            if !*has_digest {
                return self.data_ended(tag, true, out);
            }
            self.expected = Expected::Digest { tag, digest: self.digest.finish() };
            return Parsed::GoOn;
        }
        let count = rest.len().min(*left as usize);
        if count == 0 {
            return Parsed::Wait;
        }
        let (piece, after) = rest.split_at(count);
        *rest = after;
        *left -= count as u32;
        if *has_digest {
            self.digest.update(piece);
        }
        let Some(open) = self.tags.get_mut(tag) else { return Parsed::GoOn };
        let offset = open.received;
        open.received += count as u32;
        if open.is_dropped() {
            return Parsed::GoOn;
        }
        Parsed::Event(Event::Data { tag, offset, bytes: piece })
    }

    /// The data of one PDU is here.
    fn data_ended<'a>(&mut self, tag: Tag, is_sound: bool, out: &mut Vec<u8>) -> Parsed<'a> {
        self.expected = Expected::Header(None);
        let Some(open) = self.tags.get_mut(tag) else { return Parsed::GoOn };
        open.is_damaged |= !is_sound;
        if open.received < open.requested {
            return Parsed::GoOn;
        }
        if open.answer.is_some() {
            self.finish(tag, out);
            return Parsed::GoOn;
        }
        if !open.is_damaged {
            return Parsed::Event(Event::Received(tag));
        }
        open.answer = Some((Status::TransientTransport, 0));
        self.finish(tag, out);
        Parsed::Event(Event::Damaged(tag))
    }
}

/// Its part in a fused operation; that of a command which names none that exists, or has none, is
/// none.
fn fuse_of(entry: &Entry) -> Fuse {
    if entry.opcode == Fabrics::OPCODE {
        return Fuse::None;
    }
    entry.fuse().unwrap_or(Fuse::None)
}

#[cfg(test)]
pub(in crate::nvme) mod tests;

//! Front ends on streams without an engine: the test is the client, the kernel and the volume.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::net::UnixStream;

use evenkeel_core::{HostId, Operation};
use evenkeel_engine::frontend::FrontendAction;
use evenkeel_engine::memory::Reservation;
use evenkeel_engine::{Buffer, BufferMut, Frontend, FrontendContext, FrontendEvent, RequestToken};

use super::Stream;

/// A front end that serves a stream.
pub trait Streaming: Frontend {
    fn stream(&self) -> &Stream;
}

pub struct Bench<F> {
    pub front_end: F,
    pub context: FrontendContext,
    /// For whom it submits.
    host: Option<HostId>,
    /// The client's end of the socket, if somebody asks whether it is there.
    pub client: Option<UnixStream>,
    /// What it wants to receive into.
    pub lent: Option<(BufferMut, Range<usize>)>,
    pub submitted: Vec<(RequestToken, Operation<Buffer>)>,
    /// The tokens of what it has given up.
    pub cancelled: Vec<RequestToken>,
    /// Whether it wants to know when nothing is under way.
    pub drains: bool,
    /// Room for what is read, by token, until the reply.
    pub rooms: BTreeMap<RequestToken, Reservation>,
    /// All that was sent.
    pub sent: Vec<u8>,
    pub ended: Option<String>,
}

impl<F: Streaming> Bench<F> {
    pub fn new(front_end: F, host: Option<HostId>, memory: usize) -> Self {
        let mut bench = Self {
            front_end,
            context: FrontendContext::detached(memory),
            host,
            client: None,
            lent: None,
            submitted: Vec::new(),
            cancelled: Vec::new(),
            drains: false,
            rooms: BTreeMap::new(),
            sent: Vec::new(),
            ended: None,
        };
        bench.event(FrontendEvent::Started);
        bench
    }

    pub fn event(&mut self, event: FrontendEvent) {
        if let FrontendEvent::Reply { token, .. } = event {
            self.rooms.remove(&token);
        }
        self.front_end.handle(event, &mut self.context);
        for action in self.context.take_actions() {
            assert!(self.ended.is_none(), "nothing follows the end: {action:?}");
            match action {
                FrontendAction::Open { .. } => {}
                FrontendAction::Receive { memory, range, .. } => {
                    assert!(self.lent.is_none() && !range.is_empty());
                    self.lent = Some((memory, range));
                }
                FrontendAction::Send { bytes, .. } => self.sent.extend_from_slice(&bytes),
                FrontendAction::SendBuffer { buffer, .. } => self.sent.extend_from_slice(&buffer),
                FrontendAction::Submit { token, host, operation, room } => {
                    assert_eq!(host, self.host);
                    self.rooms.extend(room.map(|room| (token, room)));
                    self.submitted.push((token, operation));
                }
                FrontendAction::Cancel { token } => self.cancelled.push(token),
                FrontendAction::Drain => {
                    assert!(!std::mem::replace(&mut self.drains, true), "once is enough");
                }
                FrontendAction::End { reason } => self.ended = Some(reason),
                action => panic!("unexpected: {action:?}"),
            }
        }
    }

    /// Nothing that it has submitted is under way.
    pub fn drained(&mut self) {
        assert!(std::mem::take(&mut self.drains) && self.submitted.is_empty());
        self.event(FrontendEvent::Drained);
    }

    /// The client has taken all that was sent.
    pub fn drain(&mut self) {
        let stream = self.front_end.stream();
        let (descriptor, bytes) = (stream.descriptor(), stream.queued());
        self.event(FrontendEvent::Sent { descriptor, result: Ok(bytes) });
    }

    /// The client sends bytes, of which the kernel gives at most `most` at once. Returns what the
    /// front end has not taken.
    pub fn receive<'a>(&mut self, mut bytes: &'a [u8], most: usize) -> &'a [u8] {
        while !bytes.is_empty()
            && let Some((mut memory, range)) = self.lent.take()
        {
            let count = bytes.len().min(range.len()).min(most);
            memory[range.start..range.start + count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            let descriptor = self.front_end.stream().descriptor();
            self.event(FrontendEvent::Received { descriptor, memory, result: Ok(count) });
        }
        bytes
    }

    /// A buffer of the volume with these bytes.
    pub fn buffer(&mut self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.context.allocate_fixed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer.freeze()
    }

    /// Lets the time of the next wake-up come, if one is wanted; whether it was.
    pub fn wake(&mut self) -> bool {
        let Some(at) = self.front_end.next_wakeup() else { return false };
        self.context.set_now(at);
        self.event(FrontendEvent::Tick);
        true
    }
}

/// Bytes that differ from place to place.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 + index / 256) as u8).collect()
}

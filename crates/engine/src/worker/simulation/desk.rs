//! A front end as the shipped ones are: its client names requests over a socket, and is answered
//! over it. What is asked, and what is answered, lies on a desk that the world looks at.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::{Operation, Payload, Reply, RequestError};

use super::model::BLOCK;
use crate::frontend::{Frontend, FrontendContext, FrontendEvent, RequestToken};
use crate::memory::{Buffer, BufferMut};
use crate::ring::{Descriptor, is_transient};

/// Bytes of a request's name on the socket.
pub(super) const NAME: usize = 8;
/// Bytes that are received at once.
const RECEIVED: usize = 64;

/// What a client wants. Offsets and lengths are bytes.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        offset: u64,
        length: u32,
        value: u64,
        durable: bool,
    },
    Zero {
        offset: u64,
        length: u64,
        unmap: bool,
    },
    Flush,
    Map {
        offset: u64,
        length: u64,
    },
    /// Give up the request of this name. It is not answered itself.
    Cancel(u64),
    /// Tell when nothing is under way. It is answered by that.
    Drain,
}

/// What a client is answered.
#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    /// The value of each block.
    Data(Vec<u64>),
    Extents(Vec<(u64, bool)>),
    Failed(RequestError),
    Drained,
}

/// How far a front end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Made,
    Running,
    Stopping,
    /// The engine has let it go.
    Over,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) asked: BTreeMap<u64, Ask>,
    /// Since the world has looked last.
    pub(super) answered: Vec<(u64, Outcome)>,
    /// How often its bell was heard.
    pub(super) rung: u64,
    pub(super) life: Life,
    /// What the engine must not do.
    pub(super) wrong: Vec<String>,
}

/// The desk of one client.
pub(super) type SharedDesk = Arc<Mutex<Desk>>;

pub(super) fn desk() -> SharedDesk {
    Arc::new(Mutex::new(Desk {
        asked: BTreeMap::new(),
        answered: Vec::new(),
        rung: 0,
        life: Life::Made,
        wrong: Vec::new(),
    }))
}

pub(super) fn look(desk: &SharedDesk) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The front end.
pub(super) struct Clerk {
    desk: SharedDesk,
    /// Until it is started: the socket, and what the world rings.
    files: Option<(OwnedFd, OwnedFd)>,
    /// Its own copy of what the world rings.
    bell: OwnedFd,
    socket: Descriptor,
    /// What has come of a name.
    bytes: Vec<u8>,
    is_receiving: bool,
    /// Named, and not submitted: there was no memory.
    waiting: VecDeque<u64>,
    /// What is open, by tokens that are used again.
    open: Vec<Option<u64>>,
    /// Drains that were asked for.
    drains: VecDeque<u64>,
}

impl Clerk {
    pub(super) fn new(desk: SharedDesk, socket: OwnedFd, bell: OwnedFd) -> Self {
        let own = bell.try_clone().expect("a descriptor");
        Self {
            desk,
            files: Some((socket, bell)),
            bell: own,
            socket: Descriptor(0),
            bytes: Vec::new(),
            is_receiving: false,
            waiting: VecDeque::new(),
            open: Vec::new(),
            drains: VecDeque::new(),
        }
    }

    fn is_wrong(&self, what: impl Into<String>) {
        look(&self.desk).wrong.push(what.into());
    }

    fn answer(&self, context: &mut FrontendContext, name: u64, outcome: Outcome) {
        look(&self.desk).answered.push((name, outcome));
        context.send(self.socket, &name.to_le_bytes());
    }

    fn start(&mut self, context: &mut FrontendContext) {
        let Some((socket, bell)) = self.files.take() else {
            return self.is_wrong("it is started twice");
        };
        look(&self.desk).life = Life::Running;
        self.socket = context.open(socket);
        let bell = context.open(bell);
        context.wait_readable(bell);
        let memory = context.allocate_fixed(RECEIVED);
        self.receive(context, memory);
    }

    fn receive(&mut self, context: &mut FrontendContext, memory: BufferMut) {
        self.is_receiving = true;
        context.receive(self.socket, memory, 0..RECEIVED);
    }

    fn received(
        &mut self,
        context: &mut FrontendContext,
        memory: BufferMut,
        result: std::io::Result<usize>,
    ) {
        if !std::mem::take(&mut self.is_receiving) || memory.len() != RECEIVED {
            return self.is_wrong("it is told of a receive that it has not begun");
        }
        match result {
            Ok(0) => return context.end("the client has gone"),
            Ok(count) => self.bytes.extend_from_slice(&memory[..count]),
            Err(error) if is_transient(&error) => {}
            Err(error) => return context.end(error.to_string()),
        }
        while let Some((name, rest)) = self.bytes.split_first_chunk::<NAME>() {
            self.waiting.push_back(u64::from_le_bytes(*name));
            self.bytes = rest.to_vec();
        }
        self.receive(context, memory);
        self.submit(context);
    }

    /// Submits what waits, as far as there is memory.
    fn submit(&mut self, context: &mut FrontendContext) {
        while let Some(name) = self.waiting.front().copied() {
            let ask = look(&self.desk).asked.get(&name).cloned();
            let Some(ask) = ask else { return self.is_wrong(format!("nobody has asked {name}")) };
            match ask {
                Ask::Cancel(other) => {
                    if let Some(place) = self.open.iter().position(|it| *it == Some(other)) {
                        context.cancel(RequestToken::of_index(place));
                    }
                }
                Ask::Drain => {
                    self.drains.push_back(name);
                    context.drain();
                }
                ask => {
                    let Some(operation) = operation(&ask, context) else { return };
                    let free = self.open.iter().position(Option::is_none);
                    let place = free.unwrap_or(self.open.len());
                    if context.submit(RequestToken::of_index(place), operation).is_err() {
                        return;
                    }
                    self.open.resize(self.open.len().max(place + 1), None);
                    self.open[place] = Some(name);
                }
            }
            self.waiting.pop_front();
        }
    }

    fn replied(
        &mut self,
        context: &mut FrontendContext,
        token: RequestToken,
        result: Result<Reply<Buffer>, RequestError>,
    ) {
        let name = self.open.get_mut(token.index()).and_then(Option::take);
        let Some(name) = name else {
            return self.is_wrong(format!("{token:?} is answered, and is not open: {result:?}"));
        };
        let outcome = match result {
            Ok(Reply::Done) => Outcome::Done,
            Ok(Reply::Data(pieces)) => match values(&pieces) {
                Ok(values) => Outcome::Data(values),
                Err(why) => return self.is_wrong(format!("request {name}: {why}")),
            },
            Ok(Reply::Extents(extents)) => {
                Outcome::Extents(extents.iter().map(|it| (it.length, it.allocated)).collect())
            }
            Ok(Reply::Miscompare { at }) => {
                return self.is_wrong(format!("request {name} compares nothing, at {at}"));
            }
            Err(error) => Outcome::Failed(error),
        };
        self.answer(context, name, outcome);
    }
}

impl Frontend for Clerk {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => self.start(context),
            FrontendEvent::Received { memory, result, .. } => {
                self.received(context, memory, result);
            }
            FrontendEvent::Reply { token, result } => self.replied(context, token, result),
            FrontendEvent::MemoryAvailable => self.submit(context),
            FrontendEvent::Drained => match self.drains.pop_front() {
                Some(name) => self.answer(context, name, Outcome::Drained),
                None => self.is_wrong("it has not asked for a drain"),
            },
            FrontendEvent::Readable { descriptor } => {
                let mut count = [0; 8];
                match rustix::io::read(&self.bell, &mut count) {
                    Ok(_) => look(&self.desk).rung += u64::from_ne_bytes(count),
                    Err(error) => self.is_wrong(format!("its bell is not readable: {error}")),
                }
                context.wait_readable(descriptor);
            }
            FrontendEvent::Sent { result: Ok(_), .. } => {}
            FrontendEvent::Sent { result: Err(error), .. } => context.end(error.to_string()),
            FrontendEvent::Stopping => look(&self.desk).life = Life::Stopping,
            event => self.is_wrong(format!("it is told {event:?}")),
        }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        look(&self.desk).life = Life::Over;
    }
}

/// An operation, with the memory for what it writes.
fn operation(ask: &Ask, context: &mut FrontendContext) -> Option<Operation<Buffer>> {
    Some(match *ask {
        Ask::Read { offset, length } => Operation::Read { offset, length },
        Ask::Write { offset, length, value, durable } => {
            let mut memory = context.allocate(length as usize)?;
            memory.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&value.to_le_bytes()));
            Operation::Write { offset, payload: memory.freeze(), durable }
        }
        Ask::Zero { offset, length, unmap } => {
            Operation::Zero { offset, length, unmap, durable: false }
        }
        Ask::Map { offset, length } => Operation::Map { offset, length },
        Ask::Flush | Ask::Cancel(_) | Ask::Drain => Operation::Flush,
    })
}

/// The value of each block.
fn values(pieces: &[(u32, Buffer)]) -> Result<Vec<u64>, String> {
    let mut bytes = Vec::new();
    for (offset, piece) in pieces {
        if *offset as usize != bytes.len() {
            return Err(format!("a piece at {offset}, after {} bytes", bytes.len()));
        }
        debug_assert_eq!(piece.length() as usize, piece.len());
        bytes.extend_from_slice(piece);
    }
    let value = |part: &[u8]| part.first_chunk().map(|first| u64::from_le_bytes(*first));
    let blocks = bytes.chunks(BLOCK as usize).map(|block| {
        let first = value(block);
        let is_one = block.chunks(8).all(|part| value(part) == first);
        first.filter(|_| is_one).ok_or_else(|| "a block holds parts of two writes".to_owned())
    });
    blocks.collect()
}

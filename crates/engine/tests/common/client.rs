//! A front end that a test drives by a channel.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use evenkeel_core::{Extent, Operation, Payload, Reply, RequestError};
use evenkeel_engine::*;
use rustix::event::{EventfdFlags, eventfd};

use super::{Cluster, ask};

/// A request as a test states it.
pub enum Request {
    Read(u64, u32),
    Write(u64, Vec<u8>, bool),
    /// From memory that no disk takes as it lies.
    WriteUnaligned(u64, Vec<u8>),
    Zero(u64, u64, bool),
    Flush,
    Map(u64, u64),
    /// Where, what is expected, what is written instead.
    Compare(u64, Vec<u8>, Vec<u8>),
}

/// What a test is answered.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Done,
    Miscompare(u32),
    Data(Vec<u8>),
    Extents(Vec<(u64, bool)>),
}

pub type Answered = Result<Answer, RequestError>;

/// The test's side.
pub struct Client {
    requests: Sender<(Request, Sender<Answered>)>,
    waker: Arc<OwnedFd>,
    pub id: FrontendId,
}

/// The front end's side.
struct ChannelFrontend {
    requests: Receiver<(Request, Sender<Answered>)>,
    waker: Option<OwnedFd>,
    descriptor: Option<Descriptor>,
    waiting: Vec<(Request, Sender<Answered>)>,
    open: Vec<Option<Sender<Answered>>>,
}

impl Cluster {
    pub fn client(&mut self) -> Client {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("eventfd");
        let theirs = waker.try_clone().expect("a copy");
        let (requests, receiver) = channel();
        self.next_frontend += 1;
        let id = FrontendId(self.next_frontend);
        let make: FrontendMaker = Box::new(move || {
            Box::new(ChannelFrontend {
                requests: receiver,
                waker: Some(theirs),
                descriptor: None,
                waiting: Vec::new(),
                open: Vec::new(),
            })
        });
        let volume = self.volume;
        ask(|answer| {
            self.engines[0].add_frontend(volume, id, "test".to_owned(), make, answer);
        })
        .expect("added");
        Client { requests, waker: Arc::new(waker), id }
    }
}

impl Client {
    pub fn begin(&self, request: Request) -> Receiver<Answered> {
        let (sender, receiver) = channel();
        self.requests.send((request, sender)).expect("the front end is there");
        rustix::io::write(self.waker.as_fd(), &1u64.to_ne_bytes()).expect("rings");
        receiver
    }

    pub fn call(&self, request: Request) -> Answered {
        self.begin(request).recv_timeout(Duration::from_secs(60)).expect("an answer in time")
    }

    pub fn write(&self, offset: u64, data: Vec<u8>) {
        assert_eq!(self.call(Request::Write(offset, data, false)), Ok(Answer::Done));
    }

    pub fn read(&self, offset: u64, length: u32) -> Vec<u8> {
        match self.call(Request::Read(offset, length)) {
            Ok(Answer::Data(data)) => data,
            other => panic!("{other:?}"),
        }
    }
}

impl Frontend for ChannelFrontend {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => {
                if let Some(waker) = self.waker.take() {
                    let descriptor = context.open(waker.try_clone().expect("a copy"));
                    self.waker = Some(waker);
                    self.descriptor = Some(descriptor);
                    context.wait_readable(descriptor);
                }
            }
            FrontendEvent::Readable { descriptor } => {
                let mut count = [0; 8];
                let waker = self.waker.as_ref().expect("open");
                let _ = rustix::io::read(waker, &mut count);
                context.wait_readable(descriptor);
                self.waiting.extend(self.requests.try_iter());
                self.submit(context);
            }
            FrontendEvent::MemoryAvailable => self.submit(context),
            FrontendEvent::Reply { token, result } => {
                if let Some(sender) = self.open[token.index()].take() {
                    let _ = sender.send(result.map(answer));
                }
            }
            _ => {}
        }
    }
}

impl ChannelFrontend {
    fn submit(&mut self, context: &mut FrontendContext) {
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        while let Some((request, sender)) = waiting.next() {
            let token = RequestToken::of_index(self.open.len());
            let Some(operation) = operation(&request, context) else {
                self.waiting.push((request, sender));
                self.waiting.extend(waiting);
                return;
            };
            if context.submit(token, operation).is_err() {
                self.waiting.push((request, sender));
                self.waiting.extend(waiting);
                return;
            }
            self.open.push(Some(sender));
        }
    }
}

fn operation(request: &Request, context: &mut FrontendContext) -> Option<Operation<Buffer>> {
    Some(match request {
        Request::Read(offset, length) => Operation::Read { offset: *offset, length: *length },
        Request::Write(offset, data, durable) => {
            let mut buffer = context.allocate(data.len())?;
            buffer.copy_from_slice(data);
            Operation::Write { offset: *offset, payload: buffer.freeze(), durable: *durable }
        }
        Request::WriteUnaligned(offset, data) => {
            let mut buffer = context.allocate(data.len() + 7)?;
            buffer[7..].copy_from_slice(data);
            let payload = buffer.freeze().slice(7, data.len() as u32);
            Operation::Write { offset: *offset, payload, durable: false }
        }
        Request::Zero(offset, length, unmap) => {
            Operation::Zero { offset: *offset, length: *length, unmap: *unmap, durable: false }
        }
        Request::Compare(offset, expected, data) => {
            let (mut old, mut new) =
                (context.allocate(expected.len())?, context.allocate(data.len())?);
            old.copy_from_slice(expected);
            new.copy_from_slice(data);
            let (expected, payload) = (old.freeze(), new.freeze());
            Operation::CompareAndWrite { offset: *offset, expected, payload, durable: false }
        }
        Request::Flush => Operation::Flush,
        Request::Map(offset, length) => Operation::Map { offset: *offset, length: *length },
    })
}

fn answer(reply: Reply<Buffer>) -> Answer {
    match reply {
        Reply::Done => Answer::Done,
        Reply::Miscompare { at } => Answer::Miscompare(at),
        Reply::Data(pieces) => {
            let mut data = Vec::new();
            for (offset, piece) in pieces {
                assert_eq!(offset as usize, data.len(), "no gaps");
                data.extend_from_slice(&piece);
            }
            Answer::Data(data)
        }
        Reply::Extents(extents) => Answer::Extents(
            extents.iter().map(|Extent { length, allocated }| (*length, *allocated)).collect(),
        ),
    }
}

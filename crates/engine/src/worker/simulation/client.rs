//! A client of a volume: the other end of a front end's socket.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use super::desk::{Ask, Clerk, NAME, SharedDesk, desk, look};
use super::model::Violation;
use crate::api::FrontendId;
use crate::frontend::FrontendMaker;

/// What the world does with a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its front end is ordered.
    Adding,
    Running,
    /// The world has asked for its end, or hung up, or the volume ends.
    Leaving,
    Gone,
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) ask: Ask,
    pub(super) blocks: Range<u64>,
    pub(super) began: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) volume: usize,
    /// Where its front end is.
    pub(super) node: usize,
    pub(super) id: FrontendId,
    pub(super) stage: Stage,
    pub(super) desk: SharedDesk,
    pub(super) open: BTreeMap<u64, Open>,
    socket: Option<OwnedFd>,
    bell: OwnedFd,
    rung: u64,
    /// Names that its front end has sent and that have not come.
    sent: VecDeque<u64>,
    bytes: Vec<u8>,
}

impl Client {
    /// One, and what makes its front end.
    pub(super) fn new(
        volume: usize,
        node: usize,
        id: FrontendId,
        room: usize,
    ) -> (Self, FrontendMaker) {
        let [ours, theirs] = connection(room);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
        let desk = desk();
        let (own, heard) = (desk.clone(), bell.try_clone().expect("a descriptor"));
        let make: FrontendMaker = Box::new(move || Box::new(Clerk::new(own, theirs, heard)));
        let client = Self {
            volume,
            node,
            id,
            stage: Stage::Adding,
            desk,
            open: BTreeMap::new(),
            socket: Some(ours),
            bell,
            rung: 0,
            sent: VecDeque::new(),
            bytes: Vec::new(),
        };
        (client, make)
    }

    /// Asks for something, by a name that is not used again.
    pub(super) fn ask(&mut self, name: u64, ask: Ask, blocks: Range<u64>, now: u64) {
        look(&self.desk).asked.insert(name, ask.clone());
        if !matches!(ask, Ask::Cancel(_)) {
            self.open.insert(name, Open { ask, blocks, began: now });
        }
        if let Some(socket) = &self.socket {
            // It may have ended meanwhile: then nobody answers.
            let _ = send(socket, &name.to_le_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// Its front end has answered this, which comes over the socket later.
    pub(super) fn is_answered(&mut self, name: u64) -> Option<Open> {
        self.sent.push_back(name);
        self.open.remove(&name)
    }

    /// Takes what has come over the socket: just what its front end has sent.
    pub(super) fn receive(&mut self) -> Result<(), Violation> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let mut memory = [0; 64];
        while !self.sent.is_empty() {
            match recv(socket, &mut memory[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) | Err(Errno::CONNRESET) => return self.closed(),
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(("answers", format!("{:?}: {error}", self.id))),
                Ok((_, count)) => self.bytes.extend_from_slice(&memory[..count]),
            }
            while let Some((name, rest)) = self.bytes.split_first_chunk::<NAME>() {
                let name = u64::from_le_bytes(*name);
                self.bytes = rest.to_vec();
                if self.sent.pop_front() != Some(name) {
                    return Err(("answers", format!("{:?} is sent {name}, unasked", self.id)));
                }
            }
        }
        Ok(())
    }

    fn closed(&mut self) -> Result<(), Violation> {
        self.socket = None;
        if self.stage == Stage::Running {
            return Err(("answers", format!("the front end of {:?} hangs up", self.id)));
        }
        Ok(())
    }

    /// Rings its front end's bell.
    pub(super) fn ring(&mut self) {
        self.rung += 1;
        rustix::io::write(&self.bell, &1u64.to_ne_bytes()).expect("rings");
    }

    /// Ends the connection.
    pub(super) fn hang_up(&mut self) {
        self.socket = None;
        self.stage = Stage::Leaving;
    }

    /// Whether all has come that was asked for.
    pub(super) fn has_all(&self) -> bool {
        self.open.is_empty() && self.sent.is_empty() && look(&self.desk).rung == self.rung
    }
}

/// Two sockets that are connected, with so much room for what was sent and not received.
pub(super) fn connection(room: usize) -> [OwnedFd; 2] {
    let (one, other) = UnixStream::pair().expect("two sockets");
    [one, other].map(|socket| {
        sockopt::set_socket_send_buffer_size(&socket, room).expect("a size");
        OwnedFd::from(socket)
    })
}

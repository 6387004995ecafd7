//! Changes of a client that has closed its connection. What it sent before may be followed by a
//! disconnect request, and is then carried out as ever. Otherwise the client has given it up, and
//! may have written the same blocks over another connection since: it is dropped.
//!
//! Whether the client is there is asked before the first change that an event leads to, so that at
//! most one system call comes to what was received at once. While a request waits for room, and the
//! volume answers nothing that would make some, it is asked once in [`LOOK`]: what is under way and
//! no replica was sent must not wait for longer than its client.

use std::time::Duration;

use evenkeel_core::Instant;
use evenkeel_engine::{FrontendContext, RequestToken};

use super::{Advance, Connection, Expected, MAX_REQUESTS};
use crate::nbd::request::HEADER_LENGTH;
use crate::stream::Stream;

/// How long the volume may answer nothing before a connection whose socket is not read looks
/// whether its client has left.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// What is known of whether the client has closed its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// It may have done so since it was last asked.
    Unknown,
    There,
    /// Nothing follows what is in the socket.
    Left,
}

impl Presence {
    /// Time has passed.
    pub(super) const fn forget(&mut self) {
        if matches!(self, Self::There) {
            *self = Self::Unknown;
        }
    }

    /// Whether the client has closed its connection.
    pub(super) fn has_left(&mut self, stream: &Stream) -> bool {
        if *self == Self::Unknown {
            *self = if stream.has_hung_up() { Self::Left } else { Self::There };
        }
        *self == Self::Left
    }
}

impl Connection {
    /// The client's disconnect request has come: what was held until then is in order.
    pub(super) fn begin_held(&mut self, context: &mut FrontendContext) {
        for (token, operation) in self.held.drain(..) {
            // Only what reads is ever given back.
            let _ = context.submit(RequestToken::of_index(token), operation);
        }
    }

    /// Waits for room, unless all that could make some is held until the client's disconnect
    /// request has come, which is behind what waits: then the client has sent more at once than
    /// there is room for, and has closed its connection without waiting for answers.
    pub(super) fn wait(&mut self, context: &mut FrontendContext) -> Advance {
        let taken = MAX_REQUESTS - self.free.len();
        if !self.held.is_empty() && self.held.len() == taken {
            self.end("the client has closed the connection", context);
        }
        Advance::Wait
    }

    /// Whether a request waits for room that an answer of the volume could make.
    pub(super) fn is_stuck(&self) -> bool {
        let waits = match self.expected {
            Expected::Header => self.free.is_empty(),
            Expected::Room(..) => self.free.len() < MAX_REQUESTS,
            _ => false,
        };
        waits && !self.receiving
    }

    /// An event has been handled.
    pub(super) fn note_stuck(&mut self, now: Instant) {
        self.stuck = if self.is_stuck() { self.stuck.or(Some(now)) } else { None };
    }

    /// When it is to be asked whether the client is there.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.stuck.map(|since| since + LOOK)
    }

    /// Asks whether the client is there. If it has left, its disconnect request may be the next one
    /// in the socket, which is received to see that: it takes no place. Whoever has left anything
    /// else behind has given up what is under way.
    pub(super) fn look(&mut self, context: &mut FrontendContext) {
        self.stuck = None;
        if !self.presence.has_left(&self.stream) {
            return;
        }
        if matches!(self.expected, Expected::Header) && self.stream.pending() < HEADER_LENGTH {
            self.receive(context);
        } else {
            self.end("the client has closed the connection", context);
        }
    }
}

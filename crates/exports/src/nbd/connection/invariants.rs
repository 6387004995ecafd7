//! What must hold of a connection after every step, whatever its client sends and the volume
//! answers.

use super::held::Presence;
use super::{Connection, Expected, MAX_REQUESTS, changes};

impl Connection {
    /// Panics if an invariant does not hold.
    pub(super) fn check_invariants(&self) {
        self.stream.check_invariants();
        self.check_places();
        self.check_held();
        self.check_progress();
        let is_stuck = self.stuck.is_some();
        assert_eq!(is_stuck, self.is_stuck(), "who does not read the socket looks at it in time");
    }

    /// Each place is free, or one request has it.
    fn check_places(&self) {
        let taken = self.open.iter().flatten().count();
        assert_eq!(self.open.len(), MAX_REQUESTS, "there are as many places as ever");
        assert_eq!(taken + self.free.len(), MAX_REQUESTS, "no place is lost");
        let mut is_free = [false; MAX_REQUESTS];
        for place in &self.free {
            assert!(!std::mem::replace(&mut is_free[*place], true), "{place} is free once");
            assert!(self.open[*place].is_none(), "{place} is free, and has a request");
        }
    }

    /// What is held is of a client that has left, and waits for its disconnect request.
    fn check_held(&self) {
        if self.held.is_empty() {
            return;
        }
        assert_eq!(self.presence, Presence::Left, "who is there waits for nothing");
        let is_over = matches!(self.expected, Expected::Nothing | Expected::Ended);
        assert!(!is_over, "what was held is begun by a disconnect request, or dropped");
        let mut is_held = [false; MAX_REQUESTS];
        for (place, operation) in &self.held {
            assert!(!std::mem::replace(&mut is_held[*place], true), "{place} is held once");
            assert!(self.open[*place].is_some(), "{place} is held, and has no request");
            assert!(changes(operation), "what changes nothing is not held");
        }
    }

    /// The connection knows where in the stream it is, and waits for nothing but what will come.
    fn check_progress(&self) {
        let has_request = self.free.len() < MAX_REQUESTS;
        match &self.expected {
            Expected::Payload { buffer, filled, .. } => {
                assert!(*filled <= buffer.len(), "a payload is as long as its header says");
            }
            Expected::Direct { .. } => assert!(self.receiving, "its buffer is lent"),
            Expected::Room(..) | Expected::Nothing => {
                assert!(!self.receiving, "nothing that follows is awaited");
            }
            Expected::Poisoned => panic!("what comes next in the stream is not known"),
            Expected::Header | Expected::Drain { .. } | Expected::Ended => {}
        }
        let is_awaited = match self.expected {
            Expected::Header => self.free.is_empty(),
            // Other clients may have all memory.
            Expected::Room(..) | Expected::Ended => true,
            Expected::Nothing => has_request || self.stream.is_sending(),
            _ => false,
        };
        assert!(self.receiving || self.stream.is_full() || is_awaited, "nothing is awaited");
    }
}

//! The queues of a controller: an association with a host (Base 3.3.2).
//!
//! An association begins with its admin queue. It ends when that queue ends, when the host is
//! silent for too long, or when this side ends it; then all its queues are closed. A queue for I/O
//! that is lost takes the others for I/O with it. The admin queue goes on, though the association
//! should have ended: Linux closes its queues for I/O first, and then shuts the controller down. A
//! queue that the host deletes by Disconnect ends alone.
//!
//! A queue that is to be closed stays known until its connection is gone, with the last of its
//! commands. So neither its number nor the controller's is used again before.

use std::collections::BTreeMap;

use crate::nvme::command::{Connect, Refusal, Status};

/// QID of the admin queue.
const ADMIN: u16 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// It is to be closed; the driver has not been told yet.
    Closing,
    /// The driver closes it.
    Closed,
}

/// A controller's queues, from the admin queue's Connect on.
#[derive(Debug)]
pub(super) struct Queues {
    /// By QID.
    queues: BTreeMap<u16, State>,
    /// How many there may be for I/O.
    max: u16,
    /// How many of these the host has asked for.
    granted: u16,
    has_ended: bool,
}

impl Queues {
    pub(super) fn new(max: u16) -> Self {
        let queues = BTreeMap::from([(ADMIN, State::Open)]);
        Self { queues, max, granted: max, has_ended: false }
    }

    /// Permits as many queues for I/O as the host asks for, if there may be so many (Base
    /// 5.1.25.2.1). Returns how many.
    pub(super) fn grant(&mut self, asked: u16) -> Result<u16, Status> {
        // Those that exist can't be taken back.
        if self.queues.keys().any(|queue| *queue != ADMIN) {
            return Err(Status::Sequence);
        }
        self.granted = asked.min(self.max);
        Ok(self.granted)
    }

    /// How many queues for I/O the host may have.
    pub(super) const fn granted(&self) -> u16 {
        self.granted
    }

    /// Looks whether a queue for I/O may be added.
    pub(super) fn may_add(&self, queue: u16) -> Result<(), Refusal> {
        if queue == ADMIN || queue > self.granted {
            return Err(Refusal::in_entry(Connect::QUEUE_FIELD));
        }
        match self.queues.get(&queue) {
            None => Ok(()),
            Some(State::Open) => Err(Status::Sequence.into()),
            // The host is quicker than the end of what it has reset.
            Some(_) => Err(Status::ControllerBusy.into()),
        }
    }

    /// Adds a queue for I/O.
    pub(super) fn add(&mut self, queue: u16) -> Result<(), Refusal> {
        self.may_add(queue)?;
        self.queues.insert(queue, State::Open);
        Ok(())
    }

    /// Has the queues for I/O closed.
    pub(super) fn reset(&mut self) {
        self.granted = self.max;
        self.close(|queue| queue != ADMIN);
    }

    /// Has all queues closed.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        self.close(|_| true);
    }

    fn close(&mut self, of: impl Fn(u16) -> bool) {
        for (queue, state) in &mut self.queues {
            if *state == State::Open && of(*queue) {
                *state = State::Closing;
            }
        }
    }

    /// The host deletes a queue for I/O (Base 6.4).
    pub(super) fn delete(&mut self, queue: u16) {
        if let Some(state @ State::Open) = self.queues.get_mut(&queue) {
            *state = State::Closing;
        }
    }

    /// A queue's connection is gone. If nobody had closed it, others have to be.
    pub(super) fn gone(&mut self, queue: u16) {
        match self.queues.remove(&queue) {
            Some(State::Open) if queue == ADMIN => self.end(),
            Some(State::Open) => self.close(|queue| queue != ADMIN),
            Some(State::Closing | State::Closed) | None => {}
        }
    }

    /// Whether this queue's connection is not gone, although it may be closed.
    pub(super) fn has(&self, queue: u16) -> bool {
        self.queues.contains_key(&queue)
    }

    /// Whether the association has ended.
    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether there is no queue for I/O.
    pub(super) fn are_idle(&self) -> bool {
        self.queues.keys().all(|queue| *queue == ADMIN)
    }

    /// Whether there is no queue at all.
    pub(super) fn are_gone(&self) -> bool {
        self.queues.is_empty()
    }

    /// Those that are to be closed, each told once.
    pub(super) fn take_closing(&mut self) -> Vec<u16> {
        let closing = self.queues.iter_mut().filter(|(_, state)| **state == State::Closing);
        closing
            .map(|(queue, state)| {
                *state = State::Closed;
                *queue
            })
            .collect()
    }

    /// Asserts what holds after each step.
    pub(super) fn check_invariants(&self) {
        assert!(self.granted <= self.max, "no more are granted than there may be");
        let io = self.queues.keys().filter(|queue| **queue != ADMIN).count();
        assert!(io <= usize::from(self.max), "there are no more than there may be");
        let is_open = |state: &State| *state == State::Open;
        assert!(!self.has_ended || !self.queues.values().any(is_open), "none outlives the end");
        let is_admin_open = self.queues.get(&ADMIN).is_some_and(is_open);
        assert!(self.has_ended || is_admin_open, "without an admin queue nothing goes on");
    }
}

#[cfg(test)]
mod tests;

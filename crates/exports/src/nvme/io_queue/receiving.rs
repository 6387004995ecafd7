//! The way in: bytes of the host, and where its data goes.

use std::io;
use std::ops::Range;

use evenkeel_engine::{BufferMut, FrontendContext};

use super::{MAX_QUEUED, Phase, Queue, State};
use crate::nvme::connection::{End, Event, Slot};

/// From here on data is received straight into its buffer.
const DIRECT: usize = 16 << 10;
/// How much is received at once while large data is expected, which is better received straight
/// into its buffer.
const SHORT_RECEIVE: usize = 4 << 10;

/// What the engine receives into.
#[derive(Debug)]
pub(super) enum Receiving {
    Nothing,
    /// The receive buffer.
    Stream,
    /// This part of a command's buffer.
    Data(Slot, Range<usize>),
}

/// What bytes have led to, besides data.
enum Found {
    /// All data of this command is here.
    Received(Slot),
    Damaged(Slot),
    End(End),
}

impl Queue {
    /// Takes what has been received, and receives more, unless something has to end first.
    pub(super) fn read_on(&mut self, context: &mut FrontendContext) {
        while matches!(self.state, State::Serving)
            && matches!(self.receiving, Receiving::Nothing)
            && self.stalled.is_none()
            && self.queued <= MAX_QUEUED
        {
            let Some(received) = self.received.take() else { return };
            let bytes = &received[self.pending.clone()];
            let (used, event) = self.queue.connection.receive(bytes, &mut self.out);
            self.pending.start += used;
            let is_event = event.is_some();
            let found = match event {
                Some(Event::Command { slot, entry, transfer }) => {
                    self.command(slot, &entry, transfer, context);
                    None
                }
                Some(Event::Data { slot, offset, bytes }) => {
                    self.take_data(slot, offset as usize, bytes);
                    None
                }
                Some(Event::Received(slot)) => Some(Found::Received(slot)),
                Some(Event::Damaged(slot)) => Some(Found::Damaged(slot)),
                Some(Event::End(end)) => Some(Found::End(end)),
                None => None,
            };
            self.received = Some(received);
            self.found(found, context);
            if !is_event {
                self.receive(context);
            }
        }
    }

    fn found(&mut self, found: Option<Found>, context: &mut FrontendContext) {
        match found {
            Some(Found::Received(slot)) => self.data_is_here(slot, context),
            Some(Found::Damaged(slot)) => self.open[slot.index()] = None,
            Some(Found::End(end)) => self.close(end.to_string()),
            None => {}
        }
    }

    /// Puts a piece of a command's data where it belongs.
    fn take_data(&mut self, slot: Slot, offset: usize, bytes: &[u8]) {
        let Some(open) = &mut self.open[slot.index()] else { return };
        match &mut open.phase {
            Phase::Filling(Some(buffer)) => {
                if let Some(place) = buffer.get_mut(offset..offset + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
            Phase::Comparing(pieces, differs) => {
                *differs |= !is_at(pieces, offset, bytes);
            }
            Phase::Filling(None) | Phase::Waiting | Phase::Submitted(_) => {}
        }
    }

    /// Receives into a command's buffer if its data comes next and is long, otherwise into the
    /// receive buffer, after what is left in it.
    fn receive(&mut self, context: &mut FrontendContext) {
        if self.pending.is_empty()
            && let Some((slot, offset, left)) = self.queue.connection.next_data()
            && left as usize >= DIRECT
            && let Some(open) = &mut self.open[slot.index()]
            && let Phase::Filling(buffer) = &mut open.phase
            && let Some(buffer) = buffer.take()
        {
            let range = offset as usize..offset as usize + left as usize;
            context.receive_all(self.descriptor, buffer, range.clone());
            self.receiving = Receiving::Data(slot, range);
            return;
        }
        let Some(mut received) = self.received.take() else { return };
        received.copy_within(self.pending.clone(), 0);
        self.pending = 0..self.pending.len();
        let length = if self.last_was_large { SHORT_RECEIVE } else { received.len() };
        context.receive(self.descriptor, received, self.pending.end..length);
        self.receiving = Receiving::Stream;
    }

    pub(super) fn received(
        &mut self,
        memory: BufferMut,
        result: io::Result<usize>,
        context: &mut FrontendContext,
    ) {
        self.moved = context.now();
        let count = match result {
            Ok(0) => return self.lose("the host has closed the connection".to_owned()),
            Ok(count) => count,
            Err(error) => return self.lose(format!("receiving failed: {error}")),
        };
        if !matches!(self.state, State::Serving) {
            return;
        }
        match std::mem::replace(&mut self.receiving, Receiving::Nothing) {
            Receiving::Data(slot, range) => {
                self.direct(slot, range.start..range.start + count, memory, context);
            }
            Receiving::Stream | Receiving::Nothing => {
                self.pending.end += count;
                self.received = Some(memory);
            }
        }
    }

    /// Data is where it belongs: the connection sees it there.
    fn direct(
        &mut self,
        slot: Slot,
        range: Range<usize>,
        memory: BufferMut,
        context: &mut FrontendContext,
    ) {
        let mut bytes = &memory[range];
        let mut found = None;
        loop {
            let (used, event) = self.queue.connection.receive(bytes, &mut self.out);
            bytes = &bytes[used..];
            match event {
                Some(Event::Data { .. }) => {}
                Some(Event::Received(slot)) => found = Some(Found::Received(slot)),
                Some(Event::Damaged(slot)) => found = Some(Found::Damaged(slot)),
                Some(Event::End(end)) => found = Some(Found::End(end)),
                // No command begins in another one's data.
                Some(Event::Command { .. }) | None => break,
            }
        }
        if let Some(open) = &mut self.open[slot.index()] {
            open.phase = Phase::Filling(Some(memory));
        }
        self.found(found, context);
    }
}

/// Whether these bytes are in the pieces from this offset on. The pieces have no gaps.
fn is_at(pieces: &[(u32, evenkeel_engine::Buffer)], offset: usize, bytes: &[u8]) -> bool {
    let end = offset + bytes.len();
    let mut matched = 0;
    for (start, piece) in pieces {
        let start = *start as usize;
        let from = offset.max(start);
        let to = end.min(start + piece.len());
        if from < to {
            if piece[from - start..to - start] != bytes[from - offset..to - offset] {
                return false;
            }
            matched += to - from;
        }
    }
    matched == bytes.len()
}

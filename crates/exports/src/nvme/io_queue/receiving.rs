//! The way in: bytes of the host, and where its data goes.

use std::io;
use std::ops::Range;

use evenkeel_engine::{BufferMut, FrontendContext};

use super::{Phase, Queue, State};
use crate::nvme::connection::{End, Event, Tag};
use crate::stream::DIRECT;

/// What the engine receives into.
#[derive(Debug)]
pub(super) enum Receiving {
    Nothing,
    /// The receive buffer.
    Stream,
    /// This part of a command's buffer.
    Data(Tag, Range<usize>),
}

/// What bytes have led to, besides data.
enum Found {
    /// All data of this command is here.
    Received(Tag),
    Damaged(Tag),
    End(End),
}

impl Queue {
    /// Takes what has been received, and receives more, unless something has to end first.
    pub(super) fn read_on(&mut self, context: &mut FrontendContext) {
        while matches!(self.state, State::Serving)
            && matches!(self.receiving, Receiving::Nothing)
            && self.stalled.is_none()
            && !self.stream.is_full()
        {
            // Nothing has come.
            let Some((received, pending)) = self.stream.take() else { return };
            let bytes = &received[pending];
            let (used, event) = self.queue.connection.receive(bytes, &mut self.out);
            self.stream.consume(used);
            let is_event = event.is_some();
            let found = match event {
                Some(Event::Command { tag, entry, transfer }) => {
                    self.command(tag, &entry, transfer, context);
                    None
                }
                Some(Event::Data { tag, offset, bytes }) => {
                    self.take_data(tag, offset as usize, bytes);
                    None
                }
                Some(Event::Refused(fuse)) => {
                    self.refused(fuse);
                    None
                }
                Some(Event::Received(tag)) => Some(Found::Received(tag)),
                Some(Event::Damaged(tag)) => Some(Found::Damaged(tag)),
                Some(Event::End(end)) => Some(Found::End(end)),
                None => None,
            };
            self.stream.put_back(received);
            self.found(found, context);
            if !is_event {
                self.receive(context);
            }
        }
    }

    fn found(&mut self, found: Option<Found>, context: &mut FrontendContext) {
        match found {
            Some(Found::Received(tag)) => self.data_is_here(tag, context),
            Some(Found::Damaged(tag)) => {
                self.open[tag.index()] = None;
                self.report_aborted(tag, false);
                self.damaged(tag);
            }
            Some(Found::End(end)) => self.close(end.to_string(), context),
            None => {}
        }
    }

    /// Puts a piece of a command's data where it belongs.
    fn take_data(&mut self, tag: Tag, offset: usize, bytes: &[u8]) {
        // It was answered before its data were here: what still comes of them goes nowhere.
        let Some(open) = &mut self.open[tag.index()] else { return };
        match &mut open.phase {
            Phase::Filling(Some(buffer)) => {
                if let Some(place) = buffer.get_mut(offset..offset + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
            Phase::Comparing(pieces, differs) => {
                *differs |= !is_at(pieces, offset, bytes);
            }
            Phase::Filling(None)
            | Phase::Held(_)
            | Phase::Waiting
            | Phase::Submitted(_)
            | Phase::Asked(_) => {}
        }
    }

    /// Receives into a command's buffer if its data comes next and is long, otherwise into the
    /// receive buffer, after what is left in it.
    fn receive(&mut self, context: &mut FrontendContext) {
        if self.stream.pending() == 0
            && let Some((tag, offset, left)) = self.queue.connection.next_data()
            && left as usize >= DIRECT
            && let Some(open) = &mut self.open[tag.index()]
            && let Phase::Filling(buffer) = &mut open.phase
            && let Some(buffer) = buffer.take()
        {
            let range = offset as usize..offset as usize + left as usize;
            self.stream.receive_into(buffer, range.clone(), context);
            self.receiving = Receiving::Data(tag, range);
            return;
        }
        if self.stream.receive(self.last_was_large, context) {
            self.receiving = Receiving::Stream;
        }
    }

    pub(super) fn received(
        &mut self,
        memory: BufferMut,
        result: io::Result<usize>,
        context: &mut FrontendContext,
    ) {
        let count = match self.stream.received(result, context.now()) {
            Ok(count) => count,
            Err(reason) => return self.lose(reason, context),
        };
        if !matches!(self.state, State::Serving) {
            return;
        }
        match std::mem::replace(&mut self.receiving, Receiving::Nothing) {
            Receiving::Data(tag, range) => {
                self.direct(tag, range.start..range.start + count, memory, context);
            }
            Receiving::Stream | Receiving::Nothing => {
                self.stream.arrived(memory, count);
            }
        }
    }

    /// Data is where it belongs: the connection sees it there.
    fn direct(
        &mut self,
        tag: Tag,
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
                Some(Event::Received(tag)) => found = Some(Found::Received(tag)),
                Some(Event::Damaged(tag)) => found = Some(Found::Damaged(tag)),
                Some(Event::End(end)) => found = Some(Found::End(end)),
                // No command begins in another one's data.
                Some(Event::Command { .. } | Event::Refused(_)) | None => break,
            }
        }
        if let Some(open) = &mut self.open[tag.index()] {
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

//! Commands, from their arrival until the volume has them.

use evenkeel_core::Operation;
use evenkeel_engine::{Buffer, FrontendContext};

use super::{Open, Phase, Queue, State};
use crate::nvme::command::{Entry, Fabrics, Status};
use crate::nvme::connection::{Slot, Transfer};
use crate::nvme::io::{self, Ask};

/// From here on data on request is worth being received straight into its buffer.
const LARGE: u32 = 16 << 10;

impl Queue {
    pub(super) fn command(
        &mut self,
        slot: Slot,
        entry: &Entry,
        transfer: Transfer,
        context: &mut FrontendContext,
    ) {
        self.last_was_large = matches!(transfer, Transfer::OnRequest(length) if length >= LARGE);
        if entry.opcode == Fabrics::OPCODE {
            return self.fabrics(slot, entry);
        }
        match Ask::read(entry, transfer, &self.namespace()) {
            Ok(ask) => {
                let phase = Phase::Waiting;
                self.open[slot.index()] = Some(Open { slot, ask, transfer, phase });
                // Who came first gets memory first.
                let may_begin = self.waiting.is_empty() || !needs_memory(&ask);
                if !may_begin || !self.begin(slot, context) {
                    self.wait(slot, transfer);
                }
            }
            Err(status) => self.answer(slot, status),
        }
    }

    /// Only Disconnect has a meaning here (Base 6.4).
    fn fabrics(&mut self, slot: Slot, entry: &Entry) {
        let refusal = match Fabrics::read(entry) {
            Ok(Fabrics::Disconnect) => return self.delete(slot),
            Ok(Fabrics::Connect(_)) => Status::Sequence,
            Ok(Fabrics::PropertyGet { .. } | Fabrics::PropertySet { .. }) => Status::InvalidOpcode,
            Err(refusal) => refusal.status,
        };
        self.answer(slot, refusal);
    }

    /// The host deletes the queue: what the volume has not begun is not begun any more, and what it
    /// has begun is awaited.
    fn delete(&mut self, slot: Slot) {
        let deleted = std::mem::replace(&mut self.queue.deleted, Box::new(|| {}));
        deleted();
        self.state = State::Deleting(slot);
        self.waiting.clear();
        for index in 0..self.open.len() {
            let is_begun = |open: &mut Open| !matches!(open.phase, Phase::Submitted(_));
            if let Some(open) = self.open[index].take_if(is_begun) {
                self.answer(open.slot, Status::QueueDeleted);
            }
        }
    }

    fn wait(&mut self, slot: Slot, transfer: Transfer) {
        match transfer {
            Transfer::InCapsule(_) => self.stalled = Some(slot),
            _ => self.waiting.push_back(slot),
        }
    }

    /// Begins what waits for memory, as far as there is some now.
    pub(super) fn retry(&mut self, context: &mut FrontendContext) {
        if !matches!(self.state, State::Serving) {
            return;
        }
        while let Some(slot) = self.waiting.front().copied() {
            if !self.begin(slot, context) {
                return;
            }
            self.waiting.pop_front();
        }
        if let Some(slot) = self.stalled
            && self.begin(slot, context)
        {
            self.release(slot);
        }
    }

    /// The stream goes on if it has waited for this command, and its data can be taken now.
    pub(super) fn release(&mut self, slot: Slot) {
        let takes = self.open[slot.index()].as_ref().is_none_or(|open| {
            let is_compare = matches!(open.ask, Ask::Compare { .. });
            !(is_compare && matches!(open.phase, Phase::Submitted(_)))
        });
        if self.stalled == Some(slot) && takes {
            self.stalled = None;
        }
    }

    /// Begins a command that waits. Returns whether there was memory for it.
    fn begin(&mut self, slot: Slot, context: &mut FrontendContext) -> bool {
        let Some(open) = &mut self.open[slot.index()] else { return true };
        if !matches!(open.phase, Phase::Waiting) {
            return true;
        }
        let (ask, transfer) = (open.ask, open.transfer);
        let operation = match ask {
            Ask::Write { .. } | Ask::Manage { .. } => return self.fill(slot, transfer, context),
            Ask::Read { offset, length }
            | Ask::Compare { offset, length }
            | Ask::Verify { offset, length } => Operation::Read { offset, length },
            Ask::Zero { offset, length, deallocate, durable } => {
                Operation::Zero { offset, length, unmap: deallocate, durable }
            }
            Ask::Flush => Operation::Flush,
        };
        if !self.submit(slot, operation, Vec::new(), context) {
            return false;
        }
        // Its data can't be taken before what it is compared with is here.
        if matches!(ask, Ask::Compare { .. }) && matches!(transfer, Transfer::InCapsule(_)) {
            self.stalled = Some(slot);
        }
        true
    }

    /// Makes room for a command's data, and requests it if it is not in its capsule.
    fn fill(&mut self, slot: Slot, transfer: Transfer, context: &mut FrontendContext) -> bool {
        let length = transfer.length();
        let Some(buffer) = context.allocate(length as usize) else { return false };
        self.stream.move_on(context.now());
        if let Some(open) = &mut self.open[slot.index()] {
            open.phase = Phase::Filling(Some(buffer));
        }
        self.request(slot, transfer);
        true
    }

    /// Requests all data of a command that is not in its capsule.
    pub(super) fn request(&mut self, slot: Slot, transfer: Transfer) {
        if let Transfer::OnRequest(length) = transfer
            && self.queue.connection.request(slot, length, &mut self.out).is_err()
        {
            self.answer(slot, Status::Internal);
        }
    }

    /// Returns whether there was room for the answer.
    pub(super) fn submit(
        &mut self,
        slot: Slot,
        operation: Operation<Buffer>,
        ranges: Vec<(u64, u64)>,
        context: &mut FrontendContext,
    ) -> bool {
        if context.submit(slot.index() as u64, operation).is_err() {
            return false;
        }
        if let Some(open) = &mut self.open[slot.index()] {
            open.phase = Phase::Submitted(ranges);
        }
        true
    }

    /// All data of a command is here.
    pub(super) fn data_is_here(&mut self, slot: Slot, context: &mut FrontendContext) {
        let namespace = self.namespace();
        let Some(open) = &mut self.open[slot.index()] else { return };
        match (&mut open.phase, open.ask) {
            (Phase::Filling(buffer), Ask::Write { offset, durable, .. }) => {
                let Some(buffer) = buffer.take() else { return };
                let payload = buffer.freeze();
                let operation = Operation::Write { offset, payload, durable };
                // Only what reads is ever given back.
                self.submit(slot, operation, Vec::new(), context);
            }
            (Phase::Filling(buffer), Ask::Manage { ranges, deallocate }) => {
                let list = buffer.take();
                let data = list.as_deref().unwrap_or_default();
                match io::ranges(data, ranges, &namespace) {
                    Ok(ranges) if deallocate => self.deallocate(slot, ranges, context),
                    Ok(_) => self.answer(slot, Status::Success),
                    Err(status) => self.answer(slot, status),
                }
            }
            (Phase::Comparing(_, differs), _) => {
                let status = if *differs { Status::CompareFailure } else { Status::Success };
                self.answer(slot, status);
            }
            _ => self.answer(slot, Status::Internal),
        }
    }

    /// Deallocates the last of these ranges, or ends if there is none.
    pub(super) fn deallocate(
        &mut self,
        slot: Slot,
        mut ranges: Vec<(u64, u64)>,
        context: &mut FrontendContext,
    ) {
        let Some((offset, length)) = ranges.pop() else {
            return self.answer(slot, Status::Success);
        };
        let operation = Operation::Zero { offset, length, unmap: true, durable: false };
        self.submit(slot, operation, ranges, context);
    }
}

const fn needs_memory(ask: &Ask) -> bool {
    !matches!(ask, Ask::Flush | Ask::Zero { .. })
}

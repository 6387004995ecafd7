//! Commands, from their arrival until the volume has them.

use evenkeel_core::Operation;
use evenkeel_engine::frontend::MAX_SPARE;
use evenkeel_engine::memory::Reservation;
use evenkeel_engine::{Buffer, BufferMut, FrontendContext, RequestToken};

use super::{Open, Phase, Queue, State};
use crate::nvme::command::{Entry, Fabrics, Fuse, Status};
use crate::nvme::connection::{MAX_IN_CAPSULE, Tag, Transfer};
use crate::nvme::io::{self, Ask};

/// From here on data on request is worth being received straight into its buffer.
const LARGE: u32 = 16 << 10;

const _: () = assert!(MAX_IN_CAPSULE as usize <= MAX_SPARE, "a capsule can always be taken");

impl Queue {
    pub(super) fn command(
        &mut self,
        tag: Tag,
        entry: &Entry,
        transfer: Transfer,
        context: &mut FrontendContext,
    ) {
        self.last_was_large = matches!(transfer, Transfer::OnRequest(length) if length >= LARGE);
        let is_fabrics = entry.opcode == Fabrics::OPCODE;
        let fuse = if is_fabrics { Ok(Fuse::None) } else { entry.fuse() };
        let before = self.follow(fuse);
        if is_fabrics {
            return self.fabrics(tag, entry, context);
        }
        match (fuse, Ask::read(entry, transfer, &self.namespace())) {
            (Ok(Fuse::First), ask) => self.first(tag, ask, transfer, context),
            (Ok(Fuse::Second), ask) => self.second(before, tag, ask, transfer, context),
            (_, Ok(ask)) if self.is_excluded(&ask) => {
                self.answer(tag, Status::ReservationConflict);
            }
            (_, Ok(ask)) => self.take(tag, ask, transfer, context),
            (_, Err(status)) => self.answer(tag, status),
        }
    }

    /// A command that is in order.
    pub(super) fn take(
        &mut self,
        tag: Tag,
        ask: Ask,
        transfer: Transfer,
        context: &mut FrontendContext,
    ) {
        let phase = Phase::Waiting;
        self.open[tag.index()] = Some(Open { tag, ask, transfer, phase });
        if self.begin(tag, context) {
            return;
        }
        let is_half = matches!(ask, Ask::FusedCompare { .. } | Ask::FusedWrite { .. });
        match transfer {
            Transfer::InCapsule(_) if is_half => self.interrupt(tag),
            Transfer::InCapsule(_) => self.stalled = Some(tag),
            _ => self.waiting.push_back(tag),
        }
    }

    /// Only Disconnect has a meaning here (Base 6.4).
    fn fabrics(&mut self, tag: Tag, entry: &Entry, context: &mut FrontendContext) {
        let refusal = match Fabrics::read(entry) {
            Ok(Fabrics::Disconnect) => return self.delete(tag, context),
            Ok(Fabrics::Connect(_)) => Status::Sequence,
            Ok(Fabrics::PropertyGet { .. } | Fabrics::PropertySet { .. }) => Status::InvalidOpcode,
            Err(refusal) => refusal.status,
        };
        self.answer(tag, refusal);
    }

    /// Begins what waits for memory, as far as there is some now.
    pub(super) fn retry(&mut self, context: &mut FrontendContext) {
        if !matches!(self.state, State::Serving) {
            return;
        }
        while let Some(tag) = self.waiting.front().copied() {
            if !self.begin(tag, context) {
                break;
            }
            self.waiting.pop_front();
        }
        if let Some(tag) = self.stalled
            && self.begin(tag, context)
        {
            self.release(tag);
        }
    }

    /// The stream goes on if it has waited for this command, and its data can be taken now.
    pub(super) fn release(&mut self, tag: Tag) {
        let takes = self.open[tag.index()].as_ref().is_none_or(|open| {
            let is_compare = matches!(open.ask, Ask::Compare { .. });
            !(is_compare && open.is_submitted())
        });
        if self.stalled == Some(tag) && takes {
            self.stalled = None;
        }
    }

    /// Begins a command that waits. Returns whether there was memory for it.
    fn begin(&mut self, tag: Tag, context: &mut FrontendContext) -> bool {
        let Some(open) = &mut self.open[tag.index()] else { return true };
        if !matches!(open.phase, Phase::Waiting) {
            return true;
        }
        let (ask, transfer) = (open.ask, open.transfer);
        let operation = match ask {
            Ask::Read { offset, length }
            | Ask::Compare { offset, length }
            | Ask::Verify { offset, length } => {
                return self.read(tag, offset, length, transfer, context);
            }
            Ask::Write { .. } | Ask::Manage { .. } | Ask::Reserve(_) => {
                return self.fill(tag, transfer, context);
            }
            Ask::Report { length } => return self.report(tag, length, transfer, context),
            Ask::FusedCompare { length, .. } => {
                return self.fill_first(tag, length, transfer, context);
            }
            Ask::FusedWrite { .. } => return self.fill_second(tag, transfer, context),
            Ask::Zero { offset, length, deallocate, durable } => {
                Operation::Zero { offset, length, unmap: deallocate, durable }
            }
            Ask::Flush => Operation::Flush,
        };
        self.submit(tag, operation, Vec::new(), context);
        true
    }

    /// Whether it is a command's turn to get memory of the volume: who came first gets it first.
    pub(super) fn is_next(&self, tag: Tag) -> bool {
        self.waiting.front().is_none_or(|first| *first == tag)
    }

    /// Room for a command's data, or for what is read for it.
    pub(super) fn reserve(
        &self,
        tag: Tag,
        length: u32,
        transfer: Transfer,
        context: &mut FrontendContext,
    ) -> Option<Reservation> {
        let length = length as usize;
        let room = if self.is_next(tag) { context.reserve([length]) } else { None };
        match room {
            Some([room]) => Some(room),
            None if matches!(transfer, Transfer::InCapsule(_)) => context.reserve_spare(length),
            None => None,
        }
    }

    /// Reads for a command, if there is room.
    fn read(
        &mut self,
        tag: Tag,
        offset: u64,
        length: u32,
        transfer: Transfer,
        context: &mut FrontendContext,
    ) -> bool {
        let Some(room) = self.reserve(tag, length, transfer, context) else { return false };
        let Some(open) = &mut self.open[tag.index()] else { return true };
        open.phase = Phase::Submitted(Vec::new());
        context.submit_in(
            RequestToken::of_index(tag.index()),
            Operation::Read { offset, length },
            room,
        );
        // The data of a Compare can't be taken before what it is compared with is here.
        if matches!(transfer, Transfer::InCapsule(_)) {
            self.stalled = Some(tag);
        }
        true
    }

    /// Makes room for a command's data, and requests it if it is not in its capsule.
    fn fill(&mut self, tag: Tag, transfer: Transfer, context: &mut FrontendContext) -> bool {
        let length = transfer.length();
        let Some(room) = self.reserve(tag, length, transfer, context) else { return false };
        self.fill_into(tag, room.into_buffer(length as usize), transfer, context);
        true
    }

    /// A command's data comes into this buffer.
    pub(super) fn fill_into(
        &mut self,
        tag: Tag,
        buffer: BufferMut,
        transfer: Transfer,
        context: &FrontendContext,
    ) {
        self.stream.move_on(context.now());
        if let Some(open) = &mut self.open[tag.index()] {
            open.phase = Phase::Filling(Some(buffer));
        }
        self.request(tag, transfer);
    }

    /// Requests all data of a command that is not in its capsule.
    pub(super) fn request(&mut self, tag: Tag, transfer: Transfer) {
        if let Transfer::OnRequest(length) = transfer
            && self.queue.connection.request(tag, length, &mut self.out).is_err()
        {
            self.answer(tag, Status::Internal);
        }
    }

    /// Has the volume do something that reads nothing.
    fn submit(
        &mut self,
        tag: Tag,
        operation: Operation<Buffer>,
        ranges: Vec<(u64, u64)>,
        context: &mut FrontendContext,
    ) {
        if let Some(open) = &mut self.open[tag.index()] {
            open.phase = Phase::Submitted(ranges);
        }
        // Only what reads is ever given back.
        let _ = context.submit(RequestToken::of_index(tag.index()), operation);
    }

    /// All data of a command is here.
    pub(super) fn data_is_here(&mut self, tag: Tag, context: &mut FrontendContext) {
        let namespace = self.namespace();
        // It was answered before its data were here, as when it is aborted.
        let Some(open) = &mut self.open[tag.index()] else { return };
        match (&mut open.phase, open.ask) {
            (Phase::Filling(buffer), Ask::Write { offset, durable, .. }) => {
                // There was one, or no data would have been requested.
                let Some(buffer) = buffer.take() else { return };
                let payload = buffer.freeze();
                let operation = Operation::Write { offset, payload, durable };
                self.submit(tag, operation, Vec::new(), context);
            }
            (Phase::Filling(buffer), Ask::FusedCompare { .. } | Ask::FusedWrite { .. }) => {
                // As above.
                let Some(buffer) = buffer.take() else { return };
                open.phase = Phase::Held(buffer.freeze());
                self.compare_and_write(tag, context);
            }
            (Phase::Filling(buffer), Ask::Manage { ranges, deallocate }) => {
                let list = buffer.take();
                let data = list.as_deref().unwrap_or_default();
                match io::ranges(data, ranges, &namespace) {
                    Ok(ranges) if deallocate => self.deallocate(tag, ranges, context),
                    Ok(_) => self.answer(tag, Status::Success),
                    Err(status) => self.answer(tag, status),
                }
            }
            (Phase::Filling(buffer), Ask::Reserve(reserve)) => {
                let keys = buffer.take();
                match reserve.with(keys.as_deref().unwrap_or_default()) {
                    Ok(wanted) => self.ask(tag, wanted, Phase::Asked(None)),
                    Err(status) => self.answer(tag, status),
                }
            }
            (Phase::Comparing(_, differs), _) => {
                let status = if *differs { Status::CompareFailure } else { Status::Success };
                self.answer(tag, status);
            }
            _ => self.answer(tag, Status::Internal),
        }
    }

    /// Deallocates the last of these ranges, or ends if there is none.
    pub(super) fn deallocate(
        &mut self,
        tag: Tag,
        mut ranges: Vec<(u64, u64)>,
        context: &mut FrontendContext,
    ) {
        let Some((offset, length)) = ranges.pop() else {
            return self.answer(tag, Status::Success);
        };
        let operation = Operation::Zero { offset, length, unmap: true, durable: false };
        self.submit(tag, operation, ranges, context);
    }
}

//! The way back: the volume's replies, as answers to the host.

use evenkeel_core::{Reply, RequestError};
use evenkeel_engine::{Buffer, FrontendContext, RequestToken};

use super::{Phase, Queue, State};
use crate::nvme::command::Status;
use crate::nvme::connection::Tag;
use crate::nvme::io::{self, Ask};

impl Queue {
    pub(super) fn replied(
        &mut self,
        token: RequestToken,
        result: Result<Reply<Buffer>, RequestError>,
        context: &mut FrontendContext,
    ) {
        let index = token.index();
        // The volume answers what it was asked, once, and commands stay until it has.
        let Some(open) = self.open.get_mut(index).and_then(Option::as_mut) else { return };
        let Phase::Submitted(ranges) = &mut open.phase else { return };
        let (tag, ask, transfer, ranges) =
            (open.tag, open.ask, open.transfer, std::mem::take(ranges));
        let goes_on = matches!(self.state, State::Serving);
        let is_to_be_aborted = self.aborting.iter().any(|(aborting, _)| *aborting == tag);
        match (result, ask) {
            (result, Ask::FusedCompare { .. }) => self.compared_and_written(tag, &result),
            // The rest of it is not begun any more.
            (Ok(_), Ask::Compare { .. } | Ask::Manage { .. }) if !goes_on => {
                self.answer(tag, Status::QueueDeleted);
            }
            (Err(error), ask) => self.failed(tag, error, &ask),
            // What it has read is not compared any more: so only what is submitted is `aborting`.
            (Ok(Reply::Data(_)), Ask::Compare { .. }) if is_to_be_aborted => {
                self.report_cancelled(tag);
                self.answer(tag, Status::AbortRequested);
            }
            (Ok(Reply::Data(pieces)), Ask::Read { length, .. }) if is_whole(&pieces, length) => {
                self.data(tag, pieces, context);
            }
            (Ok(Reply::Data(pieces)), Ask::Verify { length, .. }) if is_whole(&pieces, length) => {
                self.answer(tag, Status::Success);
            }
            (Ok(Reply::Data(pieces)), Ask::Compare { length, .. }) if is_whole(&pieces, length) => {
                open.phase = Phase::Comparing(pieces, false);
                self.stream.move_on(context.now());
                self.request(tag, transfer);
            }
            (Ok(Reply::Done), Ask::Manage { .. }) => self.deallocate(tag, ranges, context),
            (Ok(Reply::Done), Ask::Write { .. } | Ask::Zero { .. } | Ask::Flush) => {
                self.answer(tag, Status::Success);
            }
            (Ok(_), _) => self.answer(tag, Status::Internal),
        }
        self.release(tag);
    }

    fn failed(&mut self, tag: Tag, error: RequestError, ask: &Ask) {
        // Of several ranges some may be deallocated: that is an effect.
        if error == RequestError::Cancelled && !matches!(ask, Ask::Manage { .. }) {
            self.report_cancelled(tag);
        }
        self.answer(tag, self.failure(error, reads(ask)));
    }

    pub(super) fn data(
        &mut self,
        tag: Tag,
        pieces: Vec<(u32, Buffer)>,
        context: &mut FrontendContext,
    ) {
        if self.is_lost {
            // Nobody takes it, and behind what was dropped it would be taken for something else.
            return self.answer(tag, Status::Success);
        }
        let parts: Vec<&[u8]> = pieces.iter().map(|(_, piece)| &**piece).collect();
        let mut after = Vec::new();
        let connection = &mut self.queue.connection;
        if connection.answer_with(tag, 0, &parts, &mut self.out, &mut after).is_err() {
            return self.answer(tag, Status::Internal);
        }
        self.open[tag.index()] = None;
        self.report_aborted(tag, false);
        self.send(context);
        for (_, piece) in pieces {
            self.stream.send_buffer(piece, context);
        }
        self.out.append(&mut after);
    }

    /// Answers a command, and forgets it.
    pub(super) fn answer(&mut self, tag: Tag, status: Status) {
        self.open[tag.index()] = None;
        // Each command is answered once.
        let _ = self.queue.connection.answer(tag, status, 0, &mut self.out);
        self.report_aborted(tag, false);
    }

    /// How a command ends that the volume has not carried out. If it was cancelled: because the
    /// host wanted it aborted, or because the queue ends.
    pub(super) const fn failure(&self, error: RequestError, reads: bool) -> Status {
        match error {
            RequestError::Cancelled if !matches!(self.state, State::Serving) => {
                Status::QueueDeleted
            }
            error => io::status(error, reads),
        }
    }
}

/// Whether a command only reads.
const fn reads(ask: &Ask) -> bool {
    matches!(ask, Ask::Read { .. } | Ask::Compare { .. } | Ask::Verify { .. })
}

fn is_whole(pieces: &[(u32, Buffer)], length: u32) -> bool {
    pieces.iter().map(|(_, piece)| piece.len()).sum::<usize>() == length as usize
}

//! Device flushes, shared by all who wait for one (rule W4).
//!
//! A flush that comes while one runs waits for the next one, because the one that runs may have
//! begun before its writes. A flush begins after all writes that it covers are on the disk.

use super::flush_queue::{FlushWaiter, NextFlush};
use super::{Context, DiskAction, DiskError, DiskTicket, Replica};
use crate::message::Message;
use crate::payload::Payload;
use crate::view::ReplicaState;

impl<P: Payload> Replica<P> {
    pub(super) fn flush(&mut self, cx: &mut Context<'_, P>, waiter: FlushWaiter) {
        self.flushes.wait(waiter);
        self.start_flush(cx);
    }

    /// Starts a device flush if none runs and somebody who waits is ready for one.
    pub(super) fn start_flush(&mut self, cx: &mut Context<'_, P>) {
        let operations = &self.operations;
        let has_earlier_write = |link, covers| operations.have_earlier_write(link, covers);
        match self.flushes.begin(has_earlier_write) {
            NextFlush::None => {}
            NextFlush::Fails(waiters, error) => self.answer_flush(cx, waiters, Err(error)),
            NextFlush::Begins => {
                self.rebuild_flush_begins();
                // An in-sync replica writes only to open regions (I5), and a crash makes their
                // checksums unknown anyway. What a rebuild copies lies in closed ones, and counts
                // once it is flushed.
                let with_checksums = self.state() != Some(ReplicaState::InSync);
                cx.disk(DiskTicket::Flush, DiskAction::Flush { with_checksums });
            }
        }
    }

    pub(super) fn flush_done(&mut self, cx: &mut Context<'_, P>, outcome: Result<(), DiskError>) {
        let (waiters, outcome) = self.flushes.ended(outcome);
        if let Err(error) = outcome {
            // Also those who did not ask: a primary that relies on this disk must not believe its
            // next incarnation.
            self.tell_disk_failed(cx, error.into());
        }
        self.rebuild_flush_ended(outcome.is_ok());
        self.answer_flush(cx, waiters, outcome);
        self.start_flush(cx);
    }

    /// A device flush has failed that was not begun here. Primaries learn of it at once: if the
    /// process ends before the next flush, nobody else would know.
    pub(super) fn flush_failed(&mut self, cx: &mut Context<'_, P>) {
        self.disk_errors += 1;
        self.flushes.fail(DiskError::Lost);
        self.tell_disk_failed(cx, DiskError::Lost.into());
    }

    /// A write has ended that was to be durable by itself. If it has failed as a flush does, it may
    /// have lost what was written before, and nothing is said to be durable any more.
    pub(super) fn durable_write_done<T>(
        &mut self,
        cx: &mut Context<'_, P>,
        outcome: Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        if let Err(DiskError::Lost) = &outcome {
            self.flushes.fail(DiskError::Lost);
            self.tell_disk_failed(cx, DiskError::Lost.into());
        }
        outcome.and_then(|done| self.flushes.failure().map_or(Ok(done), Err))
    }

    fn answer_flush(
        &mut self,
        cx: &mut Context<'_, P>,
        waiters: Vec<FlushWaiter>,
        outcome: Result<(), DiskError>,
    ) {
        for waiter in waiters {
            match waiter {
                FlushWaiter::Primary { link, id, .. } => {
                    let result = outcome.map_err(Into::into);
                    self.confirm(cx, link, Message::Done { id, result }, None);
                }
                FlushWaiter::Intents if outcome.is_ok() => self.intents.flushed(),
                FlushWaiter::Intents | FlushWaiter::Copies => {}
                FlushWaiter::Rebuild => self.rebuild_flushed(cx, outcome),
            }
        }
    }
}

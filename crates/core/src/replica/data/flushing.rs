//! Device flushes, shared by all who wait for one (rule W4).
//!
//! A flush that comes while one runs waits for the next one, because the one that runs may have
//! begun before its writes. A flush begins after all writes that it covers are on the disk.

use super::flush_queue::NextFlush;
use super::{Data, FlushWaiter, Lower};
use crate::message::Message;
use crate::payload::Payload;
use crate::replica::{Context, DiskAction, DiskError, DiskTicket};
use crate::view::ReplicaState;

impl<P: Payload> Data<P> {
    pub fn flush(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>, waiter: FlushWaiter) {
        self.flushes.wait(waiter);
        self.start_flush(cx, lower);
    }

    /// Starts a device flush if none runs and somebody who waits is ready for one.
    pub fn start_flush(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        let operations = &self.operations;
        let has_earlier_write = |link, covers| operations.have_earlier_write(link, covers);
        match self.flushes.begin(has_earlier_write) {
            NextFlush::None => {}
            NextFlush::Fails(waiters, error) => self.answer_flush(cx, lower, waiters, Err(error)),
            NextFlush::Begins => {
                lower.copier.flush_begins();
                // An in-sync replica writes only to open regions (I5), and a crash makes their
                // checksums unknown anyway. What a rebuild copies lies in closed ones, and counts
                // once it is flushed.
                let with_checksums = lower.views.state() != Some(ReplicaState::InSync);
                cx.disk(DiskTicket::Flush, DiskAction::Flush { with_checksums });
            }
        }
    }

    pub fn flush_done(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        outcome: Result<(), DiskError>,
    ) {
        let (waiters, outcome) = self.flushes.ended(outcome);
        if let Err(error) = outcome {
            // Also those who did not ask: a primary that relies on this disk must not believe its
            // next incarnation.
            lower.sessions.report_disk_failed(cx, lower.views, error.into());
        }
        lower.copier.flush_ended(outcome.is_ok());
        self.answer_flush(cx, lower, waiters, outcome);
        self.start_flush(cx, lower);
    }

    /// A device flush has failed that was not begun here. Primaries learn of it at once: if the
    /// process ends before the next flush, nobody else would know.
    pub fn flush_failed(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        self.flushes.fail(DiskError::Lost);
        lower.sessions.report_disk_failed(cx, lower.views, DiskError::Lost.into());
    }

    /// A write has ended that was to be durable by itself. If it has failed as a flush does, it may
    /// have lost what was written before, and nothing is said to be durable any more.
    pub fn durable_write_done<T>(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        outcome: Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        if let Err(DiskError::Lost) = &outcome {
            self.flushes.fail(DiskError::Lost);
            lower.sessions.report_disk_failed(cx, lower.views, DiskError::Lost.into());
        }
        outcome.and_then(|done| self.flushes.failure().map_or(Ok(done), Err))
    }

    fn answer_flush(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        waiters: Vec<FlushWaiter>,
        outcome: Result<(), DiskError>,
    ) {
        for waiter in waiters {
            match waiter {
                FlushWaiter::Primary { link, id, .. } => {
                    let result = outcome.map_err(Into::into);
                    lower.sessions.confirm(
                        cx,
                        lower.views,
                        link,
                        Message::Done { id, result },
                        None,
                    );
                }
                FlushWaiter::Intents if outcome.is_ok() => lower.log.flushed(),
                FlushWaiter::Intents | FlushWaiter::Copies => {}
                FlushWaiter::Rebuild => {
                    if let Err(error) = lower.copier.flushed(cx.now, outcome) {
                        lower.sessions.report_disk_failed(cx, lower.views, error.into());
                    }
                }
            }
        }
    }
}

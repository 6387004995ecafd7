//! Device flushes, shared by all who wait for one (rule W4).
//!
//! A flush that comes while one runs waits for the next one, because the one that runs may have
//! begun before its writes. A flush begins after all writes that it covers are on the disk.

use super::{Context, DiskAction, DiskError, DiskTicket, Replica};
use crate::ids::*;
use crate::message::{Message, OperationId};
use crate::payload::Payload;
use crate::view::ReplicaState;

/// Who waits for a device flush.
#[derive(Debug, Clone, Copy)]
pub(super) enum FlushWaiter {
    /// A primary's flush, or its durable write.
    Primary {
        /// Over which link it came.
        link: LinkId,
        /// Which operation.
        id: OperationId,
        /// The writes up to this one must be on the disk before the flush begins; `None` if that
        /// is known.
        after: Option<Sequence>,
    },
    /// The intent log: writes are stable but for this.
    Intents,
    /// The rebuild, which has copied much.
    Copies,
    /// The rebuild, which has nothing left to copy.
    Rebuild,
}

/// The flush that runs, and those who wait.
#[derive(Debug, Default)]
pub(super) struct FlushQueue {
    /// For whom the flush is that runs.
    running: Option<Vec<FlushWaiter>>,
    waiting: Vec<FlushWaiter>,
    /// A device flush has failed: what was written before may be lost even if a later flush
    /// succeeds, so none does until the replica is opened anew or rebuilt from nothing.
    broken: Option<DiskError>,
}

impl FlushQueue {
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    /// How a flush has failed, if one has.
    pub fn failure(&self) -> Option<DiskError> {
        self.broken
    }

    /// A device flush has failed that nobody here has asked for: neither the one that runs nor any
    /// later one is believed.
    pub fn fail(&mut self, error: DiskError) {
        self.broken = Some(error);
    }

    /// Lets flushes succeed again: what a failed one may have lost does not count any more.
    pub fn forget_failure(&mut self) {
        self.broken = None;
    }

    /// Whether a flush will begin that makes the copies of the rebuild durable.
    pub fn awaits_copies(&self) -> bool {
        self.waiting.iter().any(|waiter| matches!(waiter, FlushWaiter::Copies))
    }

    /// Takes the flushes of primaries out that have not begun.
    pub fn take_waiting(&mut self) -> Vec<(LinkId, OperationId)> {
        let mut taken = Vec::new();
        self.waiting.retain(|waiter| match *waiter {
            FlushWaiter::Primary { link, id, after: Some(_) } => {
                taken.push((link, id));
                false
            }
            _ => true,
        });
        taken
    }

    /// Forgets those who waited over a closed link.
    pub fn forget(&mut self, closed: LinkId) {
        let stays = |waiter: &FlushWaiter| !matches!(waiter, FlushWaiter::Primary { link, .. } if *link == closed);
        self.waiting.retain(stays);
        if let Some(waiters) = &mut self.running {
            waiters.retain(stays);
        }
    }
}

impl<P: Payload> Replica<P> {
    pub(super) fn flush(&mut self, cx: &mut Context<'_, P>, waiter: FlushWaiter) {
        self.flushes.waiting.push(waiter);
        self.start_flush(cx);
    }

    /// Starts a device flush if none runs and somebody who waits is ready for one.
    pub(super) fn start_flush(&mut self, cx: &mut Context<'_, P>) {
        if self.flushes.running.is_some() || self.flushes.waiting.is_empty() {
            return;
        }
        let waiting = core::mem::take(&mut self.flushes.waiting);
        let (ready, later) = waiting.into_iter().partition::<Vec<_>, _>(|waiter| match *waiter {
            FlushWaiter::Primary { link, after: Some(covers), .. } => {
                !self.operations.have_earlier_write(link, covers)
            }
            _ => true,
        });
        self.flushes.waiting = later;
        if ready.is_empty() {
            return;
        }
        if let Some(error) = self.flushes.broken {
            return self.answer_flush(cx, ready, Err(error));
        }
        debug_assert!(
            ready.iter().all(|waiter| match *waiter {
                FlushWaiter::Primary { link, after: Some(covers), .. } =>
                    !self.operations.have_earlier_write(link, covers),
                _ => true,
            }),
            "W4: a flush begins before a write that it covers is on the disk"
        );
        self.flushes.running = Some(ready);
        self.rebuild_flush_begins();
        // An in-sync replica writes only to open regions (I5), and a crash makes their checksums
        // unknown anyway. What a rebuild copies lies in closed ones, and counts once it is flushed.
        let with_checksums = self.state() != Some(ReplicaState::InSync);
        cx.disk(DiskTicket::Flush, DiskAction::Flush { with_checksums });
    }

    pub(super) fn flush_done(&mut self, cx: &mut Context<'_, P>, outcome: Result<(), DiskError>) {
        let Some(waiters) = self.flushes.running.take() else {
            debug_assert!(false, "a driver answers each action once");
            return;
        };
        let outcome = outcome.and(self.flushes.broken.map_or(Ok(()), Err));
        if let Err(error) = outcome {
            self.flushes.broken = Some(error);
            // Also those who did not ask: a primary that relies on this disk must not believe its
            // next incarnation.
            self.tell_disk_failed(cx, error.into());
        }
        self.rebuild_flush_ended(cx, outcome.is_ok());
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

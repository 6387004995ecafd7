//! The device flush that runs, and those who wait for the next one.

use crate::ids::*;
use crate::message::OperationId;
use crate::replica::DiskError;

/// Who waits for a device flush.
#[derive(Debug, Clone, Copy)]
pub(in crate::replica) enum FlushWaiter {
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

/// What is to be done about those who wait.
#[derive(Debug)]
pub(super) enum NextFlush {
    /// Nothing: a flush runs, or nobody is ready for one.
    None,
    /// A device flush begins.
    Begins,
    /// A device flush has failed before, so for these no later one is believed.
    Fails(Vec<FlushWaiter>, DiskError),
}

impl FlushQueue {
    /// Somebody waits for a flush.
    pub fn wait(&mut self, waiter: FlushWaiter) {
        self.waiting.push(waiter);
    }

    /// Begins a flush if none runs and somebody is ready for one: all that it is to cover is on the
    /// disk. `has_earlier_write` says whether a write up to this one, over this link, is not.
    pub fn begin(&mut self, has_earlier_write: impl Fn(LinkId, Sequence) -> bool) -> NextFlush {
        if self.running.is_some() || self.waiting.is_empty() {
            return NextFlush::None;
        }
        let is_ready = |waiter: &FlushWaiter| match *waiter {
            FlushWaiter::Primary { link, after: Some(covers), .. } => {
                !has_earlier_write(link, covers)
            }
            _ => true,
        };
        let waiting = core::mem::take(&mut self.waiting);
        let (ready, later) = waiting.into_iter().partition::<Vec<_>, _>(is_ready);
        self.waiting = later;
        if ready.is_empty() {
            return NextFlush::None;
        }
        if let Some(error) = self.broken {
            return NextFlush::Fails(ready, error);
        }
        debug_assert!(
            ready.iter().all(is_ready),
            "W4: a flush begins before a write that it covers is on the disk"
        );
        self.running = Some(ready);
        NextFlush::Begins
    }

    /// The flush that runs has ended. Returns for whom it was, and whether it is believed.
    pub fn ended(
        &mut self,
        outcome: Result<(), DiskError>,
    ) -> (Vec<FlushWaiter>, Result<(), DiskError>) {
        debug_assert!(self.running.is_some(), "a driver answers each action once");
        let waiters = self.running.take().unwrap_or_default();
        let outcome = outcome.and(self.broken.map_or(Ok(()), Err));
        if let Err(error) = outcome {
            self.broken = Some(error);
        }
        (waiters, outcome)
    }

    /// Whether no flush runs and nobody waits for one.
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

#[cfg(test)]
mod tests;

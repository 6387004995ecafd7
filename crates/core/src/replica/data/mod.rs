//! Data: what primaries and rebuilding replicas ask for, accepted in the adopted generation only
//! ([`accepting`]), kept apart by range locks ([`operations`]), begun when the regions of a write
//! are open ([`opening`]), answered when the disk is done ([`ending`]); and device flushes, shared
//! by all who wait for one ([`flushing`]).
//!
//! It uses the view, the sessions and the intent log. It never knows what is copied here: what it
//! asks whoever copies, and tells them, is in [`Copier`].

mod accepting;
mod ending;
mod flush_queue;
mod flushing;
mod opening;
mod operations;

pub(super) use self::flush_queue::FlushWaiter;

use core::ops::Range;
use std::collections::BTreeSet;

use self::flush_queue::FlushQueue;
use self::operations::Operations;
use super::log::Log;
use super::sessions::Sessions;
use super::views::Views;
use super::{Context, DiskError};
use crate::ids::*;
use crate::payload::Payload;
use crate::time::Instant;

/// What is under way on the disk.
#[derive(Debug)]
pub(super) struct Data<P> {
    operations: Operations<P>,
    flushes: FlushQueue,
    bytes_written: u64,
}

/// What operations use: the rooms below, and whoever copies into this replica.
pub(super) struct Lower<'a> {
    pub views: &'a Views,
    pub sessions: &'a mut Sessions,
    pub log: &'a mut Log,
    pub copier: &'a mut dyn Copier,
}

/// Whoever copies into this replica, as operations and flushes know it.
pub(super) trait Copier {
    /// Whether all these blocks are still to be copied, and none is being copied.
    fn is_to_copy(&self, blocks: &Range<u64>) -> bool;

    /// The range of a copy is held: all these primaries are to drain it. Returns the source that
    /// it is about, and the blocks.
    fn held(
        &mut self,
        now: Instant,
        token: CopyToken,
        primaries: BTreeSet<PrimaryId>,
    ) -> Option<(ReplicaId, Range<u64>)>;

    /// A device flush begins: it makes durable what was copied before.
    fn flush_begins(&mut self);

    /// A device flush has ended.
    fn flush_ended(&mut self, succeeded: bool);

    /// The flush has ended that it waited for. Returns how the disk has failed it by that.
    fn flushed(&mut self, now: Instant, outcome: Result<(), DiskError>) -> Result<(), DiskError>;

    /// How the disk has failed it, if it has.
    fn failure(&self) -> Option<DiskError>;
}

impl<P> Default for Data<P> {
    fn default() -> Self {
        Self { operations: Operations::default(), flushes: FlushQueue::default(), bytes_written: 0 }
    }
}

impl<P: Payload> Data<P> {
    /// How many operations are under way.
    pub fn operations(&self) -> usize {
        self.operations.len()
    }

    /// Bytes that were written.
    pub const fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Whether nothing is under way: no operation, and no flush.
    pub fn is_idle(&self) -> bool {
        self.operations.is_empty() && self.flushes.is_idle()
    }

    /// What a failed flush may have lost does not count any more.
    pub fn forget_failure(&mut self) {
        self.flushes.forget_failure();
    }

    /// Answers sessions whose opener has no work of an older session left. A disk that does not end
    /// what it has begun is not offered to anybody.
    pub fn answer_waiting_sessions(&self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        let Lower { views, sessions, log, copier } = lower;
        if !sessions.may_wait() || log.is_saving() || views.is_saving() {
            return;
        }
        let waiting = sessions.waiting();
        let ready = waiting.filter(|(_, asked)| !self.operations.work_for(asked.opener));
        for (link, asked) in ready.collect::<Vec<_>>() {
            if !sessions.is_incarnation_known_to(cx, views, asked) {
                return;
            }
            // How the disk has failed for good, as far as primaries have to know: they have this
            // replica leave.
            let failure = self.flushes.failure().or(copier.failure());
            sessions.answer(cx, views, link, asked, log.open_slots(), failure);
        }
        sessions.are_answered();
    }

    /// Panics if an operation has begun too early, or waits for nothing (I3, I5, I10, I11, W2).
    pub fn check_invariants(&self, views: &Views, log: &Log) {
        self.operations.check_invariants(views.generation(), log);
        assert!(
            self.operations.is_empty() || !views.is_unsaved() || views.is_adopting(),
            "I3: something is under way, and no view is adopted"
        );
    }

    /// Panics if no range is held for this copy.
    pub fn check_hold(&self, token: CopyToken, lock: OperationNumber, is_locking: bool) {
        self.operations.check_hold(token, lock, is_locking);
    }
}

#[cfg(test)]
mod tests;

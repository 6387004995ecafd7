//! One open region, and what of the writes to it is not stable.

use crate::ids::*;
use crate::time::Instant;

/// One open region.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    pending: Pending,
    /// Operations that will write there or are writing there.
    operations: u32,
    /// The number of the first table that names it.
    named_by: u64,
    used_at: Instant,
}

impl Region {
    /// One in which nothing was written yet, and that this table names first.
    pub fn new(named_by: u64, now: Instant) -> Self {
        Self { pending: Pending::default(), operations: 0, named_by, used_at: now }
    }

    /// One that the table on the disk named when the replica started.
    pub const fn found(now: Instant) -> Self {
        Self { pending: Pending::ORPHANED, operations: 0, named_by: 0, used_at: now }
    }

    /// One region that both become.
    pub fn merged(&self, other: &Self) -> Self {
        let operations = self.operations + other.operations;
        let used_at = self.used_at.max(other.used_at);
        let pending = self.pending.merged(&other.pending);
        Self { pending, operations, named_by: self.named_by, used_at }
    }

    /// An operation will write there: this write of a primary.
    pub fn begin_write(&mut self, now: Instant, by: WriteId) {
        self.used_at = now;
        self.operations += 1;
        // The flush that makes it stable covers older ones that only lack a flush.
        let write = Pending { up_to: Some(by), ..Pending::default() };
        self.pending = Pending { unflushed: false, ..self.pending.merged(&write) };
    }

    /// An operation that was to write there has ended.
    pub const fn end_operation(&mut self) {
        self.operations -= 1;
    }

    /// Whether operations will write there or are writing there.
    pub const fn is_in_use(&self) -> bool {
        self.operations > 0
    }

    /// Whether all members have what was written there, durably.
    pub fn is_stable(&self) -> bool {
        self.pending.is_stable()
    }

    /// Whether nothing keeps it open.
    pub fn is_idle(&self) -> bool {
        self.is_stable() && !self.is_in_use()
    }

    /// The number of the first table that names it.
    pub const fn named_by(&self) -> u64 {
        self.named_by
    }

    /// Only this table names it.
    pub const fn name_by(&mut self, table: u64) {
        self.named_by = table;
    }

    pub const fn used_at(&self) -> Instant {
        self.used_at
    }

    pub const fn pending(&self) -> Pending {
        self.pending
    }

    pub const fn pending_mut(&mut self) -> &mut Pending {
        &mut self.pending
    }
}

/// What of the writes to a region is not stable: all members may not have it, durably.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pending {
    /// Writes of a primary: the last one.
    up_to: Option<WriteId>,
    /// Writes whose primary is not asked any more, or that came in an earlier incarnation.
    orphaned: bool,
    /// Writes of which it is known who may lack them, but this disk has not been flushed since.
    unflushed: bool,
}

impl Pending {
    pub const ORPHANED: Self = Self { up_to: None, orphaned: true, unflushed: false };

    pub fn is_stable(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there are writes whose primary is not asked any more.
    pub const fn is_orphaned(&self) -> bool {
        self.orphaned
    }

    /// Whether there is this write, or are later ones of its primary.
    pub fn is_at_or_after(&self, write: WriteId) -> bool {
        self.up_to
            .is_some_and(|last| last.primary == write.primary && last.sequence >= write.sequence)
    }

    /// Writes of a primary are stable, if this holds for the last one.
    pub fn forget_writes(&mut self, are_stable: impl Fn(WriteId) -> bool) {
        self.up_to.take_if(|up_to| are_stable(*up_to));
    }

    /// The primary of writes is not asked any more, if this holds for the last one.
    pub fn orphan_writes(&mut self, are_orphans: impl Fn(WriteId) -> bool) {
        self.orphaned |= self.up_to.take_if(|up_to| are_orphans(*up_to)).is_some();
    }

    /// Writes whose primary is not asked any more are the same on all members, or known to be
    /// missing elsewhere.
    pub const fn forget_orphans(&mut self) {
        self.orphaned = false;
    }

    /// The same, but this disk has to be flushed before.
    pub const fn adopt_orphans(&mut self) {
        (self.orphaned, self.unflushed) = (false, true);
    }

    /// This disk was flushed.
    pub const fn flushed(&mut self) {
        self.unflushed = false;
    }

    fn merged(&self, other: &Self) -> Self {
        let (up_to, differ) = match (self.up_to, other.up_to) {
            (Some(one), Some(other)) if one.primary == other.primary => {
                let sequence = one.sequence.max(other.sequence);
                (Some(WriteId { sequence, ..other }), false)
            }
            (Some(_), Some(other)) => (Some(other), true),
            (one, other) => (one.or(other), false),
        };
        Self {
            up_to,
            // With several primaries the region waits until the volume's orphans are resolved.
            orphaned: self.orphaned || other.orphaned || differ,
            unflushed: self.unflushed || other.unflushed,
        }
    }
}

//! What is known of what a member's disk holds. When the replica leaves, all of it is over.

use crate::ids::*;
use crate::view::Cause;

/// Reads that a replica may fail before it leaves.
const MAX_FAILED_READS: u32 = 32;

/// What is known of a member's disk.
#[derive(Debug, Default)]
pub(in crate::primary) struct Disk {
    /// It came back with a new boot and may lack acknowledged writes (W5).
    is_lost: bool,
    /// It stays although it has restarted: the last write before that. When it is stable, so is all
    /// that is open there from earlier incarnations.
    renewed_at: Option<Sequence>,
    /// It failed to make something durable in this incarnation: what it wrote before may be gone
    /// when its process ends, whatever a later flush says.
    has_failed_flush: bool,
    /// It failed; the replica leaves as soon as another one can go on without it.
    failing: Option<Cause>,
    /// It has failed an acknowledged write that the others have finished with.
    is_out_of_sync: bool,
    /// Reads that it has failed since it was last admitted.
    failed_reads: u32,
}

impl Disk {
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub fn renewed_at(&self) -> Option<Sequence> {
        self.renewed_at
    }

    pub fn has_failed_flush(&self) -> bool {
        self.has_failed_flush
    }

    #[inline]
    pub fn failing(&self) -> Option<Cause> {
        self.failing
    }

    #[inline]
    pub fn is_out_of_sync(&self) -> bool {
        self.is_out_of_sync
    }

    pub fn failed_reads(&self) -> u32 {
        self.failed_reads
    }

    /// It may lack acknowledged writes.
    pub fn lose(&mut self) {
        self.is_lost = true;
    }

    /// The incarnation that the view names answers: it has what it had.
    pub fn is_there(&mut self) {
        self.is_lost = false;
    }

    /// The replica stays although it has restarted; this was the last write before.
    pub fn renew(&mut self, last: Sequence) {
        self.renewed_at = Some(last);
        self.has_failed_flush = false;
    }

    pub fn fail(&mut self, cause: Cause) {
        self.failing = Some(cause);
    }

    pub fn fail_flush(&mut self) {
        self.has_failed_flush = true;
    }

    pub fn mark_out_of_sync(&mut self) {
        self.is_out_of_sync = true;
    }

    /// Counts a read that failed. Tells whether there were too many.
    pub fn fail_read(&mut self) -> bool {
        self.failed_reads += 1;
        self.failed_reads > MAX_FAILED_READS
    }
}

//! What answers show of what replicas hold, for whoever looks after that.

use core::ops::Range;

use crate::ids::*;
use crate::message::BlockDigest;
use crate::policy::ReplicaSet;

/// What an answer shows of what replicas hold.
#[derive(Debug)]
pub(in crate::primary) enum Finding {
    /// A replica could not read a range of a mirror that another one may have.
    Unreadable { mirror: usize, bytes: Range<u64> },
    /// A replica has lost checksums of a range that was read. `is_vouched_for`: another one has it,
    /// and it fits its checksum there.
    Unverified { mirror: usize, bytes: Range<u64>, is_vouched_for: bool },
    /// A replica says what it holds, block by block; `None` if it could not.
    Digests { part: Sequence, bit: ReplicaSet, digests: Option<Vec<BlockDigest>> },
}

/// What was found since somebody last took it.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    /// A replica could not read a range that another one may have.
    pub fn must_repair(&mut self, mirror: usize, bytes: Range<u64>) {
        self.0.push(Finding::Unreadable { mirror, bytes });
    }

    /// A replica has lost checksums of a range that was read.
    pub fn must_renew(&mut self, mirror: usize, bytes: Range<u64>, is_vouched_for: bool) {
        self.0.push(Finding::Unverified { mirror, bytes, is_vouched_for });
    }

    /// A replica says what it holds, or could not.
    pub fn digested(&mut self, part: Sequence, bit: ReplicaSet, digests: Option<Vec<BlockDigest>>) {
        self.0.push(Finding::Digests { part, bit, digests });
    }

    /// Whether anything was found since it was last taken out.
    #[inline]
    pub fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Takes out what was found since this was last asked.
    #[inline]
    pub fn take(&mut self) -> Vec<Finding> {
        core::mem::take(&mut self.0)
    }
}

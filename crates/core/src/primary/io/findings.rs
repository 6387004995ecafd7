//! What answers show of what replicas hold, for whoever looks after that.

use core::ops::Range;

use super::Io;
use crate::ids::*;
use crate::message::BlockDigest;
use crate::payload::Payload;
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

impl<P: Payload> Io<P> {
    /// A replica could not read a range that another one may have.
    pub fn must_repair(&mut self, mirror: usize, bytes: Range<u64>) {
        self.findings.push(Finding::Unreadable { mirror, bytes });
    }

    /// A replica has lost checksums of a range that was read.
    pub(super) fn must_renew(&mut self, mirror: usize, bytes: Range<u64>, is_vouched_for: bool) {
        self.findings.push(Finding::Unverified { mirror, bytes, is_vouched_for });
    }

    /// A replica says what it holds, or could not.
    pub(super) fn digested(
        &mut self,
        part: Sequence,
        bit: ReplicaSet,
        digests: Option<Vec<BlockDigest>>,
    ) {
        self.findings.push(Finding::Digests { part, bit, digests });
    }

    /// Takes out what was found since this was last asked.
    #[inline]
    pub fn take_findings(&mut self) -> Vec<Finding> {
        core::mem::take(&mut self.findings)
    }
}

//! What the replicas of a mirror say of one piece of a range, and what is wrong there.

use core::ops::Range;

use crate::ids::*;
use crate::message::BlockDigest;
use crate::policy::ReplicaSet;
use crate::settings::BLOCK;
use crate::stripe::{self, Geometry};

/// What the in-sync replicas of a mirror say of one piece of the range.
#[derive(Debug)]
pub(super) struct Compared {
    sequence: Sequence,
    mirror: usize,
    /// In the mirror, in whole blocks.
    bytes: Range<u64>,
    digests: Vec<(ReplicaSet, Vec<BlockDigest>)>,
}

/// Who has said what it holds of a piece, and of how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::primary) struct Extent {
    pub mirror: usize,
    pub holders: ReplicaSet,
    pub bytes: u64,
    /// Whether there were two replicas or more.
    pub was_compared: bool,
}

/// A run of blocks that some replicas of a mirror have wrong, all of them in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::primary) struct Difference {
    pub mirror: usize,
    /// In the mirror.
    pub bytes: Range<u64>,
    /// Who has it wrong, or can't read it.
    pub wrong: ReplicaSet,
    /// Of those, whose disk returns what contradicts its checksum.
    pub damaged: ReplicaSet,
    /// Of those, whose disk can't read it.
    pub unreadable: ReplicaSet,
    /// Whether nobody has it whole.
    pub is_lost: bool,
    /// Whether checksums do not decide which content is right, and nobody was named whose content
    /// counts.
    pub is_undecided: bool,
    /// Whether a write of what is right puts nothing in the place of a copy that fits its checksum,
    /// and brings back one that was lost: it may be written without being asked for.
    pub is_to_be_renewed: bool,
    /// Whether it was rewritten on all members.
    pub is_repaired: bool,
}

impl Difference {
    /// Where in the volume it begins.
    pub fn volume_offset(&self, geometry: Geometry, mirrors: usize) -> u64 {
        stripe::volume_offset(geometry, mirrors, self.mirror, self.bytes.start)
    }

    /// Whose content is not the one that counts.
    pub const fn differs(&self) -> ReplicaSet {
        self.wrong & !self.damaged & !self.unreadable
    }

    pub const fn somebody_cannot_read(&self) -> bool {
        self.damaged | self.unreadable != 0
    }

    /// Whether another run follows on this one and is wrong in the same way.
    fn goes_on_with(&self, next: &Self) -> bool {
        let how = |run: &Self| {
            let Self { wrong, damaged, unreadable, is_undecided, is_to_be_renewed, .. } = *run;
            (wrong, damaged, unreadable, is_undecided, is_to_be_renewed)
        };
        self.bytes.end == next.bytes.start && how(self) == how(next)
    }
}

impl Compared {
    pub const fn new(sequence: Sequence, mirror: usize, bytes: Range<u64>) -> Self {
        Self { sequence, mirror, bytes, digests: Vec::new() }
    }

    /// Whether it is what the part of this number compares.
    pub fn is_of(&self, part: Sequence) -> bool {
        self.sequence == part
    }

    /// A replica says what it holds.
    pub fn take(&mut self, bit: ReplicaSet, digests: Vec<BlockDigest>) {
        self.digests.retain(|(other, _)| *other != bit);
        self.digests.push((bit, digests));
    }

    /// A replica could not say it of any block.
    pub fn take_nothing(&mut self, bit: ReplicaSet) {
        self.take(bit, vec![BlockDigest::UNREADABLE; self.blocks() as usize]);
    }

    pub const fn mirror(&self) -> usize {
        self.mirror
    }

    /// Whether there were two replicas or more.
    pub const fn was_compared(&self) -> bool {
        self.digests.len() > 1
    }

    /// Who has said what it holds, and of how much.
    pub fn extent(&self) -> Extent {
        Extent {
            mirror: self.mirror,
            holders: self.digests.iter().fold(0, |set, (bit, _)| set | bit),
            bytes: self.bytes.end - self.bytes.start,
            was_compared: self.was_compared(),
        }
    }

    fn blocks(&self) -> u64 {
        (self.bytes.end - self.bytes.start).div_ceil(u64::from(BLOCK))
    }

    /// Runs of blocks that some replica has wrong, or whose checksum it has lost ([`right_of`]).
    /// `is_everyone`: whether no other replica may have them.
    pub fn differences(
        &self,
        source: Option<(usize, ReplicaSet)>,
        is_everyone: bool,
    ) -> Vec<Difference> {
        let source = source.filter(|(mirror, _)| *mirror == self.mirror).map(|(_, bit)| bit);
        let mut found: Vec<Difference> = Vec::new();
        for block in 0..self.blocks() {
            let next = self.judge(block, source, is_everyone);
            match found.last_mut() {
                _ if next.wrong == 0 && !next.is_to_be_renewed => {}
                Some(last) if last.goes_on_with(&next) => last.bytes.end = next.bytes.end,
                _ => found.push(next),
            }
        }
        found
    }

    /// Who has a block wrong.
    fn judge(&self, block: u64, source: Option<ReplicaSet>, is_everyone: bool) -> Difference {
        let start = self.bytes.start + block * u64::from(BLOCK);
        let bytes = start..(start + u64::from(BLOCK)).min(self.bytes.end);
        let of_block = |(bit, digests): &(ReplicaSet, Vec<BlockDigest>)| {
            (*bit, digests.get(block as usize).copied().unwrap_or(BlockDigest::UNREADABLE))
        };
        let votes: Vec<_> = self.digests.iter().map(of_block).collect();
        let set = |chosen: &dyn Fn(BlockDigest) -> bool| {
            let chosen = votes.iter().filter(|(_, digest)| chosen(*digest));
            chosen.fold(0, |set, (bit, _)| set | bit)
        };
        let right = right_of(&votes, source);
        let contents = set(&|digest| digest.content().is_some());
        let damaged = set(&|digest| digest == BlockDigest::DAMAGED);
        Difference {
            mirror: self.mirror,
            bytes,
            wrong: set(&|digest| right.is_none() || digest.content() != right),
            damaged,
            unreadable: set(&|digest| digest.content().is_none()) & !damaged,
            is_lost: contents == 0,
            is_undecided: right.is_none() && contents != 0,
            is_to_be_renewed: right.is_some_and(|right| may_renew(&votes, right, is_everyone)),
            is_repaired: false,
        }
    }
}

/// The content of a block that is right. Copies that fit a stored checksum decide, and what most of
/// them hold is right. If there are none, those decide for which nothing vouches, if they agree: if
/// they differ, more of one kind are no proof, as all of that kind may lack the same write. What is
/// not decided so is what the replica holds that was named for this, as long as one of those that
/// decide holds it, too.
fn right_of(votes: &[(ReplicaSet, BlockDigest)], source: Option<ReplicaSet>) -> Option<u64> {
    let is_any_verified = votes.iter().any(|(_, digest)| digest.is_verified());
    let decides = |digest: &BlockDigest| digest.is_verified() || !is_any_verified;
    let deciding = || votes.iter().filter(|(_, d)| decides(d)).filter_map(|(_, d)| d.content());
    let copies = |content: u64| deciding().filter(|other| *other == content).count();
    let support = |content: u64| if is_any_verified { copies(content) } else { 1 };
    let most = deciding().map(support).max()?;
    let mut leading = deciding().filter(|content| support(*content) == most);
    let first = leading.next()?;
    if leading.all(|content| content == first) {
        return Some(first);
    }
    let named = votes.iter().find(|(bit, _)| Some(*bit) == source)?.1.content()?;
    deciding().any(|content| content == named).then_some(named)
}

/// Whether the right content may be written where it brings back a checksum that was lost, although
/// nobody has asked for it: either a copy fits its checksum, and none does that holds something
/// else; or all replicas of the mirror hold the same, so that there is nothing else that might be
/// right.
fn may_renew(votes: &[(ReplicaSet, BlockDigest)], right: u64, is_everyone: bool) -> bool {
    let all = |holds: &dyn Fn(BlockDigest) -> bool| votes.iter().all(|(_, digest)| holds(*digest));
    let is_right = |digest: BlockDigest| digest.content() == Some(right);
    let is_vouched_for = !all(&|digest| !is_right(digest) || !digest.is_verified());
    let has_forgotten = !all(&|digest| !digest.is_forgotten());
    let overwrites_verified = !all(&|digest| is_right(digest) || !digest.is_verified());
    has_forgotten && !overwrites_verified && (is_vouched_for || is_everyone && all(&is_right))
}

#[cfg(test)]
mod tests;

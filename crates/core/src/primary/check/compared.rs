//! What the replicas of a mirror say of one piece of a range, and what is wrong there.

use core::ops::Range;

use crate::ids::*;
use crate::message::BlockDigest;
use crate::policy::ReplicaSet;
use crate::settings::BLOCK;
use crate::stripe;
use crate::view::Geometry;

/// What the in-sync replicas of a mirror say of one piece of the range.
#[derive(Debug)]
pub(super) struct Compared {
    pub sequence: Sequence,
    mirror: usize,
    /// In the mirror, in whole blocks.
    bytes: Range<u64>,
    digests: Vec<(ReplicaSet, Vec<BlockDigest>)>,
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
    /// Whether no content has a majority, and nobody was named whose content counts.
    pub is_undecided: bool,
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
        let how = |run: &Self| (run.wrong, run.damaged, run.unreadable, run.is_undecided);
        self.bytes.end == next.bytes.start && how(self) == how(next)
    }
}

impl Compared {
    pub const fn new(sequence: Sequence, mirror: usize, bytes: Range<u64>) -> Self {
        Self { sequence, mirror, bytes, digests: Vec::new() }
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

    /// Whether there were two replicas or more.
    pub const fn was_compared(&self) -> bool {
        self.digests.len() > 1
    }

    /// The mirror, who has said what it holds, and of how many bytes.
    pub fn extent(&self) -> (usize, ReplicaSet, u64) {
        let holders = self.digests.iter().fold(0, |set, (bit, _)| set | bit);
        (self.mirror, holders, self.bytes.end - self.bytes.start)
    }

    fn blocks(&self) -> u64 {
        (self.bytes.end - self.bytes.start).div_ceil(u64::from(BLOCK))
    }

    /// Runs of blocks that some replica has wrong. What most of them hold is right; where no content has the
    /// most, what `source` holds, a replica of a mirror. If nobody is named nobody is right: a guess might
    /// put damage in the place of the only good copy.
    pub fn differences(&self, source: Option<(usize, ReplicaSet)>) -> Vec<Difference> {
        let source = source.filter(|(mirror, _)| *mirror == self.mirror).map(|(_, bit)| bit);
        let mut found: Vec<Difference> = Vec::new();
        for block in 0..self.blocks() {
            let next = self.judge(block, source);
            match found.last_mut() {
                _ if next.wrong == 0 => {}
                Some(last) if last.goes_on_with(&next) => last.bytes.end = next.bytes.end,
                _ => found.push(next),
            }
        }
        found
    }

    /// Who has a block wrong.
    fn judge(&self, block: u64, source: Option<ReplicaSet>) -> Difference {
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
        let nobody_reads = !votes.iter().any(|(_, digest)| digest.is_content());
        Difference {
            mirror: self.mirror,
            bytes,
            wrong: set(&|digest| Some(digest) != right),
            damaged: set(&|digest| digest == BlockDigest::DAMAGED),
            unreadable: set(&|digest| digest == BlockDigest::UNREADABLE),
            is_lost: nobody_reads,
            is_undecided: right.is_none() && !nobody_reads,
            is_repaired: false,
        }
    }
}

/// The content of a block that is right: that of most who can tell theirs, or, if several have the most, that
/// of the replica that was named for this.
fn right_of(
    votes: &[(ReplicaSet, BlockDigest)],
    source: Option<ReplicaSet>,
) -> Option<BlockDigest> {
    let support = |content: BlockDigest| votes.iter().filter(|(_, c)| *c == content).count();
    let contents = || votes.iter().filter(|(_, digest)| digest.is_content());
    let most = contents().map(|(_, content)| support(*content)).max()?;
    let mut leading = contents().filter(|(_, content)| support(*content) == most);
    let (_, first) = *leading.next()?;
    if leading.all(|(_, content)| *content == first) {
        return Some(first);
    }
    contents().find(|(bit, _)| Some(*bit) == source).map(|(_, content)| *content)
}

#[cfg(test)]
mod tests;

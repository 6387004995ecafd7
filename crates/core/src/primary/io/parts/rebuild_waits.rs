//! What rebuilding replicas wait for at this primary: that their source has what is under way in a
//! range that they are about to copy (B1), and that all is finished which their copies may have
//! brought (B4).

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::*;

/// Ranges of one replica that are drained at once: more than it copies at once.
const MAX_DRAINS: usize = 64;

/// What rebuilding replicas wait for.
#[derive(Debug, Default)]
pub(super) struct RebuildWaits {
    drains: Vec<Drain>,
    /// Those that ask whether writes are finished.
    copied: BTreeMap<ReplicaId, Copied>,
}

/// A rebuilding replica waits until its source has these parts.
#[derive(Debug)]
pub(super) struct Drain {
    pub link: LinkId,
    pub token: CopyToken,
    pub parts: BTreeSet<Sequence>,
    pub source: ReplicaId,
}

/// A replica has made durable what it has copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copied {
    /// In which it said so.
    pub generation: Generation,
    /// Which of its questions this is.
    pub number: BarrierNumber,
    /// The last write by then.
    pub through: Sequence,
}

impl RebuildWaits {
    /// Whether nobody waits for a part.
    #[inline]
    pub fn are_drained(&self) -> bool {
        self.drains.is_empty()
    }

    /// A replica waits for parts. One that has asked for more than it can hold has let go of the
    /// oldest.
    pub fn drain(&mut self, drain: Drain) {
        let of_link = |other: &(usize, &Drain)| other.1.link == drain.link;
        let mut of_link = self.drains.iter().enumerate().filter(of_link);
        if let Some((oldest, _)) = of_link.next()
            && of_link.count() + 1 >= MAX_DRAINS
        {
            self.drains.remove(oldest);
        }
        self.drains.push(drain);
    }

    /// A part has been written by those of whom that is said: tells the waits that end by it.
    pub fn written(
        &mut self,
        part: Sequence,
        by: impl Fn(ReplicaId) -> bool,
        mut ended: impl FnMut(&Drain),
    ) {
        for drain in &mut self.drains {
            if by(drain.source) && drain.parts.remove(&part) && drain.parts.is_empty() {
                ended(drain);
            }
        }
        self.drains.retain(|drain| !drain.parts.is_empty());
    }

    /// A link has closed: nobody waits over it.
    pub fn forget_link(&mut self, link: LinkId) {
        self.drains.retain(|drain| drain.link != link);
    }

    /// The view has changed: who waits asks again.
    pub fn forget_drains(&mut self) {
        self.drains.clear();
    }

    /// A replica has made durable what it has copied: what was sent by now is to be finished. Said
    /// again by the same number it changes nothing.
    pub fn copied(&mut self, replica: ReplicaId, new: Copied) {
        let copied = self.copied.entry(replica).or_insert(new);
        if (copied.generation, copied.number) != (new.generation, new.number) {
            *copied = new;
        }
    }

    /// Whether anybody asks whether writes are finished.
    #[inline]
    pub fn is_any_finishing(&self) -> bool {
        !self.copied.is_empty()
    }

    /// Those that ask whether writes are finished.
    #[inline]
    pub fn finishing(&self) -> impl Iterator<Item = (ReplicaId, Copied)> {
        self.copied.iter().map(|(replica, copied)| (*replica, *copied))
    }

    /// A replica was told that all is finished, or waits for that no more.
    pub fn finished(&mut self, replica: ReplicaId) {
        self.copied.remove(&replica);
    }
}

#[cfg(test)]
mod tests;

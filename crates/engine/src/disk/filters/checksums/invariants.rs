//! What must hold of requests, and of the checksums that they use (see
//! [`crate::disk::invariants`]).

use std::ops::Range;

use evenkeel_core::Payload as _;

use super::{Checksums, Request, Then, Waiting};
use crate::disk::checksums::ChecksumStore;
use crate::disk::device::Io;

impl<T> Then<T> {
    /// What is told of the request from above.
    const fn above(&self) -> Option<&T> {
        match self {
            Self::Above(then)
            | Self::Read { then, .. }
            | Self::Widen { then, .. }
            | Self::Write { then, .. }
            | Self::ReadEdge(then, _)
            | Self::WriteEdge { then, .. }
            | Self::Zero(then, _) => Some(then),
            Self::Commit(commit) => Some(commit.then()),
            Self::Load(_) | Self::Evict(_) | Self::FlushEvicted => None,
        }
    }

    /// The whole blocks whose checksums it needs in memory.
    fn cover(&self) -> Option<&Range<u64>> {
        match self {
            Self::Read { cover, .. } | Self::Widen { cover, .. } | Self::Write { cover, .. } => {
                Some(cover)
            }
            Self::ReadEdge(_, edges) | Self::WriteEdge { edges, .. } | Self::Zero(_, edges) => {
                Some(edges.cover())
            }
            _ => None,
        }
    }

    /// The pages that it reads.
    fn loads(&self) -> Range<u32> {
        if let Self::Load(run) = self { run.clone() } else { 0..0 }
    }

    /// Whether it writes pages, or makes them durable.
    const fn writes_pages(&self) -> bool {
        match self {
            Self::Commit(commit) => commit.has_pages(),
            Self::Evict(_) | Self::FlushEvicted => true,
            _ => false,
        }
    }
}

impl<T> Waiting<T> {
    const fn above(&self) -> &T {
        match self {
            Self::Pages(_, then) => then,
            Self::Commit(commit) => commit.then(),
        }
    }

    /// Whether there is something for which it waits.
    fn is_held_up(&self, store: &ChecksumStore) -> bool {
        let (offset, length) = match self {
            Self::Commit(_) => return store.is_committing() || store.is_writing(),
            Self::Pages(Request::Write(write), _) => (write.offset, write.payload.length()),
            Self::Pages(
                Request::Read { offset, length } | Request::Zero { offset, length, .. },
                _,
            ) => (*offset, *length),
            Self::Pages(..) => return false,
        };
        store.holds_up(&store.cover(offset, length.into()))
    }
}

impl<I: Io, T> Checksums<I, T> {
    /// What is told of each request that is under way, or waits, when it has ended.
    pub(in crate::disk) fn awaited(&self) -> impl Iterator<Item = &T> {
        let under_way = self.below.awaited().filter_map(Then::above);
        under_way.chain(self.waiting.iter().map(Waiting::above))
    }

    /// Panics if the layers contradict themselves, or each other.
    pub(in crate::disk) fn check_invariants(&self) {
        self.below.check_invariants();
        let is_past = self.noticed <= self.below.raw().failures();
        assert!(is_past, "flushes were noticed that have not failed yet");
        let Some(store) = &self.store else {
            return assert!(self.waiting.is_empty(), "requests wait for checksums that it lacks");
        };
        store.check_invariants();
        let under_way = || self.below.awaited();
        store.check_users(under_way().filter_map(Then::cover));
        store.check_loads(under_way().flat_map(Then::loads));
        let writes = under_way().filter(|then| then.writes_pages()).count();
        assert!(writes == usize::from(store.is_writing()), "{writes} writes of pages");
        let commits = under_way().filter(|then| matches!(then, Then::Commit(_))).count();
        assert!(commits == usize::from(store.is_committing()), "{commits} commits");
        let are_held_up = self.waiting.iter().all(|waiting| waiting.is_held_up(store));
        assert!(are_held_up, "a request waits for nothing");
    }
}

#[cfg(test)]
mod tests;

//! Places for commands that are under way. There are as many as the queue is deep; their indices
//! are the tags by which the host's data finds its command.

use super::Transfer;
use crate::nvme::command::{Entry, Status};

/// Names a command of a connection from its arrival to its answer. Thereafter another command may
/// have the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(u16);

impl Tag {
    pub(in crate::nvme) const fn of(tag: u16) -> Self {
        Self(tag)
    }

    pub(super) const fn tag(self) -> u16 {
        self.0
    }

    /// A number below the queue's depth.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A command that has not been answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    /// CID.
    pub(super) command: u16,
    pub(super) transfer: Transfer,
    /// Bytes of its data before those that were last requested.
    pub(super) first: u32,
    /// Bytes of its data that its capsule brings, or that have been requested.
    pub(super) requested: u32,
    /// Bytes of these that have come.
    pub(super) received: u32,
    pub(super) is_damaged: bool,
    /// The status and result that it gets once what was requested has come: a host may not be
    /// answered while it sends a command's data.
    pub(super) answer: Option<(Status, u64)>,
    /// The second half of the operation of which this is the first one.
    pub(super) second: Option<Tag>,
    /// Whether it is a second half, and the first one has not been answered.
    pub(super) is_behind: bool,
}

impl Open {
    /// One that has just come; with the status of the answer if its data pointer is wrong.
    pub(super) const fn new(
        entry: &Entry,
        in_capsule: u32,
        transfer: Result<Transfer, Status>,
    ) -> Self {
        let (transfer, answer) = match transfer {
            Ok(transfer) => (transfer, None),
            Err(status) => (Transfer::None, Some((status, 0))),
        };
        Self {
            command: entry.identifier,
            transfer,
            first: 0,
            requested: in_capsule,
            received: 0,
            is_damaged: false,
            answer,
            second: None,
            is_behind: false,
        }
    }

    /// Whether nobody wants its data any more.
    pub(super) const fn is_dropped(&self) -> bool {
        self.is_damaged || self.answer.is_some()
    }
}

#[derive(Debug)]
pub(super) struct Tags {
    open: Vec<Option<Open>>,
    free: Vec<Tag>,
}

impl Default for Tags {
    /// One, for the command that connects.
    fn default() -> Self {
        Self { open: vec![None], free: vec![Tag(0)] }
    }
}

impl Tags {
    /// Adds tags until there are so many; at most 65,536.
    pub(super) fn deepen(&mut self, depth: u32) {
        let added = self.open.len() as u32..depth.min(1 << 16);
        self.open.reserve_exact(added.len());
        // Room for all of them, so that answering never allocates.
        self.free.reserve_exact(self.open.len() + added.len());
        self.open.resize(self.open.len() + added.len(), None);
        self.free.splice(..0, added.rev().map(|index| Tag(index as u16)));
    }

    /// There are none any more.
    pub(super) fn clear(&mut self) {
        *self = Self { open: Vec::new(), free: Vec::new() };
    }

    pub(super) const fn depth(&self) -> u32 {
        self.open.len() as u32
    }

    pub(super) fn take(&mut self, open: Open) -> Option<Tag> {
        let tag = self.free.pop()?;
        self.open[tag.index()] = Some(open);
        Some(tag)
    }

    pub(super) fn get(&self, tag: Tag) -> Option<&Open> {
        self.open.get(tag.index())?.as_ref()
    }

    pub(super) fn get_mut(&mut self, tag: Tag) -> Option<&mut Open> {
        self.open.get_mut(tag.index())?.as_mut()
    }

    pub(super) fn release(&mut self, tag: Tag) -> Option<Open> {
        let open = self.open.get_mut(tag.index())?.take()?;
        self.free.push(tag);
        Some(open)
    }

    /// Those that are taken.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Tag, &Open)> {
        (0..).zip(&self.open).filter_map(|(index, open)| Some((Tag(index), open.as_ref()?)))
    }

    /// Asserts what holds after each step: each tag is free, or one command has it.
    pub(super) fn check_invariants(&self) {
        let taken = self.open.iter().flatten().count();
        assert_eq!(taken + self.free.len(), self.open.len(), "no tag is lost");
        let mut is_free = vec![false; self.open.len()];
        for tag in &self.free {
            let index = tag.index();
            assert!(!std::mem::replace(&mut is_free[index], true), "{index} is free once");
            assert!(self.open[index].is_none(), "{index} is free, and has a command");
        }
    }

    /// How much memory is taken.
    #[cfg(test)]
    pub(super) const fn capacities(&self) -> (usize, usize) {
        (self.open.capacity(), self.free.capacity())
    }
}

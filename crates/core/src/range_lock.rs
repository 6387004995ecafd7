//! Locks on ranges of bytes, granted in the order in which they were asked for.
//!
//! Shared locks (reads) overlap each other; an exclusive one (a write) overlaps nothing. A lock
//! waits for every earlier one that it conflicts with, granted or not, so none can starve and
//! overlapping writes keep their order (invariant I10).

use core::fmt;
use core::ops::Range;

/// How a range is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// For reading.
    Shared,
    /// For writing.
    Exclusive,
}

/// Most locks that are compared with each other when invariants are checked.
const MAX_CHECKED: usize = 48;

#[derive(Debug)]
struct Entry<L> {
    holder: L,
    range: Range<u64>,
    mode: LockMode,
    /// How many earlier locks it waits for; granted when zero.
    blockers: usize,
}

impl<L> Entry<L> {
    fn conflicts(&self, range: &Range<u64>, mode: LockMode) -> bool {
        self.range.start < range.end
            && range.start < self.range.end
            && (self.mode == LockMode::Exclusive || mode == LockMode::Exclusive)
    }
}

/// The locks on one volume or one replica. Each call takes time in proportion to the number of
/// locks held, which the drivers bound by bounding requests.
///
/// `L` names a lock by who holds it, or wants to. Each name is used once, and they rise from one
/// call of [`Self::acquire`] to the next.
#[derive(Debug)]
pub struct RangeLock<L> {
    /// In ascending order of their holders.
    entries: Vec<Entry<L>>,
    waiting: usize,
}

impl<L> Default for RangeLock<L> {
    fn default() -> Self {
        Self { entries: Vec::new(), waiting: 0 }
    }
}

impl<L: Copy + Ord + fmt::Debug> RangeLock<L> {
    /// Asks for a lock; tells whether it is granted at once. If not, its holder comes out of a
    /// later [`Self::release`].
    pub fn acquire(&mut self, holder: L, range: Range<u64>, mode: LockMode) -> bool {
        debug_assert!(self.entries.last().is_none_or(|last| last.holder < holder));
        let blockers = self.entries.iter().filter(|e| e.conflicts(&range, mode)).count();
        self.waiting += usize::from(blockers > 0);
        self.entries.push(Entry { holder, range, mode, blockers });
        blockers == 0
    }

    /// Gives a lock back, granted or not, and appends to `granted` the locks that are granted by
    /// that, in their order.
    pub fn release(&mut self, holder: L, granted: &mut Vec<L>) {
        let Ok(index) = self.entries.binary_search_by_key(&holder, |entry| entry.holder) else {
            debug_assert!(false, "the lock of {holder:?} is not held");
            return;
        };
        let released = self.entries.remove(index);
        self.waiting -= usize::from(released.blockers > 0);
        if self.waiting == 0 {
            return;
        }
        for later in &mut self.entries[index..] {
            if later.conflicts(&released.range, released.mode) {
                later.blockers -= 1;
                if later.blockers == 0 {
                    self.waiting -= 1;
                    granted.push(later.holder);
                }
            }
        }
    }

    /// Makes a granted exclusive lock a shared one, and appends to `granted` the locks that are
    /// granted by that, in their order.
    pub fn downgrade(&mut self, holder: L, granted: &mut Vec<L>) {
        let found = self.entries.binary_search_by_key(&holder, |entry| entry.holder).ok();
        let from_it = found.and_then(|index| self.entries[index..].split_first_mut());
        let Some((lock, later)) = from_it else {
            debug_assert!(false, "the lock of {holder:?} is not held");
            return;
        };
        debug_assert!(lock.blockers == 0, "the lock of {holder:?} is not granted");
        if core::mem::replace(&mut lock.mode, LockMode::Shared) == LockMode::Shared
            || self.waiting == 0
        {
            return;
        }
        let readers = later.iter_mut().filter(|entry| entry.mode == LockMode::Shared);
        for reader in readers.filter(|entry| entry.conflicts(&lock.range, LockMode::Exclusive)) {
            reader.blockers -= 1;
            if reader.blockers == 0 {
                self.waiting -= 1;
                granted.push(reader.holder);
            }
        }
    }

    /// Whether this lock was asked for and granted.
    #[must_use]
    pub fn is_granted(&self, holder: L) -> bool {
        let found = self.entries.binary_search_by_key(&holder, |entry| entry.holder);
        found.is_ok_and(|index| self.entries[index].blockers == 0)
    }

    /// Panics if locks that conflict are granted (I10), or one waits for nobody (I11). Of more than
    /// [`MAX_CHECKED`] only the counts are checked, as it compares each with each.
    pub fn check_invariants(&self) {
        let waiting = self.entries.iter().filter(|entry| entry.blockers > 0).count();
        assert!(self.waiting == waiting, "I11: {waiting} locks wait, and {} count", self.waiting);
        if self.entries.len() > MAX_CHECKED {
            return;
        }
        for (index, entry) in self.entries.iter().enumerate() {
            let earlier = self.entries[..index].iter();
            let blockers = earlier.filter(|e| e.conflicts(&entry.range, entry.mode)).count();
            assert!(entry.blockers == blockers, "I10: {:?} waits for others", entry.holder);
        }
    }

    /// Whether no lock is held or asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests;

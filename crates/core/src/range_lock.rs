//! Locks on ranges of bytes, granted in the order in which they were asked for.
//!
//! Shared locks (reads) overlap each other; an exclusive one (a write) overlaps nothing. A lock
//! waits for every earlier one that it conflicts with, granted or not, so none can starve and
//! overlapping writes keep their order (invariant I10).

use core::ops::Range;

/// Names a lock. Given by the caller; must rise from one call of [`RangeLock::acquire`] to the
/// next.
pub type LockNumber = u64;

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
struct Entry {
    number: LockNumber,
    range: Range<u64>,
    mode: LockMode,
    /// How many earlier locks it waits for; granted when zero.
    blockers: usize,
}

impl Entry {
    fn conflicts(&self, range: &Range<u64>, mode: LockMode) -> bool {
        self.range.start < range.end
            && range.start < self.range.end
            && (self.mode == LockMode::Exclusive || mode == LockMode::Exclusive)
    }
}

/// The locks on one volume or one replica. Each call takes time in proportion to the number of
/// locks held, which the drivers bound by bounding requests.
#[derive(Debug, Default)]
pub struct RangeLock {
    /// In ascending order of their numbers.
    entries: Vec<Entry>,
    waiting: usize,
}

impl RangeLock {
    /// Asks for a lock; tells whether it is granted at once. If not, its number comes out of a
    /// later [`Self::release`].
    pub fn acquire(&mut self, number: LockNumber, range: Range<u64>, mode: LockMode) -> bool {
        debug_assert!(self.entries.last().is_none_or(|last| last.number < number));
        let blockers = self.entries.iter().filter(|e| e.conflicts(&range, mode)).count();
        self.waiting += usize::from(blockers > 0);
        self.entries.push(Entry { number, range, mode, blockers });
        blockers == 0
    }

    /// Gives a lock back, granted or not, and appends to `granted` the locks that are granted by
    /// that, in their order.
    pub fn release(&mut self, number: LockNumber, granted: &mut Vec<LockNumber>) {
        let Ok(index) = self.entries.binary_search_by_key(&number, |entry| entry.number) else {
            debug_assert!(false, "lock {number} is not held");
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
                    granted.push(later.number);
                }
            }
        }
    }

    /// Makes a granted exclusive lock a shared one, and appends to `granted` the locks that are
    /// granted by that, in their order.
    pub fn downgrade(&mut self, number: LockNumber, granted: &mut Vec<LockNumber>) {
        let found = self.entries.binary_search_by_key(&number, |entry| entry.number).ok();
        let from_it = found.and_then(|index| self.entries[index..].split_first_mut());
        let Some((lock, later)) = from_it else {
            debug_assert!(false, "lock {number} is not held");
            return;
        };
        debug_assert!(lock.blockers == 0, "lock {number} is not granted");
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
                granted.push(reader.number);
            }
        }
    }

    /// Whether this lock was asked for and granted.
    #[must_use]
    pub fn is_granted(&self, number: LockNumber) -> bool {
        let found = self.entries.binary_search_by_key(&number, |entry| entry.number);
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
            assert!(entry.blockers == blockers, "I10: lock {} waits for others", entry.number);
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

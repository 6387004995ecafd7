//! A map of what is under way, by numbers that were given in ascending order.
//!
//! Requests, their parts and a replica's operations are numbered as they come, and end in nearly
//! that order. So they stand in a queue, each at its number's distance from the oldest. Kept in
//! trees they were 15 % of the instructions of a write, kept so they are 5 % (decision 44).

use std::collections::VecDeque;

/// Removed entries that may stay, besides as many as are left.
const MAX_GAPS: usize = 32;

/// A map to which keys are added in ascending order. Finding one takes constant time if no number
/// was left out since the oldest one, else time in proportion to the logarithm of their count;
/// adding and removing, the same amortized. It holds at most twice as many entries as there are,
/// and [`MAX_GAPS`].
#[derive(Debug)]
pub struct RisingMap<K, T> {
    /// In ascending order.
    keys: VecDeque<K>,
    /// Theirs. A removed one leaves a gap; the oldest is never one.
    values: VecDeque<Option<T>>,
    count: usize,
}

impl<K, T> Default for RisingMap<K, T> {
    fn default() -> Self {
        Self { keys: VecDeque::new(), values: VecDeque::new(), count: 0 }
    }
}

impl<K: Copy + Ord + Into<u64>, T> RisingMap<K, T> {
    /// Adds an entry. `key` is higher than those that were added before.
    pub fn insert(&mut self, key: K, value: T) {
        let is_highest = self.keys.back().is_none_or(|last| *last < key);
        debug_assert!(is_highest, "number {} comes late", key.into());
        self.count += 1;
        if is_highest {
            self.keys.push_back(key);
            self.values.push_back(Some(value));
        } else {
            let place = self.keys.partition_point(|other| *other < key);
            self.keys.insert(place, key);
            self.values.insert(place, Some(value));
        }
    }

    /// The value of this key.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&T> {
        self.values[self.index_of(*key)?].as_ref()
    }

    /// The value of this key, to be changed.
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut T> {
        let index = self.index_of(*key)?;
        self.values[index].as_mut()
    }

    /// Whether there is an entry with this key.
    #[must_use]
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<T> {
        let value = match self.index_of(*key)? {
            0 => {
                self.keys.pop_front();
                self.values.pop_front()?
            }
            index => self.values[index].take(),
        }?;
        self.count -= 1;
        let gaps = self.values.iter().take_while(|value| value.is_none()).count();
        if gaps > 0 {
            self.values.drain(..gaps);
            self.keys.drain(..gaps);
        }
        if self.values.len() > 2 * self.count + MAX_GAPS {
            self.close_gaps();
        }
        Some(value)
    }

    fn close_gaps(&mut self) {
        let mut is_left = self.values.iter().map(Option::is_some);
        self.keys.retain(|_| is_left.next() == Some(true));
        self.values.retain(Option::is_some);
    }

    /// Takes all entries out.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.count = 0;
    }

    /// How many entries there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entries, in ascending order of their keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &T)> {
        self.keys.iter().zip(&self.values).filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }

    /// The entries in ascending order of their keys, the values to be changed.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut T)> {
        self.keys
            .iter()
            .zip(&mut self.values)
            .filter_map(|(key, value)| Some((key, value.as_mut()?)))
    }

    /// The values, in ascending order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    /// The values in ascending order of their keys, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// Where a key is, or a gap that it has left. No number comes twice, so it is not after the
    /// place where it would be if none were left out.
    #[inline]
    fn index_of(&self, key: K) -> Option<usize> {
        let oldest: u64 = (*self.keys.front()?).into();
        let distance = usize::try_from(key.into().checked_sub(oldest)?).ok()?;
        match self.keys.get(distance) {
            Some(found) if *found == key => Some(distance),
            _ => self.search(key),
        }
    }

    /// The same where numbers were left out. Apart, so that the rest is small enough to be inlined.
    #[cold]
    fn search(&self, key: K) -> Option<usize> {
        self.keys.binary_search(&key).ok()
    }
}

#[cfg(test)]
mod tests;

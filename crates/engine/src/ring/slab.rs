//! Numbered places whose numbers are not used again: what comes late for something that is gone
//! is recognised by its key.

/// Names one entry of a [`Slab`], for its life only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    pub(crate) const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    pub(crate) const fn from_number(number: u64) -> Self {
        Self { index: number as u32, generation: (number >> 32) as u32 }
    }
}

/// Values by [`Key`].
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    /// Of the value that is here, or of the next one that will be.
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            // Numbers start at 1: a key is never all zeroes.
            self.places.push(Place { generation: 1, value: None });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        Key { index, generation: place.generation }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        place.value.as_ref().filter(|_| place.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        place.value.as_mut().filter(|_| place.generation == key.generation)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let value = place.value.take()?;
        #[cfg(test)]
        if crate::canary::is(crate::canary::Canary::ReuseKey) {
            self.free.push(key.index);
            return Some(value);
        }
        // A place whose numbers are used up is not used again.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(key.index);
        }
        Some(value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let key = Key { index: index as u32, generation: place.generation };
            place.value.as_ref().map(|value| (key, value))
        })
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.iter().map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests;

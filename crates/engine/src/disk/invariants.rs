//! What must hold of a disk after every call, whatever the device, the core or the filesystem has
//! said: if not, this code is wrong. It is checked where assertions are on: in the simulation, and
//! by a worker in tests. Each layer and each part looks after its own fields and what it has under
//! way.

use super::checksums::Area;
use super::device::Io;
use super::{Disk, Then};

impl<I: Io> Disk<I> {
    /// Panics if an invariant of this disk, or of one of its parts, does not hold.
    pub(crate) fn check_invariants(&self) {
        self.data.check_invariants();
        self.superblocks.check_invariants();
        self.tables.check_invariants();
        self.growth.check_invariants(self.has_nothing_under_way());
        let is_save = |then: &&Then| matches!(then, Then::Superblock);
        let saves = self.data.awaited().filter(is_save).count();
        let is_saving = self.superblocks.is_saving();
        assert!(saves == usize::from(is_saving), "{saves} writes of a superblock");
        let is_past = self.answers.reported() <= self.data.raw().failures();
        assert!(is_past, "the core was told of flushes that have not failed yet");
        self.check_places();
    }

    /// What the layers know of where things lie is what the disk says of itself.
    fn check_places(&self) {
        let superblock = self.superblocks.newest();
        let length = self.data.raw().layout().length();
        assert!(length == superblock.data_length, "{length} bytes of data, and another superblock");
        if let Some(store) = self.data.store() {
            store.check_area(Area::of(superblock));
        }
    }
}

#[cfg(test)]
pub(super) mod tests;

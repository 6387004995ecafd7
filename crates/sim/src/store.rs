//! A replica's superblocks on its simulated disk, in the shipped format.

use evenkeel_core::{ReplicaId, View};
use evenkeel_format::{DATA_OFFSET, NewestError, Slot, Superblock, newest};

use crate::disk::Disk;
use crate::random::Random;

/// What a driver knows of a replica's superblocks.
#[derive(Debug)]
pub struct Store {
    replica: ReplicaId,
    mirror: u32,
    sequence: u64,
    write_first: Slot,
}

/// A save under way: the slots are written one after the other.
#[derive(Debug, Clone)]
pub struct Save {
    bytes: Vec<u8>,
    first: Slot,
    /// How many slots are written.
    pub written: u8,
}

const fn number(slot: Slot) -> usize {
    match slot {
        Slot::A => 0,
        Slot::B => 1,
    }
}

impl Store {
    /// A new replica's superblock, and the bytes of both slots.
    ///
    /// # Panics
    /// If the format does not take the view.
    #[must_use]
    pub fn create(replica: ReplicaId, mirror: u32, view: &View) -> (Self, Vec<u8>) {
        let mut store = Self { replica, mirror, sequence: 0, write_first: Slot::A };
        let save = store.begin(view);
        (store, save.bytes)
    }

    /// What a starting replica finds on its disk.
    ///
    /// # Errors
    /// If neither slot can be used.
    pub fn open(disk: &Disk) -> Result<(Self, View, bool), NewestError> {
        let [a, b] = disk.slots();
        let found = newest(a, b)?;
        let superblock = found.superblock;
        let store = Self {
            replica: superblock.replica,
            mirror: superblock.mirror,
            sequence: superblock.sequence,
            write_first: found.write_first,
        };
        Ok((store, superblock.view, found.damaged.is_some()))
    }

    /// Begins a save of this view.
    ///
    /// # Panics
    /// If the format does not take the view.
    pub fn begin(&mut self, view: &View) -> Save {
        self.sequence += 1;
        let superblock = Superblock {
            sequence: self.sequence,
            volume: view.volume,
            name: "simulated".into(),
            replica: self.replica,
            mirror: self.mirror,
            data_offset: DATA_OFFSET,
            data_length: view.replica_size(),
            view: view.clone(),
        };
        let bytes = superblock.encode().expect("the format takes every valid view").0.to_vec();
        Save { bytes, first: self.write_first, written: 0 }
    }

    /// Writes the next slot of a save, which is then durable.
    pub fn advance(&mut self, save: &mut Save, disk: &mut Disk) {
        let slot = save.next_slot();
        disk.write_slot(number(slot), &save.bytes, None);
        save.written += 1;
        self.write_first = slot.other();
    }
}

impl Save {
    fn next_slot(&self) -> Slot {
        if self.written == 0 { self.first } else { self.first.other() }
    }

    /// The save is interrupted: the slot that is being written may be old, torn or new.
    pub fn interrupt(&self, disk: &mut Disk, random: &mut Random) {
        if self.written < 2 {
            let torn = match random.below(3) {
                0 => 0,
                1 => random.index(self.bytes.len()),
                _ => self.bytes.len(),
            };
            disk.write_slot(number(self.next_slot()), &self.bytes, Some(torn));
        }
    }
}

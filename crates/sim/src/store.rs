//! A replica's superblocks, intent log and bitmaps on its simulated disk, in the shipped format.

use evenkeel_core::replica::{ALL_OPEN, FoundPage, IntentLayout, MissingPage};
use evenkeel_core::{Incarnation, ReplicaId, View};
use evenkeel_format::{
    DATA_OFFSET, IntentTable, NewestError, Slot, Superblock, TableCopy, decode_page, encode_page,
    metadata_offset, newest, newest_table,
};

use crate::disk::Disk;
use crate::random::Random;

/// What a driver knows of a replica's superblocks.
#[derive(Debug)]
pub struct Store {
    replica: ReplicaId,
    mirror: u32,
    sequence: u64,
    write_first: Slot,
    life: Incarnation,
    layout: IntentLayout,
    table_sequence: u64,
    table_next: TableCopy,
}

/// What a starting replica finds on its disk.
#[derive(Debug)]
pub struct Found {
    /// The view in its superblocks.
    pub view: View,
    /// The life in which they were saved.
    pub saved_life: Incarnation,
    /// The size of its intent log.
    pub layout: IntentLayout,
    /// The open regions.
    pub open_regions: Vec<u64>,
    /// The pages of bitmaps.
    pub missing: Vec<FoundPage>,
    /// Whether one of the superblocks was damaged.
    pub damaged: bool,
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
    pub fn create(
        replica: ReplicaId,
        mirror: u32,
        view: &View,
        layout: IntentLayout,
    ) -> (Self, Vec<u8>) {
        let mut store = Self {
            replica,
            mirror,
            sequence: 0,
            write_first: Slot::A,
            life: Incarnation(0),
            layout,
            table_sequence: 0,
            table_next: TableCopy::A,
        };
        let save = store.begin(view);
        (store, save.bytes)
    }

    /// What a starting replica finds on its disk; it begins this life.
    ///
    /// # Errors
    /// If neither slot can be used.
    pub fn open(disk: &Disk, life: Incarnation) -> Result<(Self, Found), NewestError> {
        let [a, b] = disk.slots();
        let newest = newest(a, b)?;
        let superblock = newest.superblock;
        let layout = IntentLayout {
            region: superblock.intent_region,
            capacity: superblock.intent_capacity as usize,
        };
        let [a, b] = disk.tables();
        let tables = newest_table(a, b, superblock.replica);
        let is_new = disk.tables().iter().all(|table| table.is_empty());
        let table_sequence = tables.table.as_ref().map_or(0, |table| table.sequence);
        let open_regions = match tables.table {
            Some(table) => table.regions,
            None if is_new => Vec::new(),
            None => vec![ALL_OPEN],
        };
        let store = Self {
            replica: superblock.replica,
            mirror: superblock.mirror,
            sequence: superblock.sequence,
            write_first: newest.write_first,
            life,
            layout,
            table_sequence,
            table_next: tables.write_next,
        };
        let missing =
            disk.pages().filter_map(|((slot, page), bytes)| decode_page(bytes, slot, page));
        let found = Found {
            view: superblock.view,
            saved_life: superblock.life,
            layout,
            open_regions,
            missing: missing.collect(),
            damaged: newest.damaged.is_some(),
        };
        Ok((store, found))
    }

    /// The bytes of the next table of open regions, and the copy that they belong to.
    pub fn begin_table(&mut self, regions: Vec<u64>) -> TableSave {
        self.table_sequence += 1;
        let table = IntentTable { sequence: self.table_sequence, replica: self.replica, regions };
        let copy = self.table_next;
        self.table_next = copy.other();
        TableSave { copy: usize::from(copy == TableCopy::B), bytes: table.encode() }
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
            life: self.life,
            saved: 0,
            intent_region: self.layout.region,
            intent_capacity: self.layout.capacity as u32,
            metadata_offset: metadata_offset(view.replica_size()),
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

/// A save of the table of open regions.
#[derive(Debug, Clone)]
pub struct TableSave {
    copy: usize,
    bytes: Vec<u8>,
}

impl TableSave {
    /// Writes it, durably; with `torn`, only the first so many bytes.
    pub fn write(&self, disk: &mut Disk, torn: Option<usize>) {
        disk.write_table(self.copy, &self.bytes, torn);
    }

    /// The save is interrupted: the copy may be old, torn or new.
    pub fn interrupt(&self, disk: &mut Disk, random: &mut Random) {
        let torn = random.index(self.bytes.len() + 1);
        self.write(disk, Some(if random.chance(500) { torn } else { self.bytes.len() }));
    }
}

/// Writes pages of bitmaps, durably.
pub fn write_pages(disk: &mut Disk, pages: &[MissingPage]) {
    for page in pages {
        disk.write_page((page.slot, page.page), &encode_page(page), None);
    }
}

/// A save of pages is interrupted: each may be old, torn or new.
pub fn interrupt_pages(disk: &mut Disk, pages: &[MissingPage], random: &mut Random) {
    for page in pages {
        let bytes = encode_page(page);
        let torn = match random.below(3) {
            0 => 0,
            1 => random.index(bytes.len()),
            _ => bytes.len(),
        };
        if torn > 0 {
            disk.write_page((page.slot, page.page), &bytes, Some(torn));
        }
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

//! A replica's superblocks, intent log and bitmaps on its simulated disk, in the shipped format.

use evenkeel_core::replica::{FoundPage, MissingPage, OpenRegions};
use evenkeel_core::{Incarnations, ReplicaId, View};
use evenkeel_format::{
    DATA_OFFSET, INTENT_SLOTS, IntentTable, NewestError, Superblock, SuperblockCopy, TableCopy,
    decode_page, encode_page, metadata_offset, newest, newest_table,
};

use crate::disk::Disk;
use crate::random::Random;

/// What a driver knows of a replica's superblocks.
#[derive(Debug)]
pub struct Store {
    replica: ReplicaId,
    mirror: u32,
    sequence: u64,
    write_first: SuperblockCopy,
    /// Sequence and copy of the next table of each slot.
    tables: [(u64, TableCopy); INTENT_SLOTS as usize],
}

/// What a starting replica finds on its disk.
#[derive(Debug)]
pub struct Found {
    /// The view in its superblocks.
    pub view: View,
    /// The incarnations that they list.
    pub incarnations: Incarnations,
    /// The open regions.
    pub open_regions: Vec<OpenRegions>,
    /// The pages of bitmaps.
    pub missing: Vec<FoundPage>,
    /// Whether one of the superblocks was damaged.
    pub damaged: bool,
}

/// A save under way: the copies are written one after the other.
#[derive(Debug, Clone)]
pub struct Save {
    bytes: Vec<u8>,
    first: SuperblockCopy,
    /// How many copies are written.
    pub written: u8,
}

const fn number(copy: SuperblockCopy) -> usize {
    match copy {
        SuperblockCopy::A => 0,
        SuperblockCopy::B => 1,
    }
}

impl Store {
    /// A new replica's superblock, and the bytes of both copies.
    ///
    /// # Panics
    /// If the format does not take the view.
    #[must_use]
    pub fn create(replica: ReplicaId, mirror: u32, view: &View) -> (Self, Vec<u8>) {
        let mut store = Self {
            replica,
            mirror,
            sequence: 0,
            write_first: SuperblockCopy::A,
            tables: [(0, TableCopy::A); INTENT_SLOTS as usize],
        };
        let save = store.begin(view, Incarnations::default());
        (store, save.bytes)
    }

    /// What somebody reads who looks at the disk; nothing while a superblock is being saved over a
    /// torn one.
    #[must_use]
    pub fn examine(disk: &Disk) -> Option<Superblock> {
        let [a, b] = disk.copies();
        newest(a, b).ok().map(|newest| newest.superblock)
    }

    /// Puts other incarnations into the superblocks of a disk.
    ///
    /// # Panics
    /// If the format does not take them, as it does.
    pub fn relabel(disk: &mut Disk, incarnations: Incarnations) {
        if let Some(superblock) = Self::examine(disk) {
            let superblock = Superblock { incarnations, ..superblock };
            let bytes = superblock.encode().expect("the format takes every valid view").0;
            (0..2).for_each(|slot| disk.write_copy(slot, &bytes, None));
        }
    }

    /// What a starting replica finds on its disk.
    ///
    /// # Errors
    /// If neither copy can be used.
    pub fn open(disk: &Disk) -> Result<(Self, Found), NewestError> {
        let [a, b] = disk.copies();
        let newest = newest(a, b)?;
        let superblock = newest.superblock;
        let mut tables = [(0, TableCopy::A); INTENT_SLOTS as usize];
        let mut open_regions = Vec::new();
        for (slot, next) in (0..INTENT_SLOTS).zip(&mut tables) {
            let [a, b] = disk.tables(slot);
            let found = newest_table(a, b, superblock.replica, slot);
            *next = (found.table.as_ref().map_or(0, |table| table.sequence), found.write_next);
            let is_new = a.is_empty() && b.is_empty();
            let none = is_new.then(|| OpenRegions::none(superblock.view.intents, slot));
            let all = || OpenRegions::all(superblock.view.intents, slot);
            let regions = found.table.map(|table| table.regions).or(none).unwrap_or_else(all);
            open_regions.extend(Some(regions).filter(|regions| !regions.open.is_empty()));
        }
        let store = Self {
            replica: superblock.replica,
            mirror: superblock.mirror,
            sequence: superblock.sequence,
            write_first: newest.write_first,
            tables,
        };
        let missing =
            disk.pages().filter_map(|((slot, page), bytes)| decode_page(bytes, slot, page));
        let found = Found {
            view: superblock.view,
            incarnations: superblock.incarnations,
            open_regions,
            missing: missing.collect(),
            damaged: newest.damaged.is_some(),
        };
        Ok((store, found))
    }

    /// The bytes of the next table of open regions, and the copy that they belong to.
    pub fn begin_table(&mut self, regions: OpenRegions) -> TableSave {
        let (sequence, copy) = &mut self.tables[usize::from(regions.slot)];
        *sequence += 1;
        let place = (regions.slot, usize::from(*copy == TableCopy::B));
        let table = IntentTable { sequence: *sequence, cleared: 0, replica: self.replica, regions };
        TableSave { place, bytes: table.encode() }
    }

    /// Writes a table, durably. The next one goes to the other copy.
    pub fn save_table(&mut self, save: &TableSave, disk: &mut Disk) {
        save.write(disk, None);
        self.table_counts(save);
    }

    /// This table is the last one that was saved: the next one goes to the other copy.
    pub fn table_counts(&mut self, save: &TableSave) {
        let (_, copy) = &mut self.tables[usize::from(save.place.0)];
        *copy = copy.other();
    }

    /// Begins a save of this view and these incarnations.
    ///
    /// # Panics
    /// If the format does not take the view.
    pub fn begin(&mut self, view: &View, incarnations: Incarnations) -> Save {
        self.sequence += 1;
        let superblock = Superblock {
            sequence: self.sequence,
            volume: view.volume,
            name: "simulated".into(),
            replica: self.replica,
            mirror: self.mirror,
            data_offset: DATA_OFFSET,
            data_length: view.replica_size(),
            incarnations,
            saved: 0,
            metadata_offset: metadata_offset(view.replica_size()),
            has_checksums: false,
            view: view.clone(),
        };
        let bytes = superblock.encode().expect("the format takes every valid view").0.to_vec();
        Save { bytes, first: self.write_first, written: 0 }
    }

    /// Writes the next copy of a save, which is then durable.
    pub fn advance(&mut self, save: &mut Save, disk: &mut Disk) {
        let slot = save.next_copy();
        disk.write_copy(number(slot), &save.bytes, None);
        save.written += 1;
        self.write_first = slot.other();
    }
}

/// A save of the table of open regions.
#[derive(Debug, Clone)]
pub struct TableSave {
    place: (u8, usize),
    bytes: Vec<u8>,
}

impl TableSave {
    /// With `torn`, only the first so many bytes.
    fn write(&self, disk: &mut Disk, torn: Option<usize>) {
        disk.write_table(self.place, &self.bytes, torn);
    }

    /// The save is interrupted: the copy may be old, torn or new.
    pub fn interrupt(&self, disk: &mut Disk, random: &mut Random) {
        // What is behind the last region is zeroes: a tear there would be none.
        let used = self.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let torn = random.index(self.bytes.len() + 1) * used / self.bytes.len();
        self.write(disk, Some(if random.chance(500) { torn } else { self.bytes.len() }));
    }
}

/// Writes pages of bitmaps, durably.
pub fn write_pages(disk: &mut Disk, pages: &[MissingPage]) {
    for page in pages {
        disk.write_page((page.place, page.page), &encode_page(page), None);
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
            disk.write_page((page.place, page.page), &bytes, Some(torn));
        }
    }
}

impl Save {
    fn next_copy(&self) -> SuperblockCopy {
        if self.written == 0 { self.first } else { self.first.other() }
    }

    /// The save is interrupted: the copy that is being written may be old, torn or new.
    pub fn interrupt(&self, disk: &mut Disk, random: &mut Random) {
        if self.written < 2 {
            let torn = match random.below(3) {
                0 => 0,
                1 => random.index(self.bytes.len()),
                _ => self.bytes.len(),
            };
            disk.write_copy(number(self.next_copy()), &self.bytes, Some(torn));
        }
    }
}

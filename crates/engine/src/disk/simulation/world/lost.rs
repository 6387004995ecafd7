//! Sectors of metadata that can't be read when the disk is opened, and what that excuses.

use evenkeel_format::{JOURNAL_BLOCKS, TABLE_LENGTH, TableCopy, page_offset, pages_per_bitmap};

use super::*;

/// What could not be read at a start.
#[derive(Debug, Clone, Default)]
pub(super) struct Lost {
    /// Slots of the intent log.
    pub(super) tables: BTreeSet<u8>,
    /// Pages of bitmaps.
    pub(super) pages: BTreeSet<(u8, u32)>,
}

impl World {
    /// The disk loses sectors while nobody uses it.
    pub(super) fn lose_sectors(&mut self) {
        let often = self.device.state().faults.lost;
        if !self.aside.chance(often) {
            return;
        }
        self.note("starts with lost sectors");
        let Some(superblock) = self.found() else { return };
        let area = Area::of(&superblock);
        for _ in 0..=self.aside.below(3) {
            let page = PAGE_LENGTH as u64;
            let of_bitmaps = page_offset(superblock.data_length, self.aside.below(16) as u8, 0)
                / page
                + self.aside.below(self.plan.bitmap_pages);
            let copy = self.aside.pick(&[TableCopy::A, TableCopy::B]);
            let (from, length) = match self.aside.below(6) {
                // Of one superblock only.
                0 => (Copy::B.offset(), SUPERBLOCK_LENGTH as u64),
                1 => (copy.offset(self.aside.below(SLOTS as u64) as u8), TABLE_LENGTH as u64),
                2 => (ALLOCATION_OFFSET, 2 * page),
                3 => (superblock.metadata_offset + of_bitmaps * page, page),
                4 => (area.start(), JOURNAL_BLOCKS * page),
                _ => (area.page(0), checksum_pages(superblock.data_length) * page),
            };
            let at = from + self.aside.below(length / SECTOR) * SECTOR;
            let is_superblock =
                at < Copy::B.offset() + SUPERBLOCK_LENGTH as u64 && at >= Copy::B.offset();
            // A crash has torn the other one: that would be two faults at once.
            if is_superblock && !self.is_whole(Copy::A) {
                continue;
            }
            self.report(|| format!("-- the sector at byte {at} is lost"));
            self.device.state().lose(at / SECTOR);
        }
    }

    /// What a start would find.
    fn found(&self) -> Option<Superblock> {
        let copies = [Copy::A, Copy::B].map(|copy| {
            let mut bytes = vec![0; SUPERBLOCK_LENGTH];
            let read = self.device.state().read(copy.offset(), &mut bytes);
            read.map(|()| bytes).unwrap_or_default()
        });
        newest(&copies[0], &copies[1]).ok().map(|newest| newest.superblock)
    }

    fn is_whole(&self, copy: Copy) -> bool {
        let mut bytes = vec![0; SUPERBLOCK_LENGTH];
        let state = self.device.state();
        let is_read = state.read(copy.offset(), &mut bytes).is_some();
        let is_durable = state.is_durable(copy.offset()..copy.offset() + bytes.len() as u64);
        is_read && is_durable && Superblock::decode(&bytes).is_ok()
    }

    /// Takes note of what could not be read, until a start succeeds: one that failed may have
    /// written it anew. Of the checksums none is certain then.
    pub(super) fn note_lost(&mut self, superblock: &Superblock) {
        let mut unread = core::mem::take(&mut self.device.state().unread);
        // What could not be read at once was read part by part.
        unread.retain(|range| range.end - range.start <= TABLE_LENGTH as u64);
        let (area, page) = (Area::of(superblock), PAGE_LENGTH as u64);
        let bitmaps = superblock.metadata_offset..area.start();
        if !unread.is_empty() {
            self.written = None;
        }
        for range in unread {
            for slot in 0..SLOTS as u8 {
                for copy in [TableCopy::A, TableCopy::B] {
                    let start = copy.offset(slot);
                    let table = start..start + TABLE_LENGTH as u64;
                    if range.start < table.end && table.start < range.end {
                        self.lost.tables.insert(slot);
                    }
                }
            }
            let first = range.start.max(bitmaps.start);
            let per_bitmap = pages_per_bitmap(superblock.data_length);
            for at in (first..range.end.min(bitmaps.end)).step_by(page as usize) {
                let number = (at - bitmaps.start) / page;
                self.lost.pages.insert(((number / per_bitmap) as u8, (number % per_bitmap) as u32));
            }
            if range.end > area.start() {
                self.model.forget(0..u64::MAX);
            }
        }
    }
}

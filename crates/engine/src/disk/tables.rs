//! The intent log: tables of open regions, each slot's in two copies.

use std::io;

use evenkeel_core::replica::OpenRegions;
use evenkeel_format::{
    INTENT_SLOTS, IntentTable, Superblock, TABLE_LENGTH, TableCopy, newest_table,
};

use super::device::{Access, Parts, Writes, write_at};

/// Where tables of open regions go, slot by slot.
#[derive(Debug, Clone, Default)]
pub struct Tables(Vec<NextTable>);

/// Where the next table of a slot goes.
#[derive(Debug, Clone)]
struct NextTable {
    /// The one that it follows. It may be on the disk or not.
    last: IntentTable,
    /// Never the one that holds the newest table known to be durable.
    copy: TableCopy,
    /// Those that can't be read, and may be newer.
    lost: Vec<TableCopy>,
}

impl Tables {
    /// Reads the tables of all slots. Also returns those that name anything. Blocks on the disk.
    ///
    /// # Errors
    /// If the disk can't be read.
    pub(super) fn read(
        file: &impl Access,
        superblock: &Superblock,
    ) -> io::Result<(Self, Vec<OpenRegions>)> {
        let length = usize::from(INTENT_SLOTS) * TABLE_LENGTH;
        let read = |copy: TableCopy| Parts::read(file, copy.offset(0), length, TABLE_LENGTH);
        let (a, b) = (read(TableCopy::A)?, read(TableCopy::B)?);
        let copies = (0..INTENT_SLOTS).zip(a.iter().zip(b.iter()));
        let slots: Vec<_> =
            copies.map(|(slot, copies)| NextTable::found(superblock, slot, copies)).collect();
        let regions = slots.iter().map(|next| next.last.regions.clone());
        let open = regions.filter(|regions| !regions.open.is_empty()).collect();
        Ok((Self(slots), open))
    }

    /// Whether all copies could be read.
    pub(super) fn are_whole(&self) -> bool {
        self.0.iter().all(|next| next.lost.is_empty())
    }

    /// Writes anew the copies that can't be read. A flush has to follow. Blocks on the disk.
    ///
    /// # Errors
    /// If the disk can't be written.
    pub(super) fn replace_lost(&mut self, file: &impl Access) -> io::Result<()> {
        for (slot, next) in (0..).zip(&mut self.0) {
            for copy in std::mem::take(&mut next.lost) {
                next.last = next.last.followed_by(next.last.regions.clone());
                write_at(file, &next.last.encode(), copy.offset(slot))?;
                next.copy = copy.other();
            }
        }
        Ok(())
    }

    /// Panics if a slot has the table of another one.
    pub(super) fn check_invariants(&self) {
        let slots = self.0.iter().map(|next| next.last.regions.slot);
        assert!(slots.eq(0..INTENT_SLOTS), "the table of a slot is kept as that of another one");
    }

    /// Whether this table names less than the one before it, which may be on the disk or not.
    pub(super) fn close_by(&self, next: &OpenRegions) -> bool {
        let last = &self.0[usize::from(next.slot)].last.regions;
        let stays_open = |region: &u64| next.open.binary_search(region).is_ok();
        let is_same_size = last.region == next.region;
        !next.is_all() && !last.open.iter().all(|region| is_same_size && stays_open(region))
    }

    /// What it takes to save this table. [`Self::saved`] is to be told when that is durable.
    pub(super) fn save(&mut self, regions: OpenRegions) -> Writes {
        let slot = regions.slot;
        let next = &mut self.0[usize::from(slot)];
        // The number is used up even if the save fails: its bytes may be on the disk.
        next.last = next.last.followed_by(regions);
        Writes::new(vec![(next.copy.offset(slot), next.last.encode())])
    }

    /// The last table of a slot is durable: the other copy is the one whose loss costs nothing from
    /// now on. After a save that failed it is still this one, whatever it holds.
    pub(super) fn saved(&mut self, slot: u8) {
        let next = &mut self.0[usize::from(slot)];
        next.copy = next.copy.other();
    }
}

impl NextTable {
    /// What both copies of a slot's table say; `None`: it can't be read.
    fn found(superblock: &Superblock, slot: u8, (a, b): (Option<&[u8]>, Option<&[u8]>)) -> Self {
        let (replica, layout) = (superblock.replica, superblock.view.intents);
        let found = newest_table(a.unwrap_or_default(), b.unwrap_or_default(), replica, slot);
        let is_zero = |copy: Option<&[u8]>| copy.is_some_and(|copy| copy.iter().all(|b| *b == 0));
        let is_new = is_zero(a) && is_zero(b);
        let lost = [(TableCopy::A, a), (TableCopy::B, b)]
            .into_iter()
            .filter_map(|(copy, bytes)| bytes.is_none().then_some(copy))
            .collect::<Vec<_>>();
        // A torn copy is one whose save has not ended. One that can't be read may be the newest.
        let table = found.table.clone().filter(|_| lost.is_empty());
        let sequence = found.table.map_or(0, |table| table.sequence);
        // What is not known may have named anything: the next table closes it.
        let regions = match is_new {
            true => OpenRegions::none(layout, slot),
            false => OpenRegions::all(layout, slot),
        };
        let unknown = IntentTable { sequence, cleared: 0, replica, regions };
        Self { last: table.unwrap_or(unknown), copy: found.write_next, lost }
    }
}

#[cfg(test)]
mod tests;

//! The intent log and the bitmaps beside a superblock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;

use evenkeel_api::types::{
    CopyVerdict, ExaminedBitmap, ExaminedIntents, ExaminedSlot, ReplicaProblem,
};
use evenkeel_core::replica::{FoundPage, OpenRegions};
use evenkeel_core::{Generation, ReplicaId};
use evenkeel_engine::read_metadata;
use evenkeel_format::{
    INTENT_SLOTS, IntentTable, SUPERBLOCK_LENGTH, Superblock, TABLE_LENGTH, TableCopy,
};

use crate::disks::{length_of, read_copy};

/// Bytes of one block, the unit of bitmaps.
const BLOCK: u64 = evenkeel_core::settings::BLOCK as u64;

pub(super) struct Tables {
    pub intents: ExaminedIntents,
    pub bitmaps: Vec<ExaminedBitmap>,
    pub problems: Vec<ReplicaProblem>,
}

/// The log of a replica whose tables cannot be read.
pub(super) const fn none(superblock: &Superblock) -> ExaminedIntents {
    ExaminedIntents {
        places: superblock.view.intents.places,
        region_size: superblock.view.intents.region,
        slots: Vec::new(),
    }
}

/// Reads the tables of a replica on a file or device of `size` bytes.
pub(super) fn read(file: &File, size: u64, superblock: &Superblock) -> io::Result<Tables> {
    let mut problems = Vec::new();
    let [a, b] = [TableCopy::A, TableCopy::B].map(|copy| read_copies(file, copy));
    let slots = a.chunks(TABLE_LENGTH).zip(b.chunks(TABLE_LENGTH)).enumerate();
    let slots = slots.map(|(n, (a, b))| slot(n as u8, a, b, superblock));
    let count = superblock.view.intents.slots;
    let used = |slot: &ExaminedSlot| slot.slot < count || slot.copies != [CopyVerdict::Empty; 2];
    let slots: Vec<ExaminedSlot> = slots.filter(used).collect();
    problems.extend(slots.iter().filter_map(damaged_slot));
    // Of what was cut off there is nothing to be read, however much the superblock promises.
    let pages = match size < length_of(superblock) {
        true => Vec::new(),
        false => read_metadata(file, superblock)?.missing,
    };
    let (bitmaps, damaged) = bitmaps(pages, superblock);
    problems.extend(damaged);
    Ok(Tables { intents: ExaminedIntents { slots, ..none(superblock) }, bitmaps, problems })
}

/// One copy of the tables of all slots. What cannot be read is no table.
fn read_copies(file: &File, copy: TableCopy) -> Vec<u8> {
    let length = usize::from(INTENT_SLOTS) * TABLE_LENGTH;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let piece = read_copy(file, copy.offset(0) + bytes.len() as u64);
        let is_whole = piece.len() == SUPERBLOCK_LENGTH;
        bytes.extend(if is_whole { piece } else { vec![0xff; SUPERBLOCK_LENGTH] });
    }
    bytes
}

fn slot(number: u8, a: &[u8], b: &[u8], superblock: &Superblock) -> ExaminedSlot {
    let tables = [a, b].map(|bytes| IntentTable::decode(bytes, superblock.replica, number));
    let verdict = |table: &Option<IntentTable>, bytes: &[u8]| match table {
        Some(_) => CopyVerdict::Good,
        None if bytes.iter().all(|byte| *byte == 0) => CopyVerdict::Empty,
        None => CopyVerdict::Damaged,
    };
    let copies = [verdict(&tables[0], a), verdict(&tables[1], b)];
    let sequences = [0, 1].map(|n: usize| tables[n].as_ref().map(|table| table.sequence));
    let newest = tables.into_iter().flatten().max_by_key(|table| table.sequence);
    let (events, cleared) = newest.as_ref().map_or((0, 0), |table| (table.sequence, table.cleared));
    let says_all = newest.as_ref().is_some_and(|table| table.regions.is_all());
    let all_open = says_all || (newest.is_none() && copies != [CopyVerdict::Empty; 2]);
    // All of them need no list.
    let regions =
        newest.map_or(OpenRegions::none(superblock.view.intents, number), |table| table.regions);
    let region_size = regions.region;
    let open = if all_open { Vec::new() } else { regions.open };
    let covered = |region: &u64| {
        let start = region.saturating_mul(region_size);
        superblock.data_length.saturating_sub(start).min(region_size)
    };
    let bytes = if all_open { superblock.data_length } else { open.iter().map(covered).sum() };
    let holder = superblock.view.primaries.iter().find(|primary| primary.slot == number);
    ExaminedSlot {
        slot: number,
        holder: holder.map(|primary| primary.id.node.to_string()),
        sequences,
        events,
        cleared,
        copies,
        all_open,
        region_size,
        open,
        bytes,
    }
}

fn damaged_slot(slot: &ExaminedSlot) -> Option<ReplicaProblem> {
    let number = slot.slot;
    let (why, action) = if slot.all_open && !slot.copies.contains(&CopyVerdict::Good) {
        (
            format!(
                "neither copy of the intent log's slot {number} is whole: every region counts as open"
            ),
            "Nothing by hand: the replica is compared in full when it is used. Check the disk",
        )
    } else {
        let copy = slot.copies.iter().position(|verdict| *verdict == CopyVerdict::Damaged)?;
        let (bad, good) = if copy == 0 { ("A", "B") } else { ("B", "A") };
        (
            format!(
                "copy {bad} of the intent log's slot {number} is not whole, and copy {good} is"
            ),
            "Nothing by hand: a crash during a save leaves it so, and the next save overwrites it",
        )
    };
    Some(ReplicaProblem { why, action: action.to_owned() })
}

fn bitmaps(
    pages: Vec<FoundPage>,
    superblock: &Superblock,
) -> (Vec<ExaminedBitmap>, Option<ReplicaProblem>) {
    let mut blocks: BTreeMap<(u8, ReplicaId, Generation), u64> = BTreeMap::new();
    let mut damaged = BTreeSet::new();
    for page in pages {
        match page {
            FoundPage::Whole(page) => {
                let set = page.bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
                *blocks.entry((page.place, page.replica, page.since)).or_default() += set;
            }
            FoundPage::Damaged { place, page } => drop(damaged.insert((place, page))),
        }
    }
    let view = &superblock.view;
    let counts = |replica: ReplicaId, since: Generation| {
        view.replica(replica).is_some_and(|(_, record)| record.missing_since == Some(since))
    };
    let described = blocks.into_iter().map(|((place, replica, since), blocks)| ExaminedBitmap {
        place,
        replica: replica.to_string(),
        since: since.0,
        counts: counts(replica, since),
        blocks,
        bytes: blocks * BLOCK,
    });
    let problem = (!damaged.is_empty()).then(|| ReplicaProblem {
        why: format!(
            "{} page(s) of its bitmaps are not whole: all their blocks count as missing",
            damaged.len()
        ),
        action: "Nothing by hand: a crash during a save leaves it so, and costs a longer rebuild"
            .into(),
    });
    (described.collect(), problem)
}

use super::*;
use crate::payload::stamp;

/// Four blocks, all written, in two regions.
fn disk() -> Disk {
    let mut disk = Disk::new(4 * BLOCK, &[]);
    disk.keep_checksums();
    write(&mut disk, 0..4 * BLOCK);
    disk
}

fn write(disk: &mut Disk, sectors: Range<u32>) {
    let after = disk.sums_after(sectors.clone(), false);
    sectors.clone().for_each(|sector| disk.put(sector, stamp(1, sector)));
    disk.changed(&after, true);
    disk.repair(sectors);
}

fn forget(disk: &mut Disk, region: u64) {
    let region_bytes = 2 * u64::from(BLOCK * SECTOR);
    disk.forget_checksums(&OpenRegions { slot: 0, region: region_bytes, open: vec![region] });
}

fn forgotten(disk: &Disk, sectors: Range<u32>) -> Vec<u32> {
    match disk.unverified(sectors) {
        Some(Unverified::Blocks { forgotten, .. }) => forgotten,
        _ => Vec::new(),
    }
}

#[test]
fn a_start_forgets_what_is_open() {
    let mut disk = disk();
    assert_eq!(disk.unverified(0..4 * BLOCK), None);
    forget(&mut disk, 1);
    assert_eq!(forgotten(&disk, BLOCK + 1..4 * BLOCK), [1, 2], "counted from the first touched");
    assert!(disk.vouches_for(0) && !disk.vouches_for(2 * BLOCK));
}

#[test]
fn only_a_write_of_the_whole_block_makes_it_known() {
    let mut disk = disk();
    forget(&mut disk, 0);
    write(&mut disk, 1..BLOCK);
    assert_eq!(forgotten(&disk, 0..BLOCK), [0]);
    write(&mut disk, 0..BLOCK);
    assert!(disk.vouches_for(0));
    let after = disk.sums_after(0..BLOCK, false);
    disk.changed(&after, false);
    assert!(!disk.vouches_for(0), "one that failed leaves nothing known");
}

#[test]
fn bits_rot_unseen_where_the_checksum_is_forgotten() {
    let mut disk = disk();
    disk.damage(0);
    assert!(disk.is_damaged(0..1) && disk.garbled(0..BLOCK).is_empty());
    forget(&mut disk, 0);
    assert!(!disk.is_harmed(0..BLOCK), "what rotted before counts as whole");
    disk.damage(0);
    assert!(!disk.is_damaged(0..1) && disk.is_harmed(0..1));
    write(&mut disk, 0..1);
    assert_eq!(disk.garbled(0..BLOCK), (1..BLOCK).collect::<Vec<_>>());
    write(&mut disk, 0..BLOCK);
    assert!(!disk.is_harmed(0..BLOCK));
}

#[test]
fn a_torn_sector_cannot_be_read_whatever_is_known() {
    let mut disk = disk();
    disk.tear(0);
    forget(&mut disk, 0);
    assert!(disk.is_damaged(0..1));
}

#[test]
fn empty_space_has_no_checksum_and_has_lost_none() {
    let mut disk = Disk::new(2 * BLOCK, &[]);
    disk.keep_checksums();
    assert_eq!(
        disk.unverified(0..2 * BLOCK),
        Some(Unverified::Blocks { empty: vec![0, 1], forgotten: Vec::new() })
    );
    write(&mut disk, 0..1);
    assert!(disk.vouches_for(0), "the rest of the block was empty");
}

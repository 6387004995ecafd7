//! What must hold of a disk is broken by hand, and found.

use evenkeel_format::{Newest, Superblock, SuperblockCopy};

use crate::disk::Disk;
use crate::disk::device::Flushes;
use crate::disk::simulation::queue::Queue;
use crate::disk::simulation::scenarios::Bench;
use crate::disk::superblocks::Superblocks;
use crate::disk::trips::trips;

/// That this change of a disk is found, in these words, which has the save of a view and a flush
/// under way.
pub(in crate::disk) fn breaks(words: &str, change: impl FnOnce(&mut Disk<Queue>)) {
    let mut bench = Bench::new();
    bench.save_view(1);
    bench.flush(2);
    let disk = bench.disk();
    disk.check_invariants();
    change(disk);
    trips(words, || disk.check_invariants());
}

#[test]
fn one_save_of_superblocks_is_under_way() {
    breaks("1 writes of a superblock", |disk| {
        let (superblock, copy) = (disk.superblocks.newest().clone(), SuperblockCopy::A);
        let newest = Newest { superblock, copy, write_first: copy, damaged: None };
        disk.superblocks = Superblocks::new(newest);
    });
}

#[test]
fn the_core_is_told_of_flushes_that_have_failed() {
    breaks("not failed yet", |disk| {
        let mut more = Flushes::new(std::sync::Arc::default());
        more.flush_failed(&std::io::Error::from_raw_os_error(libc::EIO));
        assert!(disk.answers.take_failed_flush(more.failed()));
    });
}

#[test]
fn things_lie_where_the_superblock_says() {
    breaks("another superblock", |disk| disk.data.raw_mut().set_length(1 << 20));
    breaks("checksums lie in", |disk| {
        let newest = disk.superblocks.newest().clone();
        let metadata_offset = newest.metadata_offset + (1 << 20);
        disk.superblocks.replace(Superblock { metadata_offset, ..newest });
    });
}

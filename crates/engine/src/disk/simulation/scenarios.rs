//! Histories that the simulation has found, told step by step.

use std::io;

use evenkeel_core::replica::OpenRegions;
use evenkeel_core::{
    DiskAction, DiskError, DiskOutcome, DiskTicket, Generation, Incarnations, Instant,
    OperationNumber, View,
};
use evenkeel_format::{SuperblockCopy as Copy, newest};

use super::device::{Device, Places};
use super::plan::{REGION, superblock_of, view};
use super::queue::Queue;
use super::world::format;
use crate::disk::device::{Access, Flushes, Layout, Means, read_at};
use crate::disk::helper::Helper;
use crate::disk::{Disk, Ended, Found, prepare};
use crate::memory::Pool;
use crate::ring::{Completion, Key, Owner, Slab};
use crate::seeds::Random;

const LENGTH: u64 = 8 << 20;
/// Bytes whose checksums are read at once.
const READ_AT_ONCE: u64 = 8 * 1008 * 4096;

/// A disk that does what it is told.
pub(in crate::disk) struct Bench {
    device: Device,
    queue: Queue,
    disk: Disk<Queue>,
    pool: Pool,
    replica: Key,
}

impl Bench {
    pub(in crate::disk) fn new() -> Self {
        Self::with_length(LENGTH)
    }

    pub(in crate::disk) fn disk(&mut self) -> &mut Disk<Queue> {
        &mut self.disk
    }

    fn with_length(length: u64) -> Self {
        let device = Device::new(Random::new(1), Places::default());
        let superblock = superblock_of(length, true);
        format(&device, &superblock, false);
        let read = |copy: Copy| read_at(&device, copy.offset(), 16 << 10).expect("read");
        let flushes = Flushes::new(device.state().drive.clone());
        let mut newest = newest(&read(Copy::A), &read(Copy::B)).expect("whole");
        let (found, recovered) = prepare(&device, &mut newest).expect("opens");
        let (tables, allocation) = (found.tables, found.allocation);
        let layout = Layout::simulated(&superblock, true);
        let file = device.clone();
        let found = Found { file, layout, newest, tables, allocation, recovered, flushes };
        let (sender, _) = std::sync::mpsc::channel();
        let disk = Disk::open(found, Helper::with_tasks(sender));
        let queue = Queue::new(device.clone());
        Self { device, queue, disk, pool: Pool::new(8 << 20), replica: Slab::new().insert(()) }
    }

    fn begin(&mut self, ticket: u64, action: DiskAction<crate::memory::Buffer>) {
        let Self { queue, disk, pool, replica, .. } = self;
        let mut means = Means { ring: queue, pool, replica: *replica, now: Instant(1) };
        let name = DiskTicket::Operation(OperationNumber(ticket));
        assert!(disk.begin(&mut means, name, action).is_none(), "it takes a while");
    }

    pub(in crate::disk) fn save_view(&mut self, ticket: u64) {
        let view = View { generation: Generation(ticket), ..view(LENGTH) };
        self.begin(ticket, DiskAction::SaveView(Box::new(view), Incarnations::default()));
    }

    pub(in crate::disk) fn flush(&mut self, ticket: u64) {
        self.begin(ticket, DiskAction::Flush { with_checksums: false });
    }

    /// The operation that was begun this many after the oldest one ends: as the device would end
    /// it, or with this error.
    fn end(&mut self, place: usize, error: Option<i32>) -> Option<(u64, Result<(), DiskError>)> {
        let completion = self.queue.end_at(place, error.map(io::Error::from_raw_os_error));
        let Completion { owner: Owner::Disk { job, .. }, .. } = completion else {
            panic!("it is the disk's")
        };
        let Self { queue, disk, pool, replica, .. } = self;
        let mut means = Means { ring: queue, pool, replica: *replica, now: Instant(2) };
        let Ended { ticket, outcome, .. } = disk.completed(&mut means, job, completion)?;
        let DiskTicket::Operation(OperationNumber(ticket)) = ticket? else {
            panic!("it has another name")
        };
        Some((ticket, outcome.map(|outcome| assert!(matches!(outcome, DiskOutcome::Done)))))
    }

    /// A write whose checksum is not in memory. All ends but flushes.
    fn write_elsewhere(&mut self, ticket: &mut u64) {
        let mut memory = self.pool.take(4096);
        memory.fill(7);
        let offset = (*ticket - 10) * READ_AT_ONCE;
        let payload = memory.freeze();
        let write = DiskAction::Write { offset, payload, durable: false, forgotten: None };
        self.begin(*ticket, write);
        *ticket += 1;
        while let Some(place) = self.queue.first_but_flushes() {
            self.end(place, None);
        }
    }

    /// Whether a start would find a view.
    fn is_readable(&self) -> bool {
        let read = |copy: Copy| read_at(&self.device, copy.offset(), 16 << 10);
        match (read(Copy::A), read(Copy::B)) {
            (Ok(a), Ok(b)) => newest(&a, &b).is_ok(),
            _ => false,
        }
    }
}

/// A signal that comes during an operation is no failure of the disk.
#[test]
fn an_interrupted_save_of_a_view_goes_on() {
    for error in [libc::EINTR, libc::EAGAIN] {
        let mut bench = Bench::new();
        bench.save_view(2);
        for _ in 0..3 {
            assert_eq!(bench.end(0, Some(error)), None);
            assert_eq!(bench.end(0, None), None);
        }
        assert_eq!(bench.end(0, Some(error)), None);
        assert_eq!(bench.end(0, None), Some((2, Ok(()))));
    }
}

/// A client's flush fails, and drops the first superblock that a save has just written. The flush
/// of that save says that all is well. Were it believed, the second superblock would be written
/// over the only one that is durable.
#[test]
fn of_two_flushes_that_overlap_one_fails_and_the_other_is_not_believed() {
    let mut bench = Bench::new();
    bench.save_view(2);
    assert_eq!(bench.end(0, None), None, "the first superblock is written");
    bench.flush(3);
    bench.device.state().faults.drop = 1000;
    assert_eq!(bench.end(1, Some(libc::EIO)), Some((3, Err(DiskError::Medium))));
    assert_eq!(bench.end(0, None), Some((2, Err(DiskError::Medium))));
    assert!(bench.queue.is_idle(), "the second superblock is as it was");
    bench.device.state().faults.torn = 1000;
    bench.device.state().power_cut();
    assert!(bench.is_readable());
}

/// The flush of a save may drop what clients have written. Only a flush tells the core so.
#[test]
fn the_core_learns_of_a_flush_that_failed_in_a_save() {
    let mut bench = Bench::new();
    bench.save_view(2);
    assert_eq!(bench.end(0, None), None);
    assert_eq!(bench.end(0, Some(libc::EIO)), Some((2, Err(DiskError::Medium))));
    bench.flush(3);
    assert_eq!(bench.end(0, None), Some((3, Err(DiskError::Medium))));
    // It has been told: what is written from now on is covered by the next one.
    bench.flush(4);
    assert_eq!(bench.end(0, None), Some((4, Ok(()))));
    bench.save_view(5);
    for _ in 0..3 {
        assert_eq!(bench.end(0, None), None);
    }
    assert_eq!(bench.end(0, None), Some((5, Ok(()))));
}

/// Somebody else has a flush fail on the same drive: whoever makes room for this replica, or
/// another replica. What it dropped may be what this one's next flush is to cover.
#[test]
fn the_failed_flush_of_another_one_on_the_drive_counts() {
    let mut bench = Bench::new();
    bench.flush(2);
    bench.device.state().faults.blocking = 1000;
    Access::flush(&bench.device).expect_err("it fails");
    assert_eq!(bench.end(0, None), Some((2, Err(DiskError::Medium))));
    assert!(!bench.disk.take_failed_flush(), "its flush has told the core");
    Access::flush(&bench.device).expect_err("it fails");
    assert!(bench.disk.take_failed_flush());
    assert!(!bench.disk.take_failed_flush(), "it is told once");
}

/// A durable write is a write and a flush of the drive: its error doesn't say which has failed, but
/// if there is no space to write to.
#[test]
fn a_durable_write_that_fails_counts_as_a_flush() {
    let table = || OpenRegions { slot: 0, region: REGION, open: vec![3] };
    for (error, counts) in [(libc::EIO, true), (libc::ENOSPC, false)] {
        let mut bench = Bench::new();
        bench.flush(2);
        bench.begin(3, DiskAction::SaveIntents(table()));
        assert!(bench.end(1, Some(error)).is_some_and(|(ticket, end)| ticket == 3 && end.is_err()));
        assert_eq!(bench.disk.take_failed_flush(), counts);
        assert_eq!(bench.end(0, None).map(|(_, end)| end.is_err()), Some(counts));
    }
}

/// A write of a part of a block reads the block first. If only that fails nothing is lost, and the
/// core has to know.
#[test]
fn a_durable_write_whose_block_cannot_be_read_is_no_failed_flush() {
    for (is_read, error) in [(false, DiskError::Medium), (true, DiskError::Lost)] {
        let mut bench = Bench::new();
        bench.write_elsewhere(&mut 10);
        let mut memory = bench.pool.take(512);
        memory.fill(8);
        let payload = memory.freeze();
        let write = DiskAction::Write { offset: 512, payload, durable: true, forgotten: None };
        bench.begin(2, write);
        if is_read {
            assert_eq!(bench.end(0, None), None, "it is written then");
        }
        assert_eq!(bench.end(0, Some(libc::EIO)), Some((2, Err(error))));
        assert!(!bench.disk.take_failed_flush(), "its outcome says what has failed");
    }
}

/// What a failed flush drops of pages of checksums that were written for others to have room must
/// still be in memory: the next commit would count them as durable.
#[test]
fn a_page_of_checksums_goes_only_when_it_is_durable() {
    let mut bench = Bench::with_length(16 << 30);
    let has_first = |bench: &Bench| bench.disk.data.store().is_some_and(|store| store.has_page(0));
    let mut ticket = 10;
    while bench.queue.is_idle() {
        assert!(ticket < 300, "there is room for the pages of half of the data");
        bench.write_elsewhere(&mut ticket);
    }
    assert!(ticket > 200, "pages go only when there are many");
    for _ in 0..20 {
        bench.write_elsewhere(&mut ticket);
        assert!(has_first(&bench), "it was written, and the flush has not ended");
    }
    assert_eq!(bench.end(0, None), None, "the flush is the disk's own");
    while has_first(&bench) {
        assert!(ticket < 400, "it makes room");
        bench.write_elsewhere(&mut ticket);
    }
}

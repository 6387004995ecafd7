//! The shipped disk over a simulated device, used as the core uses it, killed and opened again.

mod actions;
mod growth;
mod lost;
mod outcomes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use evenkeel_core::replica::OpenRegions;
use evenkeel_core::{
    DiskAction, DiskError, DiskOutcome, DiskTicket, Extent, Generation, Incarnations, Instant,
    OperationNumber, View,
};
use evenkeel_format::{
    ALLOCATION_OFFSET, ALLOCATION_PAGES, AllocationMap, CHECKSUMS_PER_PAGE, ChecksumPage,
    DATA_OFFSET, PAGE_LENGTH, SUPERBLOCK_LENGTH, Superblock, SuperblockCopy as Copy,
    bitmaps_length, checksum_pages, disk_length, metadata_offset, newest, pages_per_bitmap,
};

use self::growth::Growing;
use self::lost::Lost;
use super::Sabotage;
use super::device::{Device, Lie, Places, SECTOR};
use super::metadata::{Expected, SLOTS, missing_page};
use super::model::{BLOCK, Change, Model, Violation, content_of};
use super::plan::{Plan, REGION, superblock_of, view};
use super::queue::Queue;
use crate::disk::checksums::recover::recover;
use crate::disk::checksums::{Area, ChecksumStore};
use crate::disk::device::{Drive, Flushes, Layout, Means, read_at};
use crate::disk::helper::{Done, Helper, Task};
use crate::disk::{Disk, Ended, Found, metadata, prepare};
use crate::memory::{Buffer, Pool};
use crate::ring::{Key, Owner, Slab};
use crate::seeds::Random;

/// How often things happened.
pub(super) type Counts = BTreeMap<&'static str, u64>;

/// An action that was begun.
#[derive(Debug, Clone)]
enum Asked {
    Read(Range<u64>),
    Change(Change),
    Flush { with_checksums: bool },
    Map(Range<u64>),
    View(u64),
    Table { slot: u8, open: BTreeSet<u64>, closes: bool },
    Pages(Vec<(u8, u32, u64)>),
}

#[derive(Debug)]
struct Pending {
    asked: Asked,
    /// The time of the model at which it began.
    began: u64,
}

/// See the module's documentation.
pub(super) struct World {
    plan: Plan,
    sabotage: Sabotage,
    random: Random,
    /// For faults that came later: older seeds tell what they told.
    aside: Random,
    /// Which writes are to be durable.
    durably: Random,
    device: Device,
    queue: Queue,
    disk: Option<Disk<Queue>>,
    tasks: Option<Receiver<Task>>,
    pool: Pool,
    replica: Key,
    model: Model,
    expected: Expected,
    pending: BTreeMap<u64, Pending>,
    /// When what lies in a region was last changed, by the model's time.
    changed: BTreeMap<u64, u64>,
    flushed: u64,
    generation: u64,
    stamp: u64,
    ticket: u64,
    now: u64,
    /// The core knows of a flush that has failed: it believes none, and closes no region.
    distrusts: bool,
    is_rebuilding: bool,
    lost: Lost,
    /// What the disk says of itself: where things lie.
    superblock: Superblock,
    growing: Option<Growing>,
    /// The data may have this length.
    asked_length: Option<u64>,
    /// Refused writes that a mistake has counted as flushes.
    counted: u64,
    /// Units of the allocation map that were ever written to; `None`: a crash may have damaged its
    /// pages.
    written: Option<BTreeSet<u64>>,
    pub(super) counts: Counts,
    pub(super) log: bool,
}

impl World {
    pub(super) fn new(seed: u64, sabotage: Sabotage) -> Self {
        let mut random = Random::new(seed);
        // By this number no seed is struck that was kept for another reason.
        let mut durably = Random::new(seed ^ 0x6675_6105);
        let mut plan = Plan::draw(&mut random, sabotage);
        plan.durable = if durably.chance(250) { 1 + durably.below(400) } else { 0 };
        let superblock = superblock_of(plan.length, plan.has_checksums);
        let places = places_of(&superblock);
        let lie = if let Sabotage::Device(lie) = sabotage { lie } else { Lie::None };
        let device = Device::new(Random::new(random.bits()), places);
        format(&device, &superblock, plan.has_map);
        (device.state().faults, device.state().lie) = (plan.faults(), lie);
        Self {
            sabotage,
            aside: random.aside(),
            durably,
            queue: Queue::new(device.clone()),
            device,
            disk: None,
            tasks: None,
            pool: Pool::new(64 << 20),
            replica: Slab::new().insert(()),
            model: Model::new(plan.length, plan.has_checksums),
            expected: Expected::new(1),
            pending: BTreeMap::new(),
            changed: BTreeMap::new(),
            flushed: 0,
            generation: 1,
            stamp: 1,
            ticket: 0,
            now: 1,
            distrusts: false,
            is_rebuilding: false,
            lost: Lost::default(),
            superblock,
            growing: None,
            asked_length: None,
            counted: 0,
            written: Some(BTreeSet::new()),
            counts: Counts::new(),
            log: false,
            plan,
            random,
        }
    }

    /// How many actions were begun.
    pub(super) const fn actions(&self) -> u64 {
        self.ticket
    }

    /// A history of so many actions, and its end.
    pub(super) fn run(&mut self, actions: u64) -> Result<(), Violation> {
        self.start()?;
        while self.ticket < actions {
            self.step()?;
        }
        self.finish()
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.now += 1000;
        if self.random.chance(self.plan.rot) {
            self.rot();
        }
        if self.aside.below(10_000) < self.device.state().faults.elsewhere {
            return self.fail_elsewhere();
        }
        if self.plan.grows > 0 && self.aside.chance(self.plan.grows) {
            return self.grow();
        }
        if self.aside.below(10_000) < self.plan.closes {
            return self.close();
        }
        if self.aside.below(10_000) < self.device.state().faults.space {
            self.note("space runs out, or is there again");
            let mut state = self.device.state();
            state.is_full = !state.is_full;
            return Ok(());
        }
        if self.random.below(10_000) < self.plan.kills {
            return self.crash(false);
        }
        if self.random.below(10_000) < self.plan.cuts || self.cuts_a_save() {
            return self.crash(true);
        }
        if self.pending.len() < self.plan.depth && self.random.chance(400) {
            return self.begin_something();
        }
        self.advance()
    }

    /// Whether the power is cut now because a view is saved, or a table whose last save has failed:
    /// the newest one that is durable must not lie where it goes.
    fn cuts_a_save(&mut self) -> bool {
        let is_retried = self.plan.cuts > 0
            && self.has(|asked| {
                matches!(asked, Asked::Table { slot, .. } if self.expected.has_failed(*slot))
            });
        if is_retried && self.random.chance(300) {
            self.note("power cuts while a table is saved again");
            return true;
        }
        let is_saving_view =
            self.plan.cuts_saves && self.has(|asked| matches!(asked, Asked::View(_)));
        is_saving_view && self.random.chance(30)
    }

    fn note(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn report(&self, what: impl FnOnce() -> String) {
        if self.log {
            println!("{:>6} {}", self.now / 1000, what());
        }
    }

    /// Opens the disk. Calls may fail meanwhile, and the power be cut: then it is opened again.
    fn start(&mut self) -> Result<(), Violation> {
        for _ in 0..1000 {
            if self.random.chance(self.plan.cuts * 10) {
                self.device.state().calls_left = Some(self.random.below(60));
            }
            match self.open()? {
                Ok(()) => {
                    self.device.state().calls_left = None;
                    return Ok(());
                }
                Err(error) => {
                    self.note("starts that failed");
                    let is_cut = self.device.state().calls_left == Some(0);
                    self.report(|| format!("-- the start failed: {error}"));
                    let is_cut = is_cut || self.random.chance(300);
                    self.lose(is_cut);
                }
            }
        }
        Err(("I11", "the disk can't be opened".to_owned()))
    }

    fn open(&mut self) -> Result<std::io::Result<()>, Violation> {
        self.lose_sectors();
        let copies = [Copy::A, Copy::B].map(|copy| self.read_superblock(copy));
        let is_lost = copies.iter().any(Option::is_none);
        let [a, b] = copies.map(Option::unwrap_or_default);
        let mut newest = match newest(&a, &b) {
            Ok(newest) => newest,
            Err(error) if is_lost => return Ok(Err(std::io::Error::other(error))),
            Err(error) => return Err(("V2", error.to_string())),
        };
        if is_lost {
            self.note("starts from one superblock, as the other is lost");
        }
        self.found_length(&newest.superblock)?;
        self.note_torn_pages(&newest.superblock);
        let flushes = Flushes::new(self.drive());
        let prepared = match self.sabotage {
            Sabotage::KeepChecksums => metadata::read_all(&self.device, &newest.superblock)
                .and_then(|found| {
                    let area = Area::of(&newest.superblock);
                    Ok((found, Some(recover(&self.device, area, &[])?)))
                }),
            _ => prepare(&self.device, &mut newest),
        };
        self.note_lost(&newest.superblock);
        let (found, mut recovered) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        if self.sabotage == Sabotage::CompareNothing {
            recovered = None;
        }
        let generation = newest.superblock.view.generation.0;
        self.report(|| format!("== open at generation {generation}: {:?}", found.open_regions));
        self.expected.view_found(generation)?;
        let lost = core::mem::take(&mut self.lost);
        self.expected.tables_found(&found.open_regions, |slot| lost.tables.contains(&slot))?;
        self.expected
            .pages_found(&found.missing, |slot, page| lost.pages.contains(&(slot, page)))?;
        self.opened(&found.open_regions);
        let layout = Layout::simulated(&newest.superblock, self.plan.is_device);
        let (sender, tasks) = std::sync::mpsc::channel();
        let file = self.device.clone();
        let (tables, allocation) = (found.tables, found.allocation);
        let found = Found { file, layout, newest, tables, allocation, recovered, flushes };
        let helper = Helper::with_tasks(sender);
        (self.disk, self.tasks) = (Some(Disk::open(found, helper)), Some(tasks));
        self.note("starts");
        Ok(Ok(()))
    }

    /// A start has found data of this length: that of the last growth, or of the one that was under
    /// way.
    fn found_length(&mut self, superblock: &Superblock) -> Result<(), Violation> {
        let length = superblock.data_length;
        if length != self.plan.length && Some(length) != self.asked_length {
            let expected = (self.plan.length, self.asked_length);
            return Err(("V2", format!("{length} bytes of data, and not {expected:?}")));
        }
        self.superblock = superblock.clone();
        self.set_length(length);
        self.lay_out();
        Ok(())
    }

    /// What the disk is told to be its drive.
    fn drive(&self) -> Arc<Drive> {
        match self.sabotage {
            Sabotage::ShareNoDrive => Arc::default(),
            _ => self.device.state().drive.clone(),
        }
    }

    fn read_superblock(&self, copy: Copy) -> Option<Vec<u8>> {
        read_at(&self.device, copy.offset(), SUPERBLOCK_LENGTH).ok()
    }

    /// Pages of checksums that a crash has torn are told by what is on the device, before anybody
    /// repairs it.
    fn note_torn_pages(&mut self, superblock: &Superblock) {
        let area = Area::of(superblock);
        let per_page = CHECKSUMS_PER_PAGE as u64;
        let pages: BTreeSet<u64> = self.model.touched().into_iter().map(|b| b / per_page).collect();
        for page in pages {
            let mut bytes = vec![0; PAGE_LENGTH];
            let is_read = self.device.state().read(area.page(page as u32), &mut bytes).is_some();
            let is_new = is_read && bytes.iter().all(|byte| *byte == 0);
            if !is_new && ChecksumPage::decode(&bytes, superblock.replica, page as u32).is_none() {
                self.model.forget(page * per_page..(page + 1) * per_page);
            }
        }
    }

    fn opened(&mut self, open: &[OpenRegions]) {
        let names = |block: u64| {
            let region = block * BLOCK / REGION;
            open.iter().any(|table| table.is_all() || table.open.contains(&region))
        };
        self.model.opened(names);
        self.flushed = self.model.now();
        self.changed.clear();
        (self.distrusts, self.asked_length) = (false, None);
        self.is_rebuilding = self.random.chance(self.plan.rebuilds);
    }

    /// The process is killed, or the power is cut, and the disk is opened again.
    fn crash(&mut self, is_cut: bool) -> Result<(), Violation> {
        self.note(if is_cut { "power cuts" } else { "kills" });
        self.report(|| (if is_cut { "-- power cut" } else { "-- kill" }).to_owned());
        self.lose(is_cut);
        self.start()
    }

    fn lose(&mut self, is_cut: bool) {
        (self.disk, self.tasks, self.growing) = (None, None, None);
        self.queue.abandon();
        let pending = core::mem::take(&mut self.pending);
        let under_way: Vec<_> = pending
            .into_values()
            .filter_map(|pending| match pending.asked {
                Asked::Change(change) => Some(change),
                _ => None,
            })
            .collect();
        let mut state = self.device.state();
        let is_lost = is_cut || state.failures > 0;
        state.process_ends();
        state.is_full = false;
        let torn = if is_cut { state.power_cut() } else { Vec::new() };
        drop(state);
        self.model.crashed(&under_way, is_lost, &torn, DATA_OFFSET);
        self.written = None;
    }

    fn rot(&mut self) {
        let from = self.random.below(self.plan.length / SECTOR);
        let Some(sector) = self.model.some_data(from) else { return };
        let byte = sector * SECTOR;
        if self.is_busy(&(byte..byte + 1), true) || !self.plan.has_checksums {
            return;
        }
        if self.device.state().rot(sector + DATA_OFFSET / SECTOR) {
            self.note("rot");
            self.report(|| format!("-- sector {sector} rots"));
            self.model.rotted(sector);
        }
    }

    /// Without further faults all is answered, and holds what it must; also after a last start.
    fn finish(&mut self) -> Result<(), Violation> {
        self.plan.calm(&mut self.device.state().faults);
        self.device.state().is_full = false;
        self.drain()?;
        for is_cut in [false, true] {
            self.read_all()?;
            if !self.distrusts {
                self.begin_flush()?;
                self.drain()?;
            }
            self.crash(is_cut)?;
            self.read_all()?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Violation> {
        for _ in 0..1_000_000 {
            let is_idle = self.queue.is_idle();
            if self.pending.is_empty() && is_idle && !self.waits_for_room() {
                return Ok(());
            }
            self.now += 1000;
            self.advance()?;
            if self.waits_for_room() {
                self.grow()?;
            }
            let waits = |world: &Self| !world.pending.is_empty() || world.waits_for_room();
            if is_idle && self.queue.is_idle() && waits(self) {
                // Perhaps a task has ended just now.
                self.advance()?;
                if self.waits_for_room() {
                    self.grow()?;
                }
                if self.queue.is_idle() && waits(self) {
                    break;
                }
            }
        }
        let stuck: Vec<_> = self.pending.values().collect();
        let growing = &self.growing;
        let why = format!("nothing is under way, and without an answer are {stuck:?}, {growing:?}");
        Err(("I11", why))
    }

    fn read_all(&mut self) -> Result<(), Violation> {
        for block in self.model.touched() {
            let range = block * BLOCK..((block + 1) * BLOCK).min(self.plan.length);
            let (offset, length) = (range.start, (range.end - range.start) as u32);
            self.begin(Asked::Read(range), DiskAction::Read { offset, length })?;
            if self.pending.len() > 32 {
                self.drain()?;
            }
        }
        self.drain()
    }
}

/// Where things lie.
fn places_of(superblock: &Superblock) -> Places {
    let (area, length) = (Area::of(superblock), superblock.data_length);
    Places {
        data: superblock.data_offset..superblock.data_offset + length,
        marks: ALLOCATION_OFFSET..ALLOCATION_OFFSET + u64::from(ALLOCATION_PAGES) * 4096,
        bitmaps: superblock.metadata_offset..area.start(),
        checksums: area.start()..area.page(checksum_pages(length) as u32),
    }
}

/// A replica that was just made.
pub(super) fn format(device: &Device, superblock: &Superblock, has_map: bool) {
    let mut state = device.state();
    let bytes = superblock.encode().expect("it is sound");
    for copy in [Copy::A, Copy::B] {
        state.write(copy.offset(), &bytes.0, true);
    }
    if has_map {
        let map = AllocationMap::new(superblock.data_length).encode(superblock.replica);
        state.write(ALLOCATION_OFFSET, &map, true);
    }
    let now = state.now();
    state.make_durable(now, None);
}

//! A simulated device: what it holds, what a power cut may bring back, and the faults that it has.
//!
//! It has a cache. A write changes what reads find at once; a flush makes durable what was written
//! before it was asked for. A power cut leaves of each sector any content that it had since. A
//! flush that fails may drop what it covered: that counts as clean from then on, no later flush
//! makes it durable, and it goes when the process ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::device::{Access, Drive};
use crate::seeds::Random;

/// Bytes of a sector, which a write changes as a whole or not, but for torn ones.
pub(in crate::disk) const SECTOR: u64 = 512;
const PAGE: u64 = 4096;

pub(in crate::disk) type Content = [u8; SECTOR as usize];

/// How often what goes wrong, in thousandths, and what the device can't do.
#[derive(Debug, Clone, Default)]
pub(in crate::disk) struct Faults {
    pub(in crate::disk) read: u64,
    pub(in crate::disk) write: u64,
    pub(in crate::disk) flush: u64,
    /// Of flushes that fail, how often each sector is dropped that they covered.
    pub(in crate::disk) drop: u64,
    pub(in crate::disk) interrupt: u64,
    pub(in crate::disk) short: u64,
    /// Of volatile sectors that a power cut finds.
    pub(in crate::disk) torn: u64,
    pub(in crate::disk) without_punch: bool,
    pub(in crate::disk) without_zero_range: bool,
    /// Writes of tables of open regions: these leave the device as it was.
    pub(in crate::disk) tables: u64,
    /// Calls that block.
    pub(in crate::disk) blocking: u64,
    /// Of a thousand starts, before how many sectors of metadata were lost.
    pub(in crate::disk) lost: u64,
    /// In ten thousand steps, how many flushes of others on this drive fail.
    pub(in crate::disk) elsewhere: u64,
    /// In ten thousand steps, how often space runs out, or is there again.
    pub(in crate::disk) space: u64,
}

/// What the device does wrong on purpose, for an oracle to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::disk) enum Lie {
    #[default]
    None,
    LoseWrites,
    IgnoreFlushes,
    IgnoreDurability,
    /// Of writes of data alone.
    IgnoreDurableWrites,
    CountShortAsWhole,
    LoseMarks,
    LosePages,
    NeverEnd,
}

/// Where a lie or a fault strikes only there, in bytes.
#[derive(Debug, Clone, Default)]
pub(in crate::disk) struct Places {
    pub(in crate::disk) data: Range<u64>,
    pub(in crate::disk) marks: Range<u64>,
    pub(in crate::disk) bitmaps: Range<u64>,
    pub(in crate::disk) checksums: Range<u64>,
}

/// A sector of which a power cut may bring back something older.
#[derive(Debug)]
struct Volatile {
    /// The first one is durable, the last one is what reads find; each with the time of its write.
    versions: Vec<(u64, Content)>,
    /// Versions up to this time were dropped by a flush that failed.
    dropped: u64,
}

#[derive(Debug)]
pub(in crate::disk) struct State {
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
    volatile: BTreeMap<u64, Volatile>,
    /// Sectors that can't be read until they are written.
    bad: BTreeSet<u64>,
    clock: u64,
    pub(in crate::disk) random: Random,
    pub(in crate::disk) faults: Faults,
    pub(in crate::disk) lie: Lie,
    pub(in crate::disk) places: Places,
    /// Operations that have failed since the process began, but for those that were only
    /// interrupted.
    pub(in crate::disk) failures: u64,
    /// Flushes that have failed since the process began, whoever asked for them.
    pub(in crate::disk) failed_flushes: u64,
    /// Where whoever has a flush fail says so.
    pub(in crate::disk) drive: Arc<Drive>,
    /// What could not be read since it was last asked for: of the checksums, and by calls that
    /// block of anything.
    pub(in crate::disk) unread: Vec<Range<u64>>,
    /// Calls that may still be made before the power is cut.
    pub(in crate::disk) calls_left: Option<u64>,
    /// Nothing can be written where nothing was before.
    pub(in crate::disk) is_full: bool,
    /// What was refused for that since the process began.
    pub(in crate::disk) refused: u64,
}

/// A simulated device. Cloning it shares it.
#[derive(Debug, Clone)]
pub(in crate::disk) struct Device(Arc<Mutex<State>>);

impl Device {
    pub(in crate::disk) fn new(random: Random, places: Places) -> Self {
        let (pages, volatile, bad) = Default::default();
        let (faults, unread) = Default::default();
        let (clock, failures, failed_flushes, calls_left, lie) = (1, 0, 0, None, Lie::None);
        let drive = Arc::default();
        Self(Arc::new(Mutex::new(State {
            pages,
            volatile,
            bad,
            clock,
            random,
            faults,
            lie,
            places,
            failures,
            failed_flushes,
            drive,
            unread,
            calls_left,
            is_full: false,
            refused: 0,
        })))
    }

    pub(in crate::disk) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl State {
    /// The time, which passes with each write.
    pub(in crate::disk) const fn now(&self) -> u64 {
        self.clock
    }

    fn content(&self, sector: u64) -> Content {
        let mut content = [0; SECTOR as usize];
        if let Some(page) = self.pages.get(&(sector * SECTOR / PAGE)) {
            let from = (sector * SECTOR % PAGE) as usize;
            content.copy_from_slice(&page[from..from + SECTOR as usize]);
        }
        content
    }

    fn set(&mut self, sector: u64, content: &Content) {
        let page = self.pages.entry(sector * SECTOR / PAGE).or_insert(Box::new([0; PAGE as usize]));
        let from = (sector * SECTOR % PAGE) as usize;
        page[from..from + SECTOR as usize].copy_from_slice(content);
    }

    /// A sector is written: to the cache.
    fn put(&mut self, sector: u64, content: &Content) {
        self.clock += 1;
        let (clock, old) = (self.clock, self.content(sector));
        let volatile = self.volatile.entry(sector).or_insert_with(|| {
            let versions = vec![(0, old)];
            Volatile { versions, dropped: 0 }
        });
        volatile.versions.push((clock, *content));
        self.bad.remove(&sector);
        self.set(sector, content);
    }

    /// Writes sectors of these bytes: all of them, or those that are drawn.
    pub(in crate::disk) fn write(&mut self, offset: u64, bytes: &[u8], is_whole: bool) {
        let is_lost = match self.lie {
            Lie::LoseWrites => self.places.data.contains(&offset) && self.random.chance(20),
            Lie::LoseMarks => self.places.marks.contains(&offset),
            Lie::LosePages => self.places.bitmaps.contains(&offset),
            _ => false,
        };
        for (sector, bytes) in (offset / SECTOR..).zip(bytes.chunks(SECTOR as usize)) {
            if !is_lost && (is_whole || self.random.chance(500)) {
                let mut content = [0; SECTOR as usize];
                content[..bytes.len()].copy_from_slice(bytes);
                self.put(sector, &content);
            }
        }
    }

    /// Whether a write needs space that there is not.
    pub(in crate::disk) fn lacks_space(&self, offset: u64, length: usize) -> bool {
        let mut pages = offset / PAGE..(offset + length as u64).div_ceil(PAGE);
        self.is_full && pages.any(|page| !self.pages.contains_key(&page))
    }

    /// A write is refused, as it needs space that there is not.
    pub(in crate::disk) fn refuse(&mut self) -> io::Error {
        self.refused += 1;
        io::Error::from_raw_os_error(libc::ENOSPC)
    }

    /// Makes sectors of a range read as zeroes: all of them, or those that are drawn.
    pub(in crate::disk) fn zero(&mut self, range: Range<u64>, is_whole: bool) {
        let (first, last) = (range.start / SECTOR, range.end / SECTOR);
        let pages = self.pages.range(range.start / PAGE..range.end.div_ceil(PAGE));
        for page in pages.map(|(page, _)| *page).collect::<Vec<_>>() {
            let sectors = page * PAGE / SECTOR..(page + 1) * PAGE / SECTOR;
            for sector in sectors.start.max(first)..sectors.end.min(last) {
                if is_whole || self.random.chance(500) {
                    self.put(sector, &[0; SECTOR as usize]);
                }
            }
        }
    }

    /// `None`: a part of it can't be read.
    pub(in crate::disk) fn read(&self, offset: u64, memory: &mut [u8]) -> Option<()> {
        let sectors = offset / SECTOR..(offset + memory.len() as u64).div_ceil(SECTOR);
        if self.bad.range(sectors).next().is_some() {
            return None;
        }
        let mut done = 0;
        while done < memory.len() {
            let at = offset + done as u64;
            let from = (at % PAGE) as usize;
            let length = (PAGE as usize - from).min(memory.len() - done);
            match self.pages.get(&(at / PAGE)) {
                Some(page) => {
                    memory[done..done + length].copy_from_slice(&page[from..from + length]);
                }
                None => memory[done..done + length].fill(0),
            }
            done += length;
        }
        Some(())
    }

    /// What was written up to this time is durable, of all sectors or of some.
    pub(in crate::disk) fn make_durable(&mut self, until: u64, sectors: Option<Range<u64>>) {
        let is_ignored = match &sectors {
            None => self.lie == Lie::IgnoreFlushes,
            Some(_) if self.lie == Lie::IgnoreDurability => true,
            Some(sectors) => {
                let is_data = self.places.data.contains(&(sectors.start * SECTOR));
                self.lie == Lie::IgnoreDurableWrites && is_data
            }
        };
        if is_ignored {
            return;
        }
        let becomes_durable = |volatile: &mut Volatile| {
            let dropped = volatile.dropped;
            let is_covered = |(time, _): &(u64, Content)| *time <= until && *time > dropped;
            if let Some(last) = volatile.versions.iter().rposition(is_covered) {
                volatile.versions.drain(..last);
            }
            volatile.versions.len() == 1
        };
        match sectors {
            None => self.volatile.retain(|_, volatile| !becomes_durable(volatile)),
            Some(sectors) => {
                let found: Vec<_> = self.volatile.range(sectors).map(|(s, _)| *s).collect();
                for sector in found {
                    if self.volatile.get_mut(&sector).is_some_and(becomes_durable) {
                        self.volatile.remove(&sector);
                    }
                }
            }
        }
    }

    /// A flush fails: some of what it covered is dropped.
    pub(in crate::disk) fn flush_fails(&mut self) {
        self.failures += 1;
        self.failed_flushes += 1;
        let (clock, drop) = (self.clock, self.faults.drop);
        for volatile in self.volatile.values_mut() {
            if self.random.chance(drop) {
                volatile.dropped = clock;
            }
        }
    }

    /// The process has ended: what flushes have dropped is gone.
    pub(in crate::disk) fn process_ends(&mut self) {
        let mut gone = Vec::new();
        for (sector, volatile) in &self.volatile {
            let newest = volatile.versions.len() - 1;
            if volatile.versions[newest].0 <= volatile.dropped {
                gone.push((*sector, volatile.versions[self.random.index(newest + 1)].1));
            }
        }
        for (sector, content) in gone {
            self.volatile.remove(&sector);
            self.set(sector, &content);
        }
        (self.failures, self.failed_flushes, self.refused, self.calls_left) = (0, 0, 0, None);
    }

    /// The power is cut. Returns the sectors of the data that were torn.
    pub(in crate::disk) fn power_cut(&mut self) -> Vec<u64> {
        let mut torn = Vec::new();
        for (sector, volatile) in core::mem::take(&mut self.volatile) {
            let count = volatile.versions.len();
            let mut content = volatile.versions[self.random.index(count)].1;
            if self.random.chance(self.faults.torn) {
                let other = volatile.versions[self.random.index(count)].1;
                let from = self.random.index(SECTOR as usize);
                content[from..].copy_from_slice(&other[from..]);
                if self.places.data.contains(&(sector * SECTOR)) {
                    torn.push(sector);
                    // Not of metadata: of those a torn sector is one that fails its checksum.
                    if self.random.chance(300) {
                        self.bad.insert(sector);
                    }
                }
            }
            self.set(sector, &content);
        }
        (self.failures, self.failed_flushes, self.refused, self.calls_left) = (0, 0, 0, None);
        torn
    }

    /// Changes a bit of a sector that is durable. Whether there was one.
    pub(in crate::disk) fn rot(&mut self, sector: u64) -> bool {
        if self.volatile.contains_key(&sector) || self.bad.contains(&sector) {
            return false;
        }
        let mut content = self.content(sector);
        content[self.random.index(SECTOR as usize)] ^= 1 << self.random.below(8);
        self.set(sector, &content);
        true
    }

    /// Whether a power cut changes nothing of a range.
    pub(in crate::disk) fn is_durable(&self, range: Range<u64>) -> bool {
        let sectors = range.start / SECTOR..range.end.div_ceil(SECTOR);
        self.volatile.range(sectors).next().is_none()
    }

    /// Loses a sector that is durable: it can't be read until it is written.
    pub(in crate::disk) fn lose(&mut self, sector: u64) {
        if !self.volatile.contains_key(&sector) {
            self.bad.insert(sector);
        }
    }

    /// Whether a sector of this range can't be read.
    pub(in crate::disk) fn has_bad(&self, range: &Range<u64>) -> bool {
        self.bad.range(range.start / SECTOR..range.end.div_ceil(SECTOR)).next().is_some()
    }

    /// A call that blocks begins.
    fn call(&mut self, can_be_interrupted: bool) -> io::Result<()> {
        if let Some(left) = &mut self.calls_left {
            if *left == 0 {
                return Err(io::Error::other("the power was cut"));
            }
            *left -= 1;
        }
        if can_be_interrupted && self.random.chance(self.faults.interrupt) {
            return Err(io::Error::from_raw_os_error(libc::EINTR));
        }
        if self.random.chance(self.faults.blocking) {
            self.failures += 1;
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }

    fn length(&mut self, length: usize) -> usize {
        let sectors = length as u64 / SECTOR;
        if sectors > 1 && self.random.chance(self.faults.short) {
            return ((1 + self.random.below(sectors - 1)) * SECTOR) as usize;
        }
        length
    }

    /// How much of a read or write is done.
    pub(in crate::disk) fn part(&mut self, length: usize) -> usize {
        self.length(length)
    }
}

impl Access for Device {
    fn read_some(&self, memory: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        if let Err(error) = state.call(true) {
            if error.kind() != io::ErrorKind::Interrupted {
                state.unread.push(offset..offset + memory.len() as u64);
            }
            return Err(error);
        }
        let length = state.length(memory.len());
        match state.read(offset, &mut memory[..length]) {
            Some(()) => Ok(length),
            None => {
                state.unread.push(offset..offset + memory.len() as u64);
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
        }
    }

    fn write_some(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        if let Err(error) = state.call(true) {
            if error.kind() != io::ErrorKind::Interrupted {
                state.write(offset, bytes, false);
            }
            return Err(error);
        }
        if state.lacks_space(offset, bytes.len()) {
            return Err(state.refuse());
        }
        let length = state.length(bytes.len());
        state.write(offset, &bytes[..length], true);
        Ok(length)
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Err(error) = state.call(false) {
            state.flush_fails();
            state.drive.flush_failed();
            return Err(error);
        }
        let now = state.now();
        state.make_durable(now, None);
        Ok(())
    }

    fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        let state = self.state();
        let next = state.pages.range(from / PAGE..).next();
        Ok(next.map(|(page, _)| from.max(page * PAGE)))
    }

    fn next_hole(&self, from: u64) -> io::Result<Option<u64>> {
        let state = self.state();
        let mut page = from / PAGE;
        while state.pages.contains_key(&page) {
            page += 1;
        }
        Ok(Some(from.max(page * PAGE)))
    }
}

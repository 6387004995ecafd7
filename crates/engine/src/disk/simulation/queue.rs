//! Operations on the simulated device, as a ring would carry them out: they end in any order, fail,
//! are cut short or interrupted.

use std::io;
use std::ops::Range;

use evenkeel_format::SuperblockBytes;

use super::device::{Device, Lie, SECTOR};
use crate::disk::device::Io;
use crate::memory::{Buffer, BufferMut};
use crate::ring::{Completion, Kept, Owner};
use crate::seeds::Random;

/// Where tables of open regions lie.
const TABLES: [Range<u64>; 2] = [64 << 10..320 << 10, 576 << 10..832 << 10];

/// See the module's documentation.
#[derive(Debug)]
pub(in crate::disk) struct Queue {
    device: Device,
    under_way: Vec<Operation>,
}

#[derive(Debug)]
struct Operation {
    owner: Owner,
    what: What,
    /// The time at which it was asked for.
    since: u64,
    /// Whether the device has it, and only has not said so.
    is_done: bool,
}

#[derive(Debug)]
enum What {
    Read { memory: BufferMut, range: Range<usize>, offset: u64 },
    Write { data: Buffer, skip: usize, offset: u64, is_durable: bool },
    Superblock { bytes: Box<SuperblockBytes>, skip: usize, offset: u64 },
    Flush,
    Zero { mode: i32, range: Range<u64> },
}

impl What {
    fn kept(self) -> Kept {
        match self {
            Self::Read { memory, .. } => Kept::Fill(memory),
            Self::Write { data, .. } => Kept::Data(data),
            Self::Superblock { bytes, .. } => Kept::Superblock(bytes),
            Self::Flush | Self::Zero { .. } => Kept::Nothing,
        }
    }

    fn written(&self) -> Option<(u64, &[u8])> {
        match self {
            Self::Write { data, skip, offset, .. } => Some((*offset, &data[*skip..])),
            Self::Superblock { bytes, skip, offset } => {
                Some((*offset + *skip as u64, &bytes.0[*skip..]))
            }
            _ => None,
        }
    }
}

impl Queue {
    pub(in crate::disk) const fn new(device: Device) -> Self {
        Self { device, under_way: Vec::new() }
    }

    pub(in crate::disk) const fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    fn push(&mut self, owner: Owner, what: What) {
        let since = self.device.state().now();
        self.under_way.push(Operation { owner, what, since, is_done: false });
    }

    /// Goes on with one of the operations; returned if it ends.
    pub(in crate::disk) fn advance(&mut self, random: &mut Random) -> Option<Completion> {
        if self.under_way.is_empty() {
            return None;
        }
        let place = random.index(self.under_way.len());
        let operation = &mut self.under_way[place];
        if !operation.is_done
            && random.chance(250)
            && let Some((offset, bytes)) = operation.what.written()
        {
            let mut state = self.device.state();
            if !state.lacks_space(offset, bytes.len()) {
                state.write(offset, bytes, true);
                operation.is_done = true;
            }
            return None;
        }
        if self.device.state().lie == Lie::NeverEnd && random.chance(2) {
            self.under_way.swap_remove(place);
            return None;
        }
        let operation = self.under_way.swap_remove(place);
        Some(self.end(operation, random))
    }

    /// The place of the oldest operation that is no flush.
    pub(in crate::disk) fn first_but_flushes(&self) -> Option<usize> {
        self.under_way.iter().position(|operation| !matches!(operation.what, What::Flush))
    }

    /// The operation at this place ends: as the device ends it, or with this error. For an
    /// interruption nothing is done; a flush that fails otherwise drops what it covers.
    pub(in crate::disk) fn end_at(&mut self, place: usize, error: Option<io::Error>) -> Completion {
        let operation = self.under_way.remove(place);
        let is_transient = error
            .as_ref()
            .is_some_and(|e| [Some(libc::EINTR), Some(libc::EAGAIN)].contains(&e.raw_os_error()));
        if error.is_some() && !is_transient && matches!(operation.what, What::Flush) {
            self.device.state().flush_fails();
        }
        match error {
            None => self.end(operation, &mut Random::new(0)),
            Some(error) => Completion {
                result: Err(error),
                owner: operation.owner,
                raw: 0,
                kept: operation.what.kept(),
            },
        }
    }

    fn end(&self, operation: Operation, random: &mut Random) -> Completion {
        let Operation { owner, mut what, since, is_done } = operation;
        let interrupt = self.device.state().faults.interrupt;
        let result = if !is_done && random.chance(interrupt) {
            Err(io::Error::from_raw_os_error(random.pick(&[libc::EINTR, libc::EAGAIN])))
        } else {
            self.carry_out(&mut what, since, is_done)
        };
        Completion { owner, result, raw: 0, kept: what.kept() }
    }

    fn carry_out(&self, what: &mut What, since: u64, is_done: bool) -> io::Result<usize> {
        match what {
            What::Read { memory, range, offset } => self.read(&mut memory[range.clone()], *offset),
            What::Write { is_durable, .. } => {
                let is_durable = *is_durable;
                self.write(what, is_done, is_durable)
            }
            What::Superblock { .. } => self.write(what, is_done, false),
            What::Flush => {
                let mut state = self.device.state();
                let often = state.faults.flush;
                if state.random.chance(often) {
                    state.flush_fails();
                    return Err(io::Error::from_raw_os_error(libc::EIO));
                }
                state.make_durable(since, None);
                Ok(0)
            }
            What::Zero { mode, range } => self.zero(*mode, range.clone()),
        }
    }

    fn read(&self, memory: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.device.state();
        let length = state.part(memory.len());
        let often = state.faults.read;
        let is_failed = state.random.chance(often);
        state.failures += u64::from(is_failed);
        if is_failed || state.read(offset, &mut memory[..length]).is_none() {
            if state.places.checksums.contains(&offset) {
                state.unread.push(offset..offset + memory.len() as u64);
            }
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(length)
    }

    fn write(&self, what: &What, is_done: bool, is_durable: bool) -> io::Result<usize> {
        let Some((offset, bytes)) = what.written() else { return Ok(0) };
        let mut state = self.device.state();
        let is_table = is_durable && TABLES.iter().any(|tables| tables.contains(&offset));
        let often = if is_table { state.faults.tables } else { 0 };
        if !is_done && state.random.chance(often) {
            state.failures += 1;
            // Mostly one after which the core goes on to believe flushes.
            let error = state.random.pick(&[libc::ENOSPC, libc::ENOSPC, libc::ENOSPC, libc::EIO]);
            return Err(io::Error::from_raw_os_error(error));
        }
        if !is_done && state.lacks_space(offset, bytes.len()) {
            return Err(state.refuse());
        }
        let often = state.faults.write;
        if !is_done && state.random.chance(often) {
            state.failures += 1;
            state.write(offset, bytes, false);
            let error = state.random.pick(&[libc::EIO, libc::EIO, libc::ENOSPC]);
            if is_durable && error == libc::EIO && state.random.chance(500) {
                // It was written, and the flush of the drive failed that was to make it durable.
                state.flush_fails();
            }
            return Err(io::Error::from_raw_os_error(error));
        }
        let length = if is_done { bytes.len() } else { state.part(bytes.len()) };
        if !is_done {
            state.write(offset, &bytes[..length], true);
        }
        if is_durable {
            let (now, end) = (state.now(), (offset + length as u64).div_ceil(SECTOR));
            state.make_durable(now, Some(offset / SECTOR..end));
        }
        Ok(if state.lie == Lie::CountShortAsWhole { bytes.len() } else { length })
    }

    fn zero(&self, mode: i32, range: Range<u64>) -> io::Result<usize> {
        let mut state = self.device.state();
        let is_punch = mode & libc::FALLOC_FL_PUNCH_HOLE != 0;
        let faults = &state.faults;
        if if is_punch { faults.without_punch } else { faults.without_zero_range } {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let often = state.faults.write;
        let is_failed = state.random.chance(often);
        state.zero(range, !is_failed);
        if is_failed {
            state.failures += 1;
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(0)
    }

    /// The process has ended: of each operation that was under way nothing is done, a part, or all.
    pub(in crate::disk) fn abandon(&mut self) {
        for operation in core::mem::take(&mut self.under_way) {
            let mut state = self.device.state();
            let fate = state.random.below(3);
            if operation.is_done || fate == 0 {
                continue;
            }
            match &operation.what {
                What::Zero { range, .. } => state.zero(range.clone(), fate == 1),
                what => {
                    if let Some((offset, bytes)) = what.written() {
                        state.write(offset, bytes, fate == 1);
                    }
                }
            }
        }
    }
}

impl Io for Queue {
    type File = Device;

    fn read(
        &mut self,
        owner: Owner,
        _: &Device,
        memory: BufferMut,
        range: Range<usize>,
        offset: u64,
    ) {
        self.push(owner, What::Read { memory, range, offset });
    }

    fn write(&mut self, owner: Owner, _: &Device, data: Buffer, skip: usize, offset: u64) {
        self.push(owner, What::Write { data, skip, offset, is_durable: false });
    }

    fn write_durably(&mut self, owner: Owner, _: &Device, data: Buffer, skip: usize, offset: u64) {
        self.push(owner, What::Write { data, skip, offset, is_durable: true });
    }

    fn write_superblock(
        &mut self,
        owner: Owner,
        _: &Device,
        bytes: Box<SuperblockBytes>,
        skip: usize,
        offset: u64,
    ) {
        self.push(owner, What::Superblock { bytes, skip, offset });
    }

    fn flush(&mut self, owner: Owner, _: &Device) {
        self.push(owner, What::Flush);
    }

    fn fallocate(&mut self, owner: Owner, _: &Device, mode: i32, offset: u64, length: u64) {
        self.push(owner, What::Zero { mode, range: offset..offset + length });
    }
}

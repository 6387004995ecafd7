//! A simulated device on which tests try one layer. What is under way ends when they say so.

use std::io;

use evenkeel_core::Instant;
use evenkeel_format::Superblock;

use crate::disk::device::{Flushes, Layout, Means};
use crate::disk::simulation::device::{Device, Places};
use crate::disk::simulation::plan::superblock_of;
use crate::disk::simulation::queue::Queue;
use crate::memory::{Buffer, Pool};
use crate::ring::{Completion, Key, Owner, Slab};
use crate::seeds::Random;

pub(super) struct Bench {
    pub(super) device: Device,
    pub(super) queue: Queue,
    pool: Pool,
    replica: Key,
}

impl Bench {
    pub(super) fn new() -> Self {
        let device = Device::new(Random::new(1), Places::default());
        let queue = Queue::new(device.clone());
        Self { device, queue, pool: Pool::new(8 << 20), replica: Slab::new().insert(()) }
    }

    /// Of 8 MiB, with checksums.
    pub(super) fn superblock() -> Superblock {
        superblock_of(8 << 20, true)
    }

    /// What a disk is that has this device.
    pub(super) fn disk(&self) -> (Device, Layout, Flushes) {
        let layout = Layout::simulated(&Self::superblock(), true);
        let flushes = Flushes::new(self.device.state().drive.clone());
        (self.device.clone(), layout, flushes)
    }

    pub(super) fn means(&mut self) -> Means<'_, Queue> {
        let (pool, replica) = (&self.pool, self.replica);
        Means { ring: &mut self.queue, pool, replica, now: Instant(1) }
    }

    pub(super) fn filled(&self, length: usize, byte: u8) -> Buffer {
        let mut memory = self.pool.take(length);
        memory.fill(byte);
        memory.freeze()
    }

    /// The oldest operation ends, as the device ends it or with this error.
    pub(super) fn end(&mut self, error: Option<i32>) -> (Key, Completion) {
        let completion = self.queue.end_at(0, error.map(io::Error::from_raw_os_error));
        let Owner::Disk { job, .. } = completion.owner else { panic!("it is the disk's") };
        (job, completion)
    }

    /// What the device holds at a place of the data.
    pub(super) fn holds(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut memory = vec![0; length];
        let place = Self::superblock().data_offset + offset;
        self.device.state().read(place, &mut memory).expect("it can be read");
        memory
    }
}

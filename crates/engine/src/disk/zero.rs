//! Makes ranges read as zeroes: by the filesystem's or device's own means where it has them, by
//! writing zeroes where not.

use std::io;

use evenkeel_core::DiskOutcome;

use super::io::Io;
use super::{Disk, Means, Progress, Step};
use crate::ring::{Kept, Owner};
use crate::slab::Key;

/// Zeroes that are written at once, in bytes.
const PIECE: usize = 1 << 20;

/// What the file or device can't do.
#[derive(Debug, Default)]
pub(super) struct Unsupported {
    punch: bool,
    zero_range: bool,
}

/// How far a range is.
#[derive(Debug)]
pub(super) struct Zeroing {
    /// Whether the space is to be given back, by whatever method.
    unmap: bool,
    method: Method,
    /// Bytes of the range that have been written.
    done: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// Gives the space back.
    Punch,
    /// Keeps the space.
    ZeroRange,
    Write,
}

impl Zeroing {
    pub(super) const fn new(unmap: bool) -> Self {
        Self { unmap, method: if unmap { Method::Punch } else { Method::ZeroRange }, done: 0 }
    }

    pub(super) const fn unmaps(&self) -> bool {
        self.unmap
    }
}

impl<I: Io> Disk<I> {
    /// Begins by the first method that is known to work, or not known not to.
    pub(super) fn zero(&mut self, means: &mut Means<'_, I>, key: Key) {
        let owner = Owner::Disk { replica: means.replica, job: key };
        let Some(job) = self.jobs.get_mut(key) else { return };
        let Step::Zero(zeroing) = &mut job.step else { return };
        if zeroing.method == Method::Punch && self.without.punch {
            zeroing.method = Method::ZeroRange;
        }
        if zeroing.method == Method::ZeroRange && self.without.zero_range {
            zeroing.method = Method::Write;
        }
        let mode = match zeroing.method {
            Method::Punch => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            Method::ZeroRange => libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
            Method::Write => {
                let length = job.length.min(PIECE as u64) as usize;
                let mut zeroes = means.pool.take(length);
                zeroes.fill(0);
                let offset = self.layout.on_disk(job.offset);
                means.ring.write(owner, &self.file, zeroes.freeze(), 0, offset);
                return;
            }
        };
        let offset = self.layout.on_disk(job.offset);
        means.ring.fallocate(owner, &self.file, mode, offset, job.length);
    }

    pub(super) fn zero_goes_on(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        kept: Kept,
        // `None`: the kernel asks for another try.
        count: Option<usize>,
    ) -> Progress {
        let owner = Owner::Disk { replica: means.replica, job: key };
        let Some(job) = self.jobs.get_mut(key) else { return Progress::More };
        let (Step::Zero(zeroing), Kept::Data(zeroes)) = (&mut job.step, kept) else {
            if count.is_none() {
                self.zero(means, key);
                return Progress::More;
            }
            return Progress::Done(DiskOutcome::Done);
        };
        if count == Some(0) {
            return Progress::Failed(super::cut_short());
        }
        zeroing.done += count.unwrap_or(0) as u64;
        if zeroing.done >= job.length {
            return Progress::Done(DiskOutcome::Done);
        }
        // The slot holds nothing but zeroes: its end serves a shorter rest.
        let rest = (job.length - zeroing.done).min(zeroes.len() as u64) as usize;
        let (skip, offset) = (zeroes.len() - rest, self.layout.on_disk(job.offset + zeroing.done));
        means.ring.write(owner, &self.file, zeroes, skip, offset);
        Progress::More
    }

    /// Tries the next method if this one is not supported.
    pub(super) fn zero_failed(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        error: io::Error,
    ) -> Progress {
        let unsupported =
            matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV));
        let Some(job) = self.jobs.get_mut(key) else { return Progress::More };
        let Step::Zero(zeroing) = &job.step else { return Progress::Failed(error) };
        match zeroing.method {
            Method::Punch if unsupported => self.without.punch = true,
            Method::ZeroRange if unsupported => self.without.zero_range = true,
            _ => return Progress::Failed(error),
        }
        self.zero(means, key);
        Progress::More
    }
}

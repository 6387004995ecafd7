//! Makes ranges read as zeroes: by the filesystem's or device's own means where it has them, by
//! writing zeroes where not.

use std::io;

use evenkeel_core::DiskOutcome;

use super::Outcome;
use crate::disk::device::{Io, Means, cut_short};
use crate::ring::{Kept, Owner};

/// Zeroes that are written at once, in bytes.
const PIECE: usize = 1 << 20;

/// What the file or device has turned out not to know.
#[derive(Debug)]
pub(super) struct Unsupported {
    punch: bool,
    zero_range: bool,
}

impl Unsupported {
    pub(super) const fn none() -> Self {
        Self { punch: false, zero_range: false }
    }
}

/// How far a range is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zeroing {
    place: u64,
    length: u64,
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

impl Method {
    /// This one, or the next one that may work.
    const fn known(self, without: &Unsupported) -> Self {
        match self {
            Self::Punch if !without.punch => Self::Punch,
            Self::Punch | Self::ZeroRange if !without.zero_range => Self::ZeroRange,
            _ => Self::Write,
        }
    }
}

impl Zeroing {
    /// So many bytes of 4 KiB are zeroed, by writing zeroes or by punching a hole.
    #[cfg(test)]
    pub(super) const fn simulated(done: u64, is_written: bool) -> Self {
        let method = if is_written { Method::Write } else { Method::Punch };
        Self { place: 0, length: 4096, method, done }
    }

    /// By the first method that is known to work, or not known not to.
    pub(super) const fn new(place: u64, length: u64, unmap: bool, without: &Unsupported) -> Self {
        let method = if unmap { Method::Punch } else { Method::ZeroRange };
        Self { place, length, method: method.known(without), done: 0 }
    }

    pub(super) fn begin<I: Io>(&self, means: &mut Means<'_, I>, owner: Owner, file: &I::File) {
        let mode = match self.method {
            Method::Punch => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            Method::ZeroRange => libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
            Method::Write => {
                let mut zeroes = means.pool.take(self.length.min(PIECE as u64) as usize);
                zeroes.fill(0);
                means.ring.write(owner, file, zeroes.freeze(), 0, self.place);
                return;
            }
        };
        means.ring.fallocate(owner, file, mode, self.place, self.length);
    }

    /// See [`super::RawDisk`].
    pub(super) fn goes_on<I: Io>(
        &mut self,
        means: &mut Means<'_, I>,
        owner: Owner,
        file: &I::File,
        kept: Kept,
        count: Option<usize>,
    ) -> Option<Outcome> {
        let Kept::Data(zeroes) = kept else {
            if count.is_none() {
                self.begin(means, owner, file);
                return None;
            }
            return Some(Ok(DiskOutcome::Done));
        };
        if count == Some(0) {
            return Some(Err(cut_short()));
        }
        self.done += count.unwrap_or(0) as u64;
        if self.done >= self.length {
            return Some(Ok(DiskOutcome::Done));
        }
        // The buffer holds nothing but zeroes: its end serves a shorter rest.
        let rest = (self.length - self.done).min(zeroes.len() as u64) as usize;
        let skip = zeroes.len() - rest;
        means.ring.write(owner, file, zeroes, skip, self.place + self.done);
        None
    }

    /// Panics if a range is under way that is zeroed, or was zeroed in part by what does all or
    /// nothing.
    pub(super) fn check_invariants(&self) {
        assert!(self.done < self.length, "a range is under way that reads as zeroes");
        let is_whole = self.done == 0 || self.method == Method::Write;
        assert!(is_whole, "a range is zeroed in part by {:?}", self.method);
    }

    /// Whether the next method is to be tried, as this one is not supported.
    pub(super) fn takes_another_way(
        &mut self,
        error: &io::Error,
        without: &mut Unsupported,
    ) -> bool {
        let unsupported =
            matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV));
        match self.method {
            Method::Punch if unsupported => without.punch = true,
            Method::ZeroRange if unsupported => without.zero_range = true,
            _ => return false,
        }
        self.method = self.method.known(without);
        true
    }
}

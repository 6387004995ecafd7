//! Which parts of a replica hold data.

use std::io;
use std::time::Duration;

use evenkeel_core::settings::MOST_EXTENTS;
use evenkeel_core::{DiskOutcome, Extent, Instant};

use super::io::{Access, Io};
use super::{Disk, Ended, Job, Means};
use crate::mailbox::Order;
use crate::slab::Key;

impl<I: Io> Disk<I> {
    /// Block devices have a map of ours, which answers at once; without one all of them counts as
    /// allocated. Of a file the filesystem has a map, which it may have to read.
    pub(super) fn map(
        &mut self,
        means: &Means<'_, I>,
        job: Job,
        offset: u64,
        length: u64,
    ) -> Option<Ended> {
        let extents = match &self.allocation {
            Some(allocation) => allocation.extents(offset, length),
            None if self.layout.is_device => vec![Extent { length, allocated: true }],
            None => return self.ask_for_map(means.replica, job, offset, length),
        };
        self.succeed(&job, Duration::ZERO, DiskOutcome::Extents(extents))
    }

    fn ask_for_map(&mut self, replica: Key, job: Job, offset: u64, length: u64) -> Option<Ended> {
        if let Err(error) = self.helper.prepare() {
            return self.fail(&job, Duration::ZERO, error);
        }
        let (file, start) = (self.file.clone(), self.layout.on_disk(offset));
        let job = self.jobs.insert(job);
        self.helper.ask(move || {
            let extents = extents_of(&file, start, length);
            Order::Mapped { replica, job, extents }
        });
        None
    }

    /// The filesystem has told.
    pub(crate) fn mapped(
        &mut self,
        now: Instant,
        job: Key,
        extents: io::Result<Vec<Extent>>,
    ) -> Option<Ended> {
        let job = self.jobs.remove(job)?;
        let took = now.since(job.began);
        match extents {
            Ok(extents) => self.succeed(&job, took, DiskOutcome::Extents(extents)),
            Err(error) => self.fail(&job, took, error),
        }
    }
}

/// The extents of this range of the file, the first [`MOST_EXTENTS`] of them.
fn extents_of(file: &impl Access, start: u64, length: u64) -> io::Result<Vec<Extent>> {
    let end = start + length;
    let mut extents = Vec::new();
    let mut at = start;
    while at < end && extents.len() < MOST_EXTENTS {
        let data = file.next_data(at)?.unwrap_or(end).clamp(at, end);
        let allocated = data == at;
        let until =
            if allocated { file.next_hole(at)?.unwrap_or(end).clamp(at, end) } else { data };
        if until == at {
            // The file changed between the two questions: call the rest data, which is never wrong.
            extents.push(Extent { length: end - at, allocated: true });
            break;
        }
        extents.push(Extent { length: until - at, allocated });
        at = until;
    }
    Ok(extents)
}

/// Where data may begin, at this byte or later; `u64::MAX`: there are none up to the end of the file. Of a
/// file or device that can't tell, all may be data.
pub(super) fn next_data(file: &impl Access, from: u64) -> u64 {
    file.next_data(from).map_or(from, |data| data.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    /// A replica that was just made has nothing behind its data: none of that need be read.
    #[test]
    fn a_hole_up_to_the_end_of_a_file_is_no_data() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        assert_eq!(next_data(&file, 0), u64::MAX);
        file.write_all_at(&[1; 4096], 32 << 20).unwrap();
        assert!((4096..=32 << 20).contains(&next_data(&file, 4096)));
        assert_eq!(next_data(&file, 33 << 20), u64::MAX);
        assert_eq!(next_data(&file, 65 << 20), u64::MAX);
    }
}

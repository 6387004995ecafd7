//! Which parts of a file hold data, as its filesystem tells.

use std::io;

use evenkeel_core::Extent;
use evenkeel_core::settings::MAX_EXTENTS;

use super::Asked;
use super::helper::{Done, Helper};
use super::io::Access;
use crate::slab::{Key, Slab};

/// Questions that the filesystem has not answered yet.
#[derive(Debug)]
pub(super) struct Questions(Slab<Asked>);

impl Questions {
    pub(super) const fn none() -> Self {
        Self(Slab::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Asks for the extents of a range of the file, on the disk's helper: the filesystem may have
    /// to read them.
    pub(super) fn ask<F: Access + Send + 'static>(
        &mut self,
        helper: &mut Helper,
        (replica, file): (Key, F),
        (start, asked): (u64, Asked),
    ) -> Result<(), (Asked, io::Error)> {
        if let Err(error) = helper.prepare() {
            return Err((asked, error));
        }
        let length = asked.length();
        let job = self.0.insert(asked);
        helper.ask(move || {
            let extents = extents_of(&file, start, length);
            Done::Mapped { replica, job, extents }
        });
        Ok(())
    }

    /// The one that has been answered.
    pub(super) fn answered(&mut self, job: Key) -> Option<Asked> {
        self.0.remove(job)
    }
}

/// The extents of this range of the file, the first [`MAX_EXTENTS`] of them.
fn extents_of(file: &impl Access, start: u64, length: u64) -> io::Result<Vec<Extent>> {
    let end = start + length;
    let mut extents = Vec::new();
    let mut at = start;
    while at < end && extents.len() < MAX_EXTENTS {
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

/// Where data may begin, at this byte or later; `u64::MAX`: there are none up to the end of the
/// file. Of a file or device that can't tell, all may be data.
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

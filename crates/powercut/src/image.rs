//! What a power cut leaves on disks: what was durable, and of the rest any part, in sectors.
//!
//! A volatile cache may have written any of what it was given, so of what no flush covers each
//! sector is there or not. Of overlapping writes an older one may be there without a newer one,
//! never over it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

use crate::random::Random;
use crate::tape::{Action, Entry, Moment};

/// Bytes of a sector: what a disk writes as a whole.
pub const SECTOR: usize = 512;

/// A power cut.
#[derive(Debug, Clone)]
pub struct Cut {
    /// The moment on the tape.
    pub at: Moment,
    /// Of each disk, whether it loses what was not durable; if not, only its node dies.
    pub loses: Vec<bool>,
    /// How many of a hundred writes that were not durable are there all the same.
    pub kept: u64,
    /// How many of a hundred of those are there in part.
    pub torn: u64,
}

impl Cut {
    /// One that happens at this moment, otherwise any.
    pub fn choose(at: Moment, disks: usize, random: &mut Random) -> Self {
        let all = random.percent(50);
        let mut loses: Vec<bool> = (0..disks).map(|_| all || random.percent(50)).collect();
        let one = random.below(disks as u64) as usize;
        loses[one] = true;
        let kept = [0, 10, 50, 90, 100][random.below(5) as usize];
        let torn = [0, 50][random.below(2) as usize];
        Self { at, loses, kept, torn }
    }

    /// Puts what is left into a directory that holds what was there when the tape began.
    ///
    /// # Errors
    /// Of the file system.
    pub fn leave(
        &self,
        disk: usize,
        directory: &Path,
        tape: &[Entry],
        random: &mut Random,
    ) -> io::Result<()> {
        let was_begun = |entry: &&Entry| entry.disk == disk && entry.begun <= self.at;
        let entries: Vec<&Entry> = tape.iter().filter(was_begun).collect();
        for name in names(directory)? {
            let of_file: Vec<_> = entries.iter().filter(|e| *e.file == *name).copied().collect();
            let file = OpenOptions::new().write(true).open(directory.join(&name))?;
            self.apply(disk, &file, &of_file, random)?;
        }
        Ok(())
    }

    fn apply(
        &self,
        disk: usize,
        file: &File,
        entries: &[&Entry],
        random: &mut Random,
    ) -> io::Result<()> {
        let is_over = |entry: &Entry| entry.ended <= self.at;
        let is_flush = |entry: &&&Entry| matches!(entry.action, Action::Flush) && is_over(entry);
        let flushed = entries.iter().filter(is_flush).map(|entry| entry.begun).max();
        for entry in entries {
            let is_covered = flushed.is_some_and(|flushed| entry.ended < flushed);
            let is_safe = is_covered || (is_over(entry) && !self.loses[disk]);
            match &entry.action {
                Action::Flush => {}
                Action::Write { offset, data, durable } => {
                    if is_safe || (*durable && is_over(entry)) {
                        file.write_all_at(data, *offset)?;
                    } else if random.percent(self.kept) {
                        self.write_perhaps_torn(file, *offset, data, random)?;
                    }
                }
                Action::Zero { offset, length } => {
                    if is_safe || random.percent(self.kept) {
                        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                        fallocate(file, hole, *offset, *length)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn write_perhaps_torn(
        &self,
        file: &File,
        offset: u64,
        data: &[u8],
        random: &mut Random,
    ) -> io::Result<()> {
        if !random.percent(self.torn) {
            return file.write_all_at(data, offset);
        }
        for (number, sector) in data.chunks(SECTOR).enumerate() {
            if random.percent(50) {
                file.write_all_at(sector, offset + (number * SECTOR) as u64)?;
            }
        }
        Ok(())
    }
}

/// The names of a directory's files.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(directory)?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests;

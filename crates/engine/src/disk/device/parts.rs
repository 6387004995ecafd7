//! Metadata that is read part by part where it can't be read at once.
//!
//! A sector that a disk has lost is no reason not to open a replica: each kind of metadata says
//! what counts where a part of it can't be read. But such a sector may come back with what it held,
//! which is older then. So what counted instead is written in its place before the replica is used,
//! or what is no metadata.

use std::io;

use super::bytes::{read_at, write_at};
use super::io::Access;

/// What is no metadata of any kind.
const SPOILT: u8 = 0xff;

/// What was read of a range that is made of parts of one length.
#[derive(Debug)]
pub(in crate::disk) struct Parts {
    offset: u64,
    /// Where a part can't be read, what is no metadata.
    bytes: Vec<u8>,
    part: usize,
    /// The numbers of those that can't be read.
    lost: Vec<usize>,
}

impl Parts {
    /// Reads parts, each by itself if they can't be read at once.
    ///
    /// # Errors
    /// If none of several can be read, or the error is not that of a sector: then it is the disk
    /// that can't.
    pub(in crate::disk) fn read(
        file: &impl Access,
        offset: u64,
        length: usize,
        part: usize,
    ) -> io::Result<Self> {
        let error = match read_at(file, offset, length) {
            Ok(bytes) => return Ok(Self { offset, bytes, part, lost: Vec::new() }),
            Err(error) => error,
        };
        if !is_of_a_sector(&error) {
            return Err(error);
        }
        let mut parts = Self { offset, bytes: vec![SPOILT; length], part, lost: Vec::new() };
        for (number, bytes) in parts.bytes.chunks_mut(part).enumerate() {
            match read_at(file, offset + (number * part) as u64, bytes.len()) {
                Ok(found) => bytes.copy_from_slice(&found),
                Err(error) if is_of_a_sector(&error) => parts.lost.push(number),
                Err(error) => return Err(error),
            }
        }
        let count = length.div_ceil(part);
        if count > 1 && parts.lost.len() == count { Err(error) } else { Ok(parts) }
    }

    /// The parts, in their order. `None`: it can't be read.
    pub(in crate::disk) fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let parts = self.bytes.chunks(self.part).enumerate();
        parts.map(|(number, bytes)| (!self.lost.contains(&number)).then_some(bytes))
    }

    /// All bytes; where a part can't be read, what is no metadata.
    pub(in crate::disk) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The places of parts that can't be read, and how long they are.
    pub(in crate::disk) fn lost(&self) -> impl Iterator<Item = (u64, usize)> {
        self.lost.iter().map(|number| (self.offset + (number * self.part) as u64, self.part))
    }
}

/// Reads one part; `None`: the disk has lost it.
pub(in crate::disk) fn read_part(
    file: &impl Access,
    offset: u64,
    length: usize,
) -> io::Result<Option<Vec<u8>>> {
    match read_at(file, offset, length) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_of_a_sector(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes what is no metadata to these places. A flush has to follow.
pub(in crate::disk) fn spoil(file: &impl Access, places: &[(u64, usize)]) -> io::Result<()> {
    places.iter().try_for_each(|(offset, length)| write_at(file, &vec![SPOILT; *length], *offset))
}

/// Whether an error tells of what was to be read, and not of the whole disk.
fn is_of_a_sector(error: &io::Error) -> bool {
    let numbers = [libc::EIO, libc::ENODATA, libc::EILSEQ, libc::EBADMSG, libc::EREMOTEIO];
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

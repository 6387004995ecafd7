//! Which block device a disk is: the mark that evenkeel has written on it, and for people its size
//! and serial number.
//!
//! The name of a device says little: after a restart of the machine `/dev/sdb` may be what
//! `/dev/sdc` was. Only the mark decides. A serial number may be of the adapter, or be the same
//! twice; a device may grow.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use evenkeel_api::sizes;
use evenkeel_format::{
    DISK_MARK_LENGTH, DISK_MARK_OFFSETS, SUPERBLOCK_LENGTH, SuperblockBytes, decode_disk_mark,
    encode_disk_mark,
};
use serde::{Deserialize, Serialize};

use super::probe;
use super::replica_file::{open_to_read, read_newest};
use crate::random::random_u128;

/// What a device is known by, as the state directory remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeviceIdentity {
    #[serde(with = "as_text")]
    mark: u128,
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
}

impl DeviceIdentity {
    /// The identity of a device that is given to evenkeel: by the mark that it has, or a new one.
    pub(super) fn take(file: &File, path: &Path) -> io::Result<Self> {
        let marks = Marks::read(file)?;
        let mark = marks.mark().unwrap_or_else(random_u128);
        marks.complete(file, mark)?;
        Self::of(file, path, mark)
    }

    /// The same of a device that software gave to evenkeel which made no marks. `None`: what is
    /// there may be anything, for where a mark would lie is something else.
    pub(super) fn adopt(file: &File, path: &Path) -> io::Result<Option<Self>> {
        let marks = Marks::read(file)?;
        match marks.mark().is_some() || marks.are_blank() {
            true => Self::take(file, path).map(Some),
            false => Ok(None),
        }
    }

    /// Whether an open device is this one. If so, a damaged copy of its mark is written anew, and
    /// what people know it by is noted.
    pub(super) fn recognise(&mut self, file: &File, path: &Path) -> io::Result<bool> {
        let marks = Marks::read(file)?;
        if !marks.contain(self.mark) {
            return Ok(false);
        }
        marks.complete(file, self.mark)?;
        let now = Self::of(file, path, self.mark)?;
        if now.serial != self.serial {
            tracing::warn!(path = %path.display(), was = %self, is = %now, "a disk's mark is on another device: its content was moved or copied");
        }
        *self = now;
        Ok(true)
    }

    /// Whether what is open has this mark. Writes nothing.
    pub(super) fn is_of(&self, file: &File) -> io::Result<bool> {
        Ok(Marks::read(file)?.contain(self.mark))
    }

    /// Whether the device at a path has this mark, as far as it can be read.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        open_to_read(path).and_then(|file| self.is_of(&file)).unwrap_or(false)
    }

    pub(super) fn has_mark_of(&self, other: &Self) -> bool {
        self.mark == other.mark
    }

    fn of(file: &File, path: &Path, mark: u128) -> io::Result<Self> {
        let number = probe::device_number(path)?;
        Ok(Self { mark, size: probe::length(file)?, serial: number.and_then(probe::serial) })
    }
}

impl fmt::Display for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the one with mark {} ({}", short(self.mark), sizes::size(self.size))?;
        match &self.serial {
            Some(serial) => write!(f, ", {serial})"),
            None => f.write_str(")"),
        }
    }
}

/// Enough of a mark to tell it from others.
fn short(mark: u128) -> String {
    let mut text = format!("{mark:032x}");
    text.truncate(8);
    text
}

/// What is on a device that is not the one that was expected, for people. `signature`: what it
/// holds, if known.
pub(super) fn describe_found(file: &File, path: &Path, signature: Option<&str>) -> String {
    let mark = Marks::read(file).ok().and_then(|marks| marks.mark());
    let mark =
        mark.map_or("without a mark".to_owned(), |mark| format!("with mark {}", short(mark)));
    let content = match (read_newest(path), signature) {
        (Some(s), _) => format!("which holds a replica of volume {}", s.name),
        (None, Some(signature)) => format!("which holds {signature}"),
        (None, None) => "which holds nothing known".to_owned(),
    };
    let size = probe::length(file).map_or(String::new(), sizes::size);
    let number = probe::device_number(path).ok().flatten();
    let serial = number.and_then(probe::serial).map_or(String::new(), |s| format!(", {s}"));
    format!("one {mark} ({size}{serial}), {content}")
}

/// The two copies of a mark.
struct Marks([Vec<u8>; 2]);

impl Marks {
    fn read(file: &File) -> io::Result<Self> {
        let mut copies = [Vec::new(), Vec::new()];
        for (copy, offset) in copies.iter_mut().zip(DISK_MARK_OFFSETS) {
            let mut buffer = aligned();
            let bytes = &mut buffer.0[..DISK_MARK_LENGTH];
            file.read_exact_at(bytes, offset)?;
            *copy = bytes.to_vec();
        }
        Ok(Self(copies))
    }

    fn mark(&self) -> Option<u128> {
        self.0.iter().find_map(|copy| decode_disk_mark(copy))
    }

    fn contain(&self, mark: u128) -> bool {
        self.0.iter().any(|copy| decode_disk_mark(copy) == Some(mark))
    }

    fn are_blank(&self) -> bool {
        self.0.iter().flatten().all(|byte| *byte == 0)
    }

    /// Writes the copies that are not this mark, durably.
    fn complete(&self, file: &File, mark: u128) -> io::Result<()> {
        let bytes = encode_disk_mark(mark);
        for (copy, offset) in self.0.iter().zip(DISK_MARK_OFFSETS) {
            if *copy != bytes {
                let mut buffer = aligned();
                buffer.0[..DISK_MARK_LENGTH].copy_from_slice(&bytes);
                file.write_all_at(&buffer.0[..DISK_MARK_LENGTH], offset)?;
                evenkeel_engine::flush(file)?;
            }
        }
        Ok(())
    }
}

/// Direct I/O wants memory that is aligned.
fn aligned() -> Box<SuperblockBytes> {
    Box::new(SuperblockBytes([0; SUPERBLOCK_LENGTH]))
}

/// JSON has no numbers of 128 bits.
mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(mark: &u128, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{mark:032x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        let text = String::deserialize(from)?;
        u128::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;

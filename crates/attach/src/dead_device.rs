//! Which device it was from which a volume was taken away.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fuse::mount::FILE_NAME;
use crate::loop_device::{self, Bound};

/// Stands between a device's path and which one it was, where it is kept as text.
const SEPARATOR: char = '@';
/// What the kernel adds to the path of a file that has no name any more.
const DELETED: &str = " (deleted)";

/// A device from which its volume was taken away, and which one it was: when its last user has
/// closed it, the kernel gives its name to others.
///
/// It is kept as text: as its path alone if no more is known. So older software reads it, and what
/// that has kept is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct DeadDevice {
    path: PathBuf,
    which: Option<Which>,
}

/// Which of all devices that have had this name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Which {
    /// What the kernel counts whenever a disk gets another medium.
    sequence: u64,
    /// The boot of the machine, with which that count begins anew.
    boot: String,
}

impl DeadDevice {
    /// The one that has this path now.
    #[must_use]
    pub fn now(path: &Path) -> Self {
        Self::counted(path, shown(path))
    }

    /// A loop device that had a volume's file.
    pub(crate) fn of(bound: &Bound) -> Self {
        Self::counted(&bound.path(), bound.sequence())
    }

    /// The one that had this path when the kernel had counted so far. `None`: it does not count.
    pub(crate) fn counted(path: &Path, sequence: Option<u64>) -> Self {
        let which = sequence.map(|sequence| Which { sequence, boot: boot() });
        Self { path: path.to_owned(), which }
    }

    /// The device's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether another device than it has its name now, as far as the kernel shows: one that is
    /// gone, and used still, is shown as none.
    pub(crate) fn is_replaced(&self) -> bool {
        self.which.as_ref().is_some_and(|which| which.is_over(&boot(), shown(&self.path)))
    }

    /// Whether the loop device with this number is it still. One that is known by its path alone is
    /// so while it has a file such as volumes have.
    pub(crate) fn is_loop(&self, number: u32) -> bool {
        let is_volumes = loop_device::backing_file(number).is_some_and(|file| is_volumes(&file));
        is_volumes
            && self.which.as_ref().is_none_or(|which| {
                which.boot == boot() && loop_device::shown_sequence(number) == Some(which.sequence)
            })
    }
}

impl Which {
    /// Whether it is not what is shown in this boot.
    fn is_over(&self, boot: &str, shown: Option<u64>) -> bool {
        self.boot != boot || shown.is_some_and(|sequence| sequence != self.sequence)
    }
}

/// What the kernel shows that it has counted of the device with this path.
fn shown(path: &Path) -> Option<u64> {
    loop_device::shown_sequence_of(path.file_name()?.to_str()?)
}

/// Whether a loop device's file, as the kernel shows its path, may be that of a volume.
fn is_volumes(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(DELETED).unwrap_or(&name) == FILE_NAME
}

fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

impl From<String> for DeadDevice {
    fn from(text: String) -> Self {
        let parts: Vec<&str> = text.split(SEPARATOR).collect();
        let which = match parts[..] {
            [_, sequence, boot] => sequence.parse().ok().map(|sequence| (sequence, boot)),
            _ => None,
        };
        match which {
            Some((sequence, boot)) => {
                let which = Some(Which { sequence, boot: boot.to_owned() });
                Self { path: PathBuf::from(parts[0]), which }
            }
            None => Self { path: PathBuf::from(text), which: None },
        }
    }
}

impl From<DeadDevice> for String {
    fn from(device: DeadDevice) -> Self {
        let path = device.path.to_string_lossy();
        match device.which {
            Some(Which { sequence, boot }) => {
                format!("{path}{SEPARATOR}{sequence}{SEPARATOR}{boot}")
            }
            None => path.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests;

//! Which time of being in the machine, or of being mounted, a disk is in; remembered over restarts
//! of the daemon.
//!
//! What was written to a disk and not flushed is lost if the disk is pulled out, or if its file
//! system is shut down and mounted again. So each such time has a number, which counts as a part of
//! the machine's boot. The number stays while the kernel shows the same disk and the same mount. It
//! is drawn anew when the kernel shows others, or when this node has let go of the disk because it
//! failed. It is kept with the disk in the state directory, so that neither a restart of the daemon
//! counts as a loss of power, nor a loss is forgotten with it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use evenkeel_api::types::DiskKind;
use serde::{Deserialize, Serialize};

use super::probe::{self, DeviceNumber};
use crate::random::random_incarnation;

/// The file systems of which the kernel shows each mount in a directory of its own, named by the
/// device, below `/sys/fs`.
const SHOWN: [&str; 3] = ["ext4", "xfs", "f2fs"];

/// A time of being in the machine, or of being mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mount {
    number: u64,
    /// What the kernel has shown of it. `None`: nobody has looked yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<Shown>,
}

/// What the kernel shows of a disk, as far as it does. It stays as it is until the disk is pulled
/// out, the file system is unmounted or the machine is booted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Shown {
    /// The machine's boot: the other numbers begin anew with it.
    boot: String,
    /// The device, or that of the file system; some file systems have one that is none.
    device: u64,
    /// The disk's node in `/sys`, which is made when it appears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk: Option<u64>,
    /// The kernel's number of the disk; from Linux 5.15 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    /// The file system's node in `/sys`, which is made when it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filesystem: Option<u64>,
}

impl Mount {
    /// That of a disk which is being added: no earlier one's.
    pub(super) fn new() -> Self {
        Self { number: random_incarnation().0, seen: None }
    }

    /// Random, and no other one's; zero of a disk that older software has added, until that mount
    /// is over.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// It is over: what is opened later is of another one.
    pub(super) fn end(&mut self) {
        self.number = random_incarnation().0;
    }

    /// The disk at this path is opened. It is of another one if the kernel shows so, or if it
    /// cannot be known.
    pub(super) fn look(&mut self, path: &Path, kind: DiskKind) {
        self.see(Shown::at(path, kind), kind);
    }

    fn see(&mut self, now: Option<Shown>, kind: DiskKind) {
        let is_same = match (&self.seen, &now) {
            // Software that did not look has added it, or it is being added.
            (None, Some(_)) => true,
            (_, None) => false,
            // With the boot all has changed, and that counts by itself.
            (Some(before), Some(now)) if before.boot != now.boot => true,
            (Some(before), Some(now)) => before == now && now.is_reported(kind),
        };
        if !is_same {
            self.end();
        }
        // What was seen last is compared with what is seen next, whatever was not seen in between.
        self.seen = now.or(self.seen.take());
    }
}

impl Shown {
    /// `None`: it cannot be looked at, or the boot is not known.
    fn at(path: &Path, kind: DiskKind) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let metadata = fs::metadata(path).ok()?;
        let device = match kind {
            DiskKind::Device => metadata.rdev(),
            DiskKind::Directory => metadata.dev(),
        };
        let number = DeviceNumber::of(device);
        Some(Self {
            boot: boot.trim().to_owned(),
            device,
            disk: probe::disk_node(number),
            sequence: probe::disk_sequence(number),
            filesystem: (kind == DiskKind::Directory).then(|| mounted(number)).flatten(),
        })
    }

    /// Whether another disk under this name would be shown. A directory's file system may have none
    /// of all that, and stays mounted while its machine runs; a device is there or not.
    fn is_reported(&self, kind: DiskKind) -> bool {
        kind == DiskKind::Directory || self.disk.is_some() || self.sequence.is_some()
    }
}

/// The node in `/sys` of the file system that is mounted from a device.
fn mounted(device: DeviceNumber) -> Option<u64> {
    let name = probe::kernel_name(device)?;
    let at = |kind| PathBuf::from("/sys/fs").join(kind).join(&name);
    SHOWN.into_iter().find_map(|kind| Some(fs::metadata(at(kind)).ok()?.ino()))
}

#[cfg(test)]
mod tests;

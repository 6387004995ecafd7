//! The files of an attached volume in the runtime directory and in `/dev/evenkeel`.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::dead_device::DeadDevice;
use crate::error::AttachError;
use crate::fuse::mount;

/// The kinds of block device that a volume can be attached as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// A FUSE file with a loop device over it. It ends with the daemon.
    Loop,
    /// A ublk device. It outlives a killed daemon; its users wait for the next one.
    Ublk,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loop => "loop",
            Self::Ublk => "ublk",
        })
    }
}

/// The directories in which an attached volume has its things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Of this node alone: `/run/evenkeel/attach`.
    pub runtime: PathBuf,
    /// Of all nodes on this machine: `/dev/evenkeel`.
    pub devices: PathBuf,
}

impl Place {
    /// In the runtime directory of a node, with the devices in `/dev/evenkeel`.
    #[must_use]
    pub fn new(node_runtime: &Path) -> Self {
        Self { runtime: node_runtime.join("attach"), devices: PathBuf::from("/dev/evenkeel") }
    }

    /// Where the filesystem of this volume is mounted, as the kernel's tables show it: without
    /// symbolic links.
    #[must_use]
    pub fn directory(&self, name: &str) -> PathBuf {
        let resolved = fs::canonicalize(&self.runtime);
        resolved.unwrap_or_else(|_| self.runtime.clone()).join(name)
    }

    /// The file in that filesystem.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        mount::file_in(&self.directory(name))
    }

    /// The stable name of the device.
    #[must_use]
    pub fn link(&self, name: &str) -> PathBuf {
        self.devices.join(name)
    }

    fn record_file(&self, name: &str) -> PathBuf {
        self.runtime.join(format!("{name}.json"))
    }

    /// What has been noted of this volume; `None`: nothing, or nothing that can be understood.
    pub(crate) fn record(&self, name: &str) -> Option<Record> {
        serde_json::from_slice(&fs::read(self.record_file(name)).ok()?).ok()
    }

    pub(crate) fn note(&self, record: &Record) -> io::Result<()> {
        fs::create_dir_all(&self.runtime)?;
        let file = self.record_file(&record.name);
        let new = file.with_extension("json.new");
        fs::write(&new, serde_json::to_vec(record)?)?;
        fs::rename(new, file)
    }

    pub(crate) fn forget(&self, name: &str) -> io::Result<()> {
        remove_if_there(&self.record_file(name))
    }

    /// The devices of this volume that were noted as giving errors. Their file is none of
    /// [`list`]'s.
    pub(crate) fn dead(&self, name: &str) -> Vec<DeadDevice> {
        let read = fs::read(self.dead_file(name)).ok();
        read.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    pub(crate) fn note_dead(&self, name: &str, devices: &[DeadDevice]) -> io::Result<()> {
        let file = self.dead_file(name);
        if devices.is_empty() {
            return remove_if_there(&file);
        }
        fs::create_dir_all(&self.runtime)?;
        let new = file.with_extension("dead.new");
        fs::write(&new, serde_json::to_vec(devices)?)?;
        fs::rename(new, file)
    }

    fn dead_file(&self, name: &str) -> PathBuf {
        self.runtime.join(format!("{name}.dead"))
    }

    /// Points the stable name to the device.
    pub(crate) fn link_to(&self, name: &str, device: &Path) -> io::Result<()> {
        make_readable(&self.devices)?;
        // A name that no volume can have, and not the same for two nodes on one machine.
        let new = self.devices.join(format!(".{name}.{}", std::process::id()));
        remove_if_there(&new)?;
        symlink(device, &new)?;
        fs::rename(new, self.link(name))
    }

    /// The device that the stable name points to.
    pub(crate) fn linked(&self, name: &str) -> Option<PathBuf> {
        fs::read_link(self.link(name)).ok()
    }

    pub(crate) fn unlink(&self, name: &str) -> io::Result<()> {
        remove_if_there(&self.link(name))
    }
}

/// Makes a directory in which others find names, whatever this process's umask is.
fn make_readable(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o755))
}

pub(crate) fn remove_if_there(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What is noted in the runtime directory of a volume that is attached, or was when its daemon
/// was killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The volume's name.
    pub name: String,
    /// The kind of device.
    pub kind: Kind,
    /// The device, for example `/dev/loop3`; `None`: the attaching did not come that far.
    pub device: Option<PathBuf>,
    /// Size in bytes.
    pub size: u64,
    /// Logical block size, in bytes.
    pub block_size: u32,
    /// The process that serves it.
    pub daemon: u32,
    /// When that process began, in clock ticks since the machine did: in a container every daemon
    /// may have the same number.
    pub began: u64,
}

impl Record {
    /// Returns true if this process wrote the record.
    #[must_use]
    pub fn is_own(&self) -> bool {
        (self.daemon, self.began) == (std::process::id(), began())
    }
}

/// When this process began, as in [`Record::began`]; 0 if it can't be known.
pub(crate) fn began() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in parentheses, may have spaces; what follows begins with field 3.
    let field = text.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(22 - 3));
    field.and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// What is noted in this place: what is attached, and what a killed daemon has left.
pub fn list(place: &Place) -> io::Result<Vec<Record>> {
    let entries = match fs::read_dir(&place.runtime) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut records = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".json"));
        records.extend(name.and_then(|name| place.record(name)));
    }
    records.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(records)
}

/// Refuses names that would lead out of the directories, or that hide.
pub(crate) fn check_name(name: &str) -> Result<(), AttachError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let good =
        !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(allowed);
    if good { Ok(()) } else { Err(AttachError::Name(name.to_owned())) }
}

#[cfg(test)]
mod tests;

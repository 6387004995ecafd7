//! Which mounts, processes and other devices use a block device.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::mounts;

/// A use of a block device, or of a partition of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum User {
    /// A filesystem on it is mounted.
    Mount {
        /// The mount point.
        directory: PathBuf,
        /// A process that sees this mount, if it is not in this process's table.
        process: Option<u32>,
    },
    /// It is swap space.
    Swap(PathBuf),
    /// Another block device is built on it (device mapper, md).
    Device(String),
    /// A process has it open.
    Process {
        /// Its process id.
        process: u32,
        /// Its name.
        name: String,
    },
}

impl User {
    /// The same with paths that can be sent as text: others choose where they mount something.
    pub(crate) fn readable(self) -> Self {
        let text = |path: PathBuf| PathBuf::from(path.to_string_lossy().into_owned());
        match self {
            Self::Mount { directory, process } => {
                Self::Mount { directory: text(directory), process }
            }
            Self::Swap(device) => Self::Swap(text(device)),
            user @ (Self::Device(_) | Self::Process { .. }) => user,
        }
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount { directory, process: None } => {
                write!(f, "mounted at {}", directory.display())
            }
            Self::Mount { directory, process: Some(process) } => {
                write!(f, "mounted at {} for process {process}", directory.display())
            }
            Self::Swap(device) => write!(f, "swap space on {}", device.display()),
            Self::Device(name) => write!(f, "part of /dev/{name}"),
            Self::Process { process, name } => write!(f, "open in process {process} ({name})"),
        }
    }
}

/// A block device and its partitions, as they appear in the kernel's tables.
struct Device {
    names: BTreeSet<String>,
    numbers: BTreeSet<String>,
}

/// Everybody who uses the block device `name` (as in `/sys/block`) or a partition of it. This
/// process is left out. Asks tables only, and never the device.
pub fn users(name: &str) -> io::Result<Vec<User>> {
    let device = describe(name);
    let mut users = BTreeSet::new();
    for mount in mounts::own()? {
        if device.has_mount(&mount) {
            users.insert(User::Mount { directory: mount.directory, process: None });
        }
    }
    for swap in swap_devices() {
        if device.has_path(&swap) {
            users.insert(User::Swap(swap));
        }
    }
    for name in &device.names {
        users.extend(holders(name).into_iter().map(User::Device));
    }
    let known = users.iter().any(|user| matches!(user, User::Mount { .. }));
    find_processes(&device, !known, &mut users)?;
    Ok(distinct(users))
}

/// Each mount once: other namespaces may have the same one at the same place.
fn distinct(users: BTreeSet<User>) -> Vec<User> {
    let mut directories = BTreeSet::new();
    let is_new = |user: &User| match user {
        User::Mount { directory, .. } => directories.insert(directory.clone()),
        _ => true,
    };
    users.into_iter().filter(is_new).collect()
}

fn describe(name: &str) -> Device {
    let directory = Path::new("/sys/block").join(name);
    let mut names = BTreeSet::from([name.to_owned()]);
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        if entry.path().join("partition").exists() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    let number = |name: &String| fs::read_to_string(format!("/sys/class/block/{name}/dev")).ok();
    let numbers = names.iter().filter_map(number).map(|text| text.trim().to_owned()).collect();
    Device { names, numbers }
}

impl Device {
    fn has_mount(&self, mount: &mounts::Mount) -> bool {
        // Some filesystems show a number of their own instead of the device's: compare both.
        self.numbers.contains(&mount.device) || self.has_path(&mount.source)
    }

    fn has_path(&self, path: &Path) -> bool {
        let name = path.strip_prefix("/dev").ok().and_then(Path::to_str);
        name.is_some_and(|name| self.names.contains(name))
    }
}

fn swap_devices() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    text.lines().skip(1).filter_map(|line| line.split(' ').next()).map(PathBuf::from).collect()
}

fn holders(name: &str) -> Vec<String> {
    let entries = fs::read_dir(format!("/sys/class/block/{name}/holders"));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Adds the processes that have the device open and, if `mounts` is set, the mounts in other mount
/// namespaces. Processes that end meanwhile, or that may not be looked into, are passed over.
fn find_processes(device: &Device, mounts: bool, users: &mut BTreeSet<User>) -> io::Result<()> {
    let mut namespaces = BTreeSet::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        let Some(process) = number.filter(|number| *number != std::process::id()) else {
            continue;
        };
        if has_open(device, &path.join("fd")) {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            users.insert(User::Process { process, name: name.trim().to_owned() });
        }
        let namespace = fs::read_link(path.join("ns/mnt")).unwrap_or_default();
        if mounts && namespaces.insert(namespace) {
            for mount in mounts::read(&path.join("mountinfo")).unwrap_or_default() {
                if device.has_mount(&mount) {
                    let directory = mount.directory;
                    users.insert(User::Mount { directory, process: Some(process) });
                }
            }
        }
    }
    Ok(())
}

fn has_open(device: &Device, descriptors: &Path) -> bool {
    links_in(descriptors).any(|path| device.has_path(&path))
}

/// What the symbolic links in a directory point to.
fn links_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok())
}

/// The processes that work in one of these directories, or have files open below it. They keep a
/// filesystem that is mounted there in use after it was unmounted.
pub fn processes_below(directories: &[PathBuf]) -> io::Result<Vec<User>> {
    let below = |path: &PathBuf| directories.iter().any(|directory| path.starts_with(directory));
    let mut users = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let Some(process) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        let own = ["cwd", "root", "exe"].map(|link| fs::read_link(path.join(link)));
        if own.iter().flatten().any(below) || links_in(&path.join("fd")).any(|path| below(&path)) {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            users.push(User::Process { process, name: name.trim().to_owned() });
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests;

//! What a disk is, and whether somebody else uses it.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use evenkeel_format::{SUPERBLOCK_LENGTH, SuperblockBytes};

/// The number by which the kernel has a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceNumber {
    /// Which driver has it.
    pub major: u32,
    /// Which of that driver's it is.
    pub minor: u32,
}

impl DeviceNumber {
    /// That which metadata have as one number.
    pub fn of(device: u64) -> Self {
        Self { major: rustix::fs::major(device), minor: rustix::fs::minor(device) }
    }

    /// As the kernel writes it.
    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The number of a block device; `None` if the path is no block device.
///
/// # Errors
/// If the path cannot be looked at.
pub fn device_number(path: &Path) -> io::Result<Option<DeviceNumber>> {
    let metadata = fs::metadata(path)?;
    Ok(metadata.file_type().is_block_device().then(|| DeviceNumber::of(metadata.rdev())))
}

/// Who uses a block device or one of its partitions: a mount point, swap, or another device on
/// top. `None`: nobody, as far as can be told without opening it.
///
/// # Errors
/// If `/proc` or `/sys` cannot be read.
pub fn user_of(device: DeviceNumber) -> io::Result<Option<String>> {
    let mut devices = vec![device];
    devices.extend(partitions(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    for &device in &devices {
        if let Some(place) = mount_point(&mounts, device) {
            return Ok(Some(format!("it is mounted at {place}")));
        }
        if is_swap(device)? {
            return Ok(Some("it is used as swap".into()));
        }
        if let Some(holder) = holder(device) {
            return Ok(Some(format!("it is part of /dev/{holder}")));
        }
    }
    Ok(None)
}

fn sys(device: DeviceNumber) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{device}"))
}

/// Whether the kernel refuses every write to a block device.
pub fn is_read_only(device: DeviceNumber) -> bool {
    fs::read_to_string(sys(device).join("ro")).is_ok_and(|text| text.trim() == "1")
}

/// The number that the kernel gave to a disk, or that of a partition, when it appeared; no other
/// disk has had it since the boot. `None`: a kernel before 5.15.
pub fn disk_sequence(device: DeviceNumber) -> Option<u64> {
    let of_disk = fs::read_to_string(sys(device).join("diskseq"));
    // What /sys names by its number is a link to the partition in its disk's directory.
    let of_parent = || fs::read_to_string(sys(device).canonicalize()?.join("../diskseq"));
    of_disk.or_else(|_| of_parent()).ok()?.trim().parse().ok()
}

/// The number of a disk's node in `/sys`, of a partition that of its disk; no other disk that
/// appears has it. `None`: it is not shown.
pub fn disk_node(device: DeviceNumber) -> Option<u64> {
    Some(fs::metadata(disk_directory(device)?).ok()?.ino())
}

/// What the kernel calls a block device.
pub fn kernel_name(device: DeviceNumber) -> Option<OsString> {
    Some(sys(device).canonicalize().ok()?.file_name()?.to_owned())
}

/// The directory of a disk in `/sys`; of a partition, that of its disk.
fn disk_directory(device: DeviceNumber) -> Option<PathBuf> {
    let own = sys(device).canonicalize().ok()?;
    match own.join("partition").exists() {
        true => own.parent().map(Path::to_owned),
        false => Some(own),
    }
}

/// What the maker of a device, or the device mapper, names it by: its WWN, or a serial number; of a
/// partition, that of its disk. `None`: nothing does.
pub fn serial(device: DeviceNumber) -> Option<String> {
    let disk = disk_directory(device)?;
    let names = ["wwid", "device/wwid", "serial", "device/serial", "dm/uuid"];
    let mut found = names.iter().filter_map(|name| fs::read_to_string(disk.join(name)).ok());
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    found.find_map(|text| Some(words(text)).filter(|text| !text.is_empty()))
}

fn partitions(device: DeviceNumber) -> Vec<DeviceNumber> {
    let entries = fs::read_dir(sys(device)).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").exists());
    partitions.filter_map(|entry| read_number(&entry.path().join("dev"))).collect()
}

fn read_number(path: &Path) -> Option<DeviceNumber> {
    DeviceNumber::parse(fs::read_to_string(path).ok()?.trim())
}

/// The first mount point of a device in the text of `/proc/self/mountinfo`.
#[must_use]
pub fn mount_point(mountinfo: &str, device: DeviceNumber) -> Option<String> {
    let wanted = device.to_string();
    let fields = mountinfo.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut matching = fields.filter(|f| f.get(2).is_some_and(|d| **d == *wanted));
    matching.find_map(|f| f.get(4).map(|place| place.replace("\\040", " ")))
}

fn is_swap(device: DeviceNumber) -> io::Result<bool> {
    let swaps = match fs::read_to_string("/proc/swaps") {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        swaps => swaps?,
    };
    let paths = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    Ok(paths.map(Path::new).any(|p| device_number(p).is_ok_and(|d| d == Some(device))))
}

fn holder(device: DeviceNumber) -> Option<String> {
    let mut entries = fs::read_dir(sys(device).join("holders")).ok()?;
    Some(entries.next()?.ok()?.file_name().to_string_lossy().into_owned())
}

/// The smallest unit of direct I/O on a file that was opened with O_DIRECT and has at least 4 KiB:
/// 512 or 4096.
///
/// # Errors
/// If not even 4 KiB can be read.
pub fn direct_block_size(file: &File) -> io::Result<u32> {
    let mut buffer = Box::new(SuperblockBytes([0; SUPERBLOCK_LENGTH]));
    match file.read_exact_at(&mut buffer.0[512..1024], 512) {
        Ok(()) => Ok(512),
        Err(_) => file.read_exact_at(&mut buffer.0[..4096], 0).map(|()| 4096),
    }
}

/// Length of a file or block device in bytes.
///
/// # Errors
/// If it cannot be told.
pub fn length(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

#[cfg(test)]
mod tests;

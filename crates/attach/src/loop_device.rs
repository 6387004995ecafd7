//! Loop devices: block devices over a file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, makedev, mknodat};

/// How often another free loop device is tried when someone else took the one before.
const ATTEMPTS: usize = 64;
/// Major number of loop devices.
const MAJOR: u32 = 7;

const LOOP_CLR_FD: libc::c_ulong = 0x4C01;
const LOOP_SET_CAPACITY: libc::c_ulong = 0x4C07;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const BLKGETDISKSEQ: libc::c_ulong = 0x8008_1280;

const LO_FLAGS_PARTSCAN: u32 = 8;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64` of the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInformation {
    device: u64,
    inode: u64,
    raw_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    initial: [u64; 2],
}

/// `struct loop_config` of the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopConfiguration {
    file: u32,
    block_size: u32,
    information: LoopInformation,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInformation>() == 232);
const _: () = assert!(size_of::<LoopConfiguration>() == 304);

/// Makes a loop device over `file` that reads and writes past the page cache, and returns its
/// number.
///
/// The kernel reads the file's attributes, size and partition table meanwhile: the thread that
/// calls this must not be the one that serves the file.
pub fn configure(file: &Path, block_size: u32) -> io::Result<u32> {
    let backing = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT | libc::O_CLOEXEC)
        .open(file)?;
    let control = open_device(Path::new("/dev/loop-control"))?;
    let configuration = configuration(&backing, file, block_size);
    for _ in 0..ATTEMPTS {
        // SAFETY: this ioctl takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        let number = u32::try_from(number).map_err(|_| io::Error::last_os_error())?;
        let device = open_or_make(number)?;
        // SAFETY: the ioctl reads a `struct loop_config`, which the argument is.
        let result =
            unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const configuration) };
        if result == 0 {
            return Ok(number);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) {
            return Err(error);
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "other programs take every free loop device"))
}

fn configuration(backing: &File, file: &Path, block_size: u32) -> LoopConfiguration {
    let mut file_name = [0; 64];
    let path = file.as_os_str().as_bytes();
    let length = path.len().min(63);
    file_name[..length].copy_from_slice(&path[..length]);
    let fd: RawFd = backing.as_raw_fd();
    LoopConfiguration {
        file: fd.cast_unsigned(),
        block_size,
        information: LoopInformation {
            device: 0,
            inode: 0,
            raw_device: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_DIRECT_IO | LO_FLAGS_PARTSCAN,
            file_name,
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            initial: [0; 2],
        },
        reserved: [0; 8],
    }
}

/// Opens a loop device, and makes its node first where no device manager does (in a container).
fn open_or_make(number: u32) -> io::Result<File> {
    let path = device_path(number);
    match open_device(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let device = makedev(MAJOR, number);
            let mode = Mode::RUSR | Mode::WUSR;
            match mknodat(rustix::fs::CWD, &path, FileType::BlockDevice, mode, device) {
                Err(error) if error != rustix::io::Errno::EXIST => Err(error.into()),
                _ => open_device(&path),
            }
        }
        other => other,
    }
}

fn open_device(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)
}

/// Takes the file away from an open loop device: at once if nobody else has it open, otherwise when
/// the last one closes it.
pub fn clear_open(device: &File) -> io::Result<()> {
    // SAFETY: this ioctl takes no argument.
    if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    // Nothing to take away: someone else was faster.
    if error.raw_os_error() == Some(libc::ENXIO) { Ok(()) } else { Err(error) }
}

/// Lets the device have the size that its file has now. Who has it open sees that at once.
pub fn read_size_again(device: &Path) -> io::Result<()> {
    let device = open_device(device)?;
    // SAFETY: this ioctl takes no argument.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_CAPACITY) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The path of a loop device.
#[must_use]
pub fn device_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// The file behind a loop device, as the kernel shows its path; `None`: the device is free.
#[must_use]
pub fn backing_file(number: u32) -> Option<PathBuf> {
    let text = fs::read(format!("/sys/block/loop{number}/loop/backing_file")).ok()?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(text)))
}

/// A loop device as it was when it had a certain file. Its number alone may stand for another file
/// by the next moment.
#[derive(Debug)]
pub struct Bound {
    number: u32,
    /// What the kernel counts whenever a disk gets another medium; `None`: before Linux 5.15.
    sequence: Option<u64>,
}

impl Bound {
    fn over(number: u32, file: &Path) -> Option<Self> {
        // In this order: of a device that changes in between, the older count is remembered.
        let sequence = shown_sequence(number);
        let is_over = backing_file(number).is_some_and(|backing| backing == file);
        is_over.then_some(Self { number, sequence })
    }

    /// The path of the device.
    pub fn path(&self) -> PathBuf {
        device_path(self.number)
    }

    /// What the kernel had counted of the device then. `None`: before Linux 5.15.
    pub const fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Whether the device still has the file.
    pub fn has_file(&self) -> bool {
        backing_file(self.number).is_some() && shown_sequence(self.number) == self.sequence
    }

    /// Takes the file away: at once if nobody has the device open, otherwise when the last one
    /// closes it. A device that has got another file since is left alone.
    pub fn clear(&self) -> io::Result<()> {
        let device = open_device(&self.path())?;
        // Held open it does not get another file.
        match self.sequence.is_some() && sequence(&device)? != self.sequence {
            true => Ok(()),
            false => clear_open(&device),
        }
    }
}

/// What the kernel counts whenever a disk gets another medium, of a loop device. `None`: it does
/// not count, before Linux 5.15.
pub fn shown_sequence(number: u32) -> Option<u64> {
    shown_sequence_of(&format!("loop{number}"))
}

/// The same of any block device, by its name in the kernel's tables.
pub fn shown_sequence_of(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/sys/block/{name}/diskseq")).ok()?.trim().parse().ok()
}

fn sequence(device: &File) -> io::Result<Option<u64>> {
    let mut sequence = 0u64;
    // SAFETY: the ioctl writes a `u64`, which the argument is.
    match unsafe { libc::ioctl(device.as_raw_fd(), BLKGETDISKSEQ, &raw mut sequence) } {
        0 => Ok(Some(sequence)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The loop devices over `file`.
pub fn over(file: &Path) -> io::Result<Vec<Bound>> {
    let mut bound = Vec::new();
    for entry in fs::read_dir("/sys/block")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("loop")?.parse().ok());
        bound.extend(number.and_then(|number| Bound::over(number, file)));
    }
    bound.sort_unstable_by_key(|device| device.number);
    Ok(bound)
}

/// The number in the path of a loop device, if it is one.
#[must_use]
pub fn number_of(device: &Path) -> Option<u32> {
    device.to_str()?.strip_prefix("/dev/loop")?.parse().ok()
}

/// Whether the path is that of a block device.
#[must_use]
pub fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

#[cfg(test)]
mod tests;

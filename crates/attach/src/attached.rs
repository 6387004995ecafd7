//! Attaching a volume, and detaching it again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_engine::FrontendMaker;

use crate::fuse::{self, FuseFrontend};
use crate::in_use::{self, User};
use crate::loop_device;
use crate::place::{Kind, Place, Record};
use crate::stale::{self, CleanedUp, Filesystems};

/// How often a device is tried that a process has open.
const HOLD_ATTEMPTS: u32 = 5;
/// The pause between two such attempts.
const HOLD_PAUSE: Duration = Duration::from_millis(100);

/// What is to be attached.
#[derive(Debug, Clone)]
pub struct Options {
    /// The volume's name: the name of the device. Letters, digits, `.`, `_` and `-`, not beginning
    /// with a dot, at most 64.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Logical block size in bytes: 512 or 4096.
    pub block_size: u32,
}

/// A volume that is attached as a block device.
#[derive(Debug)]
pub struct Attached {
    /// How.
    pub kind: Kind,
    /// The device, for example `/dev/loop3`. It may be another one next time.
    pub device: PathBuf,
    /// The stable name, which is a symbolic link to it: `/dev/evenkeel/NAME`.
    pub link: PathBuf,
    /// What an earlier daemon had left under this name.
    pub cleaned_up: CleanedUp,
}

/// Why a volume can't be attached or detached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The name can't be that of a file.
    #[error(
        "'{0}' can't be the name of a device: use letters, digits, '.', '_' and '-', at most 64, and no dot at the beginning"
    )]
    Name(String),
    /// The size or the block size can't be that of a device.
    #[error(
        "{size} bytes in blocks of {block_size} can't be a block device: blocks have 512 or 4096 bytes, and the size is a multiple"
    )]
    Geometry {
        /// Bytes.
        size: u64,
        /// Bytes.
        block_size: u32,
    },
    /// Neither ublk nor FUSE.
    #[error(
        "block devices can't be made on this machine ({0} is missing): use an NBD export, or in a container pass the device in"
    )]
    Unavailable(&'static str),
    /// This process has it attached already.
    #[error("the volume is attached already, at {}", .0.display())]
    Already(PathBuf),
    /// The stable name belongs to something else.
    #[error(
        "{} exists and points to {}, which this node does not serve: detach it where it is served, or remove it", link.display(), device.display()
    )]
    NameTaken {
        /// The stable name.
        link: PathBuf,
        /// Where it points to.
        device: PathBuf,
    },
    /// Nothing is attached under this name.
    #[error("no volume '{0}' is attached on this node")]
    NotAttached(String),
    /// The device is in use.
    #[error("{} is in use ({}): unmount or close it first", device.display(), join(users))]
    InUse {
        /// The device.
        device: PathBuf,
        /// By whom, as far as can be seen from here.
        users: Vec<User>,
    },
    /// What was written through the page cache could not be made durable.
    #[error(
        "data written to {} could not be made durable ({error}): see the volume's status", device.display()
    )]
    NotDurable {
        /// The device.
        device: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The front end could not be added to the volume.
    #[error("the volume can't be served: {0}")]
    Serve(String),
    /// The system refused something.
    #[error("{action}: {error}")]
    System {
        /// What was tried.
        action: String,
        /// Why it failed.
        error: io::Error,
    },
}

impl AttachError {
    pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |error| Self::System { action, error }
    }
}

fn join(users: &[User]) -> String {
    if users.is_empty() {
        return "by whom can't be seen from here".to_owned();
    }
    users.iter().map(User::to_string).collect::<Vec<_>>().join(", ")
}

/// Attaches a volume as a block device.
///
/// `serve` must add the front end to the volume in the engine, and return when the engine has
/// answered. Afterwards the kernel reads the new device, so the volume must be able to answer.
/// What a killed daemon has left under the same name is cleaned up first, but a filesystem on the
/// old device stays mounted, and gives errors, until it is unmounted.
///
/// The front end ends by itself when the volume is detached.
pub fn attach(
    place: &Place,
    options: &Options,
    serve: impl FnOnce(FrontendMaker) -> Result<(), String>,
) -> Result<Attached, AttachError> {
    check(options)?;
    if !fuse::mount::is_available() {
        return Err(AttachError::Unavailable("/dev/fuse"));
    }
    let name = &options.name;
    if let Some(record) = place.record(name)
        && record.daemon == std::process::id()
    {
        return Err(AttachError::Already(record.device.unwrap_or_else(|| place.link(name))));
    }
    let cleaned_up = stale::clean_up_stale(place, name, Filesystems::Leave)?;
    if let Some(device) = place.linked(name) {
        return Err(AttachError::NameTaken { link: place.link(name), device });
    }
    let device = attach_loop(place, options, serve).inspect_err(|_| {
        if let Err(error) = stale::clean_up_stale(place, name, Filesystems::Leave) {
            tracing::warn!(volume = name, %error, "could not take back a failed attach");
        }
    })?;
    Ok(Attached { kind: Kind::Loop, device, link: place.link(name), cleaned_up })
}

fn check(options: &Options) -> Result<(), AttachError> {
    let Options { name, size, block_size } = options;
    check_name(name)?;
    let good = matches!(block_size, 512 | 4096)
        && *size > 0
        && size.is_multiple_of(u64::from(*block_size))
        && i64::try_from(*size).is_ok();
    if good { Ok(()) } else { Err(AttachError::Geometry { size: *size, block_size: *block_size }) }
}

/// Refuses names that would lead out of the directories, or that hide.
pub(crate) fn check_name(name: &str) -> Result<(), AttachError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let good =
        !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(allowed);
    if good { Ok(()) } else { Err(AttachError::Name(name.to_owned())) }
}

fn attach_loop(
    place: &Place,
    options: &Options,
    serve: impl FnOnce(FrontendMaker) -> Result<(), String>,
) -> Result<PathBuf, AttachError> {
    let Options { name, size, block_size } = options.clone();
    let directory = place.directory(&name);
    let mut record = Record {
        name: name.clone(),
        kind: Kind::Loop,
        device: None,
        size,
        block_size,
        daemon: std::process::id(),
    };
    let note = || AttachError::system(format!("can't write in {}", place.runtime.display()));
    place.note(&record).map_err(note())?;
    let connection = fuse::mount::mount(&name, &directory).map_err(AttachError::system(
        format!("can't mount a FUSE filesystem at {}", directory.display()),
    ))?;
    let connection = OwnedFd::from(connection);
    serve(Box::new(move || Box::new(FuseFrontend::new(connection, size, block_size))))
        .map_err(AttachError::Serve)?;
    let number = loop_device::configure(&place.file(&name), block_size)
        .map_err(AttachError::system("can't make a loop device"))?;
    let device = loop_device::device_path(number);
    record.device = Some(device.clone());
    place.note(&record).map_err(note())?;
    let link = place.link(&name);
    place
        .link_to(&name, &device)
        .map_err(AttachError::system(format!("can't make {}", link.display())))?;
    Ok(device)
}

/// Detaches a volume. Refused while its device is mounted or open anywhere: the error says where.
///
/// What was written through the page cache is made durable first. A device that must go in spite
/// of its users is taken away by [`clean_up_stale`](crate::clean_up_stale).
pub fn detach(place: &Place, name: &str) -> Result<(), AttachError> {
    check_name(name)?;
    let record = place.record(name).filter(|record| record.daemon == std::process::id());
    let Some(device) = record.and_then(|record| record.device) else {
        return Err(AttachError::NotAttached(name.to_owned()));
    };
    // Whoever wants to mount the device from here on is refused by the kernel.
    let held = hold(&device)?;
    held.sync_all().map_err(|error| AttachError::NotDurable { device: device.clone(), error })?;
    if place.linked(name).as_ref() == Some(&device) {
        let link = place.link(name);
        place
            .unlink(name)
            .map_err(AttachError::system(format!("can't remove {}", link.display())))?;
    }
    loop_device::clear_open(&held)
        .map_err(AttachError::system(format!("can't free {}", device.display())))?;
    drop(held);
    let directory = place.directory(name);
    fuse::mount::unmount(&directory)
        .map_err(AttachError::system(format!("can't unmount {}", directory.display())))?;
    place.forget(name).map_err(AttachError::system("can't remove the note of the attached volume"))
}

/// Opens the device so that nobody else can use it, or says who does. A process that has it open
/// for a moment only, as device managers have, is waited for.
fn hold(device: &Path) -> Result<File, AttachError> {
    for _ in 0..HOLD_ATTEMPTS {
        match try_hold(device) {
            Err(AttachError::InUse { users, .. })
                if users.iter().all(|user| matches!(user, User::Process { .. })) =>
            {
                std::thread::sleep(HOLD_PAUSE);
            }
            other => return other,
        }
    }
    try_hold(device)
}

fn try_hold(device: &Path) -> Result<File, AttachError> {
    let name = device.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL | libc::O_CLOEXEC)
        .open(device);
    let busy = |error: &io::Error| error.raw_os_error() == Some(libc::EBUSY);
    if let Err(error) = opened.as_ref()
        && !busy(error)
    {
        let action = format!("can't open {}", device.display());
        return Err(opened.map_err(AttachError::system(action)).unwrap_err());
    }
    let users = in_use::users(name).map_err(AttachError::system("can't look for users"))?;
    match opened {
        Ok(file) if users.is_empty() => Ok(file),
        _ => Err(AttachError::InUse { device: device.to_owned(), users }),
    }
}

#[cfg(test)]
mod tests;

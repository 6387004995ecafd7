//! Attaching a volume, and detaching it again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_engine::FrontendMaker;

use crate::dead;
use crate::device_calls::DeviceCall;
use crate::error::AttachError;
use crate::fuse;
use crate::helper;
use crate::place::{self, Kind, Place, Record, check_name};
use crate::stale::{self, CleanedUp, Filesystems};
use crate::ublk::control::Control;

mod with_loop;
mod with_ublk;

/// How to attach a volume as a block device.
#[derive(Debug, Clone)]
pub struct Options {
    /// The volume's name: the name of the device. Letters, digits, `.`, `_` and `-`, not beginning
    /// with a dot, at most 64.
    pub name: String,
    /// Size in bytes; shared, because the volume may [`grow`].
    pub size: Arc<AtomicU64>,
    /// Logical block size in bytes: 512 or 4096.
    pub block_size: u32,
    /// The kind of device; `None`: the best one that this machine offers.
    pub kind: Option<Kind>,
    /// Whether a device that a killed daemon has left may be taken over, with the requests that it
    /// had not answered. Only if the volume was attached nowhere else since: what its users have
    /// in memory must still be true.
    pub resume: bool,
}

impl Options {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }
}

/// A volume that is attached as a block device.
#[derive(Debug)]
pub struct Attached {
    /// The kind of device.
    pub kind: Kind,
    /// The device, for example `/dev/loop3`. It may be another one next time.
    pub device: PathBuf,
    /// The stable name, which is a symbolic link to it: `/dev/evenkeel/NAME`.
    pub link: PathBuf,
    /// What an earlier daemon had left under this name, if it was not taken over.
    pub cleaned_up: CleanedUp,
}

/// Attaches a volume as a block device.
///
/// `serve` must add the front end to the volume in the engine, and return when the engine has
/// answered. Afterwards the kernel reads the new device, so the volume must be able to answer.
///
/// What a killed daemon has left under the same name is taken over if it is a ublk device and
/// [`Options::resume`] allows it, and cleaned up otherwise: a filesystem on the old device stays
/// mounted, and gives errors, until it is unmounted. Until then this is refused, by
/// [`AttachError::InUse`].
///
/// The front end ends by itself when the volume is detached. If on the contrary the volume ends
/// first (another primary took over), call [`clean_up_stale`](crate::clean_up_stale), so that the
/// users of the device get errors and don't wait.
pub fn attach(
    place: &Place,
    options: &Options,
    serve: impl FnOnce(FrontendMaker) -> Result<(), String>,
) -> Result<Attached, AttachError> {
    check(options)?;
    let name = &options.name;
    let record = place.record(name);
    if let Some(record) = &record
        && record.is_own()
    {
        let device = record.device.clone().unwrap_or_else(|| place.link(name));
        return Err(AttachError::Already(device));
    }
    let mut control = Control::open().filter(|_| options.kind != Some(Kind::Loop));
    if let (Some(control), Some(record)) = (&mut control, &record)
        && options.resume
        && let Some(number) = with_ublk::resumable(control, options, record)?
    {
        let device = with_ublk::resume(control, place, record, number, serve)?;
        return Ok(attached(place, name, Kind::Ublk, device, CleanedUp::default()));
    }
    let cleaned_up = stale::clean_up_stale(place, name, Filesystems::Leave)?;
    dead::refuse(place, name)?;
    if let Some(device) = place.linked(name) {
        return Err(AttachError::NameTaken { link: place.link(name), device });
    }
    let (kind, device) = match control {
        Some(mut control) => (Kind::Ublk, with_ublk::attach(&mut control, place, options, serve)),
        None if options.kind == Some(Kind::Ublk) => {
            return Err(AttachError::Unavailable("ublk in the kernel, Linux 6.5 or later"));
        }
        None if !fuse::mount::is_available() => return Err(AttachError::Unavailable("/dev/fuse")),
        None => (Kind::Loop, with_loop::attach(place, options, serve)),
    };
    let device = device.inspect_err(|_| {
        if let Err(error) = stale::clean_up_stale(place, name, Filesystems::Leave) {
            tracing::warn!(volume = name, %error, "could not take back a failed attach");
        }
    })?;
    Ok(attached(place, name, kind, device, cleaned_up))
}

/// Refuses what [`attach`] would refuse whatever becomes of the volume: a name that belongs to
/// something else, a device of an earlier attachment that gives errors and is used still, and a
/// machine that can make no block device.
///
/// # Errors
/// As of [`attach`].
pub fn refuse(place: &Place, name: &str) -> Result<(), AttachError> {
    check_name(name)?;
    if let Some(device) = place.linked(name)
        && !stale::would_unlink(place, name, &device)?
    {
        return Err(AttachError::NameTaken { link: place.link(name), device });
    }
    if Control::open().is_none() && !fuse::mount::is_available() {
        return Err(AttachError::Unavailable("/dev/fuse"));
    }
    dead::refuse(place, name)
}

fn attached(
    place: &Place,
    name: &str,
    kind: Kind,
    device: PathBuf,
    cleaned_up: CleanedUp,
) -> Attached {
    Attached { kind, device, link: place.link(name), cleaned_up }
}

/// What is noted of a volume that is being attached.
fn record_of(options: &Options, kind: Kind) -> Record {
    Record {
        name: options.name.clone(),
        kind,
        device: None,
        size: options.size(),
        block_size: options.block_size,
        daemon: std::process::id(),
        began: place::began(),
    }
}

/// Writes the note of an attached volume.
fn note(place: &Place, record: &Record) -> Result<(), AttachError> {
    let action = format!("can't write in {}", place.runtime.display());
    place.note(record).map_err(AttachError::system(action))
}

/// Notes the device, and points the stable name to it.
fn publish(place: &Place, record: &mut Record, device: &Path) -> Result<(), AttachError> {
    record.device = Some(device.to_owned());
    note(place, record)?;
    let action = format!("can't make {}", place.link(&record.name).display());
    place.link_to(&record.name, device).map_err(AttachError::system(action))
}

fn check(options: &Options) -> Result<(), AttachError> {
    let Options { name, block_size, .. } = options;
    let size = options.size();
    check_name(name)?;
    let good = matches!(block_size, 512 | 4096)
        && size > 0
        && size.is_multiple_of(u64::from(*block_size))
        && i64::try_from(size).is_ok();
    if good { Ok(()) } else { Err(AttachError::Geometry { size, block_size: *block_size }) }
}

/// Detaches a volume. Refused while its device is mounted or open anywhere: the error says where.
///
/// What was written through the page cache is made durable first. A device that must go in spite
/// of its users is taken away by [`clean_up_stale`](crate::clean_up_stale).
pub fn detach(place: &Place, name: &str) -> Result<(), AttachError> {
    let (record, device) = own(place, name)?;
    let (link, file) = (place.link(name), place.file(name));
    helper::ask(&DeviceCall::Release { device, link, kind: record.kind, file })?;
    if record.kind == Kind::Loop {
        with_loop::unmount(place, name)?;
    }
    place.forget(name).map_err(AttachError::system("can't remove the note of the attached volume"))
}

/// Shows on the device of an attached volume that it has grown to [`Options::size`], also to those
/// who use it.
///
/// A ublk device keeps its size as long as it is attached (kernels before 6.16 know no other way):
/// [`AttachError::KeepsSize`].
pub fn grow(place: &Place, name: &str, size: u64) -> Result<(), AttachError> {
    let (mut record, device) = own(place, name)?;
    match record.kind {
        Kind::Loop => {
            helper::ask(&DeviceCall::GrowLoop { file: place.file(name), size, device })?;
        }
        Kind::Ublk => return Err(AttachError::KeepsSize(device)),
    }
    record.size = size;
    note(place, &record)
}

/// What this process has noted of an attached volume, and its device.
fn own(place: &Place, name: &str) -> Result<(Record, PathBuf), AttachError> {
    check_name(name)?;
    let record = place.record(name).filter(Record::is_own);
    let found = record.and_then(|record| record.device.clone().map(|device| (record, device)));
    found.ok_or_else(|| AttachError::NotAttached(name.to_owned()))
}

#[cfg(test)]
mod tests;

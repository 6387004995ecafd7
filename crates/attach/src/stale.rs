//! Cleaning up after a daemon that was killed.
//!
//! Of a FUSE file the kernel ended the connection when the daemon died: every request gets an
//! error, nothing hangs. What remains are the mount, the loop device over the file in it, and
//! perhaps a filesystem that is mounted on the loop device and of which every request fails.
//!
//! A ublk device remains with its requests waiting for another daemon. If none is to come, it is
//! stopped here, and they get errors.

use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

use crate::dead::{self, StillUsed, mounted_here, users_of};
use crate::dead_device::DeadDevice;
use crate::error::AttachError;
use crate::fuse::mount;
use crate::hold::while_opened;
use crate::in_use::User;
use crate::loop_device;
use crate::place::{Kind, Place, Record, check_name};
use crate::ublk::control::{self, Control};

/// What to do with filesystems on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filesystems {
    /// They stay mounted and give errors, so that no program writes to the directory underneath.
    /// An XFS filesystem can't be mounted again beside its dead self.
    Leave,
    /// They are unmounted; programs that have files open keep them, with errors.
    Unmount,
}

/// What [`clean_up_stale`] removed and what it had to leave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CleanedUp {
    /// The devices that were taken away from the volume.
    pub devices: Vec<PathBuf>,
    /// The directories at which filesystems on them were unmounted.
    pub unmounted: Vec<PathBuf>,
    /// The devices that give errors and go when the last user has closed them.
    pub still_used: Vec<StillUsed>,
}

/// Takes away what is left of an attached volume that nobody serves any more, or, by force, of one
/// that is served: all requests to it fail from then on. Nothing left is not an error.
///
/// Never waits for the volume: the connection to it is ended first.
pub fn clean_up_stale(
    place: &Place,
    name: &str,
    filesystems: Filesystems,
) -> Result<CleanedUp, AttachError> {
    check_name(name)?;
    let mut cleaned_up = CleanedUp::default();
    if let Some(record) = place.record(name)
        && record.kind == Kind::Ublk
        && let Some(device) = record.device
    {
        take_ublk(&device, record.daemon, filesystems, &mut cleaned_up)?;
    }
    take_loops(place, name, filesystems, &mut cleaned_up)?;
    unlink(place, name, &cleaned_up.devices)?;
    dead::note(place, name, &cleaned_up.still_used)?;
    place
        .forget(name)
        .map_err(AttachError::system("can't remove the note of the attached volume"))?;
    Ok(cleaned_up)
}

/// Refuses what would stop a ublk device of an earlier daemon that somebody uses: its requests wait
/// for another daemon, and would get errors.
///
/// # Errors
/// [`AttachError::InUse`], or if the kernel does not say who uses it.
pub fn refuse_waiting(place: &Place, name: &str) -> Result<(), AttachError> {
    check_name(name)?;
    while_opened(|| match place.record(name) {
        Some(record) if record.kind == Kind::Ublk && !record.is_own() => refuse_used(&record),
        _ => Ok(()),
    })
}

fn refuse_used(record: &Record) -> Result<(), AttachError> {
    let (Some(device), Some(mut control)) = (&record.device, Control::open()) else {
        return Ok(());
    };
    if !is_left(&mut control, device, record.daemon)? {
        return Ok(());
    }
    match users_of(device)? {
        users if users.is_empty() => Ok(()),
        users => Err(AttachError::InUse { device: device.clone(), users }),
    }
}

/// Whether a ublk device still is the one that this daemon served.
fn is_left(control: &mut Control, device: &Path, daemon: u32) -> Result<bool, AttachError> {
    let Some(number) = control::number_of(device) else { return Ok(false) };
    let action = format!("can't look at {}", device.display());
    let found = control.device(number).map_err(AttachError::system(action))?;
    Ok(found.is_some_and(|found| found.server == daemon))
}

/// Takes away the mount and the loop devices over the file in it.
fn take_loops(
    place: &Place,
    name: &str,
    filesystems: Filesystems,
    cleaned_up: &mut CleanedUp,
) -> Result<(), AttachError> {
    let directory = place.directory(name);
    let devices = loop_device::over(&place.file(name))
        .map_err(AttachError::system("can't list the loop devices"))?;
    // Whoever waits for the volume gets an error now; only then are the devices touched.
    mount::unmount(&directory)
        .map_err(AttachError::system(format!("can't unmount {}", directory.display())))?;
    for bound in devices {
        let device = bound.path();
        let users = users_of(&device)?;
        if filesystems == Filesystems::Unmount {
            cleaned_up.unmounted.extend(unmount_all(&users));
        }
        bound.clear().map_err(AttachError::system(format!("can't free {}", device.display())))?;
        if bound.has_file() {
            cleaned_up.note_users(DeadDevice::of(&bound), users);
        }
        cleaned_up.devices.push(device);
    }
    Ok(())
}

/// Takes away a ublk device, if it still is the one that this daemon served.
fn take_ublk(
    device: &Path,
    daemon: u32,
    filesystems: Filesystems,
    cleaned_up: &mut CleanedUp,
) -> Result<(), AttachError> {
    let (Some(number), Some(mut control)) = (control::number_of(device), Control::open()) else {
        return Ok(());
    };
    if !is_left(&mut control, device, daemon)? {
        return Ok(());
    }
    let action = || format!("can't remove {}", device.display());
    // Before it is stopped: the kernel shows neither partitions nor which one it was afterwards.
    let (users, dead) = (users_of(device)?, DeadDevice::now(device));
    control.stop(number).map_err(AttachError::system(action()))?;
    if filesystems == Filesystems::Unmount {
        cleaned_up.unmounted.extend(unmount_all(&users));
    }
    control.delete(number).map_err(AttachError::system(action()))?;
    if !users.is_empty() {
        cleaned_up.note_users(dead, users);
    }
    cleaned_up.devices.push(device.to_owned());
    Ok(())
}

impl CleanedUp {
    /// Notes who still uses a device: who used it, without the mounts that are gone.
    fn note_users(&mut self, device: DeadDevice, mut users: Vec<User>) {
        users.retain(|user| mounted_here(user).is_none_or(|d| !self.unmounted.contains(d)));
        self.still_used.push(StillUsed { device, users });
    }
}

/// Removes the stable name if it points to one of these devices, or to a loop device without a
/// file.
fn unlink(place: &Place, name: &str, devices: &[PathBuf]) -> Result<(), AttachError> {
    let Some(target) = place.linked(name) else { return Ok(()) };
    if is_free(&target) || devices.contains(&target) {
        let link = place.link(name);
        place
            .unlink(name)
            .map_err(AttachError::system(format!("can't remove {}", link.display())))?;
    }
    Ok(())
}

/// Whether nothing is behind a device's name.
fn is_free(target: &Path) -> bool {
    match loop_device::number_of(target) {
        Some(number) => loop_device::backing_file(number).is_none(),
        None => !loop_device::is_block_device(target),
    }
}

/// Whether [`clean_up_stale`] would remove the stable name, which points to `target`, or leave it
/// to others.
pub(crate) fn would_unlink(place: &Place, name: &str, target: &Path) -> Result<bool, AttachError> {
    let is_noted = place.record(name).and_then(|record| record.device).as_deref() == Some(target);
    let own = loop_device::over(&place.file(name))
        .map_err(AttachError::system("can't list the loop devices"))?;
    let is_own = own.iter().any(|device| device.path() == target);
    Ok(is_noted || is_own || is_free(target))
}

/// Unmounts what is mounted from a device in this mount namespace, and returns where.
fn unmount_all(users: &[User]) -> Vec<PathBuf> {
    let mut unmounted = Vec::new();
    for directory in users.iter().filter_map(mounted_here) {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        match rustix::mount::unmount(directory, flags).map_err(io::Error::from) {
            Ok(()) => unmounted.push(directory.clone()),
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "could not unmount");
            }
        }
    }
    unmounted
}

#[cfg(test)]
mod tests;

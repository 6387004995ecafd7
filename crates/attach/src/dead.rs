//! Devices from which their volume was taken away, for as long as somebody uses them: they give
//! errors.
//!
//! None is made in the place of one. Whoever has it mounted would take the two for one, or mount
//! the volume a second time beside a filesystem that has lost writes and does not know which.

use std::path::{Path, PathBuf};

use crate::dead_device::DeadDevice;
use crate::error::AttachError;
use crate::hold::while_opened;
use crate::in_use::{self, User};
use crate::loop_device;
use crate::place::Place;

/// A device without a volume that someone still uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StillUsed {
    /// The device.
    pub device: DeadDevice,
    /// By whom, as far as can be seen from here.
    pub users: Vec<User>,
}

/// Adds devices to those that are noted of a volume.
pub fn note(place: &Place, name: &str, used: &[StillUsed]) -> Result<(), AttachError> {
    if used.is_empty() {
        return Ok(());
    }
    let mut devices = place.dead(name);
    devices.extend(used.iter().map(|used| used.device.clone()));
    devices.sort();
    devices.dedup();
    keep(place, name, &devices)
}

/// Refuses what would be made beside a device of this volume that is used still. Others are
/// forgotten.
///
/// # Errors
/// [`AttachError::InUse`], or if the kernel's tables can't be read.
pub fn refuse(place: &Place, name: &str) -> Result<(), AttachError> {
    while_opened(|| refuse_now(place, name))
}

fn refuse_now(place: &Place, name: &str) -> Result<(), AttachError> {
    let devices = place.dead(name);
    let mut used = Vec::new();
    for device in &devices {
        if let Some(users) = users_of_dead(device)? {
            used.push(StillUsed { device: device.clone(), users });
        }
    }
    if used.len() < devices.len() {
        let left: Vec<DeadDevice> = used.iter().map(|used| used.device.clone()).collect();
        keep(place, name, &left)?;
    }
    match used.into_iter().next() {
        Some(StillUsed { device, users }) => {
            Err(AttachError::InUse { device: device.path().to_owned(), users })
        }
        None => Ok(()),
    }
}

fn keep(place: &Place, name: &str, devices: &[DeadDevice]) -> Result<(), AttachError> {
    let action = format!("can't write in {}", place.runtime.display());
    place.note_dead(name, devices).map_err(AttachError::system(action))
}

/// Who uses a device from which its volume was taken away. `None`: nobody, or another device has
/// its name by now.
///
/// # Errors
/// If the kernel's tables can't be read.
pub fn users_of_dead(device: &DeadDevice) -> Result<Option<Vec<User>>, AttachError> {
    if let Some(number) = loop_device::number_of(device.path()) {
        // The kernel frees it when the last user has closed it, also one that can't be seen from
        // here.
        return match device.is_loop(number) {
            true => users_of(device.path()).map(Some),
            false => Ok(None),
        };
    }
    if device.is_replaced() {
        return Ok(None);
    }
    users_of(device.path()).map(|users| Some(users).filter(|users| !users.is_empty()))
}

/// Who uses the device, and who has files open in filesystems on it.
pub fn users_of(device: &Path) -> Result<Vec<User>, AttachError> {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let find = || {
        let mut users = in_use::users(&name)?;
        let directories: Vec<_> = users.iter().filter_map(mounted_here).cloned().collect();
        users.extend(in_use::processes_below(&directories)?);
        Ok(users)
    };
    find().map_err(AttachError::system("can't look for users"))
}

/// Where this user is a mount in this mount namespace.
pub fn mounted_here(user: &User) -> Option<&PathBuf> {
    match user {
        User::Mount { directory, process: None } => Some(directory),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

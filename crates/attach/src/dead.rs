//! Devices from which their volume was taken away, for as long as somebody uses them: they give
//! errors.
//!
//! None is made in the place of one. Whoever has it mounted would take the two for one, or mount
//! the volume a second time beside a filesystem that has lost writes and does not know which.

use std::path::PathBuf;

use crate::error::AttachError;
use crate::hold::while_opened;
use crate::place::Place;
use crate::stale::{StillUsed, users_of_dead};

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
        let left: Vec<PathBuf> = used.iter().map(|used| used.device.clone()).collect();
        keep(place, name, &left)?;
    }
    match used.into_iter().next() {
        Some(StillUsed { device, users }) => Err(AttachError::InUse { device, users }),
        None => Ok(()),
    }
}

fn keep(place: &Place, name: &str, devices: &[PathBuf]) -> Result<(), AttachError> {
    let action = format!("can't write in {}", place.runtime.display());
    place.note_dead(name, devices).map_err(AttachError::system(action))
}

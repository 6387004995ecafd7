//! System calls on a device of this node that wait until the node's own worker has answered.
//!
//! A helper process makes them: see [`crate::helper`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::AttachError;
use crate::hold::hold;
use crate::loop_device;
use crate::place::{Kind, remove_if_there};
use crate::ublk::control::{self, Control};

/// What is to be done, in full: whoever does it knows nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DeviceCall {
    /// A loop device is made over this file.
    MakeLoop { file: PathBuf, block_size: u32 },
    /// The file and the loop device over it show this size.
    GrowLoop { file: PathBuf, device: PathBuf, size: u64 },
    /// A device that nobody uses is flushed and taken away, and so is its stable name. A loop
    /// device over another file than this is somebody else's by now, and stays.
    Release { device: PathBuf, link: PathBuf, kind: Kind, file: PathBuf },
}

impl DeviceCall {
    /// Does it, and returns the device.
    pub fn run(self) -> Result<PathBuf, AttachError> {
        match self {
            Self::MakeLoop { file, block_size } => {
                let number = loop_device::configure(&file, block_size);
                number
                    .map(loop_device::device_path)
                    .map_err(AttachError::system("can't make a loop device"))
            }
            Self::GrowLoop { file, device, size } => {
                grow_loop(&file, &device, size).map(|()| device)
            }
            Self::Release { device, link, kind, file } => {
                release(&device, &link, kind, &file).map(|()| device)
            }
        }
    }
}

/// Shows the volume's present size: on the file, and then on the device.
fn grow_loop(file: &Path, device: &Path, size: u64) -> Result<(), AttachError> {
    // The kernel keeps the size that it was told last. It asks for permission, and is told the new
    // one.
    let backing = OpenOptions::new().write(true).open(file);
    backing
        .and_then(|backing| backing.set_len(size))
        .map_err(AttachError::system(format!("can't show the new size on {}", file.display())))?;
    loop_device::read_size_again(device)
        .map_err(AttachError::system(format!("can't show the new size on {}", device.display())))
}

/// Takes a device away, held from the first moment to the last: it can't become another one's in
/// between.
fn release(device: &Path, link: &Path, kind: Kind, file: &Path) -> Result<(), AttachError> {
    // One that was cut off may have got so far.
    if is_of_others(device, file) {
        return remove_link(link, device);
    }
    // Whoever wants to mount the device from here on is refused by the kernel.
    let held = hold(device)?;
    if is_of_others(device, file) {
        return remove_link(link, device);
    }
    held.sync_all()
        .map_err(|error| AttachError::NotDurable { device: device.to_owned(), error })?;
    remove_link(link, device)?;
    match kind {
        Kind::Loop => loop_device::clear_open(&held)
            .map_err(AttachError::system(format!("can't free {}", device.display()))),
        Kind::Ublk => remove_ublk(held, device)
            .map_err(AttachError::system(format!("can't remove {}", device.display()))),
    }
}

/// Whether a loop device is free, or over another file.
fn is_of_others(device: &Path, file: &Path) -> bool {
    let number = loop_device::number_of(device);
    number.is_some_and(|number| loop_device::backing_file(number).as_deref() != Some(file))
}

/// Removes the stable name, if it is this device's.
fn remove_link(link: &Path, device: &Path) -> Result<(), AttachError> {
    if fs::read_link(link).is_ok_and(|target| target == device) {
        let action = format!("can't remove {}", link.display());
        remove_if_there(link).map_err(AttachError::system(action))?;
    }
    Ok(())
}

fn remove_ublk(held: File, device: &Path) -> io::Result<()> {
    let (Some(number), Some(mut control)) = (control::number_of(device), Control::open()) else {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    };
    control.stop(number)?;
    drop(held);
    control.delete(number)
}

#[cfg(test)]
mod tests;

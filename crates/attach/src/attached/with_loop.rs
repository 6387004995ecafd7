//! A FUSE file with a loop device over it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use evenkeel_engine::FrontendMaker;

use super::{AttachError, Options, note, publish, record_of};
use crate::apart::apart;
use crate::fuse::{FuseFrontend, mount};
use crate::loop_device;
use crate::place::{Kind, Place};

/// Attaches a volume and returns its device.
pub fn attach(
    place: &Place,
    options: &Options,
    serve: impl FnOnce(FrontendMaker) -> Result<(), String>,
) -> Result<PathBuf, AttachError> {
    let Options { name, size, block_size, .. } = options.clone();
    let directory = place.directory(&name);
    let mut record = record_of(options, Kind::Loop);
    note(place, &record)?;
    let connection = mount(&name, &directory).map_err(|error| {
        let action = format!("can't mount a FUSE filesystem at {}", directory.display());
        unless_forbidden(error, "the permission to mount a FUSE filesystem", action)
    })?;
    let connection = OwnedFd::from(connection);
    serve(Box::new(move || Box::new(FuseFrontend::new(connection, size, block_size))))
        .map_err(AttachError::Serve)?;
    // It asks the worker through the kernel, and waits for it.
    let number = apart(|| loop_device::configure(&place.file(&name), block_size)).flatten();
    let number = number.map_err(|error| {
        let action = "can't make a loop device".to_owned();
        unless_forbidden(error, "the permission to make a loop device", action)
    })?;
    let device = loop_device::device_path(number);
    publish(place, &mut record, &device)?;
    Ok(device)
}

/// Shows the volume's present size: on the file, and then on the device.
pub fn grow(place: &Place, name: &str, size: u64, device: &Path) -> Result<(), AttachError> {
    let file = place.file(name);
    // The kernel keeps the size that it was told last. It asks for permission, and is told the new
    // one.
    let backing = std::fs::OpenOptions::new().write(true).open(&file);
    backing
        .and_then(|backing| backing.set_len(size))
        .map_err(AttachError::system(format!("can't show the new size on {}", file.display())))?;
    loop_device::read_size_again(device)
        .map_err(AttachError::system(format!("can't show the new size on {}", device.display())))
}

/// What this process may not do here, it can't do by trying again.
fn unless_forbidden(error: std::io::Error, missing: &'static str, action: String) -> AttachError {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotFound => {
            AttachError::Unavailable(missing)
        }
        _ => AttachError::System { action, error },
    }
}

/// Takes away a device that nobody else has open.
pub fn release(place: &Place, name: &str, held: File, device: &Path) -> Result<(), AttachError> {
    loop_device::clear_open(&held)
        .map_err(AttachError::system(format!("can't free {}", device.display())))?;
    drop(held);
    let directory = place.directory(name);
    mount::unmount(&directory)
        .map_err(AttachError::system(format!("can't unmount {}", directory.display())))
}

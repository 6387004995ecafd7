//! A FUSE file with a loop device over it.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use evenkeel_engine::FrontendMaker;

use super::{Options, note, publish, record_of};
use crate::device_calls::DeviceCall;
use crate::error::AttachError;
use crate::fuse::{FuseFrontend, mount};
use crate::helper;
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
    let made = helper::ask(&DeviceCall::MakeLoop { file: place.file(&name), block_size });
    let device = made.map_err(|error| match error {
        AttachError::System { action, error } => {
            unless_forbidden(error, "the permission to make a loop device", action)
        }
        other => other,
    })?;
    publish(place, &mut record, &device)?;
    Ok(device)
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

/// Takes the filesystem away.
pub fn unmount(place: &Place, name: &str) -> Result<(), AttachError> {
    let directory = place.directory(name);
    mount::unmount(&directory)
        .map_err(AttachError::system(format!("can't unmount {}", directory.display())))
}

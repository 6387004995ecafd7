//! Holding a block device, so that nobody else begins to use it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use crate::error::AttachError;
use crate::in_use::{self, User};

/// How often a device is tried that a process has open.
const HOLD_ATTEMPTS: u32 = 5;
/// The pause between two such attempts.
const HOLD_PAUSE: Duration = Duration::from_millis(100);

/// Opens the device so that nobody else can use it, or says who does.
pub(crate) fn hold(device: &Path) -> Result<File, AttachError> {
    while_opened(|| try_hold(device))
}

/// Tries again for a moment what is refused because a process has a device open, as device managers
/// have that look at it.
pub(crate) fn while_opened<T>(
    attempt: impl Fn() -> Result<T, AttachError>,
) -> Result<T, AttachError> {
    for _ in 0..HOLD_ATTEMPTS {
        match attempt() {
            Err(AttachError::InUse { users, .. })
                if users.iter().all(|user| matches!(user, User::Process { .. })) =>
            {
                std::thread::sleep(HOLD_PAUSE);
            }
            other => return other,
        }
    }
    attempt()
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

//! Why a volume can't be attached, shown larger, or detached.

use std::io;
use std::path::PathBuf;

use crate::in_use::User;

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
        "such a block device can't be made on this machine ({0} is missing): use an NBD export, or in a container pass the device in"
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
        /// The device that it points to.
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
    /// A device of this kind can't grow while it is there.
    #[error("{} keeps its size until it is detached and attached again", .0.display())]
    KeepsSize(PathBuf),
    /// What was written through the page cache could not be made durable.
    #[error(
        "data written to {} could not be made durable ({error}): see the volume's status", device.display()
    )]
    NotDurable {
        /// The device.
        device: PathBuf,
        /// The error of the flush.
        error: io::Error,
    },
    /// It is not known what became of a call that a process of its own was to do.
    #[error("the process that asks the device could not do its step: {0}")]
    Helper(String),
    /// The front end could not be added to the volume.
    #[error("the volume can't be served: {0}")]
    Serve(String),
    /// The system refused something.
    #[error("{action}: {error}")]
    System {
        /// The step that failed, for people.
        action: String,
        /// The error of the system.
        error: io::Error,
    },
}

impl AttachError {
    /// Wraps an error of the system, with what was tried.
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

#[cfg(test)]
mod tests;

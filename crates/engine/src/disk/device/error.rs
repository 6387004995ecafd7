//! Why something on a disk has failed, and what the core is told of that.

use std::io;

use evenkeel_core::DiskError;

/// Why something has failed.
#[derive(Debug)]
pub(in crate::disk) struct Failure {
    error: io::Error,
    /// Whether it was a flush, which may have lost what was written before.
    is_lost: bool,
}

impl Failure {
    pub(in crate::disk) const fn of(error: io::Error) -> Self {
        Self { error, is_lost: false }
    }

    /// The same, of what was a flush.
    pub(in crate::disk) fn of_a_flush(self) -> Self {
        Self { is_lost: true, ..self }
    }

    pub(in crate::disk) const fn error(&self) -> &io::Error {
        &self.error
    }

    /// Whether it was a flush, which may have lost what was written before.
    pub(in crate::disk) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// What the core is told.
    pub(in crate::disk) fn reported(&self) -> DiskError {
        if self.is_lost { DiskError::Lost } else { disk_error(&self.error) }
    }
}

pub(in crate::disk) fn disk_error(error: &io::Error) -> DiskError {
    match error.raw_os_error() {
        _ if is_of_space(error) => DiskError::NoSpace,
        None if error.kind() == io::ErrorKind::InvalidData => DiskError::Damaged,
        _ => DiskError::Medium,
    }
}

/// Whether there was no space for what was to be written. Of a flush: of its own file, so that it
/// tells nothing of others on the same drive.
pub(in crate::disk) fn is_of_space(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}

pub(in crate::disk) fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file or device ends before")
}

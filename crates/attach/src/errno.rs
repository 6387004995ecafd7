//! What a request's failure is called in the kernel.

use evenkeel_core::RequestError;

/// The errno that block devices and files report for this error.
#[must_use]
pub fn of(error: RequestError) -> i32 {
    match error {
        RequestError::Invalid => libc::EINVAL,
        RequestError::NoSpace => libc::ENOSPC,
        // What the kernel's block layer calls a reservation conflict.
        RequestError::Reserved => libc::EBADE,
        // All of these mean to a filesystem that its device is broken; the reason is in the
        // volume's status and in the log.
        RequestError::Medium
        | RequestError::NoData
        | RequestError::NoCoordinator
        | RequestError::Fenced
        | RequestError::LostWrites
        | RequestError::Detached
        | RequestError::Cancelled => libc::EIO,
    }
}

//! What asks this process's own filesystem through the kernel.
//!
//! Such a thread waits for an answer of the worker beside it. If the process is killed meanwhile,
//! the worker ends, and the kernel should end the connection, so that the thread gets an error. But
//! the connection ends with its last descriptor, descriptors go when the last thread ends that has
//! them, and this one waits for an answer, which no signal interrupts: the process would never go,
//! nor would whatever waits for its loop device. So it has no descriptors of the others.

use std::io;

/// The first descriptor after those of standard input, output and error.
const FIRST: libc::c_uint = 3;

/// Runs this on a thread without any of this process's descriptors. Those that it opens are its
/// own, and can't be used elsewhere.
///
/// # Errors
/// If the kernel can't make such a thread: then this was not run.
pub(crate) fn apart<T: Send>(run: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let begin = || leave_descriptors().map(|()| run());
        let thread = std::thread::Builder::new().name("apart".to_owned());
        let ended = thread.spawn_scoped(scope, begin)?.join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Gives the calling thread a table of descriptors of its own, with the first three alone.
fn leave_descriptors() -> io::Result<()> {
    // SAFETY: only this thread's table changes, and it has used none of its descriptors yet.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;

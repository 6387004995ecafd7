//! How the daemon keeps working when memory is short.
//!
//! The kernel may write to the volume's device in order to free memory. If the daemon then needed
//! memory that is only to be had by that very write, both would wait for ever. Three measures,
//! explained in `docs/decisions/0030-attach-when-memory-is-short.md`, prevent it.

use std::fs;
use std::io;

/// The number of this `prctl` in `linux/prctl.h` (Linux 5.6).
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// One measure that could not be taken, and why.
#[derive(Debug)]
pub struct Missing {
    /// The protection that is missing.
    pub measure: &'static str,
    /// What can happen without it.
    pub consequence: &'static str,
    /// The error of the system.
    pub error: io::Error,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; {}", self.measure, self.error, self.consequence)
    }
}

/// Prepares this process for serving block devices: to be called once at its start, before it has
/// other threads, because the first measure holds for the calling thread and those that it makes.
///
/// Each measure is taken on its own. Those that were refused (they need `CAP_SYS_RESOURCE` and
/// `CAP_IPC_LOCK`) are returned; the daemon works without them as long as memory is not short.
#[must_use = "what could not be done belongs in the log"]
pub fn prepare_data_path() -> Vec<Missing> {
    let measures = [
        (
            "the kernel was not told that this process serves block devices (PR_SET_IO_FLUSHER)",
            "when memory is short, writing to an attached volume may hang: give it CAP_SYS_RESOURCE",
            become_flusher(),
        ),
        (
            "the process's memory was not locked (mlockall)",
            "when memory is short, attached volumes become slow: give it CAP_IPC_LOCK",
            lock_memory(),
        ),
        (
            "the process was not protected from being killed when memory is short (oom_score_adj)",
            "attached volumes may fail then: give it CAP_SYS_RESOURCE",
            protect(),
        ),
    ];
    let failed = measures.into_iter().filter_map(|(measure, consequence, result)| {
        result.err().map(|error| Missing { measure, consequence, error })
    });
    failed.collect()
}

/// From here on no allocation of this thread, and of threads made by it, starts input or output,
/// and its own writing is not slowed down because a device that it serves is slow.
fn become_flusher() -> io::Result<()> {
    // SAFETY: the call has plain numbers for arguments.
    let result = unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Locks what is in memory now (the program itself), and everything else once it is touched.
fn lock_memory() -> io::Result<()> {
    // SAFETY: the calls have plain numbers for arguments, and change no contents of memory.
    let result = unsafe {
        match libc::mlockall(libc::MCL_CURRENT) {
            0 => libc::mlockall(libc::MCL_FUTURE | libc::MCL_ONFAULT),
            error => error,
        }
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel chooses any other process first. Its memory is bounded by configuration, so killing
/// it would gain little, and would break the devices that other processes need to make progress.
fn protect() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "-1000")
}

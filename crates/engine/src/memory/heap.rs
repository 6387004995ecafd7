//! What the process's allocator keeps for itself.
//!
//! A start allocates much for a moment: a node with 1,000 replicas kept 68 to 87 KiB for each, of
//! which 40 were in use. Other allocators than glibc's are left as they are.

/// Has glibc's allocator use at most so many arenas: to be called once, before there are other
/// threads.
///
/// By default it makes up to eight for each processor, one for whichever thread finds the others in
/// use, and what was allocated for a moment stays as holes in all of them. The data path allocates
/// little, and mostly from what glibc keeps for each thread, so one arena for each thread that is
/// often busy is enough.
pub fn limit_arenas(count: usize) {
    #[cfg(target_env = "gnu")]
    {
        let count = libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX);
        // SAFETY: it takes numbers alone, and no other thread allocates meanwhile. A refusal
        // changes nothing.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, count) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = count;
}

/// Gives memory that nothing uses back to the system. It holds the allocator's locks for some
/// milliseconds, so it is for moments in which nobody waits, such as the end of a start.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0)
    };
}

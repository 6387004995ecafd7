//! How much memory is in use, so that what must not grow can be seen not to.

use std::alloc::System;

use cap::Cap;

/// The system's allocator, counting; without a limit of its own.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes in use.
pub fn in_use() -> usize {
    ALLOCATOR.allocated()
}

//! A filesystem with one file, `volume`, whose bytes are those of a volume.
//!
//! It is mounted by the daemon itself (no helper program, no library) and served straight from
//! `/dev/fuse` on the worker that owns the volume. A loop device over the file makes a block
//! device of it.

mod frontend;
pub(crate) mod mount;
mod protocol;

pub use frontend::{FuseFrontend, MAX_TRANSFER};
pub use mount::mount;

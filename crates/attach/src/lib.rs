//! Attaches a volume to this machine as a block device with a stable name, `/dev/evenkeel/NAME`.
//!
//! Where the kernel has ublk, that is a ublk device; elsewhere a FUSE filesystem with one file, and
//! a loop device over the file. Either is served by a front end in the engine; nothing else runs
//! for it.
//!
//! - [`attach`], [`grow`] and [`detach`], while the daemon lives.
//! - [`clean_up_stale`] after one that was killed; [`list`] returns what is attached.
//! - [`prepare_data_path`], once at the daemon's start, for when memory is short.
//! - [`serve_if_asked`], first of all in a program that attaches: calls that wait for its own
//!   devices run in a helper process, which is this program started again.
//!
//! These functions block, some of them until the worker that serves the volume has answered the
//! kernel: **never call them on a worker's thread** (that is, not from a call-back of the engine),
//! and with tokio only inside of `spawn_blocking`.

mod attached;
mod dead;
mod dead_device;
mod device_calls;
mod errno;
mod error;
pub mod fuse;
mod helper;
mod hold;
pub mod in_use;
mod loop_device;
mod memory;
mod mounts;
mod place;
mod stale;
pub mod ublk;

pub use attached::{Attached, Options, attach, detach, grow, refuse};
pub use dead::{StillUsed, users_of_dead};
pub use dead_device::DeadDevice;
pub use error::AttachError;
pub use helper::serve_if_asked;
pub use in_use::User;
pub use memory::{Missing, prepare_data_path};
pub use place::{Kind, Place, Record, list};
pub use stale::{CleanedUp, Filesystems, clean_up_stale, refuse_waiting};

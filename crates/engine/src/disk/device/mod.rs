//! The file or device of a replica's disk: what is asked of it, how it wants to be addressed, and
//! what its errors mean. All other rooms of the disk use it, and it uses none of them.

mod bytes;
pub(crate) mod drive;
mod error;
mod extents;
mod flushes;
mod io;
mod layout;
mod parts;
mod writes;

use evenkeel_core::Instant;

#[cfg(test)]
pub(super) use self::bytes::read_at;
pub(super) use self::bytes::write_at;
pub(crate) use self::drive::{Drive, Listeners};
pub(super) use self::error::{Failure, cut_short, disk_error, is_of_space};
pub(super) use self::extents::{extents_of, next_data};
pub(super) use self::flushes::Failures;
pub(crate) use self::flushes::Flushes;
pub use self::io::flush;
pub(crate) use self::io::{Access, Io};
pub(crate) use self::layout::Layout;
pub use self::layout::smallest_block;
pub(super) use self::parts::{Parts, read_part, spoil};
pub(super) use self::writes::{Advance, Writes, advance};
use crate::memory::Pool;
use crate::ring::{Key, Ring};

/// What an action needs from the worker.
pub(crate) struct Means<'a, I = Ring> {
    pub(crate) ring: &'a mut I,
    pub(crate) pool: &'a Pool,
    /// By which completions find their way back.
    pub(crate) replica: Key,
    pub(crate) now: Instant,
}

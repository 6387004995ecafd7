//! What the core is driven with where there is no network and no disk: in its tests, in the unit
//! tests of its modules, and in the fuzzers, which are built with these very files.

// Each of them uses a part.
#![allow(dead_code, unused_imports)]

mod blank;
mod bytes;
mod saved;

pub use self::blank::Blank;
pub use self::bytes::Bytes;
pub use self::saved::Saved;

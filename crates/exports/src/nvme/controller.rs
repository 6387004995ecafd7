//! A controller: what a host sees of a subsystem through the queues that it has connected.
//!
//! Only its properties yet.

mod properties;

pub use properties::{Change, Properties};

//! The paths' handlers. They only translate: the work is done by the modules that own it.

pub mod disk;
pub mod node;
pub mod peer;
pub mod plan;
pub mod volume;

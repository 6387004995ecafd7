//! What an evenkeel node's API says and hears: [`routes`], the JSON [`types`], [`error`] codes,
//! and how [`sizes`] are written in messages.
//!
//! The node serves it, the command asks it, and neither needs the other. Nothing here reads a
//! socket or decides anything.

pub mod error;
pub mod routes;
pub mod sizes;
pub mod types;

pub use error::{ApiError, ErrorCode};

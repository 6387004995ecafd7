//! What an evenkeel node's API says and hears: [`routes`], the JSON [`types`], and [`error`] codes.
//!
//! The node serves it, the command asks it, and neither needs the other. Nothing here reads a
//! socket or decides anything.

pub mod error;
pub mod routes;
pub mod types;

pub use error::{ApiError, ErrorCode};

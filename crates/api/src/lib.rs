//! The API of an evenkeel node: [`routes`], the JSON [`types`], [`error`] codes with the [`exit`]
//! codes that they give, and how [`sizes`] are written in messages.
//!
//! The node serves it, the command asks it, and neither needs the other. Nothing here reads a
//! socket or decides anything.

pub mod error;
pub mod exit;
pub mod routes;
pub mod sizes;
pub mod types;

pub use error::{ApiError, ErrorCode};
pub use exit::Exit;

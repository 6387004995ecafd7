//! The API: HTTP/1.1 with JSON on a unix socket, described by `/v1/openapi.json`.

pub mod error;
pub mod routes;
pub mod types;

pub use error::{ApiError, ErrorCode};

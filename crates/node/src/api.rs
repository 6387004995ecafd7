//! The API: HTTP/1.1 with JSON on a unix socket, described by `/v1/openapi.json`. The same paths
//! are served to other nodes over control connections, with a few more for nodes alone.

mod doors;
pub(crate) mod extract;
pub(crate) mod handlers;
mod openapi;
pub mod permission;
pub mod server;

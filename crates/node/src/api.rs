//! The API: HTTP/1.1 with JSON on a unix socket, described by `/v1/openapi.json`. What nodes ask
//! of each other for a user is served to them, too, over control connections, with a few more paths
//! for nodes alone.

mod bounds;
mod doors;
pub(crate) mod extract;
pub(crate) mod handlers;
mod openapi;
pub mod permission;
pub mod server;

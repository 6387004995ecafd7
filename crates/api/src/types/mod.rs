//! The JSON of the API, version 1.
//!
//! Within a version, fields are only added. Sizes are bytes; identities are UUIDs; moments are
//! seconds since 1970-01-01 UTC; a field that is `null` or absent is not known or does not apply.

mod assemble;
mod attach;
mod care;
mod change;
mod create;
mod disk;
mod examine;
mod node;
mod plan;
mod reservation;
mod status;

pub use assemble::*;
pub use attach::*;
pub use care::*;
pub use change::*;
pub use create::*;
pub use disk::*;
pub use examine::*;
pub use node::*;
pub use plan::*;
pub use reservation::*;
use serde::{Deserialize, Serialize};
pub use status::*;
use utoipa::ToSchema;

/// The version of the API's JSON.
pub const VERSION: u32 = 1;

/// What this version knows of requests: see [`NodeStatus::revision`].
pub const REVISION: u32 = 1;

/// It is done; there is nothing more to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoneAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// What was done, in a sentence.
    pub message: String,
}

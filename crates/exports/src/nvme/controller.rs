//! A controller: what a host sees of a subsystem through the queues that it has connected.
//!
//! 1. [`Properties`]: what it can do, its configuration, and its state.
//! 2. [`Identity`]: what it says of itself and of its namespace.

mod identify;
mod properties;

pub use identify::{
    IDENTIFY_LENGTH, Identity, KEEP_ALIVE_UNIT, MAX_ABORTS, MAX_EVENT_REQUESTS, NAMESPACE,
    Namespace,
};
pub use properties::{Change, Properties};

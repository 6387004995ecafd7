//! What is on its way over stream sockets: frames in, batches out.
//!
//! Whose socket it is, the worker knows.

mod inbox;
mod outbox;
mod peer;
mod socket;

pub(crate) use self::inbox::Next;
pub(crate) use self::outbox::{Outbox, Sent};
pub(crate) use self::peer::{is_transient, prepare_socket};
pub(crate) use self::socket::Socket;

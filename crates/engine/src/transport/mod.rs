//! What is on its way over stream sockets: frames in, batches out. With TLS, records lie between
//! these and the socket.
//!
//! Whose socket it is, the worker knows.

mod connection;
mod inbox;
mod outbox;
mod peer;
mod records;
mod socket;
pub mod tls;

pub use self::connection::Connection;
pub(crate) use self::inbox::Next;
pub(crate) use self::outbox::{Outbox, Sent};
pub(crate) use self::peer::prepare_socket;
pub(crate) use self::socket::Socket;

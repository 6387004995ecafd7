//! NVMe over TCP: the protocol as machines without I/O.
//!
//! 1. [`pdu`]: protocol data units, with digests, padding, and the fatal error for each
//!    malformation.
//! 2. [`command`]: the commands and completions that they carry, and the status for a wrong one.
//! 3. [`connection`]: one TCP connection, which is one queue.
//! 4. [`authentication`]: how a host and a subsystem prove who they are.
//! 5. [`handshake`]: a connection until it is a queue.
//! 6. [`controller`]: whom a subsystem lets in, and what a host sees of it.
//! 7. [`admin_queue`]: a queue whose commands a controller answers.
//! 8. [`discovery`]: which subsystems a host may connect to, and where.
//! 9. [`reservation`]: commands about reservations, as changes of the volume's own.
//! 10. [`io`]: what a command of an I/O queue asks of a volume.
//! 11. [`io_queue`]: a queue as a front end that serves a host inside the engine.
//!
//! Sections are those of NVM Express's specifications: "Base" is NVM Express Base Specification
//! 2.1, "NVM" is NVM Command Set Specification 1.1, "TCP" is TCP Transport Specification 1.0.
//! Numbers are little-endian. Nothing here panics on any input, and all that a peer can make grow
//! has a bound.

pub mod admin_queue;
pub mod authentication;
pub mod command;
pub mod connection;
pub mod controller;
pub mod discovery;
pub mod handshake;
pub mod io;
pub mod io_queue;
pub mod pdu;
pub mod reservation;

//! The memory of one worker: where buffers come from, and how much there may be.
//!
//! Memory is admitted at the edges and nowhere else. A front end reserves from its volume's
//! [`Budget`] what a request will hold: a write's payload, or the room for a read's answer. A link
//! on which a primary reaches a replica reserves from a budget of its own, in the same way. Inside,
//! whatever serves an admitted request takes memory without asking ([`Pool::take`]), so nothing
//! that has begun waits for memory, and there is no circle of waiting: requests end, answers are
//! always received, and reservations return. While a budget is used up its sockets are not read,
//! which is the backpressure that clients and primaries feel.
//!
//! Bounds, per worker: the sum of reservations is at most the pool's limit, plus one request for
//! each budget (a budget with nothing reserved always admits one, so that each makes progress), and
//! [`MAX_SPARE`](crate::frontend::MAX_SPARE) bytes for each queue of NVMe.
//! Buffers in use are at most that, plus the regions that rebuilding replicas copy (a few MiB each,
//! bounded by the core), plus, on disks that demand a coarser alignment than a client keeps, one
//! aligned copy of what is under way. Memory is allocated when first needed and kept for reuse
//! within the limit.

mod buffer;
pub mod heap;
mod part;
mod pool;

pub use self::buffer::{Buffer, BufferMut};
pub use self::part::Part;
pub use self::pool::{BUFFER_ALIGNMENT, Budget, MAX_BUFFER, Pool, Reservation, buffer_size};

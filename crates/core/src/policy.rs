//! When a write is acknowledged: the one place that knows (rule W1).

use crate::view::Protocol;

/// A set of replicas of one mirror, by their index in the view.
pub type ReplicaSet = u16;

/// How far a write is.
#[derive(Debug, Clone, Copy)]
pub struct WriteProgress {
    /// The in-sync and rebuilding replicas.
    pub members: ReplicaSet,
    /// The in-sync replicas.
    pub in_sync: ReplicaSet,
    /// The replicas on the primary's own node.
    pub local: ReplicaSet,
    /// Those that have received it.
    pub received: ReplicaSet,
    /// Those that have written it (durably, if that was asked for).
    pub written: ReplicaSet,
    /// Whether it must be durable (FUA), whatever the protocol (W4).
    pub durable: bool,
}

/// Whether a write that is so far may be acknowledged.
#[must_use]
pub fn acknowledged(protocol: Protocol, write: WriteProgress) -> bool {
    let all_wrote = write.members & !write.written == 0;
    let some_in_sync_wrote = write.in_sync & write.written != 0;
    let local = write.in_sync & write.local;
    match protocol {
        _ if write.durable => all_wrote,
        Protocol::C => all_wrote,
        Protocol::B => {
            let has_it = write.written | (write.received & !write.local);
            write.members & !has_it == 0
        }
        Protocol::A if local != 0 => local & !write.written == 0,
        Protocol::A => some_in_sync_wrote,
    }
}

#[cfg(test)]
mod tests;

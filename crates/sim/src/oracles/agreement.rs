//! I4: when a write is acknowledged, every member has it, as the protocol demands.

use evenkeel_core::Protocol;

use super::Violation;

/// What the simulator sees of one member of the primary's view at the moment of an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    /// Number of the replica.
    pub replica: usize,
    /// Whether it is in-sync (otherwise rebuilding).
    pub in_sync: bool,
    /// Whether it is on the primary's node.
    pub local: bool,
    /// Whether its disk holds the write, or something newer, in every sector.
    pub written: bool,
    /// True if the replica has it durably.
    pub durable: bool,
    /// Whether the write has arrived in this incarnation of the replica.
    pub received: bool,
    /// Whether its incarnation ended since the write began, or its part in the primary's epoch, so
    /// that what it had is no longer to be seen.
    pub excused: bool,
}

/// Judges the acknowledgement of a write to a mirror with these members.
///
/// # Errors
/// If the protocol does not permit it yet.
pub fn check(protocol: Protocol, durable: bool, members: &[Member]) -> Result<(), Violation> {
    let has_local = members.iter().any(|m| m.in_sync && m.local);
    let lacking = |required: &dyn Fn(&Member) -> bool, has: &dyn Fn(&Member) -> bool| {
        members.iter().find(|m| required(m) && !m.excused && !has(m)).copied()
    };
    let missing = match protocol {
        _ if durable => {
            lacking(&|m| m.in_sync, &|m| m.durable).or_else(|| lacking(&|_| true, &|m| m.written))
        }
        Protocol::C => lacking(&|_| true, &|m| m.written),
        Protocol::B => lacking(&|_| true, &|m| m.written || (!m.local && m.received)),
        Protocol::A if has_local => lacking(&|m| m.in_sync && m.local, &|m| m.written),
        Protocol::A => {
            let mut in_sync = members.iter().filter(|m| m.in_sync);
            let some = in_sync.clone().any(|m| m.written || m.excused);
            if some { None } else { in_sync.next().copied() }
        }
    };
    missing.map_or(Ok(()), |member| {
        Err(Violation::new(
            "I4",
            format!(
                "a write under protocol {protocol}{} is acknowledged, but replica {} does not have it ({member:?})",
                if durable { ", durable," } else { "" },
                member.replica
            ),
        ))
    })
}

#[cfg(test)]
mod tests;

//! The exit codes of the command, and which one each error gives: documented in
//! docs/manual/exit-codes.md, stable for scripts.

use crate::ErrorCode;

/// The exit codes of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Done,
    /// It failed; the message says why.
    Failed,
    /// The command line was not understood.
    Usage,
    /// A named volume, disk, node, replica or export does not exist.
    NotFound,
    /// Refused, because it would lose data or break something in use.
    Unsafe,
    /// The node did not answer.
    Unreachable,
    /// `volume status --check`: a volume has fewer in-sync replicas than it should.
    Degraded,
    /// `--wait` did not see what it waited for in time.
    TimedOut,
    /// Stopped by Ctrl-C.
    Interrupted,
}

impl Exit {
    /// The number that the process ends with.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Unsafe => 4,
            Self::Unreachable => 5,
            Self::Degraded => 6,
            Self::TimedOut => 7,
            Self::Interrupted => 130,
        }
    }

    /// The name by which a program may decide, where the node has given no code of its own.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not-found",
            Self::Unsafe => "unsafe",
            Self::Unreachable => "node-unreachable",
            Self::Degraded => "degraded",
            Self::TimedOut => "timed-out",
            Self::Interrupted => "interrupted",
        }
    }
}

impl ErrorCode {
    /// The exit code of a command that ends with this error.
    #[must_use]
    pub const fn exit(self) -> Exit {
        match self {
            Self::NoSuchNode
            | Self::NoSuchDisk
            | Self::NoSuchVolume
            | Self::NoSuchReplica
            | Self::NoSuchExport => Exit::NotFound,
            // What would break something that others use, or lose data.
            Self::DiskInUse
            | Self::DiskHasData
            | Self::DiskHasReplicas
            | Self::NodeInUse
            | Self::Attached
            | Self::AttachedElsewhere
            | Self::DeviceBusy
            | Self::LastInSync
            | Self::ReplicaInUse
            | Self::WouldLoseData
            | Self::Incomplete
            | Self::StaleClone
            | Self::ReplicaUnusable
            | Self::SplitBrain
            | Self::Reserved => Exit::Unsafe,
            Self::NodeUnreachable | Self::NoCoordinator | Self::CoordinatorFailed => {
                Exit::Unreachable
            }
            Self::TimedOut => Exit::TimedOut,
            Self::BadRequest
            | Self::NoSuchPath
            | Self::NameInUse
            | Self::DiskTooSmall
            | Self::NotEnoughDisks
            | Self::NotAttached
            | Self::WrongState
            | Self::AlreadyJoined
            | Self::WrongCluster
            | Self::AddressInUse
            | Self::NotAuthorised
            | Self::NotPermitted
            | Self::NodeRemoved
            | Self::NotSupported
            | Self::NotJoined
            | Self::NoData
            | Self::Stopping
            | Self::NoSpace
            | Self::System => Exit::Failed,
        }
    }
}

#[cfg(test)]
mod tests;

//! Errors of the API: a code for programs, and what, why and what to do for people.

use core::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What kind of error it is. Codes are stable: a program may decide by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCode {
    /// 400: the request is not well-formed, or a value in it is not permitted.
    BadRequest,
    /// 404: there is no such path in the API.
    NoSuchPath,
    /// 404: there is no such node.
    NoSuchNode,
    /// 404: there is no such disk.
    NoSuchDisk,
    /// 404: there is no such volume.
    NoSuchVolume,
    /// 404: the volume has no such replica.
    NoSuchReplica,
    /// 404: the volume is not exported like that.
    NoSuchExport,
    /// 409: the name is taken by another volume, disk or node.
    NameInUse,
    /// 409: the disk is mounted, is swap, or is part of something else. `force` does not help
    /// while it is in use.
    DiskInUse,
    /// 409: the disk carries a file system or another known signature; `force` destroys it.
    DiskHasData,
    /// 409: the disk, or the free space on it, is too small.
    DiskTooSmall,
    /// 409: the disk holds replicas.
    DiskHasReplicas,
    /// 409: there are not enough disks on different nodes for the replicas asked for.
    NotEnoughDisks,
    /// 409: the volume is attached.
    Attached,
    /// 409: the volume is attached on another node that is alive, or not yet known to be dead.
    AttachedElsewhere,
    /// 409: the volume is not attached.
    NotAttached,
    /// 409: the volume's device is mounted, or held open by another program.
    DeviceBusy,
    /// 409: the present state of the volume or replica does not permit it.
    WrongState,
    /// 409: another host has reserved the volume, or the key is another one.
    Reserved,
    /// 409: it is the last in-sync replica of its mirror.
    LastInSync,
    /// 409: the replica is in-sync or rebuilds, and is not removed while it does.
    ReplicaInUse,
    /// 409: data that the volume holds would be lost.
    WouldLoseData,
    /// 409: not all replicas were found that the newest view calls in-sync.
    Incomplete,
    /// 409: the replica's file is gone, or its disk is full or bad: it does not come back as it is.
    ReplicaUnusable,
    /// 409: of a mirror's in-sync replicas only one answers, and a stale clone of its disk was put
    /// back.
    StaleClone,
    /// 409: replicas have diverged from each other; one branch has to be chosen.
    SplitBrain,
    /// 409: this node already belongs to a cluster.
    AlreadyJoined,
    /// 409: the node that was asked belongs to another cluster, or is no coordinator.
    WrongCluster,
    /// 409: an address or port is in use by another program.
    AddressInUse,
    /// 409: volumes use the node, or it serves the coordinator.
    NodeInUse,
    /// 403: the node was removed from the cluster.
    NodeRemoved,
    /// 403: the peer refused this node, or this node the peer (key, certificate).
    NotAuthorised,
    /// 403: the user has no right to ask that of this node.
    NotPermitted,
    /// 501: this machine cannot do it (no ublk, no FUSE, no permission).
    NotSupported,
    /// 503: this node belongs to no cluster yet.
    NotJoined,
    /// 503: the coordinator does not answer.
    NoCoordinator,
    /// 503: the coordinator could not do it, or does not know whether it has: its database failed,
    /// or too much waits for it. Only other nodes are answered so.
    CoordinatorFailed,
    /// 503: the node that has to do it does not answer.
    NodeUnreachable,
    /// 503: no in-sync replica answers.
    NoData,
    /// 503: the node is stopping.
    Stopping,
    /// 504: it did not end within the time allowed; it may still go on.
    TimedOut,
    /// 507: a disk is full.
    NoSpace,
    /// 500: a disk or the system reported an error.
    System,
}

impl ErrorCode {
    /// The HTTP status that goes with the code.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::NotAuthorised | Self::NodeRemoved | Self::NotPermitted => 403,
            Self::NoSuchPath
            | Self::NoSuchNode
            | Self::NoSuchDisk
            | Self::NoSuchVolume
            | Self::NoSuchReplica
            | Self::NoSuchExport => 404,
            Self::NotSupported => 501,
            Self::NotJoined
            | Self::NoCoordinator
            | Self::CoordinatorFailed
            | Self::NodeUnreachable
            | Self::NoData
            | Self::Stopping => 503,
            Self::TimedOut => 504,
            Self::NoSpace => 507,
            Self::System => 500,
            _ => 409,
        }
    }
}

/// An error as the API reports it, inside `{"version": 1, "error": …}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiError {
    /// For programs.
    pub code: ErrorCode,
    /// What did not work.
    pub what: String,
    /// The cause.
    pub why: String,
    /// What to do about it.
    #[serde(rename = "do")]
    pub action: String,
}

/// The body of every answer whose status is not 2xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The error.
    pub error: ApiError,
}

impl ApiError {
    /// An error with its three sentences.
    pub fn new(
        code: ErrorCode,
        what: impl Into<String>,
        why: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        Self { code, what: what.into(), why: why.into(), action: action.into() }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. {}", self.what, self.why, self.action)
    }
}

impl core::error::Error for ApiError {}

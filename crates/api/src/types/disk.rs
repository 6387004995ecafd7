//! Disks.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::NodeRef;

/// The kinds of disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// A block device or partition; holds one replica.
    Device,
    /// A directory; holds one file for each replica.
    Directory,
}

/// The present state of a disk. The node tries to open one that it cannot open again, at least
/// every 15 s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// It is open.
    #[default]
    Serving,
    /// It is being opened again.
    Opening,
    /// It is not there, or another disk is.
    Absent,
    /// Another program or process has it.
    Held,
    /// It, or the system, reports an error.
    Failing,
    /// Its replica is of a stopped volume.
    Stopped,
}

/// A disk of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// Its name, unique on its node.
    pub name: String,
    /// Its node.
    pub node: NodeRef,
    /// Its path on that node.
    pub path: String,
    /// The kind of disk.
    pub kind: DiskKind,
    /// Bytes in all.
    pub size: u64,
    /// Bytes that replicas could still take.
    pub free: u64,
    /// Of a directory: bytes that its file system has free, also those that replicas were promised.
    #[serde(default)]
    pub available: Option<u64>,
    /// The smallest unit of direct I/O on it, in bytes: a volume's block size is at least this.
    pub block_size: u32,
    /// Replicas on it.
    pub replicas: Vec<DiskReplica>,
    /// Its present state.
    #[serde(default)]
    pub state: DiskState,
    /// Why the disk cannot be used, as a sentence; `null` if it can.
    pub problem: Option<String>,
}

/// A replica on a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskReplica {
    /// Its identity; `null` if its superblock cannot be read.
    pub id: Option<String>,
    /// The volume's identity.
    pub volume_id: Option<String>,
    /// The volume's name; without the coordinator the one that it had when the replica was made.
    pub volume: Option<String>,
    /// Index of its mirror in the stripe.
    pub mirror: Option<usize>,
    /// Bytes of data that it has space for.
    pub size: Option<u64>,
    /// Of a file: bytes of it that have no space on the disk yet.
    #[serde(default)]
    pub unallocated: Option<u64>,
    /// The file or device.
    pub path: String,
    /// Why the node does not serve the replica, or will not for long, as a sentence; `null` if it
    /// does.
    pub problem: Option<String>,
    /// True if the node serves the replica and will have lost it when the daemon ends: its file was
    /// deleted, or its directory moved or unmounted.
    #[serde(default)]
    pub file_gone: bool,
    /// A problem to come, as a sentence; `null` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Which disks to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DisksQuery {
    /// Those of all nodes, not only of this one.
    #[serde(default)]
    pub all: bool,
}

/// Answer to `GET /v1/disks`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DisksAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The disks, by node and name.
    pub disks: Vec<Disk>,
    /// Nodes that did not answer, a sentence each.
    pub warnings: Vec<String>,
}

/// Gives a disk of this node to evenkeel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddDiskRequest {
    /// A block device, partition or directory on this node; absolute.
    pub path: String,
    /// Its name; without one, the last part of the path.
    #[serde(default)]
    pub name: Option<String>,
    /// Take it even if it carries a known signature, whose data is lost. What is mounted or in
    /// use is never taken.
    #[serde(default)]
    pub force: bool,
}

/// Answer to `POST /v1/disks`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DiskAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The disk.
    pub disk: Disk,
    /// What becomes of replicas that it holds, in sentences, if they are not served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

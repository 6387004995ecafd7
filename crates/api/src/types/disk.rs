//! Disks.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::NodeRef;

/// What a disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// A block device or partition; holds one replica.
    Device,
    /// A directory; holds one file for each replica.
    Directory,
}

/// What a disk is at the moment. One that cannot be opened is tried again, at least every 15 s.
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
    /// What it is.
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
    /// What it is at the moment.
    #[serde(default)]
    pub state: DiskState,
    /// Why it cannot be used, if so.
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
    /// Bytes of data it holds room for.
    pub size: Option<u64>,
    /// Of a file: bytes of it that have no space on the disk yet.
    #[serde(default)]
    pub unallocated: Option<u64>,
    /// The file or device.
    pub path: String,
    /// Why it is not served, or not for long, if so.
    pub problem: Option<String>,
    /// Whether it is served, and gone when the daemon ends.
    #[serde(default)]
    pub file_gone: bool,
    /// What may become a problem, if anything.
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

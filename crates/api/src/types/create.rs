//! Volumes: how one is created and deleted.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{NodeRef, VolumeBitmap};

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub enum VolumeProtocol {
    /// The local replica has written it and the rest is queued.
    A,
    /// Every replica has received it.
    B,
    /// Every replica has written it.
    #[default]
    C,
}

/// What to do while no in-sync replica of a mirror answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "policy")]
pub enum NoData {
    /// Hold requests for so many seconds, then fail them.
    Suspend {
        /// 1 to 86400.
        seconds: u64,
    },
    /// Fail requests at once.
    Error,
}

impl Default for NoData {
    fn default() -> Self {
        Self::Suspend { seconds: 120 }
    }
}

/// What requests do while a view has to change and the coordinator does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "policy")]
pub enum NoCoordinator {
    /// Wait until it answers: applications see a pause and no error.
    #[default]
    Suspend,
    /// Wait for so many seconds, then fail.
    Fail {
        /// 1 to 86400.
        seconds: u64,
    },
}

/// Creates a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateVolumeRequest {
    /// Its name: 1 to 64 letters, digits, `-`, `_` and `.`, beginning with a letter or digit.
    pub name: String,
    /// Usable size in bytes; rounded up to the block size.
    pub size: u64,
    /// Replicas of each mirror, 1 to 16.
    #[serde(default = "default_replicas")]
    pub replicas: usize,
    /// Where to put them: `NODE:DISK` each, as many as replicas times mirrors, mirror by mirror.
    /// Empty: the disks with the most free space, each replica of a mirror on another node.
    #[serde(default)]
    pub on: Vec<String>,
    /// Mirrors to stripe over, 1 to 16.
    #[serde(default = "default_stripe")]
    pub stripe: usize,
    /// When a write is acknowledged.
    #[serde(default)]
    pub protocol: VolumeProtocol,
    /// Where replicas may differ after a crash.
    #[serde(default)]
    pub bitmap: VolumeBitmap,
    /// Whether replicas keep a checksum of each 4 KiB, so that what a disk has damaged is not
    /// returned.
    #[serde(default = "default_checksums")]
    pub checksums: bool,
    /// Bytes of one region of the intent logs: a power of two, 128 KiB to 1 GiB. `null`: 1 MiB if
    /// replicas have less than 4 GiB, else 4 MiB.
    #[serde(default)]
    pub region_size: Option<u64>,
    /// Regions that may be open at once: at most 2032, and at least what the longest request, of
    /// 128 MiB, touches. `null`: 1024.
    #[serde(default)]
    pub open_regions: Option<u16>,
    /// On how many nodes it may be attached at once, 1 to 32: as many slots its intent logs have.
    /// More than one only by protocol C. `null`: 4 if the bitmap is clustered, else 1.
    #[serde(default)]
    pub primaries: Option<u8>,
    /// Logical block size, 512 or 4096; `null`: 512 where every disk allows it, else 4096.
    #[serde(default)]
    pub block_size: Option<u32>,
    /// Bytes that go to one mirror before the next one's turn: a power of two, 4096 to 1 GiB.
    #[serde(default = "default_chunk")]
    pub chunk: u32,
    /// What to do while no in-sync replica of a mirror answers.
    #[serde(default)]
    pub no_data: NoData,
    /// What requests do while a view has to change and the coordinator does not answer.
    #[serde(default)]
    pub no_coordinator: NoCoordinator,
    /// Without room on enough different nodes, put replicas of a mirror on one node, even on
    /// one disk (for trials).
    #[serde(default)]
    pub allow_same_node: bool,
    /// Promise more space than the disks have; a disk that is full later fails its replica.
    #[serde(default)]
    pub thin: bool,
    /// Change nothing; answer what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

const fn default_replicas() -> usize {
    3
}

const fn default_checksums() -> bool {
    true
}

const fn default_stripe() -> usize {
    1
}

const fn default_chunk() -> u32 {
    64 << 10
}

impl CreateVolumeRequest {
    /// A volume with defaults for everything but its name and size.
    #[must_use]
    pub fn new(name: impl Into<String>, size: u64) -> Self {
        Self {
            name: name.into(),
            size,
            replicas: default_replicas(),
            on: Vec::new(),
            stripe: default_stripe(),
            protocol: VolumeProtocol::default(),
            bitmap: VolumeBitmap::default(),
            checksums: default_checksums(),
            region_size: None,
            open_regions: None,
            primaries: None,
            block_size: None,
            chunk: default_chunk(),
            no_data: NoData::default(),
            no_coordinator: NoCoordinator::default(),
            allow_same_node: false,
            thin: false,
            dry_run: false,
        }
    }
}

/// Answer to `POST /v1/volumes`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreateVolumeAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// Whether the volume exists now (not after a dry run).
    pub created: bool,
    /// The replicas that were created, or would be.
    pub plan: VolumePlan,
}

/// A volume as it is, or would be, made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumePlan {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Usable size in bytes.
    pub size: u64,
    /// Logical block size.
    pub block_size: u32,
    /// Bytes that go to one mirror before the next one's turn.
    pub chunk: u32,
    /// When a write is acknowledged.
    pub protocol: VolumeProtocol,
    /// Bytes of one region of the intent logs.
    pub region_size: u64,
    /// Regions that may be open at once.
    pub open_regions: u16,
    /// Slots of the intent logs: on so many nodes it may be attached at once.
    pub slots: u8,
    /// What to do while no in-sync replica of a mirror answers.
    pub no_data: NoData,
    /// Bytes that each replica takes on its disk, with its superblock.
    pub replica_size: u64,
    /// Mirror by mirror.
    pub replicas: Vec<PlannedReplica>,
    /// Warnings about the plan, a sentence each.
    pub warnings: Vec<String>,
}

/// A replica as it is, or would be, placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedReplica {
    /// Its identity.
    pub id: String,
    /// Index of its mirror.
    pub mirror: usize,
    /// Its node.
    pub node: NodeRef,
    /// Name of its disk.
    pub disk: String,
}

/// Options of the deletion of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteVolumeQuery {
    /// Also if it was attached on a node that is dead, and cannot be taken over to make sure that
    /// nobody uses it.
    #[serde(default)]
    pub force: bool,
    /// The identities of the replicas that may be deleted, with commas between them, as the plan
    /// tells them. If another one would be, nothing is done. Without it: whatever replicas there
    /// are.
    #[serde(default)]
    pub removes: Option<String>,
}

/// Answer to a delete.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DeleteVolumeAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// Replicas whose space has been given back.
    pub removed: usize,
    /// Replicas on nodes that do not answer: removed when those are back.
    pub remembered: Vec<PlannedReplica>,
    /// What was done, in a sentence.
    pub message: String,
}

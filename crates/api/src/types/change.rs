//! Volumes: changes of their shape and members.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NoCoordinator, NoData, RebuildRate, VolumeBitmap, VolumeProtocol, VolumeStatus};

/// Adds a replica to a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AddReplicaRequest {
    /// Where: `NODE:DISK`, or `NODE` for the disk there with the most free space; `null`: the disk
    /// with the most free space, on a node without another replica of the mirror.
    pub on: Option<String>,
    /// To which mirror, by its index; `null`: to the only one.
    pub mirror: Option<usize>,
    /// As a spare, which stands in for a replica that fails.
    pub spare: bool,
    /// Instead of this replica (as in the path of a replica's commands), which is removed when the
    /// new one is in-sync.
    pub replaces: Option<String>,
    /// Permit a node, even a disk, that holds another replica of the mirror (for trials).
    pub same_node: bool,
    /// Promise more than there is: on a directory a new replica takes space as it is written to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thin: bool,
}

/// Changes a volume. What is `null` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeVolumeRequest {
    /// Usable size in bytes, rounded up to the block size; not less than it has.
    pub size: Option<u64>,
    /// When a write is acknowledged.
    pub protocol: Option<VolumeProtocol>,
    /// Copies of each mirror, 1 to 16, without spares. If there are more, those leave first that
    /// are not in-sync, then those that do not answer, then those where the volume is not attached,
    /// then those that share a node, of equals the last in the view; never the last in-sync one.
    pub replicas: Option<usize>,
    /// The identities of the replicas that may be removed, as the plan of the change tells them. If
    /// another one would be, nothing is changed. Without it: whichever they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removes: Option<Vec<String>>,
    /// Where replicas may differ after a crash.
    pub bitmap: Option<VolumeBitmap>,
    /// Bytes of one region of the intent logs, as for a new volume.
    pub region_size: Option<u64>,
    /// Regions that may be open at once, as for a new volume.
    pub open_regions: Option<u16>,
    /// On how many nodes it may be attached at once, 1 to 32: as many slots its intent logs have.
    /// Fewer only while no primary holds one that would go, and no region is open in it. More than
    /// one makes the bitmap clustered, one makes it internal.
    pub primaries: Option<u8>,
    /// The limit for the rate of rebuilds.
    pub rebuild: Option<RebuildRate>,
    /// How long one confirmation of a replica permits a primary to answer reads, in milliseconds: a
    /// multiple of 10 from 200 to 120,000. A shorter one counts when no longer one is counted on
    /// any more.
    pub lease_ms: Option<u64>,
    /// What replicas add to that, for clocks that drift apart, in milliseconds: 10 to 60,000.
    pub lease_margin_ms: Option<u64>,
    /// What requests do while a view has to change and the coordinator does not answer.
    pub no_coordinator: Option<NoCoordinator>,
    /// What to do while no in-sync replica of a mirror answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_data: Option<NoData>,
    /// Permit new replicas on a node, even a disk, that holds another one of the mirror (for
    /// trials).
    pub same_node: bool,
    /// Promise more than there is: on a directory a new replica takes space as it is written to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thin: bool,
}

/// Gives a volume another name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameVolumeRequest {
    /// The new name.
    pub name: String,
}

/// Answer to a change of a volume.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ChangeAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// Whether anything was changed; not if it was so already.
    pub changed: bool,
    /// What was done, in a sentence.
    pub message: String,
    /// The volume after it.
    pub volume: VolumeStatus,
}

/// The role of a replica in its mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaRole {
    /// It is one of the mirror's copies.
    #[default]
    Copy,
    /// It takes the place of another one, which leaves when this is in-sync.
    Replacement,
    /// It is a spare, or stands in for another one as such.
    Spare,
}

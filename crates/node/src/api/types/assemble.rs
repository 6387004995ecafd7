//! Stopping volumes, and putting them together from their disks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::VolumeStatus;
use crate::api::ApiError;

/// Answer to a stop.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StopAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// What was done, in a sentence.
    pub message: String,
    /// What the stopping left to do for later, a sentence each.
    pub warnings: Vec<String>,
    /// The volume's status after it.
    pub volume: VolumeStatus,
}

/// Puts volumes together from the disks of this node, those of the cluster's other nodes, and paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AssembleRequest {
    /// One volume, by name or identity; `null`: all that are found.
    pub volume: Option<String>,
    /// Devices, directories or replica files on this node to look at as well. What is needed of
    /// them is given to this node as a disk.
    pub paths: Vec<String>,
    /// Go on without in-sync replicas that are not found. What only they have is lost.
    pub force: bool,
    /// After a split brain: the side of this replica is kept, and the others are rebuilt from it. Its
    /// identity, at least 4 digits from its start, or `NODE:DISK`.
    pub keep: Option<String>,
    /// With `keep`: a file on this node, absolute and not there yet, for the blocks of the other
    /// side that differ; beside it the list of them, with the ending `.list`.
    pub save_differing: Option<String>,
}

/// Answer to `POST /v1/assemble`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AssembleAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// What became of each volume.
    pub volumes: Vec<Assembled>,
    /// What could not be looked at, a sentence each.
    pub warnings: Vec<String>,
}

/// What became of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AssembleOutcome {
    /// It can be attached now.
    Assembled,
    /// It could be attached before, and nothing was to be done.
    Unchanged,
    /// It was not assembled: see `error`.
    Refused,
}

/// A volume that was put together, or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Assembled {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What became of it.
    pub outcome: AssembleOutcome,
    /// What was done, in a sentence.
    pub message: String,
    /// Why it was refused.
    pub error: Option<ApiError>,
    /// How the sides differ, after a split brain.
    pub split: Option<SplitBrain>,
}

/// Replicas that were written apart from each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitBrain {
    /// The sides, the newest first.
    pub sides: Vec<SplitSide>,
    /// How each other side differs from the first; `null` if the data could not be compared.
    pub differences: Vec<SplitDifference>,
    /// Why the data were not compared, if so.
    pub not_compared: Option<String>,
}

/// One side of a split brain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitSide {
    /// Its replicas.
    pub replicas: Vec<SplitReplica>,
    /// The generation that it has come to.
    pub generation: u64,
    /// The line of descent of its data.
    pub lineage: String,
    /// The coordinator identity that committed its views.
    pub coordinator: String,
    /// When a superblock of it was saved last.
    pub saved: Option<u64>,
    /// When it parted from what was before.
    pub parted: Option<u64>,
}

/// A replica of a side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitReplica {
    /// Its identity.
    pub id: String,
    /// Where it is: its node and disk, or a path on this node.
    pub place: String,
    /// Index of its mirror.
    pub mirror: usize,
}

/// How the data of a side differ from those of the first one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitDifference {
    /// The side, by its number in the list, from 0.
    pub side: usize,
    /// Blocks of 4 KiB that differ.
    pub blocks: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// Where: at most 10,000 ranges.
    pub ranges: Vec<DifferingRange>,
    /// Whether `ranges` has all of them.
    pub complete: bool,
}

/// Blocks that differ and lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DifferingRange {
    /// Index of the mirror.
    pub mirror: usize,
    /// First byte in the data of the mirror's replicas.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

//! Stopping volumes, and putting them together from their disks.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::VolumeStatus;
use crate::ApiError;

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

/// Puts volumes together from the disks of this node, those of the cluster's other nodes, and
/// paths.
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
    /// After a split brain: the branch of this replica is kept, and the others are rebuilt from it.
    /// Its identity, at least 4 digits from its start, or `NODE:DISK`.
    pub keep: Option<String>,
    /// With `keep`: a file on this node, absolute and not there yet, for the blocks of the other
    /// branch that differ; beside it the list of them, with the ending `.list`.
    pub save_differing: Option<String>,
    /// For one volume: the identities of the replicas whose data may be discarded, as the plan
    /// tells them. If another one's would be, nothing is done. Without it: whichever they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discards: Option<Vec<String>>,
}

/// Of which assembly the plan is asked for, as in the request for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AssemblePlanQuery {
    /// One volume, by name or identity; without it all that are found.
    pub volume: Option<String>,
    /// Devices, directories or replica files to look at as well, each on a line of its own.
    pub paths: Option<String>,
    /// Go on without in-sync replicas that are not found.
    pub force: bool,
    /// The branch of this replica is kept.
    pub keep: Option<String>,
    /// A file for the blocks of the other branch that differ.
    pub save_differing: Option<String>,
}

/// What putting volumes together would keep and discard.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AssemblePlanAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The volumes, each with the outcome that it would have.
    pub volumes: Vec<AssemblePlan>,
    /// What could not be looked at, a sentence each.
    pub warnings: Vec<String>,
}

/// What an assembly would do to one volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AssemblePlan {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The outcome that the assembly would have.
    pub outcome: AssembleOutcome,
    /// What would be done, in a sentence.
    pub message: String,
    /// The error with which it would be refused; `null` if it would not.
    pub error: Option<ApiError>,
    /// How the branches differ, after a split brain without `keep`.
    pub split: Option<SplitBrain>,
    /// The replicas that would count as in-sync: their data are the volume's.
    pub keeps: Vec<KeptReplica>,
    /// Those that lack something already: what they lack would be copied to them.
    pub rebuilds: Vec<KeptReplica>,
    /// Those whose newest data would be lost: of branches that are not kept, and in-sync ones that
    /// were not found.
    pub discards: Vec<DiscardedReplica>,
}

/// A replica that would stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptReplica {
    /// Its identity.
    pub id: String,
    /// Where it is: its node and disk, or a path on this node.
    pub place: String,
    /// Index of its mirror.
    pub mirror: usize,
    /// The generation of its view; `null`: it was not found.
    pub generation: Option<u64>,
    /// When its superblock was saved last, in seconds since 1970.
    pub saved: Option<u64>,
}

/// A replica whose data would be discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiscardedReplica {
    /// Its identity.
    pub id: String,
    /// Where it is: its node and disk, or a path on this node.
    pub place: String,
    /// Index of its mirror.
    pub mirror: usize,
    /// The generation of its view; `null`: it was not found.
    pub generation: Option<u64>,
    /// When its superblock was saved last, in seconds since 1970.
    pub saved: Option<u64>,
    /// Bytes of it that differ from what is kept, and would be overwritten; `null`: nobody can
    /// tell, as it was not found or cannot be read.
    pub loses: Option<u64>,
}

/// Answer to `POST /v1/assemble`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AssembleAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The volumes, each with its outcome.
    pub volumes: Vec<Assembled>,
    /// What could not be looked at, a sentence each.
    pub warnings: Vec<String>,
}

/// The outcome of an assembly for one volume.
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
    /// The outcome.
    pub outcome: AssembleOutcome,
    /// What was done, in a sentence.
    pub message: String,
    /// The error with which it was refused; `null` if it was not.
    pub error: Option<ApiError>,
    /// How the branches differ, after a split brain.
    pub split: Option<SplitBrain>,
}

/// Replicas that have diverged from each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitBrain {
    /// The branches, the newest first.
    pub branches: Vec<SplitBranch>,
    /// How each other branch differs from the first; `null` if the data could not be compared.
    pub differences: Vec<SplitDifference>,
    /// Why the data were not compared, if so.
    pub not_compared: Option<String>,
}

/// One branch of a split brain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitBranch {
    /// Its replicas.
    pub replicas: Vec<SplitReplica>,
    /// The generation that it has come to.
    pub generation: u64,
    /// The identity of the history of its data: each assembly from disks begins another one.
    pub history: String,
    /// The coordinator identity that committed its views.
    pub coordinator: String,
    /// When a superblock of it was saved last, in seconds since 1970.
    pub saved: Option<u64>,
    /// When it diverged from what was before, in seconds since 1970.
    pub diverged: Option<u64>,
}

/// A replica of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitReplica {
    /// Its identity.
    pub id: String,
    /// Where it is: its node and disk, or a path on this node.
    pub place: String,
    /// Index of its mirror.
    pub mirror: usize,
}

/// How the data of a branch differ from those of the first one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitDifference {
    /// The branch, by its number in the list, from 0.
    pub branch: usize,
    /// Blocks of 4 KiB that differ.
    pub blocks: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// The ranges that differ, at most 10,000.
    pub ranges: Vec<DifferingRange>,
    /// True if `ranges` has all of them.
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

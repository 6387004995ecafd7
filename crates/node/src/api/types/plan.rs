//! What a command would take away, told before it does.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{NodeRef, ReplicaState};

/// What a command takes away, and what is left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// The replicas that leave their volumes, with their data.
    pub removes: Vec<LostReplica>,
    /// The mirrors that lose one.
    pub leaves: Vec<LeftMirror>,
}

/// A replica that leaves its volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostReplica {
    /// The volume's name.
    pub volume: String,
    /// Its identity.
    pub id: String,
    /// Index of its mirror.
    pub mirror: usize,
    /// Its node.
    pub node: NodeRef,
    /// Name of its disk.
    pub disk: String,
    /// What it is to its mirror.
    pub state: ReplicaState,
    /// Bytes of data that it has room for.
    pub size: u64,
}

/// What is left of a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftMirror {
    /// The volume's name.
    pub volume: String,
    /// Index of the mirror.
    pub mirror: usize,
    /// Where its in-sync replicas are, as `NODE:DISK`.
    pub in_sync: Vec<String>,
    /// How many replicas there are in all, spares too.
    pub replicas: usize,
}

/// How a node is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RemoveNodeQuery {
    /// Tell what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// The identities of the replicas that were agreed to be lost, with commas between them: if they are
    /// not those that would be, nothing is done.
    #[serde(default)]
    pub removes: Option<String>,
}

/// Answer to the removal of a node.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RemoveNodeAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// Whether it was removed now; not by a dry run, nor if it had been before.
    pub removed: bool,
    /// What is taken away with it.
    pub plan: Plan,
    /// What was done, in a sentence.
    pub message: String,
}

//! What a command would take away, reported before it does.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{NodeRef, Registrant, ReplicaReach, ReplicaState};

/// What a command takes away, and what is left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// The replicas that leave their volumes, with their data.
    pub removes: Vec<LostReplica>,
    /// The replicas that are taken out of use. They keep their data.
    #[serde(default)]
    pub fails: Vec<LostReplica>,
    /// The hosts that lose their registration, and the reservation with it if they hold it.
    #[serde(default)]
    pub unregisters: Vec<Registrant>,
    /// The nodes from which the volume would be detached.
    #[serde(default)]
    pub detaches: Vec<NodeRef>,
    /// The mirrors that lose one, and go on.
    pub leaves: Vec<LeftMirror>,
}

/// What a command would take away. Where the command would be refused, so is the question.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PlanAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// What is taken away.
    pub plan: Plan,
    /// What would be done, in a sentence.
    pub message: String,
}

/// Of which change of a volume the plan is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChangePlanQuery {
    /// Copies of each mirror, as in the change.
    pub replicas: usize,
    /// Permit a node that holds another replica of the mirror.
    #[serde(default)]
    pub same_node: bool,
    /// Promise more than there is.
    #[serde(default)]
    pub thin: bool,
}

impl ChangePlanQuery {
    /// As a part of a path. What older software does not know stands there only if it is asked for.
    #[must_use]
    pub fn text(&self) -> String {
        let replicas = self.replicas;
        match (self.same_node, self.thin) {
            (false, false) => format!("?replicas={replicas}"),
            (same_node, thin) => format!("?replicas={replicas}&same_node={same_node}&thin={thin}"),
        }
    }
}

/// Of which disk the plan is asked for, as in the request to add it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AddDiskPlanQuery {
    /// A block device, partition or directory on this node; absolute.
    pub path: String,
    /// Its name; without one, the last part of the path.
    #[serde(default)]
    pub name: Option<String>,
    /// Take it even if it carries a known signature, whose data is lost.
    #[serde(default)]
    pub force: bool,
}

/// Where the plan of a replacement is to put the new replica, as in the request to add it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReplicaPlanQuery {
    /// `NODE:DISK`, or `NODE`.
    #[serde(default)]
    pub on: Option<String>,
    /// Permit a node that holds another replica of the mirror.
    #[serde(default)]
    pub same_node: bool,
    /// Promise more than there is.
    #[serde(default)]
    pub thin: bool,
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
    /// Its state in its mirror.
    pub state: ReplicaState,
    /// Whether it answers; `null` from software that does not say, and of what lies on a disk.
    #[serde(default)]
    pub reach: Option<ReplicaReach>,
    /// Bytes of data that it has room for.
    pub size: u64,
}

/// What a mirror keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftMirror {
    /// The volume's name.
    pub volume: String,
    /// Index of the mirror.
    pub mirror: usize,
    /// Where its in-sync replicas are, as `NODE:DISK`; none on nodes that are dead.
    pub in_sync: Vec<String>,
    /// How many replicas there are in all, spares too.
    pub replicas: usize,
}

/// The replicas that the removal of a node may take out of their volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RemoveNodeQuery {
    /// The identities of the replicas that may be lost, with commas between them, as the plan tells
    /// them. If another one would be, nothing is done. Needed if any would be.
    #[serde(default)]
    pub removes: Option<String>,
}

/// Answer to the removal of a node.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RemoveNodeAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// Whether it was removed now; not if it had been before.
    pub removed: bool,
    /// What is taken away with it.
    pub plan: Plan,
    /// What was done, in a sentence.
    pub message: String,
}

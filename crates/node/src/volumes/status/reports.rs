//! What the nodes of replicas answer when they are asked whether they serve them. A view does not
//! say that, and the coordinator knows of each node only whether it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::ErrorCode;
use evenkeel_core::{NodeId, ReplicaId, View};
use hyper::Method;

use crate::coordinator::NodeLiveness;
use crate::disks::{Risk, Unserved};
use crate::peer::requests::{CONDITIONS, PeerReplica, PeerReplicas};
use crate::tasks;
use crate::volumes::Node;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long one may that is thought to be dead, or if another node waits for this one's answer.
const SHORT_PATIENCE: Duration = Duration::from_secs(1);

/// What nodes have answered.
#[derive(Debug, Clone, Default)]
pub(in crate::volumes) struct Reports {
    /// Whether each node that was asked has answered.
    nodes: BTreeMap<NodeId, bool>,
    /// Those of them that have said what is wrong with their replicas, if anything is.
    reported: BTreeSet<NodeId>,
    unserved: BTreeMap<ReplicaId, Unserved>,
    risks: BTreeMap<ReplicaId, Risk>,
}

impl Reports {
    /// Whether a node has answered; `None`: it was not asked.
    pub(in crate::volumes) fn answered(&self, node: NodeId) -> Option<bool> {
        self.nodes.get(&node).copied()
    }

    /// Whether a node has said that nothing is wrong with this replica of it.
    pub(super) fn is_well(&self, node: NodeId, replica: ReplicaId) -> bool {
        let is_known = self.risks.contains_key(&replica) || self.unserved.contains_key(&replica);
        self.reported.contains(&node) && !is_known
    }

    /// What is wrong with a replica that is served, if its node has said so.
    pub(super) fn risk(&self, replica: ReplicaId) -> Option<Risk> {
        self.risks.get(&replica).cloned()
    }

    /// With what was heard later.
    pub(super) fn extend(&mut self, later: Self) {
        self.nodes.extend(later.nodes);
        self.reported.extend(later.reported);
        self.unserved.extend(later.unserved);
        self.risks.extend(later.risks);
    }

    /// With what is known besides to be wrong with replicas that are served.
    pub(super) fn with_risks(mut self, risks: impl Iterator<Item = (ReplicaId, Risk)>) -> Self {
        self.risks.extend(risks);
        self
    }

    /// With what a node says of replicas that it does not serve. Of no other one it says so.
    pub(super) fn with_reported(
        mut self,
        node: NodeId,
        unserved: impl Iterator<Item = (ReplicaId, Unserved)>,
    ) -> Self {
        self.reported.insert(node);
        self.unserved.extend(unserved);
        self
    }

    /// Nodes that were asked, and whether they have answered: each replica is as it should be.
    #[cfg(test)]
    pub(super) fn of_nodes(nodes: [(NodeId, bool); 2]) -> Self {
        let reported =
            nodes.iter().filter(|(_, answers)| *answers).map(|(node, _)| *node).collect();
        Self { nodes: nodes.into(), reported, ..Self::default() }
    }

    /// With a replica that its node does not serve.
    #[cfg(test)]
    pub(super) fn with_unserved(mut self, replica: ReplicaId, why: Unserved) -> Self {
        self.unserved.insert(replica, why);
        self
    }

    /// Why its node does not serve a replica, if it has said so.
    pub(super) fn unserved(&self, replica: ReplicaId) -> Option<Unserved> {
        self.unserved.get(&replica).cloned()
    }
}

/// How long a node is waited for; `is_awaited`: another node waits for the answer that comes of it.
pub(super) const fn patience(member: &NodeLiveness, is_awaited: bool) -> Duration {
    if is_awaited || !member.may_live { SHORT_PATIENCE } else { PATIENCE }
}

/// Asks the other nodes of the replicas in these views, many at the same time, and each once.
pub(super) async fn ask(
    node: &Arc<Node>,
    views: impl IntoIterator<Item = &View>,
    is_awaited: bool,
) -> Reports {
    let records = views.into_iter().flat_map(View::replicas).map(|(_, record)| record);
    let asked = records.map(|record| (record.node, record.id)).collect();
    ask_of(node, asked, is_awaited).await
}

/// Asks the other nodes of these replicas, by node, many at the same time, and each once.
pub(super) async fn ask_of(
    node: &Arc<Node>,
    replicas: Vec<(NodeId, ReplicaId)>,
    is_awaited: bool,
) -> Reports {
    let mut by_node: BTreeMap<NodeId, BTreeSet<ReplicaId>> = BTreeMap::new();
    for (at, replica) in replicas.into_iter().filter(|(at, _)| *at != node.identity.node) {
        by_node.entry(at).or_default().insert(replica);
    }
    ask_nodes(node, by_node, is_awaited).await
}

/// Asks nodes of these replicas of theirs, many at the same time. Of none: whether they answer.
pub(in crate::volumes) async fn ask_nodes(
    node: &Arc<Node>,
    by_node: BTreeMap<NodeId, BTreeSet<ReplicaId>>,
    is_awaited: bool,
) -> Reports {
    let asked = by_node.into_iter().filter_map(|(id, replicas)| {
        let (node, member) = (node.clone(), node.coordinator.node(id)?);
        Some(async move {
            let patience = patience(&member, is_awaited);
            let answer =
                tokio::time::timeout(patience, ask_one(&node, &member, &replicas, patience));
            (id, answer.await.unwrap_or(Answer::None))
        })
    });
    let mut reports = Reports::default();
    for answer in tasks::at_most(tasks::MAX_ASKED, asked).await {
        let Ok((id, answer)) = answer else { continue };
        reports.nodes.insert(id, !matches!(answer, Answer::None));
        let Answer::Reported(reported) = answer else { continue };
        reports.reported.insert(id);
        reports.unserved.extend(reported.iter().filter_map(PeerReplica::unserved));
        reports.risks.extend(reported.iter().filter_map(PeerReplica::risk));
    }
    reports
}

/// What a node says of its replicas.
enum Answer {
    /// It does not answer.
    None,
    /// It answers, and says nothing of them: it refuses the question, or does not know it.
    Nothing,
    /// Those that it does not serve, or with which something is wrong.
    Reported(Vec<PeerReplica>),
}

async fn ask_one(
    node: &Node,
    member: &NodeLiveness,
    replicas: &BTreeSet<ReplicaId>,
    patience: Duration,
) -> Answer {
    let question = PeerReplicas { replicas: replicas.iter().map(ToString::to_string).collect() };
    let (path, body) = (CONDITIONS, Some(&question));
    let answer =
        node.cluster.forward::<_, Vec<PeerReplica>>(member, Method::POST, path, body, patience);
    match answer.await {
        Ok(reported) => Answer::Reported(reported),
        Err(e) if matches!(e.code, ErrorCode::NodeUnreachable | ErrorCode::TimedOut) => {
            Answer::None
        }
        Err(error) => {
            tracing::debug!(node = member.node.name, %error, "it says nothing of its replicas");
            Answer::Nothing
        }
    }
}

/// What this node answers: of these replicas those that it does not serve, or with which something
/// is wrong.
pub(crate) fn here(node: &Node, asked: &PeerReplicas) -> Vec<PeerReplica> {
    let name = &node.identity.name;
    let unadmitted = (!node.admission.may_serve_replicas()).then(|| {
        Unserved::Away(format!(
            "node {name} waits for the coordinator to admit it, and serves none"
        ))
    });
    let ids = asked.replicas.iter().filter_map(|id| id.parse::<ReplicaId>().ok());
    let of = |id: ReplicaId| match unadmitted.clone().or_else(|| node.disks.why_not_served(id)) {
        Some(unserved) => Some(PeerReplica::new(id, &unserved)),
        None => node.disks.risk(id).map(|risk| PeerReplica::at_risk(id, &risk)),
    };
    ids.filter_map(of).collect()
}

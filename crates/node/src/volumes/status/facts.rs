//! The facts from which a volume's condition follows: gathered from the view, the coordinator's
//! word on nodes, the primary here, this node's disks, and what the nodes of replicas have
//! answered.

use evenkeel_core::primary::PrimaryStatus;
use evenkeel_core::{ReplicaRecord, View};

use super::condition::ReplicaFacts;
use super::reports::Reports;
use crate::coordinator::VolumeRecord;
use crate::disks::Unserved;
use crate::volumes::{Attached, Node};

/// What is known of each replica without a primary, by mirror.
pub(super) fn of_view(
    node: &Node,
    record: &VolumeRecord,
    view: &View,
    reports: &Reports,
) -> Vec<Vec<ReplicaFacts>> {
    by_mirror(view, |replica| {
        let mut facts = of_replica(node, record, replica);
        facts.answered = reports.answered(replica.node);
        // Here the coordinator has not heard a node yet that has just come back: that is no fault
        // of a network.
        if facts.answered == Some(true) && node.config.coordinator.here {
            facts.node_alive = Some(true);
        }
        let unserved = reports.unserved(replica.id).filter(|it| is_unexpected(record, it));
        facts.unserved = facts.unserved.or(unserved);
        let risk = reports.risk(replica.id).filter(|_| !record.stopped);
        facts.risk = facts.risk.or(risk);
        facts
    })
}

/// What is known of each replica with the primary on this node, by mirror.
pub(super) fn of_attached(
    node: &Node,
    attached: &Attached,
    core: &PrimaryStatus,
    view: &View,
) -> Vec<Vec<ReplicaFacts>> {
    let record = attached.record();
    let unserved = attached.unserved();
    let diverged = attached.diverged();
    by_mirror(view, |replica| {
        let mut facts = of_replica(node, &record, replica);
        facts.diverged = diverged.contains(&replica.id);
        facts.unserved = facts
            .unserved
            .or_else(|| unserved.get(&replica.id).cloned())
            .or_else(|| node.volumes.risks.unserved(replica.id));
        facts.risk = facts.risk.or_else(|| node.volumes.risks.of(replica.id));
        let Some(peer) = core.replicas.iter().find(|peer| peer.replica == replica.id) else {
            return facts;
        };
        // Who is being attached has not tried all of them yet.
        let has_tried = peer.connected || !attached.phase().is_opening();
        facts.connected = has_tried.then_some(peer.connected);
        facts.may_be_out_of_sync = peer.may_be_out_of_sync;
        match peer.leaving {
            Some((state, cause)) => facts.leaving(state, cause),
            None => facts,
        }
    })
}

fn by_mirror(
    view: &View,
    facts: impl Fn(&ReplicaRecord) -> ReplicaFacts,
) -> Vec<Vec<ReplicaFacts>> {
    let mirrors = view.mirrors.iter();
    mirrors.map(|mirror| mirror.replicas.iter().map(&facts).collect()).collect()
}

/// The replicas of a stopped volume are closed on purpose; nothing else is to be wrong with them.
const fn is_unexpected(record: &VolumeRecord, unserved: &Unserved) -> bool {
    !record.stopped || !matches!(unserved, Unserved::Stopped(_))
}

/// Why this node does not serve a replica of its own. `None`: it does, it is another node's, or the
/// volume is stopped, and the replica there.
pub(super) fn unserved_here(
    node: &Node,
    record: &VolumeRecord,
    replica: &ReplicaRecord,
) -> Option<Unserved> {
    let is_here = replica.node == node.identity.node;
    let unserved = is_here.then(|| node.disks.why_not_served(replica.id)).flatten();
    unserved.filter(|it| is_unexpected(record, it))
}

fn of_replica(node: &Node, record: &VolumeRecord, replica: &ReplicaRecord) -> ReplicaFacts {
    let here = replica.node == node.identity.node;
    // Right after the coordinator's start nothing may be known of a node.
    let alive = || {
        let member = node.coordinator.node(replica.node)?;
        let is_known = member.alive == member.may_live && node.coordinator.status().reachable;
        is_known.then_some(member.alive)
    };
    let id = replica.id.to_string();
    ReplicaFacts {
        node: node.coordinator.node_ref(replica.node).name,
        disk: record
            .replicas
            .iter()
            .find(|placed| placed.id == id)
            .map(|placed| placed.disk.clone()),
        state: replica.state,
        cause: replica.cause,
        leaves: false,
        diverged: false,
        unserved: unserved_here(node, record, replica),
        risk: here.then(|| node.disks.risk(replica.id)).flatten(),
        connected: None,
        may_be_out_of_sync: false,
        node_alive: if here { Some(true) } else { alive() },
        answered: None,
        reporter: node.identity.name.clone(),
    }
}

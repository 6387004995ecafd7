//! Replicas of attached volumes that are served, and with which something is wrong: they are gone
//! when their nodes' daemons end, as their files were deleted, or their disks moved or unmounted; or
//! their disks can't be written any more. No operation fails, so no primary learns of that from a
//! session. Those of this node are known by looks at its disks; other nodes are
//! asked now and then, so that a status tells of all of them without a wait. So is why a replica is
//! not served: a primary connects to no faulty one, and learns nothing of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_core::{NodeId, ReplicaId, ReplicaRecord};

use super::hearing::{self, Heard};
use crate::coordinator::PlacedReplica;
use crate::disks::{Risk, Unserved};
use crate::node::Node;
use crate::volumes::lookup::place_of;
use crate::volumes::{Attached, lock};

/// The pause between two questions.
const PAUSE: Duration = Duration::from_secs(3);

/// For so long a disk has to be heard to be unwritable, without a break, before anything follows
/// from it. Others may have failed from the same cause: by then each node has looked at its disks
/// and was asked.
const SETTLED: Duration = Duration::from_secs(10);

/// What the last round has heard: nothing in it is older.
#[derive(Debug, Default)]
struct Fresh {
    /// Replicas whose disks can't be written, and since when each round has heard that.
    unwritable: BTreeMap<ReplicaId, Instant>,
    /// Those of which their nodes have said that nothing is wrong with them.
    well: BTreeSet<ReplicaId>,
}

/// Replicas that are to leave for their disks, and those beside which they may.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::volumes) struct Settled {
    /// Their disks can't be written, and that is no news.
    pub(in crate::volumes) unwritable: BTreeSet<ReplicaId>,
    /// Their nodes have just said that nothing is wrong with them.
    pub(in crate::volumes) well: BTreeSet<ReplicaId>,
}

/// What is wrong with each of them, as its node has said last.
#[derive(Debug, Default)]
pub struct Gone {
    risks: Mutex<BTreeMap<ReplicaId, Risk>>,
    /// Those that their nodes do not serve, as these have said when they were asked last.
    unserved: Mutex<BTreeMap<ReplicaId, Unserved>>,
    fresh: Mutex<Fresh>,
}

impl Gone {
    pub(super) fn risk(&self, replica: ReplicaId) -> Option<Risk> {
        lock(&self.risks).get(&replica).cloned()
    }

    /// What is certain enough for replicas to leave.
    pub(in crate::volumes) fn settled(&self, now: Instant) -> Settled {
        let fresh = lock(&self.fresh);
        let is_old = |since: &Instant| now.duration_since(*since) >= SETTLED;
        let unwritable = fresh.unwritable.iter().filter(|(_, since)| is_old(since));
        Settled { unwritable: unwritable.map(|(id, _)| *id).collect(), well: fresh.well.clone() }
    }

    /// Takes note of what was heard this time; what was not heard is not known any more.
    fn note_fresh(&self, asked: &[(NodeId, ReplicaId)], heard: &Heard, now: Instant) {
        let mut fresh = lock(&self.fresh);
        let before = std::mem::take(&mut *fresh);
        for (node, replica) in asked {
            if heard.is_well(*node, *replica) {
                fresh.well.insert(*replica);
            } else if heard.risk(*replica).is_some_and(|risk| risk.is_read_only()) {
                let since = before.unwritable.get(replica).copied().unwrap_or(now);
                fresh.unwritable.insert(*replica, since);
            }
        }
    }

    /// Why its node does not serve a replica, if it has said so when it was asked last.
    pub(super) fn unserved(&self, replica: ReplicaId) -> Option<Unserved> {
        lock(&self.unserved).get(&replica).cloned()
    }

    /// Takes note of what is so now of these replicas, and forgets all others. Of a node that has
    /// not answered what it said last stays. Returns the replicas of which it is news.
    fn note(&self, asked: &[(NodeId, ReplicaId)], heard: &Heard) -> Vec<ReplicaId> {
        let unserved = asked.iter().filter_map(|(_, id)| Some((*id, heard.unserved(*id)?)));
        *lock(&self.unserved) = unserved.collect();
        let mut gone = lock(&self.risks);
        let before = std::mem::take(&mut *gone);
        for (node, replica) in asked {
            let last = before.get(replica).filter(|_| heard.answered(*node) == Some(false));
            if let Some(risk) = heard.risk(*replica).or_else(|| last.cloned()) {
                gone.insert(*replica, risk);
            }
        }
        gone.keys().filter(|replica| !before.contains_key(replica)).copied().collect()
    }
}

/// Asks for the replicas of all volumes that are attached here, until the daemon ends.
pub async fn watch(node: Arc<Node>) {
    let mut stopping = node.stopping.subscribe();
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        let attached = node.volumes.all();
        let asked: Vec<_> = attached.iter().flat_map(|attached| replicas(attached)).collect();
        let heard = hearing::ask_of(&node, asked.clone(), true).await;
        let here = |(at, _): &&(NodeId, ReplicaId)| *at == node.identity.node;
        let own: Vec<ReplicaId> = asked.iter().filter(here).map(|it| it.1).collect();
        let risks = own.iter().filter_map(|id| Some((*id, node.disks.risk(*id)?)));
        let heard = heard.with_risks(risks);
        let unserved = own.iter().filter_map(|id| Some((*id, node.disks.why_not_served(*id)?)));
        let with_own = heard.clone().with_told(node.identity.node, unserved);
        node.volumes.gone.note_fresh(&asked, &with_own, Instant::now());
        for replica in node.volumes.gone.note(&asked, &heard) {
            tell(&node, &attached, replica);
        }
    }
}

/// The replicas of a volume, and their nodes.
fn replicas(attached: &Attached) -> Vec<(NodeId, ReplicaId)> {
    let record = attached.record();
    let of = |placed: &PlacedReplica| Some((placed.node.parse().ok()?, placed.id.parse().ok()?));
    record.replicas.iter().filter(|placed| !placed.removed).filter_map(of).collect()
}

fn tell(node: &Node, attached: &[Arc<Attached>], replica: ReplicaId) {
    let has_it = |attached: &&Arc<Attached>| replicas(attached).iter().any(|it| it.1 == replica);
    let Some(attached) = attached.iter().find(has_it) else { return };
    let Some(risk) = node.volumes.gone.risk(replica) else { return };
    let place = place_of(node, attached, replica);
    let what = match risk {
        Risk::FileGone(_) => "is gone when its node's daemon ends",
        Risk::ReadOnly(_) => "can't be written",
    };
    let text = format!("the replica on {place} {what}: {}", risk.why());
    tracing::warn!(volume = attached.name(), "{text}");
    attached.event(text);
}

/// What is wrong with a replica that is served, as its node says now. `None`: nothing is, or the
/// node does not answer.
pub(super) async fn ask(node: &Arc<Node>, record: &ReplicaRecord) -> Option<Risk> {
    if record.node == node.identity.node {
        return node.disks.risk(record.id);
    }
    let heard = hearing::ask_of(node, vec![(record.node, record.id)], false).await;
    heard.risk(record.id)
}

#[cfg(test)]
mod tests;

//! What a command takes away, told before it does.

use evenkeel_core::{ReplicaRecord, View};

use super::lookup::Found;
use super::{replica, words};
use crate::api::types::{LeftMirror, LostReplica, Plan};
use crate::node::Node;

/// Adds what a volume loses by its next view, and what that leaves.
pub(super) fn add(plan: &mut Plan, node: &Node, found: &Found, next: &View) {
    let volume = &found.stored.record.name;
    for (mirror, now) in found.view.mirrors.iter().enumerate() {
        let is_gone = |record: &&ReplicaRecord| next.replica(record.id).is_none();
        let lost: Vec<_> = now.replicas.iter().filter(is_gone).collect();
        if lost.is_empty() {
            continue;
        }
        plan.removes.extend(lost.into_iter().map(|record| {
            let id = record.id.to_string();
            let placed = found.stored.record.replicas.iter().find(|placed| placed.id == id);
            LostReplica {
                volume: volume.clone(),
                mirror,
                node: node.coordinator.node_ref(record.node),
                disk: placed.map_or_else(|| "?".into(), |placed| placed.disk.clone()),
                state: words::state(record.state),
                size: found.view.replica_size(),
                id,
            }
        }));
        let left = next.mirrors.get(mirror);
        let in_sync = left.iter().flat_map(|mirror| mirror.in_sync());
        plan.leaves.push(LeftMirror {
            volume: volume.clone(),
            mirror,
            in_sync: in_sync.map(|r| replica::places(node, found, r)[0].clone()).collect(),
            replicas: left.map_or(0, |mirror| mirror.replicas.len()),
        });
    }
}

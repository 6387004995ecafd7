//! What the primaries of a volume say of it. Each knows its own sessions and requests: of a shared
//! volume all are asked, and the worst counts.

use std::sync::Arc;

use evenkeel_api::routes;
use evenkeel_api::types::{NodeRef, PrimaryStatus, StatusSource, VolumeAnswer, VolumeStatus};
use evenkeel_core::NodeId;
use hyper::Method;

use super::condition::own;
use super::condition::together::{self, Reported};
use super::reports;
use crate::clock::unix_seconds;
use crate::cluster;
use crate::coordinator::{NodeLiveness, VolumeRecord};
use crate::volumes::Node;
use crate::volumes::attachment::wanted;
use crate::volumes::lookup::{Found, primaries_elsewhere};
use crate::volumes::{messages, status};

/// From the primaries that answer, here and elsewhere, or from who would like to be one: it knows
/// why it is not yet. `None`: nobody answers. `forwarded`: another node asks, which asks the others
/// itself.
pub(super) async fn report(
    node: &Arc<Node>,
    found: &Found,
    forwarded: bool,
) -> Option<VolumeStatus> {
    if let Some(attached) = node.volumes.get(found.view.volume)
        && let Some(status) = status::of_attached(node, &attached).await
    {
        return Some(match forwarded {
            true => status,
            false => with_others(node, status).await,
        });
    }
    if forwarded {
        return None;
    }
    let primaries: Vec<NodeId> = primaries_elsewhere(node, &found.view).collect();
    let asked = match primaries.is_empty() {
        true => wanted::elsewhere(node, &found.stored.record).take(1).collect(),
        false => primaries,
    };
    together(node, Vec::new(), asked, &found.stored.record.id).await
}

/// What the primary here says, with what the others of a shared volume do.
pub(super) async fn with_others(node: &Arc<Node>, status: VolumeStatus) -> VolumeStatus {
    beside(node, node.reference(), status).await
}

/// What the primary on this node says, with what the others of a shared volume do, each of which is
/// asked, but for the one here.
pub(super) async fn beside(
    node: &Arc<Node>,
    reporter: NodeRef,
    status: VolumeStatus,
) -> VolumeStatus {
    let own = node.reference().id;
    let is_other = |primary: &&PrimaryStatus| {
        !primary.here && primary.node.id != reporter.id && primary.node.id != own
    };
    let others = status.primaries.iter().filter(is_other).filter_map(|p| p.node.id.parse().ok());
    let (others, id): (Vec<NodeId>, _) = (others.collect(), status.id.clone());
    if others.is_empty() {
        return status;
    }
    let reported = Reported { node: reporter, status: status.clone() };
    together(node, vec![reported], others, &id).await.unwrap_or(status)
}

/// Asks these nodes, all at the same time.
async fn together(
    node: &Arc<Node>,
    mut reported: Vec<Reported>,
    others: Vec<NodeId>,
    volume: &str,
) -> Option<VolumeStatus> {
    let mut asked = Vec::new();
    for id in others {
        let Some(member) = node.coordinator.node(id) else { continue };
        let (node, volume) = (node.clone(), volume.to_owned());
        asked.push(tokio::spawn(async move {
            let status = reported_by(&node, &member, &volume, true).await;
            (node.coordinator.node_ref(id), member, status)
        }));
    }
    let (mut notes, mut silent) = (Vec::new(), Vec::new());
    for answer in asked {
        let Ok((reference, member, status)) = answer.await else { continue };
        // On the coordinator's own node it has just come back, and the coordinator hears it in a
        // moment.
        let is_unseen = !member.may_live
            && node.coordinator.status().reachable
            && !node.config.coordinator.here;
        match status {
            Some(status) => {
                if is_unseen {
                    notes.push(messages::unseen(&reference.name, &node.identity.name));
                }
                reported.push(Reported { node: reference, status });
            }
            None => {
                notes.push(together::note_of_silent(&reference.name, &node.identity.name));
                silent.push(reference.id);
            }
        }
    }
    // Who has not attached it tells it better than nobody, and worse than who has.
    if reported.iter().any(|reported| reported.status.source == StatusSource::Primary) {
        reported.retain(|reported| reported.status.source == StatusSource::Primary);
    }
    let mut status = together::worst(reported, notes, unix_seconds())?;
    // The coordinator may have heard it a moment ago, or be away itself.
    for primary in status.primaries.iter_mut().filter(|it| silent.contains(&it.node.id)) {
        primary.alive = false;
    }
    Some(status)
}

/// What another node says of a volume that is attached nowhere, and was there last, if it answers.
pub(super) async fn reported_where_used(
    node: &Arc<Node>,
    record: &VolumeRecord,
) -> Option<VolumeStatus> {
    let last = record.used_on.as_deref()?.parse::<NodeId>().ok()?;
    let member = node.coordinator.node(last).filter(|member| member.may_live)?;
    if last == node.identity.node {
        return None;
    }
    reported_by(node, &member, &record.id, true).await
}

/// From the primary on another node, if it answers.
pub(super) async fn reported_by(
    node: &Arc<Node>,
    member: &NodeLiveness,
    volume: &str,
    is_hurried: bool,
) -> Option<VolumeStatus> {
    let path = routes::fill(routes::VOLUME, &[volume]);
    let deadline = match is_hurried && !member.may_live {
        true => reports::patience(member, false),
        false => cluster::QUESTION,
    };
    let answer =
        node.cluster.forward::<(), VolumeAnswer>(member, Method::GET, &path, None, deadline);
    let answer = tokio::time::timeout(deadline, answer);
    let mut status = answer.await.ok()?.ok()?.volume;
    for primary in &mut status.primaries {
        primary.here = false;
    }
    own::correct(&mut status, &node.reference(), &member.node.name);
    Some(status)
}

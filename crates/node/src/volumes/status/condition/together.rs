//! What several primaries say of one volume, as one status: of each replica the worst, and who says
//! it.

use evenkeel_api::types::{
    FailedRequests, NodeRef, ReplicaReach, ReplicaStatus, VolumeState, VolumeStatus,
};

use crate::volumes::messages;

use super::{health_of, judge, note_failures, rank, reason, sum_up};

/// What a primary says.
#[derive(Debug, Clone)]
pub struct Reported {
    /// Its node.
    pub node: NodeRef,
    /// What it says.
    pub status: VolumeStatus,
}

/// One status of all. `notes`: what is to be said beside it. `None`: nobody has said anything.
///
/// Of replicas only those count that go by the newest view: who goes by an older one does not know
/// who has left since, and calls those stale that serve. Who is no primary in the newest view is
/// one no more, and that is all that is said of it. `now` in seconds since 1970.
#[must_use]
pub fn worst(mut reported: Vec<Reported>, notes: Vec<String>, now: u64) -> Option<VolumeStatus> {
    let newest = reported.iter().map(|reported| reported.status.generation).max()?;
    let first = reported.iter().position(|reported| reported.status.generation == newest)?;
    let base = reported.swap_remove(first);
    let (evicted, others): (Vec<_>, Vec<_>) =
        reported.into_iter().partition(|other| is_evicted(other, &base.status));
    let notes: Vec<String> = evicted.iter().map(words_of_evicted).chain(notes).collect();
    if others.is_empty() {
        return Some(alone(base, notes));
    }
    let mut status = base.status.clone();
    let current: Vec<_> = others.iter().filter(|other| other.status.generation == newest).collect();
    for replica in status.mirrors.iter_mut().flat_map(|mirror| &mut mirror.replicas) {
        worst_of(replica, &base.node.name, &current);
    }
    sum_up(&mut status.mirrors);
    others.iter().for_each(|other| add(&mut status, other));
    judge(&mut status);
    let own = why_not_served(&base, true).into_iter();
    let own = own.chain(others.iter().filter_map(|other| why_not_served(other, false)));
    let own: Vec<String> = own.chain(notes).collect();
    status.reason = reason((!own.is_empty()).then(|| own.join("; ")), &status);
    note_failures(&mut status, now);
    Some(status)
}

/// What one says, with what is to be said beside it: its reason has all else that it knows.
fn alone(reported: Reported, notes: Vec<String>) -> VolumeStatus {
    let mut status = reported.status;
    if notes.is_empty() {
        return status;
    }
    let own = status.reason.take().map(|why| match status.suspended {
        Some(_) => format!("on node {}: {why}", reported.node.name),
        None => why,
    });
    status.reason = Some(own.into_iter().chain(notes).collect::<Vec<_>>().join("; "));
    status
}

/// Whether the newest view has it no more among those on which the volume is attached.
fn is_evicted(reported: &Reported, newest: &VolumeStatus) -> bool {
    reported.status.generation < newest.generation
        && newest.primaries.iter().all(|primary| primary.node != reported.node)
}

/// What is to be said of a node on which a volume is attached, and which has not answered
/// `reporter`.
#[must_use]
pub fn note_of_silent(node: &str, reporter: &str) -> String {
    messages::silent_primary(node, reporter)
}

fn words_of_evicted(reported: &Reported) -> String {
    format!(
        "node {} does not know yet that the others go on without it (it has generation {})",
        reported.node.name, reported.status.generation
    )
}

/// Makes of what one says of a replica the worst that any says.
fn worst_of(replica: &mut ReplicaStatus, reporter: &str, others: &[&Reported]) {
    let says = |reported: &&Reported| {
        let mut replicas = reported.status.mirrors.iter().flat_map(|mirror| &mirror.replicas);
        let found = replicas.find(|other| other.id == replica.id)?.clone();
        Some((reported.node.name.clone(), found))
    };
    let said: Vec<_> = others.iter().filter_map(says).collect();
    let is_as_bad = |other: &ReplicaStatus, than: &ReplicaStatus| {
        rank(&health_of(other)).cmp(&rank(&health_of(than)))
    };
    let differ = said.iter().any(|(_, other)| is_as_bad(other, replica).is_ne());
    let mut name = reporter.to_owned();
    let mut reached_by = reaches(replica).then(|| reporter.to_owned());
    for (other_name, other) in said {
        if reached_by.is_none() && reaches(&other) {
            reached_by = Some(other_name.clone());
        }
        let rebuild = replica.rebuild.take().or_else(|| other.rebuild.clone());
        let failed_reads = replica.failed_reads.max(other.failed_reads);
        if is_as_bad(&other, replica).is_gt() {
            (*replica, name) = (other, other_name);
        }
        (replica.rebuild, replica.failed_reads) = (rebuild, failed_reads);
    }
    if let Some(why) = replica.reason.as_mut().filter(|_| differ) {
        let between = reached_by.filter(|_| replica.reach == ReplicaReach::Unreachable);
        let between = between.filter(|_| replica.node.name != name).map(|other| {
            let at = &replica.node.name;
            format!("; node {other} reaches it: look at the network between nodes {name} and {at}")
        });
        why.push_str(&format!(" (says node {name}{})", between.unwrap_or_default()));
    }
}

fn reaches(replica: &ReplicaStatus) -> bool {
    replica.connected == Some(true) && replica.reach == ReplicaReach::Answers
}

/// Adds what a primary knows of itself: its device, its exports, the requests that failed there.
fn add(status: &mut VolumeStatus, reported: &Reported) {
    let own = reported.status.primaries.iter().find(|primary| primary.node == reported.node);
    let listed = status.primaries.iter_mut().find(|primary| primary.node == reported.node);
    match (listed, own) {
        (Some(listed), Some(own)) => *listed = own.clone(),
        (None, Some(own)) => status.primaries.push(own.clone()),
        (_, None) => {}
    }
    status.exports.extend(reported.status.exports.iter().cloned());
    for failed in &reported.status.failed {
        add_failed(&mut status.failed, failed);
    }
    for failed in &reported.status.failed_before {
        add_failed(&mut status.failed_before, failed);
    }
    if is_suspended(reported) && status.state != VolumeState::Suspended {
        status.state = VolumeState::Suspended;
        status.suspended.clone_from(&reported.status.suspended);
    }
}

/// Of a volume that was attached last on another node than the one that is asked: what failed here
/// was before. `last`: what that node says, if it does.
pub fn used_elsewhere(status: &mut VolumeStatus, last: Option<VolumeStatus>) {
    for failed in std::mem::take(&mut status.failed) {
        add_failed(&mut status.failed_before, &failed);
    }
    // That node does not answer, or nobody has used the volume.
    let Some(last) = last else { return };
    status.failed = last.failed;
    for failed in &last.failed_before {
        add_failed(&mut status.failed_before, failed);
    }
}

fn add_failed(all: &mut Vec<FailedRequests>, more: &FailedRequests) {
    // Each says which node was not answered.
    let same = |it: &&mut FailedRequests| {
        it.kind == more.kind && it.cause == more.cause && it.why == more.why
    };
    match all.iter_mut().find(same) {
        Some(it) => {
            it.count += more.count;
            (it.first, it.last) = (it.first.min(more.first), it.last.max(more.last));
        }
        None => all.push(more.clone()),
    }
}

fn is_suspended(reported: &Reported) -> bool {
    reported.status.state == VolumeState::Suspended
}

/// What requests wait for on a node. That another one attaches it still is no news of the volume.
fn why_not_served(reported: &Reported, is_base: bool) -> Option<String> {
    let waits = reported.status.suspended.as_ref().filter(|_| is_base || is_suspended(reported))?;
    Some(format!("on node {}: {}", reported.node.name, waits.why))
}

#[cfg(test)]
mod tests;

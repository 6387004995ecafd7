//! What several primaries say of one volume, as one status: of each replica the worst, and who says
//! it.

use evenkeel_api::types::{
    FailedRequests, NodeRef, ReplicaReach, ReplicaStatus, VolumeState, VolumeStatus,
};

use crate::volumes::messages;

use super::{health_of, judge, note_failures, rank, reason, sum_up};

/// What a primary says.
#[derive(Debug, Clone)]
pub struct Told {
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
pub fn worst(mut told: Vec<Told>, notes: Vec<String>, now: u64) -> Option<VolumeStatus> {
    let newest = told.iter().map(|told| told.status.generation).max()?;
    let first = told.iter().position(|told| told.status.generation == newest)?;
    let base = told.swap_remove(first);
    let (evicted, others): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|other| is_evicted(other, &base.status));
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
fn alone(told: Told, notes: Vec<String>) -> VolumeStatus {
    let mut status = told.status;
    if notes.is_empty() {
        return status;
    }
    let own = status.reason.take().map(|why| match status.suspended {
        Some(_) => format!("on node {}: {why}", told.node.name),
        None => why,
    });
    status.reason = Some(own.into_iter().chain(notes).collect::<Vec<_>>().join("; "));
    status
}

/// Whether the newest view has it no more among those on which the volume is attached.
fn is_evicted(told: &Told, newest: &VolumeStatus) -> bool {
    told.status.generation < newest.generation
        && newest.primaries.iter().all(|primary| primary.node != told.node)
}

/// What is to be said of a node on which a volume is attached, and which has not answered `teller`.
#[must_use]
pub fn note_of_silent(node: &str, teller: &str) -> String {
    messages::silent_primary(node, teller)
}

fn words_of_evicted(told: &Told) -> String {
    format!(
        "node {} does not know yet that the others go on without it (it has generation {})",
        told.node.name, told.status.generation
    )
}

/// Makes of what one says of a replica the worst that any says.
fn worst_of(replica: &mut ReplicaStatus, teller: &str, others: &[&Told]) {
    let says = |told: &&Told| {
        let mut replicas = told.status.mirrors.iter().flat_map(|mirror| &mirror.replicas);
        let found = replicas.find(|other| other.id == replica.id)?.clone();
        Some((told.node.name.clone(), found))
    };
    let said: Vec<_> = others.iter().filter_map(says).collect();
    let is_as_bad = |other: &ReplicaStatus, than: &ReplicaStatus| {
        rank(&health_of(other)).cmp(&rank(&health_of(than)))
    };
    let differ = said.iter().any(|(_, other)| is_as_bad(other, replica).is_ne());
    let mut name = teller.to_owned();
    let mut reached_by = reaches(replica).then(|| teller.to_owned());
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
fn add(status: &mut VolumeStatus, told: &Told) {
    let own = told.status.primaries.iter().find(|primary| primary.node == told.node);
    let listed = status.primaries.iter_mut().find(|primary| primary.node == told.node);
    match (listed, own) {
        (Some(listed), Some(own)) => *listed = own.clone(),
        (None, Some(own)) => status.primaries.push(own.clone()),
        (_, None) => {}
    }
    status.exports.extend(told.status.exports.iter().cloned());
    for failed in &told.status.failed {
        add_failed(&mut status.failed, failed);
    }
    for failed in &told.status.failed_before {
        add_failed(&mut status.failed_before, failed);
    }
    if is_suspended(told) && status.state != VolumeState::Suspended {
        status.state = VolumeState::Suspended;
        status.suspended.clone_from(&told.status.suspended);
    }
}

/// Of a volume that was attached last on another node than the one that is asked: what failed here
/// was before. `last`: what that node says, if it does.
pub fn used_elsewhere(status: &mut VolumeStatus, last: Option<VolumeStatus>) {
    for failed in std::mem::take(&mut status.failed) {
        add_failed(&mut status.failed_before, &failed);
    }
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

fn is_suspended(told: &Told) -> bool {
    told.status.state == VolumeState::Suspended
}

/// What requests wait for on a node. That another one attaches it still is no news of the volume.
fn why_not_served(told: &Told, is_base: bool) -> Option<String> {
    let waits = told.status.suspended.as_ref().filter(|_| is_base || is_suspended(told))?;
    Some(format!("on node {}: {}", told.node.name, waits.why))
}

#[cfg(test)]
mod tests;

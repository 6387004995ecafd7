//! Requests of clients that failed, in what is said of a volume.

use evenkeel_api::types::{
    self, FailedRequests, MirrorStatus, ReplicaStatus, VolumeHealth, VolumeState, VolumeStatus,
    WaitsFor,
};

use super::rank;
use crate::clock::utc;
use crate::volumes::disk_errors::is_ended_by;

/// How long the reason begins with requests that have failed, in seconds.
const RECENT: u64 = 60;
/// How long after the last one requests count as failing, in seconds: whoever uses the volume has
/// tried again by then.
const FAILING: u64 = 10;
/// The causes that are the volume's own: others are the client's, or that it is used elsewhere.
const OWN_CAUSES: [&str; 5] = ["no-coordinator", "no-data", "medium", "no-space", "lost-writes"];

/// Adds that requests fail, or failed a moment ago, which matters more than what a replica lacks;
/// `now` in seconds since 1970. An error of the disk of a mirror's only in-sync replica counts
/// until a verify finds nothing wrong: nobody makes up for it. That the disk is full counts while
/// requests fail, and while no other replica is known as the one that is full.
pub fn note_failures(status: &mut VolumeStatus, now: u64) {
    let newest = |is: &dyn Fn(&FailedRequests) -> bool| {
        let found = status.failed.iter().filter(|failed| is(failed));
        found.max_by_key(|failed| failed.last).cloned()
    };
    let is_recent = |failed: &FailedRequests| now.saturating_sub(failed.last) <= RECENT;
    let recent = newest(&|failed| is_recent(failed) && OWN_CAUSES.contains(&failed.cause.as_str()));
    let of_disk = newest(&|failed| match failed.cause.as_str() {
        "medium" => !is_ended(status, failed.last),
        "no-space" => is_failing(failed, now) && !has_full_replica(status),
        _ => false,
    });
    let of_last = of_last_in_sync(status, of_disk.as_ref());
    let fails = match (recent, &of_last) {
        (Some(newest), _) if holds_still(status, &newest, now) => {
            format!("requests fail: {}", newest.why)
        }
        (Some(newest), _) => past(&newest),
        (None, Some((_, why))) => why.clone(),
        (None, None) => return,
    };
    let what_to_do = of_last.map(|(place, _)| {
        if rank(&status.health) < rank(&VolumeHealth::Degraded) {
            status.health = VolumeHealth::Degraded;
        }
        status.lacks_only_spares = false;
        format!(
            "{place} is the last in-sync replica: see to its disk, or add a replica while it can be read"
        )
    });
    let reasons = [Some(fails), what_to_do, status.reason.take()];
    status.reason = Some(reasons.into_iter().flatten().collect::<Vec<_>>().join("; "));
}

/// The place of a mirror's only in-sync replica whose disk fails, and how that is known: by what
/// this node has told clients, or by what the coordinator keeps.
fn of_last_in_sync(
    status: &VolumeStatus,
    of_disk: Option<&FailedRequests>,
) -> Option<(String, String)> {
    let last = || status.mirrors.iter().filter_map(last_in_sync);
    let kept = last().find_map(|replica| Some((replica, replica.disk_failed?)));
    let (replica, why) = match (of_disk, kept) {
        (Some(failed), kept) => {
            let replica = kept.map(|(replica, _)| replica).or_else(|| last().next())?;
            (replica, format!("a {} has failed: {}", failed.kind, failed.why))
        }
        (None, Some((replica, at))) => {
            let name = &status.name;
            let why = format!(
                "a disk failed a request at {} for which no other replica had the data; `evenkeel volume verify {name}` ends this warning when it finds nothing wrong",
                utc(at)
            );
            (replica, why)
        }
        (None, None) => return None,
    };
    Some((replica.place(), why))
}

/// Whether a verify has shown that what failed then fails no more.
fn is_ended(status: &VolumeStatus, at: u64) -> bool {
    status.verify.as_ref().is_some_and(|verify| is_ended_by(verify, at))
}

fn is_failing(failed: &FailedRequests, now: u64) -> bool {
    now.saturating_sub(failed.last) <= FAILING
}

/// Whether a replica has left the volume because its disk is full. Then others have room.
fn has_full_replica(status: &VolumeStatus) -> bool {
    let mut replicas = status.mirrors.iter().flat_map(|mirror| &mirror.replicas);
    replicas.any(|replica| replica.cause == Some(types::ReplicaCause::NoSpace))
}

/// Whether the next request may fail for the same reason. What only waits takes is over when
/// nothing waits for it.
fn holds_still(status: &VolumeStatus, failed: &FailedRequests, now: u64) -> bool {
    match awaited(failed) {
        Some(awaited) => {
            let waits = status.suspended.as_ref();
            status.state == VolumeState::Suspended && waits.is_some_and(|w| w.waits_for == awaited)
        }
        None => is_failing(failed, now),
    }
}

/// What a request waited for before it failed; `None`: it did not wait.
fn awaited(failed: &FailedRequests) -> Option<WaitsFor> {
    match failed.cause.as_str() {
        "no-coordinator" => Some(WaitsFor::Coordinator),
        "no-data" => Some(WaitsFor::Replica),
        _ => None,
    }
}

/// That requests failed. Whoever had the volume mounted has to know. Of a disk that failed nobody
/// knows whether it does again.
fn past(failed: &FailedRequests) -> String {
    let over = if awaited(failed).is_some() { ", and do no more" } else { "" };
    format!(
        "requests failed until {}{over}: {}; a filesystem on it may have become read-only",
        utc(failed.last),
        failed.why
    )
}

/// The only in-sync replica of a mirror, if it has no more.
fn last_in_sync(mirror: &MirrorStatus) -> Option<&ReplicaStatus> {
    let is_in_sync = |replica: &&ReplicaStatus| replica.state == types::ReplicaState::InSync;
    let mut in_sync = mirror.replicas.iter().filter(is_in_sync);
    in_sync.next().filter(|_| in_sync.next().is_none())
}

#[cfg(test)]
mod tests;

//! What the requests of an attached volume wait for, and since when.

use std::time::Duration;

use evenkeel_api::types::{NoData, Suspended, WaitsFor};
use evenkeel_core::primary::{PresentWait, PrimaryStatus, Waiting};
use evenkeel_core::{Instant, ReplicaState, View};

use super::condition::{ReplicaFacts, Wait};
use crate::clock::unix_seconds_ago;
use crate::volumes::attachment::lifecycle::Purpose;
use crate::volumes::{Attached, status};

/// What requests wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// What its primary waits for.
    Primary(Waiting),
    /// Its primary serves, and its block device is being made.
    Device,
    /// The same of its NBD export.
    Export,
    /// The same of its NVMe export.
    Nvme,
}

/// What its requests wait for, and since when. `None`: they are served.
/// `waiting`: what its primary waits for, as that has last said.
pub(super) fn of(
    attached: &Attached,
    waiting: Option<PresentWait>,
    is_serving: bool,
) -> Option<(Awaited, Instant)> {
    // A primary that serves does not wait for its start, whatever it has last noted.
    let waiting = waiting.filter(|wait| !is_serving || wait.why != Waiting::Start);
    if let Some(wait) = waiting {
        return Some((Awaited::Primary(wait.why), wait.since));
    }
    if !is_serving {
        return Some((Awaited::Primary(Waiting::Start), attached.began()));
    }
    let is_shown = attached.is_shown();
    (!is_shown).then(|| (showing(attached), attached.served().unwrap_or(attached.began())))
}

/// What a volume is not shown by yet whose primary serves.
fn showing(attached: &Attached) -> Awaited {
    match attached.purpose() {
        Purpose::Use(shown) if shown.device && attached.device().is_none() => Awaited::Device,
        Purpose::Use(shown) if shown.nbd.is_some() && attached.nbd().is_none() => Awaited::Export,
        Purpose::Use(shown) if shown.nvme.is_some() => Awaited::Nvme,
        // All that is left is to note it.
        _ => Awaited::Primary(Waiting::Start),
    }
}

/// Whether a primary waits for a mirror of which a replica answers that may lack the last writes.
pub(super) fn may_go_on(core: &PrimaryStatus, view: &View, awaited: Awaited) -> bool {
    let Awaited::Primary(Waiting::Replica(mirror)) = awaited else { return false };
    let in_sync = view.mirrors.get(mirror).into_iter().flat_map(|mirror| mirror.in_sync());
    let may_be_out_of_sync =
        |id| core.replicas.iter().any(|peer| peer.replica == id && peer.may_be_out_of_sync);
    in_sync.map(|record| record.id).any(may_be_out_of_sync)
}

/// Whether the mirror that is waited for has an in-sync replica whose node answers, and does not
/// serve it: to start nodes is of no use then.
pub(super) fn has_unserved(facts: &[Vec<ReplicaFacts>], awaited: Awaited) -> bool {
    let Awaited::Primary(Waiting::Replica(mirror)) = awaited else { return false };
    let is_it =
        |facts: &ReplicaFacts| facts.state == ReplicaState::InSync && facts.unserved.is_some();
    facts.get(mirror).is_some_and(|mirror| mirror.iter().any(is_it))
}

/// The same for the status. `node`: the name of this one; `may_go_on`, `has_unserved`: see there.
pub(super) fn reported(
    attached: &Attached,
    view: &View,
    node: &str,
    awaited: Awaited,
    waited: Duration,
    may_go_on: bool,
    has_unserved: bool,
) -> Suspended {
    let (waits_for, mirror, limit_seconds) = match awaited {
        Awaited::Device | Awaited::Export | Awaited::Nvme | Awaited::Primary(Waiting::Start) => {
            (WaitsFor::Start, None, None)
        }
        Awaited::Primary(Waiting::Replica(mirror)) => {
            let limit = match status::no_data(&attached.record(), view) {
                NoData::Suspend { seconds } => seconds,
                NoData::Error => 0,
            };
            (WaitsFor::Replica, Some(mirror), Some(limit))
        }
        Awaited::Primary(Waiting::Coordinator) => {
            let limit = view.no_coordinator.limit().map(|limit| limit.as_secs());
            (WaitsFor::Coordinator, None, limit)
        }
    };
    let (why, mut action) = words(awaited, node);
    if has_unserved {
        action = "See to the disks of its in-sync replicas: why each is not served is said with it; requests go on by themselves then".to_owned();
    }
    let action = match may_go_on {
        true => format!("{action}. {}", without_last_writes(&attached.record().name, node)),
        false => action,
    };
    let (seconds, since) = (waited.as_secs(), unix_seconds_ago(waited));
    let fails_in = None;
    Suspended { waits_for, mirror, seconds, since, limit_seconds, fails_in, why, action }
}

/// In how many seconds all requests fail that wait for data, if they do; what they waited for
/// before may count. Without the coordinator each request has its own time.
pub(super) fn fails_in(
    reported: &Suspended,
    waiting: Option<PresentWait>,
    now: Instant,
) -> Option<u64> {
    let wait = waiting.filter(|_| reported.waits_for == WaitsFor::Replica)?;
    let limit = Duration::from_secs(reported.limit_seconds?);
    let left = limit.saturating_sub(now.since(wait.counted_from));
    Some(if wait.is_over { 0 } else { left.as_millis().div_ceil(1000) as u64 })
}

/// Why they wait, and what to do about it.
fn words(awaited: Awaited, node: &str) -> (String, String) {
    match awaited {
        Awaited::Primary(Waiting::Start) => (
            "it is being attached: replicas are reached and the view is changed".to_owned(),
            "Wait; if it lasts, see that the nodes of its replicas and the coordinator's node run"
                .to_owned(),
        ),
        Awaited::Device => (
            format!("its block device is being made on node {node}; its primary serves"),
            format!("Wait; if it lasts, see the log of node {node}, and of its kernel (`dmesg`)"),
        ),
        Awaited::Export => (
            format!("its NBD export is being made on node {node}; its primary serves"),
            format!("Wait; if it lasts, see the log of node {node}"),
        ),
        Awaited::Nvme => (
            format!("its NVMe export is being made on node {node}; its primary serves"),
            format!("Wait; if it lasts, see the log of node {node}"),
        ),
        Awaited::Primary(Waiting::Replica(mirror)) => (
            format!("no in-sync replica of mirror {mirror} answers"),
            "Start the nodes that hold its in-sync replicas, or repair the network to them; requests go on by themselves then"
                .to_owned(),
        ),
        Awaited::Primary(Waiting::Coordinator) => (
            format!("a view has to change, and the coordinator does not answer node {node}"),
            format!(
                "Start the coordinator's node, or repair the network between it and node {node}"
            ),
        ),
    }
}

/// What to do when the replicas that have all writes are lost for good.
fn without_last_writes(volume: &str, node: &str) -> String {
    format!(
        "If they are lost for good: `evenkeel detach {volume} --node {node}`, then `evenkeel attach {volume} --node {node}`, which goes on without the last writes"
    )
}

/// What is concluded from it.
pub(super) fn wait(suspended: &Suspended) -> Wait {
    Wait { why: suspended.why.clone(), silent_mirror: suspended.mirror }
}

#[cfg(test)]
mod tests;

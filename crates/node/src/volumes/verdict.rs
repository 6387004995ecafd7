//! The verdict of a volume's last verify: kept by the coordinator, so that it outlives the
//! attachment and every node shows it; and which replicas it is about.
//!
//! A primary knows its verify until it ends. When the verify does, or the volume is detached, the
//! node has the coordinator keep the verdict. Of a replica it holds for as long as that has been
//! in-sync all the time since, which the view says: nothing has to be taken back when one leaves.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evenkeel_api::types::{
    CoveredReplica, Verify, VerifyState as ToldState, WrongRange, WrongReplica,
};
use evenkeel_core::primary::{
    Command, Covered, VerifyState, VerifyStatus, Wrong, WrongRange as CoreRange,
};
use evenkeel_core::{Generation, Instant, ReplicaId, ReplicaState, Role, View};

use super::Attached;
use super::disk_errors::DiskErrors;
use super::found_wrong::Findings;
use crate::clock::core_now;
use crate::coordinator::{Answer, CallError, Request, VolumeRecord};
use crate::volumes::Node;

/// How long one of several primaries waits for the verdict of another one's verify, for a status.
const POLL: Duration = Duration::from_millis(500);
/// How long a coordinator that does not answer is asked to keep a verdict, when it is told in
/// passing.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// The same while somebody waits.
const SHORT_PATIENCE: Duration = Duration::from_secs(3);
/// Wrong ranges of a verdict that are kept: its record is read by every list of volumes.
const MAX_RANGES: usize = 8;

/// The verdict that the coordinator keeps, if it is one that this software reads.
pub(super) fn kept(record: &VolumeRecord) -> Option<Verify> {
    record.verified.as_ref().and_then(|kept| serde_json::from_value(kept.clone()).ok())
}

/// What to tell of the last verify of a volume that is attached here; `own`: of its primary here.
pub(super) async fn of_attached(
    node: &Node,
    attached: &Attached,
    view: &View,
    own: Option<Verify>,
) -> Option<Verify> {
    if view.has_several_primaries() && node.coordinator.status().reachable {
        // Without an answer what is known here is told.
        let _ = read_kept(node, attached, POLL).await;
    }
    newest(own, kept(&attached.record())).map(|verify| judge(verify, view))
}

/// The newer one of what a primary here knows and what the coordinator keeps. One that runs is the
/// newest.
fn newest(own: Option<Verify>, kept: Option<Verify>) -> Option<Verify> {
    match (own, kept) {
        // Not the same one, read a moment of rounding later.
        (Some(own), Some(kept)) if own.ended.is_some_and(|at| Some(at + 1) < kept.ended) => {
            Some(kept)
        }
        (own, kept) => own.or(kept),
    }
}

/// Sorts replicas into those that a verdict is about and those that it is not, as the view has them
/// now. One from software that does not note what was compared is left alone.
pub(super) fn judge(mut verify: Verify, view: &View) -> Verify {
    let holds = |id: &str, since: u64, bytes: u64| {
        let mut records = view.replicas().map(|(_, record)| record);
        let record = records.find(|record| record.id.to_string() == id);
        let covered = Covered { bytes, since: Generation(since) };
        record.is_some_and(|record| covered.holds_of(record))
    };
    let Some(covered) = &mut verify.covered else { return verify };
    let still = |covered: &CoveredReplica| holds(&covered.id, covered.since, covered.bytes);
    covered.retain(still);
    verify.read.retain(|read| still(read) && !covered.iter().any(|it| it.id == read.id));
    let is_idle = |state, role| state == ReplicaState::Spare && role == Role::Spare(None);
    let others = view.replicas().map(|(_, record)| record);
    let others = others.filter(|record| !is_idle(record.state, record.role));
    let others = others.map(|record| record.id.to_string());
    verify.not_covered =
        others.filter(|id| !covered.iter().chain(&verify.read).any(|it| it.id == *id)).collect();
    verify
}

/// Has the coordinator keep the verdict of a verify that has ended, in passing.
pub(super) fn keep_soon(node: &Arc<Node>, attached: &Arc<Attached>) {
    let (node, attached) = (node.clone(), attached.clone());
    tokio::spawn(async move { keep(&node, &attached, PATIENCE).await });
}

/// The same while somebody waits for it.
pub(super) async fn keep_now(node: &Arc<Node>, attached: &Attached) {
    keep(node, attached, SHORT_PATIENCE).await;
}

/// The volume is about to be detached: a verify that runs ends, and its verdict is kept.
pub(super) async fn end(node: &Arc<Node>, attached: &Attached) {
    if attached.in_passing() {
        return;
    }
    // A primary that does not answer does not hold the detach up.
    let ended = async {
        let runs = |verify: &VerifyStatus| verify.state == VerifyState::Running;
        if verify_of(node, attached).await.as_ref().is_some_and(runs) {
            // If its primary has just ended there is nothing to stop.
            let _ = node.data.command(attached.id, Command::StopVerify).await;
        }
        keep_now(node, attached).await;
    };
    if tokio::time::timeout(SHORT_PATIENCE * 2, ended).await.is_err() {
        tracing::warn!(volume = attached.name(), "the verdict of its last verify may not be kept");
    }
}

async fn verify_of(node: &Node, attached: &Attached) -> Option<VerifyStatus> {
    node.data.volume_status(attached.id).await?.primary?.verify
}

async fn keep(node: &Arc<Node>, attached: &Attached, patience: Duration) {
    // None has ended, or its primary has, which keeps it before.
    let Some(verify) = verify_of(node, attached).await.filter(|verify| verify.ended.is_some())
    else {
        return;
    };
    if attached.kept_verdict() == verify.ended {
        return;
    }
    if let Err(why) = read_kept(node, attached, patience).await {
        // What another primary has had kept since may be lost with what this one has kept.
        tracing::debug!(volume = attached.name(), why, "the verdict that is kept was not read");
    }
    let mut reported = reported(&verify, core_now());
    reported.ranges.truncate(MAX_RANGES);
    let mut value = match serde_json::to_value(&reported) {
        Ok(value) => value,
        Err(error) => return tracing::warn!(%error, "the verdict of a verify can't be kept"),
    };
    DiskErrors::of(node, &attached.record()).after(&reported).put_into(&mut value);
    Findings::of(node, &attached.record()).after(&reported).put_into(&mut value);
    if store(node, attached, value, patience).await {
        attached.note_kept_verdict(verify.ended);
    }
}

/// Another primary may have had something kept since this node has read the volume's record.
///
/// # Errors
/// If the coordinator has not answered in time; why. The record is as it was.
async fn read_kept(node: &Node, attached: &Attached, patience: Duration) -> Result<(), String> {
    let request = Request::Read { volume: attached.id.to_string() };
    match tokio::time::timeout(patience, node.coordinator.call_once(request)).await {
        Ok(Ok(Answer::Volume(stored))) => {
            attached.note_verified(stored.record.verified);
            Ok(())
        }
        Ok(Ok(other)) => Err(format!("the coordinator answers {other:?}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the coordinator does not answer".into()),
    }
}

/// Has the coordinator keep this of a volume's verifies. Returns true if it does.
pub(super) async fn store(
    node: &Node,
    attached: &Attached,
    value: serde_json::Value,
    patience: Duration,
) -> bool {
    let id = attached.id.to_string();
    let request =
        |revision| Request::Verified { volume: id.clone(), verdict: value.clone(), revision };
    match node.coordinator.change_within(&id, None, patience, request).await {
        Ok(Answer::Done) => {
            attached.note_verified(Some(value));
            return true;
        }
        // Older software does not know the request: the verdict is shown here while it is attached.
        Err(CallError::Refused(why)) => {
            tracing::info!(volume = attached.name(), %why, "the coordinator keeps no verdicts");
        }
        other => {
            tracing::warn!(
                volume = attached.name(),
                ?other,
                "the verdict of its verify is not kept"
            );
        }
    }
    false
}

/// A verify as the API tells it. `now` is on the clock that the engine gives to the core.
pub(super) fn reported(verify: &VerifyStatus, now: Instant) -> Verify {
    let replica = |(id, wrong): (&ReplicaId, &Wrong)| WrongReplica {
        id: id.to_string(),
        different: wrong.different,
        damaged: wrong.damaged,
        unreadable: wrong.unreadable,
        repaired: wrong.repaired,
    };
    let covered = |(id, covered): (&ReplicaId, &Covered)| CoveredReplica {
        id: id.to_string(),
        bytes: covered.bytes,
        since: covered.since.0,
    };
    Verify {
        state: match verify.state {
            VerifyState::Running => ToldState::Running,
            VerifyState::Done => ToldState::Done,
            VerifyState::Stopped => ToldState::Stopped,
        },
        repair: verify.repairs,
        checked: verify.checked,
        total: verify.total,
        alone: verify.alone,
        different: verify.different,
        damaged: verify.damaged,
        unreadable: verify.unreadable,
        lost: verify.lost,
        undecided: verify.undecided,
        overruled: verify.overruled,
        repaired: verify.repaired,
        replicas: verify.replicas.iter().map(replica).collect(),
        covered: Some(verify.covered.iter().map(covered).collect()),
        read: verify.read.iter().map(covered).collect(),
        not_covered: Vec::new(),
        ranges: verify.ranges.iter().map(range).collect(),
        seconds: verify.ended.unwrap_or(now).since(verify.began).as_secs(),
        began: unix(verify.began, now),
        ended: verify.ended.and_then(|ended| unix(ended, now)),
    }
}

/// A moment of the core's clock, which shows `now`, in seconds since 1970: the same whenever it is
/// asked for.
fn unix(at: Instant, now: Instant) -> Option<u64> {
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    today.checked_sub(now.since(at)).map(|time| time.as_secs())
}

fn range(wrong: &CoreRange) -> WrongRange {
    let ids = |ids: &[ReplicaId]| ids.iter().map(ToString::to_string).collect();
    WrongRange {
        offset: wrong.range.start,
        length: wrong.range.end - wrong.range.start,
        different: ids(&wrong.different),
        damaged: ids(&wrong.damaged),
        unreadable: ids(&wrong.unreadable),
        lost: wrong.is_lost,
        undecided: wrong.is_undecided,
        repaired: wrong.is_repaired,
    }
}

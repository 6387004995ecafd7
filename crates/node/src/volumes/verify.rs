//! Verifying a volume: asked for here, carried out by its primary, told in its status.

use std::sync::Arc;
use std::time::SystemTime;

use evenkeel_api::types::{
    CoveredReplica, VERSION, Verify, VerifyRequest, VerifyState, VolumeAnswer, WrongRange,
    WrongReplica,
};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::primary::{
    Command, Covered, VerifyState as CoreState, VerifyStatus, Wrong, WrongRange as CoreRange,
};
use evenkeel_core::{Instant, ReplicaId, ReplicaState};
use hyper::Method;

use super::lookup::{Found, There, carried_out_elsewhere, find, forward};
use super::replica::resolve;
use super::{status, verdict, view_change};
use crate::cluster;
use crate::node::Node;

/// Begins or ends a verify on the node where the volume is attached.
///
/// # Errors
/// If there is no such volume, or it is attached nowhere.
pub async fn verify(
    node: &Arc<Node>,
    volume: &str,
    request: VerifyRequest,
    forwarded: bool,
) -> Result<VolumeAnswer, ApiError> {
    let what = format!("cannot verify volume {volume}");
    let found = find(node, &what, volume).await?;
    let what = format!("cannot verify volume {}", found.stored.record.name);
    if let Some(target) = carried_out_elsewhere(node, &found, forwarded, &what)? {
        let path = routes::fill(routes::VERIFY, &[&found.stored.record.id]);
        let (body, deadline) = (Some(&request), cluster::COMMAND);
        let there = There { found: &found, target: &target, what: &what };
        return forward(node, there, Method::POST, &path, body, deadline).await;
    }
    if node.volumes.get(found.view.volume).is_none() {
        let why = "it is attached nowhere, so nobody can compare its replicas";
        let name = &found.stored.record.name;
        let advice = format!("Attach it first: evenkeel attach {name} --as none");
        return Err(ApiError::new(ErrorCode::WrongState, what, why, advice));
    }
    let command = match request.stop {
        true => Command::StopVerify,
        false => {
            Command::Verify { repair: request.repair, source: source(node, &found, &request)? }
        }
    };
    view_change::carry_out(node, &found, command, &what).await?;
    if request.stop
        && let Some(attached) = node.volumes.get(found.view.volume)
    {
        verdict::keep_now(node, &attached).await;
    }
    let volume = status::one(node, &found.stored.record.id, forwarded).await?;
    Ok(VolumeAnswer { version: VERSION, volume, message: None, warnings: Vec::new() })
}

/// The replica that is named as the source of a repair.
fn source(
    node: &Node,
    found: &Found,
    request: &VerifyRequest,
) -> Result<Option<ReplicaId>, ApiError> {
    let Some(text) = &request.source else { return Ok(None) };
    let name = &found.stored.record.name;
    let what = format!("cannot repair volume {name} from replica {text}");
    let id = resolve(node, found, text, &what)?;
    let is_in_sync =
        found.view.replica(id).is_some_and(|(_, record)| record.state == ReplicaState::InSync);
    if is_in_sync && request.repair {
        return Ok(Some(id));
    }
    let (why, advice) = if request.repair {
        ("it is not in-sync", "Name one that is; see `evenkeel volume status`")
    } else {
        ("a source is only for a repair", "Ask for a repair, too, or leave the source out")
    };
    Err(ApiError::new(ErrorCode::WrongState, what, why, advice))
}

/// A verify as the API tells it. `now` is on the clock that the engine gives to the core.
pub(super) fn told(verify: &VerifyStatus, now: Instant) -> Verify {
    let replica = |(id, wrong): (&ReplicaId, &Wrong)| WrongReplica {
        id: id.to_string(),
        different: wrong.different,
        damaged: wrong.damaged,
        unreadable: wrong.unreadable,
    };
    let covered = |(id, covered): (&ReplicaId, &Covered)| CoveredReplica {
        id: id.to_string(),
        bytes: covered.bytes,
        since: covered.since.0,
    };
    Verify {
        state: match verify.state {
            CoreState::Running => VerifyState::Running,
            CoreState::Done => VerifyState::Done,
            CoreState::Stopped => VerifyState::Stopped,
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

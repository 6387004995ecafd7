//! Verifying a volume: asked for here, carried out by its primary, told in its status.

use std::sync::Arc;

use evenkeel_core::Instant;
use evenkeel_core::primary::{Command, VerifyState as CoreState, VerifyStatus};
use hyper::Method;

use super::lookup::{carried_out_elsewhere, find};
use super::{status, view_change};
use crate::api::types::{ByteRange, VERSION, Verify, VerifyRequest, VerifyState, VolumeAnswer};
use crate::api::{ApiError, ErrorCode, routes};
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
    if let Some(target) = carried_out_elsewhere(node, &found, forwarded, &what)? {
        let path = routes::fill(routes::VERIFY, &[&found.stored.record.id]);
        let (body, deadline) = (Some(&request), cluster::COMMAND);
        return cluster::forward(node, &target, Method::POST, &path, body, deadline).await;
    }
    if node.volumes.get(found.view.volume).is_none() {
        let why = "it is attached nowhere, so nobody can compare its replicas";
        let advice = format!("Attach it first: evenkeel attach {volume} --as none");
        return Err(ApiError::new(ErrorCode::WrongState, what, why, advice));
    }
    let command = match request.stop {
        true => Command::StopVerify,
        false => Command::Verify { repair: request.repair },
    };
    view_change::carry_out(node, &found, command, &what).await?;
    let volume = status::one(node, &found.stored.record.id, forwarded).await?;
    Ok(VolumeAnswer { version: VERSION, volume })
}

/// A verify as the API tells it. `now` is on the clock that the engine gives to the core.
pub(super) fn told(verify: &VerifyStatus, now: Instant) -> Verify {
    let range = |range: &std::ops::Range<u64>| ByteRange {
        offset: range.start,
        length: range.end - range.start,
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
        unreadable: verify.unreadable,
        repaired: verify.repaired,
        ranges: verify.ranges.iter().map(range).collect(),
        seconds: verify.ended.unwrap_or(now).since(verify.began).as_secs(),
    }
}

//! Verifying a volume: asked for here, carried out by its primary, told in its status.

use std::sync::Arc;

use evenkeel_api::types::{VERSION, VerifyRequest, VolumeAnswer};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::primary::Command;
use evenkeel_core::{ReplicaId, ReplicaState};
use hyper::Method;

use super::replica::resolve;
use super::view_change;
use crate::cluster;
use crate::volumes::Node;
use crate::volumes::attachment::start;
use crate::volumes::lookup::{Found, There, carried_out_elsewhere, find, forward};
use crate::volumes::{status, verdict};

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
    start::refuse_stopped(&found, &what)?;
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

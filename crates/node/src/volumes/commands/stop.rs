//! Stopping a volume: it is detached, and its replicas are closed until it is assembled.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_api::types::{DetachRequest, NodeRef, Plan, PlanAnswer, StopAnswer, VERSION};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{NodeId, View, VolumeId};
use hyper::Method;

use super::{detach, plan};
use crate::cluster;
use crate::coordinator::{Answer, Request};
use crate::peer::requests::SWEEP;
use crate::volumes::Node;
use crate::volumes::attachment::actor::turn;
use crate::volumes::attachment::exports;
use crate::volumes::lookup::{Found, by_names, find, moved, unexpected};
use crate::volumes::replicas::sweep;
use crate::volumes::status;

/// Detaches a volume and closes its replicas. Stopping a stopped one changes nothing.
///
/// # Errors
/// If there is no such volume, or it is mounted or has clients.
pub async fn stop(node: &Arc<Node>, volume: &str) -> Result<StopAnswer, ApiError> {
    let what = format!("cannot stop volume {volume}");
    let found = find(node, &what, volume).await?;
    let (id, name) = (found.view.volume, found.stored.record.name.clone());
    let mut warnings = Vec::new();
    let mut message = format!("volume {name} is stopped already");
    if !found.stored.record.stopped {
        detach(node, &found, &what, &mut warnings).await?;
        let _turn = turn(node, id).await;
        set(node, id, true, &what).await?;
        message =
            format!("volume {name} is stopped: its replicas are closed until it is assembled");
        tracing::info!("{message}");
    }
    for name in report(node, &found.view).await {
        warnings.push(format!(
            "node {name} has not closed its replicas yet: it does as soon as it and their disks answer"
        ));
    }
    let volume = status::one(node, &id.to_string(), false).await?;
    Ok(StopAnswer { version: VERSION, message, warnings, volume })
}

/// From where stopping a volume would detach it.
///
/// # Errors
/// As stopping it, as far as that can be told without doing it.
pub async fn plan(node: &Arc<Node>, volume: &str) -> Result<PlanAnswer, ApiError> {
    let what = format!("cannot stop volume {volume}");
    let found = find(node, &what, volume).await?;
    let name = &found.stored.record.name;
    if found.stored.record.stopped {
        let message = format!("volume {name} is stopped already");
        return Ok(plan::answer(Plan::default(), message));
    }
    refuse_clients(node, &found, &what).await?;
    let primaries = found.view.primaries.iter().map(|p| node.coordinator.node_ref(p.id.node));
    let detaches: Vec<NodeRef> = primaries.collect();
    let names: Vec<&str> = detaches.iter().map(|node| node.name.as_str()).collect();
    let detached = match names.is_empty() {
        true => String::new(),
        false => format!("be detached from {}, and ", names.join(", ")),
    };
    let message = format!(
        "volume {name} would {detached}have its replicas closed until it is assembled; no data go"
    );
    Ok(plan::answer(Plan { detaches, ..Plan::default() }, message))
}

/// Detaches it wherever it is attached, unless somebody uses it.
async fn detach(
    node: &Arc<Node>,
    found: &Found,
    what: &str,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let volume = found.view.volume.to_string();
    refuse_clients(node, found, what).await?;
    for primary in found.view.primaries.iter().map(|primary| primary.id.node) {
        let name = node.coordinator.node_ref(primary).name;
        let request = DetachRequest { node: Some(name), ..DetachRequest::default() };
        match detach::detach(node, &volume, request, false).await {
            Ok(answer) if !answer.clean => warnings.push(answer.message),
            Ok(_) => {}
            Err(e) => return Err(by_names(node, found, ApiError { what: what.to_owned(), ..e })),
        }
    }
    Ok(())
}

async fn refuse_clients(node: &Arc<Node>, found: &Found, what: &str) -> Result<(), ApiError> {
    // It has what all primaries say that answer.
    let attached = status::one(node, &found.view.volume.to_string(), false).await?;
    let clients: usize = attached.exports.iter().map(|export| export.clients).sum();
    if clients > 0 { Err(exports::in_use(what, clients)) } else { Ok(()) }
}

/// Notes at the coordinator that a volume is stopped, or is not any more.
pub(super) async fn set(
    node: &Node,
    volume: VolumeId,
    stopped: bool,
    what: &str,
) -> Result<(), ApiError> {
    let id = volume.to_string();
    let request = |revision| Request::Stop { volume: id.clone(), stopped, revision };
    match node.coordinator.change(what, &id, None, request).await? {
        Answer::Done => Ok(()),
        Answer::Newest(newest) => Err(match newest.decode() {
            Ok(view) if !view.primaries.is_empty() => {
                let why = "its last primary has not given it up, as replicas did not answer";
                let advice = "Start the nodes of its replicas, and stop it again";
                ApiError::new(ErrorCode::WrongState, what, why, advice)
            }
            _ => moved(what),
        }),
        Answer::NoVolume | Answer::Changed(_) => Err(moved(what)),
        other => Err(unexpected(what, &other)),
    }
}

/// Lets all nodes with replicas of a volume ask the coordinator at once what is to become of them.
/// Returns the names of those that do not answer, and ask when they are back, and of those that
/// have not done what follows, as a disk is slow or hangs.
pub(super) async fn report(node: &Arc<Node>, view: &View) -> Vec<String> {
    let nodes: BTreeSet<NodeId> = view.replicas().map(|(_, record)| record.node).collect();
    let mut late = Vec::new();
    for id in nodes {
        if id == node.identity.node {
            if !sweep::now(node).await {
                late.push(node.identity.name.clone());
            }
            continue;
        }
        let Some(member) = node.coordinator.node(id).filter(|member| member.may_live) else {
            late.push(node.coordinator.node_ref(id).name);
            continue;
        };
        let (body, deadline) = (None::<&()>, cluster::COMMAND);
        let answer =
            node.cluster.forward::<_, bool>(&member, Method::POST, SWEEP, body, deadline).await;
        // A node of an older version says `true` in any case.
        if !answer.unwrap_or(false) {
            late.push(member.node.name);
        }
    }
    late
}

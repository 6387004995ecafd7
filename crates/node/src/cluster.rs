//! Asking other nodes of the cluster.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::error::ErrorAnswer;
use evenkeel_api::types::{Disk, DisksAnswer};
use evenkeel_api::{ApiError, ErrorCode, routes};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::Address;
use crate::coordinator::{Answer, NodeLiveness, Request};
use crate::node::Node;
use crate::peer::Wanted;

/// How long a node may take to answer a question.
pub const QUESTION: Duration = Duration::from_secs(3);
/// How long an attach, a detach or a command may take on another node.
pub const COMMAND: Duration = Duration::from_secs(90);

/// The nodes as the coordinator knows them; as last known if it does not answer.
pub async fn nodes(node: &Node) -> Vec<NodeLiveness> {
    match node.coordinator.call_once(Request::Nodes).await {
        Ok(Answer::Nodes(nodes)) => {
            node.coordinator.set_nodes(nodes.clone());
            node.peers.learn(&nodes);
            nodes
        }
        _ => node.coordinator.nodes(),
    }
}

/// That the coordinator, which is on this node, hears no other: whoever is called dead may be well,
/// and this node be cut off.
#[must_use]
pub fn isolation(node: &Node) -> Option<String> {
    hears_nobody(node).then(|| {
        let here = &node.identity.name;
        format!(
            "the coordinator hears no node but its own, {here}: unless all others are down, {here} is cut off from them. Ask one of them before you take a volume over"
        )
    })
}

/// Whether the coordinator is on this node, and hears no other.
#[must_use]
pub fn hears_nobody(node: &Node) -> bool {
    let here = node.identity.node.to_string();
    let (own, others): (Vec<_>, Vec<_>) =
        node.coordinator.nodes().into_iter().partition(|member| member.node.id == here);
    let serves = own.iter().any(|member| member.coordinator) && node.coordinator.status().reachable;
    serves && are_silent(&others)
}

/// The same, of what is known of the other nodes.
fn are_silent(others: &[NodeLiveness]) -> bool {
    !others.is_empty() && others.iter().all(|member| !member.may_live)
}

/// What a request to another node ends with that could not be asked.
fn not_asked(name: &str) -> String {
    format!("node {name}, which has to do it, could not be asked")
}

/// Whether a forwarded request ended without an answer of that node.
#[must_use]
pub fn is_unasked(target: &NodeLiveness, error: &ApiError) -> bool {
    error.what == not_asked(&target.node.name)
}

/// What a request ends with that a node was to carry out for somebody: if that node could not be
/// asked, with what was wanted of it; else with the node that refused it.
#[must_use]
pub fn for_what(what: &str, target: &NodeLiveness, error: ApiError) -> ApiError {
    const PLACE: &str = " on node ";
    let name = &target.node.name;
    if is_unasked(target, &error) {
        let why = format!("{}: {}", not_asked(name), error.why);
        return ApiError { what: what.to_owned(), why, ..error };
    }
    // It names a node already if that one had asked yet another.
    if error.what.contains(PLACE) {
        return error;
    }
    ApiError { what: format!("{}{PLACE}{name}", error.what), ..error }
}

/// A request to another node's API, by the first of its addresses that answers.
///
/// # Errors
/// The other node's, or that it does not answer.
pub async fn forward<Q: Serialize, A: DeserializeOwned>(
    node: &Node,
    target: &NodeLiveness,
    method: Method,
    path: &str,
    body: Option<&Q>,
    deadline: Duration,
) -> Result<A, ApiError> {
    let name = &target.node.name;
    let what = not_asked(name);
    let body = body.map(serde_json::to_vec).transpose();
    let body = body.map_err(|e| system(&what, &e.to_string()))?.unwrap_or_default();
    let mut why = "its addresses are not known".to_owned();
    let wanted = Wanted::member(target);
    for text in &target.node.addresses {
        let Ok(address) = Address::parse(text) else { continue };
        let (to, body) = ((&address, &wanted), body.clone().into());
        let answer = node.peers.request(to, method.clone(), path, body, deadline);
        match answer.await {
            Ok((status, body)) if status.is_success() => {
                return serde_json::from_slice(&body).map_err(|e| system(&what, &e.to_string()));
            }
            Ok((status, body)) => {
                return Err(match serde_json::from_slice::<ErrorAnswer>(&body) {
                    Ok(answer) => answer.error,
                    Err(_) => system(&what, &format!("it answered with status {status}")),
                });
            }
            // A change is not asked for again by another address.
            Err(e) if e.may_have_begun() && method != Method::GET => {
                let advice = "It may still be at work: see `evenkeel volume status`";
                return Err(ApiError::new(ErrorCode::TimedOut, what, e.to_string(), advice));
            }
            Err(e) => why = e.to_string(),
        }
    }
    let advice = format!("Start node {name}, or repair the network");
    Err(ApiError::new(ErrorCode::NodeUnreachable, what, why, advice))
}

fn system(what: &str, why: &str) -> ApiError {
    let advice = "See the log of that node; compare versions by `evenkeel node status`";
    ApiError::new(ErrorCode::System, what, why, advice)
}

/// Whether a node answers this one. The coordinator may hear it all the same.
pub async fn answers(node: &Node, member: &NodeLiveness) -> bool {
    let (method, path) = (Method::GET, routes::NODE);
    let answer = forward::<(), serde_json::Value>(node, member, method, path, None, QUESTION).await;
    !answer.is_err_and(|error| error.code == ErrorCode::NodeUnreachable)
}

/// The disks of all nodes, with a sentence for each node that did not answer.
///
/// # Errors
/// If this node's own cannot be listed.
pub async fn disks(node: &Arc<Node>) -> Result<(Vec<Disk>, Vec<String>), ApiError> {
    let mut disks = node.blocking(|node| Ok(node.disks.list())).await?;
    let here = node.identity.node.to_string();
    let mut warnings = Vec::new();
    let mut asked = Vec::new();
    for member in nodes(node).await.into_iter().filter(|member| member.node.id != here) {
        if member.may_live {
            let node = node.clone();
            asked.push(tokio::spawn(async move {
                let path = routes::DISKS;
                let answer =
                    forward::<(), DisksAnswer>(&node, &member, Method::GET, path, None, QUESTION);
                (member.node.name.clone(), answer.await)
            }));
        } else {
            warnings
                .push(format!("node {} is not alive: its disks are not listed", member.node.name));
        }
    }
    for answer in asked {
        match answer.await {
            Ok((_, Ok(answer))) => disks.extend(answer.disks),
            Ok((name, Err(e))) => {
                warnings.push(format!("the disks of node {name} are not listed: {}", e.why));
            }
            Err(e) => warnings.push(format!("the disks of a node are not listed: {e}")),
        }
    }
    disks.sort_by(|a, b| (&a.node.name, &a.name).cmp(&(&b.node.name, &b.name)));
    Ok((disks, warnings))
}

#[cfg(test)]
mod tests;

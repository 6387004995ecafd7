//! Asking other nodes of the cluster.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::error::ErrorAnswer;
use evenkeel_api::{ApiError, ErrorCode, routes};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::coordinator::{Answer, Handle, NodeLiveness, Request};
use crate::disks::Disks;
use crate::peer::{Destination, Peers, Wanted};
use crate::state::identity::Identity;

mod disks;

pub use disks::Listed;

/// How long a node may take to answer a question.
pub const QUESTION: Duration = Duration::from_secs(3);
/// The same of one that the coordinator does not hear.
const SHORT_QUESTION: Duration = Duration::from_secs(1);
/// How long an attach, a detach or a command may take on another node.
pub const COMMAND: Duration = Duration::from_secs(90);

/// The nodes of the cluster, as this one asks them.
#[derive(Clone)]
pub struct Cluster {
    identity: Arc<Identity>,
    coordinator: Arc<Handle>,
    peers: Arc<Peers>,
    disks: Arc<Disks>,
}

impl Cluster {
    /// Those that the coordinator knows, reached as peers; `disks` are this node's own.
    #[must_use]
    pub fn new(
        identity: Arc<Identity>,
        coordinator: Arc<Handle>,
        peers: Arc<Peers>,
        disks: Arc<Disks>,
    ) -> Self {
        Self { identity, coordinator, peers, disks }
    }

    /// The way to the coordinator.
    #[must_use]
    pub fn coordinator(&self) -> &Arc<Handle> {
        &self.coordinator
    }

    /// The way to other nodes.
    #[must_use]
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    /// The nodes as the coordinator knows them; as last known if it does not answer.
    pub async fn nodes(&self) -> Vec<NodeLiveness> {
        match self.coordinator.call_once(Request::Nodes).await {
            Ok(Answer::Nodes(nodes)) => {
                self.coordinator.set_nodes(nodes.clone());
                self.peers.learn(&nodes);
                nodes
            }
            _ => self.coordinator.nodes(),
        }
    }

    /// That the coordinator, which is on this node, hears no other: whoever is called dead may be
    /// well, and this node be cut off.
    #[must_use]
    pub fn isolation(&self) -> Option<String> {
        self.reaches_nobody().then(|| isolated(&self.identity.name))
    }

    /// An advice that destroys data if it is followed: where this node may be cut off, with that
    /// first.
    #[must_use]
    pub fn unless_cut_off(&self, advice: &str) -> String {
        match self.reaches_nobody() {
            true => format!("{}. {advice}", may_be_cut_off(&self.identity.name)),
            false => advice.to_owned(),
        }
    }

    /// What would be deleted; where this node may be cut off, with that behind it.
    #[must_use]
    pub fn doubted(&self, would: String) -> String {
        match self.reaches_nobody() {
            true => format!("{would}. {}", may_be_cut_off(&self.identity.name)),
            false => would,
        }
    }

    /// Whether the coordinator is on this node, and hears no other.
    #[must_use]
    pub fn reaches_nobody(&self) -> bool {
        let here = self.identity.node.to_string();
        let (own, others): (Vec<_>, Vec<_>) =
            self.coordinator.nodes().into_iter().partition(|member| member.node.id == here);
        let serves =
            own.iter().any(|member| member.coordinator) && self.coordinator.status().reachable;
        serves && are_silent(&others)
    }

    /// A request to another node's API, by the first of its addresses that answers.
    ///
    /// # Errors
    /// The other node's, or that it does not answer.
    pub async fn forward<Q: Serialize, A: DeserializeOwned>(
        &self,
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
        for address in self.peers.addresses(target) {
            let to = Destination { address: &address, wanted: &wanted };
            let body = body.clone().into();
            let answer = self.peers.request(to, method.clone(), path, body, deadline);
            match answer.await {
                Ok((status, body)) if status.is_success() => {
                    return serde_json::from_slice(&body)
                        .map_err(|e| system(&what, &e.to_string()));
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
        let advice = of_silent(name, target.may_live, self.coordinator.status().reachable);
        Err(ApiError::new(ErrorCode::NodeUnreachable, what, why, advice))
    }

    /// Whether a node answers this one. The coordinator may hear it all the same.
    pub async fn answers(&self, member: &NodeLiveness) -> bool {
        let (method, path) = (Method::GET, routes::NODE);
        let deadline = if member.may_live { QUESTION } else { SHORT_QUESTION };
        let answer =
            self.forward::<(), serde_json::Value>(member, method, path, None, deadline).await;
        !answer.is_err_and(|error| error.code == ErrorCode::NodeUnreachable)
    }
}

/// That the coordinator's own node is cut off, by all that is known.
fn isolated(here: &str) -> String {
    format!(
        "the coordinator receives heartbeats from no node but its own, {here}: unless all others are down, {here} is cut off from them. Ask one of them before you take a volume over"
    )
}

/// The same before somebody deletes what others may have and use.
fn may_be_cut_off(here: &str) -> String {
    format!(
        "Node {here} may be cut off itself, for its coordinator receives heartbeats from no other node: ask another node before you delete anything"
    )
}

/// Whether none of these is heard.
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

/// What a request ends with that was to be done on a node: if that node could not be asked, with
/// what was wanted of it; else with the node that refused it.
#[must_use]
pub fn for_what(what: &str, target: &NodeLiveness, error: ApiError) -> ApiError {
    refused_by(what, target, error, |name| format!(" on node {name}"))
}

/// The same of what a node was only to carry out, because the volume is attached there: what it is
/// about may be elsewhere.
#[must_use]
pub fn as_asked(what: &str, target: &NodeLiveness, error: ApiError) -> ApiError {
    refused_by(what, target, error, |name| format!(" (asked: node {name})"))
}

fn refused_by(
    what: &str,
    target: &NodeLiveness,
    error: ApiError,
    by: impl Fn(&str) -> String,
) -> ApiError {
    let name = &target.node.name;
    if is_unasked(target, &error) {
        let why = format!("{}: {}", not_asked(name), error.why);
        return ApiError { what: what.to_owned(), why, ..error };
    }
    // It names a node already if that one had asked yet another.
    if error.what.contains(" on node ") || error.what.contains(" (asked: node ") {
        return error;
    }
    ApiError { what: format!("{}{}", error.what, by(name)), ..error }
}

/// What to do about a node that does not answer this one. Nobody is sent to start a node that is
/// not known to be down. `may_live`: it has been heard lately, or not been missed for long enough;
/// `reaches_coordinator`: that is what the coordinator says now.
fn of_silent(name: &str, may_live: bool, reaches_coordinator: bool) -> String {
    match (reaches_coordinator, may_live) {
        (true, true) => format!(
            "Try again: node {name} is not known to be down, for the coordinator has heard it within the last seconds; if it lasts, repair the network between this node and node {name}"
        ),
        (true, false) => format!(
            "Start node {name}, or repair its network: the coordinator does not hear it either"
        ),
        (false, _) => format!(
            "Repair the network of this node, and try again: whether node {name} runs is not known here, for the coordinator does not answer either"
        ),
    }
}

fn system(what: &str, why: &str) -> ApiError {
    let advice = "See the log of that node; compare versions by `evenkeel node status`";
    ApiError::new(ErrorCode::System, what, why, advice)
}

#[cfg(test)]
mod tests;

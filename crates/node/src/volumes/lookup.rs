//! Finding a volume, and the node on which it is attached.

use std::time::Duration;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{MirrorView, NodeId, ReplicaId, ReplicaRecord, View, VolumeId};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Attached;
use crate::cluster;
use crate::coordinator::{Answer, CallError, NodeLiveness, Request, StoredVolume};
use crate::volumes::Node;

/// A volume as the coordinator knows it.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// As stored.
    pub stored: StoredVolume,
    /// Its newest view.
    pub view: View,
}

/// Reads a volume by its name or identity.
pub(super) async fn find(node: &Node, what: &str, volume: &str) -> Result<Found, ApiError> {
    let request = Request::Read { volume: volume.to_owned() };
    match node.coordinator.ask(what, request).await? {
        Answer::Volume(stored) => {
            let found = decode(what, *stored)?;
            // A node that joined a moment ago is not known here yet.
            let unknown = |(_, r): (usize, &ReplicaRecord)| node.coordinator.node(r.node).is_none();
            if found.view.replicas().any(unknown) {
                node.cluster.nodes().await;
            }
            Ok(found)
        }
        Answer::NoVolume => Err(ApiError::new(
            ErrorCode::NoSuchVolume,
            what,
            match is_identity(volume) {
                true => "there is no such volume".to_owned(),
                false => format!("there is no volume {volume}"),
            },
            "See `evenkeel volume list`",
        )),
        other => Err(unexpected(what, &other)),
    }
}

fn is_identity(volume: &str) -> bool {
    volume.parse::<VolumeId>().is_ok()
}

/// A volume as a refusal names it that may be asked for by its identity, which nobody knows it by.
pub(super) fn called(volume: &str) -> String {
    if is_identity(volume) { "that volume".to_owned() } else { format!("volume {volume}") }
}

/// Who has to carry out what is asked of a volume.
pub(super) struct There<'a> {
    pub found: &'a Found,
    pub target: &'a NodeLiveness,
    /// What is asked, as a refusal begins.
    pub what: &'a str,
}

/// Has another node carry out what is asked of a volume. Nodes name volumes and replicas to each
/// other by their identities; what that node refuses it with is told by their names, and its own.
///
/// # Errors
/// As [`Cluster::forward`](crate::cluster::Cluster::forward).
pub(super) async fn forward<Q: Serialize, A: DeserializeOwned>(
    node: &Node,
    there: There<'_>,
    method: Method,
    path: &str,
    body: Option<&Q>,
    deadline: Duration,
) -> Result<A, ApiError> {
    let answer = node.cluster.forward(there.target, method, path, body, deadline).await;
    match answer {
        Ok(answer) => Ok(answer),
        Err(error) => Err(not_done(node, &there, error, cluster::as_asked).await),
    }
}

/// How a refusal names the node that has refused.
pub(super) type Naming = fn(&str, &NodeLiveness, ApiError) -> ApiError;

/// Why that is not done, and where: if the node does not answer, with the way out.
pub(super) async fn not_done(
    node: &Node,
    there: &There<'_>,
    error: ApiError,
    naming: Naming,
) -> ApiError {
    let There { found, target, what } = *there;
    let is_silent = cluster::is_unasked(target, &error) && error.code == ErrorCode::NodeUnreachable;
    let mut reported = by_names(node, found, naming(what, target, error));
    if is_silent {
        // It may have died a moment ago.
        node.cluster.nodes().await;
        let now = node.coordinator.node_by_name(&target.node.id);
        let may_live = now.map_or(target.may_live, |now| now.may_live);
        let (name, volume) = (&target.node.name, &found.stored.record.name);
        let expiry = node.config.coordinator.expiry_seconds;
        let liveness = match node.coordinator.status().reachable {
            true if may_live => Liveness::CountsFor(expiry),
            true => Liveness::Dead,
            false => Liveness::Unknown,
        };
        let needed = needed_without(node, &found.view, &target.node.id);
        reported.action = way_out(name, volume, liveness, needed.as_ref());
    }
    reported
}

/// A mirror of which no node that may be alive has an in-sync replica, but for one node.
#[derive(Debug)]
struct Needed {
    mirror: usize,
    /// The other nodes that have one.
    others: Vec<String>,
}

/// What keeps other nodes from going on without this one.
fn needed_without(node: &Node, view: &View, target: &str) -> Option<Needed> {
    let elsewhere = |mirror: &MirrorView| -> Vec<NodeId> {
        let nodes = mirror.in_sync().map(|replica| replica.node);
        nodes.filter(|id| id.to_string() != target).collect()
    };
    let is_dead = |id: &NodeId| node.coordinator.is_dead(*id);
    let mut mirrors = view.mirrors.iter().map(elsewhere).enumerate();
    let (mirror, dead) = mirrors.find(|(_, nodes)| nodes.iter().all(is_dead))?;
    let mut others: Vec<_> =
        dead.into_iter().map(|id| node.coordinator.node_ref(id).name).collect();
    others.sort();
    others.dedup();
    Some(Needed { mirror, others })
}

/// What the coordinator says of a node that does not answer this one.
#[derive(Debug, Clone, Copy)]
enum Liveness {
    /// It counts as dead after so many seconds of silence, and does not yet.
    CountsFor(u64),
    Dead,
    /// The coordinator does not answer either.
    Unknown,
}

/// What to do about a node that does not answer and has a volume. Nobody is sent to start one that
/// is not known to be down.
fn way_out(node: &str, volume: &str, liveness: Liveness, needed: Option<&Needed>) -> String {
    let attach = format!("`evenkeel attach {volume}` on another node");
    match (liveness, needed) {
        (Liveness::CountsFor(seconds), None) => format!(
            "Node {node} is not known to be down: try again, and repair the network to it if it runs. If it has died: {seconds} s after its last sign of life it counts as dead; then {attach} takes the volume over"
        ),
        (Liveness::CountsFor(_), Some(needed)) => format!(
            "Node {node} is not known to be down: try again, and repair the network to it if it runs. If it has died, start it{}",
            needed.instead(&attach)
        ),
        (Liveness::Dead, None) => format!(
            "Start node {node}, or repair its network; or take the volume over, by {attach}"
        ),
        (Liveness::Dead, Some(needed)) => {
            format!("Start node {node}, or repair its network{}", needed.instead(&attach))
        }
        (Liveness::Unknown, _) => format!(
            "Repair the network of this node, and try again: whether node {node} runs is not known here, for the coordinator does not answer either"
        ),
    }
}

impl Needed {
    /// Why no other node can take the volume over as things are, as the end of a sentence.
    fn instead(&self, attach: &str) -> String {
        let mirror = self.mirror;
        match self.others.len() {
            0 => format!(
                ": no other node can take the volume over, as none has an in-sync replica of mirror {mirror}"
            ),
            count => format!(
                "; or first start {} {}, without which no in-sync replica of mirror {mirror} is there, and then take the volume over, by {attach}",
                if count > 1 { "one of nodes" } else { "node" },
                self.others.join(", ")
            ),
        }
    }
}

/// A refusal with the names of a volume and its replicas in the place of their identities.
pub(super) fn by_names(node: &Node, found: &Found, mut error: ApiError) -> ApiError {
    let replicas = found.view.replicas().map(|(_, record)| record);
    let replicas: Vec<(String, String)> = replicas
        .map(|record| (record.id.to_string(), places(node, found, record)[0].clone()))
        .collect();
    let volume = (&found.stored.record.id, &found.stored.record.name);
    for text in [&mut error.what, &mut error.why, &mut error.action] {
        for (id, name) in replicas.iter().map(|(id, place)| (id, place)).chain([volume]) {
            *text = text.replace(id, name);
        }
    }
    error
}

/// Reads the view of a stored volume.
pub(super) fn decode(what: &str, stored: StoredVolume) -> Result<Found, ApiError> {
    let view = stored.view.decode().map_err(|e: CallError| {
        let advice = "The coordinator runs other software, or its database is damaged";
        ApiError::new(ErrorCode::System, what, e.to_string(), advice)
    })?;
    Ok(Found { stored, view })
}

/// The coordinator answered something that does not belong to the question.
pub(super) fn unexpected(what: &str, answer: &Answer) -> ApiError {
    if let Answer::NodeRemoved { why } = answer {
        return crate::coordinator::removed::refusal(what, why);
    }
    let why = format!("the coordinator answered {answer:?}");
    ApiError::new(
        ErrorCode::System,
        what,
        why,
        "Compare the nodes' versions by `evenkeel node status`",
    )
}

/// Another node on which the volume is attached, if it is: the first primary of its view whose node
/// may be alive, or the first of all.
pub(super) fn primary_elsewhere(node: &Node, view: &View) -> Option<NodeId> {
    let elsewhere = || primaries_elsewhere(node, view);
    let may_live = |id: &NodeId| node.coordinator.node(*id).is_some_and(|member| member.may_live);
    elsewhere().find(may_live).or_else(|| elsewhere().next())
}

/// The other nodes on which the volume is attached.
pub(super) fn primaries_elsewhere(node: &Node, view: &View) -> impl Iterator<Item = NodeId> {
    let here = node.identity.node;
    view.primaries.iter().map(|primary| primary.id.node).filter(move |id| *id != here)
}

/// The node that has to carry out what is asked of a volume: where it is attached, if that is not
/// here. `None`: this one.
///
/// # Errors
/// If another node thought that this is it, or its node is not known here.
pub(super) fn carried_out_elsewhere(
    node: &Node,
    found: &Found,
    forwarded: bool,
    what: &str,
) -> Result<Option<NodeLiveness>, ApiError> {
    let is_here = node.volumes.get(found.view.volume).is_some();
    match primary_elsewhere(node, &found.view) {
        Some(_) if is_here => Ok(None),
        Some(_) if forwarded => Err(moved(what)),
        Some(elsewhere) => member(node, what, elsewhere).map(Some),
        None => Ok(None),
    }
}

/// A node by its identity, as last known.
pub(super) fn member(node: &Node, what: &str, id: NodeId) -> Result<NodeLiveness, ApiError> {
    node.coordinator.node(id).ok_or_else(|| {
        let name = node.coordinator.node_ref(id).name;
        let why = match name == id.to_string() {
            true => "a node that it needs is not known here".to_owned(),
            false => format!("node {name} is not known here"),
        };
        ApiError::new(ErrorCode::NoSuchNode, what, why, "See `evenkeel node status`")
    })
}

/// A node by its name or identity; `None`: it is this one.
pub(super) async fn named(
    node: &Node,
    what: &str,
    name: &str,
) -> Result<Option<NodeLiveness>, ApiError> {
    if name == node.identity.name || name == node.identity.node.to_string() {
        return Ok(None);
    }
    node.cluster.nodes().await;
    node.coordinator.node_by_name(name).map(Some).ok_or_else(|| {
        let names: Vec<_> = node.coordinator.nodes().into_iter().map(|l| l.node.name).collect();
        let why = format!("there is no node {name}; there are: {}", names.join(", "));
        ApiError::new(ErrorCode::NoSuchNode, what, why, "See `evenkeel node status`")
    })
}

/// A request came from another node, which believed that it belongs here, and it does not.
pub(super) fn moved(what: &str) -> ApiError {
    ApiError::new(
        ErrorCode::WrongState,
        what,
        "the volume was attached or detached meanwhile",
        "Try again",
    )
}

/// A replica's node and disk, as in `alpha:disk1`; by the node's identity too.
pub(super) fn places(node: &Node, found: &Found, record: &ReplicaRecord) -> [String; 2] {
    let id = record.id.to_string();
    let placed = found.stored.record.replicas.iter().find(|placed| placed.id == id);
    let disk = placed.map_or("?", |placed| placed.disk.as_str());
    let node = node.coordinator.node_ref(record.node);
    [format!("{}:{disk}", node.name), format!("{}:{disk}", node.id)]
}

/// A replica's node and disk, as in `alpha:disk1`.
pub(super) fn place_of(node: &Node, attached: &Attached, replica: ReplicaId) -> String {
    let id = replica.to_string();
    match attached.record().replicas.iter().find(|placed| placed.id == id) {
        Some(placed) => {
            let home = placed.node.parse().map(|id| node.coordinator.node_ref(id).name);
            format!("{}:{}", home.unwrap_or_else(|_| placed.node.clone()), placed.disk)
        }
        None => "a disk that is not known here".to_owned(),
    }
}

#[cfg(test)]
mod tests;

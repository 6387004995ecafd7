//! This node as a member of its cluster: joining, heartbeats, status.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::types::{Authentication, ClusterNode, MemoryStatus, NodeAnswer, NodeStatus};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::NodeId;
use evenkeel_format::{NAME_RULE, is_name};
use hyper::Method;
use hyper::body::Bytes;

use crate::certificates;
use crate::config::Address;
use crate::coordinator::remote::Remote;
use crate::coordinator::{
    Answer, CallError, NodeLiveness, NodeRecord, Registration, RemovedNode, Request, removed,
};
use crate::identity::Identity;
use crate::node::Node;
use crate::peer::{Wanted, requests};
use crate::volumes::attachment::leftovers;
use crate::{admission, cluster};

/// What the state directory remembers of the cluster.
pub const FILE: &str = "cluster.json";
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long a member may take to hear of a removal.
const REMOVAL: Duration = Duration::from_secs(2);
/// The pause between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The nodes are read anew after so many heartbeats, even if nothing seems to have changed: who is
/// alive changes without a revision.
const REFRESH: u32 = 5;

/// This start of the daemon as it registers. `is_chosen`: an operator says that it counts.
pub fn registration(identity: &Identity, addresses: &[String], is_chosen: bool) -> Registration {
    let start = identity.start.id();
    let node = NodeRecord {
        id: identity.node.to_string(),
        name: identity.name.clone(),
        addresses: addresses.to_vec(),
        software: env!("CARGO_PKG_VERSION").to_owned(),
        incarnation: start.incarnation.0,
        counter: start.counter,
    };
    Registration { node, lineage: identity.start.lineage(), is_chosen }
}

/// Makes this node a member of the cluster whose coordinator's node is at this address.
/// `is_chosen`: an operator says that this node counts, should it have been found to be a copy of
/// another.
///
/// # Errors
/// If it is a member of another one, or is refused there.
pub async fn join(node: &Arc<Node>, address: &str, is_chosen: bool) -> Result<(), ApiError> {
    let what = format!("cannot join the cluster of {address}");
    let bad = |what: &str, why: String| {
        ApiError::new(ErrorCode::BadRequest, what, why, "Check the address")
    };
    let mut parsed = Address::parse(address).map_err(|why| bad(&what, why))?;
    if node.embedded.is_some() {
        let why = "this node serves a coordinator of its own (`here = true` under [coordinator])";
        let advice = "Join the others to this node, or take that key away and restart it";
        return Err(ApiError::new(ErrorCode::AlreadyJoined, what, why, advice));
    }
    let membership = node.coordinator.membership();
    let known = membership.address.as_ref().and_then(|known| Address::parse(known).ok());
    if membership.coordinator.is_some() && known.as_ref() != Some(&parsed) {
        // By another node of the same cluster.
        parsed = match coordinator_of(node, &parsed).await {
            Some(named) if Some(&named) == known.as_ref() => named,
            _ => return Err(already_joined(what, membership.address)),
        };
    }
    let mut remote = remote_at(node, &parsed);
    let mut answer = register_at(node, &remote, is_chosen).await;
    if let Err(CallError::Refused(_)) = &answer
        && let Some(named) = coordinator_of(node, &parsed).await
    {
        tracing::info!(asked = %parsed, coordinator = %named, "going on to the coordinator's node");
        (parsed, remote) = (named.clone(), remote_at(node, &named));
        answer = register_at(node, &remote, is_chosen).await;
    }
    let what = match parsed.to_string() {
        named if named == address => what,
        named => format!("{what}, whose coordinator is said to be at {named}"),
    };
    let (coordinator, cluster) = match answer {
        Ok(Answer::Registered { coordinator, cluster }) => (coordinator, cluster),
        Ok(Answer::NameInUse) => return Err(name_in_use(node, what)),
        Ok(Answer::ClusterFull { most }) => return Err(cluster_full(what, most)),
        Ok(refusal @ (Answer::Waits { .. } | Answer::Copy { .. } | Answer::Superseded { .. })) => {
            note_refusal(node, refusal).await;
            return admission::demand(node, &what);
        }
        Ok(Answer::NodeRemoved { why }) => {
            admission::is_removed(node, &why);
            return Err(removed::refusal(&what, &why));
        }
        Ok(other) => return Err(bad(&what, format!("it answered {other:?}"))),
        Err(CallError::Refused(why)) => {
            let advice = "Give the address of the node with `here = true` under [coordinator]";
            return Err(ApiError::new(ErrorCode::WrongCluster, what, why, advice));
        }
        Err(CallError::Unreachable(why)) => {
            let refused = why.contains("refused the connection:");
            let code = if refused { ErrorCode::NotAuthorised } else { ErrorCode::NodeUnreachable };
            let advice =
                "Check the address, and that the coordinator's node runs and lets this one in";
            return Err(ApiError::new(code, what, why, advice));
        }
    };
    node.peers.forget_coordinator();
    let remote = Arc::new(Remote::new(node.peers.clone(), parsed.clone()));
    node.coordinator.set(remote, Some(&parsed));
    node.coordinator.set_id(coordinator);
    admit(node).await;
    cluster::nodes(node).await;
    save(node).await.map_err(|why| {
        let advice = "Repair the state directory's file system, then join again";
        ApiError::new(ErrorCode::System, what, why, advice)
    })?;
    tracing::info!(%address, %cluster, "joined the cluster");
    Ok(())
}

fn already_joined(what: String, address: Option<String>) -> ApiError {
    let why = format!("it belongs to the one of {}", address.unwrap_or_default());
    let advice = "A node keeps its cluster; use another state directory for another cluster";
    ApiError::new(ErrorCode::AlreadyJoined, what, why, advice)
}

fn remote_at(node: &Node, address: &Address) -> Remote {
    Remote::first(node.peers.clone(), address.clone())
}

async fn register_at(node: &Node, remote: &Remote, is_chosen: bool) -> Result<Answer, CallError> {
    let request = registration(&node.identity, &node.addresses, is_chosen);
    crate::coordinator::Coordinator::call(remote, Request::Register(request)).await
}

/// Where the node at an address, which serves no coordinator, says that the one of its cluster is.
/// Both have to prove that they belong to the cluster, as with every connection.
async fn coordinator_of(node: &Node, address: &Address) -> Option<Address> {
    let (path, deadline) = (routes::NODE, cluster::QUESTION);
    // Nobody is wanted: an operator has given the address.
    let to = (address, &Wanted::Anyone);
    let answer = node.peers.request(to, Method::GET, path, Bytes::new(), deadline).await;
    let (_, body) = answer.ok().filter(|(status, _)| status.is_success())?;
    let status = serde_json::from_slice::<NodeAnswer>(&body).ok()?.node;
    let named = Address::parse(&status.coordinator.address?).ok()?;
    (named != *address).then_some(named)
}

/// The coordinator does not admit this start.
async fn note_refusal(node: &Arc<Node>, answer: Answer) {
    match answer {
        Answer::Waits { seconds } => admission::waits(node, seconds),
        Answer::Copy { at } => remember(node, move |node| admission::is_copy(node, &at)).await,
        Answer::Superseded { at } => {
            remember(node, move |node| admission::is_superseded(node, &at)).await;
        }
        Answer::NodeRemoved { why } => admission::is_removed(node, &why),
        _ => {}
    }
}

/// Tells the coordinator that this start serves nothing any more, so that the next one need not
/// wait. Whether it hears that is of no further interest.
pub async fn say_goodbye(node: &Node) {
    let goodbye = Request::Goodbye {
        node: node.identity.node.to_string(),
        incarnation: node.identity.start.incarnation().0,
    };
    if admission::is_admitted(node) {
        let _ = tokio::time::timeout(GOODBYE, node.coordinator.call_once(goodbye)).await;
    }
}

fn name_in_use(node: &Node, what: impl Into<String>) -> ApiError {
    let why = format!("another node of the cluster is named {}", node.identity.name);
    ApiError::new(
        ErrorCode::NameInUse,
        what,
        why,
        "Give it another name in its configuration file, and restart it",
    )
}

fn cluster_full(what: impl Into<String>, most: usize) -> ApiError {
    let why = format!("the cluster has {most} nodes, and may have no more");
    let advice = "Take nodes out that do not return: `evenkeel node remove NODE`";
    ApiError::new(ErrorCode::WrongState, what, why, advice)
}

async fn save(node: &Arc<Node>) -> Result<(), String> {
    let save = |node: &Node| Ok(node.state.save(FILE, &node.coordinator.membership()));
    node.blocking(save).await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

/// What the coordinator says of this start is remembered, which blocks on a disk.
async fn remember(node: &Arc<Node>, note: impl FnOnce(&Node) + Send + 'static) {
    let noted = node.blocking(|node| {
        note(node);
        Ok(())
    });
    if let Err(error) = noted.await {
        node.warn(error.to_string());
    }
}

async fn admit(node: &Arc<Node>) {
    if !admission::is_admitted(node) {
        remember(node, admission::admit).await;
    }
}

/// The cluster's name is this one.
async fn is_called(node: &Arc<Node>, name: String) {
    if node.credentials.cluster.get() == name {
        return;
    }
    let set = move |node: &Node| match node.credentials.cluster.set(&node.state, &name) {
        Ok(false) => {}
        Ok(true) => tracing::info!(cluster = name, "the cluster has another name"),
        Err(error) => node.warn(format!("cannot remember the cluster's new name: {error}")),
    };
    remember(node, set).await;
}

/// Gives the cluster another name; tells what was done.
///
/// # Errors
/// If it is none, or the coordinator does not answer.
pub async fn rename_cluster(node: &Arc<Node>, name: String) -> Result<String, ApiError> {
    let what = "cannot rename the cluster";
    if !is_name(&name) {
        let why = format!("{name:?} is not permitted: {NAME_RULE}");
        return Err(ApiError::new(ErrorCode::BadRequest, what, why, "Choose another name"));
    }
    let before = node.credentials.cluster.get();
    if before == name {
        return Ok(format!("the cluster is called {name} already"));
    }
    let request = Request::Rename { name: name.clone(), replaces: Some(before.clone()) };
    match node.coordinator.ask(what, request).await? {
        Answer::Done => is_called(node, name.clone()).await,
        Answer::ClusterNamed { name: other } => {
            let why = format!("somebody has called it {other} meanwhile");
            return Err(ApiError::new(ErrorCode::WrongState, what, why, "Give the command again"));
        }
        other => {
            let why = format!("the coordinator answered {other:?}");
            let advice = "Compare the nodes' versions by `evenkeel node status`";
            return Err(ApiError::new(ErrorCode::System, what, why, advice));
        }
    }
    Ok(format!("the cluster is called {name}, and was {before}: its nodes use that within seconds"))
}

/// Tells the coordinator every second that this node is alive, and keeps what it says of others.
pub async fn heartbeats(node: Arc<Node>) {
    let mut stopping = node.stopping.subscribe();
    let mut member = Member::default();
    loop {
        tokio::select! {
            () = member.beat(&node) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}

/// What the heartbeats know of the last ones.
#[derive(Default)]
struct Member {
    registered: bool,
    revision: u64,
    beats: u32,
}

impl Member {
    async fn beat(&mut self, node: &Arc<Node>) {
        if !node.coordinator.is_joined() {
            if let Some(address) = &node.config.coordinator.join
                && let Err(error) = join(node, address, false).await
            {
                tracing::warn!(%error, "cannot join yet; trying again");
            }
            return;
        }
        if !self.registered {
            return self.register(node).await;
        }
        let request = Request::Heartbeat { node: node.identity.node.to_string() };
        match node.coordinator.call_once(request).await {
            Ok(Answer::Heard { revision, cluster, other }) => {
                other.iter().for_each(|at| admission::warn_of_copy(node, at));
                if let Some(name) = cluster {
                    is_called(node, name).await;
                }
                self.heard(node, revision).await;
            }
            Ok(refusal @ Answer::Superseded { .. }) => note_refusal(node, refusal).await,
            Ok(Answer::NotRegistered) => self.registered = false,
            Ok(refusal @ Answer::NodeRemoved { .. }) => {
                note_refusal(node, refusal).await;
                self.registered = false;
            }
            Ok(_) | Err(CallError::Refused(_)) => {}
            // Its node may have been restarted from another database: introduce ourselves anew.
            Err(CallError::Unreachable(_)) => self.registered = false,
        }
    }

    async fn register(&mut self, node: &Arc<Node>) {
        let request = Request::Register(registration(&node.identity, &node.addresses, false));
        match node.coordinator.call_once(request).await {
            Ok(Answer::Registered { coordinator, cluster }) => {
                is_called(node, cluster).await;
                let known = node.coordinator.membership().coordinator;
                if known.as_ref().is_some_and(|known| *known != coordinator) {
                    node.warn(format!(
                        "the coordinator is another one ({coordinator}) than this node joined: its volumes are not this node's"
                    ));
                }
                node.coordinator.set_id(coordinator);
                admit(node).await;
                self.registered = true;
                self.revision = 0;
            }
            Ok(Answer::NameInUse) => {
                node.warn(name_in_use(node, "cannot join the cluster").to_string())
            }
            Ok(Answer::ClusterFull { most }) => {
                node.warn(cluster_full("cannot join the cluster", most).to_string())
            }
            Ok(answer) => note_refusal(node, answer).await,
            Err(_) => {}
        }
    }

    async fn heard(&mut self, node: &Arc<Node>, revision: u64) {
        self.beats += 1;
        let is_news = revision != self.revision || node.credentials.epoch.is_behind();
        if (is_news || self.beats.is_multiple_of(REFRESH)) && refresh(node).await {
            self.revision = revision;
            // The coordinator was restarted with another database, within a heartbeat.
            self.registered = node.coordinator.node(node.identity.node).is_some();
        }
    }
}

/// Fetches from the coordinator who is a member and who was removed, and ends the links with those
/// of which that is news. Whether anything has changed; `None`: it does not answer.
pub async fn fetch(node: &Node) -> Option<bool> {
    let known = &node.credentials.epoch;
    let _turn = known.turn().await;
    let asked = known.ask();
    let (epoch, nodes, removed) = ask_for_members(node).await?;
    node.peers.learn(&nodes);
    for gone in node.peers.learn_removed(&removed) {
        node.data.engine().disconnect(gone);
    }
    let changed = node.coordinator.set_nodes(nodes);
    let changed = node.coordinator.set_removed(removed, epoch) || changed;
    known.fetched(epoch, asked);
    Some(changed)
}

/// The epoch, the members, and who was removed. A coordinator of older software counts no epochs.
async fn ask_for_members(node: &Node) -> Option<(u64, Vec<NodeLiveness>, Vec<RemovedNode>)> {
    let ask = |request| node.coordinator.call_once(request);
    match ask(Request::Membership).await {
        Ok(Answer::Membership { epoch, nodes, removed }) => return Some((epoch, nodes, removed)),
        Err(CallError::Refused(_)) => {}
        _ => return None,
    }
    let Ok(Answer::Nodes(nodes)) = ask(Request::Nodes).await else { return None };
    let removed = match ask(Request::RemovedNodes).await {
        Ok(Answer::RemovedNodes(removed)) => removed,
        // Still older software removes none.
        Err(CallError::Refused(_)) => node.coordinator.membership().removed,
        _ => return None,
    };
    Some((0, nodes, removed))
}

/// Fetches the same, and remembers it. Whether the coordinator answers.
pub async fn refresh(node: &Arc<Node>) -> bool {
    let Some(changed) = fetch(node).await else { return false };
    if changed && let Err(why) = save(node).await {
        node.warn(format!("cannot remember the cluster's nodes: {why}"));
    }
    true
}

/// Ends the links with a node if it was removed: one that was let in just before may have been
/// handed over after the others were ended.
pub fn cut_removed(node: &Node, peer: NodeId) {
    if node.peers.removed(peer).is_some() {
        node.data.engine().disconnect(peer);
    }
}

/// Tells all members that live to ask the coordinator who was removed. Returns the names of those
/// that did not do it in time: they learn it with a heartbeat.
pub async fn tell_removal(node: &Arc<Node>) -> Vec<String> {
    let here = node.identity.node.to_string();
    let others = node.coordinator.nodes().into_iter();
    let asked: Vec<_> = others
        .filter(|member| member.alive && member.node.id != here)
        .map(|member| {
            let node = node.clone();
            tokio::spawn(async move {
                let (method, path) = (Method::POST, requests::REMOVED);
                let told =
                    cluster::forward::<(), ()>(&node, &member, method, path, None, REMOVAL).await;
                told.is_err().then_some(member.node.name)
            })
        })
        .collect();
    let mut silent = Vec::new();
    for told in asked {
        silent.extend(told.await.ok().flatten());
    }
    silent
}

/// All nodes of the cluster, and whether those that live answer this one.
///
/// # Errors
/// If the coordinator does not answer.
pub async fn list(node: &Arc<Node>) -> Result<Vec<ClusterNode>, ApiError> {
    let what = "cannot list the nodes";
    let Answer::Nodes(nodes) = node.coordinator.ask(what, Request::Nodes).await? else {
        let advice = "Compare the versions of the nodes";
        return Err(ApiError::new(ErrorCode::System, what, "an unexpected answer", advice));
    };
    let here = node.identity.node.to_string();
    // All are asked at the same time: where several are silent, one wait is to follow no other.
    let ask = |member: NodeLiveness| {
        let (at, is_here) = (node.clone(), member.node.id == here);
        let asked = tokio::spawn(async move {
            match member.alive && !is_here {
                true => (Some(cluster::answers(&at, &member).await), member),
                false => (None, member),
            }
        });
        (is_here, asked)
    };
    let asked: Vec<_> = nodes.into_iter().map(ask).collect();
    let mut list = Vec::new();
    for (here, asked) in asked {
        let (answers, member) = asked.await.map_err(|error| {
            let advice = "Please report this, with the node's log";
            ApiError::new(ErrorCode::System, what, error.to_string(), advice)
        })?;
        list.push(ClusterNode {
            here,
            id: member.node.id,
            name: member.node.name,
            addresses: member.node.addresses,
            coordinator: member.coordinator,
            alive: member.alive,
            unknown: member.may_live && !member.alive,
            answers,
            last_seen: member.last_seen,
            software: member.node.software,
        });
    }
    Ok(list)
}

/// This node's status.
pub async fn status(node: &Arc<Node>) -> NodeStatus {
    let disks = node.blocking(|node| Ok(node.disks.list())).await.unwrap_or_default();
    let used: usize = node.data.survey().await.iter().map(|worker| worker.memory).sum();
    let workers = node.config.workers();
    let authentication = match node.credentials.tls.get() {
        None => Authentication::None,
        Some(_) => Authentication::MutualTls,
    };
    let past = node.past_warnings();
    let (mut warned_at, mut warnings): (Vec<_>, Vec<_>) =
        past.into_iter().map(|warning| (Some(warning.at), warning.text)).unzip();
    warnings.extend(admission::warning(node));
    warnings.extend(cluster::isolation(node));
    warnings.extend(certificates::unproved(&node.config));
    warnings.extend(certificates::serves_no_clients(&node.config));
    warnings.extend(disks.iter().flat_map(|disk| {
        let of = |problem: &String| format!("disk {}: {problem}", disk.name);
        disk.problem.as_ref().map(of)
    }));
    warnings.extend(node.disks.files_gone());
    warnings.extend(node.volumes.unsaved());
    warnings.extend(leftovers::warnings(node).await);
    warned_at.resize(warnings.len(), None);
    NodeStatus {
        id: node.identity.node.to_string(),
        name: node.identity.name.clone(),
        cluster: node.credentials.cluster.get(),
        software: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started: node.started,
        addresses: node.addresses.clone(),
        authentication,
        coordinator: node.coordinator.status(),
        workers,
        memory: MemoryStatus {
            per_volume: node.config.data.memory_per_volume.0,
            buffers: node.config.data.memory_per_worker.0 * workers as u64,
            buffers_used: used as u64,
        },
        disks: disks.len(),
        replicas: disks.iter().map(|disk| disk.replicas.len()).sum(),
        attached: node.volumes.names(),
        warnings,
        warned_at,
    }
}

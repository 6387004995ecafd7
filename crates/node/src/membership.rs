//! This node as a member of its cluster: how it becomes one, its heartbeats, and what it knows of
//! the others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_api::types::ClusterNode;
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::NodeId;
use evenkeel_format::{NAME_RULE, is_name};
use hyper::Method;

use crate::admission::Admission;
use crate::cluster::Cluster;
use crate::coordinator::{
    Answer, CallError, NodeLiveness, NodeRecord, Registration, RemovedNode, Request,
};
use crate::data_path::DataPath;
use crate::own::Own;
use crate::peer::{Credentials, requests};
use crate::state::identity::Identity;
use crate::tasks;

mod heartbeats;
mod joining;

pub use heartbeats::heartbeats;

/// What the state directory remembers of the cluster.
pub const FILE: &str = "cluster.json";
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long a member may take to answer that it knows of a removal.
const REMOVAL: Duration = Duration::from_secs(2);

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

fn cluster_full(what: impl Into<String>, most: usize) -> ApiError {
    let why = format!("the cluster has {most} nodes, and may have no more");
    let advice = "Take nodes out that do not return: `evenkeel node remove NODE`";
    ApiError::new(ErrorCode::WrongState, what, why, advice)
}

/// This node as a member of its cluster.
pub struct Member {
    own: Own,
    cluster: Cluster,
    credentials: Credentials,
    admission: Arc<Admission>,
    data: DataPath,
    /// Where peers reach it.
    addresses: Vec<String>,
    /// Held while it is saved what is known of the cluster.
    saving: Mutex<()>,
}

impl Member {
    /// A member whose links to those that are removed end in the data path.
    #[must_use]
    pub fn new(
        own: Own,
        cluster: Cluster,
        credentials: Credentials,
        admission: Arc<Admission>,
        data: DataPath,
        addresses: Vec<String>,
    ) -> Self {
        let saving = Mutex::default();
        Self { own, cluster, credentials, admission, data, addresses, saving }
    }

    /// Where peers reach it.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let member = self.clone();
        tasks::blocking(move || work(&member)).await
    }

    /// The coordinator does not admit this start.
    async fn note_refusal(self: &Arc<Self>, answer: Answer) {
        match answer {
            Answer::Waits { seconds } => self.admission.waits(seconds),
            Answer::Copy { at } => self.remember(move |member| member.admission.is_copy(&at)).await,
            Answer::Superseded { at } => {
                self.remember(move |member| member.admission.is_superseded(&at)).await;
            }
            Answer::NodeRemoved { why } => self.admission.is_removed(&why),
            _ => {}
        }
    }

    /// Tells the coordinator that this start serves nothing any more, so that the next one need not
    /// wait. Whether it hears that is of no further interest.
    pub async fn say_goodbye(&self) {
        let goodbye = Request::Goodbye {
            node: self.own.identity.node.to_string(),
            incarnation: self.own.identity.start.incarnation().0,
        };
        if self.admission.is_admitted() {
            let _ =
                tokio::time::timeout(GOODBYE, self.cluster.coordinator().call_once(goodbye)).await;
        }
    }

    fn name_in_use(&self, what: impl Into<String>) -> ApiError {
        let why = format!("another node of the cluster is named {}", self.own.identity.name);
        ApiError::new(
            ErrorCode::NameInUse,
            what,
            why,
            "Give it another name in its configuration file, and restart it",
        )
    }

    async fn save(self: &Arc<Self>) -> Result<(), String> {
        let save = |member: &Self| {
            // What is saved last has to be what is known then.
            let _turn = member.saving.lock().unwrap_or_else(PoisonError::into_inner);
            let membership = member.cluster.coordinator().membership();
            Ok(member.own.state.save(FILE, &membership))
        };
        self.blocking(save).await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }

    /// What the coordinator says of this start is remembered, which blocks on a disk.
    async fn remember(self: &Arc<Self>, note: impl FnOnce(&Self) + Send + 'static) {
        let noted = self.blocking(|member| {
            note(member);
            Ok(())
        });
        if let Err(error) = noted.await {
            self.own.warnings.warn(error.to_string());
        }
    }

    async fn admit(self: &Arc<Self>) {
        if !self.admission.is_admitted() {
            self.remember(|member| member.admission.admit()).await;
        }
    }

    /// The cluster's name is this one.
    async fn is_called(self: &Arc<Self>, name: String) {
        if self.credentials.cluster.get() == name {
            return;
        }
        let set =
            move |member: &Self| match member.credentials.cluster.set(&member.own.state, &name) {
                Ok(false) => {}
                Ok(true) => tracing::info!(cluster = name, "the cluster has another name"),
                Err(error) => member
                    .own
                    .warnings
                    .warn(format!("cannot remember the cluster's new name: {error}")),
            };
        self.remember(set).await;
    }

    /// Gives the cluster another name; tells what was done.
    ///
    /// # Errors
    /// If it is none, or the coordinator does not answer.
    pub async fn rename_cluster(self: &Arc<Self>, name: String) -> Result<String, ApiError> {
        let what = "cannot rename the cluster";
        if !is_name(&name) {
            let why = format!("{name:?} is not permitted: {NAME_RULE}");
            return Err(ApiError::new(ErrorCode::BadRequest, what, why, "Choose another name"));
        }
        let before = self.credentials.cluster.get();
        if before == name {
            return Ok(format!("the cluster is called {name} already"));
        }
        let request = Request::Rename { name: name.clone(), replaces: Some(before.clone()) };
        match self.cluster.coordinator().ask(what, request).await? {
            Answer::Done => self.is_called(name.clone()).await,
            Answer::ClusterNamed { name: other } => {
                let why = format!("somebody has called it {other} meanwhile");
                return Err(ApiError::new(
                    ErrorCode::WrongState,
                    what,
                    why,
                    "Give the command again",
                ));
            }
            other => {
                let why = format!("the coordinator answered {other:?}");
                let advice = "Compare the nodes' versions by `evenkeel node status`";
                return Err(ApiError::new(ErrorCode::System, what, why, advice));
            }
        }
        Ok(format!(
            "the cluster is called {name}, and was {before}: its nodes use that within seconds"
        ))
    }

    /// Fetches from the coordinator who is a member and who was removed, and ends the links with
    /// those of which that is news. Whether anything has changed; `None`: it does not answer.
    pub async fn fetch(&self) -> Option<bool> {
        let known = &self.credentials.epoch;
        let _turn = known.turn().await;
        let asked = known.ask();
        let (epoch, nodes, removed) = self.ask_for_members().await?;
        self.cluster.peers().learn(&nodes);
        for gone in self.cluster.peers().learn_removed(&removed) {
            self.data.engine().disconnect(gone);
        }
        let changed = self.cluster.coordinator().set_nodes(nodes);
        let changed = self.cluster.coordinator().set_removed(removed, epoch) || changed;
        known.fetched(epoch, asked);
        Some(changed)
    }

    /// The epoch, the members, and who was removed. A coordinator of older software counts no
    /// epochs.
    async fn ask_for_members(&self) -> Option<(u64, Vec<NodeLiveness>, Vec<RemovedNode>)> {
        let ask = |request| self.cluster.coordinator().call_once(request);
        match ask(Request::Membership).await {
            Ok(Answer::Membership { epoch, nodes, removed }) => {
                return Some((epoch, nodes, removed));
            }
            Err(CallError::Refused(_)) => {}
            _ => return None,
        }
        let Ok(Answer::Nodes(nodes)) = ask(Request::Nodes).await else { return None };
        let removed = match ask(Request::RemovedNodes).await {
            Ok(Answer::RemovedNodes(removed)) => removed,
            // Still older software removes none.
            Err(CallError::Refused(_)) => self.cluster.coordinator().membership().removed,
            _ => return None,
        };
        Some((0, nodes, removed))
    }

    /// Fetches the same, and remembers it. Whether the coordinator answers.
    pub async fn refresh(self: &Arc<Self>) -> bool {
        let Some(changed) = self.fetch().await else { return false };
        if changed && let Err(why) = self.save().await {
            self.own.warnings.warn(format!("cannot remember the cluster's nodes: {why}"));
        }
        true
    }

    /// Ends the links with a node if it was removed: one that was let in just before may have been
    /// handed over after the others were ended.
    pub fn cut_removed(&self, peer: NodeId) {
        if self.cluster.peers().removed(peer).is_some() {
            self.data.engine().disconnect(peer);
        }
    }

    /// Has all members that may live ask the coordinator who was removed. Returns the names of
    /// those that did not do it in time: they learn it with a heartbeat.
    pub async fn report_removal(self: &Arc<Self>) -> Vec<String> {
        let here = self.own.identity.node.to_string();
        let others = self.cluster.coordinator().nodes().into_iter();
        let others = others.filter(|member| member.may_live && member.node.id != here);
        let asked = others.map(|member| {
            let at = self.clone();
            async move {
                let (method, path) = (Method::POST, requests::REMOVED);
                let reported =
                    at.cluster.forward::<(), ()>(&member, method, path, None, REMOVAL).await;
                reported.is_err().then_some(member.node.name)
            }
        });
        let reported = tasks::at_most(tasks::MAX_ASKED, asked).await;
        reported.into_iter().filter_map(|silent| silent.ok().flatten()).collect()
    }

    /// All nodes of the cluster, and whether they answer this one, also those that the coordinator
    /// does not hear: it may be cut off from them.
    ///
    /// # Errors
    /// If the coordinator does not answer.
    pub async fn list(self: &Arc<Self>) -> Result<Vec<ClusterNode>, ApiError> {
        let what = "cannot list the nodes";
        let Answer::Nodes(nodes) = self.cluster.coordinator().ask(what, Request::Nodes).await?
        else {
            let advice = "Compare the versions of the nodes";
            return Err(ApiError::new(ErrorCode::System, what, "an unexpected answer", advice));
        };
        let here = self.own.identity.node.to_string();
        let ask = |member: NodeLiveness| {
            let (at, is_here) = (self.clone(), member.node.id == here);
            async move {
                let answers = match is_here {
                    true => None,
                    false => Some(at.cluster.answers(&member).await),
                };
                (is_here, answers, member)
            }
        };
        let mut list = Vec::new();
        for asked in tasks::at_most(tasks::MAX_ASKED, nodes.into_iter().map(ask)).await {
            let (here, answers, member) = asked.map_err(|error| {
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
}

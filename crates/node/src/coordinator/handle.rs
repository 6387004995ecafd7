//! This node's way to the coordinator: the coordinator itself or a connection to it, whether it
//! answers, and what was last known of the other nodes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_api::types::{CoordinatorStatus, NodeRef};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::NodeId;
use evenkeel_core::settings::Pauses;
use serde::{Deserialize, Serialize};

use super::removed;
use super::{Answer, CallError, Coordinator, NodeLiveness, RemovedNode, Request};
use crate::clock::unix_seconds;
use crate::config::Address;
use crate::tasks::{asker_has_gone, asker_has_gone_since};

/// How long a request of the API waits for the coordinator.
const PATIENCE: Duration = Duration::from_secs(4);
/// The pauses between attempts.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(50), Duration::from_secs(1));
/// How often a volume's record may be changed by others while it is being changed here.
const MAX_CHANGES: u32 = 8;

/// The way to the coordinator.
#[derive(Default)]
pub struct Handle {
    /// The name of this node, for people whom another one tells what is refused here.
    node: String,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    coordinator: Option<Arc<dyn Coordinator>>,
    membership: Membership,
    silence: Option<Silence>,
    answered: bool,
}

/// The time in which the coordinator does not answer, as the log tells it: at first, then ever less
/// often. Each call ends in vain, and there are many a minute.
#[derive(Debug, Clone, Copy)]
struct Silence {
    /// In seconds since 1970.
    since: u64,
    /// After how many seconds of it the log tells it again.
    next: u64,
}

impl Silence {
    /// First and longest time in seconds between two lines in the log.
    const PAUSE: (u64, u64) = (60, 3600);

    const fn new(now: u64) -> Self {
        Self { since: now, next: Self::PAUSE.0 }
    }

    /// For how many seconds it has lasted, if that is to be logged now.
    fn news(&mut self, now: u64) -> Option<u64> {
        let lasted = now.saturating_sub(self.since);
        if lasted < self.next {
            return None;
        }
        self.next = lasted + lasted.clamp(Self::PAUSE.0, Self::PAUSE.1);
        Some(lasted)
    }
}

/// A node by its identity or name. What is an identity means that node, though another one may have
/// it for a name.
#[must_use]
pub fn find_node<'a>(nodes: &'a [NodeLiveness], name: &str) -> Option<&'a NodeLiveness> {
    let by_id = nodes.iter().find(|member| member.node.id == name);
    by_id.or_else(|| nodes.iter().find(|member| member.node.name == name))
}

/// What a node remembers of its cluster across restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The coordinator's identity; `None`: no member yet.
    pub coordinator: Option<String>,
    /// The coordinator's address; `None`: it is here.
    pub address: Option<String>,
    /// The nodes as last known: the addresses by which replicas are reached even while the
    /// coordinator is away.
    pub nodes: Vec<NodeLiveness>,
    /// The nodes that were removed from it, the newest last: they are refused, for good.
    #[serde(default)]
    pub removed: Vec<RemovedNode>,
    /// As of which epoch both are known; 0: of none.
    #[serde(default)]
    pub epoch: u64,
}

impl Handle {
    /// A way from a node of this name to no coordinator yet, with what was remembered.
    #[must_use]
    pub fn new(node: String, membership: Membership) -> Self {
        Self { node, inner: Mutex::new(Inner { membership, ..Inner::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, this is the coordinator.
    pub fn set(&self, coordinator: Arc<dyn Coordinator>, address: Option<&Address>) {
        let mut inner = self.lock();
        inner.coordinator = Some(coordinator);
        inner.membership.address = address.map(ToString::to_string);
    }

    /// The coordinator's identity is known: this node is a member.
    pub fn set_id(&self, id: String) {
        self.lock().membership.coordinator = Some(id);
    }

    /// What to remember.
    #[must_use]
    pub fn membership(&self) -> Membership {
        self.lock().membership.clone()
    }

    /// Whether there is a coordinator to ask.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.lock().coordinator.is_some()
    }

    /// Notes what the coordinator says of the nodes. `true`: their number or an address changed.
    pub fn set_nodes(&self, nodes: Vec<NodeLiveness>) -> bool {
        let mut inner = self.lock();
        let records =
            |nodes: &[NodeLiveness]| nodes.iter().map(|n| n.node.clone()).collect::<Vec<_>>();
        let changed = records(&inner.membership.nodes) != records(&nodes);
        inner.membership.nodes = nodes;
        changed
    }

    /// Notes which nodes were removed, as of this epoch. `true`: there are others than before. A
    /// coordinator whose database is older than it was has forgotten some: they stay removed.
    pub fn set_removed(&self, removed: Vec<RemovedNode>, epoch: u64) -> bool {
        let known = &mut self.lock().membership;
        let is_reported =
            |node: &RemovedNode| removed.iter().any(|reported| reported.id == node.id);
        let mut all = known.removed.clone();
        all.retain(|node| !is_reported(node));
        all.extend(removed);
        all.sort_by_key(|node| node.at);
        let changed = known.removed != all || known.epoch != epoch;
        (known.removed, known.epoch) = (all, epoch);
        changed
    }

    /// The nodes as last known.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeLiveness> {
        self.lock().membership.nodes.clone()
    }

    /// A node by its identity.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<NodeLiveness> {
        let id = id.to_string();
        self.lock().membership.nodes.iter().find(|member| member.node.id == id).cloned()
    }

    /// Whether a node is dead: the coordinator says so, or it was removed from the cluster. Of
    /// another one that is not known, nobody knows.
    #[must_use]
    pub fn is_dead(&self, id: NodeId) -> bool {
        let id = id.to_string();
        let Membership { nodes, removed, .. } = &self.lock().membership;
        match nodes.iter().find(|member| member.node.id == id) {
            Some(member) => !member.may_live,
            None => removed.iter().any(|node| node.id == id),
        }
    }

    /// A node by its name or identity.
    #[must_use]
    pub fn node_by_name(&self, name: &str) -> Option<NodeLiveness> {
        find_node(&self.lock().membership.nodes, name).cloned()
    }

    /// A node's two names; also of one that was removed.
    #[must_use]
    pub fn node_ref(&self, id: NodeId) -> NodeRef {
        let id = id.to_string();
        let Membership { nodes, removed, .. } = &self.lock().membership;
        let members = nodes.iter().map(|member| (&member.node.id, &member.node.name));
        let left = removed.iter().map(|node| (&node.id, &node.name));
        let name =
            members.chain(left).find(|(known, _)| **known == id).map(|(_, name)| name.clone());
        NodeRef { name: name.unwrap_or_else(|| id.clone()), id }
    }

    /// Asks once.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn call_once(&self, request: Request) -> Result<Answer, CallError> {
        let coordinator = self.lock().coordinator.clone();
        let Some(coordinator) = coordinator else {
            return Err(CallError::Unreachable("this node belongs to no cluster yet".into()));
        };
        let answer = coordinator.call(request).await;
        let reachable = !matches!(answer, Err(CallError::Unreachable(_)));
        self.note(reachable);
        answer
    }

    /// Asks, and asks again with growing pauses until there is an answer, the time is up, or
    /// [nobody awaits the change](asker_has_gone) for which this is asked. All requests may be
    /// repeated: the coordinator recognises a change that it has already made.
    ///
    /// # Errors
    /// If there is no answer in time.
    pub async fn call_within(
        &self,
        request: Request,
        patience: Duration,
    ) -> Result<Answer, CallError> {
        let started = Instant::now();
        let mut pause = PAUSES.first;
        loop {
            match self.call_once(request.clone()).await {
                Err(CallError::Unreachable(why)) if started.elapsed() + pause < patience => {
                    tokio::time::sleep(pause).await;
                    pause = PAUSES.after(pause);
                    if asker_has_gone() {
                        return Err(CallError::Unreachable(why));
                    }
                }
                answer => return answer,
            }
        }
    }

    /// Changes a volume's record by a request that names the record's revision, and asks anew if
    /// others change it in between; not if [nobody awaits the change](asker_has_gone_since) any
    /// more. `revision`: of the record as it was read, if it was.
    ///
    /// # Errors
    /// If there is no answer in time.
    pub async fn change_within(
        &self,
        volume: &str,
        revision: Option<u64>,
        patience: Duration,
        request: impl Fn(Option<u64>) -> Request,
    ) -> Result<Answer, CallError> {
        let began = Instant::now();
        let mut revision = match revision {
            Some(revision) => revision,
            None => {
                match self.call_within(Request::Read { volume: volume.into() }, patience).await? {
                    Answer::Volume(now) => now.record.revision,
                    other => return Ok(other),
                }
            }
        };
        if asker_has_gone_since(began) {
            return Err(CallError::Unreachable("nobody awaits the change any more".into()));
        }
        for _ in 1..MAX_CHANGES {
            match self.call_within(request(Some(revision)), patience).await? {
                Answer::Changed(now) if !asker_has_gone_since(began) => {
                    revision = now.record.revision
                }
                answer => return Ok(answer),
            }
        }
        self.call_within(request(Some(revision)), patience).await
    }

    /// Changes a volume's record as a user wants, with the revision that was read of it.
    ///
    /// # Errors
    /// If this node has no coordinator, or it does not answer.
    pub async fn change(
        &self,
        what: &str,
        volume: &str,
        revision: Option<u64>,
        request: impl Fn(Option<u64>) -> Request,
    ) -> Result<Answer, ApiError> {
        self.refuse_unjoined(what)?;
        let answer = self.change_within(volume, revision, PATIENCE, request).await;
        self.answered(what, answer)
    }

    /// Asks for something that a user wants.
    ///
    /// # Errors
    /// If this node has no coordinator, or it does not answer.
    pub async fn ask(&self, what: &str, request: Request) -> Result<Answer, ApiError> {
        self.refuse_unjoined(what)?;
        let answer = self.call_within(request, PATIENCE).await;
        self.answered(what, answer)
    }

    fn refuse_unjoined(&self, what: &str) -> Result<(), ApiError> {
        if self.is_joined() {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorCode::NotJoined,
            what,
            "this node belongs to no cluster yet",
            "Join one by `evenkeel node join ADDRESS`, or set `here = true` under [coordinator] and restart the node",
        ))
    }

    fn answered(&self, what: &str, answer: Result<Answer, CallError>) -> Result<Answer, ApiError> {
        if let Ok(Answer::NotRegistered | Answer::Superseded { .. }) = answer {
            return Err(ApiError::new(
                ErrorCode::NotJoined,
                what,
                "the coordinator has not admitted this start of the node",
                "Try again in a few seconds; `evenkeel node status` says what it waits for",
            ));
        }
        if let Ok(Answer::NodeRemoved { why }) = answer {
            return Err(removed::refusal(what, &why));
        }
        answer.map_err(|e| match e {
            CallError::Unreachable(why) => self.unreachable(what, &why),
            CallError::Refused(why) => {
                let advice = "See the log of the coordinator's node";
                ApiError::new(ErrorCode::System, what, why, advice)
            }
        })
    }

    /// Whether attached volumes go on meanwhile is not known here.
    fn unreachable(&self, what: &str, why: &str) -> ApiError {
        let node = &self.node;
        let coordinator = self.place();
        ApiError::new(
            ErrorCode::NoCoordinator,
            what,
            format!("the coordinator does not answer node {node}: {why}"),
            format!(
                "Start the coordinator ({coordinator}), repair the network between it and node {node}, or see its log"
            ),
        )
    }

    /// Where the coordinator is, as far as is known: its node's name, if that was ever learned, and
    /// its address.
    fn place(&self) -> String {
        let Membership { address, nodes, .. } = &self.lock().membership;
        let Some(address) = address else { return "on this node".to_owned() };
        match nodes.iter().find(|member| member.coordinator) {
            Some(member) => format!("on node {}, at {address}", member.node.name),
            None => format!("at {address}"),
        }
    }

    fn note(&self, reachable: bool) {
        let mut inner = self.lock();
        let now = unix_seconds();
        match (reachable, &mut inner.silence) {
            (true, silence) => {
                if let Some(silence) = silence.take() {
                    let seconds = now.saturating_sub(silence.since);
                    tracing::info!(seconds, "the coordinator answers again");
                } else if !inner.answered {
                    tracing::info!("the coordinator answers");
                }
                inner.answered = true;
            }
            (false, silence @ None) => {
                tracing::warn!(
                    "the coordinator does not answer: I/O goes on until a view has to change"
                );
                *silence = Some(Silence::new(now));
            }
            (false, Some(silence)) => {
                if let Some(seconds) = silence.news(now) {
                    tracing::warn!(seconds, "the coordinator still does not answer");
                }
            }
        }
    }

    /// For the status of the node.
    #[must_use]
    pub fn status(&self) -> CoordinatorStatus {
        let inner = self.lock();
        let joined = inner.coordinator.is_some();
        let reachable = joined && inner.answered && inner.silence.is_none();
        let message = match (joined, reachable) {
            (false, _) => {
                "this node belongs to no cluster yet: join one by `evenkeel node join ADDRESS`, or make this node the coordinator's by `here = true` under [coordinator]"
            }
            (true, true) => "it answers",
            (true, false) => {
                "it does not answer: attached volumes go on until a view has to change (a replica is lost, rebuilt or returns); then their requests wait until it answers, or fail after the time that `volume change NAME --on-no-coordinator` has set. Volumes cannot be created, attached, detached or deleted"
            }
        };
        CoordinatorStatus {
            id: inner.membership.coordinator.clone(),
            here: joined && inner.membership.address.is_none(),
            address: inner.membership.address.clone(),
            reachable,
            unreachable_since: inner.silence.map(|silence| silence.since),
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::NodeRecord;
    use super::*;

    #[test]
    fn a_long_silence_is_told_ever_less_often() {
        let mut silence = Silence::new(1000);
        let reported: Vec<u64> =
            (1000..1000 + 4 * 3600).filter_map(|now| silence.news(now)).collect();
        assert_eq!(reported, [60, 120, 240, 480, 960, 1920, 3840, 7440, 11_040]);
    }

    /// A view of an older database may name it still.
    #[test]
    fn a_node_is_dead_if_the_coordinator_says_so_or_it_was_removed() {
        let member = |id: u128, may_live| NodeLiveness {
            node: NodeRecord {
                id: NodeId(id).to_string(),
                name: format!("n{id}"),
                addresses: Vec::new(),
                software: "0".into(),
                incarnation: 1,
                counter: 1,
            },
            alive: may_live,
            may_live,
            last_seen: None,
            coordinator: false,
        };
        let removed =
            |id: u128| RemovedNode { id: NodeId(id).to_string(), name: format!("n{id}"), at: 1 };
        let nodes = vec![member(1, true), member(2, false)];
        let membership = Membership { nodes, removed: vec![removed(3)], ..Membership::default() };
        let handle = Handle::new("n1".into(), membership);
        let dead: Vec<bool> = (1..=4).map(|id| handle.is_dead(NodeId(id))).collect();
        assert_eq!(dead, [false, true, true, false], "the last one is not known");
    }

    #[tokio::test]
    async fn a_refusal_names_the_node_that_the_coordinator_does_not_answer_and_promises_nothing() {
        struct Away;
        impl Coordinator for Away {
            fn call(&self, _: Request) -> super::super::CallFuture<'_> {
                Box::pin(async { Err(CallError::Unreachable("no route".into())) })
            }
        }
        let handle = Handle::new("n2".into(), Membership::default());
        let address = Address::parse("tcp:10.0.0.1:7410").unwrap();
        handle.set(Arc::new(Away), Some(&address));
        let refused = handle.ask("cannot list the volumes", Request::Volumes).await.unwrap_err();
        assert_eq!(refused.why, "the coordinator does not answer node n2: no route");
        assert_eq!(
            refused.action,
            format!(
                "Start the coordinator (at {address}), repair the network between it and node n2, or see its log"
            )
        );
    }
}

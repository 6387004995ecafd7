//! What state a volume is in, from all that is known of it: a pure function of facts, in which letters,
//! states, health and reasons are decided, and nowhere else.
//!
//! A view says what replicas hold, and nothing of whether they are there; the primary knows its
//! sessions, the coordinator the nodes' heartbeats, a replica's node its disk. No conclusion says more
//! than the facts do: `docs/manual/states.md` has them all.

use evenkeel_core::ReplicaState;
use evenkeel_core::view::Cause;

use super::words;
use crate::api::types::{
    self, FailedRequests, MirrorStatus, ReplicaReach, ReplicaStatus, VolumeHealth, VolumeState,
    VolumeStatus, WantedStatus,
};
use crate::disks::Unserved;

pub(super) mod together;

#[cfg(test)]
mod tests;

/// What is known of one replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaFacts {
    /// Its node's name.
    pub node: String,
    /// Its disk's name, where it is known.
    pub disk: Option<String>,
    /// What the view says of it, or will say when the coordinator answers.
    pub state: ReplicaState,
    /// Why.
    pub cause: Cause,
    /// The primary waits for the coordinator to have it leave its mirror. If that is for its silence, the
    /// state is still that of the view: another primary may have gone on with it.
    pub leaves: bool,
    /// It was written apart from the others: it shows that when it is reached, not in the view.
    pub apart: bool,
    /// Why its node does not serve it, if the node has said so.
    pub unserved: Option<Unserved>,
    /// Why it is gone when its node's daemon ends, though it is served, if the node has said so.
    pub file_gone: Option<String>,
    /// Whether the primary has a session with it; `None` if no primary has said.
    pub connected: Option<bool>,
    /// Whether its node sends heartbeats; `None` if the coordinator has not said.
    pub node_alive: Option<bool>,
    /// Whether its node has answered the node that tells the status; `None`: it was not asked.
    pub answered: Option<bool>,
    /// The name of the node that tells the status.
    pub teller: String,
}

impl ReplicaFacts {
    /// The same of one that is to leave its mirror. What a silent one holds is not known: a primary that is cut
    /// off itself would call the good replicas stale, and its own one the last.
    #[must_use]
    pub fn leaving(self, state: ReplicaState, cause: Cause) -> Self {
        let is_silent = matches!(cause, Cause::Disconnected | Cause::Late | Cause::Unreachable);
        let state = if is_silent { self.state } else { state };
        Self { state, cause, leaves: true, ..self }
    }

    /// Whether it answers, of those that the view counts on: the others are said to be missing already.
    /// Of what two say of its node, the one counts that has spoken to it itself.
    fn reach(&self) -> ReplicaReach {
        let is_wanted = self.state.takes_writes() || self.state == ReplicaState::Spare;
        match self.session() {
            ReplicaReach::Answers | ReplicaReach::NotNeeded
                if is_wanted && self.file_gone.is_some() =>
            {
                ReplicaReach::FileGone
            }
            reach => reach,
        }
    }

    fn session(&self) -> ReplicaReach {
        if !self.state.takes_writes() {
            return ReplicaReach::NotNeeded;
        }
        if self.leaves {
            return ReplicaReach::Unreachable;
        }
        match (self.connected, self.answered, self.node_alive) {
            (Some(true), ..) => ReplicaReach::Answers,
            (Some(false), ..) => ReplicaReach::Unreachable,
            (None, ..) if self.unserved.is_some() => ReplicaReach::Unreachable,
            (None, Some(true), _) | (None, None, Some(true)) => ReplicaReach::Answers,
            (None, Some(false), Some(true)) | (None, _, None) => ReplicaReach::Unknown,
            (None, _, Some(false)) => ReplicaReach::Unreachable,
        }
    }

    /// What the coordinator and the node that tells the status say of its node, if they disagree.
    fn disagreement(&self) -> Option<String> {
        match (self.answered, self.node_alive) {
            (Some(true), Some(false)) => Some(words::unheard(&self.node, &self.teller)),
            (Some(false), Some(true)) => Some(words::heard_of_only(&self.node, &self.teller)),
            _ => None,
        }
    }

    fn cause(&self) -> Cause {
        if self.apart { Cause::OtherLineage } else { self.cause }
    }

    /// The most particular reason that is known.
    fn reason(&self) -> Option<String> {
        if self.apart {
            return words::reason(ReplicaState::Stale, Cause::OtherLineage, true);
        }
        // Only a primary says whether it has a session.
        let runs = self.connected.is_some();
        let unserved = self.unserved.as_ref().filter(|_| self.connected != Some(true));
        if let Some(unserved) = unserved {
            return Some(words::unserved(self.state, unserved, runs));
        }
        if let Some(why) = &self.file_gone {
            return Some(words::file_gone(self.state, why));
        }
        if self.leaves {
            return Some(words::leaving(self.cause));
        }
        match self.reach() {
            ReplicaReach::Unreachable => Some(words::unreachable(self.state)),
            ReplicaReach::Unknown => Some(self.disagreement().map_or_else(
                || words::unknown(self.state, &self.node),
                |why| format!("{why}; it was {}", words::word(self.state)),
            )),
            ReplicaReach::Answers | ReplicaReach::FileGone | ReplicaReach::NotNeeded => {
                let disagreement = self.disagreement().filter(|_| !runs);
                words::reason(self.state, self.cause, runs).or(disagreement)
            }
        }
    }

    fn write(&self, status: &mut ReplicaStatus) {
        status.node_alive = self.node_alive;
        status.connected = self.connected;
        let unserved = self.unserved.as_ref().filter(|_| self.connected != Some(true));
        status.unserved = unserved.map(ToString::to_string);
        status.lost = self.file_gone.is_some()
            || unserved.is_some_and(|unserved| !matches!(unserved, Unserved::Away(_)));
        status.state = words::state(self.state);
        status.cause = words::cause(self.cause());
        status.reach = self.reach();
        status.reason = self.reason();
    }
}

/// What a primary waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// As a sentence.
    pub why: String,
    /// The mirror of which it has no in-sync replica that answers.
    pub silent_mirror: Option<usize>,
}

/// Who has said what is known of a volume, and what that is beside its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// The primary: it serves.
    Serving,
    /// The primary: it is being attached, and waits for this.
    Starting(Wait),
    /// The primary: requests wait for this.
    Suspended(Wait),
    /// The primary: this has to come about, and requests go on meanwhile.
    Awaiting(String),
    /// The coordinator: it is attached nowhere.
    Detached,
    /// The coordinator: it was stopped; the name is the volume's.
    Stopped(String),
    /// The coordinator: it is attached on the node that is asked, on which nothing uses it.
    Forgotten {
        /// That node's name.
        node: String,
        /// The volume's.
        name: String,
    },
    /// The coordinator: it is attached on another node, which does not answer.
    Silent {
        /// That node's name.
        node: String,
        /// Whether it may still be alive.
        alive: bool,
        /// The name of the node that asked it.
        teller: String,
    },
    /// A replica on the node that is asked: nobody who would know answers.
    Replica,
}

impl Account {
    const fn state(&self) -> VolumeState {
        match self {
            Self::Serving | Self::Awaiting(_) => VolumeState::Serving,
            Self::Starting(_) => VolumeState::Starting,
            Self::Suspended(_) => VolumeState::Suspended,
            Self::Detached => VolumeState::Detached,
            Self::Stopped(_) => VolumeState::Stopped,
            Self::Forgotten { .. } | Self::Silent { .. } => VolumeState::Unreachable,
            Self::Replica => VolumeState::Unknown,
        }
    }

    /// What is known of a replica of a mirror, with what the account says of that mirror: a session that is
    /// up says nothing of a replica that leaves requests unanswered.
    fn reconcile(&self, mirror: usize, facts: ReplicaFacts) -> ReplicaFacts {
        let (Self::Starting(wait) | Self::Suspended(wait)) = self else { return facts };
        let is_silent = wait.silent_mirror == Some(mirror) && facts.state == ReplicaState::InSync;
        ReplicaFacts { connected: if is_silent { Some(false) } else { facts.connected }, ..facts }
    }

    /// What the volume itself lacks, which matters more than what a replica does.
    fn reason(&self) -> Option<String> {
        Some(match self {
            Self::Serving | Self::Detached => return None,
            Self::Starting(wait) | Self::Suspended(wait) => wait.why.clone(),
            Self::Awaiting(why) => format!("{why}; requests go on meanwhile"),
            Self::Stopped(name) => {
                format!("it is stopped until `evenkeel volume assemble {name}`")
            }
            Self::Forgotten { node, name } => format!(
                "nothing uses it on node {node}, which has not given it up: `evenkeel detach {name}` does, when its replicas answer; or attach it on node {node} again"
            ),
            Self::Silent { node, alive: true, teller } => {
                format!("{}; another node may know more", words::silent_primary(node, teller))
            }
            Self::Silent { node, alive: false, .. } => format!(
                "node {node}, on which it was attached, counts as dead, for the coordinator does not hear it: attach it on another node"
            ),
            Self::Replica => {
                "the coordinator does not answer: this is what a replica on this node knew last"
                    .into()
            }
        })
    }
}

/// Whether a primary that waits for the coordinator serves all the same: each member answers it, so that only
/// somebody's return waits. A request that is left unanswered for a second is one that waits.
pub(super) fn goes_on(mirrors: &[MirrorStatus], facts: &[Vec<ReplicaFacts>]) -> bool {
    let is_prompt = |replica: &ReplicaStatus| replica.oldest_ms.is_none_or(|age| age < 1000);
    let answers = |facts: &ReplicaFacts| facts.connected == Some(true) && !facts.leaves;
    let replicas = mirrors.iter().flat_map(|mirror| &mirror.replicas);
    let mut members = replicas.zip(facts.iter().flatten());
    members.all(|(replica, facts)| {
        !facts.state.takes_writes() || (answers(facts) && is_prompt(replica))
    })
}

/// Writes into a status what follows from the facts, of which it has already where else the volume is
/// wanted. `mirrors` has the facts of each replica, in the order
/// of the status.
pub fn conclude(status: &mut VolumeStatus, account: &Account, mirrors: &[Vec<ReplicaFacts>]) {
    for (index, (mirror, facts)) in status.mirrors.iter_mut().zip(mirrors).enumerate() {
        for (replica, facts) in mirror.replicas.iter_mut().zip(facts) {
            account.reconcile(index, facts.clone()).write(replica);
        }
    }
    sum_up(&mut status.mirrors);
    status.state = account.state();
    status.health = match account {
        // What that replica knew may be long past.
        Account::Replica => VolumeHealth::Unknown,
        _ => health(&status.mirrors),
    };
    status.reason =
        reason(account.reason().filter(|_| !is_taken_up_again(account, status)), status);
}

/// How long requests that have failed are told before all else, in seconds.
const RECENT: u64 = 60;
/// The causes that are the volume's own: others are the client's, or that it is used elsewhere.
const OWN_CAUSES: [&str; 5] = ["no-coordinator", "no-data", "medium", "no-space", "lost-writes"];

/// Adds that requests fail, which matters more than what a replica lacks; `now` in seconds since 1970.
pub fn note_failures(status: &mut VolumeStatus, now: u64) {
    let is_recent = |failed: &&FailedRequests| {
        now.saturating_sub(failed.last) <= RECENT && OWN_CAUSES.contains(&failed.cause.as_str())
    };
    let newest = status.failed.iter().filter(is_recent).max_by_key(|failed| failed.last);
    let Some(newest) = newest else { return };
    let fails = format!("requests fail: {}", newest.why);
    let reasons: Vec<String> = [fails].into_iter().chain(status.reason.take()).collect();
    status.reason = Some(reasons.join("; "));
}

/// Whether the node that has not given a volume up waits to attach it: then nobody needs to do anything, and
/// where it is wanted says it all.
fn is_taken_up_again(account: &Account, status: &VolumeStatus) -> bool {
    let Account::Forgotten { node, .. } = account else { return false };
    status.wanted_on.iter().any(|on| on.node.name == *node)
}

/// The letters of each mirror.
fn sum_up(mirrors: &mut [MirrorStatus]) {
    for mirror in mirrors {
        let letters: String = mirror.replicas.iter().map(letter).collect();
        mirror.summary = format!("[{letters}]");
    }
}

fn letter(replica: &ReplicaStatus) -> char {
    match replica.reach {
        ReplicaReach::Unknown | ReplicaReach::Unreachable => '?',
        ReplicaReach::FileGone => '!',
        ReplicaReach::Answers | ReplicaReach::NotNeeded => words::letter(replica.state),
    }
}

/// Why a volume is not as it should be: what it lacks itself, where it is wanted, what a replica lacks.
fn reason(own: Option<String>, status: &VolumeStatus) -> Option<String> {
    let of_replica = first_reason(&status.mirrors).filter(|_| own.is_none());
    // Where it is attached, though nobody answers there, is told otherwise.
    let is_elsewhere = |on: &&WantedStatus| {
        on.why.is_some() || status.primaries.iter().all(|primary| primary.node.id != on.node.id)
    };
    let wanted = status.wanted_on.iter().filter(is_elsewhere).map(wanted);
    let reasons: Vec<String> = own.into_iter().chain(wanted).chain(of_replica).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// That a volume is not attached where it is meant to be, and why.
fn wanted(on: &WantedStatus) -> String {
    let node = &on.node.name;
    match (&on.why, on.alive) {
        (Some(why), _) => format!("it is wanted on node {node}, which has not attached it: {why}"),
        (None, Some(true)) => format!("it is wanted on node {node}, which has not attached it yet"),
        (None, Some(false)) => format!("it is wanted on node {node}, which does not answer"),
        (None, None) => {
            format!("it is wanted on node {node}; whether that node is there is not known")
        }
    }
}

/// The worst of what is known.
fn health(mirrors: &[MirrorStatus]) -> VolumeHealth {
    let replicas = mirrors.iter().flat_map(|mirror| &mirror.replicas);
    replicas.map(health_of).max_by_key(rank).unwrap_or(VolumeHealth::InSync)
}

fn health_of(replica: &ReplicaStatus) -> VolumeHealth {
    match (replica.reach, replica.state) {
        (ReplicaReach::Unreachable, _) => VolumeHealth::Unreachable,
        (ReplicaReach::Unknown, _) => VolumeHealth::Unknown,
        (ReplicaReach::FileGone, _) => VolumeHealth::Degraded,
        (_, types::ReplicaState::InSync | types::ReplicaState::Spare) => VolumeHealth::InSync,
        (_, types::ReplicaState::Rebuilding) => VolumeHealth::Rebuilding,
        (_, types::ReplicaState::Stale | types::ReplicaState::Faulty) => VolumeHealth::Degraded,
    }
}

/// From good to bad.
const fn rank(health: &VolumeHealth) -> u8 {
    match health {
        VolumeHealth::InSync => 0,
        VolumeHealth::Rebuilding => 1,
        VolumeHealth::Unknown => 2,
        VolumeHealth::Degraded => 3,
        VolumeHealth::Unreachable => 4,
    }
}

/// The first replica that has a reason, with it.
fn first_reason(mirrors: &[MirrorStatus]) -> Option<String> {
    let replicas = mirrors.iter().flat_map(|mirror| &mirror.replicas);
    let mut unusual = replicas.filter_map(|r| r.reason.as_ref().map(|why| (r, why)));
    let (first, why) = unusual.next()?;
    let more = match unusual.count() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    let disk = first.disk.as_deref().unwrap_or("?");
    Some(format!("replica {}:{disk}: {why}{more}", first.node.name))
}

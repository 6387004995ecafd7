//! Who has said what is known of a volume, and what follows from that alone.

use evenkeel_api::types::{self, MirrorStatus, ReplicaReach, VolumeState};
use evenkeel_core::ReplicaState;

use super::ReplicaFacts;
use crate::clock::utc;
use crate::volumes::messages::{self, Usage};

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
    /// The primary: by what a replica says another one has taken the volume over, and requests wait
    /// for this.
    Excluded(Wait),
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
        reporter: String,
    },
    /// A replica: nobody who would know answers.
    Replica {
        /// The name of its node.
        node: String,
        /// When it saved what it knows, in seconds since 1970, if that is known.
        saved: Option<u64>,
        /// The name of the node that is asked.
        reporter: String,
        /// The volume's name, if a node that answers has closed its replica because the volume was
        /// stopped.
        stopped: Option<String>,
    },
}

impl Account {
    pub(super) const fn state(&self) -> VolumeState {
        match self {
            Self::Serving | Self::Awaiting(_) => VolumeState::Serving,
            Self::Starting(_) => VolumeState::Starting,
            Self::Suspended(_) | Self::Excluded(_) => VolumeState::Suspended,
            Self::Detached => VolumeState::Detached,
            Self::Stopped(_) => VolumeState::Stopped,
            Self::Forgotten { .. } | Self::Silent { .. } => VolumeState::Unreachable,
            Self::Replica { .. } => VolumeState::Unknown,
        }
    }

    /// Whether its last primary has ended without having all replicas made equal.
    pub(super) const fn may_differ(&self) -> bool {
        matches!(self, Self::Forgotten { .. } | Self::Silent { alive: false, .. })
    }

    /// What use the volume is in, as far as this account goes.
    pub(super) const fn usage(&self) -> Usage {
        match self {
            Self::Serving | Self::Starting(_) | Self::Suspended(_) | Self::Awaiting(_) => {
                Usage::Runs
            }
            Self::Detached
            | Self::Stopped(_)
            | Self::Forgotten { .. }
            | Self::Silent { alive: false, .. } => Usage::Rests,
            Self::Excluded(_) | Self::Silent { alive: true, .. } | Self::Replica { .. } => {
                Usage::Unknown
            }
        }
    }

    /// What is known of a replica of a mirror, with what the account says of that mirror: a session
    /// that is up says nothing of a replica that leaves requests unanswered.
    pub(super) fn reconcile(&self, mirror: usize, facts: ReplicaFacts) -> ReplicaFacts {
        let (Self::Starting(wait) | Self::Suspended(wait)) = self else { return facts };
        let is_silent = wait.silent_mirror == Some(mirror) && facts.state == ReplicaState::InSync;
        ReplicaFacts { connected: if is_silent { Some(false) } else { facts.connected }, ..facts }
    }

    /// What the volume itself lacks, which matters more than what a replica does.
    /// `mirrors`: what is known of the replicas.
    pub(super) fn reason(&self, mirrors: &[MirrorStatus]) -> Option<String> {
        Some(match self {
            Self::Serving | Self::Detached => return None,
            Self::Starting(wait) | Self::Suspended(wait) | Self::Excluded(wait) => wait.why.clone(),
            Self::Awaiting(why) => format!("{why}; requests go on meanwhile"),
            Self::Stopped(name) => {
                format!("it is stopped until `evenkeel volume assemble {name}`")
            }
            Self::Forgotten { node, name } => format!(
                "nothing uses it on node {node}, which has not given it up: `evenkeel detach {name} --node {node}` does, when its replicas answer; or attach it on node {node} again"
            ),
            Self::Silent { node, alive: true, reporter } => {
                format!("{}; another node may know more", messages::silent_primary(node, reporter))
            }
            Self::Silent { node, alive: false, .. } => {
                let ways = ways_out(mirrors);
                format!(
                    "node {node}, on which it was attached, counts as dead, for the coordinator does not hear it: {ways}"
                )
            }
            Self::Replica { node, saved, reporter, stopped } => {
                let at = saved.map(|at| format!(", saved at {}", utc(at))).unwrap_or_default();
                let stopped = stopped.as_ref().map(|name| {
                    format!("; it was stopped then, until `evenkeel volume assemble {name}`")
                });
                format!(
                    "the coordinator does not answer node {reporter}: this, with the name, is what a replica on node {node} knew last{at}; no node that answers knows more{}",
                    stopped.unwrap_or_default()
                )
            }
        })
    }
}

/// What to do about a dead primary. Elsewhere it can be attached only where each mirror has an
/// in-sync replica that answers.
fn ways_out(mirrors: &[MirrorStatus]) -> String {
    let has_good = |mirror: &MirrorStatus| {
        mirror.replicas.iter().any(|replica| {
            let answers = matches!(replica.reach, ReplicaReach::Answers | ReplicaReach::FileGone);
            replica.state == types::ReplicaState::InSync && answers && !replica.unwritable
        })
    };
    match mirrors.iter().position(|mirror| !has_good(mirror)) {
        None => "start that node or repair its network, or attach the volume on another one".into(),
        Some(silent) => format!(
            "start that node or repair its network, or first one with an in-sync replica of mirror {silent}, of which none is known to answer"
        ),
    }
}

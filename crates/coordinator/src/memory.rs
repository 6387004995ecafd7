//! What a coordinator knows that no store holds: which nodes have sent something, and from where.
//!
//! A coordinator that takes over starts without it: within seconds it receives something from each
//! node, and until then treats none as dead.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::{CoordinatorId, NodeId};

use crate::liveness::{Entry, Liveness, Saving};
use crate::moment::Moment;
use crate::repeated::Repeated;
use crate::{Caller, StartId};

/// For so long the coordinator reports another start in a node's name to that node.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Starts that wait, at most; beyond, all are forgotten and wait anew.
const MAX_WAITING: usize = 1024;

/// The identity of a coordinator, and whether others share its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's identity for its views.
    pub id: CoordinatorId,
    /// The node that serves it.
    pub here: NodeId,
    /// Whether others may use the store at the same time. If not, the store lies in the state
    /// directory of `here`, and what runs there is that node's present start.
    pub is_shared: bool,
}

/// What one start of a coordinator keeps in memory.
#[derive(Debug)]
pub struct Memory {
    /// Which coordinator it is.
    pub identity: Identity,
    /// The cluster's name, as last read.
    pub cluster: String,
    /// How long each node has been silent.
    pub liveness: Liveness,
    /// That a commit is in doubt, and that a heartbeat could not be stored.
    pub(crate) doubts: Repeated,
    pub(crate) unsaved: Repeated,
    /// When a start that is not the present one asked first, by its incarnation.
    waiting: BTreeMap<u64, Duration>,
    /// Which the present start of a node was when it spoke last, and from where it did.
    speakers: BTreeMap<String, Speaker>,
    /// Where another one spoke in a node's name, and when.
    others: BTreeMap<String, (String, Duration)>,
}

/// A start that speaks for its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Speaker {
    /// Which one; none of software that does not count them.
    start: Option<StartId>,
    /// Its address.
    at: String,
}

impl Speaker {
    pub(crate) fn of(caller: &Caller) -> Self {
        Self { start: caller.start, at: caller.at.clone() }
    }
}

/// What to keep in memory once a task is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// The node's present start lives.
    Seen(String),
    /// Another start of the node has become its present one, and lives.
    Began(String),
    /// It is no member any more.
    Forgotten(String),
    /// The store says nothing of its silence any more.
    Cleared(String),
    /// It has joined, maybe through another coordinator.
    Member(String),
    /// This is its present start.
    Speaks { node: String, by: Speaker },
    /// Another start speaks in its name there.
    Other { node: String, at: String },
    /// This start has been admitted.
    Admitted(u64),
    /// The cluster's name.
    Cluster(String),
    /// This was stored of silent nodes, and that was found.
    Saved(Saving, BTreeMap<String, Entry>),
    /// A line for the log.
    Log(String),
}

impl Memory {
    /// That of a coordinator that starts.
    #[must_use]
    pub fn new(identity: Identity, cluster: String, liveness: Liveness) -> Self {
        let (doubts, unsaved, waiting, speakers, others) = Default::default();
        Self { identity, cluster, liveness, doubts, unsaved, waiting, speakers, others }
    }

    pub(crate) const fn is_alone(&self) -> bool {
        !self.identity.is_shared
    }

    /// A start asks to be admitted.
    pub(crate) fn note_asking(&mut self, incarnation: u64, now: Moment) {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.clear();
        }
        self.waiting.entry(incarnation).or_insert(now.steady);
    }

    /// When this incarnation first asked to be admitted.
    pub(crate) fn asked(&self, incarnation: u64) -> Option<Duration> {
        self.waiting.get(&incarnation).copied()
    }

    /// The address from which a node's present start last sent a request.
    pub(crate) fn place(&self, node: &str) -> String {
        let known = self.speakers.get(node).map(|speaker| speaker.at.clone());
        known.unwrap_or_else(|| "the coordinator's node".into())
    }

    /// Whether a caller was its node's present start when that last spoke: no store is asked.
    pub(crate) fn was_present(&self, caller: &Caller) -> bool {
        let speaker = self.speakers.get(&caller.node.to_string());
        speaker.is_some_and(|speaker| speaker.start == caller.start)
    }

    /// The address from which another start sent a request in a node's name within the last minute.
    pub(crate) fn other(&self, node: &str, now: Moment) -> Option<String> {
        let is_recent = |at: Duration| now.steady.saturating_sub(at) < REMEMBERED;
        let recent = self.others.get(node).filter(|(_, at)| is_recent(*at));
        recent.map(|(place, _)| place.clone())
    }

    /// This is about to be committed. Who lives does so whatever comes of it, and however late.
    pub(crate) fn begin(&mut self, note: &Note, now: Moment) {
        match note {
            Note::Saved(saving, _) => self.liveness.begin_saving(saving),
            // Not who was removed since this was read.
            Note::Seen(node) if self.liveness.counts(node) => self.liveness.saw(node, now),
            Note::Began(node) => self.liveness.asked(node, now),
            _ => {}
        }
    }

    pub(crate) fn remember(&mut self, note: Note, now: Moment) {
        match note {
            Note::Seen(node) | Note::Began(node) => self.liveness.saw(&node, now),
            Note::Forgotten(node) => {
                self.liveness.forget(&node);
                self.speakers.remove(&node);
            }
            Note::Cleared(node) => self.liveness.cleared(&node),
            Note::Member(node) => self.liveness.count(&node),
            Note::Speaks { node, by } => drop(self.speakers.insert(node, by)),
            Note::Other { node, at } => {
                let before = self.others.insert(node.clone(), (at.clone(), now.steady));
                if before.is_none_or(|(place, _)| place != at) {
                    tracing::warn!(node, at, "a copy of a node's state directory is in use");
                }
            }
            Note::Admitted(incarnation) => drop(self.waiting.remove(&incarnation)),
            Note::Cluster(name) => self.cluster = name,
            Note::Saved(saving, found) => self.liveness.saved(&saving, &found),
            Note::Log(text) => tracing::info!("{text}"),
        }
    }
}

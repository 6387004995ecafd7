//! Why this node does not serve a replica.

use std::fmt;

use evenkeel_core::ReplicaId;
use evenkeel_wire::hello::Reason;

use super::states::{EntryState, Hold, KnownState, Trouble};
use super::{Disks, Entry, Known};

/// Why this node does not serve a replica, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unserved {
    /// No disk has it, and all disks are here.
    Gone(String),
    /// Its disk is not here, or held by somebody: the node tries again by itself.
    Away(String),
    /// It is closed, as its volume was stopped.
    Stopped(String),
    /// Its disk, or what it says of the replica, is bad.
    Unusable(String),
}

impl Unserved {
    /// The same for another node.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Gone(_) => Reason::NoReplica,
            // Others are told why in words.
            Self::Away(_) | Self::Stopped(_) => Reason::DiskAway,
            Self::Unusable(_) => Reason::Unusable,
        }
    }

    /// What another node has answered. `None`: its answer says nothing of the replica.
    #[must_use]
    pub fn of(reason: Reason, why: &str) -> Option<Self> {
        match reason {
            Reason::NoReplica => Some(Self::Gone(why.to_owned())),
            Reason::DiskAway => Some(Self::Away(why.to_owned())),
            Reason::Unusable => Some(Self::Unusable(why.to_owned())),
            _ => None,
        }
    }

    /// Whether it may be served without anybody's doing anything about the replica.
    #[must_use]
    pub const fn passes(&self) -> bool {
        matches!(self, Self::Away(_) | Self::Stopped(_))
    }
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Gone(why) | Self::Away(why) | Self::Stopped(why) | Self::Unusable(why)) = self;
        f.write_str(why)
    }
}

impl Disks {
    /// Why this node does not serve a replica; `None`: it does.
    #[must_use]
    pub fn why_not_served(&self, replica: ReplicaId) -> Option<Unserved> {
        let node = &self.listed.node().name;
        let entries = self.lock();
        if let Some((entry, known)) = entries.holder(replica) {
            return entry.why_not_served(known, node);
        }
        // It may lie where nothing can be read.
        if let Some(text) = entries.iter().find_map(Entry::hides) {
            return Some(Unserved::Away(format!("node {node} has not opened it: {text}")));
        }
        if let Some((entry, why)) = entries.iter().find_map(|e| e.unreadable().map(|w| (e, w))) {
            let text = format!("disk {} of node {node}: {why}", entry.name());
            return Some(Unserved::Unusable(text));
        }
        Some(Unserved::Gone(format!(
            "node {node} has no such replica: its file was deleted, or its disk erased or exchanged"
        )))
    }
}

impl Trouble {
    /// What a replica is that is not served for it.
    fn unserved(&self, text: String) -> Unserved {
        match self {
            Self::ReadOnly => Unserved::Unusable(text),
            Self::Absent(_) | Self::Held(_) | Self::Failing(_) => Unserved::Away(text),
        }
    }
}

impl Entry {
    /// Why a replica on it is not served; `None`: it is. `node`: the name of this one.
    fn why_not_served(&self, known: &Known, node: &str) -> Option<Unserved> {
        let said = |why: &str| format!("disk {} of node {node}: {why}", self.name());
        let state = known.state();
        if let KnownState::Stopped(gone) = state {
            return Some(match gone {
                Some(gone) => Unserved::Gone(said(gone)),
                None => self.trouble_of_stopped(node).unwrap_or_else(|| {
                    Unserved::Stopped(said("it is closed, as its volume was stopped"))
                }),
            });
        }
        if let Some(gone) = known.lost_file().filter(|_| !state.is_served()) {
            let also = state.problem().map(|why| format!("; and {why}")).unwrap_or_default();
            return Some(Unserved::Gone(said(&format!("{gone}{also}"))));
        }
        if self.lacks_file(state) {
            let path = known.path().display();
            return Some(Unserved::Gone(said(&format!(
                "there is no file at {path}: it was deleted or moved; moved back it is served again"
            ))));
        }
        let text = said(&state.problem().filter(|_| !state.is_served())?);
        Some(match (state, state.trouble()) {
            (KnownState::Refused(_), _) => Unserved::Unusable(text),
            (_, Some(trouble)) => trouble.unserved(text),
            (_, None) => Unserved::Away(text),
        })
    }

    /// Why a replica of a stopped volume can't be opened on it when that is assembled, if so.
    fn trouble_of_stopped(&self, node: &str) -> Option<Unserved> {
        let trouble = match self.state() {
            EntryState::Missing(_, trouble)
            | EntryState::Waiting(trouble, _)
            | EntryState::Opening(trouble, _) => trouble,
            EntryState::Serving(_) if self.is_read_only() => &Trouble::ReadOnly,
            EntryState::Serving(_) | EntryState::Stopped => return None,
        };
        let text = format!("disk {} of node {node}: {}", self.name(), trouble.why());
        Some(trouble.unserved(text))
    }

    /// Whether a replica in this state has no file on this directory, which is there itself.
    fn lacks_file(&self, state: &KnownState) -> bool {
        matches!(self.state(), EntryState::Serving(Hold::Directory { .. })) && state.is_absent()
    }

    /// Why it is not known what this disk holds, if so.
    fn hides(&self) -> Option<String> {
        match self.state() {
            EntryState::Waiting(..) | EntryState::Opening(..) | EntryState::Missing(..) => {
                let why = self.state().described().1.unwrap_or_default();
                Some(format!("disk {}: {why}", self.name()))
            }
            EntryState::Serving(_) | EntryState::Stopped => {
                let unknown = self.replicas().iter().filter(|k| k.superblock().is_none());
                let mut tried = unknown.filter(|known| known.state().trouble().is_some());
                let known = tried.next()?;
                Some(format!("{}: {}", known.path().display(), known.state().problem()?))
            }
        }
    }

    /// Why a replica on it can't even be told which it is, if there is such a one.
    fn unreadable(&self) -> Option<String> {
        let unknown = self.replicas().iter().find(|known| known.superblock().is_none())?;
        Some(format!("{}: {}", unknown.path().display(), unknown.state().problem()?))
    }
}

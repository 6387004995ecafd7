//! For how long each node has been silent, and so which ones are dead.
//!
//! Silence counts only while the coordinator listens: not while it is down, nor while it is frozen.
//! What it has counted of a silent node is stored, so that a restart, or another coordinator that
//! takes over, goes on counting. After each start every node has some time to be heard before it
//! can be dead.
//!
//! Where several coordinators share a store, each may hear other nodes. A node that is heard has
//! its entry taken away, by whoever hears it, before that answers. So there a node is dead only if
//! the same entry has stood for long enough for every living node to be heard by somebody.
//!
//! That no two primaries serve does not rest on this: replicas keep the lease of the old one.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::moment::Moment;

/// How long every node has after a start to be heard: heartbeats come each second.
const GRACE: Duration = Duration::from_millis(2500);
/// The most that counts between two looks: between more the coordinator did not listen.
const MAX_STEP: Duration = Duration::from_secs(2);
/// How often at most what was counted is stored, and what is too short to be.
const SAVE_PERIOD: Duration = Duration::from_secs(1);

/// What is known of one node, on the clock that counts listening.
#[derive(Debug, Clone, Copy)]
enum Heard {
    /// Not since the start. Counted since then, on top of what an earlier incarnation had counted.
    Before(Duration, Duration),
    /// Since the start: when on that clock, and in full.
    At(Duration, Moment),
}

/// What the store says of a silent node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// For how long it was silent.
    pub milliseconds: u64,
    /// The [revision](crate::store::Entry::revision) of that; `None`: it was stored here, and not
    /// seen since.
    pub revision: Option<u64>,
}

/// The same, as far as this coordinator knows.
#[derive(Debug, Clone, Copy)]
struct Stored {
    entry: Entry,
    /// Since when the store says just this, on the clock that counts listening.
    since: Duration,
}

/// What is to be changed in the store, and what was seen there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saving {
    /// Silent nodes, with milliseconds.
    pub put: BTreeMap<String, u64>,
    /// Nodes that were heard since.
    pub delete: Vec<String>,
    /// Nodes that another coordinator has heard.
    pub heard_elsewhere: Vec<String>,
}

/// Which nodes were heard of, and when.
#[derive(Debug)]
pub struct Liveness {
    expiry: Duration,
    /// The most that is stored.
    max_stored: Duration,
    is_shared: bool,
    looked_at: Duration,
    /// For how long the coordinator has listened since its start.
    listened: Duration,
    saved_at: Duration,
    nodes: BTreeMap<String, Heard>,
    stored: BTreeMap<String, Stored>,
    /// What is being stored.
    storing: BTreeMap<String, u64>,
}

impl Liveness {
    /// After a start. `members` are all nodes; `stored` is what was counted of the silent ones;
    /// with `is_shared` other coordinators use the store at the same time.
    #[must_use]
    pub fn new(
        expiry: Duration,
        is_shared: bool,
        now: Moment,
        (members, stored): (Vec<String>, BTreeMap<String, Entry>),
    ) -> Self {
        let before =
            |milliseconds: u64| Heard::Before(Duration::ZERO, Duration::from_millis(milliseconds));
        let mut nodes: BTreeMap<_, _> = members.into_iter().map(|node| (node, before(0))).collect();
        let silent = stored.iter().map(|(node, entry)| (node.clone(), before(entry.milliseconds)));
        nodes.extend(silent);
        let since = Duration::ZERO;
        let stored = stored.into_iter().map(|(node, entry)| (node, Stored { entry, since }));
        // Then it has to stand, from when it is seen.
        let standing = if is_shared { GRACE + SAVE_PERIOD } else { Duration::ZERO };
        Self {
            expiry,
            max_stored: expiry.saturating_sub(standing),
            is_shared,
            looked_at: now.steady,
            listened: Duration::ZERO,
            saved_at: Duration::ZERO,
            nodes,
            stored: stored.collect(),
            storing: BTreeMap::new(),
        }
    }

    /// Time has passed. All that is asked of it is about the last moment told here.
    pub fn advance(&mut self, now: Moment) {
        self.listened += now.steady.saturating_sub(self.looked_at).min(MAX_STEP);
        self.looked_at = self.looked_at.max(now.steady);
    }

    /// A node was heard of.
    pub fn heard(&mut self, node: &str, now: Moment) {
        self.advance(now);
        self.nodes.insert(node.to_owned(), Heard::At(self.listened, now));
    }

    /// The store says nothing of this node any more.
    pub fn cleared(&mut self, node: &str) {
        self.stored.remove(node);
    }

    /// A node is no member any more.
    pub fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
        self.stored.remove(node);
    }

    /// A node has joined through another coordinator: it is counted from now on.
    pub fn count(&mut self, node: &str) {
        let from_now = Heard::Before(self.listened, Duration::ZERO);
        self.nodes.entry(node.to_owned()).or_insert(from_now);
    }

    /// Whether it is counted: it was a member at the start, or was heard since.
    #[must_use]
    pub fn counts(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// When it was heard of last, if it was since the start.
    #[must_use]
    pub fn last_seen(&self, node: &str) -> Option<Moment> {
        match self.nodes.get(node) {
            Some(Heard::At(_, at)) => Some(*at),
            Some(Heard::Before(..)) | None => None,
        }
    }

    /// Whether it may live: it was heard of within the expiry time, or had no time yet to be.
    #[must_use]
    pub fn may_live(&self, node: &str) -> bool {
        let has_had_time = self.listened >= GRACE.min(self.expiry);
        !has_had_time || self.silent(self.nodes.get(node)) < self.expiry
    }

    /// Whether what the store says of a node lets it be dead: what was stored here, and nobody has
    /// heard it since.
    #[must_use]
    pub fn has_stood(&self, node: &str, found: Option<Entry>) -> bool {
        let stored = self.stored.get(node);
        if self.is_shared {
            return stored.is_some_and(|stored| {
                let stood = self.listened.saturating_sub(stored.since);
                Some(stored.entry) == found && stood >= GRACE
            });
        }
        let found = found.map(|found| found.milliseconds);
        let is_storing = found.is_some() && found == self.storing.get(node).copied();
        is_storing || found == stored.map(|stored| stored.entry.milliseconds)
    }

    /// How long it has still, if it is not heard of.
    #[must_use]
    pub fn remaining(&self, node: &str) -> Duration {
        let until_dead = self.expiry.saturating_sub(self.silent(self.nodes.get(node)));
        until_dead.max(GRACE.min(self.expiry).saturating_sub(self.listened))
    }

    /// Whether it is time to store what was counted. Who is told so does it.
    pub fn take_due(&mut self, now: Moment) -> bool {
        self.advance(now);
        let is_due = self.listened >= self.saved_at + SAVE_PERIOD;
        if is_due {
            self.saved_at = self.listened;
        }
        is_due
    }

    /// What is to be stored, if this is what the store says.
    #[must_use]
    pub fn saving(&self, found: &BTreeMap<String, Entry>) -> Saving {
        let mut saving = Saving::default();
        for (node, heard) in &self.nodes {
            let (stored, found) = (self.stored.get(node), found.get(node));
            let silent = self.silent(Some(heard));
            if silent <= SAVE_PERIOD * 2 {
                saving.delete.extend(found.map(|_| node.clone()));
                continue;
            }
            if stored.is_some_and(|stored| was_replaced(stored.entry, found.copied())) {
                saving.heard_elsewhere.push(node.clone());
                continue;
            }
            // A dead node is as dead however long it is.
            let silent = silent.min(self.max_stored.max(SAVE_PERIOD * 2)).as_millis() as u64;
            if found.is_none_or(|found| found.milliseconds < silent) {
                saving.put.insert(node.clone(), silent);
            }
        }
        saving
    }

    /// This is about to be stored.
    pub fn begin_saving(&mut self, saving: &Saving) {
        self.storing.clone_from(&saving.put);
    }

    /// It was, and this is what the store said before of the others.
    pub fn saved(&mut self, saving: &Saving, found: &BTreeMap<String, Entry>) {
        for node in &saving.heard_elsewhere {
            self.stored.remove(node);
            self.nodes.insert(node.clone(), Heard::Before(self.listened, Duration::ZERO));
        }
        let own = |milliseconds: u64| Entry { milliseconds, revision: None };
        let mut entries = found.clone();
        entries.extend(saving.put.iter().map(|(node, silent)| (node.clone(), own(*silent))));
        entries.retain(|node, _| !saving.delete.contains(node));
        let listened = self.listened;
        let before = std::mem::take(&mut self.stored);
        let stored = entries.into_iter().map(|(node, entry)| {
            let same = before.get(&node).filter(|stored| stored.entry == entry);
            let since = same.map_or(listened, |stored| stored.since);
            (node, Stored { entry, since })
        });
        self.stored = stored.collect();
        self.storing.clear();
    }

    fn silent(&self, heard: Option<&Heard>) -> Duration {
        match heard {
            Some(Heard::At(at, _)) => self.listened.saturating_sub(*at),
            Some(Heard::Before(since, silent)) => *silent + self.listened.saturating_sub(*since),
            None => self.listened,
        }
    }
}

/// Whether an entry was taken away since it was known, though there may be another one: one that
/// stays only grows.
fn was_replaced(known: Entry, found: Option<Entry>) -> bool {
    let Some(found) = found else { return true };
    let is_other = known.revision.is_some() && known.revision != found.revision;
    found.milliseconds < known.milliseconds || is_other && found.milliseconds == known.milliseconds
}

#[cfg(test)]
mod tests;

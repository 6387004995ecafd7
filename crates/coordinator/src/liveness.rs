//! For how long each node has been silent, and so which ones are dead.
//!
//! Silence counts only while the coordinator [listens](listening): not while it is down, nor while
//! it is frozen, nor while its store fails, when not all that nodes send can be noted, nor while a
//! node [waits](arrivals) for long that has sent something. It stores
//! its count for each silent node, so that it, or another coordinator that takes over, continues
//! the count after a restart. After each start, and after each long failure of its store, every
//! node has some time to send something before it can be dead.
//!
//! Where several coordinators share a store, each may receive heartbeats of other nodes. The one
//! that receives something from a node deletes that node's entry before it answers. So there a node
//! is dead only if its entry has stood unchanged for so long that one of the coordinators would
//! have received something from a living node.
//!
//! Safety does not rest on this: that no two primaries serve, the lease of the old one ensures.

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use self::arrivals::Arrival;
pub use self::arrivals::Arrivals;
use self::arrivals::PATIENCE;
use self::listening::Listening;
use crate::moment::Moment;

mod arrivals;
mod listening;

/// How long every node has to be heard after a start, or after the store has failed for long:
/// heartbeats come each second.
const GRACE: Duration = Duration::from_millis(2500);
/// How many times a node has to be heard, within [`GRACE`] after the coordinator stood still,
/// before it is known to be alive: what it sent last before it died may have waited to be read.
const PROOF: u32 = 2;
/// How often at most what was counted is stored, and what is too short to be.
const SAVE_PERIOD: Duration = Duration::from_secs(1);

/// What is known of one node.
#[derive(Debug, Clone, Copy)]
struct Known {
    last_seen: LastSeen,
    proved: Proved,
    /// When a start of it that is to become the present one asked for that last, on the clock that
    /// counts listening.
    asked: Option<Duration>,
}

impl Known {
    /// Of a node that was not heard since the start: counted from `since`, on top of that.
    fn silent(since: Duration, before: Duration) -> Self {
        let proved = Proved::default();
        Self { last_seen: LastSeen::Before(since, before), proved, asked: None }
    }
}

/// When a node was heard, on the clock that counts listening.
#[derive(Debug, Clone, Copy)]
enum LastSeen {
    /// Not since the start. Counted since then, on top of what an earlier incarnation had counted.
    Before(Duration, Duration),
    /// Since the start: when on that clock, and in full.
    At(Duration, Moment),
}

/// When a node was last known to be alive.
#[derive(Debug, Clone, Copy, Default)]
struct Proved {
    at: Option<Moment>,
    /// When the coordinator had stood still last, and how many times it has heard the node since.
    resumed: Option<Duration>,
    times: u32,
}

/// The stored count of how long a node has been silent.
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
    pub seen_elsewhere: Vec<String>,
}

/// How long each node has been silent while this coordinator listened.
#[derive(Debug)]
pub struct Liveness {
    expiry: Duration,
    /// The most that is stored.
    max_stored: Duration,
    is_shared: bool,
    clock: Listening,
    arrivals: Arrivals,
    saved_at: Duration,
    nodes: BTreeMap<String, Known>,
    stored: BTreeMap<String, Stored>,
    /// Nodes and milliseconds of a save that is under way.
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
            |milliseconds| Known::silent(Duration::ZERO, Duration::from_millis(milliseconds));
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
            clock: Listening::new(now.steady, expiry),
            arrivals: Arrivals::default(),
            saved_at: now.steady,
            nodes,
            stored: stored.collect(),
            storing: BTreeMap::new(),
        }
    }

    /// Time has passed. All that is asked of it is about the last moment told here.
    pub fn advance(&mut self, now: Moment) {
        let waits = self.arrivals.oldest(now.steady, |node| self.nodes.contains_key(node));
        self.clock.advance(now.steady, waits.map(|since| since + PATIENCE));
    }

    /// Where whoever receives signs of life notes that they have come.
    #[must_use]
    pub const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// The store answers, until the last moment that was reported here. If it had not before, the
    /// time of that does not count.
    pub fn store_answered(&mut self) {
        self.clock.store_answered();
    }

    /// It does not. So what nodes have sent since it last did is not known.
    pub fn store_failed(&mut self) {
        self.clock.store_failed();
    }

    /// A commit has succeeded: the store works.
    pub fn committed(&mut self) {
        self.clock.committed();
    }

    /// A commit of a sign of life, or of who is silent, has failed or is in doubt. Until one
    /// succeeds nothing counts, though the store may answer what it is asked: no start of a node
    /// can be admitted.
    pub fn commit_failed(&mut self) {
        self.clock.commit_failed();
    }

    /// Whether the last commit has failed.
    #[must_use]
    pub const fn do_commits_fail(&self) -> bool {
        self.clock.do_commits_fail()
    }

    /// Whether it is time to try whether they still do.
    #[must_use]
    pub fn is_trial_due(&self) -> bool {
        self.clock.is_trial_due()
    }

    /// Something was received from a node.
    pub fn saw(&mut self, node: &str, now: Moment) {
        self.advance(now);
        let resumed = self.clock.resumed();
        let may_be_old = resumed.is_some_and(|at| now.steady < at + GRACE);
        let proved = self.nodes.get(node).map(|known| known.proved).unwrap_or_default();
        let before = if proved.resumed == resumed { proved.times } else { 0 };
        let times = before.saturating_add(1);
        let at = if may_be_old && times < PROOF { proved.at } else { Some(now) };
        let proved = Proved { at, resumed, times };
        let last_seen = LastSeen::At(self.clock.listened(), now);
        self.nodes.insert(node.to_owned(), Known { last_seen, proved, asked: None });
        self.arrivals.heard(node);
    }

    /// A start of a node is about to become its present one. Whether or not that can be committed,
    /// the node lives; of the start that is its present one still, it says nothing.
    pub fn asked(&mut self, node: &str, now: Moment) {
        self.advance(now);
        let listened = self.clock.listened();
        if let Some(known) = self.nodes.get_mut(node) {
            known.asked = Some(listened);
        }
        self.arrivals.heard(node);
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
        let from_now = Known::silent(self.clock.listened(), Duration::ZERO);
        self.nodes.entry(node.to_owned()).or_insert(from_now);
    }

    /// Whether it is counted: it was a member at the start, or was heard since.
    #[must_use]
    pub fn counts(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// When it was last heard, if it was since the start.
    #[must_use]
    pub fn last_seen(&self, node: &str) -> Option<Moment> {
        match self.nodes.get(node)?.last_seen {
            LastSeen::At(_, at) => Some(at),
            LastSeen::Before(..) => None,
        }
    }

    /// When it was last known to be alive, if it was since the start: what was heard once since the
    /// coordinator stood still may be older.
    #[must_use]
    pub fn last_proved(&self, node: &str) -> Option<Moment> {
        self.nodes.get(node)?.proved.at
    }

    /// Whether it is known to be alive: it was heard within the expiry time, in which the
    /// coordinator did not stand still.
    #[must_use]
    pub fn is_alive(&self, node: &str) -> bool {
        let is_since = |at: Moment| self.clock.resumed().is_none_or(|resumed| at.steady >= resumed);
        // What does not count as silence has passed all the same.
        let is_recent = |at: Moment| self.clock.looked_at().saturating_sub(at.steady) < self.expiry;
        let proved = self.last_proved(node);
        proved.is_some_and(|at| is_since(at) && is_recent(at)) && self.may_live(node)
    }

    /// Whether it may live: its present start [may](Self::may_speak), or another one has asked
    /// within the expiry time to become that.
    #[must_use]
    pub fn may_live(&self, node: &str) -> bool {
        let asked = self.nodes.get(node).and_then(|known| known.asked);
        let has_asked =
            asked.is_some_and(|at| self.clock.listened().saturating_sub(at) < self.expiry);
        has_asked || self.may_speak(node)
    }

    /// Whether its present start may live: it was heard within the expiry time, or had no time yet
    /// to be.
    #[must_use]
    pub fn may_speak(&self, node: &str) -> bool {
        let has_had_time = self.clock.listened_anew() >= GRACE.min(self.expiry);
        !has_had_time || self.silent(node) < self.expiry
    }

    /// Whether what the store says of a node lets it be dead: what was stored here, and nobody has
    /// heard it since.
    #[must_use]
    pub fn has_stood(&self, node: &str, found: Option<Entry>) -> bool {
        let stored = self.stored.get(node);
        if self.is_shared {
            return stored.is_some_and(|stored| {
                let stood = self.clock.listened().saturating_sub(stored.since);
                Some(stored.entry) == found && stood >= GRACE
            });
        }
        let found = found.map(|found| found.milliseconds);
        let is_storing = found.is_some() && found == self.storing.get(node).copied();
        is_storing || found == stored.map(|stored| stored.entry.milliseconds)
    }

    /// The time until the node counts as dead if it stays silent.
    #[must_use]
    pub fn remaining(&self, node: &str) -> Duration {
        let until_dead = self.expiry.saturating_sub(self.silent(node));
        until_dead.max(GRACE.min(self.expiry).saturating_sub(self.clock.listened_anew()))
    }

    /// Whether it is time to store what was counted. If so, the caller stores it.
    pub fn take_due(&mut self, now: Moment) -> bool {
        self.advance(now);
        let is_due = self.clock.looked_at() >= self.saved_at + SAVE_PERIOD;
        if is_due {
            self.saved_at = self.clock.looked_at();
        }
        is_due
    }

    /// What is to be stored, if this is what the store says.
    #[must_use]
    pub fn saving(&self, found: &BTreeMap<String, Entry>) -> Saving {
        let mut saving = Saving::default();
        for node in self.nodes.keys() {
            let (stored, found) = (self.stored.get(node), found.get(node));
            let silent = self.silent(node);
            if silent <= SAVE_PERIOD * 2 {
                saving.delete.extend(found.map(|_| node.clone()));
                continue;
            }
            if stored.is_some_and(|stored| was_replaced(stored.entry, found.copied())) {
                saving.seen_elsewhere.push(node.clone());
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
        self.clock.note_trial();
    }

    /// It was, and this is what the store said before of the others.
    pub fn saved(&mut self, saving: &Saving, found: &BTreeMap<String, Entry>) {
        for node in &saving.seen_elsewhere {
            self.stored.remove(node);
            self.nodes.insert(node.clone(), Known::silent(self.clock.listened(), Duration::ZERO));
        }
        let own = |milliseconds: u64| Entry { milliseconds, revision: None };
        let mut entries = found.clone();
        entries.extend(saving.put.iter().map(|(node, silent)| (node.clone(), own(*silent))));
        entries.retain(|node, _| !saving.delete.contains(node));
        let listened = self.clock.listened();
        let before = std::mem::take(&mut self.stored);
        let stored = entries.into_iter().map(|(node, entry)| {
            let same = before.get(&node).filter(|stored| stored.entry == entry);
            let since = same.map_or(listened, |stored| stored.since);
            (node, Stored { entry, since })
        });
        self.stored = stored.collect();
        self.storing.clear();
    }

    fn silent(&self, node: &str) -> Duration {
        match self.nodes.get(node).map(|known| known.last_seen) {
            Some(LastSeen::At(at, _)) => self.clock.listened().saturating_sub(at),
            Some(LastSeen::Before(since, silent)) => {
                silent + self.clock.listened().saturating_sub(since)
            }
            None => self.clock.listened(),
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

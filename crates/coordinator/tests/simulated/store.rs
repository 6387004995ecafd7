//! A store in memory, which does what etcd may do: commits whose answers are lost, or that happen
//! later, errors, conflicts, and snapshots that it has forgotten.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use evenkeel_coordinator::store::{
    Commit, Entries, Entry, Guard, Key, Outcome, Range, Space, StoreError,
};
use evenkeel_coordinator::{Caller, Request, Store};

use crate::random::Random;

/// All that is stored at a moment.
pub type Values = BTreeMap<Key, Entry>;

/// What is not checked that should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    Nothing,
    /// Guards of this space's keys.
    Keys(Space),
    /// The guard of this space as a whole.
    Whole(Space),
    /// The view that is replaced: nodes do not say which one it is, as older software.
    Parent,
    /// The revision of a record: nodes do not say which one they have read, as older software.
    Revision,
    /// Whether nodes were removed that an older store does not know to have been.
    Removals,
    /// A request that waits for a thread is not known to have come.
    Arrivals,
    /// A commit is called done that was not.
    FalseAnswer,
    /// Half of the writes of a commit happen.
    Torn,
}

/// Who commits, and for what.
#[derive(Debug, Clone)]
pub struct Tag {
    pub caller: Option<Caller>,
    /// `None`: a tick.
    pub request: Option<Request>,
    /// What a node wants, however often it asks for it.
    pub command: Option<u64>,
    /// A coordinator starts, and answers nobody yet.
    pub is_start: bool,
}

impl Tag {
    pub const TICK: Self = Self { caller: None, request: None, command: None, is_start: false };
    pub const START: Self = Self { is_start: true, ..Self::TICK };
}

/// A commit that happened.
#[derive(Debug)]
pub struct Applied {
    pub tag: Tag,
    pub before: Values,
    pub after: Values,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.tag.caller.as_ref().map(|caller| (caller.node, caller.start));
        write!(f, "{node:?} {:?}:", self.tag.request)?;
        for (key, entry) in self.after.iter().filter(|(key, e)| self.before.get(key) != Some(e)) {
            write!(f, " {key}={}", String::from_utf8_lossy(&entry.value).escape_debug())?;
        }
        for key in self.before.keys().filter(|key| !self.after.contains_key(key)) {
            write!(f, " -{key}")?;
        }
        Ok(())
    }
}

/// How often what goes wrong, in thousandths of the calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub unusable: u64,
    pub lost_answer: u64,
    pub lost_request: u64,
    pub delayed: u64,
    pub compacted: u64,
    /// A commit takes up to half a minute, and all others wait for it. Where one coordinator has
    /// the store alone.
    pub hangs: u64,
    /// A request waits in a socket that its coordinator does not read for long.
    pub held: u64,
}

#[derive(Debug)]
struct State {
    revision: u64,
    values: Values,
    /// What was stored at earlier revisions, as far as it is remembered.
    history: BTreeMap<u64, Values>,
    delayed: Vec<(Commit, Tag)>,
    applied: Vec<Applied>,
    tag: Tag,
    random: Random,
    faults: Faults,
    sabotage: Sabotage,
    counts: BTreeMap<&'static str, u64>,
}

/// The store.
#[derive(Debug)]
pub struct SimulatedStore(RefCell<State>);

const TIMED_OUT: &str = "the store did not answer in time";

impl SimulatedStore {
    pub fn new(seed: u64, sabotage: Sabotage) -> Self {
        Self(RefCell::new(State {
            revision: 1,
            values: Values::new(),
            history: BTreeMap::from([(1, Values::new())]),
            delayed: Vec::new(),
            applied: Vec::new(),
            tag: Tag::TICK,
            random: Random::new(seed),
            faults: Faults::default(),
            sabotage,
            counts: BTreeMap::new(),
        }))
    }

    pub fn set_faults(&self, faults: Faults) {
        self.0.borrow_mut().faults = faults;
    }

    /// Who commits next.
    pub fn set_tag(&self, tag: Tag) {
        self.0.borrow_mut().tag = tag;
    }

    pub fn values(&self) -> Values {
        self.0.borrow().values.clone()
    }

    /// What happened since this was asked last.
    pub fn take_applied(&self) -> Vec<Applied> {
        std::mem::take(&mut self.0.borrow_mut().applied)
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.borrow().counts.clone()
    }

    /// What was stored once takes the place of what is. What is on its way does not arrive.
    pub fn put_back(&self, values: Values) {
        let state = &mut *self.0.borrow_mut();
        state.revision += 1;
        state.history = BTreeMap::from([(state.revision, values.clone())]);
        state.values = values;
        state.delayed.clear();
    }

    /// One of the commits that are on their way arrives.
    pub fn deliver(&self) {
        let state = &mut *self.0.borrow_mut();
        if !state.delayed.is_empty() {
            let which = state.random.index(state.delayed.len());
            let (commit, tag) = state.delayed.swap_remove(which);
            let outcome = state.apply(&commit, tag);
            let is_late = outcome == Outcome::Committed;
            state.count(if is_late { "committed late" } else { "came too late" });
        }
    }
}

impl State {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn is_checked(&self, guard: &Guard) -> bool {
        match (self.sabotage, guard) {
            (Sabotage::Keys(space), Guard::Key(key, _)) => key.space != space,
            (Sabotage::Whole(space), Guard::Space(of, _)) => *of != space,
            _ => true,
        }
    }

    /// As etcd compares: a key by its revision, a space by that of its newest key.
    fn holds(&self, guard: &Guard) -> bool {
        let revision = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.revision);
        match guard {
            Guard::Key(key, was) => revision(self.values.get(key)) == revision(was.as_ref()),
            Guard::Space(space, was) => {
                let newest = was.values().map(|entry| entry.revision).max().unwrap_or(0);
                let now = self.values.iter().filter(|(key, _)| key.space == *space);
                now.map(|(_, entry)| entry.revision).all(|revision| revision <= newest)
            }
        }
    }

    fn apply(&mut self, commit: &Commit, tag: Tag) -> Outcome {
        let failed =
            commit.guards.iter().find(|guard| self.is_checked(guard) && !self.holds(guard));
        if let Some(guard) = failed {
            let range = guard.range();
            self.count("conflicts");
            return Outcome::Conflict(range);
        }
        let before = self.values.clone();
        self.revision += 1;
        let half = match self.sabotage {
            Sabotage::Torn => commit.writes.len().div_ceil(2),
            _ => commit.writes.len(),
        };
        for write in &commit.writes[..half] {
            match &write.value {
                Some(value) => {
                    let entry = Entry { value: value.clone(), revision: self.revision };
                    self.values.insert(write.key.clone(), entry);
                }
                None => drop(self.values.remove(&write.key)),
            }
        }
        self.history.insert(self.revision, self.values.clone());
        while self.history.len() > 64 {
            self.history.pop_first();
        }
        self.applied.push(Applied { tag, before, after: self.values.clone() });
        self.count("commits");
        Outcome::Committed
    }

    fn fails(&mut self, thousandths: u64, what: &'static str) -> bool {
        let fails = thousandths > 0 && self.random.chance(thousandths);
        if fails {
            self.count(what);
        }
        fails
    }
}

impl Store for SimulatedStore {
    type Snapshot = u64;

    fn snapshot(&self) -> Result<u64, StoreError> {
        let state = &mut *self.0.borrow_mut();
        let thousandths = state.faults.unusable;
        if state.fails(thousandths, "no snapshot") {
            return Err(StoreError::Unusable("the store does not answer".into()));
        }
        Ok(state.revision)
    }

    fn read(&self, snapshot: &mut u64, range: &Range) -> Result<Entries, StoreError> {
        let state = &mut *self.0.borrow_mut();
        let faults = state.faults;
        if state.fails(faults.unusable, "not read") {
            return Err(StoreError::Unusable("the store does not answer".into()));
        }
        if state.fails(faults.compacted, "compactions") {
            state.history.retain(|revision, _| *revision == state.revision);
        }
        let Some(values) = state.history.get(snapshot) else {
            state.count("too old");
            return Err(StoreError::TooOld);
        };
        let is_meant = |key: &Key| match range {
            Range::Key(wanted) => key == wanted,
            Range::Space(space) => key.space == *space,
        };
        let found = values.iter().filter(|(key, _)| is_meant(key));
        Ok(found.map(|(key, entry)| (key.name.clone(), entry.clone())).collect())
    }

    fn commit(&self, commit: &Commit) -> Result<Outcome, StoreError> {
        let state = &mut *self.0.borrow_mut();
        assert!(commit.guards.len() <= 128 && commit.writes.len() <= 128, "etcd takes no more");
        let (tag, faults) = (state.tag.clone(), state.faults);
        let in_doubt = || Err(StoreError::InDoubt(TIMED_OUT.into()));
        if state.sabotage == Sabotage::FalseAnswer && state.random.chance(20) {
            return Ok(Outcome::Committed);
        }
        if state.fails(faults.unusable, "not committed") {
            return Err(StoreError::Unusable("the store does not answer".into()));
        }
        if state.fails(faults.lost_request, "lost requests") {
            return in_doubt();
        }
        if state.fails(faults.delayed, "delayed") {
            state.delayed.push((commit.clone(), tag));
            return in_doubt();
        }
        let outcome = state.apply(commit, tag);
        if outcome == Outcome::Committed && state.fails(faults.lost_answer, "lost answers") {
            return in_doubt();
        }
        Ok(outcome)
    }

    fn changes(&self) -> u64 {
        self.0.borrow().revision
    }
}

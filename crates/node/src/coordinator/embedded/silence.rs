//! For how long each node has been silent, and so which ones are dead.
//!
//! Silence counts only while the coordinator listens: not while it is down, nor while it is frozen.
//! What it has counted of a silent node outlives it, so that its restarts do not begin the wait anew.
//! After each start every node has some time to be heard before it can be dead.
//!
//! That no two primaries serve does not rest on this: replicas keep the lease of the old one.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::{Inner, Stored, db};
use crate::coordinator::unix_seconds;

/// For how many milliseconds a node was silent, as far as it was counted.
pub(super) const SILENT: TableDefinition<&str, u64> = TableDefinition::new("silent");
/// How long every node has after a start to be heard: heartbeats come each second.
const GRACE: Duration = Duration::from_millis(2500);
/// The most that counts between two looks: between more the coordinator did not listen.
const MAX_STEP: Duration = Duration::from_secs(2);
/// How often at most what was counted is saved, and what is too short to be.
const SAVE_PERIOD: Duration = Duration::from_secs(1);

/// On the machine's clock, and in seconds since 1970.
type Moment = (Instant, u64);

/// What is known of one node, on the clock that counts listening.
#[derive(Debug, Clone, Copy)]
enum Heard {
    /// Not since the start; so long was it silent before.
    Before(Duration),
    /// Since the start: when on that clock, and in full.
    At(Duration, Moment),
}

/// Which nodes were heard of, and when.
#[derive(Debug)]
pub(super) struct Silence {
    expiry: Duration,
    looked_at: Instant,
    /// For how long the coordinator has listened since its start.
    listened: Duration,
    saved_at: Duration,
    nodes: HashMap<String, Heard>,
    /// As it is on the disk.
    saved: BTreeMap<String, u64>,
}

impl Silence {
    /// After a start. `saved` is what was counted before.
    pub fn new(expiry: Duration, now: Instant, saved: BTreeMap<String, u64>) -> Self {
        let before = |(node, silent): (&String, &u64)| {
            (node.clone(), Heard::Before(Duration::from_millis(*silent)))
        };
        Self {
            expiry,
            looked_at: now,
            listened: Duration::ZERO,
            saved_at: Duration::ZERO,
            nodes: saved.iter().map(before).collect(),
            saved,
        }
    }

    /// A node was heard of. `true`: what is saved says otherwise, and is to be taken away.
    pub fn heard(&mut self, node: &str, now: Instant) -> bool {
        self.advance(now);
        self.nodes.insert(node.to_owned(), Heard::At(self.listened, (now, unix_seconds())));
        self.saved.contains_key(node)
    }

    /// A node is no member any more.
    pub fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
        self.saved.remove(node);
    }

    /// When it was heard of last, if it was since the start.
    pub fn last_heard(&self, node: &str) -> Option<Moment> {
        match self.nodes.get(node) {
            Some(Heard::At(_, at)) => Some(*at),
            Some(Heard::Before(_)) | None => None,
        }
    }

    /// Whether it may live: it was heard of within the expiry time, or had no time yet to be.
    pub fn may_live(&mut self, node: &str, now: Instant) -> bool {
        self.advance(now);
        let has_had_time = self.listened >= GRACE.min(self.expiry);
        !has_had_time || self.silent(self.nodes.get(node)) < self.expiry
    }

    /// How long it has still, if it is not heard of.
    pub fn remaining(&self, node: &str) -> Duration {
        let until_dead = self.expiry.saturating_sub(self.silent(self.nodes.get(node)));
        until_dead.max(GRACE.min(self.expiry).saturating_sub(self.listened))
    }

    /// What is to be saved now, if anything: all silent nodes, with milliseconds.
    pub fn due(&mut self, now: Instant) -> Option<BTreeMap<String, u64>> {
        self.advance(now);
        if self.listened < self.saved_at + SAVE_PERIOD {
            return None;
        }
        self.saved_at = self.listened;
        let silent = self.nodes.iter().map(|(node, heard)| (node, self.silent(Some(heard))));
        let silent = silent.filter(|(_, silent)| *silent > SAVE_PERIOD * 2);
        // A dead node is as dead however long it is.
        let silent = silent.map(|(node, silent)| (node.clone(), silent.min(self.expiry)));
        let silent: BTreeMap<_, _> =
            silent.map(|(node, silent)| (node, silent.as_millis() as u64)).collect();
        (silent != self.saved).then_some(silent)
    }

    /// What is saved, but for one node.
    fn saved_without(&self, node: &str) -> BTreeMap<String, u64> {
        let others = self.saved.iter().filter(|(saved, _)| *saved != node);
        others.map(|(node, silent)| (node.clone(), *silent)).collect()
    }

    /// That is on the disk now.
    pub fn saved(&mut self, silent: BTreeMap<String, u64>) {
        self.saved = silent;
    }

    fn silent(&self, heard: Option<&Heard>) -> Duration {
        match heard {
            Some(Heard::At(at, _)) => self.listened.saturating_sub(*at),
            Some(Heard::Before(silent)) => *silent + self.listened,
            None => self.listened,
        }
    }

    fn advance(&mut self, now: Instant) {
        self.listened += now.saturating_duration_since(self.looked_at).min(MAX_STEP);
        self.looked_at = self.looked_at.max(now);
    }
}

/// What an earlier life of the coordinator has counted of each node; nothing, of those it heard.
pub(super) fn load(transaction: &WriteTransaction) -> Stored<BTreeMap<String, u64>> {
    let mut counted = BTreeMap::new();
    for entry in db(db(transaction.open_table(super::NODES))?.iter())? {
        counted.insert(db(entry)?.0.value().to_owned(), 0);
    }
    for entry in db(db(transaction.open_table(SILENT))?.iter())? {
        let (node, silent) = db(entry)?;
        counted.insert(node.value().to_owned(), silent.value());
    }
    Ok(counted)
}

impl Inner {
    /// Notes that a node lives, and saves how long others have been silent when that is due.
    pub(super) fn note_heard(&self, node: &str) {
        let returns = self.silence().heard(node, Instant::now());
        if let Err(error) = self.save_silence(returns.then_some(node)) {
            tracing::warn!(%error, "cannot save which nodes are silent: a restart begins their wait anew");
        }
    }

    /// Saves what is due. Of one that `returns` nothing is saved from now on: it has its whole time
    /// again, also after a restart.
    fn save_silence(&self, returns: Option<&str>) -> Stored<()> {
        // Before any transaction: those ask who is alive.
        let alone = match returns {
            Some(_) => Some(self.saving.lock().unwrap_or_else(PoisonError::into_inner)),
            None => self.saving.try_lock().ok(),
        };
        let mut silence = self.silence();
        let due = alone.as_ref().and_then(|_| silence.due(Instant::now()));
        let to_save = due.or_else(|| returns.map(|node| silence.saved_without(node)));
        drop(silence);
        let Some(to_save) = to_save else { return Ok(()) };
        let transaction = db(self.database.begin_write())?;
        {
            let mut table = db(transaction.open_table(SILENT))?;
            db(table.retain(|node, _| to_save.contains_key(node)))?;
            for (node, milliseconds) in &to_save {
                db(table.insert(node.as_str(), milliseconds))?;
            }
        }
        db(transaction.commit())?;
        self.silence().saved(to_save);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

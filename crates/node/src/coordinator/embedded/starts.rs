//! The present start of each node: what is stored, and who was heard from where.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redb::{ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::{
    Answer, Embedded, Inner, NODES, NodeRecord, Request, Stored, ThreadError, db, is_question,
    json, text,
};
use crate::coordinator::starts::{Claim, Heard, Present, Verdict};
use crate::coordinator::{Caller, Registration};

pub(super) const STARTS: TableDefinition<&str, &[u8]> = TableDefinition::new("starts");
/// A heartbeat that comes so much later than another start's first request was sent after it. An
/// earlier one may have been on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(2);
/// For so long a node is told of another start that speaks in its name.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Starts that wait, at most; beyond, all are forgotten and wait anew.
const MAX_WAITING: usize = 1024;

/// Who was heard, and where: in memory only.
#[derive(Default)]
pub(super) struct Watch {
    /// When a start that is not the present one asked first, by its incarnation.
    waiting: HashMap<u64, Instant>,
    /// From where the present start of a node spoke last.
    places: HashMap<String, String>,
    /// Where another one spoke in a node's name, and when.
    others: HashMap<String, (String, Instant)>,
}

impl Embedded {
    /// Answers a request of another node, if the start that sends it is its node's present one.
    /// Questions that change nothing are answered to all.
    ///
    /// # Errors
    /// If the database reports an error.
    pub(super) fn hear(&self, caller: &Caller, request: Request) -> Stored<Answer> {
        let inner = &*self.inner;
        if let Some(removed) = inner.removed(&caller.node.to_string())? {
            return Ok(Answer::NodeRemoved { why: removed.to_string() });
        }
        match request {
            Request::Register(registration) => inner.register(&registration, Some(caller)),
            Request::Nodes | Request::RemovedNodes | Request::Volumes | Request::Read { .. } => {
                self.answer(request)
            }
            // It closes the gate itself.
            Request::RemoveNode { node } => match inner.refusal(caller)? {
                Some(refusal) => Ok(refusal),
                None => inner.remove_node(&node),
            },
            request => {
                // No other start is admitted between the check and what it permits.
                let _gate = inner.gate.read().unwrap_or_else(PoisonError::into_inner);
                match inner.refusal(caller)? {
                    Some(refusal) => Ok(refusal),
                    None => Ok(inner.with_other(caller, self.answer(request)?)),
                }
            }
        }
    }

    /// The same, by a thread of the coordinator's own.
    ///
    /// # Errors
    /// If too many requests wait for the database. The inner error: if that reports one.
    pub async fn asked(
        &self,
        caller: Caller,
        request: Request,
    ) -> Result<Stored<Answer>, ThreadError> {
        let (this, is_question) = (self.clone(), is_question(&request));
        self.inner.threads.run(is_question, move || this.hear(&caller, request)).await
    }
}

impl Inner {
    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a start may not change anything; `None`: it is the present one of its node.
    fn refusal(&self, caller: &Caller) -> Stored<Option<Answer>> {
        let node = caller.node.to_string();
        let transaction = db(self.database.begin_read())?;
        let starts = db(transaction.open_table(STARTS))?;
        let Some(present) = load(&starts, &db(transaction.open_table(NODES))?, &node)? else {
            return Ok(Some(Answer::NotRegistered));
        };
        let is_present = match caller.start {
            Some(start) => present.is(start),
            None => present.counter == 0,
        };
        if is_present {
            return Ok(None);
        }
        if caller.start.is_some_and(|start| present.follows(start.incarnation.0)) {
            return Ok(Some(Answer::Superseded { at: self.note_other(caller) }));
        }
        Ok(Some(Answer::NotRegistered))
    }

    /// Tells a node's present start in the answer to its heartbeat of another one.
    fn with_other(&self, caller: &Caller, mut answer: Answer) -> Answer {
        if let Answer::Heard { other, .. } = &mut answer {
            let mut watch = self.watch();
            let node = caller.node.to_string();
            let recent = watch.others.get(&node).filter(|(_, at)| at.elapsed() < REMEMBERED);
            *other = recent.map(|(place, _)| place.clone());
            watch.places.insert(node, caller.at.clone());
        }
        answer
    }

    /// Notes where another start speaks in a node's name; tells where the present one is.
    fn note_other(&self, caller: &Caller) -> String {
        let mut watch = self.watch();
        let node = caller.node.to_string();
        let before = watch.others.insert(node.clone(), (caller.at.clone(), Instant::now()));
        if before.is_none_or(|(place, _)| place != caller.at) {
            tracing::warn!(node, at = caller.at, "a copy of a node's state directory is in use");
        }
        watch.places.get(&node).cloned().unwrap_or_else(|| "the coordinator's node".into())
    }

    /// Judges a start, `None`: the node is new, or the start is of this very daemon: the database
    /// lies in the directory whose lock it holds.
    pub(super) fn judge(&self, present: Option<&Present>, node: &str, claim: &Claim) -> Verdict {
        let Some(present) = present else { return Verdict::Admitted };
        let mut watch = self.watch();
        if watch.waiting.len() >= MAX_WAITING {
            watch.waiting.clear();
        }
        let asked = *watch.waiting.entry(claim.incarnation).or_insert_with(Instant::now);
        drop(watch);
        let heard = self.last_heard(node);
        let heard = match heard {
            _ if !self.alive(node) => Heard::Silent,
            Some(last) if last > asked + ON_ITS_WAY => Heard::Since,
            _ => Heard::Before,
        };
        present.judge(claim, heard)
    }

    /// What a start is told that was not admitted.
    pub(super) fn not_admitted(
        &self,
        verdict: Verdict,
        registration: &Registration,
        caller: Option<&Caller>,
    ) -> Stored<Answer> {
        let node = &registration.node;
        if verdict == Verdict::Waits {
            let seconds = self.silence().remaining(&node.id).as_secs() + 1;
            return Ok(Answer::Waits { seconds });
        }
        let at = caller.map_or_else(String::new, |caller| self.note_other(caller));
        if verdict == Verdict::Superseded {
            return Ok(Answer::Superseded { at });
        }
        self.change(|transaction| {
            let mut starts = db(transaction.open_table(STARTS))?;
            let nodes = db(transaction.open_table(NODES))?;
            if let Some(present) = load(&starts, &nodes, &node.id)?
                && !present.knows_copy(node.incarnation)
            {
                store(&mut starts, &node.id, &present.note_copy(node.incarnation))?;
            }
            Ok(Answer::Done)
        })?;
        Ok(Answer::Copy { at })
    }

    /// A start has been admitted.
    pub(super) fn admitted(&self, registration: &Registration, caller: Option<&Caller>) {
        let mut watch = self.watch();
        watch.waiting.remove(&registration.node.incarnation);
        if let Some(caller) = caller {
            watch.places.insert(registration.node.id.clone(), caller.at.clone());
        }
    }

    pub(super) fn goodbye(&self, node: &str, incarnation: u64) -> Stored<Answer> {
        self.change(|transaction| {
            let mut starts = db(transaction.open_table(STARTS))?;
            let present = load(&starts, &db(transaction.open_table(NODES))?, node)?;
            if let Some(left) = present.and_then(|present| present.leave(incarnation)) {
                store(&mut starts, node, &left)?;
            }
            Ok(Answer::Done)
        })
    }
}

/// The present start of a node. Of one that older software has stored, what is in its record.
pub(super) fn load(
    starts: &impl ReadableTable<&'static str, &'static [u8]>,
    nodes: &impl ReadableTable<&'static str, &'static [u8]>,
    node: &str,
) -> Stored<Option<Present>> {
    if let Some(stored) = db(starts.get(node))? {
        return json(stored.value()).map(Some);
    }
    let record = db(nodes.get(node))?.map(|node| json::<NodeRecord>(node.value())).transpose()?;
    Ok(record.map(|record| Present::of_older_software(record.incarnation)))
}

fn store(
    starts: &mut redb::Table<'_, &'static str, &'static [u8]>,
    node: &str,
    present: &Present,
) -> Stored<()> {
    db(starts.insert(node, text(present)?.as_slice()))?;
    Ok(())
}

/// Stores the start that was admitted.
pub(super) fn admit(
    transaction: &WriteTransaction,
    present: Option<&Present>,
    node: &str,
    claim: &Claim,
) -> Stored<()> {
    let next = present.unwrap_or(&Present::default()).admit(claim);
    store(&mut db(transaction.open_table(STARTS))?, node, &next)
}

#[cfg(test)]
mod tests;

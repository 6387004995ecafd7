//! One request, from its first read to its answer.

use std::sync::{Mutex, PoisonError};

use crate::liveness::{Arrival, Arrivals};
use crate::memory::{Memory, Note};
use crate::moment::Moment;
use crate::operations::{self, Asked, Planned};
use crate::store::{Commit, Entries, Outcome, Range, Store, StoreError};
use crate::transaction::{Halt, Known, Transaction};
use crate::{Answer, Caller, RemovedNode, Request};

/// How often a task begins anew because others have changed what it read. Each time somebody else
/// got further.
const MAX_ATTEMPTS: u32 = 32;
/// After so many of these the others wait for it, where they can be made to: who changes something
/// without a pause could keep another one from it for ever.
const MAX_OVERTAKEN: u32 = 8;
/// How often one whose commit is in doubt does. A disk that stays full leaves each in doubt, and
/// whoever asks can ask again.
const MAX_DOUBTS: u32 = 3;

/// What the driver of a task has to do next.
#[derive(Debug)]
pub enum TaskStep {
    /// Read this in the task's snapshot (a new one if it has none), and pass it to [`Task::learn`].
    Read(Range),
    /// Commit this, and pass the outcome to [`Task::committed`]. The task's snapshot is over.
    Commit(Commit),
    /// The answer.
    Answer(Result<Answer, StoreError>),
}

/// A request under way. It holds no lock, and may be dropped at any step.
#[derive(Debug)]
pub struct Task {
    asked: Asked,
    /// A sign of life waits to be answered.
    arrival: Option<Arrival>,
    known: Known,
    has_begun: bool,
    attempts: u32,
    doubts: u32,
    /// Whether the store answered the last read, if that was since the last step.
    answered: Option<bool>,
    /// What was sent to be committed: what is remembered and answered then.
    pending: Option<(Vec<Note>, Option<Answer>)>,
    /// The answer, once the task is over.
    done: Option<Result<Answer, StoreError>>,
}

impl Task {
    /// A request of the daemon that serves this coordinator.
    #[must_use]
    pub fn here(request: Request) -> Self {
        Self::new(Asked::Here(request))
    }

    /// A request of another node: it is answered if the start that sends it is that node's present
    /// one. Questions that change nothing are answered to all.
    #[must_use]
    pub fn from(caller: Caller, request: Request) -> Self {
        Self::new(Asked::From(caller, request))
    }

    /// Stores how long nodes were silent. Each coordinator does so about once a second.
    #[must_use]
    pub fn tick() -> Self {
        Self::new(Asked::Tick)
    }

    /// Stores that these nodes were removed, if the store does not know. What a coordinator's node
    /// remembers of that counts: its store may have been restored from a backup. To be done before
    /// anybody else is answered.
    #[must_use]
    pub fn stay_removed(nodes: Vec<RemovedNode>) -> Self {
        Self::new(Asked::StayRemoved(nodes))
    }

    fn new(asked: Asked) -> Self {
        Self {
            asked,
            arrival: None,
            known: Known::default(),
            has_begun: false,
            attempts: 0,
            doubts: 0,
            answered: None,
            pending: None,
            done: None,
        }
    }

    /// It has come, and may wait before it begins. A task of which nobody says so comes when it
    /// begins.
    #[must_use]
    pub fn arrived(mut self, arrivals: &Arrivals, now: Moment) -> Self {
        self.arrive(arrivals, now);
        self
    }

    fn arrive(&mut self, arrivals: &Arrivals, now: Moment) {
        let of = self.asked.sign_of_life().filter(|_| self.arrival.is_none());
        if let Some(node) = of {
            self.arrival = Some(arrivals.came(&node, now.steady));
        }
    }

    /// Goes on. `changes` is the [store's number](Store::changes).
    pub fn next(&mut self, memory: &mut Memory, now: Moment, changes: u64) -> TaskStep {
        memory.liveness.advance(now);
        match self.answered.take() {
            Some(true) => memory.liveness.store_answered(),
            Some(false) => {
                memory.liveness.store_failed();
                self.hear_all_the_same(memory, now);
            }
            None => {}
        }
        if let Some(answer) = self.done.take() {
            return self.answer(answer);
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(memory, now);
        }
        let mut transaction = Transaction::new(memory, now, &self.known);
        let planned = operations::plan(&mut transaction, &self.asked, changes);
        let answer = match planned {
            Ok(Planned::Answer(answer)) => Some(answer),
            Ok(Planned::Again) => None,
            Err(Halt::Read(range)) => return TaskStep::Read(range),
            Err(Halt::Content(why)) => return self.answer(Err(StoreError::Content(why))),
            Err(Halt::Refused(why)) => return self.answer(Err(StoreError::Refused(why))),
        };
        let (commit, notes) = match transaction.finish() {
            Ok(finished) => finished,
            Err(error) => return self.answer(Err(error)),
        };
        match (commit, answer) {
            (Some(commit), answer) => {
                notes.iter().for_each(|note| memory.begin(note, now));
                self.pending = Some((notes, answer));
                TaskStep::Commit(commit)
            }
            (None, Some(answer)) => {
                notes.into_iter().for_each(|note| memory.remember(note, now));
                self.answer(Ok(answer))
            }
            // An operation goes on only after a commit.
            (None, None) => self.answer(Err(StoreError::Content("a change of nothing".into()))),
        }
    }

    fn begin(&mut self, memory: &mut Memory, now: Moment) {
        self.arrive(memory.liveness.arrivals(), now);
        if let Asked::Here(Request::Register(start)) | Asked::From(_, Request::Register(start)) =
            &self.asked
        {
            memory.note_asking(start.node.incarnation, now);
        }
    }

    /// A sign of life that was not answered for a failure of the store is lost; of one that can't
    /// be answered another one would fare no better.
    fn answer(&mut self, answer: Result<Answer, StoreError>) -> TaskStep {
        let arrival = self.arrival.take();
        let is_final =
            matches!(answer, Ok(_) | Err(StoreError::Content(_) | StoreError::Refused(_)));
        if is_final && let Some(arrival) = arrival {
            arrival.answered();
        }
        TaskStep::Answer(answer)
    }

    /// This was read; an error ends the task, or begins it anew.
    pub fn learn(&mut self, range: Range, read: Result<Entries, StoreError>) {
        match read {
            Ok(entries) => {
                self.answered = Some(true);
                self.known.learn(range, entries);
            }
            Err(StoreError::TooOld) => self.again(&range),
            Err(error) => {
                self.answered = Some(false);
                self.done = Some(Err(match error {
                    StoreError::Unusable(why) if self.doubts > 0 => StoreError::InDoubt(why),
                    error => error,
                }));
            }
        }
    }

    /// This became of the commit.
    pub fn committed(
        &mut self,
        memory: &mut Memory,
        now: Moment,
        outcome: Result<Outcome, StoreError>,
    ) {
        let Some((notes, answer)) = self.pending.take() else {
            debug_assert!(false, "an outcome without a commit");
            return;
        };
        memory.liveness.advance(now);
        match &outcome {
            Ok(Outcome::Committed) => memory.liveness.committed(),
            Ok(Outcome::Conflict(_)) => memory.liveness.store_answered(),
            Err(StoreError::Unusable(_) | StoreError::InDoubt(_)) if self.asked.keeps_count() => {
                memory.liveness.commit_failed();
            }
            Err(_) => {}
        }
        match outcome {
            Ok(Outcome::Committed) => {
                notes.into_iter().for_each(|note| memory.remember(note, now));
                self.known = Known::default();
                self.done = answer.map(Ok);
            }
            Ok(Outcome::Conflict(range)) => self.again(&range),
            // It may have been done: whoever begins anew finds that.
            Err(StoreError::InDoubt(why)) if self.doubts < MAX_DOUBTS => {
                if memory.doubts.is_news(now.steady) {
                    tracing::warn!(why, "a change of the coordinator's state is in doubt");
                }
                self.doubts += 1;
                self.known = Known::default();
            }
            Err(error) => self.failed(memory, now, notes, answer, error),
        }
    }

    fn again(&mut self, range: &Range) {
        self.attempts += 1;
        self.known = Known::default();
        if self.attempts >= MAX_ATTEMPTS {
            self.done = Some(Err(StoreError::Busy(range.to_string())));
        }
    }

    /// A heartbeat that cannot be noted counts all the same, if no other coordinator has a say. So
    /// does a node's present start that registers again; whether another one is admitted is open.
    fn failed(
        &mut self,
        memory: &mut Memory,
        now: Moment,
        notes: Vec<Note>,
        answer: Option<Answer>,
        error: StoreError,
    ) {
        if !memory.is_alone() || notes.iter().any(|note| matches!(note, Note::Began(_))) {
            self.done = Some(Err(error));
            return;
        }
        let is_known = |note: &Note| matches!(note, Note::Seen(_) | Note::Speaks { .. });
        notes.into_iter().filter(is_known).for_each(|note| memory.remember(note, now));
        let answer = answer.filter(|answer| matches!(answer, Answer::Heard { .. }));
        if answer.is_some() && memory.unsaved.is_news(now.steady) {
            tracing::warn!(%error, "cannot store which nodes are silent: a restart begins their wait anew");
        }
        self.done = Some(answer.ok_or(error));
    }

    /// The store does not say which start is a node's present one. One that was when the node last
    /// spoke lives, and so does the daemon that serves the coordinator.
    fn hear_all_the_same(&self, memory: &mut Memory, now: Moment) {
        let node = match &self.asked {
            Asked::From(caller, _) if memory.was_present(caller) => caller.node,
            Asked::Here(_) => memory.identity.here,
            _ => return,
        };
        let is_sign_of_life = self.asked.sign_of_life().is_some();
        let node = node.to_string();
        if is_sign_of_life && memory.is_alone() && memory.liveness.counts(&node) {
            memory.liveness.saw(&node, now);
        }
    }
}

/// Does a task over a store; blocks.
///
/// # Errors
/// If the store cannot be used, or what it or the request holds cannot be.
pub fn run<S: Store>(
    store: &S,
    memory: &Mutex<Memory>,
    now: impl Fn() -> Moment,
    mut task: Task,
) -> Result<Answer, StoreError> {
    let lock = || memory.lock().unwrap_or_else(PoisonError::into_inner);
    let turns = store.turns();
    let (mut snapshot, mut alone) = (None, None);
    loop {
        let step = task.next(&mut lock(), now(), store.changes());
        match step {
            TaskStep::Read(range) => {
                let taken = snapshot.take().map_or_else(|| store.snapshot(), Ok);
                let read = taken.and_then(|mut taken| {
                    let read = store.read(&mut taken, &range)?;
                    snapshot = Some(taken);
                    Ok(read)
                });
                task.learn(range, read);
            }
            TaskStep::Commit(commit) => {
                snapshot = None;
                let beside = turns.filter(|_| alone.is_none());
                let beside =
                    beside.map(|turns| turns.read().unwrap_or_else(PoisonError::into_inner));
                let outcome = store.commit(&commit);
                drop(beside);
                task.committed(&mut lock(), now(), outcome);
                if alone.is_none() && task.attempts >= MAX_OVERTAKEN {
                    alone =
                        turns.map(|turns| turns.write().unwrap_or_else(PoisonError::into_inner));
                }
            }
            TaskStep::Answer(answer) => return answer,
        }
    }
}

#[cfg(test)]
mod tests;

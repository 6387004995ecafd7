//! Tasks over a store whose commits hang or fail as a test wants; the clock is the test's.

use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_core::{CoordinatorId, Incarnation, NodeId};

use super::*;
use crate::liveness::Liveness;
use crate::store::{Entry, Guard, Key, Space, Write};
use crate::{Identity, Lineage, NodeRecord, Registration, StartId};

const ALPHA: NodeId = NodeId(1);
const BETA: NodeId = NodeId(2);
const EXPIRY: u64 = 10;

type Stored = BTreeMap<Key, Vec<u8>>;

fn read(stored: &Stored, range: &Range) -> Entries {
    let found = stored.iter().filter(|(key, _)| match range {
        Range::Key(wanted) => wanted == *key,
        Range::Space(space) => *space == key.space,
    });
    let entry = |value: &Vec<u8>| Entry { value: value.clone(), revision: 0 };
    found.map(|(key, value)| (key.name.clone(), entry(value))).collect()
}

/// Compares by value.
fn apply(stored: &mut Stored, commit: &Commit) -> Outcome {
    for guard in &commit.guards {
        let found = read(stored, &guard.range());
        let holds = match guard {
            Guard::Key(key, was) => found.get(&key.name) == was.as_ref(),
            Guard::Space(_, was) => found.iter().all(|(name, now)| was.get(name) == Some(now)),
        };
        if !holds {
            return Outcome::Conflict(guard.range());
        }
    }
    for Write { key, value } in &commit.writes {
        match value {
            Some(value) => drop(stored.insert(key.clone(), value.clone())),
            None => drop(stored.remove(key)),
        }
    }
    Outcome::Committed
}

/// A coordinator on alpha that has its store alone.
struct Bench {
    memory: Memory,
    stored: Stored,
    seconds: u64,
    /// Which commits fail.
    fails: fn(&Commit) -> bool,
}

/// How far a task got.
enum Got {
    Commit(Commit),
    Answer(Result<Answer, StoreError>),
}

impl Bench {
    /// Alpha and beta are members, both by their first start.
    fn new() -> Self {
        let identity = Identity { id: CoordinatorId(9), here: ALPHA, is_shared: false };
        let now = Moment { steady: Duration::ZERO, unix: 0 };
        let expiry = Duration::from_secs(EXPIRY);
        let liveness = Liveness::new(expiry, false, now, Default::default());
        let memory = Memory::new(identity, "test".into(), liveness);
        let stored = BTreeMap::from([(Key::new(Space::Cluster, "name"), b"test".to_vec())]);
        let mut bench = Self { memory, stored, seconds: 0, fails: |_| false };
        for node in [ALPHA, BETA] {
            let answer = bench.ask(register(node, 1));
            assert!(matches!(answer, Ok(Answer::Registered { .. })), "{answer:?}");
        }
        bench
    }

    fn now(&self) -> Moment {
        Moment { steady: Duration::from_secs(self.seconds), unix: self.seconds }
    }

    /// The task comes, and waits for a thread.
    fn arrived(&self, task: Task) -> Task {
        task.arrived(self.memory.liveness.arrivals(), self.now())
    }

    /// It goes on until it waits for a commit.
    fn go(&mut self, task: &mut Task) -> Got {
        let now = self.now();
        loop {
            match task.next(&mut self.memory, now, 1) {
                TaskStep::Read(range) => {
                    let found = read(&self.stored, &range);
                    task.learn(range, Ok(found));
                }
                TaskStep::Commit(commit) => return Got::Commit(commit),
                TaskStep::Answer(answer) => return Got::Answer(answer),
            }
        }
    }

    /// It goes on until it hangs in a commit.
    fn hang(&mut self, task: &mut Task) -> Commit {
        match self.go(task) {
            Got::Commit(commit) => commit,
            Got::Answer(answer) => panic!("it is answered: {answer:?}"),
        }
    }

    fn end(&mut self, mut task: Task) -> Result<Answer, StoreError> {
        loop {
            match self.go(&mut task) {
                Got::Commit(commit) => self.committed(&mut task, commit),
                Got::Answer(answer) => return answer,
            }
        }
    }

    /// The commit returns.
    fn committed(&mut self, task: &mut Task, commit: Commit) {
        let outcome = match (self.fails)(&commit) {
            true => Err(StoreError::Unusable("no space".into())),
            false => Ok(apply(&mut self.stored, &commit)),
        };
        let now = self.now();
        task.committed(&mut self.memory, now, outcome);
    }

    fn ask(&mut self, task: Task) -> Result<Answer, StoreError> {
        self.end(task)
    }

    /// So many seconds pass; in each alpha is heard, and what is due is stored. The reads work.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.seconds += 1;
            assert!(matches!(self.ask(beat(ALPHA, 1)), Ok(Answer::Heard { .. })));
        }
    }

    /// The same, and it is stored who was silent.
    fn listen(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.pass(1);
            let _ = self.ask(Task::tick());
        }
    }

    fn may_live(&mut self, node: NodeId) -> bool {
        let Ok(Answer::Nodes(nodes)) = self.ask(Task::here(Request::Nodes)) else { panic!() };
        nodes.iter().any(|member| member.node.id == node.to_string() && member.may_live)
    }
}

fn caller(node: NodeId, start: u64) -> Caller {
    let id = StartId { counter: start, incarnation: Incarnation(start) };
    Caller { node, name: format!("n{}", node.0), start: Some(id), at: "x".into() }
}

fn beat(node: NodeId, start: u64) -> Task {
    Task::from(caller(node, start), Request::Heartbeat { node: node.to_string() })
}

/// A start that follows those before it, which have provably ended.
fn register(node: NodeId, start: u64) -> Task {
    let lineage = Lineage { before: (1..start).collect(), before_ended: true };
    asks(node, start, lineage)
}

fn asks(node: NodeId, start: u64, lineage: Lineage) -> Task {
    let record = NodeRecord {
        id: node.to_string(),
        name: format!("n{}", node.0),
        addresses: vec!["x".into()],
        software: "0".into(),
        incarnation: start,
        counter: start,
    };
    let registration = Registration { lineage, ..record.into() };
    Task::from(caller(node, start), Request::Register(registration))
}

fn draft(number: u128) -> Task {
    let (node, volume) = (ALPHA.to_string(), evenkeel_core::VolumeId(number).to_string());
    Task::here(Request::Draft { node, incarnation: 1, volume })
}

/// The disk takes 30 s for a sync, and can be read meanwhile.
#[test]
fn who_waits_for_a_thread_while_a_commit_hangs_is_not_silent() {
    for is_new in [true, false] {
        let mut bench = Bench::new();
        bench.listen(5);
        let mut hanging = draft(7);
        let commit = bench.hang(&mut hanging);
        let waiting = if is_new { register(BETA, 2) } else { beat(BETA, 1) };
        let waiting = bench.arrived(waiting);
        bench.pass(30);
        bench.committed(&mut hanging, commit);
        bench.end(hanging).unwrap();
        assert!(bench.may_live(BETA), "it has waited all the time, new: {is_new}");
        bench.end(waiting).unwrap();
        bench.listen(EXPIRY - 1);
        assert!(bench.may_live(BETA), "it has its whole time again");
        bench.listen(1);
        assert!(!bench.may_live(BETA));
    }
}

/// Nor who can send the next one only once this one is answered.
#[test]
fn who_waits_for_a_commit_that_hangs_is_not_silent() {
    for is_new in [true, false] {
        let mut bench = Bench::new();
        bench.listen(5);
        let mut hanging = if is_new { register(BETA, 2) } else { beat(BETA, 1) };
        let commit = bench.hang(&mut hanging);
        bench.pass(30);
        assert!(bench.may_live(BETA), "new: {is_new}");
        bench.committed(&mut hanging, commit);
        bench.end(hanging).unwrap();
        bench.listen(EXPIRY - 1);
        assert!(bench.may_live(BETA));
    }
}

/// It is noted by what was read, and not only once that it is silent no more can be stored.
#[test]
fn who_sends_something_is_heard_before_that_is_committed() {
    let mut bench = Bench::new();
    bench.listen(5);
    let mut hanging = beat(BETA, 1);
    let _commit = bench.hang(&mut hanging);
    let seen = bench.memory.liveness.last_seen(&BETA.to_string());
    assert_eq!(seen, Some(bench.now()));
}

/// As where each sync of a large change fails after a while, and those of small ones succeed.
#[test]
fn who_asks_to_be_admitted_is_alive_although_that_fails_each_time() {
    let mut bench = Bench::new();
    bench.listen(5);
    bench.fails = |commit| commit.writes.iter().any(|write| write.key.space == Space::Starts);
    for number in 0..10 {
        let mut hanging = register(BETA, 2);
        let commit = bench.hang(&mut hanging);
        bench.pass(30);
        bench.committed(&mut hanging, commit);
        bench.end(hanging).unwrap_err();
        // Others can be committed at once.
        bench.ask(draft(number)).unwrap();
        bench.listen(2);
        assert!(bench.may_live(BETA));
    }
    // And it dies as every node does.
    bench.listen(EXPIRY);
    assert!(!bench.may_live(BETA));
}

/// Its node sends the next one a second later.
#[test]
fn what_was_lost_before_anything_could_be_read_is_nobodys_silence() {
    let mut bench = Bench::new();
    for _ in 0..30 {
        drop(bench.arrived(beat(BETA, 1)));
        bench.listen(2);
        assert!(bench.may_live(BETA));
    }
    bench.listen(EXPIRY + 3);
    assert!(!bench.may_live(BETA));
}

#[test]
fn a_dead_node_dies_while_changes_fail_that_say_nothing_of_who_lives() {
    let mut bench = Bench::new();
    bench.fails = |commit| commit.writes.iter().any(|write| write.key.space == Space::Drafts);
    for _ in 0..EXPIRY {
        assert!(bench.may_live(BETA));
        bench.listen(1);
        bench.ask(draft(7)).unwrap_err();
    }
    assert!(!bench.may_live(BETA));
}

#[test]
fn a_dead_node_dies_while_a_commit_hangs_for_which_nobody_waits_who_is_to_be_heard() {
    let mut bench = Bench::new();
    let mut hanging = draft(7);
    let _commit = bench.hang(&mut hanging);
    bench.listen(EXPIRY);
    assert!(!bench.may_live(BETA));
}

/// Somebody who waits is not waited for when nobody has to: the node asks again, and the silence of
/// the start before it goes on.
#[test]
fn a_start_that_is_admitted_after_silence_does_not_wait_again_if_that_fails_once() {
    let mut bench = Bench::new();
    let lineage = || Lineage { before: vec![1], before_ended: false };
    let waits = bench.ask(asks(BETA, 2, lineage()));
    assert!(matches!(waits, Ok(Answer::Waits { .. })), "{waits:?}");
    bench.listen(EXPIRY);
    bench.fails = |commit| commit.writes.iter().any(|write| write.key.space == Space::Starts);
    bench.ask(asks(BETA, 2, lineage())).unwrap_err();
    assert!(bench.may_live(BETA), "it has asked");
    bench.fails = |_| false;
    let admitted = bench.ask(asks(BETA, 2, lineage()));
    assert!(matches!(admitted, Ok(Answer::Registered { .. })), "{admitted:?}");
}

/// What says that a node is one that it is not, or whose time is over, keeps nobody alive.
#[test]
fn who_is_refused_is_not_heard() {
    let mut bench = Bench::new();
    bench.ask(register(BETA, 2)).unwrap();
    for _ in 0..EXPIRY {
        assert!(bench.may_live(BETA));
        bench.listen(1);
        let refused = bench.ask(beat(BETA, 1));
        assert!(matches!(refused, Ok(Answer::Superseded { .. })), "{refused:?}");
    }
    assert!(!bench.may_live(BETA));
}

/// A store of which a member changes a volume before each commit, if it does not have to wait.
struct Hurried {
    stored: Mutex<Stored>,
    turns: RwLock<()>,
    changes: AtomicU64,
}

impl Store for Hurried {
    type Snapshot = Stored;

    fn snapshot(&self) -> Result<Stored, StoreError> {
        Ok(self.stored.lock().unwrap().clone())
    }

    fn read(&self, snapshot: &mut Stored, range: &Range) -> Result<Entries, StoreError> {
        Ok(read(snapshot, range))
    }

    fn commit(&self, commit: &Commit) -> Result<Outcome, StoreError> {
        let stored = &mut *self.stored.lock().unwrap();
        if self.turns.try_read().is_ok() {
            let number = self.changes.fetch_add(1, Ordering::Relaxed);
            let record = crate::VolumeRecord { revision: number, ..record() };
            let value = serde_json::to_vec(&record).unwrap();
            stored.insert(Key::new(Space::Volumes, &record.id), value);
        }
        Ok(apply(stored, commit))
    }

    fn changes(&self) -> u64 {
        1
    }

    fn turns(&self) -> Option<&RwLock<()>> {
        Some(&self.turns)
    }
}

fn record() -> crate::VolumeRecord {
    crate::VolumeRecord {
        id: evenkeel_core::VolumeId(7).to_string(),
        name: "web".into(),
        no_data: crate::NoData::Error,
        replicas: Vec::new(),
        stopped: false,
        checksums: true,
        used_on: None,
        wanted_on: crate::WantedOn::default(),
        verified: None,
        revision: 0,
        lost: Vec::new(),
    }
}

/// Else it could keep others from all that reads many volumes: from its own removal.
#[test]
fn a_member_that_changes_something_without_a_pause_keeps_nobody_from_its_removal() {
    let bench = Bench::new();
    let (stored, turns) = (Mutex::new(bench.stored), RwLock::default());
    let store = Hurried { stored, turns, changes: AtomicU64::new(1) };
    let memory = Mutex::new(bench.memory);
    let now = Moment { steady: Duration::from_secs(1), unix: 1 };
    let remove = || {
        let request = Request::RemoveNode { node: BETA.to_string(), incarnation: Some(1) };
        run(&store, &memory, || now, Task::here(request))
    };
    assert!(matches!(remove(), Ok(Answer::Done)), "it is kept from it");
    let others = store.changes.load(Ordering::Relaxed);
    assert!(others > 1, "nobody was in its way");
    assert!(store.turns.try_write().is_ok(), "others wait still");
}

/// Whoever took it for a failure would ask for the same for ever.
#[test]
fn what_is_more_than_one_commit_takes_is_refused() {
    let mut bench = Bench::new();
    let name = "x".repeat(crate::store::MAX_BYTES + 1);
    let answer = bench.ask(Task::here(Request::Rename { name, replaces: None }));
    let refused = answer.unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
}

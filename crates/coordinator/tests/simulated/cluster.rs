//! Several coordinators over one store, and what is under way at them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use evenkeel_coordinator::liveness::Liveness;
use evenkeel_coordinator::starts::{Candidate, LastSeen, Present, Verdict};
use evenkeel_coordinator::store::{Commit, Space, StoreError};
use evenkeel_coordinator::{
    Answer, Caller, Identity, Memory, Moment, Request, Store, Task, TaskStep, found, run,
};
use evenkeel_core::{CoordinatorId, NodeId};

use crate::oracles::{self, Heard, Oracles, Violation};
use crate::random::Random;
use crate::signs::End;
use crate::store::{Faults, Sabotage, SimulatedStore, Tag, Values};

/// For how long a node is silent before it is dead.
pub const EXPIRY: Duration = Duration::from_secs(5);
const COORDINATORS: usize = 3;
/// In one of so many seeds one coordinator has the store alone, as a database of its node.
const ALONE: u64 = 4;
/// The most threads that it has for questions, and as many for changes.
const MAX_THREADS: u64 = 2;

/// A process that serves the coordinator.
struct Server {
    memory: Memory,
    next_tick: u64,
    /// It does not run until then: the machine is frozen.
    frozen_until: u64,
}

/// A task under way. Whoever asked may have gone.
struct Running {
    server: usize,
    task: Task,
    snapshot: Option<u64>,
    tag: Tag,
    asked_at: u64,
    /// It waits in a socket until then: requests that were sent later are carried out before.
    held_until: u64,
    asker: Option<usize>,
    /// It has a thread, if the coordinator has some.
    has_begun: bool,
    /// A commit of it has begun and not ended.
    hanging: Option<Hanging>,
    /// It is a sign of life of the start that speaks for its node, and has come.
    is_sign: bool,
}

/// A commit under way, and what was so when it began.
struct Hanging {
    commit: Commit,
    until: u64,
    then: (u64, Heard),
}

impl Running {
    fn new(server: usize, task: Task, tag: Tag, asked_at: u64) -> Self {
        Self {
            server,
            task,
            snapshot: None,
            tag,
            asked_at,
            held_until: 0,
            asker: None,
            has_begun: false,
            hanging: None,
            is_sign: false,
        }
    }

    fn is_question(&self) -> bool {
        use Request::{Heartbeat, Membership, Nodes, Read, RemovedNodes, Volumes};
        let Some(request) = &self.tag.request else { return true };
        matches!(
            request,
            Heartbeat { .. } | Nodes | RemovedNodes | Membership | Volumes | Read { .. }
        )
    }
}

/// An answer for whoever asked.
pub struct Answered {
    pub asker: usize,
    pub request: Request,
    pub answer: Result<Answer, StoreError>,
}

/// All of it.
pub struct Cluster {
    pub random: Random,
    pub store: SimulatedStore,
    pub oracles: Oracles,
    /// In milliseconds.
    pub now: u64,
    servers: Vec<Server>,
    running: Vec<Running>,
    /// A copy of the store, made earlier.
    backup: Option<Values>,
    pub counts: BTreeMap<&'static str, u64>,
    /// Chosen by the seed: how bad it is.
    pub faults: Faults,
    /// Whether each commit is printed.
    is_reported: bool,
    pub sabotage: Sabotage,
    /// Where one coordinator has the store alone: how many threads of each kind it has.
    threads: Option<usize>,
    /// Until then a commit hangs.
    writes_until: u64,
}

impl Cluster {
    pub fn new(seed: u64, sabotage: Sabotage) -> Self {
        let mut random = Random::new(seed);
        let store = SimulatedStore::new(random.bits(), sabotage);
        let mut rate = || if random.chance(600) { 2 + random.below(40) } else { 0 };
        let mut faults = Faults {
            unusable: rate(),
            lost_answer: rate(),
            lost_request: rate(),
            delayed: rate(),
            compacted: rate(),
            held: rate(),
            hangs: 0,
        };
        let is_alone = seed % ALONE == ALONE - 1;
        if is_alone {
            // What was sent to its disk is there at once, or never.
            (faults.hangs, faults.delayed) = (20 + random.below(60), 0);
        }
        let threads = is_alone.then(|| 1 + random.below(MAX_THREADS) as usize);
        let mut cluster = Self {
            random,
            store,
            oracles: Oracles::default(),
            now: 1_000_000,
            servers: Vec::new(),
            running: Vec::new(),
            backup: None,
            counts: BTreeMap::new(),
            faults,
            is_reported: std::env::var_os("EVENKEEL_COORDINATOR_SEED").is_some(),
            sabotage,
            threads,
            writes_until: 0,
        };
        for number in 0..if is_alone { 1 } else { COORDINATORS } {
            let server = cluster.start(number);
            cluster.servers.push(server);
        }
        cluster.store.set_faults(faults);
        cluster
    }

    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn moment(&self) -> Moment {
        Moment { steady: Duration::from_millis(self.now), unix: self.now / 1000 }
    }

    /// A process starts: it knows what is stored.
    fn start(&mut self, number: usize) -> Server {
        self.store.set_faults(Faults::default());
        let cluster = found(&self.store, "simulated", CoordinatorId(9)).expect("it works");
        self.store.set_faults(self.faults);
        let here = NodeId(1000 + number as u128);
        let identity = Identity { id: cluster.id, here, is_shared: self.threads.is_none() };
        let known = (cluster.members, cluster.silent);
        let liveness = Liveness::new(EXPIRY, identity.is_shared, self.moment(), known);
        let memory = Mutex::new(Memory::new(identity, cluster.name, liveness));
        self.stay_removed(&memory);
        let memory = memory.into_inner().expect("nobody has panicked");
        Server { memory, next_tick: self.now, frozen_until: 0 }
    }

    /// Its node remembers who was removed, though the store may have forgotten it.
    fn stay_removed(&self, memory: &Mutex<Memory>) {
        if self.sabotage != Sabotage::Removals {
            let remembered = self.oracles.removed();
            self.store.set_faults(Faults::default());
            self.store.set_tag(Tag::START);
            let task = Task::stay_removed(remembered);
            run(&self.store, memory, || self.moment(), task).expect("it works");
            self.store.set_faults(self.faults);
        }
    }

    /// One of the processes ends, and another one takes over: of what was under way nobody hears
    /// again.
    pub fn restart_one(&mut self) {
        let which = self.random.index(self.servers.len());
        self.count("takeovers by another coordinator");
        self.running.retain(|running| running.server != which);
        self.oracles.heard.signs.restarted(self.now);
        self.writes_until = 0;
        self.servers[which] = self.start(which);
    }

    /// The store is copied.
    pub fn back_up(&mut self) {
        self.backup = Some(self.store.values());
        self.oracles.back_up();
    }

    /// The copy takes the place of the store, and all coordinators start anew: what was committed
    /// since is forgotten.
    pub fn put_back(&mut self) {
        let Some(values) = self.backup.clone() else { return };
        self.count("older stores put back");
        if self.is_reported {
            println!("{} an older store is put back", self.now);
        }
        self.oracles.put_back(&values);
        self.store.put_back(values);
        self.running.clear();
        self.writes_until = 0;
        for number in 0..self.servers.len() {
            self.servers[number] = self.start(number);
        }
    }

    /// One of them stands still for a while.
    pub fn freeze_one(&mut self) {
        let which = self.random.index(self.servers.len());
        self.servers[which].frozen_until = self.now + self.random.below(12_000);
        self.count("frozen coordinators");
    }

    /// Whether a question is still being worked on.
    pub fn is_running(&self, asker: usize) -> bool {
        self.running.iter().any(|running| running.asker == Some(asker))
    }

    /// Whoever asked has gone, or asks another one.
    pub fn abandon(&mut self, asker: usize) {
        let of = self.running.iter_mut().filter(|running| running.asker == Some(asker));
        of.for_each(|running| running.asker = None);
    }

    /// Asks any of the coordinators.
    pub fn ask(&mut self, asker: usize, (caller, command): (&Caller, u64), request: &Request) {
        let server = self.random.index(self.servers.len());
        let (caller, request) = (caller.clone(), request.clone());
        let tag = Tag {
            caller: Some(caller.clone()),
            request: Some(request.clone()),
            command: Some(command),
            is_start: false,
        };
        let task = Task::from(caller, request);
        let mut running = Running::new(server, task, tag, self.now);
        running.asker = Some(asker);
        if self.random.chance(self.faults.held) {
            self.count("held in a socket");
            running.held_until = self.now + self.random.below(30_000);
        } else if self.servers[server].frozen_until <= self.now {
            running = self.receive(running);
        }
        self.running.push(running);
    }

    /// A coordinator receives a request, for which it may have no thread.
    fn receive(&mut self, mut running: Running) -> Running {
        if self.threads.is_none() {
            return running;
        }
        running.is_sign = self.is_sign(&running.tag);
        if let Some(caller) = running.tag.caller.as_ref().filter(|_| running.is_sign) {
            self.oracles.heard.signs.came(&caller.node.to_string(), self.now);
        }
        if self.sabotage == Sabotage::Arrivals {
            return running;
        }
        let arrivals = self.servers[running.server].memory.liveness.arrivals();
        Running { task: running.task.arrived(arrivals, self.moment()), ..running }
    }

    /// Whether it tells that a node lives: its present start sends it, or the one that becomes that
    /// as soon as it is committed.
    fn is_sign(&self, tag: &Tag) -> bool {
        let (Some(caller), Some(request)) = (&tag.caller, &tag.request) else { return false };
        let values = self.store.values();
        let Some(present) = oracles::get(&values, Space::Starts, &caller.node.to_string()) else {
            return false;
        };
        let present: Present = oracles::json(present);
        match request {
            Request::Heartbeat { .. } => caller.start.is_some_and(|start| present.is(start)),
            Request::Register(start) => {
                let candidate = Candidate {
                    counter: start.node.counter,
                    incarnation: start.node.incarnation,
                    lineage: start.lineage.clone(),
                    is_chosen: start.is_chosen,
                };
                present.judge(&candidate, LastSeen::Before) == Verdict::Admitted
            }
            _ => false,
        }
    }

    /// Time passes.
    pub fn pass(&mut self, milliseconds: u64) {
        self.now += milliseconds;
        let moment = self.moment();
        for number in 0..self.servers.len() {
            let server = &mut self.servers[number];
            if server.frozen_until > self.now || server.next_tick > self.now {
                continue;
            }
            server.next_tick = self.now + 1000;
            if server.memory.liveness.take_due(moment) {
                let task = Task::tick();
                self.running.push(Running::new(number, task, Tag::TICK, self.now));
            }
        }
    }

    /// One of the tasks goes one step further.
    pub fn step(&mut self) -> Result<Option<Answered>, Violation> {
        let able: Vec<usize> =
            (0..self.running.len()).filter(|i| self.is_able(&self.running[*i])).collect();
        let Some(which) = self.random.pick(&able).copied() else { return Ok(None) };
        self.begin(which);
        if let Some(hanging) = self.running[which].hanging.take() {
            self.oracles.then = Some(hanging.then);
            self.end_commit(which, &hanging.commit);
            self.judge()?;
            self.oracles.then = None;
            return Ok(None);
        }
        let (moment, changes) = (self.moment(), self.store.changes());
        let running = &mut self.running[which];
        let memory = &mut self.servers[running.server].memory;
        let mut answered = None;
        match running.task.next(memory, moment, changes) {
            TaskStep::Read(range) => {
                let taken = running.snapshot.map_or_else(|| self.store.snapshot(), Ok);
                let read = taken.and_then(|mut taken| {
                    running.snapshot = Some(taken);
                    self.store.read(&mut taken, &range)
                });
                if read.is_err() {
                    running.snapshot = None;
                }
                running.task.learn(range, read);
            }
            TaskStep::Commit(commit) => self.commit(which, commit),
            TaskStep::Answer(answer) => answered = Some(answer),
        }
        self.judge()?;
        let Some(answer) = answered else { return Ok(None) };
        let running = self.running.swap_remove(which);
        self.answered(running, answer)
    }

    fn is_able(&self, running: &Running) -> bool {
        let has_returned = running.hanging.as_ref().is_none_or(|it| it.until <= self.now);
        let is_frozen = self.servers[running.server].frozen_until > self.now;
        !is_frozen && running.held_until <= self.now && has_returned && self.has_thread(running)
    }

    /// It has a thread from now on.
    fn begin(&mut self, which: usize) {
        let running = &mut self.running[which];
        let is_first = !std::mem::replace(&mut running.has_begun, true);
        if is_first && running.is_sign && running.asked_at + 1000 < self.now {
            self.count("signs of life that wait for a thread");
        }
    }

    fn commit(&mut self, which: usize, commit: Commit) {
        self.running[which].snapshot = None;
        if self.writes_until > self.now {
            self.count("commits that wait for one that hangs");
        } else if self.threads.is_some() && self.random.chance(self.faults.hangs) {
            self.count("commits that hang");
            self.writes_until = self.now + self.random.below(30_000);
        }
        if self.writes_until <= self.now {
            return self.end_commit(which, &commit);
        }
        let then = (self.now, self.oracles.heard.clone());
        self.running[which].hanging = Some(Hanging { commit, until: self.writes_until, then });
    }

    fn end_commit(&mut self, which: usize, commit: &Commit) {
        let moment = self.moment();
        let running = &mut self.running[which];
        self.store.set_tag(running.tag.clone());
        let outcome = self.store.commit(commit);
        let memory = &mut self.servers[running.server].memory;
        running.task.committed(memory, moment, outcome);
    }

    /// Whether it has one, or can have one, where they are counted.
    fn has_thread(&self, running: &Running) -> bool {
        let Some(threads) = self.threads.filter(|_| !running.has_begun) else { return true };
        let is_beside = |other: &&Running| {
            let has_thread = other.has_begun && other.tag.request.is_some();
            has_thread && other.is_question() == running.is_question()
        };
        running.tag.request.is_none() || self.running.iter().filter(is_beside).count() < threads
    }

    fn answered(
        &mut self,
        running: Running,
        answer: Result<Answer, StoreError>,
    ) -> Result<Option<Answered>, Violation> {
        if let Err(StoreError::Content(why) | StoreError::Refused(why)) = &answer {
            return Err(("internal", format!("{:?}: {why}", running.tag.request)));
        }
        if let Err(StoreError::Busy(_)) = &answer {
            self.count("busy");
        }
        if let Some(caller) = running.tag.caller.as_ref().filter(|_| running.is_sign) {
            let end = match &answer {
                Ok(Answer::Heard { .. } | Answer::Registered { .. }) => End::Heard,
                Ok(_) => End::Refused,
                Err(_) => End::Failed,
            };
            self.oracles.heard.signs.ended(&caller.node.to_string(), self.now, end);
        }
        let Some(request) = running.tag.request else { return Ok(None) };
        if let Ok(answer) = &answer {
            self.oracles.answered(&request, answer)?;
            let node = match (&request, answer) {
                (Request::Heartbeat { node }, Answer::Heard { .. }) => Some(node),
                (Request::Register(start), Answer::Registered { .. }) => Some(&start.node.id),
                _ => None,
            };
            if let Some(node) = node {
                // What counts was read or committed since.
                let seen = self.oracles.heard.seen.entry(node.clone()).or_default();
                *seen = running.asked_at.max(*seen);
            }
            self.count(crate::nodes::kind(answer));
        }
        Ok(running.asker.map(|asker| Answered { asker, request, answer }))
    }

    /// A commit that was on its way arrives.
    pub fn deliver(&mut self) -> Result<(), Violation> {
        self.store.deliver();
        self.judge()
    }

    fn judge(&mut self) -> Result<(), Violation> {
        for applied in self.store.take_applied() {
            if self.is_reported {
                println!("{} {applied}", self.now);
            }
            self.oracles.applied(&applied, self.now)?;
        }
        Ok(())
    }
}

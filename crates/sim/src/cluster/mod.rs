//! One simulated cluster: the shipped primaries and replicas between simulated disks, links, clocks
//! and a coordinator, all driven by one queue of events in virtual time.

mod assembly;
mod calls;
mod canaries;
mod clients;
mod clones;
mod copies;
mod differences;
mod disks;
mod faults;
mod finale;
mod forgotten;
mod given_up;
mod intents;
mod judge;
mod links;
mod members;
mod nodes;
mod primaries;
mod reattach;
mod replicas;
mod reservations;
mod sharing;
mod state;
mod tables;

use std::collections::{BTreeSet, HashMap};

use evenkeel_core::primary::Command;
use evenkeel_core::primary::CoordinatorAnswer;
use evenkeel_core::*;

use crate::coordinator::{Coordinator, Question};
use crate::log::{Level, Log};
use crate::marks::Marks;
use crate::network::{Network, Party};
use crate::oracles::Violation;
use crate::oracles::given_up::GivenUp;
use crate::oracles::lines::{self, Lines};
use crate::oracles::minimal::Minimal;
use crate::oracles::order::Order;
use crate::oracles::registers::Moment;
use crate::payload::{Cell, Sectors};
use crate::profile::{Fault, Profile};
use crate::queue::{Queue, Time};
use crate::random::Random;
use crate::reduction::Reduction;
use crate::sabotage::Sabotage;
use crate::tape::{Stream, Tape};
use assembly::{Operators, Trouble};
use forgotten::Garbage;
use links::Dial;
use nodes::Node;
use primaries::SimPrimary;
use replicas::SimReplica;

/// Most events that one run may take; more means that something goes round without end.
const MAX_EVENTS: u64 = 20_000_000;

/// Something that happens at a moment of virtual time.
#[derive(Debug)]
enum Event {
    /// A client makes its next request.
    Issue {
        primary: usize,
    },
    /// A request or command must have been answered by now.
    Bound {
        primary: usize,
        request: u64,
        command: bool,
    },
    PrimaryTick {
        primary: usize,
    },
    ReplicaTick {
        replica: usize,
        starts: u32,
    },
    /// A dial reaches the node of the replica.
    DialArrives(Dial),
    /// A dial's outcome reaches the dialler.
    DialAnswered(Dial, Option<LinkId>),
    /// The next message of a link may be there.
    Deliver {
        link: LinkId,
        end: usize,
    },
    /// An end of a link learns that it is cut.
    LinkEnds {
        link: LinkId,
        end: usize,
    },
    DiskActs {
        replica: usize,
        action: u64,
    },
    DiskAnswers {
        replica: usize,
        action: u64,
    },
    /// Power is cut while this action is under way, if it is.
    TearsTable {
        replica: usize,
        action: u64,
    },
    CallArrives {
        primary: usize,
        call: CoordinatorCall,
        question: Question,
    },
    CallAnswered {
        primary: usize,
        call: CoordinatorCall,
        answer: CoordinatorAnswer,
    },
    Attach,
    /// The volume is detached and attached again on the node of this primary.
    Reattach {
        primary: usize,
    },
    /// A copy of a node attaches the volume on another machine.
    CopyAttaches {
        machine: usize,
        identity: NodeId,
    },
    /// A client that only reads does so.
    Reads {
        primary: usize,
    },
    /// Something happens after which the volume has to be put together.
    Trouble(Trouble),
    /// Somebody puts the volume together from its disks.
    Assemble,
    NodeStarts {
        node: usize,
        starts: u32,
    },
    ReplicaStarts {
        replica: usize,
        starts: u32,
    },
    Fault,
    PartitionEnds {
        from: usize,
        to: usize,
    },
    OperatorReturns {
        replica: ReplicaId,
    },
}

/// Why a run ends early.
#[derive(Debug)]
pub enum Stop {
    /// An invariant is broken.
    Violated(Violation),
    /// What it was to stop at has happened.
    Reached,
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Violated(violation)
    }
}

/// What a run has done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Requests of clients, those that were left out too.
    pub operations: u64,
    /// Faults, without those that are a rate (lost calls, failed connections, passing disk errors).
    pub faults: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Virtual time.
    pub time: Time,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Cluster {
    now: Time,
    queue: Queue<Event>,
    random: Random,
    /// For [`tables`], so that seeds without that keep their story.
    aim: Random,
    profile: Profile,
    /// What is left out.
    reduction: Reduction,
    /// The faults that were carried out, with their numbers.
    struck: Vec<(u64, Fault)>,
    nodes: Vec<Node>,
    replicas: Vec<SimReplica>,
    primaries: Vec<SimPrimary>,
    network: Network,
    coordinator: Coordinator,
    operators: Operators,
    /// Nodes of which there are copies.
    cloned: BTreeSet<NodeId>,
    /// No primary's node is cut off for its lease again before.
    next_cut: Time,
    lines: Lines,
    order: Order,
    minimal: Minimal,
    given_up: GivenUp,
    garbage: Garbage,
    /// Counts client events, for the oracles.
    moment: Moment,
    /// Requests that clients may still make.
    budget: u64,
    /// Whether faults are still injected.
    faulty: bool,
    /// Sectors of the volume that clients know of.
    sectors: u32,
    /// Whether, since a primary began to serve last, any view acknowledged by A or B: the next one
    /// may find writes gone that no flush covers.
    relaxed: bool,
    /// In which view of its primary each change was asked for.
    asked_in: HashMap<u32, Generation>,
    /// Who may read and write, while that is certain.
    reserved: Option<Reservations>,
    /// What clients last saw in a sector.
    seen: HashMap<u32, Cell>,
    /// Whether the size of the intent logs has changed.
    is_relaid: bool,
    /// Steps after which W7 is judged again, if it is at every step.
    unjudged: u32,
    /// When a view was committed last.
    committed_at: Time,
    no_connections_until: Time,
    slow_network_until: Time,
    sabotage: Option<Sabotage>,
    /// The only oracle that counts, if not all do.
    only: Option<&'static str>,
    violation: Option<Violation>,
    /// What happened how often.
    pub marks: Marks,
    /// The event log.
    pub log: Log,
    counters: Counters,
    replica_effects: Vec<ReplicaEffect<Sectors>>,
    primary_effects: Vec<PrimaryEffect<Sectors>>,
}

impl Cluster {
    /// The cluster of this profile, with a new volume that is not attached yet.
    #[must_use]
    pub fn new(seed: u64, profile: Profile, sabotage: Option<Sabotage>, log: Log) -> Self {
        Self::drawing(Random::new(seed), seed, profile, (sabotage, log))
    }

    /// The same, with another source of numbers.
    #[must_use]
    pub fn drawing(
        mut random: Random,
        seed: u64,
        profile: Profile,
        (sabotage, log): (Option<Sabotage>, Log),
    ) -> Self {
        let view = replicas::first_view(&profile);
        let nodes = profile.drift.iter().map(|ppm| Node::new(&mut random, *ppm)).collect();
        let mut cluster = Self {
            now: 0,
            queue: Queue::default(),
            nodes,
            replicas: replicas::create(&profile, &view),
            primaries: Vec::new(),
            network: Network::new(profile.nodes),
            lines: Lines::new(profile.max_sectors(), lines::epoch(&view)),
            coordinator: Coordinator::new(view),
            operators: Operators::default(),
            cloned: BTreeSet::new(),
            next_cut: 0,
            sectors: profile.sectors(),
            order: Order::default(),
            minimal: Minimal::default(),
            given_up: GivenUp::default(),
            garbage: Garbage::default(),
            moment: 0,
            budget: profile.operations,
            faulty: !profile.faults.is_empty(),
            asked_in: HashMap::new(),
            reserved: None,
            seen: HashMap::new(),
            is_relaid: false,
            unjudged: 0,
            committed_at: 0,
            relaxed: profile.protocol != Protocol::C,
            no_connections_until: 0,
            slow_network_until: 0,
            sabotage,
            only: None,
            violation: None,
            marks: Marks::default(),
            log,
            counters: Counters::default(),
            replica_effects: Vec::new(),
            primary_effects: Vec::new(),
            random,
            aim: Random::new(seed ^ 0x6169_6d00),
            reduction: Reduction::default(),
            struck: Vec::new(),
            profile,
        };
        if cluster.coordinator.newest().is_shared() {
            cluster.lines.share();
        }
        if cluster.profile.forgets_checksums {
            cluster.replicas.iter_mut().for_each(|slot| slot.disk.keep_checksums());
        }
        for node in 0..cluster.nodes.len() {
            cluster.queue.push(0, Event::NodeStarts { node, starts: 0 });
        }
        cluster.queue.push(1000, Event::Attach);
        cluster.plan_fault();
        cluster
    }

    /// Has this oracle alone judge: to see that it is able to.
    pub fn judge_only(&mut self, oracle: &'static str) {
        self.only = Some(oracle);
    }

    /// Leaves something out of the run, which has not begun.
    pub fn leave_out(&mut self, reduction: Reduction) {
        self.reduction = reduction;
    }

    /// The faults that were carried out so far, with their numbers.
    #[must_use]
    pub fn struck(&self) -> &[(u64, Fault)] {
        &self.struck
    }

    /// What was noted of what it drew, if that was asked for.
    pub fn take_tape(&mut self) -> Option<Tape> {
        self.random.take_tape()
    }

    /// What the run has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { time: self.now, ..self.counters }
    }

    /// Runs both phases.
    ///
    /// # Errors
    /// The first violation of an invariant, or what it was to stop at.
    pub fn run(&mut self) -> Result<(), Stop> {
        let limit = self.profile.patience() * 8 + self.profile.operations * self.profile.think * 4;
        let limit = self.reduction.end.map_or(limit, |end| limit.min(end));
        while self.now < limit && !self.is_idle() {
            let until = self.now + self.profile.patience() / 8;
            self.advance(self.reduction.end.map_or(until, |end| until.min(end)))?;
        }
        self.finale()
    }

    /// Whether all requests were made and answered.
    fn is_idle(&self) -> bool {
        self.budget == 0 && self.primaries.iter().all(|p| !p.alive || p.requests.is_empty())
    }

    /// Runs everything that happens until then.
    fn advance(&mut self, until: Time) -> Result<(), Stop> {
        while let Some((at, event)) = self.queue.pop_until(until) {
            self.now = at;
            self.random.set_time(at);
            self.counters.events += 1;
            if self.counters.events > MAX_EVENTS {
                self.fail("I11", "the cluster does not come to rest: 20 million events");
            } else if let Some(later) = self.postponed(&event) {
                self.queue.push(later, event);
            } else {
                // Else no disk has changed, nor the newest view.
                let is_step = matches!(event, Event::DiskActs { .. } | Event::CallArrives { .. });
                if self.random.recorder().is_some() {
                    let stream = self.stream(&event);
                    self.random.set_stream(stream);
                }
                self.dispatch(event);
                if is_step && self.profile.judges_every_step {
                    self.judge_step();
                }
            }
            if let Some(violation) = self.violation.take() {
                return Err(violation.into());
            }
            if self.log.stops(self.now) {
                return Err(Stop::Reached);
            }
        }
        self.now = self.now.max(until);
        self.random.set_time(self.now);
        self.random.set_stream(Stream::Run);
        Ok(())
    }

    /// Who draws what an event needs.
    fn stream(&self, event: &Event) -> Stream {
        let of = |party: Party| match party {
            Party::Primary(primary) => Stream::Primary(primary),
            Party::Replica(replica, _) => Stream::Replica(replica),
        };
        match event {
            Event::Issue { primary } | Event::Reads { primary } => Stream::Client(*primary),
            Event::PrimaryTick { primary }
            | Event::CallAnswered { primary, .. }
            | Event::Bound { primary, .. } => Stream::Primary(*primary),
            Event::CallArrives { primary, .. } => Stream::Coordinator(*primary),
            Event::DialArrives(dial) => Stream::Replica(dial.replica),
            Event::DialAnswered(dial, _) => of(dial.from),
            Event::Deliver { link, end } | Event::LinkEnds { link, end } => {
                self.network.links.get(link).map_or(Stream::Run, |link| of(link.ends[*end].party))
            }
            Event::DiskActs { replica, .. } | Event::TearsTable { replica, .. } => {
                Stream::Disk(*replica)
            }
            Event::ReplicaTick { replica, .. }
            | Event::DiskAnswers { replica, .. }
            | Event::ReplicaStarts { replica, .. } => Stream::Replica(*replica),
            Event::NodeStarts { node, .. } => Stream::Node(*node),
            Event::Fault
            | Event::Attach
            | Event::Reattach { .. }
            | Event::CopyAttaches { .. }
            | Event::Trouble(_)
            | Event::Assemble
            | Event::PartitionEnds { .. }
            | Event::OperatorReturns { .. } => Stream::Operators,
        }
    }

    /// Draws for somebody else than the event is for.
    fn drawing_for<T>(&mut self, stream: Stream, draw: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.random.set_stream(stream);
        let drawn = draw(self);
        self.random.set_stream(outer);
        drawn
    }

    /// Until when the event has to wait because the process that it concerns is paused.
    fn postponed(&self, event: &Event) -> Option<Time> {
        let node = match event {
            Event::Issue { primary }
            | Event::Reads { primary }
            | Event::PrimaryTick { primary }
            | Event::CallAnswered { primary, .. } => self.primaries[*primary].node,
            Event::ReplicaTick { replica, .. } | Event::DiskAnswers { replica, .. } => {
                self.replicas[*replica].node
            }
            Event::Deliver { link, end } | Event::LinkEnds { link, end } => {
                self.network.links.get(link)?.ends[*end].node
            }
            Event::DialArrives(dial) => self.replicas[dial.replica].node,
            Event::DialAnswered(dial, _) => dial.node,
            _ => return None,
        };
        let until = self.nodes[node].paused_until;
        (until > self.now).then_some(until)
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Issue { primary } => self.issue(primary),
            Event::Reads { primary } => self.issue_read_only(primary),
            Event::Bound { primary, request, command } => self.bound(primary, request, command),
            Event::PrimaryTick { primary } => self.primary_tick(primary),
            Event::ReplicaTick { replica, starts } => self.replica_tick(replica, starts),
            Event::DialArrives(dial) => self.dial_arrives(dial),
            Event::DialAnswered(dial, link) => self.dial_answered(dial, link),
            Event::Deliver { link, end } => self.deliver(link, end),
            Event::LinkEnds { link, end } => self.link_ends(link, end),
            Event::DiskActs { replica, action } => self.disk_acts(replica, action),
            Event::DiskAnswers { replica, action } => self.disk_answers(replica, action),
            Event::TearsTable { replica, action } => self.tear_table(replica, action),
            Event::CallArrives { primary, call, question } => {
                self.call_arrives(primary, call, &question);
            }
            Event::CallAnswered { primary, call, answer } => {
                self.call_answered(primary, call, answer);
            }
            Event::Attach => self.attach_if_wanted(),
            Event::Reattach { primary } => self.reattach(primary),
            Event::CopyAttaches { machine, identity } => self.copy_attaches(machine, identity),
            Event::Trouble(trouble) => self.trouble(trouble),
            Event::Assemble => self.assemble_planned(),
            Event::NodeStarts { node, starts } => self.node_starts(node, starts),
            Event::ReplicaStarts { replica, starts } => self.replica_starts(replica, starts),
            Event::Fault => self.inject(),
            Event::PartitionEnds { from, to } => self.partition_ends(from, to),
            Event::OperatorReturns { replica } => self.command_somewhere(Command::ReAdd(replica)),
        }
    }

    /// An invariant is broken. The first one counts.
    fn fail(&mut self, oracle: &'static str, text: impl Into<String>) {
        self.judge(Err(Violation::new(oracle, text)));
    }

    fn judge(&mut self, verdict: Result<(), Violation>) {
        let counts = |violation: &Violation| self.only.is_none_or(|only| violation.oracle == only);
        if let Err(violation) = verdict
            && counts(&violation)
            && self.violation.is_none()
        {
            self.log(|| format!("!! {}: {}", violation.oracle, violation.text));
            self.violation = Some(violation);
        }
    }

    fn log(&mut self, text: impl FnOnce() -> String) {
        self.log_at(Level::Main, text);
    }

    /// By which messages it happens.
    fn log_detail(&mut self, text: impl FnOnce() -> String) {
        self.log_at(Level::Detail, text);
    }

    fn log_at(&mut self, level: Level, text: impl FnOnce() -> String) {
        if self.log.wants(level) {
            let text = text();
            self.log.line(self.now, &text);
        }
    }

    fn tick_moment(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }
}

//! Nodes: what they ask for, again if they must, and what they do with the answers.

use std::collections::BTreeMap;

use evenkeel_coordinator::store::{Key, Space};
use evenkeel_coordinator::{
    Answer, Caller, Fate, FoundReplica, Lineage, LostCopy, Maker, NoData, NodeRecord,
    PlacedReplica, Registration, Request, Shown, Standing, StartId, StoredVolume, ViewText,
    VolumeRecord, WantedOn, Wish,
};
use evenkeel_core::view::{Newcomer, Role};
use evenkeel_core::{
    CoordinatorId, Geometry, History as Line, Incarnation, MirrorView, NodeId, PrimaryId,
    PrimaryRecord, ReplicaId, ReplicaRecord, ReplicaState, View, VolumeId,
};

use crate::cluster::{Answered, Cluster};
use crate::oracles::Violation;
use crate::store::Sabotage;

const NODES: usize = 4;
const NAMES: [&str; 8] = ["web", "mail", "shop", "wiki", "db", "logs", "git", "chat"];
/// Questions of a node at a time.
const MAX_JOBS: usize = 4;

/// The name of an answer, for what is counted.
pub const fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Done => "answer: done",
        Answer::Registered { .. } => "answer: registered",
        Answer::Heard { .. } => "answer: heard",
        Answer::Waits { .. } => "answer: waits",
        Answer::Copy { .. } => "answer: copy",
        Answer::Superseded { .. } => "answer: superseded",
        Answer::NotRegistered => "answer: not registered",
        Answer::NodeRemoved { .. } => "answer: node removed",
        Answer::ClusterFull { .. } => "answer: cluster full",
        Answer::NodeInUse { .. } => "answer: node in use",
        Answer::Newest(_) => "answer: newest",
        Answer::Changed(_) => "answer: changed",
        Answer::WasDeleted(_) => "answer: was deleted",
        Answer::UsedOn { .. } => "answer: used on",
        Answer::NoVolume => "answer: no volume",
        Answer::NameInUse => "answer: name in use",
        Answer::NotExpired { .. } => "answer: not expired",
        Answer::GivenUp => "answer: given up",
        Answer::PlacedAlready { .. } => "answer: placed already",
        Answer::Fates(_) => "answer: fates",
        _ => "answer: a list",
    }
}

/// What a node waits for.
struct Job {
    request: Request,
    command: u64,
    /// When it asks again, if it hears nothing.
    again_at: u64,
    tries: u32,
}

/// A process that speaks for a node. Two may speak for one: a copy of a machine.
struct Process {
    node: NodeId,
    name: String,
    start: StartId,
    lineage: Lineage,
    /// An operator has said that it counts, should it be a copy.
    is_chosen: bool,
    runs: bool,
    registered: bool,
    next_beat: u64,
    /// Nobody hears it until then.
    cut_off_until: u64,
    jobs: BTreeMap<usize, Job>,
}

impl Process {
    fn caller(&self) -> Caller {
        let (name, at) = (self.name.clone(), format!("{:?}", self.start));
        Caller { node: self.node, name, start: Some(self.start), at }
    }

    fn maker(&self) -> Maker {
        Maker { node: self.node.to_string(), incarnation: self.start.incarnation.0 }
    }
}

/// All nodes, and the coordinators that they ask.
pub struct World {
    pub cluster: Cluster,
    processes: Vec<Process>,
    next_number: u128,
    next_asker: usize,
    /// Volumes that were ever thought of.
    volumes: Vec<VolumeId>,
    /// What was ever seen of each: old knowledge to act on.
    seen: BTreeMap<VolumeId, Vec<StoredVolume>>,
    /// The newest view on the disk of each replica, by its identity.
    disks: BTreeMap<String, View>,
    /// The node that was to be removed last: what is placed there meanwhile?
    leaving: Option<NodeId>,
    /// The view that the next question is decided upon.
    deciding: Option<Vec<u8>>,
    pub answered: u64,
}

impl World {
    pub fn new(cluster: Cluster) -> Self {
        let mut world = Self {
            cluster,
            processes: Vec::new(),
            next_number: 100,
            next_asker: 0,
            volumes: Vec::new(),
            seen: BTreeMap::new(),
            disks: BTreeMap::new(),
            leaving: None,
            deciding: None,
            answered: 0,
        };
        for number in 0..NODES {
            world.boot(NodeId(number as u128 + 1), format!("n{number}"), Lineage::default());
        }
        world
    }

    fn number(&mut self) -> u128 {
        self.next_number += 1;
        self.next_number
    }

    fn boot(&mut self, node: NodeId, name: String, lineage: Lineage) {
        let number = self.number() as u64;
        let start = StartId { counter: number, incarnation: Incarnation(number) };
        let is_chosen = self.cluster.random.chance(300);
        self.processes.push(Process {
            node,
            name,
            start,
            lineage,
            is_chosen,
            runs: true,
            registered: false,
            next_beat: 0,
            cut_off_until: 0,
            jobs: BTreeMap::new(),
        });
    }

    /// One thing happens.
    pub fn step(&mut self) -> Result<(), Violation> {
        match self.cluster.random.below(1000) {
            0..=699 => {
                for _ in 0..1 + self.cluster.random.below(8) {
                    if let Some(answered) = self.cluster.step()? {
                        self.answered += 1;
                        self.take(answered)?;
                    }
                }
            }
            700..=819 => self.pass(),
            820..=839 => self.cluster.deliver()?,
            840..=988 => self.act(),
            989 if self.cluster.random.chance(500) => self.cluster.back_up(),
            989 => self.cluster.put_back(),
            990 => self.cluster.restart_one(),
            991 => self.cluster.freeze_one(),
            992..=996 => self.end_one(),
            _ => self.cut_off_one(),
        }
        Ok(())
    }

    fn pass(&mut self) {
        let milliseconds = match self.cluster.random.below(100) {
            0..=89 => self.cluster.random.below(120),
            90..=98 => self.cluster.random.below(1000),
            _ => self.cluster.random.below(7000),
        };
        self.cluster.pass(milliseconds);
        self.ask_what_is_due();
    }

    fn ask_what_is_due(&mut self) {
        let now = self.cluster.now;
        for which in 0..self.processes.len() {
            let process = &mut self.processes[which];
            if !process.runs || process.cut_off_until > now {
                continue;
            }
            if process.next_beat <= now {
                process.next_beat = now + 1000;
                let request = if process.registered {
                    Request::Heartbeat { node: process.node.to_string() }
                } else {
                    Request::Register(self.registration(which))
                };
                self.ask(which, request);
            }
            let due: Vec<usize> = self.processes[which]
                .jobs
                .iter()
                .filter(|(_, job)| job.again_at <= now)
                .map(|(asker, _)| *asker)
                .collect();
            due.into_iter().for_each(|asker| self.again(which, asker));
        }
    }

    fn registration(&self, which: usize) -> Registration {
        let process = &self.processes[which];
        let node = NodeRecord {
            id: process.node.to_string(),
            name: process.name.clone(),
            addresses: vec!["x".into()],
            software: "0".into(),
            incarnation: process.start.incarnation.0,
            counter: process.start.counter,
        };
        Registration { node, lineage: process.lineage.clone(), is_chosen: process.is_chosen }
    }

    fn ask(&mut self, which: usize, request: Request) {
        let asker = self.next_asker;
        self.next_asker += 1;
        let again_at = self.cluster.now + 1500;
        let caller = self.processes[which].caller();
        let command = asker as u64;
        let view = self.deciding.take();
        self.cluster.oracles.overtaken.asked(command, &request, view);
        self.cluster.ask(asker, (&caller, command), &request);
        self.processes[which].jobs.insert(asker, Job { request, command, again_at, tries: 0 });
    }

    /// Asks the same again, whatever has become of it. Somebody may be at it still.
    fn again(&mut self, which: usize, asker: usize) {
        let Some(mut job) = self.processes[which].jobs.remove(&asker) else { return };
        let most = match job.request {
            Request::Heartbeat { .. } | Request::Register(_) => 0,
            Request::Place { .. } => 1,
            _ => 12,
        };
        let is_asked = self.cluster.is_running(asker);
        if is_asked {
            self.cluster.count("asked elsewhere while somebody is at it");
        }
        self.cluster.abandon(asker);
        if job.tries >= most {
            self.cluster.oracles.overtaken.over(job.command, None);
            if let Request::Place { volume, replica, .. } = job.request {
                self.ask(which, Request::Forget { volume, replica: replica.id });
            }
            return;
        }
        job.tries += 1;
        job.again_at = self.cluster.now + 1500;
        let (asker, caller) = (self.next_asker, self.processes[which].caller());
        self.next_asker += 1;
        self.cluster.ask(asker, (&caller, job.command), &job.request);
        self.processes[which].jobs.insert(asker, job);
    }

    fn take(&mut self, answered: Answered) -> Result<(), Violation> {
        let Answered { asker, request, answer } = answered;
        let has = |process: &Process| process.jobs.contains_key(&asker);
        let Some(which) = self.processes.iter().position(has) else { return Ok(()) };
        match answer {
            Ok(answer) => {
                if let Some(job) = self.processes[which].jobs.remove(&asker) {
                    self.cluster.oracles.overtaken.over(job.command, Some(&answer));
                }
                self.follow_on_disks(&request, &answer)?;
                self.go_on(which, request, answer);
            }
            Err(_) => self.again(which, asker),
        }
        Ok(())
    }

    /// What becomes of the disks: replicas adopt what is committed, and are deleted.
    fn follow_on_disks(&mut self, request: &Request, answer: &Answer) -> Result<(), Violation> {
        match (request, answer) {
            (Request::Swap { view, .. }, Answer::Done) => {
                self.adopt(&view.decode().expect("sent"));
            }
            (Request::Assemble { volume, .. }, Answer::Done) => {
                self.adopt(&volume.view.decode().expect("sent"));
            }
            (Request::Discard { replica, .. }, Answer::Done) => {
                if let Some(view) = self.disks.remove(&replica.replica) {
                    self.cluster.oracles.discarded(&replica.replica, &view)?;
                }
            }
            (Request::Discard { .. }, Answer::Fates(fates)) if fates == &[Fate::Unknown] => {
                self.cluster.count("kept: its disk knows more");
            }
            _ => {}
        }
        Ok(())
    }

    fn adopt(&mut self, next: &View) {
        for (_, replica) in next.replicas() {
            let Some(view) = self.disks.get_mut(&replica.id.to_string()) else { continue };
            let is_newer = !next.is_of_epoch(view) || next.generation > view.generation;
            if is_newer && next.continues(view) {
                view.clone_from(next);
            }
        }
    }

    /// What a node does with an answer.
    fn go_on(&mut self, which: usize, request: Request, answer: Answer) {
        let now = self.cluster.now;
        match (request, answer) {
            (Request::Register(_), Answer::Registered { .. }) => {
                self.processes[which].registered = true;
            }
            (_, Answer::Superseded { .. } | Answer::NodeRemoved { .. }) => {
                self.processes[which].runs = false;
            }
            (_, Answer::NotRegistered) => self.processes[which].registered = false,
            // Somebody looks after it: it ends.
            (Request::Register(_), Answer::Copy { .. } | Answer::NameInUse)
                if self.cluster.random.chance(300) =>
            {
                self.processes[which].runs = false;
            }
            (Request::Register(_), _) => self.processes[which].next_beat = now + 500,
            (Request::Draft { volume, .. }, Answer::Done) => {
                let request = if self.cluster.random.chance(850) {
                    let volume = self.new_volume(which, &volume);
                    let made = volume.record.replicas[0].id.clone();
                    self.disks.insert(made, volume.view.decode().expect("ours"));
                    Request::Create(Box::new(volume))
                } else {
                    Request::GiveUp { volume }
                };
                self.ask(which, request);
            }
            (Request::Create(volume), Answer::NameInUse) => {
                self.ask(which, Request::GiveUp { volume: volume.record.id });
            }
            (Request::Place { volume, replica, .. }, Answer::Done) => {
                self.after_placing(which, volume, &replica);
            }
            (Request::Fates(found), Answer::Fates(fates)) => {
                for (replica, fate) in found.into_iter().zip(fates) {
                    let Some(view) = self.disks.get(&replica.replica) else { continue };
                    if matches!(fate, Fate::Deleted | Fate::NeverMade) {
                        let view = Some(ViewText::encode(view).expect("it was stored"));
                        let by = self.processes[which].maker();
                        self.ask(which, Request::Discard { by, replica, view });
                    }
                }
            }
            // Deleting takes a while; now and then it never ends.
            (Request::Discard { replica, .. }, Answer::Done) if self.cluster.random.chance(500) => {
                self.ask(which, Request::Discarded(replica));
            }
            _ => {}
        }
    }

    fn after_placing(&mut self, which: usize, volume: String, replica: &PlacedReplica) {
        let Some(stored) = self.look(volume.parse().expect("ours")) else { return };
        let view = stored.view.decode().expect("stored");
        let mut next = view.successor();
        self.disks.insert(replica.id.clone(), view.clone());
        let new = Newcomer {
            id: replica.id.parse().expect("ours"),
            node: replica.node.parse().expect("ours"),
            mirror: 0,
            role: Role::Own,
        };
        if self.cluster.random.chance(150) || next.add(new).is_err() {
            self.ask(which, Request::Forget { volume, replica: replica.id.clone() });
            return;
        }
        self.swap(which, &view, &next);
    }

    /// What is stored of a volume now. All that is seen may be acted on later.
    fn look(&mut self, volume: VolumeId) -> Option<StoredVolume> {
        let values = self.cluster.store.values();
        let get = |space| values.get(&Key::new(space, &volume.to_string()));
        let (record, view) = (get(Space::Volumes)?, get(Space::Views)?);
        let record: VolumeRecord = serde_json::from_slice(&record.value).ok()?;
        let view = evenkeel_format::decode_view(&view.value).ok()?;
        let stored = StoredVolume { record, view: ViewText::encode(&view).ok()? };
        let seen = self.seen.entry(volume).or_default();
        if seen.last() != Some(&stored) {
            seen.push(stored.clone());
        }
        Some(stored)
    }

    /// What somebody knows of a volume: mostly how it is, sometimes how it was.
    fn known(&mut self, volume: VolumeId) -> Option<StoredVolume> {
        let now = self.look(volume);
        if now.is_some() && self.cluster.random.chance(800) {
            return now;
        }
        let seen = self.seen.get(&volume)?;
        // What was told of this number before an older store was put back.
        let siblings: Vec<&StoredVolume> = seen
            .iter()
            .filter(|seen| now.as_ref().is_some_and(|now| is_sibling(seen, now)))
            .collect();
        if self.cluster.random.chance(500)
            && let Some(sibling) = self.cluster.random.pick(&siblings)
        {
            return Some((*sibling).clone());
        }
        self.cluster.random.pick(seen).cloned()
    }

    /// Asks for the next view, made of one that was stored once.
    fn swap(&mut self, which: usize, made_of: &View, next: &View) {
        let Ok(view) = ViewText::encode(next) else { return };
        self.cluster.oracles.made(next, made_of);
        let names_parent = self.cluster.sabotage != Sabotage::Parent;
        let replaces = names_parent.then(|| ViewText::encode(made_of).expect("it was stored"));
        let node = self.processes[which].node.to_string();
        let wish = Some(Wish::AsBefore);
        self.ask(which, Request::Swap { node, view, replaces, in_passing: false, wish });
    }

    fn new_volume(&mut self, which: usize, id: &str) -> StoredVolume {
        let (replica, node) = (ReplicaId(self.number()), self.some_node(which));
        let view = first_view(id.parse().expect("ours"), replica, node);
        let name = *self.cluster.random.pick(&NAMES).expect("there are some");
        let placed = PlacedReplica {
            id: replica.to_string(),
            mirror: 0,
            node: node.to_string(),
            disk: "d".into(),
            removed: false,
            maker: None,
        };
        let record = VolumeRecord {
            id: id.to_owned(),
            name: name.to_owned(),
            no_data: NoData::Error,
            replicas: vec![placed],
            stopped: false,
            checksums: false,
            used_on: None,
            wanted_on: WantedOn::default(),
            verified: None,
            revision: 0,
            lost: Vec::new(),
        };
        StoredVolume { record, view: ViewText::encode(&view).expect("it is valid") }
    }

    fn some_node(&mut self, which: usize) -> NodeId {
        if let Some(leaving) = self.leaving.filter(|_| self.cluster.random.chance(400)) {
            return leaving;
        }
        let other = self.cluster.random.index(self.processes.len());
        let is_own = self.cluster.random.chance(500);
        self.processes[if is_own { which } else { other }].node
    }

    /// A node asks for something.
    fn act(&mut self) {
        let able: Vec<usize> = (0..self.processes.len())
            .filter(|which| {
                let process = &self.processes[*which];
                process.runs && process.registered && process.jobs.len() < MAX_JOBS
            })
            .collect();
        let Some(which) = self.cluster.random.pick(&able).copied() else { return };
        let volume = self.cluster.random.pick(&self.volumes).copied();
        match (self.cluster.random.below(100), volume) {
            (0..=11, _) | (_, None) => self.begin_draft(which),
            (12..=36, Some(volume)) => self.change_primaries(which, volume),
            (37..=48, Some(volume)) => self.begin_place(which, volume),
            (49..=54, Some(volume)) => self.take_replica_out(which, volume),
            (55..=66, Some(volume)) => self.ask_fates(which, volume),
            (67..=75, Some(volume)) => self.delete(which, volume),
            (76..=84, Some(volume)) => self.assemble(which, volume),
            (85..=89, Some(volume)) => {
                let name = self.cluster.random.pick(&NAMES).expect("some").to_string();
                let (revision, volume) = (self.revision(volume), volume.to_string());
                self.ask(which, Request::RenameVolume { volume, name, revision });
            }
            (90..=92, Some(volume)) => {
                let stopped = self.cluster.random.chance(400);
                let (revision, volume) = (self.revision(volume), volume.to_string());
                self.ask(which, Request::Stop { volume, stopped, revision });
            }
            (93, Some(volume)) => self.lose(which, volume),
            (94, Some(volume)) => {
                let verdict = serde_json::json!({ "checked": self.cluster.random.below(3) });
                let (revision, volume) = (self.revision(volume), volume.to_string());
                self.ask(which, Request::Verified { volume, verdict, revision });
            }
            (95..=96, Some(_)) => {
                let last = self.processes.last().expect("there are some").node;
                let is_last = self.cluster.random.chance(500);
                let node = if is_last { last } else { self.some_node(which) };
                self.leaving = Some(node);
                let incarnation = self.present(node);
                self.ask(which, Request::RemoveNode { node: node.to_string(), incarnation });
            }
            (97, Some(volume)) => {
                self.ask(which, Request::GiveUp { volume: volume.to_string() });
            }
            (98, Some(volume)) => self.want(which, volume),
            _ => self.ask_lists(which),
        }
    }

    /// A copy of a volume is lost, or none is missed any more.
    fn lose(&mut self, which: usize, volume: VolumeId) {
        let number = self.cluster.random.below(3);
        let id = ReplicaId(number.into()).to_string();
        let copy = LostCopy { id, mirror: 0, node: format!("n{number}"), at: 1 };
        let lost = if self.cluster.random.chance(500) { vec![copy] } else { Vec::new() };
        let (revision, volume) = (self.revision(volume), volume.to_string());
        self.ask(which, Request::Lost { volume, lost, revision });
    }

    /// The revision of a record that somebody knows. One that was never seen has none.
    fn revision(&mut self, volume: VolumeId) -> Option<u64> {
        let known = self.known(volume).map_or(0, |known| known.record.revision);
        Some(known).filter(|_| self.cluster.sabotage != Sabotage::Revision)
    }

    /// The incarnation of a node's present start.
    fn present(&self, node: NodeId) -> Option<u64> {
        let values = self.cluster.store.values();
        let stored = values.get(&Key::new(Space::Nodes, &node.to_string()))?;
        serde_json::from_slice(&stored.value).ok().map(|node: NodeRecord| node.incarnation)
    }

    fn want(&mut self, which: usize, volume: VolumeId) {
        let device = self.cluster.random.chance(500);
        let shown = self.cluster.random.chance(500).then_some(Shown { device, ..Shown::default() });
        let node = self.processes[which].node.to_string();
        let (revision, volume) = (self.revision(volume), volume.to_string());
        self.ask(which, Request::Want { volume, node, shown, revision });
    }

    fn begin_draft(&mut self, which: usize) {
        // Now and then one that was given up, or has become a volume.
        let old = self.cluster.random.pick(&self.volumes).copied();
        let is_old = self.cluster.random.chance(100);
        let volume = match old.filter(|_| is_old) {
            Some(old) => old,
            None => VolumeId(self.number()),
        };
        if !self.volumes.contains(&volume) {
            self.volumes.push(volume);
        }
        // Old ones are forgotten: what is known stays small.
        if self.volumes.len() > 10 {
            self.volumes.remove(0);
        }
        let Maker { node, incarnation } = self.processes[which].maker();
        self.ask(which, Request::Draft { node, incarnation, volume: volume.to_string() });
    }

    /// Attaches or detaches, or takes over from whoever has it.
    fn change_primaries(&mut self, which: usize, volume: VolumeId) {
        let Some(stored) = self.known(volume) else { return };
        let view = stored.view.decode().expect("stored");
        let mut next = view.successor();
        let process = &self.processes[which];
        let id = PrimaryId { node: process.node, incarnation: process.start.incarnation };
        let detaches = next.has_primary(id);
        next.primaries.clear();
        if !detaches {
            next.primaries.push(PrimaryRecord { id, slot: 0 });
        }
        self.swap(which, &view, &next);
    }

    fn begin_place(&mut self, which: usize, volume: VolumeId) {
        let (id, node) = (ReplicaId(self.number()), self.some_node(which));
        let disk = format!("d{}", self.cluster.random.below(3));
        let maker = Some(self.processes[which].maker());
        let replica = PlacedReplica {
            id: id.to_string(),
            mirror: 0,
            node: node.to_string(),
            disk,
            removed: false,
            maker,
        };
        let alone = self.cluster.random.chance(300);
        let (revision, volume) = (self.revision(volume), volume.to_string());
        self.ask(which, Request::Place { volume, replica, same_disk: false, alone, revision });
    }

    fn take_replica_out(&mut self, which: usize, volume: VolumeId) {
        let Some(stored) = self.known(volume) else { return };
        let view = stored.view.decode().expect("stored");
        let mut next = view.successor();
        let replicas = &mut next.mirrors[0].replicas;
        if replicas.len() > 1 {
            let out = self.cluster.random.index(replicas.len());
            replicas.remove(out);
            replicas[0].state = ReplicaState::InSync;
        }
        self.swap(which, &view, &next);
    }

    fn ask_fates(&mut self, which: usize, volume: VolumeId) {
        let Some(seen) = self.seen.get(&volume) else { return };
        let found: Vec<_> = seen
            .iter()
            .flat_map(|stored| &stored.record.replicas)
            .map(|placed| FoundReplica { volume: volume.to_string(), replica: placed.id.clone() })
            .collect();
        let skip = self.cluster.random.index(found.len().max(1));
        self.ask(which, Request::Fates(found.into_iter().skip(skip).take(2).collect()));
    }

    fn delete(&mut self, which: usize, volume: VolumeId) {
        let Some(stored) = self.known(volume) else { return };
        let decoded = stored.view.decode().expect("stored");
        let (node, force) =
            (self.processes[which].node.to_string(), self.cluster.random.chance(500));
        self.deciding = evenkeel_format::encode_view(&decoded).ok();
        let (volume, generation) = (volume.to_string(), decoded.generation.0);
        let view = (self.cluster.sabotage != Sabotage::Parent).then_some(stored.view);
        let revision = Some(stored.record.revision);
        let revision = revision.filter(|_| self.cluster.sabotage != Sabotage::Revision);
        self.ask(which, Request::Delete { node, volume, generation, view, revision, force });
    }

    /// Puts a volume together from what was found on disks, as it was then.
    fn assemble(&mut self, which: usize, volume: VolumeId) {
        let Some(stored) = self.known(volume) else { return };
        let view = stored.view.decode().expect("stored");
        let history = Line(self.number());
        let mut next = view.next_epoch(CoordinatorId(9), history, 1);
        next.primaries.clear();
        let mut record = stored.record.clone();
        let held: Vec<_> = next.replicas().map(|(_, replica)| replica.id.to_string()).collect();
        record.replicas.retain(|placed| held.contains(&placed.id));
        for placed in &mut record.replicas {
            (placed.removed, placed.maker) = (false, None);
        }
        let replaces = self.look(volume).is_some().then_some(view.generation.0);
        let is_old = self.cluster.sabotage == Sabotage::Parent;
        let stands = match (replaces, self.last_view(volume)) {
            (Some(_), _) => Standing::Volume(stored.view.clone()),
            (None, Some(last)) => Standing::Deleted(last),
            (None, None) => Standing::Nothing,
        };
        let stands = Some(stands).filter(|_| !is_old);
        self.cluster.oracles.made(&next, &view);
        let Ok(view) = ViewText::encode(&next) else { return };
        let volume = Box::new(StoredVolume { record, view });
        let node = self.processes[which].node.to_string();
        self.ask(which, Request::Assemble { volume, replaces, stands, node });
    }

    /// The last view of a volume that was deleted.
    fn last_view(&self, volume: VolumeId) -> Option<ViewText> {
        let values = self.cluster.store.values();
        let stored = values.get(&Key::new(Space::Deleted, &volume.to_string()))?;
        ViewText::encode(&evenkeel_format::decode_view(&stored.value).ok()?).ok()
    }

    fn ask_lists(&mut self, which: usize) {
        let lists = [Request::Nodes, Request::Volumes, Request::RemovedNodes, Request::Membership];
        let request = self.cluster.random.pick(&lists).expect("some").clone();
        self.ask(which, request);
    }

    /// A process ends. Mostly another one starts in its place, sometimes under a name that others
    /// want, too; or a copy starts beside it; or the node is gone, and another one joins by its
    /// name.
    fn end_one(&mut self) {
        let which = self.cluster.random.index(self.processes.len());
        let process = &mut self.processes[which];
        if !process.runs {
            let (node, name) = (NodeId(self.next_number + 1), process.name.clone());
            self.next_number += 1;
            self.processes.swap_remove(which);
            let is_new = !self.processes.iter().any(|other| other.name == name);
            if is_new {
                self.boot(node, name, Lineage::default());
            }
            return;
        }
        let (node, name) = (process.node, process.name.clone());
        let mut before = process.lineage.before.clone();
        before.insert(0, process.start.incarnation.0);
        let kind = self.cluster.random.below(10);
        if kind == 0 && self.processes.len() < NODES + 2 {
            self.cluster.count("copies of machines");
            self.boot(node, name, Lineage { before, before_ended: false });
            return;
        }
        if kind == 1 && self.processes.len() < NODES + 3 {
            let (node, name) = (NodeId(self.number()), self.cluster.random.below(3));
            self.boot(node, format!("x{name}"), Lineage::default());
            return;
        }
        if kind < 4 {
            let incarnation = self.processes[which].start.incarnation.0;
            self.ask(which, Request::Goodbye { node: node.to_string(), incarnation });
        }
        let gone = self.processes.swap_remove(which);
        for (asker, job) in &gone.jobs {
            self.cluster.abandon(*asker);
            self.cluster.oracles.overtaken.over(job.command, None);
        }
        let before_ended = self.cluster.random.chance(600);
        let other = self.cluster.random.chance(200);
        let name = if other { format!("x{}", self.cluster.random.below(3)) } else { name };
        self.boot(node, name, Lineage { before, before_ended });
    }

    fn cut_off_one(&mut self) {
        let which = self.cluster.random.index(self.processes.len());
        let until = self.cluster.now + self.cluster.random.below(15_000);
        self.processes[which].cut_off_until = until;
        self.cluster.count("nodes cut off");
    }
}

/// Whether two views have one number, and are of two branches.
fn is_sibling(one: &StoredVolume, other: &StoredVolume) -> bool {
    let [one, other] = [one, other].map(|stored| stored.view.decode().expect("stored"));
    one != other && one.is_of_epoch(&other) && one.generation == other.generation
}

fn first_view(volume: VolumeId, replica: ReplicaId, node: NodeId) -> View {
    let record = ReplicaRecord::first(replica, node);
    View::first(
        volume,
        Line(7),
        CoordinatorId(9),
        Geometry { size: 1 << 20, block_size: 4096, chunk: 65536 },
        vec![MirrorView { replicas: vec![record] }],
    )
}

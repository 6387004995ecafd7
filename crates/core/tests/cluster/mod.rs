//! A cluster in memory for scenario tests: links are FIFO and instant, disks do at once what they
//! are told, time moves when a test says so. The simulator is where time and faults are hostile;
//! here a scenario is a story that a person reads.

// The crate's own unit tests use a part of it.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use evenkeel_core::message::RebuildProgress;
use evenkeel_core::primary::{
    Command, CommandError, CoordinatorAnswer, Earlier, EndReason, Note, PresentWait, PrimaryConfig,
    VerifyStatus,
};
use evenkeel_core::replica::Unverified;
use evenkeel_core::*;

pub use crate::harness::Bytes;
use crate::harness::Saved;

struct Host {
    replica: Replica<Bytes>,
    disk: HostDisk,
    incarnations: u64,
    boot: u128,
    up: bool,
}

/// What lasts from one incarnation to the next.
#[derive(Clone)]
pub struct HostDisk {
    data: Vec<u8>,
    saved: Saved,
}

/// Who is at the ends of a link: a primary or a rebuilding replica, and the replica it reached.
#[derive(Clone, Copy, PartialEq)]
enum Near {
    Primary(usize),
    Copier(ReplicaId),
}

enum Event {
    Primary(usize, PrimaryEvent<Bytes>),
    Replica(ReplicaId, ReplicaEvent<Bytes>),
}

/// The cluster.
pub struct Cluster {
    pub now: Instant,
    hosts: BTreeMap<ReplicaId, Host>,
    primaries: Vec<Primary<Bytes>>,
    links: BTreeMap<LinkId, (Near, ReplicaId)>,
    queue: VecDeque<Event>,
    last: u64,
    /// Over which clients ask.
    pub path: PathNumber,
    /// The paths of which primaries have said that nothing is under way any more.
    pub drained: Vec<PathNumber>,
    /// The coordinator's newest view.
    pub newest: View,
    pub coordinator_answers: bool,
    /// Replicas whose disks do not answer, and what they owe.
    pub frozen: BTreeSet<ReplicaId>,
    /// Replicas whose disks do not answer reads and writes of data, but all else.
    pub frozen_data: BTreeSet<ReplicaId>,
    owed: Vec<(ReplicaId, ReplicaEvent<Bytes>)>,
    /// Replicas whose disks fail every write.
    pub failing: BTreeSet<ReplicaId>,
    /// Replicas whose disks fail to flush.
    pub failing_flushes: BTreeSet<ReplicaId>,
    /// Replicas whose disks fail to save a view.
    pub failing_saves: BTreeSet<ReplicaId>,
    /// Disks that fail the flush before a save of a table.
    pub failing_commits: BTreeSet<ReplicaId>,
    /// Bytes of disks that can't be read until they are written.
    pub unreadable: BTreeSet<(ReplicaId, u64)>,
    /// Bytes that contradict their checksums on a replica's disk, until they are written again.
    pub damaged: BTreeSet<(ReplicaId, u64)>,
    /// Blocks whose checksums a replica's disk has lost, until they are written.
    pub forgotten: BTreeSet<(ReplicaId, u64)>,
    /// Answers of replicas to comparisons.
    pub digests: u64,
    /// Primaries whose messages are lost, in both directions.
    pub cut_off: BTreeSet<usize>,
    /// Replicas to which no connection can be made.
    pub unreachable: BTreeSet<ReplicaId>,
    pub replies: BTreeMap<RequestId, Result<Reply<Bytes>, RequestError>>,
    pub commands: BTreeMap<CommandId, Result<(), CommandError>>,
    pub ended: BTreeMap<usize, EndReason>,
    pub notes: Vec<Note>,
}

pub const SIZE: u64 = 8 << 20;

/// Replica number `r` of mirror `m`; it lives on node `r`.
/// The host for which the client of a primary asks.
pub fn host(primary: usize) -> HostId {
    HostId(primary as u128 + 1)
}

pub fn replica(m: usize, r: usize) -> ReplicaId {
    ReplicaId((m * 16 + r) as u128)
}

fn first_view(mirrors: usize, replicas: usize, protocol: Protocol) -> View {
    let record = |m, r| ReplicaRecord::first(replica(m, r), NodeId(r as u128));
    let mirror = |m| MirrorView { replicas: (0..replicas).map(|r| record(m, r)).collect() };
    View {
        protocol,
        ..View::first(
            VolumeId(1),
            History(1),
            CoordinatorId(1),
            Geometry { size: SIZE, block_size: 512, chunk: 65536 },
            (0..mirrors).map(mirror).collect(),
        )
    }
}

impl Cluster {
    pub fn new(mirrors: usize, replicas: usize, protocol: Protocol) -> Self {
        let newest = first_view(mirrors, replicas, protocol);
        let mut cluster = Self {
            now: Instant(1_000_000_000),
            hosts: BTreeMap::new(),
            primaries: Vec::new(),
            links: BTreeMap::new(),
            queue: VecDeque::new(),
            last: 100,
            path: PathNumber(1),
            drained: Vec::new(),
            coordinator_answers: true,
            frozen: BTreeSet::new(),
            frozen_data: BTreeSet::new(),
            owed: Vec::new(),
            failing: BTreeSet::new(),
            failing_flushes: BTreeSet::new(),
            failing_saves: BTreeSet::new(),
            failing_commits: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            damaged: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            digests: 0,
            cut_off: BTreeSet::new(),
            unreachable: BTreeSet::new(),
            replies: BTreeMap::new(),
            commands: BTreeMap::new(),
            ended: BTreeMap::new(),
            notes: Vec::new(),
            newest: newest.clone(),
        };
        for (_, record) in newest.replicas() {
            let disk = HostDisk {
                data: vec![0; newest.replica_size() as usize],
                saved: Saved::new(newest.clone(), Incarnations::default()),
            };
            let host = cluster.host(record.id, disk, 1, 1);
            cluster.hosts.insert(record.id, host);
        }
        cluster
    }

    /// A mirror of three with so many slots, attached on so many nodes at once.
    pub fn shared(slots: u8, primaries: usize) -> Self {
        let mut cluster = Self::new(1, 3, Protocol::C);
        cluster.newest.intents.slots = slots;
        for node in 0..primaries {
            cluster.attach(node as u128);
        }
        cluster.pass(Duration::from_secs(30));
        assert_eq!(cluster.newest.primaries.len(), primaries);
        cluster
    }

    fn host(&self, id: ReplicaId, disk: HostDisk, incarnations: u64, boot: u128) -> Host {
        let config = disk.saved.config(id, Incarnation(incarnations), BootId(boot));
        Host { replica: Replica::new(config, self.now), disk, incarnations, boot, up: true }
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Attaches the volume on a node, where nothing of before runs; returns the primary's number.
    pub fn attach(&mut self, node: u128) -> usize {
        self.attach_after(node, Earlier::Ended)
    }

    /// Attaches it where an earlier primary may run.
    pub fn attach_after(&mut self, node: u128, earlier: Earlier) -> usize {
        let incarnation = Incarnation(self.number());
        let id = PrimaryId { node: NodeId(node), incarnation };
        let config =
            PrimaryConfig { id, volume: VolumeId(1), settings: Settings::default(), earlier };
        self.primaries.push(Primary::new(config, self.now));
        let primary = self.primaries.len() - 1;
        self.queue.push_back(Event::Primary(primary, PrimaryEvent::Start));
        self.run();
        primary
    }

    pub fn request(&mut self, primary: usize, operation: Operation<Bytes>) -> RequestId {
        let (request, host, path) = (RequestId(self.number()), host(primary), self.path);
        let event = PrimaryEvent::Request { request, host, path, operation };
        self.queue.push_back(Event::Primary(primary, event));
        self.run();
        request
    }

    /// A client gives a request up.
    pub fn cancel(&mut self, primary: usize, request: RequestId) {
        self.queue.push_back(Event::Primary(primary, PrimaryEvent::Cancel { request }));
        self.run();
    }

    /// A client wants to know when nothing that was asked over a path is under way.
    pub fn drain(&mut self, primary: usize, path: PathNumber) {
        self.queue.push_back(Event::Primary(primary, PrimaryEvent::Drain { path }));
        self.run();
    }

    pub fn write(&mut self, primary: usize, offset: u64, value: u8, length: usize) -> RequestId {
        let payload = Bytes::of(value, length);
        self.request(primary, Operation::Write { offset, payload, durable: false })
    }

    /// Writes `value` if there is nothing but `expected`.
    pub fn compare_and_write(
        &mut self,
        primary: usize,
        offset: u64,
        (expected, value): (u8, u8),
        length: usize,
    ) -> RequestId {
        let (expected, payload) = (Bytes::of(expected, length), Bytes::of(value, length));
        let durable = false;
        self.request(primary, Operation::CompareAndWrite { offset, expected, payload, durable })
    }

    /// Reads, and returns the bytes if that succeeded at once.
    pub fn read(&mut self, primary: usize, offset: u64, length: u32) -> Option<Vec<u8>> {
        let request = self.request(primary, Operation::Read { offset, length });
        match self.replies.get(&request) {
            Some(Ok(Reply::Data(pieces))) => Some(
                pieces.iter().flat_map(|(_, bytes)| bytes.as_slice().iter().copied()).collect(),
            ),
            _ => None,
        }
    }

    pub fn is_acknowledged(&self, request: RequestId) -> bool {
        matches!(self.replies.get(&request), Some(Ok(_)))
    }

    pub fn command(&mut self, primary: usize, command: Command) -> CommandId {
        let id = CommandId(self.number());
        self.queue.push_back(Event::Primary(primary, PrimaryEvent::Command { id, command }));
        self.run();
        id
    }

    /// A primary, to be looked into.
    pub fn primary(&mut self, primary: usize) -> &mut Primary<Bytes> {
        &mut self.primaries[primary]
    }

    /// A replica, to be looked into.
    pub fn replica(&mut self, id: ReplicaId) -> &mut Replica<Bytes> {
        &mut self.hosts.get_mut(&id).unwrap().replica
    }

    /// What the coordinator's newest view says of a replica.
    pub fn state(&self, id: ReplicaId) -> ReplicaState {
        self.newest.replica(id).unwrap().1.state
    }

    /// Bytes written to a replica's data in its present incarnation.
    pub fn bytes_written(&self, id: ReplicaId) -> u64 {
        self.hosts[&id].replica.status().bytes_written
    }

    pub fn data(&self, id: ReplicaId) -> &[u8] {
        &self.hosts[&id].disk.data
    }

    /// Rot on a disk that it does not notice.
    pub fn corrupt(&mut self, id: ReplicaId, offset: usize) {
        self.hosts.get_mut(&id).unwrap().disk.data[offset] ^= 0x40;
    }

    /// How far this replica's rebuild is, as it tells.
    pub fn progress(&self, id: ReplicaId) -> Option<RebuildProgress> {
        self.hosts[&id].replica.status().rebuild
    }

    /// Ranges that were repaired because a read of them failed.
    pub fn rewritten(&self, primary: usize) -> u64 {
        self.primaries[primary].status(self.now).rewritten
    }

    /// What this primary's requests wait for, and since when.
    pub fn waiting(&self, primary: usize) -> Option<PresentWait> {
        self.primaries[primary].status(self.now).waiting
    }

    /// Whether a primary says of a replica that it answers and may lack acknowledged writes.
    pub fn may_be_out_of_sync(&self, primary: usize, id: ReplicaId) -> bool {
        let status = self.primaries[primary].status(self.now);
        status.replicas.iter().any(|peer| peer.replica == id && peer.may_be_out_of_sync)
    }

    /// As what a replica is to leave, if this primary says so.
    pub fn leaving(&self, primary: usize, id: ReplicaId) -> Option<(ReplicaState, view::Cause)> {
        let status = self.primaries[primary].status(self.now);
        status.replicas.iter().find(|peer| peer.replica == id).and_then(|peer| peer.leaving)
    }

    /// The last verify of this primary.
    pub fn verify(&self, primary: usize) -> VerifyStatus {
        self.primaries[primary].status(self.now).verify.expect("a verify")
    }

    /// Whether that verify has compared a replica as it is now.
    pub fn covers(&self, primary: usize, id: ReplicaId) -> bool {
        let record = self.newest.replica(id).unwrap().1;
        self.verify(primary).covered.get(&id).is_some_and(|covered| covered.holds_of(record))
    }

    /// A copy of a replica's disk as it is.
    pub fn copy_of_disk(&self, id: ReplicaId) -> HostDisk {
        self.hosts[&id].disk.clone()
    }

    /// Puts another disk in the place of a replica's, whose process does not run.
    pub fn put_disk(&mut self, id: ReplicaId, disk: HostDisk) {
        self.hosts.get_mut(&id).unwrap().disk = disk;
    }

    /// Ends a replica's process.
    pub fn kill(&mut self, id: ReplicaId) {
        self.hosts.get_mut(&id).unwrap().up = false;
        self.owed.retain(|(owing, _)| *owing != id);
        let cut: Vec<_> = self
            .links
            .iter()
            .filter(|(_, (near, far))| *far == id || *near == Near::Copier(id))
            .map(|(link, _)| *link)
            .collect();
        for link in cut {
            self.cut(link);
        }
        self.run();
    }

    /// Starts it again, perhaps after a boot of its machine.
    pub fn restart(&mut self, id: ReplicaId, rebooted: bool) {
        let host = self.hosts.remove(&id).unwrap();
        let boot = host.boot + u128::from(rebooted);
        let host = self.host(id, host.disk, host.incarnations + 1, boot);
        self.hosts.insert(id, host);
    }

    /// Closes a link; both ends hear of it.
    fn cut(&mut self, link: LinkId) {
        let Some((near, far)) = self.links.remove(&link) else { return };
        self.queue.push_back(Event::Replica(far, ReplicaEvent::LinkClosed { link }));
        match near {
            Near::Primary(primary) => {
                let event = PrimaryEvent::LinkDown { replica: far, link: Some(link) };
                self.queue.push_back(Event::Primary(primary, event));
            }
            Near::Copier(copier) => {
                self.queue.push_back(Event::Replica(copier, ReplicaEvent::LinkClosed { link }));
            }
        }
    }

    /// Closes the primary's links to a replica; they may be made again.
    pub fn cut_links(&mut self, primary: usize, id: ReplicaId) {
        let found: Vec<_> = self
            .links
            .iter()
            .filter(|(_, ends)| **ends == (Near::Primary(primary), id))
            .map(|(link, _)| *link)
            .collect();
        found.into_iter().for_each(|link| self.cut(link));
        self.run();
    }

    /// Lets a frozen replica's disk do what it owes.
    pub fn thaw(&mut self, id: ReplicaId) {
        self.frozen.remove(&id);
        let owed = std::mem::take(&mut self.owed);
        for (owing, event) in owed {
            if owing == id {
                self.queue.push_back(Event::Replica(owing, event));
            } else {
                self.owed.push((owing, event));
            }
        }
        self.run();
    }

    /// Lets time pass.
    pub fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let wakeups = self.primaries.iter().filter_map(Primary::next_wakeup);
            let of_replicas =
                self.hosts.values().filter(|h| h.up).filter_map(|h| h.replica.next_wakeup());
            let Some(next) = wakeups.chain(of_replicas).min().filter(|at| *at <= end) else {
                break;
            };
            assert!(next > self.now || self.queue.is_empty());
            self.now = self.now.max(next);
            for primary in 0..self.primaries.len() {
                self.queue.push_back(Event::Primary(primary, PrimaryEvent::Tick));
            }
            for id in self.hosts.keys() {
                self.queue.push_back(Event::Replica(*id, ReplicaEvent::Tick));
            }
            self.run();
            self.now = self.now + Duration::from_nanos(1);
        }
        self.now = end;
    }

    fn run(&mut self) {
        let mut steps = 0;
        while let Some(event) = self.queue.pop_front() {
            steps += 1;
            assert!(steps < 1_000_000, "the cluster does not come to rest");
            match event {
                Event::Primary(primary, event) => {
                    let mut effects = Vec::new();
                    self.primaries[primary].step(self.now, event, &mut effects);
                    effects.into_iter().for_each(|effect| self.primary_effect(primary, effect));
                }
                Event::Replica(id, event) => {
                    let mut effects = Vec::new();
                    let host = self.hosts.get_mut(&id).unwrap();
                    if host.up {
                        host.replica.step(self.now, event, &mut effects);
                    }
                    effects.into_iter().for_each(|effect| self.replica_effect(id, effect));
                }
            }
        }
    }

    fn primary_effect(&mut self, primary: usize, effect: PrimaryEffect<Bytes>) {
        match effect {
            PrimaryEffect::Reply { request, result } => {
                assert!(self.replies.insert(request, result).is_none(), "answered twice");
            }
            PrimaryEffect::Send { link, message, payload } => {
                if let Some((_, far)) = self.links.get(&link)
                    && !self.cut_off.contains(&primary)
                {
                    let event = ReplicaEvent::Message { link, message, payload };
                    self.queue.push_back(Event::Replica(*far, event));
                }
            }
            PrimaryEffect::Connect { replica, .. } => self.connect(primary, replica),
            PrimaryEffect::Disconnect { link } => {
                if let Some((_, far)) = self.links.remove(&link) {
                    self.queue.push_back(Event::Replica(far, ReplicaEvent::LinkClosed { link }));
                }
            }
            PrimaryEffect::ReadView { call } => {
                let newest = CoordinatorAnswer::Newest(Box::new(self.newest.clone()));
                self.answer(primary, call, newest);
            }
            PrimaryEffect::SwapView { call, view, .. } => {
                if view.parent == self.newest.generation && self.coordinator_answers {
                    assert!(view.is_valid(), "{view:?}");
                    self.newest = *view;
                    return self.answer(primary, call, CoordinatorAnswer::Committed);
                }
                let newest = CoordinatorAnswer::Newest(Box::new(self.newest.clone()));
                self.answer(primary, call, newest);
            }
            PrimaryEffect::Drained { path } => self.drained.push(path),
            PrimaryEffect::CommandDone { id, result } => {
                assert!(self.commands.insert(id, result).is_none(), "answered twice");
            }
            PrimaryEffect::Ended { reason } => {
                assert!(self.ended.insert(primary, reason).is_none(), "ended twice");
            }
            PrimaryEffect::Note(note) => self.notes.push(note),
        }
    }

    fn answer(&mut self, primary: usize, call: CoordinatorCall, answer: CoordinatorAnswer) {
        let reached = self.coordinator_answers && !self.cut_off.contains(&primary);
        let answer = if reached { answer } else { CoordinatorAnswer::Unknown };
        self.queue.push_back(Event::Primary(primary, PrimaryEvent::Coordinator { call, answer }));
    }

    fn connect(&mut self, primary: usize, replica: ReplicaId) {
        let is_reached = !self.cut_off.contains(&primary) && !self.unreachable.contains(&replica);
        let event = if self.hosts[&replica].up && is_reached {
            let link = LinkId(self.number());
            self.links.insert(link, (Near::Primary(primary), replica));
            self.queue
                .push_back(Event::Replica(replica, ReplicaEvent::LinkOpened { link, from: None }));
            PrimaryEvent::LinkUp { replica, link }
        } else {
            PrimaryEvent::LinkDown { replica, link: None }
        };
        self.queue.push_back(Event::Primary(primary, event));
    }

    fn replica_effect(&mut self, id: ReplicaId, effect: ReplicaEffect<Bytes>) {
        match effect {
            ReplicaEffect::Send { link, message, payload } => {
                self.digests += u64::from(matches!(message, Message::Digests { .. }));
                let Some((near, far)) = self.links.get(&link).copied() else { return };
                let event = match near {
                    Near::Primary(primary) if !self.cut_off.contains(&primary) => {
                        Event::Primary(primary, PrimaryEvent::Message { link, message, payload })
                    }
                    Near::Primary(_) => return,
                    Near::Copier(copier) => {
                        let other = if copier == id { far } else { copier };
                        Event::Replica(other, ReplicaEvent::Message { link, message, payload })
                    }
                };
                self.queue.push_back(event);
            }
            ReplicaEffect::Disk { ticket, action } => {
                let is_data = matches!(action, DiskAction::Read { .. } | DiskAction::Write { .. });
                let outcome = self.disk(id, action);
                let event = ReplicaEvent::Disk { ticket, outcome };
                if self.frozen.contains(&id) || is_data && self.frozen_data.contains(&id) {
                    self.owed.push((id, event));
                } else {
                    self.queue.push_back(Event::Replica(id, event));
                }
            }
            ReplicaEffect::ConnectSource { replica, .. } => {
                let link = self.hosts[&replica].up.then(|| LinkId(self.number()));
                if let Some(link) = link {
                    self.links.insert(link, (Near::Copier(id), replica));
                    self.queue.push_back(Event::Replica(
                        replica,
                        ReplicaEvent::LinkOpened { link, from: None },
                    ));
                }
                self.queue
                    .push_back(Event::Replica(id, ReplicaEvent::SourceLink { replica, link }));
            }
            ReplicaEffect::Disconnect { link } => self.cut(link),
        }
    }

    fn disk(
        &mut self,
        id: ReplicaId,
        action: DiskAction<Bytes>,
    ) -> Result<DiskOutcome<Bytes>, DiskError> {
        let fails = self.failing.contains(&id);
        let host = self.hosts.get_mut(&id).unwrap();
        let range =
            |offset: u64, length: u32| offset as usize..(offset + u64::from(length)) as usize;
        match action {
            DiskAction::SaveView(..) if self.failing_saves.contains(&id) => {
                return Err(DiskError::Medium);
            }
            DiskAction::SaveIntents(_) if self.failing_commits.contains(&id) => {
                return Err(DiskError::Lost);
            }
            DiskAction::Flush { .. } if self.failing_flushes.contains(&id) => {
                return Err(DiskError::Medium);
            }
            DiskAction::Write { .. } | DiskAction::Zero { .. } if fails => {
                return Err(DiskError::Medium);
            }
            DiskAction::Read { offset, length }
                if holds(&self.unreadable, id, offset..offset + u64::from(length)) =>
            {
                return Err(DiskError::Medium);
            }
            DiskAction::Read { offset, length }
                if holds(&self.damaged, id, offset..offset + u64::from(length)) =>
            {
                return Err(DiskError::Damaged);
            }
            DiskAction::Write { offset, payload, forgotten, .. } => {
                let end = offset + u64::from(payload.length());
                for bad in [&mut self.unreadable, &mut self.damaged, &mut self.forgotten] {
                    bad.retain(|(on, at)| *on != id || !(offset..end).contains(at));
                }
                let bits = forgotten.as_deref().copied().unwrap_or_default();
                let is_forgotten = |n: &u64| bits[(n / 64) as usize] >> (n % 64) & 1 == 1;
                let first = offset / 4096;
                let blocks = (0..end.div_ceil(4096) - first).filter(is_forgotten);
                self.forgotten.extend(blocks.map(|n| (id, (first + n) * 4096)));
                host.disk.data[range(offset, payload.length())].copy_from_slice(payload.as_slice());
            }
            DiskAction::Zero { offset, length, .. } => {
                host.disk.data[range(offset, length)].fill(0)
            }
            DiskAction::Read { offset, length } => {
                let data = Bytes::copied(&host.disk.data[range(offset, length)]);
                let forgotten = holding(&self.forgotten, id, offset..offset + u64::from(length));
                return Ok(match forgotten.is_empty() {
                    true => DiskOutcome::Data(data),
                    false => {
                        let empty = Vec::new();
                        DiskOutcome::Unverified(data, Unverified::Blocks { empty, forgotten })
                    }
                });
            }
            DiskAction::Map { offset, length } => {
                return Ok(DiskOutcome::Extents(extents(&host.disk.data[range(offset, length)])));
            }
            DiskAction::Flush { .. } => {}
            save => host.disk.saved.save(save),
        }
        Ok(DiskOutcome::Done)
    }
}

/// Which blocks of a range, counted from its first one, are of these of a replica.
fn holding(
    blocks: &BTreeSet<(ReplicaId, u64)>,
    on: ReplicaId,
    range: core::ops::Range<u64>,
) -> Vec<u32> {
    let first = range.start / 4096;
    let held = blocks.range((on, first * 4096)..(on, range.end));
    held.map(|(_, at)| (at / 4096 - first) as u32).collect()
}

fn holds(bad: &BTreeSet<(ReplicaId, u64)>, on: ReplicaId, range: core::ops::Range<u64>) -> bool {
    bad.range((on, range.start)..(on, range.end)).next().is_some()
}

/// Blocks of zeroes are holes, as on a disk that unmaps what is zeroed.
fn extents(data: &[u8]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    for block in data.chunks(4096) {
        let (length, allocated) = (block.len() as u64, block.iter().any(|byte| *byte != 0));
        match extents.last_mut() {
            Some(last) if last.allocated == allocated => last.length += length,
            _ => extents.push(Extent { length, allocated }),
        }
    }
    extents
}

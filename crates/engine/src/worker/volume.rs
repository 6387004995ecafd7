//! What of one volume is on this node, and its primary's driver.

use std::collections::HashMap;

use evenkeel_core::primary::{Command, CommandError, EndReason, PrimaryConfig};
use evenkeel_core::{
    CommandId, HostId, Instant, LinkId, NodeId, Operation, Payload, Primary, PrimaryEffect,
    PrimaryEvent, PrimaryId, ReplicaId, Reply, RequestError, RequestId, VolumeId,
};

use super::{Timer, Work, Worker};
use crate::api::{Caller, ConnectRequest, EngineEvent};
use crate::counters::{Kind, VolumeCounters};
use crate::error::Answer;
use crate::frontend::FrontendEvent;
use crate::memory::{Budget, Buffer, Reservation};
use crate::slab::{Key, Slab};

/// See the module's documentation.
pub(super) struct Volume {
    pub(super) id: VolumeId,
    /// Of its clients.
    pub(super) budget: Budget,
    pub(super) memory: usize,
    pub(super) primary: Option<PrimaryHost>,
    /// The replicas that are open on this node.
    pub(super) replicas: Vec<(ReplicaId, Key)>,
    pub(super) frontends: Vec<Key>,
    /// Connections that the control plane is asked for.
    pub(super) connects: HashMap<ConnectRequest, (Caller, ReplicaId, NodeId)>,
    pub(super) counters: VolumeCounters,
    requests: Slab<OpenRequest>,
    commands: HashMap<CommandId, Answer<Result<(), CommandError>>>,
    /// Which primary has ended and why, while front ends are closing.
    ended: Option<(PrimaryId, EndReason)>,
}

/// A primary and its timer.
pub(super) struct PrimaryHost {
    pub(super) core: Primary<Buffer>,
    pub(super) id: PrimaryId,
    pub(super) armed: Option<Instant>,
}

/// A client's request that has not been answered.
struct OpenRequest {
    frontend: Key,
    token: u64,
    /// For the answer to a read.
    room: Option<Reservation>,
    kind: Kind,
    /// The kind's name where a failure is told.
    name: &'static str,
    bytes: u64,
    began: Instant,
}

impl Volume {
    pub(super) fn new(id: VolumeId, budget: Budget, memory: usize) -> Self {
        Self {
            id,
            budget,
            memory,
            primary: None,
            replicas: Vec::new(),
            frontends: Vec::new(),
            connects: HashMap::new(),
            counters: VolumeCounters::default(),
            requests: Slab::new(),
            commands: HashMap::new(),
            ended: None,
        }
    }

    /// Whether nothing of it is on this node.
    pub(super) fn is_unused(&self) -> bool {
        self.primary.is_none()
            && self.replicas.is_empty()
            && self.frontends.is_empty()
            && self.ended.is_none()
    }

    /// Whether it is attached here, or its end is not complete.
    pub(super) fn is_attached(&self) -> bool {
        self.primary.is_some() || self.ended.is_some()
    }

    /// Makes its primary, which is to be started.
    pub(super) fn attach(&mut self, config: PrimaryConfig, now: Instant) {
        let core = Primary::new(config, now);
        self.primary = Some(PrimaryHost { core, id: config.id, armed: None });
        self.counters = VolumeCounters::default();
    }

    pub(super) fn replica(&self, id: ReplicaId) -> Option<Key> {
        self.replicas.iter().find(|(replica, _)| *replica == id).map(|(_, key)| *key)
    }
}

impl Worker {
    /// The volume's place, made if there is none.
    pub(super) fn volume_key(&mut self, id: VolumeId) -> Key {
        if let Some(key) = self.by_id.get(&id) {
            return *key;
        }
        let memory = self.config.memory_per_volume;
        let budget = Budget::new(self.pool.clone(), memory);
        let key = self.volumes.insert(Volume::new(id, budget, memory));
        self.by_id.insert(id, key);
        key
    }

    pub(super) fn forget_unused_volume(&mut self, key: Key) {
        if self.volumes.get(key).is_some_and(Volume::is_unused)
            && let Some(volume) = self.volumes.remove(key)
        {
            self.by_id.remove(&volume.id);
        }
    }

    pub(super) fn command_primary(
        &mut self,
        id: VolumeId,
        command: Command,
        answer: Answer<Result<(), CommandError>>,
    ) {
        self.commands += 1;
        let number = CommandId(self.commands);
        let key = self.by_id.get(&id).copied();
        match key.and_then(|key| Some((key, self.volumes.get_mut(key)?))) {
            Some((key, volume)) if volume.primary.is_some() => {
                volume.commands.insert(number, answer);
                let event = PrimaryEvent::Command { id: number, command };
                self.work.push_back(Work::Primary(key, event));
            }
            _ => answer(Err(CommandError::Ended)),
        }
    }

    pub(super) fn step_primary(&mut self, key: Key, event: PrimaryEvent<Buffer>) {
        // What came over a link that has been closed meanwhile is not heard any more.
        match &event {
            PrimaryEvent::Message { link, .. } if !self.has_link(*link) => return,
            PrimaryEvent::LinkDown { link: Some(link), .. } if !self.remove_link(*link) => return,
            _ => {}
        }
        let Some(primary) = self.volumes.get_mut(key).and_then(|v| v.primary.as_mut()) else {
            return self.refuse_event(key, event);
        };
        let mut effects = std::mem::take(&mut self.primary_effects);
        primary.core.step(self.now, event, &mut effects);
        for effect in effects.drain(..) {
            self.primary_effect(key, effect);
        }
        self.primary_effects = effects;
        self.arm(Timer::Primary(key));
    }

    /// The primary has ended: a request is answered, the rest is of no interest.
    fn refuse_event(&mut self, key: Key, event: PrimaryEvent<Buffer>) {
        match event {
            PrimaryEvent::Request { request, .. } => {
                self.reply(key, request, Err(RequestError::Detached));
            }
            PrimaryEvent::Command { id, .. } => {
                self.command_done(key, id, Err(CommandError::Ended));
            }
            _ => {}
        }
    }

    fn primary_effect(&mut self, key: Key, effect: PrimaryEffect<Buffer>) {
        // Its end may be among the effects before.
        let Some(volume) = self.volumes.get(key).map(|volume| volume.id) else { return };
        match effect {
            PrimaryEffect::Reply { request, result } => self.reply(key, request, result),
            PrimaryEffect::Send { link, message, payload } => self.send(link, message, payload),
            PrimaryEffect::Connect { replica, node } => self.connect(key, replica, node),
            PrimaryEffect::Disconnect { link } => self.close_link(Key::from_number(link.0)),
            PrimaryEffect::ReadView { call } => self.tell(EngineEvent::ReadView { volume, call }),
            PrimaryEffect::SwapView { call, view, replaces } => {
                self.tell(EngineEvent::SwapView { volume, call, view, replaces });
            }
            PrimaryEffect::CommandDone { id, result } => self.command_done(key, id, result),
            PrimaryEffect::Ended { reason } => self.primary_ended(key, reason),
            PrimaryEffect::Note(note) => self.tell(EngineEvent::Note { volume, note }),
        }
    }

    fn command_done(&mut self, key: Key, id: CommandId, result: Result<(), CommandError>) {
        let answer = self.volumes.get_mut(key).and_then(|volume| volume.commands.remove(&id));
        if let Some(answer) = answer {
            answer(result);
        }
    }

    /// Reaches a replica: in memory if it is open here, by the control plane if it is elsewhere.
    fn connect(&mut self, key: Key, replica: ReplicaId, node: NodeId) {
        let Some(volume) = self.volumes.get(key) else {
            debug_assert!(false, "a volume that connects is there");
            return;
        };
        if let Some(local) = volume.replica(replica) {
            let (ours, theirs) = self.join_locally(key, Caller::Primary, None, replica, local);
            let event = evenkeel_core::ReplicaEvent::LinkOpened { link: theirs };
            self.work.push_back(Work::Replica(local, event));
            self.work.push_back(Work::Primary(key, PrimaryEvent::LinkUp { replica, link: ours }));
        } else if volume.primary.as_ref().is_some_and(|primary| primary.id.node == node) {
            let event = PrimaryEvent::LinkDown { replica, link: None };
            self.work.push_back(Work::Primary(key, event));
        } else {
            self.ask_for_connection(key, Caller::Primary, replica, node);
        }
    }

    pub(super) fn ask_for_connection(
        &mut self,
        key: Key,
        caller: Caller,
        replica: ReplicaId,
        node: NodeId,
    ) {
        self.connects += 1;
        let request = ConnectRequest(self.connects);
        let Some(volume) = self.volumes.get_mut(key) else {
            debug_assert!(false, "a volume that connects is there");
            return;
        };
        volume.connects.insert(request, (caller, replica, node));
        let volume = volume.id;
        self.tell(EngineEvent::Connect { volume, request, caller, replica, node });
    }

    /// Hands a front end's request to the primary.
    pub(super) fn request(
        &mut self,
        key: Key,
        frontend: Key,
        (token, host): (u64, Option<HostId>),
        operation: Operation<Buffer>,
        room: Option<Reservation>,
    ) {
        let Some(volume) = self.volumes.get_mut(key) else {
            debug_assert!(false, "a volume stays until its last front end has gone");
            return;
        };
        let (kind, bytes) = kind_of(&operation);
        let (name, began) = (name_of(&operation), self.now);
        let request = OpenRequest { frontend, token, room, kind, name, bytes, began };
        let request = RequestId(volume.requests.insert(request).number());
        let node = volume.primary.as_ref().map_or(NodeId(0), |primary| primary.id.node);
        let host = host.unwrap_or(HostId(node.0));
        let event = PrimaryEvent::Request { request, host, operation };
        self.work.push_back(Work::Primary(key, event));
    }

    fn reply(&mut self, key: Key, request: RequestId, result: Result<Reply<Buffer>, RequestError>) {
        // It may have gone with the front end that asked.
        let Some(volume) = self.volumes.get_mut(key) else { return };
        let Some(mut open) = volume.requests.remove(Key::from_number(request.0)) else {
            debug_assert!(false, "a request is answered once");
            return;
        };
        let took = self.now.since(open.began);
        volume.counters.kinds[open.kind as usize].note(took, result.is_ok(), open.bytes);
        let failed = result
            .as_ref()
            .err()
            .and_then(|error| volume.counters.failures.note(open.name, *error, self.now));
        let id = volume.id;
        if let (Ok(Reply::Data(pieces)), Some(room)) = (&result, &mut open.room) {
            for (_, piece) in pieces {
                piece.hold(room.split(piece.length() as usize));
            }
        }
        let event = FrontendEvent::Reply { token: open.token, result };
        self.work.push_back(Work::Frontend(open.frontend, event));
        if let Some(failure) = failed {
            self.tell(EngineEvent::RequestsFailed { volume: id, failure });
        }
    }

    fn primary_ended(&mut self, key: Key, reason: EndReason) {
        self.close_links_of_primary(key);
        let Some(volume) = self.volumes.get_mut(key) else {
            debug_assert!(false, "a volume that ends is there");
            return;
        };
        let primary = volume.primary.take().map(|primary| primary.id);
        volume.connects.retain(|_, (caller, ..)| *caller != Caller::Primary);
        volume.ended = primary.map(|primary| (primary, reason));
        for answer in std::mem::take(&mut volume.commands).into_values() {
            answer(Err(CommandError::Ended));
        }
        // After the last replies, which are in the queue.
        for frontend in &volume.frontends {
            self.work.push_back(Work::Frontend(*frontend, FrontendEvent::Stopping));
        }
        self.finish_end(key);
    }

    /// Tells the end when the last front end has gone.
    pub(super) fn finish_end(&mut self, key: Key) {
        let Some(volume) = self.volumes.get_mut(key) else {
            debug_assert!(false, "a volume stays until its last front end has gone");
            return;
        };
        if !volume.frontends.is_empty() {
            return;
        }
        let id = volume.id;
        if let Some((primary, reason)) = volume.ended.take() {
            for failure in volume.counters.failures.untold(self.now) {
                self.tell(EngineEvent::RequestsFailed { volume: id, failure });
            }
            self.forget_unused_volume(key);
            self.tell(EngineEvent::Ended { volume: id, primary, reason });
        }
    }

    pub(super) fn primary_link_up(&mut self, key: Key, replica: ReplicaId, link: LinkId) {
        self.work.push_back(Work::Primary(key, PrimaryEvent::LinkUp { replica, link }));
    }
}

fn name_of(operation: &Operation<Buffer>) -> &'static str {
    match operation {
        Operation::Read { .. } => "read",
        Operation::Write { .. } => "write",
        Operation::CompareAndWrite { .. } => "compare-and-write",
        Operation::Zero { .. } => "zero",
        Operation::Flush => "flush",
        Operation::Map { .. } => "map",
    }
}

fn kind_of(operation: &Operation<Buffer>) -> (Kind, u64) {
    match operation {
        Operation::Read { length, .. } => (Kind::Read, u64::from(*length)),
        Operation::Write { payload, .. } => (Kind::Write, u64::from(payload.length())),
        Operation::CompareAndWrite { payload, .. } => (Kind::Write, u64::from(payload.length())),
        Operation::Zero { length, .. } => (Kind::Zero, *length),
        Operation::Flush => (Kind::Flush, 0),
        Operation::Map { length, .. } => (Kind::Map, *length),
    }
}

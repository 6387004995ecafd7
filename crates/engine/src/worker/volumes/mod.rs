//! The volumes of this worker: what of each is here, its primary, and what clients have asked.
//!
//! A volume is known as long as it has a primary, a replica or a front end here. Replicas and front
//! ends themselves are elsewhere: a volume knows their keys only.

mod primary;
mod requests;
mod volume;

use std::collections::HashMap;

use evenkeel_core::primary::{Command, CommandError, CoordinatorAnswer, EndReason, PrimaryConfig};
use evenkeel_core::{
    CommandId, CoordinatorCall, HostId, Instant, NodeId, Operation, PathNumber, PrimaryEffect,
    PrimaryEvent, PrimaryId, ReplicaId, Reply, RequestError, RequestId, VolumeId,
};

use self::primary::PrimaryHost;
use self::volume::Volume;
use super::context::{Context, Work};
use crate::api::{EngineEvent, VolumeRebuilds, VolumeStatus};
use crate::error::{Answer, EngineError};
use crate::frontend::{FrontendEvent, RequestToken};
use crate::memory::{Budget, Buffer, Reservation};
use crate::ring::{Key, Slab};

/// All volumes of this worker.
pub(super) struct Volumes {
    by_id: HashMap<VolumeId, Key>,
    volumes: Slab<Volume>,
    /// Bytes that the clients of a volume may hold, unless it is attached with another limit.
    memory: usize,
    last_command: CommandId,
}

/// What a front end asks of its volume.
pub(super) struct Asked {
    pub frontend: Key,
    pub token: RequestToken,
    /// Who asks; `None`: the node.
    pub host: Option<HostId>,
    pub operation: Operation<Buffer>,
    /// For what is read.
    pub room: Option<Reservation>,
}

impl Volumes {
    /// None yet. The clients of each may hold so many bytes.
    pub fn new(memory: usize) -> Self {
        Self {
            by_id: HashMap::new(),
            volumes: Slab::new(),
            memory,
            last_command: CommandId::default(),
        }
    }

    /// A volume of which something is here.
    pub fn key(&self, id: VolumeId) -> Option<Key> {
        self.by_id.get(&id).copied()
    }

    pub fn keys(&self) -> Vec<Key> {
        self.volumes.keys()
    }

    pub fn id(&self, key: Key) -> Option<VolumeId> {
        self.volumes.get(key).map(Volume::id)
    }

    /// The key of a volume of which something will be here at once.
    fn key_for(&mut self, cx: &Context, id: VolumeId) -> Key {
        let Self { by_id, volumes, memory, .. } = self;
        *by_id.entry(id).or_insert_with(|| {
            volumes.insert(Volume::new(id, Budget::new(cx.pool().clone(), *memory)))
        })
    }

    fn forget_unused(&mut self, key: Key) {
        if self.volumes.get(key).is_some_and(Volume::is_unused)
            && let Some(volume) = self.volumes.remove(key)
        {
            self.by_id.remove(&volume.id());
        }
    }

    /// A replica of this volume that is open here.
    pub fn replica(&self, volume: Key, replica: ReplicaId) -> Option<Key> {
        self.volumes.get(volume)?.replica(replica)
    }

    /// Has a replica opened, and names it from then on.
    pub fn open_replica(
        &mut self,
        cx: &mut Context,
        id: VolumeId,
        replica: ReplicaId,
        open: impl FnOnce(&mut Context, Key) -> Key,
    ) {
        let key = self.key_for(cx, id);
        let host = open(cx, key);
        if let Some(volume) = self.volumes.get_mut(key) {
            volume.add_replica(replica, host);
        }
    }

    /// A replica has gone.
    pub fn replica_gone(&mut self, key: Key, replica: Key) {
        if let Some(volume) = self.volumes.get_mut(key) {
            volume.remove_replica(replica);
        }
        self.forget_unused(key);
    }

    /// Makes a primary and starts it. `memory` is as for [`crate::Engine::attach`].
    ///
    /// # Errors
    /// If the volume has one, or that has not ended completely.
    pub fn attach(
        &mut self,
        cx: &mut Context,
        primary: PrimaryConfig,
        memory: Option<usize>,
    ) -> Result<(), EngineError> {
        let key = self.key_for(cx, primary.volume);
        let budget = Budget::new(cx.pool().clone(), memory.unwrap_or(self.memory));
        let Some(volume) = self.volumes.get_mut(key) else { return Err(EngineError::Unknown) };
        if volume.is_attached() {
            return Err(EngineError::AlreadyAttached);
        }
        volume.attach(primary, budget, cx.now());
        cx.queue(Work::Primary(key, PrimaryEvent::Start));
        Ok(())
    }

    fn primary(&self, key: Key) -> Option<&PrimaryHost> {
        self.volumes.get(key)?.primary()
    }

    fn primary_mut(&mut self, key: Key) -> Option<&mut PrimaryHost> {
        self.volumes.get_mut(key)?.primary_mut()
    }

    /// Who the volume's primary is, unless that has ended.
    pub fn primary_id(&self, key: Key) -> Option<PrimaryId> {
        self.primary(key).map(PrimaryHost::id)
    }

    /// Has a primary told what the coordinator has answered it. The calls of the next one have the
    /// same numbers: if another primary is attached by now, the answer is dropped.
    pub fn coordinator_answer(
        &self,
        cx: &mut Context,
        id: VolumeId,
        primary: PrimaryId,
        (call, answer): (CoordinatorCall, CoordinatorAnswer),
    ) {
        let is_it = |key: &Key| self.primary_id(*key) == Some(primary);
        #[cfg(test)]
        let is_it = |key: &Key| is_it(key) || crate::canary::is(crate::canary::Canary::AnswerNext);
        if let Some(key) = self.key(id).filter(is_it) {
            cx.queue(Work::Primary(key, PrimaryEvent::Coordinator { call, answer }));
        }
    }

    /// Has a volume's primary told an operator's command.
    pub fn command(
        &mut self,
        cx: &mut Context,
        id: VolumeId,
        command: Command,
        answer: Answer<Result<(), CommandError>>,
    ) {
        self.last_command = self.last_command.next();
        let command = (self.last_command, command);
        match self.key(id).and_then(|key| Some((key, self.primary_mut(key)?))) {
            Some((key, primary)) => primary.command(cx, key, command, answer),
            None => answer(Err(CommandError::Ended)),
        }
    }

    /// A primary has carried out a command, or refused it.
    pub fn command_done(&mut self, key: Key, id: CommandId, result: Result<(), CommandError>) {
        // If the primary has ended, all its commands have been answered.
        if let Some(primary) = self.primary_mut(key) {
            primary.command_done(id, result);
        }
    }

    /// Tells a volume's primary something; its effects are for the caller to carry out. If it has
    /// ended, a request is answered, and the rest is of no interest.
    #[inline]
    pub fn step(
        &mut self,
        cx: &mut Context,
        key: Key,
        event: PrimaryEvent<Buffer>,
        effects: &mut Vec<PrimaryEffect<Buffer>>,
    ) {
        if let Some(primary) = self.primary_mut(key) {
            primary.step(cx, key, event, effects);
        } else if let PrimaryEvent::Request { request, .. } = event {
            self.reply(cx, key, request, Err(RequestError::Detached));
        }
    }

    /// A wake-up of a primary has come.
    pub fn timer_came(&mut self, cx: &mut Context, key: Key, at: Instant) {
        // It may have ended since it wanted that.
        if let Some(primary) = self.primary_mut(key)
            && primary.is_due(cx, key, at)
        {
            cx.queue(Work::Primary(key, PrimaryEvent::Tick));
        }
    }

    /// Has the primary told what a front end asks.
    #[inline]
    pub fn request(&mut self, cx: &mut Context, key: Key, asked: Asked) {
        let Some(volume) = self.volumes.get_mut(key) else {
            debug_assert!(false, "a volume stays until its last front end has gone");
            return;
        };
        let Asked { frontend, token, host, operation, room } = asked;
        let requests = volume.requests_mut();
        let request = requests.begin(cx.now(), frontend, token, &operation, room);
        let node = volume.primary().map_or(NodeId(0), |primary| primary.id().node);
        let host = host.unwrap_or(HostId(node.0));
        let path = path_of(frontend);
        cx.queue(Work::Primary(key, PrimaryEvent::Request { request, host, path, operation }));
    }

    /// Gives up a request of a front end that is open.
    pub fn cancel(&self, cx: &mut Context, key: Key, frontend: Key, token: RequestToken) {
        // A volume stays until its last front end has gone.
        let Some(volume) = self.volumes.get(key) else { return };
        for request in volume.requests().of(frontend, |it| it == token) {
            cx.queue(Work::Primary(key, PrimaryEvent::Cancel { request }));
        }
    }

    /// Has a front end told when nothing of it is under way.
    pub fn drain(cx: &mut Context, key: Key, frontend: Key) {
        cx.queue(Work::Primary(key, PrimaryEvent::Drain { path: path_of(frontend) }));
    }

    /// Answers a request.
    #[inline]
    pub fn reply(
        &mut self,
        cx: &mut Context,
        key: Key,
        request: RequestId,
        result: Result<Reply<Buffer>, RequestError>,
    ) {
        #[cfg(test)]
        let key = match crate::canary::is(crate::canary::Canary::AnswerByNumber) {
            true => {
                self.volumes.iter().find(|it| it.1.requests().has(request)).map_or(key, |it| it.0)
            }
            false => key,
        };
        // It may have gone with the front end that asked.
        let Some(volume) = self.volumes.get_mut(key) else { return };
        let id = volume.id();
        volume.requests_mut().reply(cx, id, request, result);
    }

    /// A volume's primary has ended: its front ends are to stop.
    pub fn end(&mut self, cx: &mut Context, key: Key, reason: EndReason) {
        let Some(volume) = self.volumes.get_mut(key) else {
            debug_assert!(false, "a volume that ends is there");
            return;
        };
        volume.end(reason);
        // After the last replies, which are in the queue.
        for frontend in volume.frontends() {
            cx.queue(Work::Frontend(*frontend, FrontendEvent::Stopping));
        }
        self.finish_end(cx, key);
    }

    /// Tells the end of a primary when the last front end has gone.
    fn finish_end(&mut self, cx: &Context, key: Key) {
        let Some(volume) = self.volumes.get_mut(key) else {
            debug_assert!(false, "a volume stays until its last front end has gone");
            return;
        };
        let id = volume.id();
        if let Some((primary, reason)) = volume.take_ended() {
            volume.requests_mut().report_unreported(cx, id);
            self.forget_unused(key);
            cx.report(EngineEvent::Ended { volume: id, primary, reason });
        }
    }

    /// A volume that has a primary, for a front end to be added, and the budget of its clients.
    ///
    /// # Errors
    /// If it has none.
    pub fn for_frontend(&self, id: VolumeId) -> Result<(Key, Budget), EngineError> {
        let found = self.key(id).and_then(|key| Some((key, self.volumes.get(key)?)));
        let (key, volume) =
            found.filter(|(_, volume)| volume.primary().is_some()).ok_or(EngineError::Unknown)?;
        Ok((key, volume.budget().clone()))
    }

    /// A front end has been added.
    pub fn frontend_added(&mut self, key: Key, frontend: Key) {
        if let Some(volume) = self.volumes.get_mut(key) {
            volume.add_frontend(frontend);
        }
    }

    /// A front end has gone: what it has asked is given up.
    pub fn frontend_gone(&mut self, cx: &mut Context, key: Key, frontend: Key) {
        if let Some(volume) = self.volumes.get_mut(key) {
            volume.remove_frontend(frontend);
            for request in volume.requests().of(frontend, |_| true) {
                cx.queue(Work::Primary(key, PrimaryEvent::Cancel { request }));
            }
        }
        self.finish_end(cx, key);
    }

    /// The front ends of a volume, in the order in which they were added.
    pub fn frontends(&self, key: Key) -> &[Key] {
        self.volumes.get(key).map_or(&[][..], Volume::frontends)
    }

    /// The replicas of a volume that are open here, in the order in which they were opened.
    pub fn replicas(&self, key: Key) -> impl Iterator<Item = Key> {
        self.volumes.get(key).into_iter().flat_map(Volume::replicas)
    }

    /// The state of a volume, without what belongs to its replicas, front ends and links.
    pub fn status(&self, key: Key, now: Instant) -> Option<VolumeStatus> {
        let volume = self.volumes.get(key)?;
        Some(VolumeStatus {
            volume: volume.id(),
            primary: volume.primary().map(|primary| primary.status(now)),
            counters: volume.requests().counters().clone(),
            replicas: Vec::new(),
            frontends: Vec::new(),
            links: Vec::new(),
            memory: (volume.budget().used(), volume.budget().limit()),
        })
    }

    /// The rebuilds of the volumes that are attached.
    pub fn rebuilds(&self) -> VolumeRebuilds {
        let primaries = self.volumes.iter().filter_map(|(_, volume)| {
            let rebuilds = volume.primary()?.rebuilds();
            (!rebuilds.is_empty()).then_some((volume.id(), rebuilds))
        });
        primaries.collect()
    }
}

/// The path of a front end's requests: like its key it is not used again on this worker, and so not
/// at a primary.
fn path_of(frontend: Key) -> PathNumber {
    PathNumber(frontend.number())
}

#[cfg(test)]
mod tests;

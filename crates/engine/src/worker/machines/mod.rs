//! The machines that a worker runs, and what goes between them: primaries, replicas, front ends,
//! and the links that join them.
//!
//! Each kind is a part with fields that nobody else sees, and knows none of the others.
//! [`Machines`] has them, gives each event to the part whose it is, and carries out what machines
//! want of other parts: a primary of links, a replica of its disk and of links, a front end of its
//! volume. A part tells by what its method returns when something has gone that another one names.

mod orders;
mod status;

use std::sync::Arc;

use evenkeel_core::primary::PrimaryEffect;
use evenkeel_core::{Instant, NodeId, PrimaryEvent, ReplicaEffect, ReplicaEvent, ReplicaId};

use super::context::{Context, Unsent, Waiter, Work};
use super::frontends::Frontends;
use super::links::{Call, End, Links};
use super::replicas::{Gone, Replicas};
use super::timers::Timer;
use super::volumes::{Asked, Volumes};
use crate::api::{Caller, EngineConfig, EngineEvent};
use crate::disk::Helper;
use crate::disk::device::Listeners;
use crate::frontend::{FrontendAction, FrontendEvent};
use crate::memory::Buffer;
use crate::ring::{Completion, Key, Owner};

/// See the module's documentation.
pub(super) struct Machines {
    links: Links,
    replicas: Replicas,
    volumes: Volumes,
    frontends: Frontends,
    // Kept for their memory; empty between two events.
    replica_effects: Vec<ReplicaEffect<Buffer>>,
    primary_effects: Vec<PrimaryEffect<Buffer>>,
    frontend_actions: Vec<FrontendAction>,
    unsent: Vec<Unsent>,
}

/// What a completion says of who is likely to say something next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// A peer has said something.
    Peer,
    Nothing,
}

impl Machines {
    /// None yet. Disks begin with such a helper, and these are told of failed flushes of their
    /// drives.
    pub fn new(config: &EngineConfig, helper: Helper, listeners: Arc<Listeners>) -> Self {
        Self {
            links: Links::new(config.memory_per_link),
            replicas: Replicas::new(helper, listeners),
            volumes: Volumes::new(config.memory_per_volume),
            frontends: Frontends::new(),
            replica_effects: Vec::new(),
            primary_effects: Vec::new(),
            frontend_actions: Vec::new(),
            unsent: Vec::new(),
        }
    }

    /// Tells a machine something, and carries out what it wants.
    #[inline]
    pub fn run(&mut self, cx: &mut Context, work: Work) {
        match work {
            Work::Primary(volume, event) => self.step_primary(cx, volume, event),
            Work::Replica(replica, event) => self.step_replica(cx, replica, event),
            Work::Frontend(frontend, event) => self.step_frontend(cx, frontend, event),
        }
    }

    /// An operation of the ring has ended that a machine has asked for.
    pub fn completed(&mut self, cx: &mut Context, completion: Completion) -> Received {
        match completion.owner {
            Owner::Disk { replica, job } => {
                let gone = self.replicas.completed(cx, replica, job, completion);
                self.replica_gone(gone);
            }
            Owner::LinkSend { link } => self.links.sent(cx, link, completion),
            Owner::LinkReceive { link } => {
                if self.links.received(cx, link, completion) {
                    return Received::Peer;
                }
            }
            Owner::Frontend { frontend, descriptor, purpose } => {
                let frontends = &mut self.frontends;
                let left = frontends.completed(cx, frontend, descriptor, purpose, completion);
                self.frontend_gone(cx, frontend, left);
            }
            // The worker's own, and cancellations: what they cancel tells.
            Owner::Waker | Owner::Nobody => {}
        }
        Received::Nothing
    }

    /// A wake-up that was noted for this moment has come.
    pub fn timer_came(&mut self, cx: &mut Context, timer: Timer, at: Instant) {
        match timer {
            Timer::Primary(volume) => self.volumes.timer_came(cx, volume, at),
            Timer::Replica(replica) => self.replicas.timer_came(cx, replica, at),
            Timer::Frontend(frontend) => {
                let left = self.frontends.timer_came(cx, frontend, at);
                self.frontend_gone(cx, frontend, left);
            }
        }
    }

    /// Flushes may have failed, by whoever.
    pub fn look_for_failed_flushes(&mut self, cx: &mut Context) {
        self.replicas.look_for_failed_flushes(cx);
    }

    /// Wakes those who wait for memory, if some has returned.
    pub fn wake_waiters(&mut self, cx: &mut Context) {
        for waiter in cx.take_waiters() {
            match waiter {
                Waiter::Frontend(key) => {
                    cx.queue(Work::Frontend(key, FrontendEvent::MemoryAvailable));
                }
                Waiter::Link(key) => self.links.advance(cx, key),
            }
        }
    }

    /// Hands everything that was queued for sockets to the kernel, one operation for each.
    pub fn flush(&mut self, cx: &mut Context) {
        cx.swap_unsent(&mut self.unsent);
        for queue in self.unsent.drain(..) {
            match queue {
                Unsent::Link(link) => self.links.flush(cx, link),
                Unsent::Frontend(frontend, descriptor) => {
                    self.frontends.flush(cx, frontend, descriptor);
                }
            }
        }
    }

    fn step_primary(&mut self, cx: &mut Context, volume: Key, event: PrimaryEvent<Buffer>) {
        // What came over a link that has been closed meanwhile is not heard any more.
        match &event {
            PrimaryEvent::Message { link, .. } if !self.links.has(*link) => return,
            PrimaryEvent::LinkDown { link: Some(link), .. } if !self.links.forget(*link) => return,
            _ => {}
        }
        let mut effects = std::mem::take(&mut self.primary_effects);
        self.volumes.step(cx, volume, event, &mut effects);
        for effect in effects.drain(..) {
            self.primary_effect(cx, volume, effect);
        }
        self.primary_effects = effects;
    }

    fn primary_effect(&mut self, cx: &mut Context, key: Key, effect: PrimaryEffect<Buffer>) {
        // Its end may be among the effects before.
        let Some(volume) = self.volumes.id(key) else { return };
        match effect {
            PrimaryEffect::Reply { request, result } => {
                self.volumes.reply(cx, key, request, result);
            }
            PrimaryEffect::Drained { path } => {
                // A front end is its requests' path.
                cx.queue(Work::Frontend(Key::from_number(path.0), FrontendEvent::Drained));
            }
            PrimaryEffect::Send { link, message, payload } => {
                self.links.send(cx, link, message, payload);
            }
            PrimaryEffect::Connect { replica, node } => {
                // It has ended in this turn: nobody waits for what it wanted.
                let Some(primary) = self.volumes.primary_id(key) else { return };
                let (end, caller) = (End::Primary(key), Caller::Primary(primary));
                self.connect(cx, key, Call { volume, end, caller, replica }, node);
            }
            PrimaryEffect::Disconnect { link } => self.links.close(cx, link),
            PrimaryEffect::ReadView { call } => {
                // It has ended in this turn: nobody waits for what it wanted.
                let Some(primary) = self.volumes.primary_id(key) else { return };
                cx.report(EngineEvent::ReadView { volume, primary, call });
            }
            PrimaryEffect::SwapView { call, view, replaces } => {
                // It has ended in this turn: nobody waits for what it wanted.
                let Some(primary) = self.volumes.primary_id(key) else { return };
                cx.report(EngineEvent::SwapView { volume, primary, call, view, replaces });
            }
            PrimaryEffect::CommandDone { id, result } => self.volumes.command_done(key, id, result),
            PrimaryEffect::Ended { reason } => {
                self.links.close_all_of(cx, End::Primary(key));
                self.volumes.end(cx, key, reason);
            }
            PrimaryEffect::Note(note) => cx.report(EngineEvent::Note { volume, note }),
        }
    }

    fn step_replica(&mut self, cx: &mut Context, key: Key, event: ReplicaEvent<Buffer>) {
        // What came over a link that has been closed meanwhile is not heard any more.
        match &event {
            ReplicaEvent::Message { link, .. } | ReplicaEvent::LinkOpened { link, .. }
                if !self.links.has(*link) =>
            {
                return;
            }
            ReplicaEvent::LinkClosed { link } if !self.links.forget(*link) => return,
            _ => {}
        }
        let mut effects = std::mem::take(&mut self.replica_effects);
        self.replicas.step(cx, key, event, &mut effects);
        for effect in effects.drain(..) {
            self.replica_effect(cx, key, effect);
        }
        self.replica_effects = effects;
    }

    fn replica_effect(&mut self, cx: &mut Context, key: Key, effect: ReplicaEffect<Buffer>) {
        match effect {
            ReplicaEffect::Send { link, message, payload } => {
                self.links.send(cx, link, message, payload);
            }
            ReplicaEffect::Disk { ticket, action } => self.replicas.begin(cx, key, ticket, action),
            ReplicaEffect::ConnectSource { replica, node } => {
                self.connect_source(cx, key, replica, node);
            }
            ReplicaEffect::Disconnect { link } => self.links.close(cx, link),
        }
    }

    /// Reaches the source of a rebuild.
    fn connect_source(&mut self, cx: &mut Context, key: Key, source: ReplicaId, node: NodeId) {
        let identity = self.replicas.identity(key);
        let found = identity.and_then(|(key, id)| Some((key, self.volumes.id(key)?, id)));
        let Some((volume_key, volume, id)) = found else {
            debug_assert!(false, "a replica asks while it is open, and so does its volume stay");
            return;
        };
        let (end, caller) = (End::Replica(key), Caller::Replica(id));
        self.connect(cx, volume_key, Call { volume, end, caller, replica: source }, node);
    }

    /// Reaches a replica on this node: in memory if it is open here, by the control plane if it is
    /// elsewhere.
    fn connect(&mut self, cx: &mut Context, volume: Key, call: Call, node: NodeId) {
        // One that is being closed is as one that is not here.
        let local = self.volumes.replica(volume, call.replica);
        if let Some(local) = local.filter(|key| self.replicas.is_open(*key)) {
            self.links.join(cx, call, local);
        } else if matches!(call.caller, Caller::Primary(primary) if primary.node == node) {
            // It is to be here, and is not open.
            let event = PrimaryEvent::LinkDown { replica: call.replica, link: None };
            cx.queue(Work::Primary(volume, event));
        } else {
            self.links.ask(cx, call, node);
        }
    }

    fn step_frontend(&mut self, cx: &mut Context, key: Key, event: FrontendEvent) {
        let is_stopping = matches!(event, FrontendEvent::Stopping);
        let mut actions = std::mem::take(&mut self.frontend_actions);
        self.frontends.step(cx, key, event, &mut actions);
        for action in actions.drain(..) {
            self.frontend_action(cx, key, action);
        }
        self.frontend_actions = actions;
        let left = self.frontends.stepped(cx, key, is_stopping);
        self.frontend_gone(cx, key, left);
    }

    fn frontend_action(&mut self, cx: &mut Context, key: Key, action: FrontendAction) {
        // What it wanted after its own end is not done.
        let Some(volume) = self.frontends.volume_of(key) else { return };
        match action {
            FrontendAction::Submit { token, host, operation, room } => {
                let asked = Asked { frontend: key, token, host, operation, room };
                self.volumes.request(cx, volume, asked);
            }
            FrontendAction::Cancel { token } => self.volumes.cancel(cx, volume, key, token),
            FrontendAction::Drain => Volumes::drain(cx, volume, key),
            FrontendAction::End { reason } => self.frontend_ended(cx, volume, key, reason),
            action => self.frontends.carry_out(cx, key, action),
        }
    }

    /// A front end has ended by itself.
    fn frontend_ended(&mut self, cx: &mut Context, volume: Key, key: Key, reason: String) {
        let id = self.volumes.id(volume);
        let frontend = self.frontends.name(key).map(|(frontend, _)| frontend);
        let left = self.frontends.retire(cx, key);
        if let Some((volume, frontend)) = id.zip(frontend) {
            cx.report(EngineEvent::FrontendEnded { volume, frontend, reason });
        }
        // The volume may end by this.
        self.frontend_gone(cx, key, left);
    }

    /// If a front end has gone, its volume names it no more.
    #[inline]
    fn frontend_gone(&mut self, cx: &mut Context, key: Key, left: Option<Key>) {
        if let Some(volume) = left {
            self.volumes.frontend_gone(cx, volume, key);
        }
    }

    /// If a replica has gone, its volume names it no more.
    #[inline]
    fn replica_gone(&mut self, gone: Option<Gone>) {
        if let Some(Gone { volume, replica }) = gone {
            self.volumes.replica_gone(volume, replica);
        }
    }

    /// Ends front ends and links, as a killed process would.
    pub fn end(&mut self, cx: &mut Context) {
        for key in self.frontends.keys() {
            let left = self.frontends.retire(cx, key);
            self.frontend_gone(cx, key, left);
        }
        self.links.close_all(cx);
    }

    /// Has the files of all disks closed, whatever is under way; returns how many. Each is told by
    /// [`crate::disk::Done::Closed`].
    pub fn close_disks(&mut self) -> usize {
        self.replicas.close_at_end()
    }
}

#[cfg(test)]
mod tests;

//! Primaries: attaching, stepping, carrying out effects.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use evenkeel_core::primary::Command;
use evenkeel_core::primary::{EndReason, Note, PrimaryConfig, Waiting, WrongRange};
use evenkeel_core::settings::MAX_PAYLOAD;
use evenkeel_core::*;

use super::clients::Request;
use super::sharing::Answered;
use super::{Cluster, Event};
use crate::coordinator::Question;
use crate::describe;
use crate::marks::Mark;
use crate::network::Party;
use crate::payload::{SECTOR, Sectors};
use crate::queue::{MICROSECOND, Time};
use crate::sabotage::Sabotage;

/// An attached volume: one incarnation of a primary, and its client.
#[derive(Debug)]
pub(super) struct SimPrimary {
    pub id: PrimaryId,
    pub node: usize,
    pub core: Primary<Sectors>,
    pub alive: bool,
    /// Whether it has said that it serves.
    pub served: bool,
    /// Unanswered requests of its client.
    pub requests: BTreeMap<u64, Request>,
    pub last_request: u64,
    /// Over which path its client asks.
    pub path: u64,
    /// The paths of which it is to say that nothing is under way.
    pub drains: BTreeSet<u64>,
    /// Requests that a canary has answered.
    pub answered_early: BTreeSet<u64>,
    /// Changes of the volume of which nobody knows whether they are over: which, first sector,
    /// sectors.
    pub unsure: Vec<(u32, u32, u32)>,
    /// Unanswered commands, with the time of each.
    pub commands: BTreeMap<u64, (Command, Time)>,
    pub last_command: u64,
    pub calls: BTreeSet<CoordinatorCall>,
    /// Replicas to which a connection was asked for.
    pub dials: Vec<ReplicaId>,
    /// By which replica it was answered last, and when it had been silent there for long before.
    pub answered: BTreeMap<usize, Answered>,
    /// Until when its process was last known to stand still.
    pub paused_until: Time,
    /// Until when requests were last known to wait for the coordinator.
    pub without_coordinator_until: Time,
    /// Since when it has known its view.
    pub view_since: Time,
    tick: Option<Time>,
    pub waiting: Option<Waiting>,
}

impl Cluster {
    pub(super) fn living_primaries(&self) -> impl Iterator<Item = usize> {
        (0..self.primaries.len()).filter(|p| self.primaries[*p].alive)
    }

    /// A primary that lives and has begun to serve, the newest one.
    pub(super) fn serving_primary(&self) -> Option<usize> {
        self.living_primaries().filter(|p| self.primaries[*p].served).last()
    }

    /// All that live and have begun to serve.
    pub(super) fn serving_primaries(&self) -> Vec<usize> {
        self.living_primaries().filter(|p| self.primaries[*p].served).collect()
    }

    /// Attaches the volume to one more node if it is attached to fewer than it is to be.
    pub(super) fn attach_if_wanted(&mut self) {
        let living = self.living_primaries().count();
        if living >= self.profile.primaries {
            return;
        }
        if !self.coordinator.is_usable() || self.operators.is_held {
            return self.plan_attach();
        }
        let up: Vec<_> =
            (0..self.nodes.len()).filter(|n| self.nodes[*n].up && !self.is_taken(*n)).collect();
        if up.is_empty() {
            return self.plan_attach();
        }
        let node = self.random.pick(&up);
        if living + 1 < self.profile.primaries {
            self.plan_attach();
        }
        self.attach(node);
    }

    pub(super) fn plan_attach(&mut self) {
        let lease = self.profile.lease.time().as_nanos() as Time;
        let pause = self.random.between(MICROSECOND, lease / 2);
        self.queue.push(self.now + pause, Event::Attach);
    }

    /// Whether a primary lives on a node: it runs one of a volume at a time.
    pub(super) fn is_taken(&self, node: usize) -> bool {
        self.living_primaries().any(|p| self.primaries[p].node == node)
    }

    pub(super) fn attach(&mut self, node: usize) {
        self.attach_as(node, NodeId(node as u128 + 1));
    }

    /// Attaches the volume on a machine that runs as this node.
    pub(super) fn attach_as(&mut self, node: usize, identity: NodeId) {
        let primary = self.primaries.len();
        let incarnation = Incarnation(self.random.bits() | 1);
        let id = PrimaryId { node: identity, incarnation };
        let volume = self.coordinator.newest().volume;
        let config = PrimaryConfig {
            id,
            volume,
            settings: self.profile.own_settings[node],
            earlier: self.earlier(node, identity),
        };
        self.log(|| match identity.0 as usize - 1 {
            own if own == node => format!("primary {primary} is attached on node {node}"),
            other => format!("primary {primary} is attached on node {node} as node {other}"),
        });
        self.primaries.push(SimPrimary {
            id,
            node,
            core: Primary::new(config, self.nodes[node].clock(self.now)),
            alive: true,
            served: false,
            requests: BTreeMap::new(),
            last_request: 0,
            path: 1,
            drains: BTreeSet::new(),
            answered_early: BTreeSet::new(),
            unsure: Vec::new(),
            commands: BTreeMap::new(),
            last_command: 0,
            calls: BTreeSet::new(),
            dials: Vec::new(),
            answered: BTreeMap::new(),
            paused_until: 0,
            without_coordinator_until: 0,
            view_since: 0,
            tick: None,
            waiting: None,
        });
        for _ in 0..self.profile.depth {
            let at = self.now + self.random.waiting(self.profile.think);
            self.queue.push(at, Event::Issue { primary });
        }
        self.step_primary(primary, PrimaryEvent::Start);
    }

    /// The process of a primary ends: nobody is answered any more.
    pub(super) fn primary_dies(&mut self, primary: usize, silent: bool) {
        if !std::mem::replace(&mut self.primaries[primary].alive, false) {
            return;
        }
        self.primaries[primary].commands.clear();
        self.drop_links(Party::Primary(primary), silent);
        self.tick_moment();
        self.plan_attach();
    }

    pub(super) fn primary_tick(&mut self, primary: usize) {
        let slot = &mut self.primaries[primary];
        if slot.tick.take_if(|at| *at <= self.now).is_none() || !slot.alive {
            return;
        }
        let clock = self.nodes[slot.node].clock(self.now);
        if slot.core.next_wakeup().is_some_and(|at| at <= clock) {
            self.step_primary(primary, PrimaryEvent::Tick);
        } else {
            self.plan_primary_tick(primary);
        }
    }

    pub(super) fn step_primary(&mut self, primary: usize, event: PrimaryEvent<Sectors>) {
        let slot = &mut self.primaries[primary];
        if !slot.alive {
            return;
        }
        let clock = self.nodes[slot.node].clock(self.now);
        if let PrimaryEvent::Message { message: Message::Done { id, result: Err(_) }, .. } = &event
        {
            self.order.fails(primary, id.sequence);
        }
        let mut effects = std::mem::take(&mut self.primary_effects);
        let generation = |slot: &SimPrimary| slot.core.view().map(|view| view.generation);
        let before = generation(slot);
        slot.core.step(clock, event, &mut effects);
        if generation(slot) != before {
            slot.view_since = self.now;
        }
        for effect in effects.drain(..) {
            self.primary_effect(primary, effect);
        }
        self.primary_effects = effects;
        self.plan_primary_tick(primary);
    }

    fn plan_primary_tick(&mut self, primary: usize) {
        let slot = &mut self.primaries[primary];
        if !slot.alive {
            return;
        }
        let Some(wakeup) = slot.core.next_wakeup() else { return };
        let at = self.nodes[slot.node].time(wakeup).max(self.now + MICROSECOND);
        if slot.tick.is_none_or(|planned| planned > at) {
            slot.tick = Some(at);
            self.queue.push(at, Event::PrimaryTick { primary });
        }
    }

    fn primary_effect(&mut self, primary: usize, effect: PrimaryEffect<Sectors>) {
        let party = Party::Primary(primary);
        match effect {
            PrimaryEffect::Reply { request, result } => self.replied(primary, request, result),
            PrimaryEffect::Drained { path } => self.drained(primary, path.0),
            PrimaryEffect::Send { link, message, payload } => {
                self.note_sending(primary, link, &message, payload.as_ref());
                self.send(party, link, message, payload);
            }
            PrimaryEffect::Connect { replica, node: _ } => {
                if self.primaries[primary].dials.contains(&replica) {
                    self.fail(
                        "internal",
                        format!("primary {primary} dials {replica} twice at once"),
                    );
                }
                self.primaries[primary].dials.push(replica);
                self.dial(party, self.primaries[primary].node, replica);
            }
            PrimaryEffect::Disconnect { link } => self.hang_up(party, link),
            PrimaryEffect::ReadView { call } => self.call(primary, call, Question::Read),
            PrimaryEffect::SwapView { call, view, .. } => {
                self.judge_evictions(primary, &view);
                let view = self.with_known_promises(self.without_one_voice(view));
                self.call(primary, call, Question::Swap(view));
            }
            PrimaryEffect::CommandDone { id, result } => self.command_done(primary, id, result),
            PrimaryEffect::Ended { reason } => self.ended(primary, reason),
            PrimaryEffect::Note(note) => self.noted(primary, note),
        }
    }

    pub(super) fn answer_dial(&mut self, primary: usize, replica: ReplicaId) {
        self.primaries[primary].dials.retain(|waiting| *waiting != replica);
    }

    fn note_sending(
        &mut self,
        primary: usize,
        link: LinkId,
        message: &Message,
        payload: Option<&Sectors>,
    ) {
        self.note_change(primary, link, message);
        self.judge_zeroing(primary, link, message);
        if let (Message::Write { id, .. }, Some(payload)) = (message, payload) {
            if let Some(Party::Replica(replica, _)) = self.network.far_end(link)
                && self.order.is_resend(payload.cells()[0], replica)
            {
                self.marks.reach(Mark::Resent);
            }
            let is_over = |write| {
                let change = self.lines.of(primary).change(write);
                change.is_none_or(|c| c.primary != primary || c.failed || c.acknowledged.is_some())
            };
            let verdict = self.order.sends(primary, id.sequence, payload.cells(), is_over);
            self.judge(verdict);
            self.judge_sending(primary, id.sequence, payload.cells());
            if self.sabotage == Some(Sabotage::AcknowledgeEarly) {
                self.acknowledge_early(primary, payload.cells()[0]);
            }
        }
        self.log_detail(|| {
            format!("primary {primary} → link {link}: {}", describe::message(message, payload))
        });
    }

    /// Told to the oracle of what rebuilds copy.
    fn note_change(&mut self, primary: usize, link: LinkId, message: &Message) {
        let (Message::Write { id, offset, length, .. } | Message::Zero { id, offset, length, .. }) =
            message
        else {
            return;
        };
        if let Some(Party::Replica(replica, _)) = self.network.far_end(link) {
            let mirror = self.replicas[replica].mirror;
            let regions = self.regions(*offset, u64::from(*length));
            self.minimal.sends((primary, id.sequence), (mirror, replica), regions);
        }
    }

    fn ended(&mut self, primary: usize, reason: EndReason) {
        self.log(|| format!("primary {primary} has ended: {reason:?}"));
        let slot = &mut self.primaries[primary];
        slot.alive = false;
        let (requests, commands) = (slot.requests.len(), slot.commands.len());
        if requests + commands > 0 {
            self.fail("I11", format!("primary {primary} ended ({reason:?}) and left {requests} requests and {commands} commands without an answer"));
        }
        self.drop_links(Party::Primary(primary), false);
        match reason {
            EndReason::Fenced | EndReason::Evicted => self.marks.reach(Mark::Fenced),
            EndReason::LostWrites => self.marks.reach(Mark::LostWrites),
            EndReason::DetachedUnclean => self.marks.reach(Mark::DetachedUnclean),
            EndReason::CoordinatorBehind if self.coordinator.was_touched => {
                self.operators.stuck = Some(reason);
            }
            EndReason::NoVolume if self.coordinator.was_touched => {}
            EndReason::NoVolume | EndReason::CoordinatorBehind => {
                self.fail(
                    "internal",
                    format!("primary {primary} ended with {reason:?}, which never happened"),
                );
            }
            EndReason::Detached => {
                self.marks.reach(Mark::Detached);
                self.judge_clean_detach(primary);
            }
            EndReason::Unconfirmed(_) => {
                self.marks.reach(Mark::AssemblyUnconfirmed);
                self.operators.stuck = Some(reason);
            }
            EndReason::StaleClone(replica) => {
                self.marks.reach(Mark::StaleCloneRefused);
                self.put_newest_back(replica);
            }
            EndReason::NotReached(_) | EndReason::TooManyPrimaries => {
                self.marks.reach(Mark::JoinRefused)
            }
            EndReason::PredecessorAlive => {
                self.marks.reach(Mark::JoinRefused);
                self.note_twin_refused(primary);
            }
            EndReason::NoCoordinator | EndReason::NoData => {}
        }
        self.tick_moment();
        self.plan_attach();
    }

    /// Requests wait for something else now, or for nothing. Returns for what they waited before.
    fn note_waiting(&mut self, primary: usize, waiting: Option<Waiting>) -> Option<Waiting> {
        let slot = &mut self.primaries[primary];
        if slot.waiting == Some(Waiting::Coordinator) {
            slot.without_coordinator_until = self.now;
        }
        std::mem::replace(&mut slot.waiting, waiting)
    }

    fn noted(&mut self, primary: usize, note: Note) {
        self.log(|| format!("primary {primary} notes: {note:?}"));
        match note {
            Note::Serving { .. } => {
                self.note_twin_serves(primary);
                self.begins_to_serve(primary);
            }
            Note::Suspended(waiting) => {
                self.marks.reach(Mark::Suspended);
                self.note_waiting(primary, Some(waiting));
            }
            Note::Resumed => {
                self.marks.reach(Mark::Resumed);
                if self.note_waiting(primary, None).is_none() {
                    self.fail("I11", format!("primary {primary} resumed, but had not suspended"));
                }
            }
            Note::OtherHistory(replica) if self.coordinator.was_touched => {
                self.operators.diverged.insert(replica);
                self.marks.reach(Mark::EpochRefused);
            }
            Note::OtherHistory(replica) => {
                self.fail("internal", format!("replica {replica} is of another history"));
            }
            Note::Verified { different, .. } => {
                self.marks.reach(Mark::Verified);
                if self.coordinator.newest().has_several_primaries() {
                    self.marks.reach(Mark::VerifiedShared);
                }
                if different > 0 && !self.differs_by_rot(primary) {
                    self.fail("I6", format!("a verify found {different} bytes that differ"));
                }
                self.judge_verdict(primary);
            }
            Note::ViewRefused(generation, why) => {
                self.fail("internal", format!("the view {generation} is refused: {why:?}"));
            }
            Note::Rewritten { .. } => self.marks.reach(Mark::Rewritten),
            Note::StaysAway { .. } => self.marks.reach(Mark::StayedAway),
            Note::Lagging { .. }
            | Note::Left(..)
            | Note::Removed(..)
            | Note::StandsIn(..)
            | Note::Admitted(_)
            | Note::Completed { .. }
            | Note::Evicted(_)
            | Note::Grown(_) => {}
        }
    }

    /// Whether all that a verify found different was damaged at some time where no checksum tells.
    fn differs_by_rot(&self, primary: usize) -> bool {
        let rotted = |(id, sectors): (ReplicaId, Range<u32>)| {
            let slot = self.replicas.iter().find(|slot| slot.id == id);
            slot.is_some_and(|slot| slot.disk.ever_damaged(sectors))
        };
        let wrong = self.found_wrong(primary, |range| &range.different);
        self.profile.forgets_checksums && wrong.into_iter().all(rotted)
    }

    /// Of whom a verify says this of which sectors.
    fn found_wrong(
        &self,
        primary: usize,
        of: impl Fn(&WrongRange) -> &[ReplicaId],
    ) -> Vec<(ReplicaId, Range<u32>)> {
        let slot = &self.primaries[primary];
        let status = slot.core.status(self.nodes[slot.node].clock(self.now));
        let (Some(verify), Some(view)) = (status.verify, status.view) else { return Vec::new() };
        let (geometry, mirrors) = (view.geometry, view.mirrors.len());
        let found = verify.ranges.iter().flat_map(|wrong| {
            let (start, length) = (wrong.range.start, wrong.range.end - wrong.range.start);
            // In one piece: no run of blocks crosses a chunk.
            let piece = stripe::pieces(geometry, mirrors, start, length, MAX_PAYLOAD).next();
            let first = piece.map(|piece| (piece.offset / u64::from(SECTOR)) as u32);
            let sectors = first.map(|first| first..first + (length / u64::from(SECTOR)) as u32);
            of(wrong).iter().filter_map(move |id| Some((*id, sectors.clone()?)))
        });
        found.collect()
    }

    /// A verify tells of the blocks that are damaged on a replica, and of no others.
    fn judge_verdict(&mut self, primary: usize) {
        for (id, sectors) in self.found_wrong(primary, |range| &range.damaged) {
            let Some(slot) = self.replicas.iter().find(|slot| slot.id == id) else { continue };
            self.marks.reach(Mark::DamageVerified);
            if !slot.disk.ever_damaged(sectors.clone()) {
                let text = format!("a verify says that replica {id} has damaged {sectors:?}");
                return self.fail("I9", text);
            }
        }
    }
}

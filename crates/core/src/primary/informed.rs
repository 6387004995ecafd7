//! A primary that has a view: where events go, and what follows for several rooms after each.

use core::ops::ControlFlow;
use core::time::Duration;

use super::io::{Asked, Client, Io, Lower, Origin};
use super::scrub::Scrub;
use super::{Context, Flow, Informed, Phase, PrimaryEvent, Stage, answer_after_end};
use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::time::Instant;

impl<P: Payload> Informed<P> {
    /// Handles one event.
    pub(super) fn step(&mut self, cx: &mut Context<'_, P>, event: PrimaryEvent<P>) {
        if cx.stage == Stage::Ended {
            return answer_after_end(cx, event);
        }
        match event {
            PrimaryEvent::Start => {} // It has been started before.
            PrimaryEvent::Request { request, host, path, operation } => {
                let client = Client { request, since: cx.now };
                let (io, lower) = &mut self.io();
                io.request(cx, lower, Asked { client, origin: Origin { host, path }, operation });
            }
            PrimaryEvent::Cancel { request } => {
                let (io, lower) = &mut self.io();
                io.cancel(cx, lower, request);
            }
            PrimaryEvent::Drain { path } => {
                let (io, lower) = &mut self.io();
                io.drain_path(cx, lower, path);
            }
            PrimaryEvent::LinkUp { replica, link } => self.link_up(cx, replica, link),
            PrimaryEvent::LinkDown { replica, link } => self.link_down(cx, replica, link),
            PrimaryEvent::Message { link, message, payload } => {
                self.message(cx, link, message, payload);
            }
            PrimaryEvent::Coordinator { call, answer } => self.coordinator(cx, call, answer),
            PrimaryEvent::Command { id, command } => self.command(cx, id, command),
            PrimaryEvent::Tick => {}
        }
        self.run_to_fixpoint(cx);
    }

    /// When everything is to be looked at again. `tick_at`: when that depends on time alone.
    pub(super) fn next_wakeup(&self, tick_at: Instant) -> Option<Instant> {
        match self.phase {
            Phase::Ended => None,
            _ => self.scrub.next_wakeup().into_iter().chain([tick_at]).min(),
        }
    }

    /// From now on it is this far.
    pub(super) fn enter(&mut self, cx: &mut Context<'_, P>, phase: Phase) {
        cx.stage = phase.stage();
        self.phase = phase;
    }

    /// What clients have under way, and what that uses.
    #[inline]
    pub(super) fn io(&mut self) -> (&mut Io<P>, Lower<'_>) {
        (&mut self.io, Lower { peers: &mut self.membership, views: &mut self.views })
    }

    /// All rooms, the highest first.
    #[inline]
    pub(super) fn rooms(&mut self) -> (&mut Scrub, &mut Io<P>, Lower<'_>) {
        let lower = Lower { peers: &mut self.membership, views: &mut self.views };
        (&mut self.scrub, &mut self.io, lower)
    }

    /// Ends if that follows from what was just done.
    #[inline]
    pub(super) fn follow(&mut self, cx: &mut Context<'_, P>, flow: Flow) {
        if let ControlFlow::Break(reason) = flow {
            self.end(cx, reason);
        }
    }

    /// Brings everything as far as it goes after an event.
    pub(super) fn run_to_fixpoint(&mut self, cx: &mut Context<'_, P>) {
        if cx.stage != Stage::Ended && cx.now >= cx.clock.tick_at {
            self.tick(cx);
        }
        self.advance_start(cx);
        if cx.stage != Stage::Ended {
            self.advance(cx);
        }
        if cx.stage == Stage::Ended {
            self.release_everything();
        }
    }

    /// Everything that goes on while it has not ended.
    #[inline]
    fn advance(&mut self, cx: &mut Context<'_, P>) {
        let (io, lower) = &mut self.io();
        io.report_finished(cx, lower);
        self.advance_change(cx);
        let (io, lower) = &mut self.io();
        io.place_reads(cx, lower);
        self.dispatch_ready(cx);
        self.advance_check(cx);
        let (io, lower) = &mut self.io();
        io.advance_cluster_locks(cx, lower);
        io.report_drained(cx);
        self.advance_detach(cx);
        if self.io.has_findings() {
            let (scrub, io, lower) = &mut self.rooms();
            scrub.take_findings(io, lower);
        }
    }

    /// Takes the check under way as far as it goes, or begins the next one.
    pub(super) fn advance_check(&mut self, cx: &mut Context<'_, P>) {
        let (scrub, io, lower) = &mut self.rooms();
        if scrub.advance(cx, io, lower) {
            self.dispatch_ready(cx);
        }
    }

    /// Sends what has its range, and goes on with the check that has.
    pub(super) fn dispatch_ready(&mut self, cx: &mut Context<'_, P>) {
        loop {
            let (scrub, io, lower) = &mut self.rooms();
            match io.dispatch_ready(cx, lower) {
                Some(number) => scrub.locked(cx, io, lower, number),
                None => return,
            }
        }
    }

    /// What depends on time alone.
    fn tick(&mut self, cx: &mut Context<'_, P>) {
        if self.views.notice_own_pause(cx, &mut self.membership) {
            self.io.excuse_searches(cx.now);
        }
        self.watch_peers(cx);
        if cx.stage == Stage::Ended {
            return; // The last replica of a mirror has lost what was acknowledged.
        }
        self.views.watch_primaries(cx, &self.membership);
        let (io, lower) = &mut self.io();
        io.watch_obstacle(cx, lower);
        lower.views.give_up_commands(cx);
        io.give_up_clearing(cx);
        io.watch_stability(cx, lower);
        self.watch_speed(cx);
        let settings = &cx.config.settings;
        let is_idle = self.io.are_parts_over()
            && self.views.adoption().is_over()
            && !self.views.calls().is_under_way()
            && self.views.edits().is_empty()
            && matches!(self.phase, Phase::Serving)
            && self
                .membership
                .values()
                .all(|peer| peer.is_quiet() || self.views.is_idle_spare(peer.id()));
        let pause =
            if is_idle { self.views.lease().time() / 4 } else { settings.reconnect_grace / 4 };
        let tick_at = cx.now + pause.max(Duration::from_millis(1));
        // Idle volumes tick together, a little earlier: a node that has many wakes up once for all.
        cx.clock.tick_at = if is_idle { tick_at.earlier_multiple_of(pause / 4) } else { tick_at };
    }

    fn message(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) {
        let Some(replica) = self.membership.at(link) else {
            return; // The link was closed from here.
        };
        match message {
            Message::SessionOpened { session, report } => {
                self.session_opened(cx, replica, link, session, *report);
            }
            Message::Adopted { generation } => self.adopted(cx, replica, generation),
            Message::Refused { adopted, sequence } => {
                let (io, lower) = &mut self.io();
                sequence.into_iter().for_each(|it| io.part_refused(lower, replica, it, adopted));
                lower.views.refused(lower.peers, replica, adopted, sequence);
            }
            Message::Fenced { generation } => self.views.fenced(link, generation),
            Message::RebuildDone { generation } => {
                self.views.rebuild_done(&self.membership, replica, generation);
            }
            Message::Received { .. }
            | Message::Done { .. }
            | Message::Data { .. }
            | Message::Digests { .. }
            | Message::Extents { .. }
            | Message::Pong { .. }
            | Message::DiskFailed { .. }
            | Message::Drain { .. }
            | Message::ClusterLock { .. }
            | Message::Granted { .. }
            | Message::LogFilling { .. }
            | Message::RebuildProgress { .. }
            | Message::RebuildCopied { .. } => {
                let (io, lower) = &mut self.io();
                let flow = io.message(cx, lower, replica, link, message, payload);
                self.follow(cx, flow);
            }
            // Only a primary or a rebuilding replica says these.
            Message::OpenSession { .. }
            | Message::Adopt { .. }
            | Message::Write { .. }
            | Message::Zero { .. }
            | Message::Read { .. }
            | Message::Digest { .. }
            | Message::Flush { .. }
            | Message::Map { .. }
            | Message::Ping { .. }
            | Message::FenceConfirmed { .. }
            | Message::Drained { .. }
            | Message::Copy { .. }
            | Message::Copied { .. }
            | Message::Stable { .. }
            | Message::AskMissing { .. }
            | Message::MissingBlocks { .. }
            | Message::ClearBits { .. }
            | Message::WritesFinished { .. } => self.drop_link(cx, link),
        }
    }
}

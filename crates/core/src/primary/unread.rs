//! A primary that has read no view yet. It reaches no replica, and carries nothing out: requests
//! and commands wait until it has taken office, and fail if it ends before. What it keeps goes
//! over to the [`Informed`] that it becomes by the first view.

use super::changes::Order;
use super::io::{Asked, Client, Io, Origin};
use super::membership::Membership;
use super::scrub::Scrub;
use super::start::reach_needed;
use super::views::calls::Known;
use super::views::takeover::Gathering;
use super::views::{Answer, Asking, Views};
use super::{
    Command, CommandError, Context, CoordinatorAnswer, EndReason, Informed, Phase, PrimaryEffect,
    PrimaryEvent, PrimaryStatus, State,
};
use crate::ids::*;
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::View;
use core::time::Duration;

/// A primary without a view.
#[derive(Debug)]
pub(super) struct Unread<P> {
    /// When it was started.
    start: Option<Instant>,
    asking: Asking,
    /// No view names anybody yet; but windows of speed go by.
    membership: Membership,
    /// Requests that wait.
    io: Io<P>,
    /// A verify that was asked for.
    scrub: Scrub,
}

impl<P: Payload> Unread<P> {
    pub fn new(now: Instant) -> Self {
        Self {
            start: None,
            asking: Asking::new(now),
            membership: Membership::new(now),
            io: Io::new(now),
            scrub: Scrub::default(),
        }
    }

    /// Handles one event. Returns what it is then.
    pub fn step(mut self: Box<Self>, cx: &mut Context<'_, P>, event: PrimaryEvent<P>) -> State<P> {
        match event {
            PrimaryEvent::Start => self.start(cx),
            PrimaryEvent::Request { request, host, path, operation } => {
                let client = Client { request, since: cx.now };
                self.io.wait(Asked { client, origin: Origin { host, path }, operation });
            }
            PrimaryEvent::Cancel { request } => self.io.cancel_early(cx, request),
            PrimaryEvent::Drain { path } => self.io.drain_early(path),
            PrimaryEvent::LinkUp { link, .. } => {
                cx.effects.push(PrimaryEffect::Disconnect { link });
            }
            PrimaryEvent::Coordinator { call, answer } => {
                return self.coordinator(cx, call, answer);
            }
            PrimaryEvent::Command { id, command } => return self.command(cx, id, command),
            PrimaryEvent::LinkDown { .. } | PrimaryEvent::Message { .. } | PrimaryEvent::Tick => {}
        }
        self.advance(cx)
    }

    /// Whether it has been started.
    pub fn is_started(&self) -> bool {
        self.start.is_some()
    }

    fn start(&mut self, cx: &mut Context<'_, P>) {
        if self.start.is_none() {
            self.start = Some(cx.now);
            self.asking.call_read(cx);
        }
    }

    fn coordinator(
        mut self: Box<Self>,
        cx: &mut Context<'_, P>,
        call: CoordinatorCall,
        answer: CoordinatorAnswer,
    ) -> State<P> {
        let Some(since) = self.start else {
            return self.advance(cx); // Nothing was asked.
        };
        let known = Known { volume: cx.config.volume, view: None, is_starting: true };
        match self.asking.answered(cx, call, answer, known) {
            Answer::Newest(view) => self.gather(cx, since, *view),
            Answer::NoVolume => self.end(cx, EndReason::NoVolume),
            Answer::Nothing | Answer::Committed { .. } => self.advance(cx),
        }
    }

    fn command(
        mut self: Box<Self>,
        cx: &mut Context<'_, P>,
        id: CommandId,
        command: Command,
    ) -> State<P> {
        match Order::from(command) {
            Order::Edit(edit) => self.asking.edit_for(id, edit, cx.now),
            Order::Verify { repair, source } => {
                self.scrub.begin_verify(cx.now, 0, repair, source);
                cx.command_done(id, Ok(()));
            }
            Order::StopVerify => {
                self.scrub.stop_verify(cx.now);
                cx.command_done(id, Ok(()));
            }
            Order::Detach => {
                cx.command_done(id, Ok(()));
                return self.end(cx, EndReason::DetachedUnclean);
            }
        }
        self.advance(cx)
    }

    /// Reads the view, again if it was not told, until that has taken too long.
    fn advance(mut self: Box<Self>, cx: &mut Context<'_, P>) -> State<P> {
        if cx.now >= cx.clock.tick_at {
            self.tick(cx);
        }
        if let Some(since) = self.start {
            let is_long = cx.now.since(since) >= cx.config.settings.coordinator_patience;
            if is_long && self.asking.is_unanswered() {
                return self.end(cx, EndReason::NoCoordinator);
            }
            if self.asking.may_begin(cx.now) {
                self.asking.call_read(cx);
            }
        }
        self.io.report_drained(cx);
        State::Unread(self)
    }

    /// What depends on time alone.
    fn tick(&mut self, cx: &mut Context<'_, P>) {
        self.io.watch_start(cx.now);
        self.asking.give_up_commands(cx);
        if self.membership.is_speed_due(cx) {
            // So that the first window with replicas in it is no longer than others.
            self.membership.judge_speed(cx, &[]);
        }
        let pause = cx.config.settings.reconnect_grace / 4;
        cx.clock.tick_at = cx.now + pause.max(Duration::from_millis(1));
    }

    /// The first view was read: reaches its replicas.
    fn gather(self, cx: &mut Context<'_, P>, since: Instant, view: View) -> State<P> {
        let Self { start: _, asking, mut membership, io, scrub } = self;
        let views = Views::read(cx, &mut membership, view, asking);
        let gathering = Gathering::new(since, !views.adoption().is_over(), cx.now);
        let phase = Phase::Starting(gathering);
        reach_needed(cx, &mut membership, views.view());
        let mut informed = Box::new(Informed { phase, membership, views, io, scrub });
        informed.run_to_fixpoint(cx);
        State::Informed(informed)
    }

    /// Ends for good: every request and command is answered.
    fn end(mut self, cx: &mut Context<'_, P>, reason: EndReason) -> State<P> {
        self.io.fail_early(cx, reason.error(), |_| true);
        for id in self.asking.commands() {
            cx.command_done(id, Err(CommandError::Ended));
        }
        cx.effects.push(PrimaryEffect::Ended { reason });
        State::Over
    }

    /// Its state, for status displays.
    pub fn status(&self) -> PrimaryStatus {
        let verify = self.scrub.verify_status().cloned();
        PrimaryStatus { waiting: self.io.waiting(), verify, ..PrimaryStatus::without_view() }
    }

    /// Panics if anything is done without a view.
    pub fn check_invariants(&self) {
        let is_unknown = self.membership.values().next().is_none();
        assert!(is_unknown && self.io.is_over(), "W3: it does something without a view");
    }
}

#[cfg(test)]
mod tests;

//! Runs front ends: gives them events, and carries out what they want of their descriptors. What
//! they ask of their volume is for the caller.
//!
//! A front end has gone when its descriptors are closed. Whoever may have that happen is told: the
//! key of its volume, which still names it.

mod channel;
mod host;

use std::time::Duration;

use evenkeel_core::Instant;

use self::host::{FrontendHost, State};
use super::context::{Context, Work};
use crate::api::FrontendId;
use crate::error::{Answer, EngineError};
use crate::frontend::{FrontendAction, FrontendContext, FrontendEvent, FrontendMaker};
use crate::memory::Budget;
use crate::ring::{Completion, Descriptor, Key, Purpose, Slab};

/// How long a front end that stops may take to send what is queued.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(2);

/// All front ends of this worker.
pub(super) struct Frontends {
    hosts: Slab<FrontendHost>,
}

impl Frontends {
    /// None yet.
    pub const fn new() -> Self {
        Self { hosts: Slab::new() }
    }

    /// Makes a front end of a volume, whose clients have this budget, and starts it.
    pub fn add(
        &mut self,
        cx: &mut Context,
        volume: Key,
        budget: Budget,
        id: FrontendId,
        name: String,
        make: FrontendMaker,
    ) -> Key {
        let context = FrontendContext::new(budget);
        let key = self.hosts.insert(FrontendHost::new(volume, id, name, make(), context));
        cx.queue(Work::Frontend(key, FrontendEvent::Started));
        key
    }

    /// Which of these has this name.
    pub fn find(&self, keys: &[Key], id: FrontendId) -> Option<Key> {
        let is_it = |key: &&Key| self.hosts.get(**key).is_some_and(|host| host.id() == id);
        keys.iter().find(is_it).copied()
    }

    /// The name of a front end, and what it is called in status and log.
    pub fn name(&self, key: Key) -> Option<(FrontendId, &str)> {
        self.hosts.get(key).map(|host| (host.id(), host.name()))
    }

    /// The volume of a front end that has not gone.
    #[inline]
    pub fn volume_of(&self, key: Key) -> Option<Key> {
        let host = self.hosts.get(key).filter(|host| host.state() != State::Retired);
        host.map(FrontendHost::volume)
    }

    /// Tells a front end something. What it wants is swapped with this empty list, and then
    /// [`Self::stepped`] is called.
    #[inline]
    pub fn step(
        &mut self,
        cx: &mut Context,
        key: Key,
        event: FrontendEvent,
        actions: &mut Vec<FrontendAction>,
    ) {
        // One that has ended, or is about to, hears nothing more.
        if let Some(host) = self.running(key) {
            host.step(cx, key, event, actions);
        }
    }

    /// What a front end wanted has been carried out. If it was told to stop, what is queued is
    /// sent, and then all is closed. Returns its volume if it has gone.
    #[inline]
    #[must_use]
    pub fn stepped(&mut self, cx: &mut Context, key: Key, is_stopping: bool) -> Option<Key> {
        // It may have ended by itself when it was told.
        if is_stopping && let Some(host) = self.running(key) {
            host.close_by(cx.now() + MAX_CLOSE_TIME);
        }
        if let Some(host) = self.hosts.get_mut(key) {
            host.arm(cx, key);
        }
        if is_stopping { self.retire_if_closed(cx, key) } else { None }
    }

    #[inline]
    fn running(&mut self, key: Key) -> Option<&mut FrontendHost> {
        self.hosts.get_mut(key).filter(|host| host.state() == State::Running)
    }

    /// A wake-up of a front end has come. Returns its volume if it has gone.
    #[must_use]
    pub fn timer_came(&mut self, cx: &mut Context, key: Key, at: Instant) -> Option<Key> {
        // It may have gone since it wanted that.
        let host = self.hosts.get_mut(key)?;
        if !host.is_due(cx, key, at) {
            return None;
        }
        match host.state() {
            State::Running => {
                cx.queue(Work::Frontend(key, FrontendEvent::Tick));
                None
            }
            State::Closing(_) => self.retire(cx, key),
            State::Retired => None,
        }
    }

    /// Carries out what a front end wants of its descriptors.
    #[inline]
    pub fn carry_out(&mut self, cx: &mut Context, key: Key, action: FrontendAction) {
        if let Some(host) = self.hosts.get_mut(key) {
            host.carry_out(cx, key, action);
        }
    }

    /// Begins to send what was queued on a descriptor during the turn.
    pub fn flush(&mut self, cx: &mut Context, key: Key, descriptor: Descriptor) {
        // It may have gone since then.
        if let Some(host) = self.hosts.get_mut(key) {
            host.flush(cx.ring_mut(), key, descriptor);
        }
    }

    /// An operation that a front end asked for has ended. Returns its volume if it has gone.
    #[must_use]
    pub fn completed(
        &mut self,
        cx: &mut Context,
        key: Key,
        descriptor: Descriptor,
        purpose: Purpose,
        completion: Completion,
    ) -> Option<Key> {
        // It may have gone: only commands are waited for.
        let host = self.hosts.get_mut(key)?;
        host.completed(cx, key, descriptor, purpose, completion);
        match purpose {
            Purpose::Send => self.retire_if_closed(cx, key),
            Purpose::Command(_) => {
                self.forget_if_over(key);
                None
            }
            Purpose::Receive | Purpose::Read(_) | Purpose::Write(_) | Purpose::Readable => None,
        }
    }

    /// Stops a front end; the answer comes when its descriptors are closed. So it does to all who
    /// ask for that until then.
    pub fn stop(&mut self, cx: &mut Context, key: Key, answer: Answer<Result<(), EngineError>>) {
        if let Some(host) = self.hosts.get_mut(key) {
            host.stop_for(answer);
            cx.queue(Work::Frontend(key, FrontendEvent::Stopping));
        }
    }

    fn retire_if_closed(&mut self, cx: &mut Context, key: Key) -> Option<Key> {
        let can_retire = self.hosts.get(key).is_some_and(FrontendHost::can_retire);
        if can_retire { self.retire(cx, key) } else { None }
    }

    /// Closes everything of a front end now. Answers to its requests are dropped from here on.
    /// Returns its volume if it has gone by this.
    #[must_use]
    pub fn retire(&mut self, cx: &mut Context, key: Key) -> Option<Key> {
        let host = self.hosts.get_mut(key).filter(|host| host.state() != State::Retired)?;
        let volume = host.volume();
        let answers = host.retire(cx.ring_mut());
        self.forget_if_over(key);
        answers.into_iter().for_each(|answer| answer(Ok(())));
        Some(volume)
    }

    fn forget_if_over(&mut self, key: Key) {
        if self.hosts.get(key).is_some_and(FrontendHost::is_over) {
            self.hosts.remove(key);
        }
    }

    pub fn keys(&self) -> Vec<Key> {
        self.hosts.keys()
    }
}

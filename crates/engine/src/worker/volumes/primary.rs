//! One primary: its core, and what operators have asked of it.

use std::collections::BTreeMap;

use evenkeel_core::message::RebuildProgress;
use evenkeel_core::primary::{Command, CommandError, PrimaryConfig, PrimaryStatus};
use evenkeel_core::{
    CommandId, Instant, Primary, PrimaryEffect, PrimaryEvent, PrimaryId, ReplicaId,
};

use crate::error::Answer;
use crate::memory::Buffer;
use crate::ring::Key;
use crate::worker::context::{Context, Work};
use crate::worker::timers::{Alarm, Timer};

/// See the module's documentation.
pub(super) struct PrimaryHost {
    core: Primary<Buffer>,
    id: PrimaryId,
    alarm: Alarm,
    /// Those that have not been answered.
    commands: BTreeMap<CommandId, Answer<Result<(), CommandError>>>,
}

impl PrimaryHost {
    /// One that is to be started.
    pub fn new(config: PrimaryConfig, now: Instant) -> Self {
        let id = config.id;
        let core = Primary::new(config, now);
        Self { core, id, alarm: Alarm::default(), commands: BTreeMap::new() }
    }

    #[inline]
    pub const fn id(&self) -> PrimaryId {
        self.id
    }

    /// Tells the core something, and notes when it wants to be woken.
    #[inline]
    pub fn step(
        &mut self,
        cx: &mut Context,
        volume: Key,
        event: PrimaryEvent<Buffer>,
        effects: &mut Vec<PrimaryEffect<Buffer>>,
    ) {
        self.core.step(cx.now(), event, effects);
        cx.arm(Timer::Primary(volume), &mut self.alarm, self.core.next_wakeup());
    }

    /// Whether the wake-up that was noted for this moment is wanted now.
    pub fn is_due(&mut self, cx: &mut Context, volume: Key, at: Instant) -> bool {
        cx.is_due(Timer::Primary(volume), &mut self.alarm, self.core.next_wakeup(), at)
    }

    /// Has the core told an operator's command.
    pub fn command(
        &mut self,
        cx: &mut Context,
        volume: Key,
        (id, command): (CommandId, Command),
        answer: Answer<Result<(), CommandError>>,
    ) {
        self.commands.insert(id, answer);
        cx.queue(Work::Primary(volume, PrimaryEvent::Command { id, command }));
    }

    /// A command has been carried out, or refused.
    pub fn command_done(&mut self, id: CommandId, result: Result<(), CommandError>) {
        // It may be one of the primary before, which was answered when that ended.
        if let Some(answer) = self.commands.remove(&id) {
            answer(result);
        }
    }

    /// It has ended: answers all commands. Returns who it was.
    pub fn end(self) -> PrimaryId {
        for answer in self.commands.into_values() {
            answer(Err(CommandError::Ended));
        }
        self.id
    }

    pub fn status(&self, now: Instant) -> PrimaryStatus {
        self.core.status(now)
    }

    pub fn rebuilds(&self) -> Vec<(ReplicaId, RebuildProgress)> {
        self.core.rebuilds()
    }
}

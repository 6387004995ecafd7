//! One replica: its core, and its disk.

use evenkeel_core::{Instant, Replica, ReplicaEffect, ReplicaEvent, ReplicaId};

use crate::api::OpenReplicaStatus;
use crate::disk::Disk;
use crate::error::{Answer, EngineError};
use crate::memory::Buffer;
use crate::ring::Key;
use crate::worker::context::Context;
use crate::worker::timers::{Alarm, Timer};

/// See the module's documentation.
pub(super) struct ReplicaHost {
    volume: Key,
    core: Replica<Buffer>,
    disk: Disk,
    alarm: Alarm,
    state: State,
}

enum State {
    Open,
    /// It hears nothing more, and is closed when nothing is under way on its disk. These have asked
    /// for that, and are answered then.
    Closing(Vec<Answer<Result<(), EngineError>>>),
}

impl ReplicaHost {
    pub fn new(volume: Key, core: Replica<Buffer>, disk: Disk) -> Self {
        Self { volume, core, disk, alarm: Alarm::default(), state: State::Open }
    }

    /// The replica's name on the wire and on the disk.
    pub const fn id(&self) -> ReplicaId {
        self.disk.replica()
    }

    pub const fn volume(&self) -> Key {
        self.volume
    }

    #[inline]
    pub const fn is_closing(&self) -> bool {
        matches!(self.state, State::Closing(_))
    }

    /// Whether it is to be closed, and nothing is under way on its disk.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.is_closing() && self.disk.is_idle()
    }

    #[inline]
    pub const fn disk(&self) -> &Disk {
        &self.disk
    }

    #[inline]
    pub const fn disk_mut(&mut self) -> &mut Disk {
        &mut self.disk
    }

    /// Tells the core something, and notes when it wants to be woken.
    #[inline]
    pub fn step(
        &mut self,
        cx: &mut Context,
        key: Key,
        event: ReplicaEvent<Buffer>,
        effects: &mut Vec<ReplicaEffect<Buffer>>,
    ) {
        self.core.step(cx.now(), event, effects);
        self.arm(cx, key);
    }

    pub fn arm(&mut self, cx: &mut Context, key: Key) {
        cx.arm(Timer::Replica(key), &mut self.alarm, self.core.next_wakeup());
    }

    /// Whether the wake-up that was noted for this moment is wanted now.
    pub fn is_due(&mut self, cx: &mut Context, key: Key, at: Instant) -> bool {
        cx.is_due(Timer::Replica(key), &mut self.alarm, self.core.next_wakeup(), at)
    }

    /// It is to be closed; whoever asks for that is answered when it is.
    pub fn close_for(&mut self, answer: Answer<Result<(), EngineError>>) {
        match &mut self.state {
            State::Closing(answers) => answers.push(answer),
            State::Open => self.state = State::Closing(vec![answer]),
        }
    }

    /// Has its file closed, and all answered who have asked for that.
    pub fn close(self) {
        let State::Closing(answers) = self.state else {
            debug_assert!(false, "a replica is closed because somebody has asked for it");
            return;
        };
        self.disk.close(Box::new(move || answers.into_iter().for_each(|answer| answer(Ok(())))));
    }

    /// Has its file closed because the worker ends, whatever is under way.
    pub fn close_at_end(self) {
        self.disk.close_at_end();
    }

    pub fn status(&self) -> OpenReplicaStatus {
        OpenReplicaStatus { core: self.core.status(), disk: self.disk.counters() }
    }
}

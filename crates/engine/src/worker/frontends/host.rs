//! One front end of one volume: its state machine, and its descriptors.

use std::collections::BTreeMap;

use evenkeel_core::Instant;

use super::channel::Channel;
use crate::api::FrontendId;
use crate::error::{Answer, EngineError};
use crate::frontend::{Frontend, FrontendAction, FrontendContext, FrontendEvent};
use crate::ring::{Batch, Completion, Descriptor, Kept, Key, Owner, Purpose, Ring, SharedFile};
use crate::worker::context::{Context, Unsent, Waiter, Work};
use crate::worker::timers::{Alarm, Timer};

/// See the module's documentation.
pub(super) struct FrontendHost {
    volume: Key,
    id: FrontendId,
    /// For status and log.
    name: String,
    alarm: Alarm,
    machine: Box<dyn Frontend>,
    context: FrontendContext,
    channels: BTreeMap<Descriptor, Channel>,
    state: State,
    /// Drivers' commands under way: memory that they name must stay.
    commands: usize,
    /// Who has asked for it to be stopped: to be told when its descriptors are closed.
    stopping: Vec<Answer<Result<(), EngineError>>>,
}

/// How far a front end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// Sends what is queued, at most until then.
    Closing(Instant),
    /// All is closed; only commands are waited for.
    Retired,
}

impl FrontendHost {
    /// One that hears of its start first.
    pub fn new(
        volume: Key,
        id: FrontendId,
        name: String,
        machine: Box<dyn Frontend>,
        context: FrontendContext,
    ) -> Self {
        Self {
            volume,
            id,
            name,
            alarm: Alarm::default(),
            machine,
            context,
            channels: BTreeMap::new(),
            state: State::Running,
            commands: 0,
            stopping: Vec::new(),
        }
    }

    pub const fn id(&self) -> FrontendId {
        self.id
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    pub const fn volume(&self) -> Key {
        self.volume
    }

    #[inline]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Tells the state machine something. What it wants is swapped with this empty list.
    #[inline]
    pub fn step(
        &mut self,
        cx: &mut Context,
        key: Key,
        event: FrontendEvent,
        actions: &mut Vec<FrontendAction>,
    ) {
        self.context.set_now(cx.now());
        self.machine.handle(event, &mut self.context);
        self.context.swap_actions(actions);
        if self.context.take_wants_memory() {
            cx.wait_for_memory(Waiter::Frontend(key));
        }
    }

    /// When it wants to be woken; once it closes, when that happens whether or not everything has
    /// been sent.
    fn next_wakeup(&self) -> Option<Instant> {
        match self.state {
            State::Running => self.machine.next_wakeup(),
            State::Closing(at) => Some(at),
            State::Retired => None,
        }
    }

    #[inline]
    pub fn arm(&mut self, cx: &mut Context, key: Key) {
        let wanted = self.next_wakeup();
        cx.arm(Timer::Frontend(key), &mut self.alarm, wanted);
    }

    /// Whether the wake-up that was noted for this moment is wanted now.
    pub fn is_due(&mut self, cx: &mut Context, key: Key, at: Instant) -> bool {
        let wanted = self.next_wakeup();
        cx.is_due(Timer::Frontend(key), &mut self.alarm, wanted, at)
    }

    /// Carries out what it wants of its descriptors.
    pub fn carry_out(&mut self, cx: &mut Context, key: Key, action: FrontendAction) {
        match action {
            FrontendAction::Open { descriptor, file } => {
                self.channels.insert(descriptor, Channel::new(SharedFile::new(file)));
            }
            FrontendAction::Close { descriptor } => {
                if let Some(channel) = self.channels.remove(&descriptor) {
                    channel.close(cx.ring_mut());
                }
            }
            FrontendAction::Send { descriptor, bytes } => {
                self.queue(cx, key, descriptor, |channel| channel.queue_bytes(&bytes));
            }
            FrontendAction::SendBuffer { descriptor, buffer } => {
                self.queue(cx, key, descriptor, |channel| channel.queue_buffer(buffer));
            }
            action => self.begin_operation(cx.ring_mut(), key, action),
        }
    }

    /// Begins what the ring carries out.
    fn begin_operation(&mut self, ring: &mut Ring, key: Key, action: FrontendAction) {
        match action {
            FrontendAction::Receive { descriptor, memory, range, all } => {
                self.begin(key, descriptor, Purpose::Receive, |owner, file| {
                    ring.receive(owner, file, memory, range, all);
                });
            }
            FrontendAction::Read { descriptor, token, memory, offset } => {
                let range = 0..memory.len();
                self.begin(key, descriptor, Purpose::Read(token), |owner, file| {
                    ring.read(owner, file, memory, range, offset);
                });
            }
            FrontendAction::Write { descriptor, token, parts, offset } => {
                let batch = Box::new(Batch::of(parts));
                self.begin(key, descriptor, Purpose::Write(token), |owner, file| {
                    ring.write_batch(owner, file, batch, offset);
                });
            }
            FrontendAction::WaitReadable { descriptor } => {
                self.begin(key, descriptor, Purpose::Readable, |owner, file| {
                    ring.wait_readable(owner, file);
                });
            }
            FrontendAction::Command { descriptor, token, operation, argument } => {
                self.begin(key, descriptor, Purpose::Command(token), |owner, file| {
                    ring.command(owner, file, operation, argument);
                });
            }
            action => debug_assert!(false, "{action:?} is not of a descriptor"),
        }
    }

    /// Begins an operation of the ring; on a descriptor that is closed, none.
    #[inline]
    fn begin(
        &mut self,
        key: Key,
        descriptor: Descriptor,
        purpose: Purpose,
        begin: impl FnOnce(Owner, &SharedFile),
    ) {
        // A front end that has closed a descriptor hears of it no more.
        let Some(channel) = self.channels.get(&descriptor) else { return };
        self.commands += usize::from(matches!(purpose, Purpose::Command(_)));
        begin(Owner::Frontend { frontend: key, descriptor, purpose }, channel.file());
    }

    /// Queues something to be sent. `put` returns
    /// whether it is the first since the last flush.
    fn queue(
        &mut self,
        cx: &mut Context,
        key: Key,
        descriptor: Descriptor,
        put: impl FnOnce(&mut Channel) -> bool,
    ) {
        // On a descriptor that is closed it is dropped.
        let Some(channel) = self.channels.get_mut(&descriptor) else { return };
        if put(channel) {
            cx.send_at_end(Unsent::Frontend(key, descriptor));
        }
    }

    /// Begins to send what was queued on a descriptor during the turn.
    pub fn flush(&mut self, ring: &mut Ring, key: Key, descriptor: Descriptor) {
        // It may have been closed in the turn in which it was queued.
        let Some(channel) = self.channels.get_mut(&descriptor) else { return };
        channel.flush(ring, Owner::Frontend { frontend: key, descriptor, purpose: Purpose::Send });
    }

    /// An operation has ended: it is told.
    pub fn completed(
        &mut self,
        cx: &mut Context,
        key: Key,
        descriptor: Descriptor,
        purpose: Purpose,
        completion: Completion,
    ) {
        let Completion { owner, result, raw, kept } = completion;
        if let Purpose::Command(_) = purpose {
            self.commands -= 1;
        }
        // Its descriptor has been closed meanwhile.
        let Some(channel) = self.channels.get_mut(&descriptor) else { return };
        let event = match (purpose, kept) {
            (Purpose::Send, Kept::Batch(batch)) => {
                channel.sent(cx.ring_mut(), owner, descriptor, batch, result)
            }
            (Purpose::Command(token), _) => Some(FrontendEvent::Command { token, result: raw }),
            (Purpose::Receive, Kept::Fill(memory)) => {
                Some(FrontendEvent::Received { descriptor, memory, result })
            }
            (Purpose::Read(token), Kept::Fill(memory)) => {
                Some(FrontendEvent::Read { token, memory, result })
            }
            (Purpose::Write(token), _) => Some(FrontendEvent::Written { token, result }),
            (Purpose::Readable, _) => Some(FrontendEvent::Readable { descriptor }),
            (purpose, kept) => {
                debug_assert!(false, "{purpose:?} does not return {kept:?}");
                None
            }
        };
        if let Some(event) = event {
            cx.queue(Work::Frontend(key, event));
        }
    }

    /// Whoever asks for it to be stopped is answered when its descriptors are closed.
    pub fn stop_for(&mut self, answer: Answer<Result<(), EngineError>>) {
        self.stopping.push(answer);
    }

    /// Sends what is queued, at most until then.
    pub fn close_by(&mut self, at: Instant) {
        self.state = State::Closing(at);
    }

    /// Whether it closes, and everything has been sent.
    pub fn can_retire(&self) -> bool {
        let has_sent_all = || self.channels.values().all(Channel::has_sent_all);
        matches!(self.state, State::Closing(_)) && has_sent_all()
    }

    /// Closes all its descriptors. Returns who is to be answered.
    pub fn retire(&mut self, ring: &mut Ring) -> Vec<Answer<Result<(), EngineError>>> {
        self.state = State::Retired;
        for channel in std::mem::take(&mut self.channels).into_values() {
            channel.close(ring);
        }
        std::mem::take(&mut self.stopping)
    }

    /// Whether nothing is under way that needs it.
    pub fn is_over(&self) -> bool {
        self.state == State::Retired && self.commands == 0
    }
}

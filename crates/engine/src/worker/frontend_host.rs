//! Runs front ends: gives them events, carries out what they want.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::Instant;
use rustix::net::Shutdown;

use super::{Timer, Unsent, Waiter, Work, Worker};
use crate::api::{EngineEvent, FrontendId};
use crate::error::{Answer, EngineError};
use crate::frontend::{Frontend, FrontendAction, FrontendContext, FrontendEvent};
use crate::ring::{Batch, Completion, Descriptor, Kept, Owner, Purpose, Ring, SharedFile};
use crate::slab::{Key, Slab};
use crate::transport::{Outbox, Sent, is_transient, prepare_socket};

/// How long a front end that stops may take to send what is queued.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(2);

/// One front end of one volume.
pub(super) struct FrontendHost {
    pub(super) volume: Key,
    pub(super) id: FrontendId,
    pub(super) name: String,
    pub(super) armed: Option<Instant>,
    machine: Box<dyn Frontend>,
    context: FrontendContext,
    channels: BTreeMap<Descriptor, Channel>,
    state: State,
    /// Drivers' commands under way: memory that they name must stay.
    commands: usize,
    /// Who has asked for it to be stopped: to be told when its descriptors are closed.
    stopping: Vec<Answer<Result<(), EngineError>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// Sends what is queued, at most until then.
    Closing(Instant),
    /// All is closed; only commands are waited for.
    Retired,
}

struct Channel {
    file: SharedFile,
    outbox: Outbox,
    queued: bool,
    is_socket: bool,
}

impl FrontendHost {
    pub(super) fn new(
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
            armed: None,
            machine,
            context,
            channels: BTreeMap::new(),
            state: State::Running,
            commands: 0,
            stopping: Vec::new(),
        }
    }

    /// When it wants to be woken; once it closes, when that happens whether or not everything has
    /// been sent.
    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        match self.state {
            State::Running => self.machine.next_wakeup(),
            State::Closing(at) => Some(at),
            State::Retired => None,
        }
    }

    /// The file that an operation begins on; `None` if it is closed.
    fn file_for(&mut self, descriptor: Descriptor, purpose: Purpose) -> Option<&SharedFile> {
        let channel = self.channels.get(&descriptor)?;
        self.commands += usize::from(matches!(purpose, Purpose::Command(_)));
        Some(&channel.file)
    }

    fn has_sent_all(&self) -> bool {
        self.channels.values().all(|channel| channel.outbox.is_empty())
    }
}

impl Worker {
    pub(super) fn step_frontend(&mut self, key: Key, event: FrontendEvent) {
        // One that has ended, or is about to, hears nothing more.
        let running = self.frontends.get_mut(key).filter(|host| host.state == State::Running);
        let Some(host) = running else { return };
        let stopping = matches!(event, FrontendEvent::Stopping);
        host.context.now = self.now;
        host.machine.handle(event, &mut host.context);
        let mut actions = std::mem::take(&mut self.frontend_actions);
        host.context.swap_actions(&mut actions);
        let waits = host.context.take_wants_memory();
        for action in actions.drain(..) {
            self.frontend_action(key, action);
        }
        self.frontend_actions = actions;
        if waits {
            self.wait_for_memory(Waiter::Frontend(key));
        }
        if stopping {
            self.close_frontend(key);
        }
        self.arm(Timer::Frontend(key));
    }

    /// The moment named by [`FrontendHost::next_wakeup`] has come.
    pub(super) fn wake_frontend(&mut self, key: Key) {
        match self.frontends.get(key).map(|host| host.state) {
            Some(State::Running) => self.work.push_back(Work::Frontend(key, FrontendEvent::Tick)),
            Some(State::Closing(_)) => self.retire_frontend(key),
            Some(State::Retired) | None => {}
        }
    }

    fn frontend_action(&mut self, key: Key, action: FrontendAction) {
        // What it wanted after its own end is not done.
        let host = self.frontends.get_mut(key).filter(|host| host.state != State::Retired);
        let Some(host) = host else { return };
        match action {
            FrontendAction::Open { descriptor, file } => {
                host.channels.insert(descriptor, Channel::new(SharedFile::new(file)));
            }
            FrontendAction::Close { descriptor } => {
                if let Some(channel) = host.channels.remove(&descriptor) {
                    self.close_channel(&channel);
                }
            }
            FrontendAction::Submit { token, host: asking, operation, room } => {
                let volume = host.volume;
                self.request(volume, key, (token, asking), operation, room);
            }
            FrontendAction::End { reason } => {
                let (volume, frontend) = (host.volume, host.id);
                self.frontend_ended(key, volume, frontend, reason);
            }
            FrontendAction::Send { descriptor, bytes } => {
                self.queue(key, descriptor, |out| out.bytes(|b| b.extend_from_slice(&bytes)));
            }
            FrontendAction::SendBuffer { descriptor, buffer } => {
                self.queue(key, descriptor, |out| out.buffer(buffer));
            }
            action => self.begin_operation(key, action),
        }
    }

    /// Begins what the ring carries out.
    fn begin_operation(&mut self, key: Key, action: FrontendAction) {
        match action {
            FrontendAction::Receive { descriptor, memory, range, all } => {
                self.begin(key, descriptor, Purpose::Receive, |ring, owner, file| {
                    ring.receive(owner, file, memory, range, all);
                });
            }
            FrontendAction::Read { descriptor, token, memory, offset } => {
                let range = 0..memory.len();
                self.begin(key, descriptor, Purpose::Read(token), |ring, owner, file| {
                    ring.read(owner, file, memory, range, offset);
                });
            }
            FrontendAction::Write { descriptor, token, parts, offset } => {
                let batch = Box::new(Batch::of(parts));
                self.begin(key, descriptor, Purpose::Write(token), |ring, owner, file| {
                    ring.write_batch(owner, file, batch, offset);
                });
            }
            FrontendAction::WaitReadable { descriptor } => {
                self.begin(key, descriptor, Purpose::Readable, |ring, owner, file| {
                    ring.wait_readable(owner, file);
                });
            }
            FrontendAction::Command { descriptor, token, operation, argument } => {
                self.begin(key, descriptor, Purpose::Command(token), |ring, owner, file| {
                    ring.command(owner, file, operation, argument);
                });
            }
            _ => {}
        }
    }

    /// Begins an operation of the ring; on a descriptor that is closed, none.
    fn begin(
        &mut self,
        key: Key,
        descriptor: Descriptor,
        purpose: Purpose,
        begin: impl FnOnce(&mut Ring, Owner, &SharedFile),
    ) {
        let host = self.frontends.get_mut(key);
        let file = host.and_then(|host| host.file_for(descriptor, purpose));
        let Some(file) = file else { return };
        begin(&mut self.ring, Owner::Frontend { frontend: key, descriptor, purpose }, file);
    }

    fn queue(&mut self, key: Key, descriptor: Descriptor, put: impl FnOnce(&mut Outbox)) {
        // What is sent on a descriptor that is closed is dropped.
        let Some(channel) = channel(&mut self.frontends, key, descriptor) else { return };
        put(&mut channel.outbox);
        if !std::mem::replace(&mut channel.queued, true) {
            self.unsent.push(Unsent::Frontend(key, descriptor));
        }
    }

    pub(super) fn flush_frontend(&mut self, key: Key, descriptor: Descriptor) {
        // It may have been closed in the turn in which it was queued.
        let Some(channel) = channel(&mut self.frontends, key, descriptor) else { return };
        channel.queued = false;
        let owner = Owner::Frontend { frontend: key, descriptor, purpose: Purpose::Send };
        channel.outbox.flush(&mut self.ring, owner, &channel.file);
    }

    pub(super) fn frontend_completed(
        &mut self,
        key: Key,
        descriptor: Descriptor,
        purpose: Purpose,
        completion: Completion,
    ) {
        let Completion { owner: _, result, raw, kept } = completion;
        let event = match (purpose, kept) {
            (Purpose::Send, Kept::Batch(batch)) => {
                return self.frontend_sent(key, descriptor, batch, result);
            }
            (Purpose::Command(token), _) => {
                self.command_ended(key);
                FrontendEvent::Command { token, result: raw }
            }
            (Purpose::Receive, Kept::Fill(memory)) => {
                FrontendEvent::Received { descriptor, memory, result }
            }
            (Purpose::Read(token), Kept::Fill(memory)) => {
                FrontendEvent::Read { token, memory, result }
            }
            (Purpose::Write(token), _) => FrontendEvent::Written { token, result },
            (Purpose::Readable, _) => FrontendEvent::Readable { descriptor },
            (purpose, kept) => {
                debug_assert!(false, "{purpose:?} does not return {kept:?}");
                return;
            }
        };
        let open = self.frontends.get(key).is_some_and(|h| h.channels.contains_key(&descriptor));
        if open {
            self.work.push_back(Work::Frontend(key, event));
        }
    }

    fn frontend_sent(
        &mut self,
        key: Key,
        descriptor: Descriptor,
        batch: Box<Batch>,
        result: std::io::Result<usize>,
    ) {
        // It may have been closed meanwhile.
        let Some(channel) = channel(&mut self.frontends, key, descriptor) else { return };
        let count = match result {
            Ok(count) => count,
            Err(error) if is_transient(&error) => 0,
            Err(error) => {
                channel.outbox = Outbox::default();
                let event = FrontendEvent::Sent { descriptor, result: Err(error) };
                self.work.push_back(Work::Frontend(key, event));
                return self.retire_if_closed(key);
            }
        };
        let owner = Owner::Frontend { frontend: key, descriptor, purpose: Purpose::Send };
        let sent = channel.outbox.sent(&mut self.ring, owner, &channel.file, batch, count);
        if let Sent::All(bytes) = sent {
            channel.outbox.flush(&mut self.ring, owner, &channel.file);
            let event = FrontendEvent::Sent { descriptor, result: Ok(bytes) };
            self.work.push_back(Work::Frontend(key, event));
            self.retire_if_closed(key);
        }
    }

    /// It has been told that it stops: what is queued is sent, then all is closed.
    fn close_frontend(&mut self, key: Key) {
        let at = self.now + MAX_CLOSE_TIME;
        // It may have ended by itself when it was told.
        let running = self.frontends.get_mut(key).filter(|host| host.state == State::Running);
        let Some(host) = running else { return };
        host.state = State::Closing(at);
        self.arm(Timer::Frontend(key));
        self.retire_if_closed(key);
    }

    fn retire_if_closed(&mut self, key: Key) {
        let done = self
            .frontends
            .get(key)
            .is_some_and(|host| matches!(host.state, State::Closing(_)) && host.has_sent_all());
        if done {
            self.retire_frontend(key);
        }
    }

    /// It has ended by itself.
    fn frontend_ended(&mut self, key: Key, volume: Key, frontend: FrontendId, reason: String) {
        let volume = self.volumes.get(volume).map(|volume| volume.id);
        self.retire_frontend(key);
        if let Some(volume) = volume {
            self.tell(EngineEvent::FrontendEnded { volume, frontend, reason });
        }
    }

    /// Stops a front end; the answer comes when its descriptors are closed. So it does to all who
    /// ask for that until then.
    pub(super) fn stop_frontend(&mut self, key: Key, answer: Answer<Result<(), EngineError>>) {
        if let Some(host) = self.frontends.get_mut(key) {
            host.stopping.push(answer);
            self.work.push_back(Work::Frontend(key, FrontendEvent::Stopping));
        }
    }

    /// Closes everything of a front end now. Answers to its requests are dropped from here on.
    pub(super) fn retire_frontend(&mut self, key: Key) {
        // When the worker ends, some are retired already.
        let host = self.frontends.get_mut(key).filter(|host| host.state != State::Retired);
        let Some(host) = host else { return };
        host.state = State::Retired;
        let (volume, answers) = (host.volume, std::mem::take(&mut host.stopping));
        for channel in std::mem::take(&mut host.channels).into_values() {
            self.close_channel(&channel);
        }
        if let Some(volume) = self.volumes.get_mut(volume) {
            volume.frontends.retain(|frontend| *frontend != key);
        }
        self.forget_retired(key);
        answers.into_iter().for_each(|answer| answer(Ok(())));
        self.finish_end(volume);
    }

    fn command_ended(&mut self, key: Key) {
        if let Some(host) = self.frontends.get_mut(key) {
            host.commands -= 1;
            self.forget_retired(key);
        }
    }

    fn forget_retired(&mut self, key: Key) {
        if let Some(host) = self.frontends.get(key)
            && host.state == State::Retired
            && host.commands == 0
        {
            self.frontends.remove(key);
        }
    }

    fn close_channel(&mut self, channel: &Channel) {
        if channel.is_socket {
            // What is under way ends by itself then; it may have ended already.
            let _ = rustix::net::shutdown(&channel.file, Shutdown::Both);
        } else {
            self.ring.cancel(&channel.file);
        }
    }
}

fn channel(
    frontends: &mut Slab<FrontendHost>,
    key: Key,
    descriptor: Descriptor,
) -> Option<&mut Channel> {
    frontends.get_mut(key)?.channels.get_mut(&descriptor)
}

impl Channel {
    fn new(file: SharedFile) -> Self {
        let is_socket = prepare_socket(&file);
        Self { file, outbox: Outbox::default(), queued: false, is_socket }
    }
}

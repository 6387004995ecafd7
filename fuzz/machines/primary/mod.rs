//! A primary under a script: clients ask, operators command, links come and go, replicas answer as
//! they should or say anything else, the coordinator answers, is silent, or has another view, time
//! passes.

mod checks;
mod coordinator;
mod replicas;

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::primary::{Command, Earlier, PrimaryConfig};
use evenkeel_core::view::{Change, Newcomer};
use evenkeel_core::*;

use self::checks::Asked;
use self::coordinator::Coordinator;
use self::replicas::Link;
use super::harness::Blank;
use super::memory;
use super::menu::{self, Live};
use super::script::{self, Script};
use super::views::{self, MAX_IDS, PRIMARIES};
use super::wire::{self, Arrived};

/// The longest script that is played.
const MAX_STEPS: usize = 600;
/// How often a message is repeated to see whether memory grows, and how much it may.
const REPEATS: usize = 1024;
const GROWTH: usize = 4 << 10;
/// How often it is said before that: the first ones may well be kept, here and there.
const FIRST: usize = 80;
/// Requests that the driver admits at once.
const MAX_REQUESTS: usize = 64;
/// How far time goes on in one step, in milliseconds.
const PAUSES: [u64; 8] = [0, 1, 20, 130, 500, 1000, 5000, 60_000];

/// A primary, its coordinator, its replicas, and its clients.
pub struct Bench {
    core: Primary<Blank>,
    now: Instant,
    coordinator: Coordinator,
    links: BTreeMap<LinkId, Link>,
    last_link: u64,
    /// Connections that it has asked for.
    dialled: Vec<ReplicaId>,
    requests: BTreeMap<RequestId, Asked>,
    commands: Vec<CommandId>,
    /// The paths of which it is to say that nothing is under way.
    drains: Vec<PathNumber>,
    last_request: u64,
    last_number: u64,
    has_ended: bool,
    effects: Vec<PrimaryEffect<Blank>>,
}

/// Plays a script.
pub fn play(input: &[u8]) {
    let script = &mut Script::new(input);
    let view = views::first(script);
    let id = PRIMARIES[script.choose(PRIMARIES.len())];
    let mut bench = Bench::new(view, id);
    bench.step(PrimaryEvent::Start);
    if script.byte() < 224 {
        bench.go_well();
    }
    for _ in 0..MAX_STEPS {
        if script.is_over() {
            break;
        }
        bench.act(script);
    }
    bench.end();
}

impl Bench {
    fn new(view: View, id: PrimaryId) -> Self {
        let now = Instant(1_000_000_000_000);
        let config = PrimaryConfig {
            id,
            volume: view.volume,
            settings: Settings::default(),
            earlier: Earlier::Ended,
        };
        Self {
            core: Primary::new(config, now),
            now,
            coordinator: Coordinator::new(view),
            links: BTreeMap::new(),
            last_link: 0,
            dialled: Vec::new(),
            requests: BTreeMap::new(),
            commands: Vec::new(),
            drains: Vec::new(),
            last_request: 0,
            last_number: 0,
            has_ended: false,
            effects: Vec::new(),
        }
    }

    /// All goes well for a while, so that the primary serves, if it can.
    fn go_well(&mut self) {
        let nothing = &mut Script::new(&[]);
        for _ in 0..64 {
            self.call_answered(nothing);
            self.connected(nothing);
            self.answer(nothing);
        }
    }

    fn act(&mut self, script: &mut Script<'_>) {
        match script.choose(16) {
            0..=2 => self.ask(script),
            3..=6 => self.answer(script),
            7 | 8 => self.receive(script),
            9 | 10 => self.call_answered(script),
            11 => self.connected(script),
            12 => self.wait(script),
            13 => self.cut(script),
            14 if script.is_rare() => self.give_up(script),
            14 => self.command(script),
            _ if script.is_rare() => self.coordinator.usurp(script),
            _ => self.go_well(),
        }
    }

    /// A client asks for something.
    fn ask(&mut self, script: &mut Script<'_>) {
        if self.requests.len() >= MAX_REQUESTS {
            return;
        }
        let size = self.coordinator.newest.geometry.size;
        let (offset, length, flags) = (script.offset(size), script.length(), script.byte());
        let durable = flags & 1 != 0;
        let operation = match script.choose(9) {
            0 | 1 => Operation::Read { offset, length },
            2..=4 => {
                let payload = Blank { length, value: 1 };
                Operation::Write { offset, payload, durable }
            }
            5 => {
                let length = if flags & 4 == 0 { length.into() } else { script.near(size) };
                Operation::Zero { offset, length, unmap: flags & 2 != 0, durable }
            }
            6 => Operation::Flush,
            7 => {
                let (expected, payload) =
                    (Blank { length, value: flags & 2 }, Blank { length, value: 1 });
                Operation::CompareAndWrite { offset, expected, payload, durable }
            }
            _ => Operation::Map { offset, length: script.near(length.into()) },
        };
        self.last_request += 1;
        let request = RequestId(self.last_request);
        self.requests.insert(request, Asked::new(&operation));
        let host = HostId(101 + script.choose(3) as u128);
        let path = PathNumber(1 + script.choose(2) as u64);
        self.step(PrimaryEvent::Request { request, host, path, operation });
    }

    /// A client gives a request up, or wants to know when nothing of a path is under way.
    fn give_up(&mut self, script: &mut Script<'_>) {
        if script.choose(2) == 0 {
            let request = RequestId(self.last_request.saturating_sub(script.choose(4) as u64));
            return self.step(PrimaryEvent::Cancel { request });
        }
        let path = PathNumber(1 + script.choose(2) as u64);
        if self.drains.len() < MAX_REQUESTS {
            self.drains.push(path);
            self.step(PrimaryEvent::Drain { path });
        }
    }

    /// An operator wants something.
    fn command(&mut self, script: &mut Script<'_>) {
        let replica = ReplicaId(script.choose(MAX_IDS as usize) as u128 + 1);
        let command = match script.choose(11) {
            0 => Command::Fail(replica),
            1 => Command::Remove(replica),
            2 => Command::ReAdd(replica),
            3 => {
                let mut view = self.coordinator.newest.clone();
                views::edit(script, &mut view);
                Command::Change(
                    [
                        Change::Protocol(view.protocol),
                        Change::Bitmap { bitmap: view.bitmap, slots: 1 + script.byte() % 4 },
                        Change::Intents(view.intents),
                        Change::RebuildLimit(view.rebuild_limit),
                        Change::Lease(view.lease),
                        Change::Reservation(views::reservation(script)),
                    ][script.choose(6)],
                )
            }
            4 => Command::Verify { repair: script.is_set(), source: None },
            5 => Command::Verify { repair: script.is_set(), source: Some(replica) },
            6 => Command::StopVerify,
            7 => {
                let other = ReplicaId(script.choose(MAX_IDS as usize) as u128 + 1);
                let role = [Role::Own, Role::Replaces(other), Role::Spare(None)][script.choose(3)];
                let (node, mirror) = (NodeId(replica.0 + 100), script.choose(3));
                Command::Add(Newcomer { id: replica, node, mirror, role })
            }
            8 => Command::Retire(replica),
            9 => Command::Grow(script.near(self.coordinator.newest.geometry.size + (1 << 20))),
            _ if script.is_rare() => Command::Detach,
            _ => Command::StopVerify,
        };
        self.last_request += 1;
        let id = CommandId(self.last_request);
        self.commands.push(id);
        self.step(PrimaryEvent::Command { id, command });
    }

    fn call_answered(&mut self, script: &mut Script<'_>) {
        if let Some((call, answer)) = self.coordinator.answer(script) {
            self.step(PrimaryEvent::Coordinator { call, answer });
        }
    }

    /// A connection that was asked for is there, or can't be made.
    fn connected(&mut self, script: &mut Script<'_>) {
        if self.dialled.is_empty() {
            return;
        }
        let replica = self.dialled.swap_remove(script.choose(self.dialled.len()));
        if script.byte() >= 208 {
            return self.step(PrimaryEvent::LinkDown { replica, link: None });
        }
        self.last_link += 1;
        let link = LinkId(self.last_link);
        self.links.insert(link, Link::new(replica));
        self.step(PrimaryEvent::LinkUp { replica, link });
    }

    fn some_link(&self, script: &mut Script<'_>) -> Option<LinkId> {
        let links: Vec<_> = self.links.keys().copied().collect();
        script.pick(&links)
    }

    fn cut(&mut self, script: &mut Script<'_>) {
        let Some(link) = self.some_link(script) else { return };
        let Some(Link { replica, .. }) = self.links.remove(&link) else { return };
        self.step(PrimaryEvent::LinkDown { replica, link: Some(link) });
    }

    fn live(&self, link: LinkId) -> Live {
        let link = &self.links[&link];
        Live {
            view: self.coordinator.newest.clone(),
            session: link.session,
            number: self.last_number,
            page: 0,
            replica: link.replica,
        }
    }

    /// A replica answers something that it was asked.
    fn answer(&mut self, script: &mut Script<'_>) {
        let Some(link) = self.some_link(script) else { return };
        let live = self.live(link);
        let Some(question) = self.links.get_mut(&link).and_then(|l| l.take(script)) else { return };
        let Some((answer, length)) = replicas::answer(script, &live, &question) else { return };
        if let Some(arrived) = wire::deliver(script, &answer, length) {
            self.deliver(link, arrived);
        }
    }

    /// A replica says anything.
    fn receive(&mut self, script: &mut Script<'_>) {
        let Some(link) = self.some_link(script) else { return };
        let message = menu::to_primary(script, &self.live(link));
        let length = script.length();
        let Some(arrived) = wire::deliver(script, &message, length) else { return };
        if script.is_rare() {
            self.repeat(link, &arrived);
        }
        self.deliver(link, arrived);
    }

    /// Says the same so often that it would be seen if each time something were kept of it.
    fn repeat(&mut self, link: LinkId, arrived: &Arrived) {
        let mut before = 0;
        for count in 0..FIRST + REPEATS {
            if count == FIRST {
                self.effects = Vec::new();
                before = memory::in_use();
            }
            if !self.links.contains_key(&link) {
                return;
            }
            self.deliver(link, arrived.clone());
        }
        self.effects = Vec::new();
        let after = memory::in_use();
        assert!(after < before + GROWTH, "{before} bytes grow to {after} by {:?}", arrived.0);
    }

    fn deliver(&mut self, link: LinkId, (message, payload): Arrived) {
        if self.links.contains_key(&link) {
            self.step(PrimaryEvent::Message { link, message, payload });
        }
    }

    fn wait(&mut self, script: &mut Script<'_>) {
        self.pass(Duration::from_millis(PAUSES[script.choose(PAUSES.len())]));
    }

    fn pass(&mut self, pause: Duration) {
        self.now = self.now + pause;
        let mut ticks = 0;
        while self.core.next_wakeup().is_some_and(|at| at <= self.now) {
            self.step(PrimaryEvent::Tick);
            ticks += 1;
            assert!(ticks < 16, "it wants to be woken up in the past again and again");
        }
    }

    fn step(&mut self, event: PrimaryEvent<Blank>) {
        script::log(|| format!("{:?} → {event:?}", self.now));
        let mut effects = std::mem::take(&mut self.effects);
        self.core.step(self.now, event, &mut effects);
        for effect in effects.drain(..) {
            script::log(|| format!("    {effect:?}"));
            self.carry_out(effect);
        }
        self.effects = effects;
        self.check_state();
    }

    /// It is told to detach and everybody is silent: in the end everybody has been answered (I11).
    fn end(&mut self) {
        self.last_request += 1;
        let id = CommandId(self.last_request);
        self.commands.push(id);
        self.step(PrimaryEvent::Command { id, command: Command::Detach });
        for _ in 0..64 {
            self.pass(Duration::from_secs(1));
        }
        assert!(self.has_ended, "it does not end");
        assert!(self.requests.is_empty() && self.commands.is_empty(), "somebody waits for ever");
    }
}

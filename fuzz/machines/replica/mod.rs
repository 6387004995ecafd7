//! A replica under a script: links come and go, anybody says anything over them, the disk succeeds
//! or fails in any order, time passes, and the process restarts with what its disk holds.

mod checks;
mod disk;
mod links;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use evenkeel_core::message::Opener;
use evenkeel_core::*;

use self::disk::Disk;
use self::links::Link;
use super::harness::Blank;
use super::memory;
use super::menu::{self, Live};
use super::script::{self, Script};
use super::views::{self, PRIMARIES};
use super::wire::{self, Arrived};

/// The longest script that is played.
const MAX_STEPS: usize = 600;
/// How often a message is repeated to see whether memory grows, and how much it may.
const REPEATS: usize = 1024;
const GROWTH: usize = 4 << 10;
/// How often it is said before that: the first ones may well be kept, here and there.
const FIRST: usize = 80;
/// How far time goes on in one step, in milliseconds.
const PAUSES: [u64; 8] = [0, 1, 20, 100, 250, 1000, 5000, 60_000];

/// A replica, its disk and whoever is connected.
pub struct Bench {
    core: Replica<Blank>,
    id: ReplicaId,
    now: Instant,
    incarnation: u64,
    disk: Disk,
    links: BTreeMap<LinkId, Link>,
    last_link: u64,
    last_session: u64,
    last_number: u64,
    /// Connections to sources that it has asked for.
    dialled: VecDeque<ReplicaId>,
    /// What it has asked, to be answered.
    asked: VecDeque<(LinkId, Message)>,
    effects: Vec<ReplicaEffect<Blank>>,
}

/// Plays a script.
pub fn play(input: &[u8]) {
    let script = &mut Script::new(input);
    let view = views::first(script);
    let records: Vec<_> = view.replicas().map(|(_, record)| record.id).collect();
    let id = script.pick(&records).unwrap_or(ReplicaId(1));
    let mut bench = Bench::new(view, id);
    for _ in 0..MAX_STEPS {
        if script.is_over() {
            break;
        }
        bench.act(script);
    }
    bench.end();
}

impl Bench {
    fn new(view: View, id: ReplicaId) -> Self {
        let now = Instant(1_000_000_000_000);
        let disk = Disk::new(view);
        let core = Replica::new(disk.config(id, 5), now);
        Self {
            core,
            id,
            now,
            incarnation: 5,
            disk,
            links: BTreeMap::new(),
            last_link: 0,
            last_session: 0,
            last_number: 0,
            dialled: VecDeque::new(),
            asked: VecDeque::new(),
            effects: Vec::new(),
        }
    }

    fn act(&mut self, script: &mut Script<'_>) {
        match script.choose(16) {
            0 => self.open_link(script),
            1 => self.close_link(script),
            2..=6 => self.receive(script),
            7..=9 => self.answer(script),
            10..=12 => self.complete(script),
            13 => self.wait(script),
            14 => self.connect(script),
            _ if script.is_rare() => self.restart(script),
            _ => self.complete_all(),
        }
    }

    /// Somebody connects and, mostly, opens a session.
    fn open_link(&mut self, script: &mut Script<'_>) {
        let link = self.new_link();
        self.step(ReplicaEvent::LinkOpened { link, from: None });
        if script.byte() < 32 {
            return;
        }
        self.last_session += 1;
        let session = SessionNumber(self.last_session);
        let (opener, named_incarnations) = (menu::opener(script), self.named_incarnations());
        self.deliver(link, (Message::OpenSession { session, opener, named_incarnations: named_incarnations.into() }, None));
    }

    fn new_link(&mut self) -> LinkId {
        self.last_link += 1;
        let link = LinkId(self.last_link);
        self.links.insert(link, Link::default());
        link
    }

    fn some_link(&self, script: &mut Script<'_>) -> Option<LinkId> {
        let links: Vec<_> = self.links.keys().copied().collect();
        script.pick(&links)
    }

    fn close_link(&mut self, script: &mut Script<'_>) {
        if let Some(link) = self.some_link(script) {
            self.links.remove(&link);
            self.step(ReplicaEvent::LinkClosed { link });
        }
    }

    fn live(&self) -> Live {
        Live {
            view: self.core.status().view,
            session: self.last_session,
            number: self.last_number,
            page: 0,
            replica: self.id,
        }
    }

    /// Any message over any link.
    fn receive(&mut self, script: &mut Script<'_>) {
        let Some(link) = self.some_link(script) else { return };
        if script.is_set() {
            self.last_number += 1;
        }
        let message = menu::to_replica(script, &self.live());
        let length = match &message {
            Message::Write { length, .. } => *length,
            _ => script.length(),
        };
        let Some(arrived) = wire::deliver(script, &message, length) else { return };
        if script.is_rare() && !links::is_admitted(&arrived.0) {
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

    /// An answer to something that it has asked.
    fn answer(&mut self, script: &mut Script<'_>) {
        let index = script.choose(self.asked.len());
        let Some((link, question)) = self.asked.remove(index) else { return };
        if !self.links.contains_key(&link) {
            return;
        }
        let source = self.links[&link].source;
        let Some((answer, length)) = links::answer(script, &self.live(), source, &question) else {
            return;
        };
        if let Some(arrived) = wire::deliver(script, &answer, length) {
            self.deliver(link, arrived);
        }
    }

    fn deliver(&mut self, link: LinkId, (message, payload): Arrived) {
        // What comes over a closed link is not heard.
        let Some(open) = self.links.get_mut(&link) else { return };
        open.arrives(&message);
        self.step(ReplicaEvent::Message { link, message, payload });
    }

    /// One disk action ends.
    fn complete(&mut self, script: &mut Script<'_>) {
        let Some((ticket, outcome)) = self.disk.complete(script) else { return };
        self.step(ReplicaEvent::Disk { ticket, outcome });
    }

    /// All disk actions under way end well, and what follows from them does, for a while.
    fn complete_all(&mut self) {
        let mut nothing = Script::new(&[]);
        for _ in 0..8 {
            self.complete(&mut nothing);
        }
    }

    /// The incarnations that an opener names: mostly those that the disk lists.
    fn named_incarnations(&self) -> Incarnations {
        match self.last_session % 8 {
            7 => Incarnations::of([Incarnation(1 << 40)]),
            _ => self.disk.incarnations(),
        }
    }

    /// The connection to a source is there, or can't be made.
    fn connect(&mut self, script: &mut Script<'_>) {
        let Some(replica) = self.dialled.pop_front() else { return };
        let link = (script.byte() < 224).then(|| self.new_link());
        if let Some(link) = link.and_then(|link| self.links.get_mut(&link)) {
            link.source = Some(replica);
        }
        self.step(ReplicaEvent::SourceLink { replica, link });
    }

    fn wait(&mut self, script: &mut Script<'_>) {
        let pause = Duration::from_millis(PAUSES[script.choose(PAUSES.len())]);
        self.now = self.now + pause;
        let mut ticks = 0;
        while self.core.next_wakeup().is_some_and(|at| at <= self.now) {
            self.step(ReplicaEvent::Tick);
            ticks += 1;
            assert!(ticks < 16, "it wants to be woken up in the past again and again");
        }
    }

    /// The process ends and begins anew with what is on the disk.
    fn restart(&mut self, script: &mut Script<'_>) {
        self.disk.crash(script);
        self.links.clear();
        self.dialled.clear();
        self.asked.clear();
        self.incarnation += 1;
        self.core = Replica::new(self.disk.config(self.id, self.incarnation), self.now);
        self.check_state();
    }

    fn step(&mut self, event: ReplicaEvent<Blank>) {
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

    fn carry_out(&mut self, effect: ReplicaEffect<Blank>) {
        match effect {
            ReplicaEffect::Send { link, message, payload } => {
                wire::check(&message, payload.as_ref());
                self.check_said(link, &message);
                self.remember(link, message);
            }
            ReplicaEffect::Disk { ticket, action } => {
                let view = self.core.status().view;
                self.disk.begin(ticket, action, &view, self.id);
            }
            ReplicaEffect::ConnectSource { replica, .. } => {
                assert!(self.disk.saved().replica(replica).is_some());
                self.dialled.push_back(replica);
            }
            ReplicaEffect::Disconnect { link } => {
                assert!(self.links.remove(&link).is_some(), "link {link} is closed twice");
            }
        }
    }

    fn remember(&mut self, link: LinkId, message: Message) {
        if links::is_question(&message) {
            if let Message::Drain { token, .. } | Message::Copy { token, .. } = &message {
                self.last_number = self.last_number.max(token.0);
            }
            self.asked.truncate(31);
            self.asked.push_front((link, message));
        }
    }

    /// Whatever has happened: when its disk has ended all, a primary of the view that connects is
    /// heard.
    fn end(&mut self) {
        for _ in 0..64 {
            self.complete_all();
        }
        let opener = Opener::Primary(PRIMARIES[0]);
        let link = self.new_link();
        self.step(ReplicaEvent::LinkOpened { link, from: None });
        let session = SessionNumber(u64::MAX);
        let named_incarnations = self.disk.incarnations();
        self.deliver(link, (Message::OpenSession { session, opener, named_incarnations: named_incarnations.into() }, None));
        for _ in 0..64 {
            self.complete_all();
        }
        let was_seen = self.links.get(&link).is_none_or(|link| link.was_seen);
        assert!(was_seen || self.disk.is_busy(), "a session is never opened");
    }
}

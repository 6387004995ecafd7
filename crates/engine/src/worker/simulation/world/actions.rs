//! What the world does: it asks, lets operations end, and answers for coordinators and helpers.

use super::super::client::{Stage, connection};
use super::super::coordinator::Manners;
use super::super::desk::Ask;
use super::super::model::{BLOCK, Violation};
use super::super::plan::Kind;
use super::{Connect, World};
use crate::ring::{Owner, Purpose};

impl World {
    /// One step.
    pub(super) fn act(&mut self) -> Result<(), Violation> {
        self.step += 1;
        self.now.0 += self.random.below(400_000);
        match self.random.below(100) {
            0..22 => self.ask(),
            22..58 => self.end_operation(),
            58..80 => {
                let (node, worker) = self.any_worker();
                self.turn(node, worker)?;
            }
            80..86 => self.coordinate(self.plan.faults.manners),
            86..88 => self.connect(self.plan.faults.refusals),
            88..92 => self.carry_out(),
            92..96 => self.keep_going(),
            _ => self.do_harm(),
        }
        self.hear()
    }

    pub(super) fn any_worker(&mut self) -> (usize, usize) {
        (self.random.index(self.plan.nodes), self.random.index(self.plan.workers))
    }

    fn ask(&mut self) {
        let (random, plan) = (&mut self.random, &self.plan);
        let clients = self.clients.iter().enumerate();
        let can_ask = clients.filter(|(_, it)| it.stage == Stage::Running);
        let idle: Vec<_> =
            can_ask.filter(|(_, it)| it.open.len() < plan.depth).map(|(at, _)| at).collect();
        if idle.is_empty() {
            return;
        }
        let client = random.pick(&idle);
        if random.chance(30) {
            return self.ask_aside(client);
        }
        let (kind, blocks) = (plan.pick_kind(random), plan.blocks(random));
        self.ask_for(client, kind, blocks);
    }

    pub(super) fn ask_for(&mut self, client: usize, kind: Kind, blocks: std::ops::Range<u64>) {
        self.names += 1;
        let (name, random) = (self.names, &mut self.random);
        let volume = self.clients[client].volume;
        let (offset, length) = (blocks.start * BLOCK, (blocks.end - blocks.start) * BLOCK);
        let value = (volume as u64 + 1) << 48 | name;
        let ask = match kind {
            Kind::Read => Ask::Read { offset, length: length as u32 },
            Kind::Write => {
                let durable = random.chance(200);
                Ask::Write { offset, length: length as u32, value, durable }
            }
            Kind::Zero => Ask::Zero { offset, length, unmap: random.chance(500) },
            Kind::Flush => Ask::Flush,
            Kind::Map => Ask::Map { offset, length },
        };
        let model = &mut self.volumes[volume].model;
        match kind {
            Kind::Write => model.begin(name, &blocks, value, self.step),
            Kind::Zero => model.begin(name, &blocks, 0, self.step),
            Kind::Read | Kind::Flush | Kind::Map => {}
        }
        if self.log {
            println!("{:?} of volume {volume} asks {name}: {ask:?}", self.clients[client].id);
        }
        self.clients[client].ask(name, ask, blocks, self.step);
        self.note("requests", name);
    }

    /// Something that is no request of its own.
    fn ask_aside(&mut self, client: usize) {
        self.names += 1;
        let open: Vec<u64> = self.clients[client].open.keys().copied().collect();
        match self.random.below(3) {
            0 if !open.is_empty() => {
                let given_up = self.random.pick(&open);
                self.clients[client].ask(self.names, Ask::Cancel(given_up), 0..0, self.step);
            }
            1 => self.clients[client].ask(self.names, Ask::Drain, 0..0, self.step),
            _ => self.clients[client].ring(),
        }
    }

    /// An operation ends that may.
    fn end_operation(&mut self) {
        let (node, worker) = self.any_worker();
        let bench = &mut self.nodes[node].workers[worker];
        let places = bench.can_end();
        if places.is_empty() {
            return;
        }
        let place = self.random.pick(&places);
        let owner = bench.ring().held()[place];
        let faults = self.plan.faults;
        let error = match self.random.below(10_000) {
            it if it < faults.interrupts && may_be_interrupted(owner) => {
                Some(self.random.pick(&[libc::EINTR, libc::EAGAIN]))
            }
            it if it < faults.errors && matches!(owner, Owner::Disk { .. }) => {
                Some(self.random.pick(&[libc::EIO, libc::EIO, libc::ENOSPC]))
            }
            it if it < faults.cuts && is_of_link(owner) => Some(libc::ECONNRESET),
            _ => None,
        };
        self.nodes[node].workers[worker].end(place, error);
        self.refusals += u64::from(error == Some(libc::ENOSPC));
        let what = if error.is_some() { "operations that failed" } else { "operations" };
        self.note(what, place as u64);
    }

    pub(super) fn coordinate(&mut self, manners: Manners) {
        let volume = self.random.index(self.volumes.len());
        self.coordinate_for(volume, manners);
    }

    pub(super) fn coordinate_for(&mut self, volume: usize, manners: Manners) {
        let answer = self.volumes[volume].coordinator.act(&mut self.random, manners);
        let Some((primary, call, answer)) = answer else { return };
        if self.log {
            println!("volume {volume}: {primary:?} is answered {call:?}: {answer:?}");
        }
        let asker = self.nodes.iter().find(|it| it.id == primary.node).expect("it is there");
        asker.engine.coordinator_answer(self.plan.shapes[volume].id, primary, call, answer);
        self.note("answers of the coordinator", call.0);
    }

    /// A connection is made that a worker has asked for, or refused, so often in a thousand times.
    pub(super) fn connect(&mut self, refusals: u64) {
        if self.connects.is_empty() {
            return;
        }
        let place = self.random.index(self.connects.len());
        let (from, Connect { volume, request, replica, to }) = self.connects.remove(place);
        let id = self.plan.shapes[volume].id;
        let connection = (!self.random.chance(refusals)).then(|| {
            let [ours, theirs] = connection(self.plan.sockets);
            let peer = self.nodes[from].id;
            self.nodes[to].engine.accept_link(id, replica, peer, theirs.into());
            ours.into()
        });
        self.note("connections", u64::from(connection.is_some()));
        self.nodes[from].engine.connected(id, request, connection);
    }

    fn carry_out(&mut self) {
        let (node, worker) = self.any_worker();
        let bench = &mut self.nodes[node].workers[worker];
        if bench.tasks() > 0 {
            bench.carry_out();
            self.note("tasks of helpers", worker as u64);
        }
    }
}

const fn is_of_link(owner: Owner) -> bool {
    matches!(owner, Owner::LinkSend { .. } | Owner::LinkReceive { .. })
}

/// What is tried again then.
const fn may_be_interrupted(owner: Owner) -> bool {
    match owner {
        Owner::Frontend { purpose, .. } => matches!(purpose, Purpose::Receive | Purpose::Send),
        Owner::Disk { .. } | Owner::Waker | Owner::LinkSend { .. } | Owner::LinkReceive { .. } => {
            true
        }
        Owner::Nobody => false,
    }
}

//! What the world does: it asks, lets operations end, lets time pass, and does harm.

use evenkeel_core::primary::{Command, Earlier, PrimaryConfig};
use evenkeel_core::{Incarnation, PrimaryId, Settings};

use super::super::client::{Client, Stage, connection};
use super::super::coordinator::Manners;
use super::super::desk::Ask;
use super::super::disks::Phase;
use super::super::model::{BLOCK, Violation};
use super::super::plan::Kind;
use super::{Connect, Told, World};
use crate::api::FrontendId;
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

    fn any_worker(&mut self) -> (usize, usize) {
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
            let [ours, theirs] = connection();
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

    /// Opens, attaches and adds what is not there.
    pub(super) fn keep_going(&mut self) {
        for replica in 0..self.replicas.len() {
            if self.replicas[replica].phase == Phase::Closed && self.random.chance(300) {
                self.open(replica);
            }
        }
        for volume in 0..self.volumes.len() {
            let count = self.clients_of(volume).count();
            if self.volumes[volume].primary.is_none() && self.random.chance(300) {
                self.attach(volume);
            } else if self.volumes[volume].primary.is_some()
                && !self.volumes[volume].is_detaching
                && count < self.plan.clients
            {
                self.add_client(volume);
            }
        }
    }

    pub(super) fn open(&mut self, replica: usize) {
        let node = self.replicas[replica].node;
        // Whoever is told that it is closed has looked whether its file is free.
        let Some(open) = self.replicas[replica].read(node) else { return };
        self.replicas[replica].phase = Phase::Opening;
        self.replicas[replica].refusals = self.refusals;
        let told = self.told.clone();
        self.orders += 1;
        let answer = move |result| told.put(Told::Opened(replica, result));
        self.nodes[node].engine.open_replica(open, answer);
    }

    pub(super) fn close(&mut self, replica: usize) {
        let it = &mut self.replicas[replica];
        it.phase = Phase::Closing;
        let (volume, id, told) = (self.plan.shapes[it.volume].id, it.id, self.told.clone());
        self.orders += 1;
        let answer = move |result| told.put(Told::Closed(replica, result));
        self.nodes[it.node].engine.close_replica(volume, id, answer);
    }

    pub(super) fn attach(&mut self, volume: usize) {
        let (shape, it) = (&self.plan.shapes[volume], &mut self.volumes[volume]);
        it.incarnation += 1;
        it.node = self.random.index(self.nodes.len());
        let node = &self.nodes[it.node];
        let id = PrimaryId { node: node.id, incarnation: Incarnation(it.incarnation) };
        it.primary = Some(id);
        let (settings, earlier) = (Settings::default(), Earlier::Ended);
        let config = PrimaryConfig { id, volume: shape.id, settings, earlier };
        let told = self.told.clone();
        self.orders += 1;
        node.engine.attach(config, None, move |result| told.put(Told::Attached(volume, result)));
    }

    pub(super) fn detach(&mut self, volume: usize) {
        self.volumes[volume].is_detaching = true;
        let (shape, told) = (&self.plan.shapes[volume], self.told.clone());
        self.orders += 1;
        let answer = move |result| told.put(Told::Detached(volume, result));
        let node = self.volumes[volume].node;
        self.nodes[node].engine.command(shape.id, Command::Detach, answer);
    }

    pub(super) fn add_client(&mut self, volume: usize) {
        let it = &mut self.volumes[volume];
        it.clients += 1;
        let (client, make) = Client::new(volume, FrontendId(it.clients));
        let (id, told, index) = (client.id, self.told.clone(), self.clients.len());
        self.clients.push(client);
        let shape = &self.plan.shapes[volume];
        self.orders += 1;
        let answer = move |result| told.put(Told::Added(index, result));
        let engine = &self.nodes[it.node].engine;
        engine.add_frontend(shape.id, id, "simulated".to_owned(), make, answer);
    }

    pub(super) fn remove(&mut self, client: usize) {
        let it = &mut self.clients[client];
        it.stage = Stage::Leaving;
        let (shape, told) = (&self.plan.shapes[it.volume], self.told.clone());
        self.orders += 1;
        let answer = move |result| told.put(Told::Removed(client, result));
        let node = self.volumes[it.volume].node;
        self.nodes[node].engine.remove_frontend(shape.id, it.id, answer);
    }

    /// Of all kinds of harm some are done, rarely: of ten thousand steps this is called in 400.
    fn do_harm(&mut self) {
        let faults = self.plan.faults;
        let comes = |random: &mut crate::seeds::Random, often: u64| random.chance(often * 2);
        if comes(&mut self.random, faults.flushes) {
            let node = self.random.index(self.nodes.len());
            let drive = self.random.index(self.nodes[node].drives.len());
            self.nodes[node].drives[drive].flush_failed();
            self.note("flushes of somebody that failed", drive as u64);
        }
        if comes(&mut self.random, faults.closes) {
            let replica = self.random.index(self.replicas.len());
            if self.replicas[replica].phase == Phase::Open {
                self.close(replica);
                self.note("closes", replica as u64);
            }
        }
        if comes(&mut self.random, faults.detaches) {
            let volume = self.random.index(self.volumes.len());
            if self.volumes[volume].primary.is_some() && !self.volumes[volume].is_detaching {
                self.detach(volume);
                self.note("detaches", volume as u64);
            }
        }
        if comes(&mut self.random, faults.partings) {
            let (node, other) = (self.random.index(self.nodes.len()), self.any_worker().0);
            let id = self.nodes[other].id;
            self.nodes[node].engine.disconnect(id);
            self.note("partings", node as u64);
        }
        if comes(&mut self.random, faults.pauses) {
            self.now.0 += self.random.below(8_000_000_000);
            self.note("pauses", 0);
        }
        let running: Vec<_> = (0..self.clients.len())
            .filter(|client| self.clients[*client].stage == Stage::Running)
            .collect();
        if running.is_empty() {
            return;
        }
        let client = self.random.pick(&running);
        if comes(&mut self.random, faults.removals) {
            self.remove(client);
            self.note("removals", client as u64);
        } else if comes(&mut self.random, faults.hang_ups) {
            self.clients[client].hang_up();
            self.note("hang-ups", client as u64);
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

//! The world: whatever is not a worker.

mod actions;
mod ending;
mod harm;
mod hearing;
mod orders;

use std::collections::BTreeMap;

use evenkeel_core::primary::CommandError;
use evenkeel_core::{Instant, PrimaryId, ReplicaId};

use super::client::{Client, Stage};
use super::coordinator::Coordinator;
use super::desk::look;
use super::disks::Replica;
use super::model::{Model, Violation};
use super::node::{Inbox, Node};
use super::plan::{DRIVES, Plan, Shape, first_view, node_id, replica_id};
use crate::api::ConnectRequest;
use crate::error::EngineError;
use crate::seeds::Random;

/// How often things happened.
pub(super) type Counts = BTreeMap<&'static str, u64>;

/// A volume, as the control plane knows it.
struct Volume {
    coordinator: Coordinator,
    model: Model,
    /// From when it is ordered until it has ended.
    primary: Option<PrimaryId>,
    /// Where that is.
    node: usize,
    is_serving: bool,
    is_detaching: bool,
    incarnation: u64,
    clients: u64,
}

/// A connection that a worker has asked for.
#[derive(Debug)]
struct Connect {
    volume: usize,
    request: ConnectRequest,
    replica: ReplicaId,
    /// The node that has it.
    to: usize,
}

/// The answer to an order.
#[derive(Debug)]
enum Told {
    Opened(usize, Result<(), EngineError>),
    Closed(usize, Result<(), EngineError>),
    Attached(usize, Result<(), EngineError>),
    Added(usize, Result<(), EngineError>),
    Removed(usize, Result<(), EngineError>),
    Commanded(usize, Result<(), CommandError>),
}

/// See the module's documentation.
pub(super) struct World {
    random: Random,
    plan: Plan,
    now: Instant,
    step: u64,
    nodes: Vec<Node>,
    volumes: Vec<Volume>,
    replicas: Vec<Replica>,
    clients: Vec<Client>,
    /// With the node that was ordered.
    told: Inbox<(usize, Told)>,
    /// Orders that are not answered, of each node.
    orders: Vec<usize>,
    /// Connections that workers have asked for, and of which node.
    connects: Vec<(usize, Connect)>,
    /// Operations that found no space: a flush that finds none fails for its own replica alone.
    refusals: u64,
    /// Whether nothing is wrong, and all that was has been overcome.
    is_calm: bool,
    /// The last name of a request.
    names: u64,
    pub(super) counts: Counts,
    /// Follows from all that has happened.
    pub(super) story: u64,
    pub(super) log: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::draw(&mut random);
        let now = Instant(1);
        let node = |index| Node::new(node_id(index), plan.workers, DRIVES, plan.memory, now);
        let nodes: Vec<_> = (0..plan.nodes).map(node).collect();
        let volumes = plan.shapes.iter().map(|shape| Volume {
            coordinator: Coordinator::new(first_view(shape)),
            model: Model::default(),
            primary: None,
            node: 0,
            is_serving: false,
            is_detaching: false,
            incarnation: 0,
            clients: 0,
        });
        let shapes = plan.shapes.iter().enumerate();
        let replicas = shapes.flat_map(|(number, shape)| replicas(&nodes, number, shape));
        Self {
            volumes: volumes.collect(),
            replicas: replicas.collect(),
            orders: vec![0; plan.nodes],
            random,
            plan,
            now,
            step: 0,
            nodes,
            clients: Vec::new(),
            told: Inbox::new(),
            connects: Vec::new(),
            refusals: 0,
            is_calm: false,
            names: 0,
            counts: Counts::new(),
            story: 0,
            log: false,
        }
    }

    /// Runs so many steps, and comes to an end.
    pub(super) fn run(&mut self, steps: u64) -> Result<(), Violation> {
        if self.log {
            println!("{:#?}", self.plan);
        }
        for _ in 0..steps {
            self.act()?;
        }
        self.end()
    }

    pub(super) const fn steps(&self) -> u64 {
        self.step
    }

    /// Notes that something happened, by which runs differ.
    fn note(&mut self, what: &'static str, with: u64) {
        *self.counts.entry(what).or_default() += 1;
        for byte in what.bytes().map(u64::from).chain([with]) {
            self.story = (self.story ^ byte).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if self.log {
            println!("{:6} {:12.6} {what} {with}", self.step, self.now.0 as f64 / 1e9);
        }
    }

    /// One worker takes a turn, and everybody hears of what it has done.
    fn turn(&mut self, node: usize, worker: usize) -> Result<(), Violation> {
        let untold = self.untold_on(node, worker);
        let has_heard = self.nodes[node].workers[worker].turn(self.now);
        self.hear()?;
        if let Some(replica) = untold.into_iter().find(|it| self.replicas[*it].is_untold())
            && has_heard
        {
            let id = self.replicas[replica].id;
            return Err(("W5", format!("{id:?} is not told that a flush of its drive failed")));
        }
        Ok(())
    }

    /// Replicas of this worker that have to be told of a failed flush.
    fn untold_on(&self, node: usize, worker: usize) -> Vec<usize> {
        let is_here = |it: &Replica| {
            let volume = self.plan.shapes[it.volume].id;
            it.node == node && volume.0 % self.plan.workers as u128 == worker as u128
        };
        let untold = self.replicas.iter().enumerate().filter(|(_, it)| is_here(it));
        untold.filter(|(_, it)| it.is_untold()).map(|(index, _)| index).collect()
    }

    /// What front ends have said and done.
    fn look_at_desks(&mut self) -> Result<(), Violation> {
        for index in 0..self.clients.len() {
            let (answered, wrong) = {
                let mut desk = look(&self.clients[index].desk);
                (std::mem::take(&mut desk.answered), desk.wrong.pop())
            };
            if let Some(wrong) = wrong {
                let client = &self.clients[index];
                return Err(("answers", format!("{:?} of {}: {wrong}", client.id, client.volume)));
            }
            for (name, outcome) in answered {
                self.is_answered(index, name, outcome)?;
            }
            self.clients[index].receive()?;
        }
        Ok(())
    }

    fn clients_of(&self, volume: usize) -> impl Iterator<Item = &Client> {
        let is_here = move |it: &&Client| it.volume == volume && it.stage != Stage::Gone;
        self.clients.iter().filter(is_here)
    }
}

/// The replicas of a volume.
fn replicas(nodes: &[Node], volume: usize, shape: &Shape) -> Vec<Replica> {
    let view = first_view(shape);
    let mut replicas = Vec::new();
    for (mirror, places) in shape.mirrors.iter().enumerate() {
        for (index, (node, drive)) in places.iter().copied().enumerate() {
            let place = (volume, node, mirror as u32);
            let drive = (drive, nodes[node].drives[drive].clone());
            let features = (shape.has_checksums, shape.has_fua);
            let id = replica_id(mirror, index);
            replicas.push(Replica::new(place, id, drive, &view, features));
        }
    }
    replicas
}

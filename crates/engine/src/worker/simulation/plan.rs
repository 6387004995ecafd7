//! What a seed draws: the volumes and where they are, how they are used, and which faults there
//! are.

use evenkeel_core::{
    CoordinatorId, Geometry, History, IntentLayout, MirrorView, NodeId, ReplicaId, ReplicaRecord,
    View, VolumeId,
};

use super::coordinator::Manners;
use super::disks::volume_id;
use super::model::BLOCK;
use super::node::Memory;
use crate::seeds::Random;

/// Bytes of a volume's mirror.
const SIZE: u64 = 2 << 20;
/// Blocks that are used at each of two places.
const BLOCKS: u64 = 40;
/// Drives of each node.
pub(super) const DRIVES: usize = 2;

/// A volume as it is drawn.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) id: VolumeId,
    /// Of each replica of each mirror: the node, and which of its drives.
    pub(super) mirrors: Vec<Vec<(usize, usize)>>,
    pub(super) has_checksums: bool,
    pub(super) has_fua: bool,
}

/// Of ten thousand steps, how many are such a fault.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    /// Of ten thousand operations that end: how many fail, and how many are interrupted.
    pub(super) errors: u64,
    pub(super) interrupts: u64,
    /// Flushes of somebody else on a drive.
    pub(super) flushes: u64,
    pub(super) closes: u64,
    pub(super) detaches: u64,
    /// Processes that are killed.
    pub(super) kills: u64,
    /// Front ends that are removed, and clients that hang up.
    pub(super) removals: u64,
    pub(super) hang_ups: u64,
    /// Of ten thousand operations on links, how many find these broken.
    pub(super) cuts: u64,
    /// Times that all links between two nodes are ended.
    pub(super) partings: u64,
    /// Of a thousand connections, how many are refused.
    pub(super) refusals: u64,
    /// Long pauses of everybody.
    pub(super) pauses: u64,
    pub(super) manners: Manners,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    pub(super) workers: usize,
    pub(super) shapes: Vec<Shape>,
    pub(super) clients: usize,
    pub(super) depth: usize,
    pub(super) memory: Memory,
    /// What fits into a socket.
    pub(super) sockets: usize,
    pub(super) faults: Faults,
    /// Most blocks of a request.
    longest: u64,
    weights: [u64; 5],
}

/// What a client may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Zero,
    Flush,
    Map,
}

impl Plan {
    pub(super) fn draw(random: &mut Random) -> Self {
        let (nodes, workers) = (1 + random.index(3), 1 + random.index(2));
        let mut weights = [35, 45, 6, 8, 4];
        weights.iter_mut().for_each(|weight| *weight *= random.pick(&[1, 1, 3]));
        let longest = random.pick(&[4, 16, 40]);
        // Two at least are of one worker.
        let count = 2 + random.index(3);
        let mut shape = |number| {
            let worker = if number < 2 { 0 } else { random.index(workers) };
            Self::draw_shape(random, (number, worker), nodes, workers)
        };
        let shapes = (0..count).map(&mut shape).collect();
        let tight = random.pick(&[16 << 10, 64 << 10, 1 << 20]);
        let worker = random.pick(&[128 << 10, 64 << 20, 64 << 20]);
        let link = random.pick(&[32 << 10, 1 << 20, 8 << 20]);
        let mut plan = Self {
            nodes,
            workers,
            shapes,
            clients: 1 + random.index(3),
            depth: 1 + random.index(8),
            memory: Memory { worker, volume: tight, link },
            sockets: random.pick(&[4 << 10, 64 << 10, 1 << 20]),
            faults: Faults::default(),
            longest,
            weights,
        };
        plan.draw_faults(random);
        plan
    }

    fn draw_shape(
        random: &mut Random,
        (number, worker): (usize, usize),
        nodes: usize,
        workers: usize,
    ) -> Shape {
        let replica = |random: &mut Random| (random.index(nodes), random.index(DRIVES));
        let mirror = |random: &mut Random| {
            let count = random.pick(&[1, 2, 2, 3]);
            (0..count).map(|_| replica(random)).collect::<Vec<_>>()
        };
        let count = random.pick(&[1, 1, 2]);
        Shape {
            id: volume_id(number, worker, workers),
            mirrors: (0..count).map(|_| mirror(random)).collect(),
            has_checksums: random.chance(700),
            has_fua: random.chance(300),
        }
    }

    /// Each kind of fault is there or not: without some of them others come that are rare beside
    /// them.
    fn draw_faults(&mut self, random: &mut Random) {
        let mut some = |most| random.fault(most);
        self.faults = Faults {
            errors: some(60),
            interrupts: some(300),
            flushes: some(30),
            closes: some(60),
            detaches: some(60),
            kills: some(30),
            removals: some(60),
            hang_ups: some(60),
            cuts: some(60),
            partings: some(60),
            refusals: some(500),
            pauses: some(60),
            manners: Manners { late: some(600), lost: some(300), repeated: some(500) },
        };
    }

    pub(super) fn pick_kind(&self, random: &mut Random) -> Kind {
        let kinds = [Kind::Read, Kind::Write, Kind::Zero, Kind::Flush, Kind::Map];
        let mut left = random.below(self.weights.iter().sum());
        for (kind, weight) in kinds.into_iter().zip(self.weights) {
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        Kind::Read
    }

    /// Blocks that a request is about.
    pub(super) fn blocks(&self, random: &mut Random) -> std::ops::Range<u64> {
        let first = random.pick(&[0, (SIZE / 2) / BLOCK]) + random.below(BLOCKS);
        first..first + 1 + random.below(self.longest)
    }

    /// All blocks that requests are about.
    pub(super) fn used(&self) -> [std::ops::Range<u64>; 2] {
        let end = BLOCKS + self.longest;
        [0, (SIZE / 2) / BLOCK].map(|first| first..first + end)
    }
}

pub(super) const fn node_id(index: usize) -> NodeId {
    NodeId(100 + index as u128)
}

pub(super) const fn replica_id(mirror: usize, index: usize) -> ReplicaId {
    ReplicaId(1000 + 100 * mirror as u128 + index as u128)
}

/// A volume's first view.
pub(super) fn first_view(shape: &Shape) -> View {
    let record = |mirror: usize, index: usize, node: usize| {
        ReplicaRecord::first(replica_id(mirror, index), node_id(node))
    };
    let mirrors = shape.mirrors.iter().enumerate().map(|(mirror, places)| MirrorView {
        replicas: (places.iter().enumerate()).map(|(i, it)| record(mirror, i, it.0)).collect(),
    });
    let size = SIZE * shape.mirrors.len() as u64;
    View {
        intents: IntentLayout { region: 1 << 20, places: 200, slots: 1 },
        ..View::first(
            shape.id,
            History(7),
            CoordinatorId(8),
            Geometry { size, block_size: BLOCK as u32, chunk: 64 << 10 },
            mirrors.collect(),
        )
    }
}

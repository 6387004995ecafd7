//! What a seed draws: the replica, how it is used, and which faults there are.

use std::ops::Range;

use evenkeel_core::*;
use evenkeel_format::{DATA_OFFSET, Superblock, metadata_offset, pages_per_bitmap};

use super::Sabotage;
use super::device::Faults;
use crate::seeds::Random;

/// Bytes of a region of the intent log.
pub(super) const REGION: u64 = 1 << 20;
/// Kinds of actions.
const KINDS: usize = 8;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) length: u64,
    pub(super) is_device: bool,
    pub(super) has_map: bool,
    pub(super) has_checksums: bool,
    pub(super) depth: usize,
    /// In ten thousand steps.
    pub(super) kills: u64,
    pub(super) cuts: u64,
    /// Whether it is cut above all while views and tables are saved.
    pub(super) cuts_saves: bool,
    /// In a thousand steps.
    pub(super) rot: u64,
    /// Of a thousand starts.
    pub(super) rebuilds: u64,
    pub(super) bitmap_pages: u64,
    /// Of a thousand steps, in how many a growth begins or goes on.
    pub(super) grows: u64,
    /// In ten thousand steps.
    pub(super) closes: u64,
    /// Of a thousand writes, how many are durable by themselves.
    pub(super) durable: u64,
    block: u64,
    weights: [u64; KINDS],
    hot: Vec<u64>,
    /// Of a thousand actions, how many are anywhere.
    anywhere: u64,
    faults: Faults,
}

impl Plan {
    pub(super) fn draw(random: &mut Random, sabotage: Sabotage) -> Self {
        let block = random.pick(&[512, 512, 4096]);
        let is_large = random.chance(150);
        let length = if is_large { 16 << 30 } else { (2 + random.below(30)) << 20 };
        let length = length + random.below(20) * block;
        let is_device = random.chance(600);
        let mut weights = [0; KINDS];
        for (weight, usual) in weights.iter_mut().zip([30, 40, 12, 6, 4, 3, 12, 3]) {
            let factor = random.pick(&[1, 1, 1, 3]);
            *weight = usual * factor;
        }
        let hot = 2 + random.below(8);
        let mut plan = Self {
            length,
            is_device,
            has_map: is_device && random.chance(900),
            has_checksums: random.chance(900),
            depth: 1 + random.index(16),
            kills: 0,
            cuts: 0,
            cuts_saves: false,
            rot: 0,
            rebuilds: random.pick(&[0, 200, 500]),
            bitmap_pages: pages_per_bitmap(length).min(4),
            grows: 0,
            closes: 0,
            durable: 0,
            block,
            weights,
            hot: (0..hot).map(|_| random.below(length.div_ceil(REGION))).collect(),
            anywhere: if is_large { 900 } else { random.pick(&[0, 100, 500]) },
            faults: Faults::default(),
        };
        if sabotage == Sabotage::CompareNothing {
            plan.has_checksums = true;
        }
        plan.draw_faults(random);
        if is_large {
            // Pages go only when an incarnation is long enough to fill the memory.
            (plan.kills, plan.cuts) = (plan.kills.min(2), plan.cuts.min(2));
            plan.weights[..2].iter_mut().for_each(|weight| *weight *= 4);
        }
        plan
    }

    /// Each kind of fault is there or not: without some of them others come that are rare beside
    /// them.
    fn draw_faults(&mut self, random: &mut Random) {
        let mut some = |most| random.fault(most);
        (self.kills, self.cuts, self.rot) = (some(40), some(40), some(10));
        self.faults = Faults {
            read: some(8),
            write: some(8),
            flush: some(60),
            drop: some(999),
            interrupt: some(150),
            short: some(200),
            torn: some(400),
            blocking: some(5),
            tables: 0,
            without_punch: some(1) != 0,
            without_zero_range: some(1) != 0,
            elsewhere: 0,
            space: 0,
            lost: 0,
        };
        // Drawn apart: older seeds tell what they told.
        let mut aside = random.aside();
        self.faults.elsewhere = aside.fault(10);
        self.faults.lost = aside.fault(400);
        self.grows = aside.fault(40);
        self.closes = aside.fault(15);
        self.faults.space = aside.fault(30);
        if random.chance(150) {
            self.cuts_saves = true;
            (self.cuts, self.faults.tables, self.faults.torn) = (self.cuts.max(1), 300, 500);
        }
    }

    pub(super) fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// From now on nothing goes wrong but what was done before.
    pub(super) fn calm(&mut self, faults: &mut Faults) {
        (self.kills, self.cuts, self.rot, self.cuts_saves) = (0, 0, 0, false);
        (self.grows, self.closes) = (0, 0);
        let Faults { without_punch, without_zero_range, .. } = *faults;
        *faults = Faults { without_punch, without_zero_range, ..Faults::default() };
    }

    pub(super) fn pick_kind(&self, random: &mut Random) -> usize {
        let mut left = random.below(self.weights.iter().sum());
        for (kind, weight) in self.weights.iter().enumerate() {
            if left < *weight {
                return kind;
            }
            left -= weight;
        }
        KINDS - 1
    }

    /// By how much the data are to grow; `None`: they are long enough.
    pub(super) fn growth(&self, random: &mut Random) -> Option<u64> {
        let most = if self.length > 1 << 30 { 4 << 20 } else { 24 << 20 };
        let is_small = random.chance(300);
        let more = random.below(if is_small { 1 << 20 } else { most }) / self.block * self.block;
        let is_long = self.length % (1 << 30) > 96 << 20;
        (!is_long && more > 0).then_some(more)
    }

    /// A region, mostly one of few.
    pub(super) fn region(&self, random: &mut Random) -> u64 {
        if random.chance(self.anywhere) {
            return random.below(self.length.div_ceil(REGION));
        }
        random.pick(&self.hot)
    }

    /// Bytes that an action is about.
    pub(super) fn range(&self, random: &mut Random, may_be_long: bool) -> Range<u64> {
        let region = self.region(random) * REGION;
        let space = REGION.min(self.length - region) / self.block;
        let start = region + random.below(space.min(64)) * self.block;
        let start = if random.chance(200) { region } else { start };
        let longest = match random.below(100) {
            0..70 => 2 * 4096,
            70..95 => 8 * 4096,
            _ if may_be_long => 3 << 20,
            _ => 160 << 10,
        };
        let blocks = 1 + random.below(longest / self.block);
        start..(start + blocks * self.block).min(self.length)
    }
}

pub(super) fn view(length: u64) -> View {
    let record = ReplicaRecord::first(ReplicaId(7), NodeId(1));
    View {
        intents: IntentLayout { region: REGION, places: 200, slots: 2 },
        ..View::first(
            VolumeId(5),
            History(7),
            CoordinatorId(8),
            Geometry { size: length, block_size: 512, chunk: 64 << 10 },
            vec![MirrorView { replicas: vec![record] }],
        )
    }
}

pub(in crate::disk) fn superblock_of(length: u64, has_checksums: bool) -> Superblock {
    Superblock {
        sequence: 1,
        volume: VolumeId(5),
        name: "simulated".to_owned(),
        replica: ReplicaId(7),
        mirror: 0,
        data_offset: DATA_OFFSET,
        data_length: length,
        incarnations: Incarnations::default(),
        saved: 0,
        metadata_offset: metadata_offset(length),
        has_checksums,
        view: view(length),
    }
}

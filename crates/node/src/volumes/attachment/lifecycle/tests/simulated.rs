//! The machine between an engine, a coordinator, a state directory and clients, all from one seed.
//! Clients are cut off between any two steps, tasks stand still, primaries are evicted, the
//! coordinator is away, the daemon is killed or stopped and starts anew.
//!
//! 2,000 runs; `EVENKEEL_LIFECYCLE_SEEDS=50000` makes more, `EVENKEEL_LIFECYCLE_SEED=39` one.

use std::collections::{BTreeMap, VecDeque};

use super::*;

mod world;

use world::World;

/// Steps with faults in a run.
const STEPS: u32 = 400;

/// Numbers from a seed (`SplitMix64`).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    /// True once in so many times.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

fn run(seed: u64) -> BTreeMap<&'static str, u32> {
    let mut world = World::new(Random(seed));
    for _ in 0..STEPS {
        world.disturb();
        world.go_on();
    }
    world.come_to_rest();
    world.judge();
    world.reached
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn whatever_is_cut_off_nothing_stays_half_done() {
    if let Some(seed) = number("EVENKEEL_LIFECYCLE_SEED") {
        println!("{:#?}", run(seed));
        return;
    }
    let seeds = number("EVENKEEL_LIFECYCLE_SEEDS").unwrap_or(2_000);
    let mut reached: BTreeMap<&'static str, u32> = BTreeMap::new();
    for seed in 0..seeds {
        let ran = std::panic::catch_unwind(|| run(seed));
        let Ok(ran) = ran else { panic!("EVENKEEL_LIFECYCLE_SEED={seed} repeats this") };
        for (what, times) in ran {
            *reached.entry(what).or_default() += times.min(1);
        }
    }
    println!("{reached:#?}");
    // A fault that nothing reaches proves nothing.
    for what in world::REACHED {
        let runs = u64::from(reached.get(what).copied().unwrap_or(0));
        assert!(runs * 20 >= seeds, "only {runs} runs of {seeds} have reached: {what}");
    }
}

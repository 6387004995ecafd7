use std::panic::{AssertUnwindSafe, catch_unwind};

use super::model::Violation;
use super::world::{Counts, World};
use crate::canary::{self, Canary};
use crate::seeds::{first_of_commit, number};

/// Steps in the run of a seed, before it comes to its end.
const STEPS: u64 = 3000;
/// Seeds of the sample.
const SAMPLE: u64 = 150;

/// What each fault and each oracle needs to be worth something.
const MARKS: [&str; 30] = [
    "answers of the coordinator",
    "cancelled",
    "changes",
    "closed",
    "closes",
    "connections",
    "detaches",
    "drains",
    "ends",
    "errors of disks",
    "failed flushes of others",
    "failures",
    "flushes",
    "flushes of somebody that failed",
    "front ends that ended",
    "hang-ups",
    "kills",
    "links that ended",
    "maps",
    "operations that failed",
    "partings",
    "pauses",
    "reads",
    "rebuilds",
    "removals",
    "removed",
    "replicas that left",
    "requests that wait",
    "serving",
    "tasks of helpers",
];

fn run(seed: u64, log: bool) -> (World, Result<(), Violation>) {
    let mut world = World::new(seed);
    world.log = log;
    let result = catch_unwind(AssertUnwindSafe(|| world.run(STEPS)));
    let result = result.unwrap_or_else(|_| Err(("panic", "it has said so".to_owned())));
    (world, result)
}

/// The first seed in which an oracle misses what is done wrong, after how many steps in all, and
/// what it says.
fn find(canary: Canary) -> Option<(u64, u64, Violation)> {
    canary::set(Some(canary));
    let mut steps = 0;
    let found = (0..500).find_map(|seed| {
        let (world, result) = run(seed, false);
        steps += world.steps();
        Some((seed, steps, result.err()?))
    });
    canary::set(None);
    found
}

#[test]
fn workers_keep_their_promises_whatever_ends_first() {
    let one = number("EVENKEEL_WORKER_SEED");
    let from = number("EVENKEEL_WORKER_FROM").unwrap_or_else(first_of_commit);
    let seeds = match (one, number("EVENKEEL_WORKER_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => from..from + count.unwrap_or(SAMPLE),
    };
    let mut total = Counts::new();
    let mut failed = 0;
    for seed in seeds.clone() {
        let (world, result) = run(seed, one.is_some());
        match result {
            Ok(()) => {
                let counts = world.counts.iter();
                counts.for_each(|(what, n)| *total.entry(*what).or_default() += n);
            }
            Err((oracle, why)) => {
                failed += 1;
                println!("seed {seed}: {oracle}: {why}");
            }
        }
    }
    println!("{} seeds: {total:#?}", seeds.end - seeds.start);
    if one.is_none() && failed == 0 {
        let missing: Vec<_> = MARKS.iter().filter(|mark| !total.contains_key(*mark)).collect();
        assert!(missing.is_empty(), "no seed came to {missing:?}");
    }
    assert!(
        failed == 0,
        "{failed} seeds failed; replay one with EVENKEEL_WORKER_SEED=N cargo test -p evenkeel-engine --lib worker::simulation::tests::workers -- --nocapture"
    );
}

/// The same seed tells the same story.
#[test]
fn a_seed_is_reproducible() {
    for seed in 0..5 {
        let told = |(world, result): (World, _)| (world.story, world.counts, result);
        assert_eq!(told(run(seed, false)), told(run(seed, false)), "seed {seed}");
    }
}

/// Each oracle misses what is done wrong on purpose.
#[test]
fn every_canary_is_found() {
    let canaries = [
        Canary::AnswerByNumber,
        Canary::AnswerNext,
        Canary::FailUnheard,
        Canary::KeepRooms,
        Canary::ReuseKey,
        Canary::ShareNoDrive,
        Canary::WakeOne,
    ];
    let mut unseen = Vec::new();
    for canary in canaries {
        match find(canary) {
            Some((seed, steps, (oracle, why))) => {
                println!("| {canary:?} | {oracle} | {seed} | {steps} | {why}");
            }
            None => unseen.push(canary),
        }
    }
    assert!(unseen.is_empty(), "no oracle misses {unseen:?}");
}

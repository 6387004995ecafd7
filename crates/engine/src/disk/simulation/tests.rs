use super::Sabotage;
use super::device::Lie;
use super::model::Violation;
use super::world::{Counts, World};
use crate::seeds::{first_of_commit, number};

/// Actions in the run of a seed.
const ACTIONS: u64 = 1400;
/// Seeds of the sample.
const SAMPLE: u64 = 60;

/// Seeds that a mistake was found by: each save of a view began with the same superblock (1),
/// flushes were believed beside one that failed (2); of the oracles: the first table of all was
/// torn (100841), a zeroing changed nothing (100945), a growth forgot the last part after a change
/// that had begun before it (203873327962322). In 9 pages of checksums come and go.
const KEPT: [u64; 6] = [1, 2, 9, 100_841, 100_945, 203_873_327_962_322];

/// What each fault and each oracle needs to be worth something.
const MARKS: [&str; 29] = [
    "bitmaps",
    "closes",
    "closes with operations under way",
    "damage",
    "durable writes",
    "failed flushes of others",
    "failures",
    "flushes",
    "flushes that failed unasked",
    "growths",
    "growths that failed",
    "kills",
    "maps",
    "power cuts",
    "power cuts while a table is saved again",
    "power cuts while room is made",
    "reads",
    "rot",
    "space runs out, or is there again",
    "starts from one superblock, as the other is lost",
    "starts that failed",
    "starts with lost sectors",
    "steps of growths",
    "steps while pages go",
    "tables",
    "tables that close",
    "views",
    "writes",
    "zeroings",
];

fn run(seed: u64, sabotage: Sabotage, log: bool) -> Result<Counts, Violation> {
    let mut world = World::new(seed, sabotage);
    world.log = log;
    world.run(ACTIONS)?;
    Ok(world.counts)
}

/// The first seed in which an oracle misses what is done wrong, after how many actions in all, and
/// what it says.
fn find(sabotage: Sabotage) -> Option<(u64, u64, Violation)> {
    let mut actions = 0;
    (0..500).find_map(|seed| {
        let mut world = World::new(seed, sabotage);
        let found = world.run(ACTIONS).err();
        actions += world.actions();
        Some((seed, actions, found?))
    })
}

#[test]
fn a_disk_keeps_its_promises_on_a_device_that_fails() {
    let one = number("EVENKEEL_DISK_SEED");
    let from = number("EVENKEEL_DISK_FROM").unwrap_or_else(first_of_commit);
    let seeds = match (one, number("EVENKEEL_DISK_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => from..from + count.unwrap_or(SAMPLE),
    };
    let kept = KEPT.iter().copied().filter(|_| one.is_none());
    let mut total = Counts::new();
    let mut failed = 0;
    for seed in kept.chain(seeds.clone()) {
        match run(seed, Sabotage::Nothing, one.is_some()) {
            Ok(counts) => {
                counts.into_iter().for_each(|(what, n)| *total.entry(what).or_default() += n)
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
        "{failed} seeds failed; replay one with EVENKEEL_DISK_SEED=N cargo test -p evenkeel-engine --lib simulation -- --nocapture"
    );
}

/// The same seed tells the same story.
#[test]
fn a_seed_is_reproducible() {
    let reported = |seed| run(seed, Sabotage::Nothing, false).expect("it holds");
    assert_eq!(reported(3), reported(3));
}

/// Each oracle misses what is done wrong on purpose.
#[test]
fn every_canary_is_found() {
    let lies = [
        Lie::LoseWrites,
        Lie::IgnoreFlushes,
        Lie::IgnoreDurability,
        Lie::IgnoreDurableWrites,
        Lie::CountShortAsWhole,
        Lie::LoseMarks,
        Lie::LosePages,
        Lie::NeverEnd,
    ];
    let mistakes = [
        Sabotage::KeepChecksums,
        Sabotage::CompareNothing,
        Sabotage::ForgetUnsaved,
        Sabotage::BelieveFlushes,
        Sabotage::ShareNoDrive,
        Sabotage::TellNoFailures,
        Sabotage::CountFailedTables,
        Sabotage::WriteOneSlotFirst,
        Sabotage::SkipZeroing,
        Sabotage::LoseCarried,
        Sabotage::ForgetSpace,
        Sabotage::CloseAtOnce,
        Sabotage::CountRefusals,
    ];
    let mut unseen = Vec::new();
    for sabotage in lies.map(Sabotage::Device).into_iter().chain(mistakes) {
        match find(sabotage) {
            Some((seed, actions, (oracle, why))) => {
                println!("| {sabotage:?} | {oracle} | {seed} | {actions} | {why}");
            }
            None => unseen.push(sabotage),
        }
    }
    assert!(unseen.is_empty(), "no oracle misses {unseen:?}");
}

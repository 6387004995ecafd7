use super::*;
use crate::sabotage::Sabotage;

/// Seeds that every test run takes.
const SEEDS: u64 = 40;

fn must_pass(seed: u64) -> Outcome {
    let outcome = run(seed, None, Log::Off);
    if outcome.failure.is_some() {
        panic!("{}", report(&run(seed, None, Log::Story(Default::default()))));
    }
    outcome
}

#[test]
fn the_first_seeds_pass() {
    for seed in 0..SEEDS {
        must_pass(seed);
    }
}

/// `seeds.txt`: seeds that found something, each with a sentence. Most did so before rebuilds that count
/// ahead were drawn, so each is run with and without them.
#[test]
fn the_seeds_that_failed_once_pass() {
    for line in include_str!("../../seeds.txt").lines().filter(|l| !l.starts_with('#')) {
        let Some(word) = line.split_whitespace().next() else { continue };
        let seed = word.parse().expect("each line begins with a seed");
        for counts in [false, true] {
            let profile = Profile::draw(seed).counting(counts);
            let failure = run_as(seed, profile, None, Log::Off).failure;
            assert!(failure.is_none(), "seed {seed}, --count-ahead {counts}: {failure:?}");
        }
    }
}

#[test]
fn one_seed_gives_one_history() {
    for seed in 3..6 {
        let [a, b] = [(); 2].map(|()| run(seed, None, Log::Off).counters);
        assert_eq!((a.events, a.operations, a.time), (b.events, b.operations, b.time));
    }
}

/// Within so many seeds a canary is found; the last one, `CountOnLonger`, in seed 389 today.
const MAX_SEEDS: u64 = 1000;

/// Which oracle finds a fault, in which seed, and after how many operations in all.
fn finds(run: impl Fn(u64) -> Outcome) -> Option<(&'static str, u64, u64)> {
    let mut operations = 0;
    (0..MAX_SEEDS).find_map(|seed| {
        let outcome = run(seed);
        operations += outcome.counters.operations;
        outcome.failure.map(|violation| (violation.oracle, seed, operations))
    })
}

#[test]
fn every_canary_is_found() {
    for sabotage in Sabotage::ALL {
        let found = finds(|seed| run(seed, Some(sabotage), Log::Off));
        println!("{sabotage:?}: {found:?}");
        assert!(found.is_some(), "{sabotage:?} was not found");
    }
}

/// Each invariant has a canary that its oracle finds though all others are silent.
#[test]
fn each_oracle_finds_a_canary_by_itself() {
    let canaries = [
        ("I1", Sabotage::IgnoreFlushes),
        ("I2", Sabotage::ReadStale),
        ("I2", Sabotage::CountOnLonger),
        ("I3", Sabotage::ForgetViews),
        ("I4", Sabotage::LoseWrites),
        ("I5", Sabotage::ForgetIntents),
        ("I5", Sabotage::CountFailedTables),
        ("I6", Sabotage::RotUnseen),
        ("I7", Sabotage::CopyEverything),
        ("I8", Sabotage::TakeOverAll),
        ("I9", Sabotage::CryDamage),
        ("I10", Sabotage::CopyLate),
        ("I11", Sabotage::DropReplies),
        ("I12", Sabotage::ClaimElsewhere),
        ("I13", Sabotage::MistakeHosts),
        ("V6", Sabotage::GiveUpEarly),
        ("W7", Sabotage::ForgetBits),
    ];
    for (oracle, sabotage) in canaries {
        let found = finds(|seed| run_judged_by(oracle, seed, sabotage));
        println!("{oracle} finds {sabotage:?}: {found:?}");
        assert_eq!(found.map(|(by, ..)| by), Some(oracle), "it does not find {sabotage:?}");
    }
}

/// A batch reaches everything that is interesting; otherwise it proves nothing.
#[test]
fn a_batch_reaches_every_mark() {
    let mut totals = Totals::default();
    for seed in 1000..2400 {
        totals.add(&run(seed, None, Log::Off));
        if totals.marks.missing().is_empty() {
            return;
        }
    }
    panic!("never reached: {:#?}", totals.marks.missing());
}

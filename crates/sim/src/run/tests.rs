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

/// `seeds.txt`: seeds that found something, each with a sentence.
#[test]
fn the_seeds_that_failed_once_pass() {
    for line in include_str!("../../seeds.txt").lines().filter(|l| !l.starts_with('#')) {
        let Some(word) = line.split_whitespace().next() else { continue };
        must_pass(word.parse().expect("each line begins with a seed"));
    }
}

#[test]
fn one_seed_gives_one_history() {
    for seed in 3..6 {
        let [a, b] = [(); 2].map(|()| run(seed, None, Log::Off).counters);
        assert_eq!((a.events, a.operations, a.time), (b.events, b.operations, b.time));
    }
}

/// Within so many operations, several hundred seeds, a canary is found.
const MAX_OPERATIONS: u64 = 1_000_000;

/// Which oracle finds a fault, and after how many operations, if one does within so many.
fn finds(most_operations: u64, run: impl Fn(u64) -> Outcome) -> Option<(&'static str, u64)> {
    let mut operations = 0;
    for seed in 0.. {
        let outcome = run(seed);
        operations += outcome.counters.operations;
        if let Some(violation) = outcome.failure {
            return Some((violation.oracle, operations));
        }
        if operations > most_operations {
            return None;
        }
    }
    None
}

#[test]
fn every_canary_is_found() {
    for sabotage in Sabotage::ALL {
        let found = finds(MAX_OPERATIONS, |seed| run(seed, Some(sabotage), Log::Off));
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
        ("I6", Sabotage::RotUnseen),
        ("I7", Sabotage::CopyEverything),
        ("I8", Sabotage::TakeOverAll),
        ("I9", Sabotage::CryDamage),
        ("I10", Sabotage::CopyLate),
        ("I11", Sabotage::DropReplies),
        ("I12", Sabotage::ClaimElsewhere),
        ("I13", Sabotage::MistakeHosts),
        ("W7", Sabotage::ForgetBits),
    ];
    for (oracle, sabotage) in canaries {
        let found = finds(MAX_OPERATIONS, |seed| run_judged_by(oracle, seed, sabotage));
        println!("{oracle} finds {sabotage:?}: {found:?}");
        assert_eq!(found.map(|(by, _)| by), Some(oracle), "it does not find {sabotage:?}");
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

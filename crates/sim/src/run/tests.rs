use super::*;
use crate::marks::RARE;
use crate::reduction::Kind;
use crate::sabotage::Sabotage;

/// Seeds that every test run takes.
const SEEDS: u64 = 40;

fn must_pass(seed: u64) -> Outcome {
    let outcome = run(seed, None, Log::Off);
    if outcome.failure.is_some() {
        panic!("{}", Run::of(seed).report(&run(seed, None, Log::story())));
    }
    outcome
}

#[test]
fn the_first_seeds_pass() {
    for seed in 0..SEEDS {
        must_pass(seed);
    }
}

/// `seeds.txt`: seeds that found something, each with a sentence. Most did so before rebuilds that
/// count ahead were drawn, so each is run with and without them; and before checksums were
/// forgotten, so that is left out unless the sentence begins with it.
#[test]
fn the_seeds_that_failed_once_pass() {
    for line in include_str!("../../seeds.txt").lines().filter(|l| !l.starts_with('#')) {
        let Some(word) = line.split_whitespace().next() else { continue };
        let seed = word.parse().expect("each line begins with a seed");
        for counts in [false, true] {
            let forgets = line.contains("checksums forgotten:");
            let profile = Profile::draw(seed).counting(counts).forgetting(forgets);
            let failure = Run { profile, ..Run::of(seed) }.go(Log::Off).failure;
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

/// Within so many seeds each canary is found; docs/simulator.md says in which.
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
        ("I2", Sabotage::TrustClones),
        ("I2", Sabotage::SleepUnseen),
        ("I3", Sabotage::ForgetViews),
        ("I4", Sabotage::LoseWrites),
        ("I5", Sabotage::ForgetIntents),
        ("I5", Sabotage::CountFailedTables),
        ("I6", Sabotage::RotUnseen),
        ("I7", Sabotage::CopyEverything),
        ("I8", Sabotage::TakeOverAll),
        ("I9", Sabotage::CryDamage),
        ("I9", Sabotage::TrustForgotten),
        ("I9", Sabotage::CopyForgotten),
        ("I10", Sabotage::CopyLate),
        ("I11", Sabotage::DropReplies),
        ("I12", Sabotage::ClusterLockElsewhere),
        ("I13", Sabotage::MistakeHosts),
        ("I14", Sabotage::CancelSent),
        ("I14", Sabotage::CancelHalf),
        ("I14", Sabotage::DrainEarly),
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

#[test]
fn each_rare_mark_is_reached_by_its_seed() {
    for (mark, seed) in RARE {
        let mut totals = Totals::default();
        totals.add(&run(seed, None, Log::Off));
        assert!(totals.marks.count(mark) > 0, "{mark:?} is not reached by seed {seed} any more");
    }
}

/// With a tape and nothing left out, a run is the one that was recorded, and that is the seed's
/// own.
#[test]
fn a_replayed_run_is_the_recorded_one() {
    for seed in 0..SEEDS / 2 {
        let (recorded, tape) = Run::of(seed).record();
        let replayed = Run::of(seed).replay(&tape, Log::Off);
        let own = run(seed, None, Log::Off);
        let reported = |o: &Outcome| (o.counters.events, o.counters.time, o.struck.clone());
        assert_eq!(reported(&recorded), reported(&own), "seed {seed}");
        assert_eq!(reported(&replayed), reported(&own), "seed {seed}");
    }
}

/// Without a kind of fault all others come as they did, by their numbers.
#[test]
fn without_a_fault_all_others_are_the_same() {
    let mut compared = 0;
    for seed in 0..SEEDS {
        let whole = run(seed, None, Log::Off);
        let Some((_, fault)) = whole.struck.first().copied() else { continue };
        let without = vec![Kind::Fault(fault)];
        let reduction = Reduction { without, ..Reduction::default() };
        let reduced = Run { reduction, ..Run::of(seed) }.go(Log::Off);
        assert!(reduced.failure.is_none(), "seed {seed} without {fault:?}: {:?}", reduced.failure);
        let others: Vec<_> = whole.struck.iter().filter(|(_, kind)| *kind != fault).collect();
        let both = reduced.struck.iter().zip(&others);
        assert!(both.clone().all(|(a, b)| a == *b), "seed {seed} without {fault:?}");
        compared += both.count();
    }
    assert!(compared > 500, "only {compared} faults were compared");
}

#[test]
fn a_run_stops_at_what_is_awaited() {
    let until = |words: &str| Run::of(3).go(Log::until(words));
    let committed = until("commits generation 2");
    assert!(committed.is_stopped && committed.failure.is_none());
    let last = committed.story.last().expect("there is a log");
    assert!(last.contains("commits generation 2"), "{last}");
    for part in [
        "the coordinator; committed last: generation 2",
        "node 0 is up",
        "primary 0 on node",
        "replica 0 of mirror 0",
    ] {
        assert!(committed.state.contains(part), "{part}: {}", committed.state);
    }
    let timed = until("0.5");
    assert!(timed.is_stopped && timed.counters.time >= 500_000_000);
    assert!(timed.counters.time < run(3, None, Log::Off).counters.time);
    assert!(!until("nothing says this").is_stopped);
}

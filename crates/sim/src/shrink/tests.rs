use super::*;
use crate::sabotage::Sabotage;

/// Runs that shrinking one failure may take here.
const RUNS: u64 = 500;

/// Faults and operations that a shrunk run still has at most.
const FAULTS: usize = 3;
/// Faults of a run that is shrunk, at most.
const MANY: u64 = 200;
const OPERATIONS: usize = 40;
/// The part of a long run's operations that may be left instead: from many, those are less often
/// found without which others would do.
const PART: usize = 30;

/// The first run in which a canary does harm, and by which oracle that is found. Of one that makes
/// something wait for ever (I11) the moment is not known, and more faults have to be left. So have
/// they of a run in which that many went before.
fn finds(sabotage: Sabotage) -> (Run, &'static str) {
    let runs = (0..50).map(|seed| Run { sabotage: Some(sabotage), ..Run::of(seed) });
    let outcomes = runs.map(|run| (run.go(Log::Off), run));
    let mut found = outcomes.filter_map(|(outcome, run)| {
        let is_short = outcome.counters.faults <= MANY;
        let oracle = outcome.failure.filter(|_| is_short)?.oracle;
        (oracle != "I11").then_some((run, oracle))
    });
    found.next().expect("some seed finds it")
}

#[test]
fn what_canaries_break_is_shrunk() {
    let canaries = [
        Sabotage::AcknowledgeEarly,
        Sabotage::TakeOverAll,
        Sabotage::AssembleWithout,
        Sabotage::ForgetBits,
        Sabotage::ForgetViews,
        Sabotage::ReadStale,
    ];
    let (mut before, mut after) = (0, 0);
    for sabotage in canaries {
        let (run, broken) = finds(sabotage);
        let shrunk = shrink(&run, |runs| runs < RUNS).expect("it fails");
        println!("{sabotage:?} in seed {}: {:?}, {} runs", run.seed, shrunk.sizes, shrunk.runs);
        let (was, left) = shrunk.sizes;
        assert!(shrunk.runs <= RUNS, "{sabotage:?}: {} runs", shrunk.runs);
        let operations = OPERATIONS.max(was.operations / PART);
        assert!(left.faults <= FAULTS && left.operations <= operations, "{sabotage:?}: {left}");
        before += was.faults + was.operations;
        after += left.faults + left.operations;

        // What is printed repeats it.
        let again = shrunk.run.go(Log::Off);
        assert_eq!(again.failure.map(|violation| violation.oracle), Some(broken), "{sabotage:?}");
        assert_eq!(again.counters.time, shrunk.outcome.counters.time, "{sabotage:?}");
        assert!(shrunk.report().contains(&shrunk.run.command()));
    }
    assert!(after * 10 < before, "{before} faults and operations were left as {after}");
}

/// The same failure is shrunk to the same run.
#[test]
fn shrinking_is_deterministic() {
    let (run, _) = finds(Sabotage::TakeOverAll);
    let [a, b] = [(); 2].map(|()| shrink(&run, |runs| runs < RUNS).expect("it fails"));
    assert_eq!((a.run.reduction, a.runs), (b.run.reduction, b.runs));
}

/// Whatever the bound, what has been reached by then fails.
#[test]
fn a_shrink_that_runs_out_of_time_still_fails() {
    let (run, broken) = finds(Sabotage::AssembleWithout);
    let shrunk = shrink(&run, |runs| runs < 20).expect("it fails");
    assert!(!shrunk.is_complete && shrunk.runs <= 20);
    let again = shrunk.run.go(Log::Off);
    assert_eq!(again.failure.map(|violation| violation.oracle), Some(broken));
}

#[test]
fn what_does_not_fail_is_not_shrunk() {
    assert!(shrink(&Run::of(0), |_| true).is_none());
}

/// A crash of the core at another place is another failure.
#[test]
fn panics_are_told_apart_by_their_words() {
    let panic = |text: &str| signature(&Violation::new("panic", text));
    assert_eq!(panic("index 4 of 3, at a.rs:12:4"), panic("index 5 of 2, at a.rs:12:4"));
    assert_ne!(panic("index 4 of 3, at a.rs:12:4"), panic("no view, at b.rs:1:1"));
    let broken = |text: &str| signature(&Violation::new("I4", text));
    assert_eq!(broken("a write"), broken("a flush"));
}

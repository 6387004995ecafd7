//! Running seeds: one after the other, with a story for each failure.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cluster::{Cluster, Counters};
use crate::log::Log;
use crate::marks::Marks;
use crate::oracles::Violation;
use crate::profile::Profile;
use crate::sabotage::Sabotage;

thread_local! {
    /// Where this thread panicked last, as far as [`note_panics`] has been called.
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on panics are not printed: the outcome of a run that ends with one says what, and in which file
/// and line.
pub fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        PANICKED_AT.with(|at| *at.borrow_mut() = place);
    }));
}

/// What became of one seed.
#[derive(Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What it did.
    pub counters: Counters,
    /// What it reached.
    pub marks: Marks,
    /// The invariant that it broke, if it did.
    pub failure: Option<Violation>,
    /// The last events before the failure, if they were asked for.
    pub story: Vec<String>,
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, sabotage: Option<Sabotage>, log: Log) -> Outcome {
    run_as(seed, Profile::draw(seed), sabotage, log)
}

/// Runs one seed with a profile that is not the drawn one.
#[must_use]
pub fn run_as(seed: u64, profile: Profile, sabotage: Option<Sabotage>, log: Log) -> Outcome {
    outcome(seed, Cluster::new(seed, profile, sabotage, log))
}

/// Runs one seed with one canary, judged by one oracle alone.
#[must_use]
pub fn run_judged_by(oracle: &'static str, seed: u64, sabotage: Sabotage) -> Outcome {
    let mut cluster = Cluster::new(seed, Profile::draw(seed), Some(sabotage), Log::Off);
    cluster.judge_only(oracle);
    let mut outcome = outcome(seed, cluster);
    // What ends a run is not of any oracle's choosing.
    outcome.failure.take_if(|violation| violation.oracle != oracle);
    outcome
}

fn outcome(seed: u64, mut cluster: Cluster) -> Outcome {
    let result = catch_unwind(AssertUnwindSafe(|| cluster.run()));
    let failure = match result {
        Ok(result) => result.err(),
        Err(panic) => Some(Violation::new("panic", panic_text(panic.as_ref()))),
    };
    Outcome {
        seed,
        counters: cluster.counters(),
        marks: cluster.marks.clone(),
        failure,
        story: cluster.log.story().cloned().collect(),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
    match PANICKED_AT.with(RefCell::take) {
        Some(place) => format!("{text}, at {place}"),
        None => text.to_owned(),
    }
}

/// Sums over many seeds.
#[derive(Debug, Default)]
pub struct Totals {
    /// Seeds that broke nothing.
    pub passed: u64,
    /// Seeds that broke an invariant.
    pub failed: u64,
    /// What they did.
    pub counters: Counters,
    /// What they reached.
    pub marks: Marks,
}

impl Totals {
    /// Adds one seed's outcome.
    pub fn add(&mut self, outcome: &Outcome) {
        match outcome.failure {
            None => self.passed += 1,
            Some(_) => self.failed += 1,
        }
        self.counters.operations += outcome.counters.operations;
        self.counters.faults += outcome.counters.faults;
        self.counters.events += outcome.counters.events;
        self.counters.time += outcome.counters.time;
        self.marks.add(&outcome.marks);
    }
}

/// What a person needs to know of a failure: the invariant, the last events, how to replay it.
#[must_use]
pub fn report(outcome: &Outcome) -> String {
    let Some(failure) = &outcome.failure else { return String::new() };
    let mut text =
        format!("seed {}: {} is broken\n  {}\n", outcome.seed, failure.oracle, failure.text);
    if !outcome.story.is_empty() {
        text += "the last events (virtual seconds):\n";
        for line in &outcome.story {
            text += line;
            text.push('\n');
        }
    }
    text + &format!(
        "replay: cargo run -p evenkeel-sim --profile sim -- --seed {} --log\n",
        outcome.seed
    )
}

#[cfg(test)]
mod tests;

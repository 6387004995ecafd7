//! Running seeds: one after the other, with a story for each failure.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::cluster::{Cluster, Counters, Stop};
use crate::log::Log;
use crate::marks::Marks;
use crate::oracles::Violation;
use crate::profile::{Fault, Profile};
use crate::random::Random;
use crate::reduction::Reduction;
use crate::sabotage::Sabotage;
use crate::tape::{Recorder, Tape};

thread_local! {
    /// Where this thread panicked last, as far as [`note_panics`] has been called.
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on panics are not printed: the outcome of a run that ends with one says what, and in
/// which file and line.
pub fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        PANICKED_AT.with(|at| *at.borrow_mut() = place);
    }));
}

/// One run: a seed, and what is done with it.
#[derive(Debug, Clone)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// What it simulates.
    pub profile: Profile,
    /// What the driver does wrong on purpose.
    pub sabotage: Option<Sabotage>,
    /// What is left out.
    pub reduction: Reduction,
}

/// What became of one run.
#[derive(Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What it did.
    pub counters: Counters,
    /// What it reached.
    pub marks: Marks,
    /// The faults that were carried out, with their numbers.
    pub struck: Vec<(u64, Fault)>,
    /// The invariant that it broke, if it did.
    pub failure: Option<Violation>,
    /// Whether it was stopped where it was to be.
    pub is_stopped: bool,
    /// The last events, if they were asked for.
    pub story: Vec<String>,
    /// How the cluster was at the end, if the events were asked for.
    pub state: String,
}

impl Run {
    /// The whole run of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let reduction = Reduction::default();
        Self { seed, profile: Profile::draw(seed), sabotage: None, reduction }
    }

    /// Runs it. If something is left out, the whole run goes first, unseen: it says what each part
    /// draws.
    #[must_use]
    pub fn go(&self, log: Log) -> Outcome {
        if self.reduction.is_empty() {
            return self.end(&mut self.cluster(Random::new(self.seed), log));
        }
        let (_, tape) = self.record();
        self.replay(&tape, log)
    }

    /// The whole run, and what each part drew.
    #[must_use]
    pub fn record(&self) -> (Outcome, Rc<Tape>) {
        let whole = Self { reduction: Reduction::default(), ..self.clone() };
        let random = Random::taped(self.seed, Recorder::record(self.seed));
        let mut cluster = whole.cluster(random, Log::Off);
        let outcome = whole.end(&mut cluster);
        (outcome, Rc::new(cluster.take_tape().unwrap_or_default()))
    }

    /// The run with what is left out, in which all others draw what they drew.
    #[must_use]
    pub fn replay(&self, tape: &Rc<Tape>, log: Log) -> Outcome {
        let random = Random::taped(self.seed, Recorder::replay(tape));
        self.end(&mut self.cluster(random, log))
    }

    fn cluster(&self, random: Random, log: Log) -> Cluster {
        let profile = self.reduction.reduced(self.profile.clone());
        let mut cluster = Cluster::drawing(random, self.seed, profile, (self.sabotage, log));
        cluster.leave_out(self.reduction.clone());
        cluster
    }

    fn end(&self, cluster: &mut Cluster) -> Outcome {
        let result = catch_unwind(AssertUnwindSafe(|| cluster.run()));
        let is_sound = result.is_ok();
        let (failure, is_stopped) = match result {
            Ok(Ok(())) => (None, false),
            Ok(Err(Stop::Reached)) => (None, true),
            Ok(Err(Stop::Violated(violation))) => (Some(violation), false),
            Err(panic) => (Some(Violation::new("panic", panic_text(panic.as_ref()))), false),
        };
        // A machine that has panicked is in no state that could be told.
        let is_reported = is_sound && cluster.log.is_on();
        Outcome {
            seed: self.seed,
            counters: cluster.counters(),
            marks: cluster.marks.clone(),
            struck: cluster.struck().to_vec(),
            failure,
            is_stopped,
            story: cluster.log.lines().cloned().collect(),
            state: if is_reported { cluster.state() } else { String::new() },
        }
    }
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, sabotage: Option<Sabotage>, log: Log) -> Outcome {
    Run { sabotage, ..Run::of(seed) }.go(log)
}

/// Runs one seed with one canary, judged by one oracle alone.
#[must_use]
pub fn run_judged_by(oracle: &'static str, seed: u64, sabotage: Sabotage) -> Outcome {
    let run = Run { sabotage: Some(sabotage), ..Run::of(seed) };
    let mut cluster = run.cluster(Random::new(seed), Log::Off);
    cluster.judge_only(oracle);
    let mut outcome = run.end(&mut cluster);
    // What ends a run is not of any oracle's choosing.
    outcome.failure.take_if(|violation| violation.oracle != oracle);
    outcome
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

impl Run {
    /// What a person needs to know of a failure: the invariant, the last events, how all was, how
    /// to replay it.
    #[must_use]
    pub fn report(&self, outcome: &Outcome) -> String {
        let Some(failure) = &outcome.failure else { return String::new() };
        let Violation { oracle, text } = failure;
        format!("seed {}: {oracle} is broken\n  {text}\n", self.seed)
            + &reported(outcome)
            + &format!("replay:  {} --log\nshorter: {} --shrink\n", self.command(), self.command())
    }

    /// The command line of this run, without what it is to show.
    #[must_use]
    pub fn command(&self) -> String {
        let mut text = format!("cargo run -p evenkeel-sim --profile sim -- --seed {}", self.seed);
        let drawn = Profile::draw(self.seed);
        let counts = self.profile.settings.count_ahead;
        if counts != drawn.settings.count_ahead {
            text += &format!(" --count-ahead {counts}");
        }
        let forgets = self.profile.forgets_checksums;
        if forgets != drawn.forgets_checksums {
            text += &format!(" --forget-checksums {forgets}");
        }
        if self.profile.operations != drawn.operations {
            text += &format!(" --at-least {}", self.profile.operations);
        }
        if let Some(sabotage) = self.sabotage {
            text += &format!(" --canary {sabotage:?}");
        }
        text + &self.reduction.to_string()
    }
}

/// The events of a run that were kept, and how all was at its end.
#[must_use]
pub fn reported(outcome: &Outcome) -> String {
    let mut text = String::new();
    if !outcome.story.is_empty() {
        text += "events (virtual seconds):\n";
        for line in &outcome.story {
            text += line;
            text.push('\n');
        }
    }
    text + &outcome.state
}

#[cfg(test)]
mod tests;

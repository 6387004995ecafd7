//! Runs the simulator from the command line. `docs/simulator.md` is its manual.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use evenkeel_sim::log::Log;
use evenkeel_sim::marks::MARKS;
use evenkeel_sim::profile::Profile;
use evenkeel_sim::queue::Time;
use evenkeel_sim::random::spread;
use evenkeel_sim::reduction::{Kind, Numbers, Reduction};
use evenkeel_sim::run::{Run, Totals, note_panics, reported};
use evenkeel_sim::sabotage::Sabotage;
use evenkeel_sim::shrink::shrink;

/// Failures that are told in full; of more than these, only the first line.
const REPORTED: u64 = 3;

/// Seeds that reach everything that is interesting; fewer may miss what is rare.
const ENOUGH: u64 = 2000;

/// For how long a seed is shrunk.
const SHRINKS_FOR: u64 = 60;

/// Runs the shipped core in a simulated cluster under faults, and checks the invariants.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// How many seeds to run
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// Run this one seed only
    #[arg(long)]
    seed: Option<u64>,
    /// Begin with the seed that follows from this commit's hash (or any other text)
    #[arg(long, value_name = "COMMIT_HASH", conflicts_with = "seed")]
    from: Option<String>,
    /// Stop after this many seconds, whatever --seeds says; with --shrink 60 if it is not given
    #[arg(long)]
    seconds: Option<u64>,
    /// Stop the seed at the first line of its log with this text, or at this virtual second, and
    /// print how all is
    #[arg(long, value_name = "TEXT|SECONDS", requires = "seed", conflicts_with_all = ["log", "shrink"])]
    until: Option<String>,
    /// Leave out what the failing seed can do without
    #[arg(long, requires = "seed", conflicts_with = "log")]
    shrink: bool,
    /// Leave out these kinds of faults; a wrong name lists all
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    without: Vec<Kind>,
    /// Leave out all faults but these, by their numbers in the log
    #[arg(long, value_name = "3,17-20", requires = "seed")]
    faults: Option<Numbers>,
    /// Leave out all operations of clients but these, counted in the order of the log
    #[arg(long, value_name = "3,17-20", requires = "seed")]
    operations: Option<Numbers>,
    /// Have each client have no more than so many requests under way
    #[arg(long, value_name = "REQUESTS", requires = "seed")]
    depth: Option<usize>,
    /// Have the faults end at this virtual second, if they go on for longer
    #[arg(long, value_name = "SECONDS", requires = "seed")]
    end: Option<f64>,
    /// Do wrong on purpose, as tests of the oracles do; a wrong name lists all
    #[arg(long, value_name = "NAME")]
    canary: Option<Sabotage>,
    /// Of the seeds, run only those in which several primaries run the volume
    #[arg(long)]
    shared: bool,
    /// Have rebuilds count ahead, or not, whatever the seed says
    #[arg(long, value_name = "true|false")]
    count_ahead: Option<bool>,
    /// Have starts forget checksums of blocks, or not, whatever the seed says
    #[arg(long, value_name = "true|false")]
    forget_checksums: Option<bool>,
    /// Have clients ask for so many operations at least in each seed
    #[arg(long, value_name = "OPERATIONS", default_value_t = 0)]
    at_least: u64,
    /// Print every event
    #[arg(long)]
    log: bool,
    /// Print how often each interesting thing happened; of 2000 seeds or more, fail if one never
    /// did
    #[arg(long)]
    marks: bool,
}

impl Arguments {
    /// What they want of a seed.
    fn run(&self, seed: u64) -> Run {
        let drawn = Profile::draw(seed);
        let counts = self.count_ahead.unwrap_or(drawn.settings.count_ahead);
        let forgets = self.forget_checksums.unwrap_or(drawn.forgets_checksums);
        let reduction = Reduction {
            without: self.without.clone(),
            faults: self.faults.clone(),
            operations: self.operations.clone(),
            depth: self.depth,
            end: self.end.map(|seconds| (seconds * 1e9) as Time),
        };
        let profile = drawn.counting(counts).forgetting(forgets).asking(self.at_least);
        Run { seed, profile, sabotage: self.canary, reduction }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic of the core is a failure like any other; it is told in the report.
    note_panics();
    match (arguments.shrink, &arguments.until) {
        (true, _) => shrink_one(&arguments),
        (false, Some(until)) => run_until(&arguments, until),
        (false, None) => run_all(&arguments),
    }
}

fn run_all(arguments: &Arguments) -> ExitCode {
    let start = Instant::now();
    let first = arguments.seed.unwrap_or_else(|| first_seed(arguments.from.as_deref()));
    let seeds = if arguments.seed.is_some() { 1 } else { arguments.seeds };
    let time = arguments.seconds.map(Duration::from_secs);
    let mut totals = Totals::default();
    for seed in (first..).take(if time.is_some() { usize::MAX } else { seeds as usize }) {
        if time.is_some_and(|time| start.elapsed() >= time) {
            break;
        }
        if arguments.shared && Profile::draw(seed).primaries == 1 {
            continue;
        }
        run_one(&arguments.run(seed), arguments.log, &mut totals);
    }
    print_totals(&totals, start.elapsed());
    if arguments.marks {
        print_marks(&totals);
    }
    println!("{} passed, {} failed", totals.passed, totals.failed);
    let is_large = totals.passed + totals.failed >= ENOUGH;
    let unreached = arguments.marks && is_large && !totals.marks.missing().is_empty();
    if totals.failed > 0 || unreached { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn run_one(run: &Run, is_logged: bool, totals: &mut Totals) {
    if is_logged {
        println!("seed {}: {:#?}", run.seed, run.profile);
    }
    let outcome = run.go(if is_logged { Log::Print } else { Log::Off });
    totals.add(&outcome);
    let Some(failure) = &outcome.failure else { return };
    if is_logged {
        println!("{}", run.report(&outcome));
    } else if totals.failed > REPORTED {
        println!("seed {}: {} is broken: {}", run.seed, failure.oracle, failure.text);
    } else {
        // The same seed gives the same events: now with their story.
        println!("{}", run.report(&run.go(Log::story())));
    }
}

/// Runs one seed until something happens, and prints what led there.
fn run_until(arguments: &Arguments, until: &str) -> ExitCode {
    let run = arguments.run(arguments.seed.unwrap_or_default());
    let outcome = run.go(Log::until(until));
    print!("{}", reported(&outcome));
    if outcome.is_stopped {
        return ExitCode::SUCCESS;
    }
    match &outcome.failure {
        Some(failure) => println!("{} is broken before that: {}", failure.oracle, failure.text),
        None => println!("the run ends before that: no line of its log has {until:?}"),
    }
    ExitCode::FAILURE
}

/// Makes a failing seed as small as it can be in the time, and prints what is left.
fn shrink_one(arguments: &Arguments) -> ExitCode {
    let start = Instant::now();
    let time = Duration::from_secs(arguments.seconds.unwrap_or(SHRINKS_FOR));
    let run = arguments.run(arguments.seed.unwrap_or_default());
    match shrink(&run, |_| start.elapsed() < time) {
        Some(shrunk) => {
            print!("{}", shrunk.report());
            ExitCode::FAILURE
        }
        None => {
            println!("seed {} breaks nothing", run.seed);
            ExitCode::SUCCESS
        }
    }
}

/// The seed that follows from a text, or from the present time.
fn first_seed(from: Option<&str>) -> u64 {
    match from {
        Some(text) => text.bytes().fold(0, |hash, byte| spread(hash ^ u64::from(byte))) >> 16,
        None => 1,
    }
}

fn print_totals(totals: &Totals, elapsed: Duration) {
    let seeds = totals.passed + totals.failed;
    let seconds = elapsed.as_secs_f64().max(0.001);
    let c = totals.counters;
    println!(
        "{seeds} seeds, {} operations, {} faults, {} events, {:.1} hours of virtual time in {seconds:.1} s: {:.0} seeds, {:.0} operations, {:.0} faults per second",
        c.operations,
        c.faults,
        c.events,
        c.time as f64 / 3.6e12,
        seeds as f64 / seconds,
        c.operations as f64 / seconds,
        c.faults as f64 / seconds,
    );
}

fn print_marks(totals: &Totals) {
    for (mark, text) in MARKS {
        println!("{:>9}  {text}", totals.marks.count(*mark));
    }
    for text in totals.marks.missing() {
        println!("never: {text}");
    }
}

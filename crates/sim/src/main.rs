//! Runs the simulator from the command line. `docs/simulator.md` is its manual.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use evenkeel_sim::log::Log;
use evenkeel_sim::marks::MARKS;
use evenkeel_sim::profile::Profile;
use evenkeel_sim::random::spread;
use evenkeel_sim::run::{Totals, note_panics, report, run_as};

/// Failures that are told in full; of more than these, only the first line.
const TOLD: u64 = 3;

/// Seeds that reach everything that is interesting; fewer may miss what is rare.
const ENOUGH: u64 = 2000;

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
    /// Stop after this many seconds, whatever --seeds says
    #[arg(long)]
    seconds: Option<u64>,
    /// Of the seeds, run only those in which several primaries run the volume
    #[arg(long)]
    shared: bool,
    /// Have rebuilds count ahead, or not, whatever the seed says
    #[arg(long, value_name = "true|false")]
    count_ahead: Option<bool>,
    /// Print every event
    #[arg(long)]
    log: bool,
    /// Print how often each interesting thing happened; of 2000 seeds or more, fail if one never did
    #[arg(long)]
    marks: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic of the core is a failure like any other; it is told in the report.
    note_panics();
    let totals = run_all(&arguments);
    println!("{} passed, {} failed", totals.passed, totals.failed);
    let is_large = totals.passed + totals.failed >= ENOUGH;
    let unreached = arguments.marks && is_large && !totals.marks.missing().is_empty();
    if totals.failed > 0 || unreached { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn run_all(arguments: &Arguments) -> Totals {
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
        run_one(seed, arguments, &mut totals);
    }
    print_totals(&totals, start.elapsed());
    if arguments.marks {
        print_marks(&totals);
    }
    totals
}

fn run_one(seed: u64, arguments: &Arguments, totals: &mut Totals) {
    let drawn = Profile::draw(seed);
    let counts = arguments.count_ahead.unwrap_or(drawn.settings.count_ahead);
    let profile = drawn.counting(counts);
    if arguments.log {
        println!("seed {seed}: {profile:#?}");
    }
    let log = if arguments.log { Log::Print } else { Log::Off };
    let outcome = run_as(seed, profile.clone(), None, log);
    totals.add(&outcome);
    let Some(failure) = &outcome.failure else { return };
    if totals.failed > TOLD && !arguments.log {
        println!("seed {seed}: {} is broken: {}", failure.oracle, failure.text);
    } else if arguments.log {
        println!("{}", report(&outcome));
    } else {
        // The same seed gives the same events: now with their story.
        println!("{}", report(&run_as(seed, profile, None, Log::Story(Default::default()))));
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

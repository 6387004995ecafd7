//! Cuts the power of real nodes.
//!
//! Three nodes of the shipped program serve a volume; their disks are directories that record what
//! is written to them ([`recorder`]), while clients write and flush ([`clients`]). From the
//! recording the disks are made as a power cut at any moment may leave them ([`image`]): what no
//! flush covers is there, or not, or in part. The shipped commands then assemble them on a new
//! machine ([`recovery`]): every flushed write has to be there, and after the rebuild the replicas
//! have to be the same.

mod clients;
mod image;
mod nbd;
mod nodes;
mod random;
mod recorder;
mod recording;
mod recovery;
mod tape;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::image::Cut;
use crate::random::Random;
use crate::recording::{DISKS, Recording, copy, record};

/// Cuts the power of real nodes at arbitrary points, and has the shipped commands recover
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The program
    #[arg(long, default_value = "target/release/evenkeel")]
    program: PathBuf,
    /// How many power cuts
    #[arg(long, default_value_t = 500)]
    cuts: u64,
    /// How many seconds of writing are recorded for each hundred of them, at most
    #[arg(long, default_value_t = 5)]
    record: u64,
    /// What follows from this number is chosen: moments, and what is left
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// When a write is acknowledged: A, B or C
    #[arg(long, default_value = "C")]
    protocol: String,
    /// Begin no power cut after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Where files are put for as long as they are needed
    #[arg(long, default_value = "/var/tmp")]
    scratch: PathBuf,
}

/// Cuts of one recording.
const CUTS: u64 = 100;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok((passed, failed)) => {
            println!("{passed} passed, {failed} failed");
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("evenkeel-powercut: {error}");
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<(u64, u64)> {
    let begun = Instant::now();
    let is_late =
        || arguments.seconds.is_some_and(|most| begun.elapsed() >= Duration::from_secs(most));
    let mut random = Random::new(arguments.seed);
    let (mut passed, mut failed) = (0, 0);
    while passed + failed < arguments.cuts && !is_late() {
        let place =
            tempfile::Builder::new().prefix("evenkeel-powercut-").tempdir_in(&arguments.scratch)?;
        let time = Duration::from_secs(arguments.record);
        let recording =
            record(&arguments.program, place.path(), &arguments.protocol, time, &mut random)?;
        let (writes, flushes) = recording.history.counts();
        println!(
            "recorded {writes} writes and {flushes} flushes of clients, {} actions on {DISKS} disks",
            recording.tape.len()
        );
        for _ in 0..CUTS.min(arguments.cuts - passed - failed) {
            if is_late() {
                break;
            }
            match cut(arguments, &recording, &mut random)? {
                Ok(()) => passed += 1,
                Err(reported) => {
                    failed += 1;
                    println!("FAILED  {reported}");
                }
            }
        }
    }
    Ok((passed, failed))
}

/// One power cut, and what came of it.
fn cut(
    arguments: &Arguments,
    recording: &Recording,
    random: &mut Random,
) -> io::Result<Result<(), String>> {
    let (first, last) = recording.span;
    let at = first + random.below(last - first);
    let cut = Cut::choose(at, DISKS, random);
    let scene =
        tempfile::Builder::new().prefix("evenkeel-powercut-").tempdir_in(&arguments.scratch)?;
    let mut disks = Vec::new();
    for (number, before) in recording.before.iter().enumerate() {
        let left = copy(before, &scene.path().join(format!("left{number}")))?;
        cut.leave(number, &left, &recording.tape, random)?;
        disks.push(copy(&left, &scene.path().join(format!("disk{number}")))?);
    }
    let judged =
        recovery::recover(&arguments.program, scene.path(), &disks, &recording.history, at);
    Ok(judged.map_err(|reported| {
        // For whoever looks for the cause.
        let kept = scene.keep();
        format!(
            "{cut:?}: {reported}\n        the disks as they were left, and after the recovery: {}",
            kept.display()
        )
    }))
}

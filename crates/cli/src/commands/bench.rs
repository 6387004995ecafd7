//! `evenkeel bench`: a thin call into the crate that measures.

use evenkeel_bench::{BenchCommand, Kind, Manner};

use crate::commands::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::say;

/// Measures, imports, reports or compares.
///
/// # Errors
/// If that did not work.
pub fn run(context: &Context, command: &BenchCommand) -> Result<(), Failure> {
    let evenkeel = std::env::current_exe()
        .map_err(|error| Failure::new("cannot find the program that is running", error))?;
    let manner = Manner { json: context.global.json, quiet: context.global.quiet, evenkeel };
    say(&command.run(&manner).map_err(converted)?);
    Ok(())
}

fn converted(failure: evenkeel_bench::Failure) -> Failure {
    let exit = match failure.kind {
        Kind::Failed | Kind::Missing => Exit::Failed,
        Kind::Usage => Exit::Usage,
        Kind::Unsafe => Exit::Unsafe,
        Kind::Interrupted => Exit::Interrupted,
    };
    Failure::new(failure.what, failure.why).advise(failure.remedy).exit(exit)
}

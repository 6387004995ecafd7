//! `evenkeel bench` alone, to work on it without building the rest:
//! `cargo run -p evenkeel-bench --example bench -- quick --program /usr/bin/evenkeel`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use evenkeel_bench::{BenchCommand, Manner};

/// Measure evenkeel beside the raw disk and other replicated storage.
#[derive(Debug, Parser)]
struct Cli {
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// What to do.
    #[command(subcommand)]
    command: BenchCommand,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let manner = Manner { json: cli.json, quiet: false, evenkeel: PathBuf::from("evenkeel") };
    match cli.command.run(&manner) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("bench: {failure}\n{}", failure.remedy);
            ExitCode::FAILURE
        }
    }
}

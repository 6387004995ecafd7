//! `evenkeel bench …`: its arguments, and what each of them does.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::facts;
use crate::failure::{Failure, Kind};
use crate::import;
use crate::interrupt::Interrupt;
use crate::load::{self, LoadArgs};
use crate::profile::{Choice, Profile};
use crate::report::{compare, html, markdown, plot, terminal};
use crate::result::Results;
use crate::runner::{self, Setting};
use crate::scratch::{self, Scratch};
use crate::stats;
use crate::tools;
use crate::units::parse_size;

mod disks;

/// What to measure, or what to do with what was measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// About three minutes: raw disk, a local mirror, three copies with protocols C, B and A
    #[command(after_help = "\
Examples:
  evenkeel bench quick
  evenkeel bench quick --with peers                    beside all peers that are installed
  evenkeel bench quick --only replica-3-c --rounds 9   one configuration, with more certainty
  evenkeel bench quick --scratch /mnt/fast --out ./reports")]
    Quick(RunArgs),
    /// dd, fio and IOzone on a mirror of two, as cluster-md was measured
    #[command(after_help = "\
Examples:
  evenkeel bench cluster-md --dry-run                      what would be run
  evenkeel bench cluster-md --scratch /mnt/fast --out ./reports")]
    ClusterMd(RunArgs),
    /// Buffered fio and small direct writes on three copies, as GlusterFS was measured
    #[command(after_help = "\
Examples:
  evenkeel bench gluster --dry-run                      what would be run
  evenkeel bench gluster --scratch /mnt/fast --out ./reports")]
    Gluster(RunArgs),
    /// hdparm, dd and bonnie++ on a mirror of two, as md RAID1 was measured
    #[command(after_help = "\
Examples:
  evenkeel bench md-raid1 --dry-run                      what would be run
  evenkeel bench md-raid1 --scratch /mnt/fast --out ./reports")]
    MdRaid1(RunArgs),
    /// 64 jobs of direct writes on XFS and ext4 over each protocol, as DRBD was measured
    #[command(after_help = "\
Examples:
  evenkeel bench drbd --dry-run                      what would be run
  evenkeel bench drbd --scratch /mnt/fast --out ./reports")]
    Drbd(RunArgs),
    /// hdparm and fio over exports, stripes of mirrors and replication, as network storage was
    /// measured
    #[command(after_help = "\
Examples:
  evenkeel bench network-storage --dry-run                      what would be run
  evenkeel bench network-storage --scratch /mnt/fast --out ./reports")]
    NetworkStorage(RunArgs),
    /// Read the text output of fio, dd, hdparm, bonnie++ and IOzone, also out of an old report
    #[command(after_help = "\
Examples:
  evenkeel bench import old-report.txt                 a page and a JSON of it
  evenkeel bench import a.txt b.txt --out ./reports")]
    Import(ImportArgs),
    /// Make the page of results again, or one page of several
    #[command(after_help = "\
Examples:
  evenkeel bench report old-report.json my-run.json --out beside.html
  evenkeel bench report my-run.json --plot picture.svg")]
    Report(ReportArgs),
    /// Say what changed from one run to another, beyond the noise
    #[command(after_help = "\
Examples:
  evenkeel bench compare before.json after.json")]
    Compare(CompareArgs),
    /// Undo what a killed run has left behind: processes, mounts, loop devices, files
    #[command(after_help = "\
Examples:
  evenkeel bench clean")]
    Clean,
    /// Ask an export over TCP for reads and writes, by NBD or by NVMe, and print what fio would
    #[command(
        hide = true,
        after_help = "\
Examples:
  evenkeel bench load --address 127.0.0.1:10809 --export music --pattern randread --size 256m"
    )]
    Load(LoadArgs),
    /// Show which tools and peers are installed, and how to install the others
    #[command(after_help = "\
Examples:
  evenkeel bench tools")]
    Tools,
}

/// Arguments of a measurement.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Where the scratch files go: on the disk to be measured. Several times: copies are spread
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub scratch: Vec<PathBuf>,
    /// Measure on this block device: it is given an XFS filesystem, and all on it is lost
    #[arg(long, value_name = "DEVICE", conflicts_with = "scratch")]
    pub disk: Vec<PathBuf>,
    /// Take a --disk although something is on it
    #[arg(long)]
    pub force: bool,
    /// Where the report goes
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Factor on the original's sizes and times; without it small, for a few minutes
    #[arg(long)]
    pub scale: Option<f64>,
    /// Print the commands and measure nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Rounds of each measurement
    #[arg(long)]
    pub rounds: Option<u32>,
    /// Seconds of each measurement (quick)
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Usable size of each configuration, as in 256M
    #[arg(long, value_parser = parse_size)]
    pub size: Option<u64>,
    /// Only this configuration beside the raw disk; several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// This configuration too; several times. `peers`: all that are installed
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Only this workload; several times. The JSON of a run names them
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Measure through block devices, as root, instead of the shortest way (quick)
    #[arg(long)]
    pub devices: bool,
    /// Leave out what is not installed, with a note, instead of ending
    #[arg(long)]
    pub skip_missing: bool,
    /// Measure this evenkeel program, say an earlier one, instead of the one that runs
    #[arg(long, value_name = "PROGRAM")]
    pub program: Option<PathBuf>,
    /// Print the report as Markdown instead of tables
    #[arg(long)]
    pub markdown: bool,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Text files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Where the pages go
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Print Markdown instead of tables
    #[arg(long)]
    pub markdown: bool,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Results, as JSON
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "bench.html")]
    pub out: PathBuf,
    /// Print Markdown instead of writing the page
    #[arg(long)]
    pub markdown: bool,
    /// Write one picture (SVG) of the first results instead of the page, as for a README
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Results before
    pub before: PathBuf,
    /// Results after
    pub after: PathBuf,
}

/// How the caller wants it said.
#[derive(Debug, Clone)]
pub struct Manner {
    /// Print JSON.
    pub json: bool,
    /// Print nothing but errors.
    pub quiet: bool,
    /// The `evenkeel` program.
    pub evenkeel: PathBuf,
}

impl BenchCommand {
    /// Does it. What is to be shown is returned.
    ///
    /// # Errors
    /// If something did not work; what and why.
    pub fn run(&self, manner: &Manner) -> Result<String, Failure> {
        match self {
            Self::Quick(args) => measure(Profile::Quick, args, manner),
            Self::ClusterMd(args) => measure(Profile::ClusterMd, args, manner),
            Self::Gluster(args) => measure(Profile::Gluster, args, manner),
            Self::MdRaid1(args) => measure(Profile::MdRaid1, args, manner),
            Self::Drbd(args) => measure(Profile::Drbd, args, manner),
            Self::NetworkStorage(args) => measure(Profile::NetworkStorage, args, manner),
            Self::Import(args) => import_files(args, manner),
            Self::Report(args) => report(args),
            Self::Compare(args) => {
                let (before, after) = (read_results(&args.before)?, read_results(&args.after)?);
                Ok(match manner.json {
                    true => compare::json(&before, &after),
                    false => compare::text(&before, &after),
                })
            }
            Self::Clean => clean(),
            Self::Load(args) => load::run(args),
            Self::Tools => Ok(tool_list()),
        }
    }
}

fn measure(profile: Profile, args: &RunArgs, manner: &Manner) -> Result<String, Failure> {
    let choice = Choice {
        scale: args.scale,
        rounds: args.rounds,
        seconds: args.seconds,
        size: args.size,
        only: args.only.clone(),
        with: args.with.clone(),
        workloads: args.workload.clone(),
        devices: args.devices,
    };
    let plan = profile.plan(&choice)?;
    if args.dry_run {
        return Ok(Profile::dry_run(&plan));
    }
    fs::create_dir_all(&args.out)
        .map_err(|error| Failure::new(format!("cannot write to {}", args.out.display()), error))?;
    if plan.devices && !rustix::process::geteuid().is_root() {
        return Err(Failure::new(
            "this profile needs root",
            "it makes block devices and filesystems",
        )
        .advise(format!(
            "run it with sudo, or measure without devices: evenkeel bench {}",
            Profile::Quick.name()
        )));
    }
    let interrupt = Interrupt::watch()?;
    // Kept to the end: dropping it unmounts the disks.
    let (places, _disks) = places(args, &interrupt)?;
    let setting = Setting {
        places,
        skip_missing: args.skip_missing,
        evenkeel: args.program.clone().unwrap_or_else(|| manner.evenkeel.clone()),
        command: command_line(),
    };
    let mut progress = terminal::Progress::new(manner.quiet);
    let results = runner::run(&plan, &setting, &interrupt, &mut progress)?;
    drop(progress);
    let stem = format!("bench-{}-{}", results.profile, stamp(&results.started));
    let page = write_all(&args.out, &stem, &results)?;
    Ok(shown(&results, manner, args.markdown) + &said(manner, &page))
}

fn places(
    args: &RunArgs,
    interrupt: &Interrupt,
) -> Result<(Vec<PathBuf>, Option<Scratch>), Failure> {
    if args.disk.is_empty() {
        let canonical = |path: &PathBuf| {
            fs::canonicalize(path)
                .map_err(|error| Failure::new(format!("cannot use {}", path.display()), error))
        };
        return Ok((args.scratch.iter().map(canonical).collect::<Result<_, _>>()?, None));
    }
    let (places, scratch) = disks::prepare(&args.disk, args.force, interrupt)?;
    Ok((places, Some(scratch)))
}

fn shown(results: &Results, manner: &Manner, as_markdown: bool) -> String {
    match (manner.json, as_markdown, manner.quiet) {
        (true, ..) => results.to_json(),
        (false, true, _) => markdown::page(results),
        (false, false, true) => String::new(),
        (false, false, false) => terminal::page(results, terminal::width_of(&std::io::stdout())),
    }
}

fn said(manner: &Manner, page: &Path) -> String {
    match manner.json || manner.quiet {
        true => String::new(),
        false => format!("\nThe report: {}\n", page.display()),
    }
}

/// Writes page, JSON and Markdown. Returns the page's path.
fn write_all(directory: &Path, stem: &str, results: &Results) -> Result<PathBuf, Failure> {
    let page = directory.join(format!("{stem}.html"));
    write(&page, &html::page(std::slice::from_ref(results)))?;
    write(&directory.join(format!("{stem}.json")), &results.to_json())?;
    write(&directory.join(format!("{stem}.md")), &markdown::page(results))?;
    Ok(page)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| Failure::new(format!("cannot write {}", path.display()), error))
}

fn import_files(args: &ImportArgs, manner: &Manner) -> Result<String, Failure> {
    fs::create_dir_all(&args.out)
        .map_err(|error| Failure::new(format!("cannot write to {}", args.out.display()), error))?;
    let mut text = String::new();
    for path in &args.files {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::new(format!("cannot import {}", path.display()), why)
        };
        let bytes = fs::read(path).map_err(|error| failed(&error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut results = import::read(&name, &String::from_utf8_lossy(&bytes));
        if results.rows.is_empty() && results.illegible.is_empty() {
            return Err(failed(&"there is no output of fio, dd, hdparm, bonnie++ or IOzone in it"));
        }
        results.command = command_line();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let page = write_all(&args.out, &format!("bench-import-{stem}"), &results)?;
        text += &shown(&results, manner, args.markdown);
        text += &said(manner, &page);
        if !manner.json {
            for illegible in &results.illegible {
                text += &format!(
                    "illegible: {}:{}: {}\n",
                    path.display(),
                    illegible.line,
                    illegible.what
                );
            }
        }
    }
    Ok(text)
}

fn report(args: &ReportArgs) -> Result<String, Failure> {
    let all: Vec<Results> =
        args.files.iter().map(|path| read_results(path)).collect::<Result<_, _>>()?;
    if args.markdown {
        return Ok(all.iter().map(markdown::page).collect());
    }
    if let Some(path) = &args.plot {
        write(path, &plot::picture(&all[0]))?;
        return Ok(format!("The picture: {}\n", path.display()));
    }
    write(&args.out, &html::page(&all))?;
    Ok(format!("The report: {}\n", args.out.display()))
}

fn read_results(path: &Path) -> Result<Results, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read results from {}", path.display()), why)
    };
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let mut results = Results::from_json(&text).map_err(|why| failed(&why).kind(Kind::Usage))?;
    // An earlier version may have summed up more than its rounds say.
    stats::summarize_all(&mut results);
    Ok(results)
}

fn clean() -> Result<String, Failure> {
    let cleaned = scratch::clean()?;
    if !cleaned.complaints.is_empty() {
        return Err(Failure::new(
            "not everything could be cleaned up",
            cleaned.complaints.join("\n"),
        )
        .advise("end what still uses it, then run `evenkeel bench clean` again"));
    }
    let mut text = match cleaned.runs {
        0 => "There is nothing to clean up.\n".to_owned(),
        1 => "The remains of one run are gone.\n".to_owned(),
        runs => format!("The remains of {runs} runs are gone.\n"),
    };
    if cleaned.running > 0 {
        text += &format!("{} still going on: left alone.\n", cleaned.running);
    }
    Ok(text)
}

fn tool_list() -> String {
    let mut text = String::new();
    for tool in tools::ALL {
        text += &match (tool.path(), tool.version()) {
            (Some(_), Some(version)) => format!("{:<10} {version}\n", tool.program),
            (Some(path), None) => format!("{:<10} {}\n", tool.program, path.display()),
            (None, _) => format!("{:<10} not installed: {}\n", tool.program, tool.install()),
        };
    }
    text
}

/// The command line of this process, for the record.
fn command_line() -> String {
    let mut words: Vec<String> = std::env::args().collect();
    if let Some(first) = words.first_mut() {
        "evenkeel".clone_into(first);
    }
    crate::process::shown(&crate::process::command(words))
}

/// `20261120-201500` of `2026-11-20T20:15:00Z`.
fn stamp(started: &str) -> String {
    let digits: String = started.chars().filter(char::is_ascii_digit).collect();
    match digits.len() {
        14 => format!("{}-{}", &digits[..8], &digits[8..]),
        _ => facts::now().replace(':', ""),
    }
}

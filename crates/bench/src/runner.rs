//! Rounds: every configuration under every workload, one after the other, several times over, so
//! that a machine that gets slower or faster meanwhile does so for all of them.

mod commands;
mod measure;
mod plan;

use std::path::PathBuf;
use std::time::Instant;

pub use commands::plain;
pub use plan::Plan;

use crate::facts;
use crate::failure::{Failure, Kind};
use crate::interrupt::Interrupt;
use crate::result::{FORMAT, Family, Origin, Results, Row, Skipped, VERSION};
use crate::scratch::Scratch;
use crate::stats;
use crate::target::{Lab, Target};
use crate::tools;
use crate::workload::{Task, Work};

/// Where and by whom it is run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Directories in which scratch directories are made; replicas are spread over them.
    pub places: Vec<PathBuf>,
    /// Leave out what is missing instead of refusing.
    pub skip_missing: bool,
    /// The `evenkeel` program.
    pub evenkeel: PathBuf,
    /// The command line, for the record.
    pub command: String,
}

/// Sees a run as it goes.
pub trait Observer {
    /// Something begins, as in `setting up qemu-nbd`.
    fn stage(&mut self, what: &str);
    /// A configuration or workload was left out.
    fn skipped(&mut self, skipped: &Skipped);
    /// A round of a row is done: so many of all.
    fn measured(&mut self, results: &Results, row: usize, done: usize, all: usize);
}

/// Runs a plan to its end.
///
/// # Errors
/// If a tool is missing, the raw disk cannot be measured, or by Ctrl-C. What was set up is undone
/// in any case.
pub fn run(
    plan: &Plan,
    setting: &Setting,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<Results, Failure> {
    let begin = Instant::now();
    let mut results = empty(plan, setting);
    let tasks = usable_tasks(plan, setting, &mut results, observer)?;
    plan.check_room(&setting.places)?;
    let mut scratch = Scratch::create(&setting.places[0])?;
    let places = spread(&mut scratch, &setting.places)?;
    let mut lab = Lab {
        places,
        scratch: &mut scratch,
        interrupt,
        evenkeel: setting.evenkeel.clone(),
        size: plan.size,
        devices: plan.devices,
        said: Vec::new(),
    };
    let targets = set_up_all(plan, setting, &mut lab, &mut results, observer)?;
    results.workloads = tasks.iter().map(|task| task.workload.clone()).collect();
    results.configurations = targets.iter().map(|target| target.configuration.clone()).collect();
    for target in &targets {
        observer.stage(&format!("warming up {}", target.configuration.name));
        measure::warm_up(&mut lab, target)?;
    }
    rounds(&tasks, &targets, &mut lab, &mut results, observer)?;
    observer.stage("verifying what was written");
    for target in &targets {
        let verified = match measure::verify(&mut lab, target) {
            Ok(verified) => verified,
            Err(failure) if failure.kind == Kind::Interrupted => return Err(failure),
            Err(failure) => {
                let what = format!("reading data back from {}", target.configuration.name);
                skip(&mut results, observer, &what, &failure);
                None
            }
        };
        let mut known = results.configurations.iter_mut();
        if let Some(known) = known.find(|known| known.id == target.configuration.id) {
            known.verified = verified;
        }
    }
    stats::summarize_all(&mut results);
    results.machine.foreign_load = foreign_load(&results);
    results.seconds = begin.elapsed().as_secs_f64();
    observer.stage("cleaning up");
    Ok(results)
}

fn empty(plan: &Plan, setting: &Setting) -> Results {
    Results {
        format: FORMAT.to_owned(),
        version: VERSION,
        origin: Origin::Measured,
        profile: plan.profile.clone(),
        started: facts::now(),
        seconds: 0.0,
        software: env!("CARGO_PKG_VERSION").to_owned(),
        command: setting.command.clone(),
        scale: plan.scale,
        machine: facts::machine(&setting.places, &setting.evenkeel),
        method: plan.method.clone(),
        configurations: Vec::new(),
        workloads: Vec::new(),
        rows: Vec::new(),
        skipped: Vec::new(),
        illegible: Vec::new(),
    }
}

/// The tasks whose tools are there; also that those of the configurations are that were asked for
/// by name.
fn usable_tasks(
    plan: &Plan,
    setting: &Setting,
    results: &mut Results,
    observer: &mut dyn Observer,
) -> Result<Vec<Task>, Failure> {
    // The configurations are filled and verified by fio, whatever measures them.
    tools::require_fio()?;
    if !setting.skip_missing {
        let tools = plan.named.iter().flat_map(|recipe| recipe.tools());
        tools.copied().try_for_each(|tool| tool.require().map(drop))?;
    }
    let mut usable = Vec::new();
    for task in &plan.tasks {
        match task.tool().require() {
            Ok(_) => usable.push(task.clone()),
            Err(failure) if setting.skip_missing => {
                skip(results, observer, &task.workload.name, &failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(usable)
}

fn skip(results: &mut Results, observer: &mut dyn Observer, what: &str, failure: &Failure) {
    // It was left out: that needs no advice any more.
    let advice = failure.remedy.lines().filter(|line| !line.contains("--skip-missing"));
    let remedy = advice.collect::<Vec<_>>().join("\n");
    let skipped = Skipped { what: what.to_owned(), why: failure.to_string(), remedy };
    // The same reason in a later round says nothing new.
    if !results.skipped.contains(&skipped) {
        observer.skipped(&skipped);
        results.skipped.push(skipped);
    }
}

/// A directory of this run in each place; the first is the scratch directory itself.
fn spread(scratch: &mut Scratch, parents: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut places = vec![scratch.path().to_owned()];
    for parent in &parents[1..] {
        let path = parent.join(format!("evenkeel-bench-{}", std::process::id()));
        scratch.note(crate::scratch::Undo::Directory { path: path.clone() })?;
        places.push(path);
    }
    Ok(places)
}

fn set_up_all(
    plan: &Plan,
    setting: &Setting,
    lab: &mut Lab<'_>,
    results: &mut Results,
    observer: &mut dyn Observer,
) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for recipe in &plan.recipes {
        observer.stage(&format!("setting up {}", recipe.id()));
        let mark = lab.scratch.mark();
        let failure = match recipe.set_up(lab) {
            Ok(target) => {
                targets.push(target);
                continue;
            }
            Err(failure) => failure,
        };
        lab.scratch.undo_to(mark);
        let refused =
            failure.kind == Kind::Missing && plan.named.contains(recipe) && !setting.skip_missing;
        // What is measured against, and what is measured, must be there; a peer may be missing.
        if failure.kind == Kind::Interrupted || !recipe.is_peer() || refused {
            return Err(failure);
        }
        skip(results, observer, &recipe.id(), &failure);
    }
    Ok(targets)
}

fn rounds(
    tasks: &[Task],
    targets: &[Target],
    lab: &mut Lab<'_>,
    results: &mut Results,
    observer: &mut dyn Observer,
) -> Result<(), Failure> {
    let all: usize = tasks
        .iter()
        .map(|task| {
            task.rounds as usize * targets.iter().filter(|target| fits(task, target)).count()
        })
        .sum();
    let mut done = 0;
    let last = tasks.iter().map(|task| task.rounds).max().unwrap_or(0);
    for round in 1..=last {
        for task in tasks.iter().filter(|task| task.rounds >= round) {
            let fitting: Vec<&Target> =
                targets.iter().filter(|target| fits(task, target)).collect();
            for index in 0..fitting.len() {
                // Each round begins with another one: none is always first after the writes.
                let target = fitting[(index + round as usize - 1) % fitting.len()];
                observer.stage(&format!(
                    "round {round} of {}: {}, {}",
                    task.rounds, task.workload.name, target.configuration.name
                ));
                done += 1;
                match measure::once(lab, task, target, round) {
                    Ok((command, sample)) => {
                        let row = row_of(results, task, target);
                        results.rows[row].command = command;
                        results.rows[row].samples.push(sample);
                        stats::summarize_all(results);
                        observer.measured(results, row, done, all);
                    }
                    Err(failure) if failure.kind == Kind::Interrupted => return Err(failure),
                    Err(failure) => {
                        let what = format!("{}, {}", task.workload.name, target.configuration.name);
                        skip(results, observer, &what, &failure);
                    }
                }
            }
        }
    }
    Ok(())
}

/// N files at once are a yardstick for what fio writes to the disk, not for memory.
fn fits(task: &Task, target: &Target) -> bool {
    let direct = matches!(&task.work, Work::Fio(job) if job.direct);
    target.configuration.family != Family::Limit || (task.workload.writes && direct)
}

fn row_of(results: &mut Results, task: &Task, target: &Target) -> usize {
    let (configuration, workload) = (&target.configuration.id, &task.workload.id);
    let found = results
        .rows
        .iter()
        .position(|row| &row.configuration == configuration && &row.workload == workload);
    found.unwrap_or_else(|| {
        results.rows.push(Row {
            configuration: configuration.clone(),
            workload: workload.clone(),
            command: String::new(),
            cache: commands::cache(task, target),
            samples: Vec::new(),
            summary: None,
        });
        results.rows.len() - 1
    })
}

/// Processor time of neither fio nor a server while the raw disk was measured, as a fraction of
/// all processors: other people's work, and the kernel's.
fn foreign_load(results: &Results) -> Option<f64> {
    let raw = results.raw()?;
    let processors = f64::from(results.machine.processors.max(1));
    let rows = results.rows.iter().filter(|row| row.configuration == raw.id);
    let shares: Vec<f64> = rows
        .flat_map(|row| &row.samples)
        .filter_map(|sample| {
            let seconds = sample.parts.iter().filter_map(|part| part.seconds).fold(0.0, f64::max);
            let foreign = sample.machine_cpu_seconds? - sample.client_cpu_seconds?;
            (seconds > 0.0).then(|| (foreign / (seconds * processors)).clamp(0.0, 1.0))
        })
        .collect();
    stats::median(&shares)
}

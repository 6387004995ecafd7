//! How sure a run is: rounds, their length and how far they lie apart, what disturbed or failed,
//! and the command that would make it surer.

use crate::report::findings::{Figure, MIN_SECONDS, Rivals};
use crate::result::{Origin, Results};
use crate::stats;

/// Rounds of a run that is to be surer, at least.
const SURER_ROUNDS: usize = 9;
/// Most rounds that the command takes.
const MAX_ROUNDS: usize = 1000;
/// Seconds of its rounds, at least and at most.
const SURER_SECONDS: (f64, f64) = (2.0, 30.0);
/// What starting a tool and setting up take for each round, roughly, in seconds.
const OVERHEAD: f64 = 0.5;

/// How sure a run is.
#[derive(Debug, Clone, PartialEq)]
pub struct Certainty {
    /// Whether it was measured here.
    pub origin: Origin,
    /// Fewest and most rounds of a figure.
    pub rounds: Option<(usize, usize)>,
    /// Shortest and longest round, in seconds, where the tool reports it.
    pub seconds: Option<(f64, f64)>,
    /// How far the rounds of a figure lie apart, where there are several.
    pub apart: Option<Apart>,
    /// Load average and processors, if others used more than half of them when it began.
    pub busy: Option<(f64, u32)>,
    /// Part of all processor time that went to others and to kernel threads.
    pub foreign: Option<f64>,
    /// Configurations of which rounds are missing: how many workloads, of how many.
    pub gaps: Vec<(String, usize, usize)>,
    /// Of how many configurations the data that were written last read back right.
    pub right: usize,
    /// How many things were left out, with the reasons in their list.
    pub left_out: usize,
    /// How many things could not be read (imports).
    pub illegible: usize,
    /// A command that makes it surer, and about how many seconds it takes.
    pub surer: Option<(String, Option<f64>)>,
}

/// How far the rounds of a figure lie apart, as a part of their median.
#[derive(Debug, Clone, PartialEq)]
pub struct Apart {
    /// The median of all figures.
    pub median: f64,
    /// The worst.
    pub worst: f64,
    /// Configuration and workload of the worst.
    pub of: String,
}

impl Certainty {
    pub(super) fn of(results: &Results, rivals: &Rivals<'_>) -> Self {
        let machine = &results.machine;
        let busy = machine.load_average.filter(|load| *load > f64::from(machine.processors) / 2.0);
        let compared = || rivals.reference.iter().chain(&rivals.all);
        let figures: Vec<(String, Figure<'_>)> = results
            .workloads
            .iter()
            .flat_map(|workload| compared().map(move |known| (*known, workload)))
            .filter_map(|(known, workload)| {
                let name = format!("{}, {}", known.name, workload.name);
                Some((name, Figure::of(results, known, workload)?))
            })
            .collect();
        let rounds = figures.iter().map(|(_, figure)| figure.rounds);
        let right = results.configurations.iter().filter(|known| known.verified == Some(true));
        let rounds = rounds.clone().min().zip(rounds.max());
        let seconds = extremes(figures.iter().filter_map(|(_, figure)| figure.seconds));
        Self {
            origin: results.origin,
            apart: apart(&figures),
            busy: busy.map(|load| (load, machine.processors)),
            foreign: machine.foreign_load,
            gaps: gaps(results, rivals),
            right: right.count(),
            left_out: results.skipped.len(),
            illegible: results.illegible.len(),
            surer: surer(results, rounds.map_or(0, |(_, most)| most), seconds),
            rounds,
            seconds,
        }
    }
}

fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |known, value| {
        let (low, high) = known.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

fn apart(figures: &[(String, Figure<'_>)]) -> Option<Apart> {
    let several: Vec<(&str, f64)> = figures
        .iter()
        .filter(|(_, figure)| figure.rounds > 1)
        .map(|(name, figure)| (name.as_str(), figure.spread()))
        .collect();
    let spreads: Vec<f64> = several.iter().map(|(_, spread)| *spread).collect();
    let (of, worst) = several.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Apart { median: stats::median(&spreads)?, worst: *worst, of: (*of).to_owned() })
}

/// Of which configurations rounds are missing. A text that was imported promises no rounds.
fn gaps(results: &Results, rivals: &Rivals<'_>) -> Vec<(String, usize, usize)> {
    if results.origin == Origin::Imported {
        return Vec::new();
    }
    let rounds = |configuration: &str, workload: &str| {
        results.row(configuration, workload).map_or(0, |row| row.samples.len())
    };
    let planned = |workload: &str| {
        let rows = results.rows.iter().filter(|row| row.workload == workload);
        rows.map(|row| row.samples.len()).max().unwrap_or(0)
    };
    let compared = rivals.reference.iter().chain(&rivals.all);
    compared
        .filter_map(|known| {
            let missing = results
                .workloads
                .iter()
                .filter(|workload| rounds(&known.id, &workload.id) < planned(&workload.id));
            let missing = missing.count();
            (missing > 0).then(|| (known.name.clone(), missing, results.workloads.len()))
        })
        .collect()
}

/// The command that would make it surer: more rounds, and longer ones where that can be said.
fn surer(
    results: &Results,
    rounds: usize,
    seconds: Option<(f64, f64)>,
) -> Option<(String, Option<f64>)> {
    if results.origin == Origin::Imported {
        return Some(("evenkeel bench quick --with peers".to_owned(), None));
    }
    if results.command.is_empty() {
        return None;
    }
    let more = (rounds * 3).clamp(SURER_ROUNDS, MAX_ROUNDS);
    let mut command = with(&results.command, "--rounds", &more.to_string());
    let mut longer = 1.0;
    let (_, longest) = seconds.unwrap_or((MIN_SECONDS, MIN_SECONDS));
    if results.profile == "quick" {
        let wanted = (longest * 2.0).round().clamp(SURER_SECONDS.0, SURER_SECONDS.1);
        command = with(&command, "--seconds", &wanted.to_string());
        longer = (wanted + OVERHEAD) / (longest + OVERHEAD);
    } else if longest < MIN_SECONDS && results.scale < 1.0 {
        // How long a larger workload takes is not known.
        let scale = (results.scale * 10.0).min(1.0);
        return Some((with(&command, "--scale", &format!("{scale}")), None));
    }
    let factor = more as f64 / rounds.max(1) as f64 * longer;
    let took = (results.seconds > 0.0 && rounds > 0).then_some(results.seconds * factor);
    Some((command, took))
}

/// A command line with this value of an option, in place of any that it had.
fn with(command: &str, option: &str, value: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut its_value = false;
    for word in command.split(' ') {
        if std::mem::take(&mut its_value) {
            continue;
        }
        let same = word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='));
        its_value = word == option;
        if !its_value && !same {
            words.push(word);
        }
    }
    format!("{} {option} {value}", words.join(" "))
}

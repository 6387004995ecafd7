//! The summary in words.

use crate::report::{figure, rows_of};
use crate::result::{Durable, Family, Origin, Results, Summary, Workload};
use crate::stats;
use crate::units::{percent, span};

/// Below this difference nothing is said to be better or worse, however quiet the machine was.
const NOISE_FLOOR: f64 = 0.05;

/// Sentences that tell what the tables show, the most important first.
pub fn summary(results: &Results) -> Vec<String> {
    match results.origin {
        Origin::Imported => imported(results),
        Origin::Measured => measured(results),
    }
}

/// Whether an answered flush is on every disk.
pub fn flush_durable(durable: Durable) -> &'static str {
    match durable {
        Durable::Yes => "yes",
        Durable::No => "NO",
        Durable::Unknown => "not known",
    }
}

/// What came of reading the data back.
pub fn read_back(verified: Option<bool>) -> &'static str {
    match verified {
        Some(true) => "right",
        Some(false) => "WRONG",
        None => "not checked",
    }
}

fn imported(results: &Results) -> Vec<String> {
    let samples: usize = results.rows.iter().map(|row| row.samples.len()).sum();
    let mut said = vec![format!(
        "{samples} results of {} workloads were read from {}.",
        results.workloads.len(),
        results.profile
    )];
    said.push(match results.illegible.len() {
        0 => "Nothing in it was illegible.".to_owned(),
        1 => "One thing in it could not be read; it is listed below.".to_owned(),
        count => format!("{count} things in it could not be read; they are listed below."),
    });
    said
}

/// The workloads that the summary tells of, if they were measured; else the first that writes.
const TOLD: [&str; 3] = ["4k-randwrite-d32", "4k-randwrite-flush", "4k-randread-d32"];

fn measured(results: &Results) -> Vec<String> {
    let mut told: Vec<&Workload> = TOLD.iter().filter_map(|id| results.workload(id)).collect();
    if told.is_empty() {
        told.extend(results.workloads.iter().find(|workload| workload.writes));
    }
    let mut said: Vec<String> =
        told.iter().filter_map(|workload| costs(results, workload)).collect();
    said.extend(told.first().and_then(|workload| of_limit(results, workload)));
    let wrong: Vec<&str> = results
        .configurations
        .iter()
        .filter(|known| known.verified == Some(false))
        .map(|known| known.name.as_str())
        .collect();
    said.push(match wrong.is_empty() {
        true => "All data that was checked after the last round read back right.".to_owned(),
        false => format!("Data did NOT read back right from: {}.", wrong.join(", ")),
    });
    said.extend(noise(results));
    said
}

/// What each configuration costs of the raw disk's speed.
fn costs(results: &Results, workload: &Workload) -> Option<String> {
    let raw = results.row(&results.raw()?.id, &workload.id)?.summary.as_ref()?;
    let mut first = true;
    let parts = compared(
        results,
        workload,
        |summary| summary.to_raw,
        |name, ratio| {
            let of_raw = if std::mem::take(&mut first) { " of raw" } else { "" };
            match ratio {
                ratio if ratio > 1.0 => format!("{name} is {} faster", percent(ratio - 1.0)),
                // Nothing costs all of it.
                ratio if ratio < 0.01 => {
                    format!("{name} costs {:.1} %{of_raw}", 100.0 - ratio * 100.0)
                }
                ratio => format!("{name} costs {}{of_raw}", percent(1.0 - ratio)),
            }
        },
    )?;
    let raw = figure(raw.median, workload.measure);
    Some(format!("{}, where the raw disk does {raw}: {parts}.", workload.name))
}

/// What each keeps of what one disk allows to so many copies.
fn of_limit(results: &Results, workload: &Workload) -> Option<String> {
    let parts = compared(
        results,
        workload,
        |summary| summary.to_limit,
        |name, ratio| format!("{name} {}", percent(ratio)),
    )?;
    Some(format!(
        "Copies on one disk share it. Of what it allows to so many files at once, divided among them, these are reached: {parts}."
    ))
}

/// The configurations beside raw that have such a ratio, in their order.
fn compared(
    results: &Results,
    workload: &Workload,
    ratio: impl Fn(&Summary) -> Option<f64>,
    mut told: impl FnMut(&str, f64) -> String,
) -> Option<String> {
    let mut parts = Vec::new();
    for (known, row) in rows_of(results, workload) {
        let summary = row.summary.as_ref();
        let ratio = summary.and_then(&ratio);
        if let Some(ratio) = ratio.filter(|_| !matches!(known.family, Family::Raw | Family::Limit))
        {
            parts.push(told(&known.name, ratio));
        }
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn noise(results: &Results) -> Option<String> {
    let machine = &results.machine;
    let busy = machine.load_average.filter(|load| *load > f64::from(machine.processors) / 2.0);
    let busy = busy.map(|load| {
        format!(
            "Others used the machine: when it began, its load was {load:.1} on {} processors.",
            machine.processors
        )
    });
    let Some(spread) = machine.raw_spread else { return busy };
    let foreign = machine.foreign_load.map_or(String::new(), |load| {
        format!(
            ", with {} of all processor time going to others and to kernel threads",
            percent(load)
        )
    });
    let verdict = match spread {
        spread if spread < 0.1 => "the machine was quiet",
        spread if spread < 0.3 => "the machine was a little noisy",
        _ => "the machine was noisy: take small differences for nothing",
    };
    let took = span(results.seconds);
    let noise = format!(
        "Rounds of the raw disk lay {} apart{foreign}: {verdict}. It took {took}.",
        percent(spread)
    );
    Some(busy.map_or(noise.clone(), |busy| format!("{busy} {noise}")))
}

/// From which difference on two results of one row differ by more than noise.
pub fn threshold(spreads: &[f64]) -> f64 {
    // Half the distance of the extremes is how far a median of few rounds may lie off.
    stats::median(spreads)
        .unwrap_or(0.0)
        .max(spreads.iter().copied().fold(0.0, f64::max) / 2.0)
        .max(NOISE_FLOOR)
}

//! The summary in words.

use crate::report::figure;
use crate::result::{Family, Origin, Results, Workload};
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

fn measured(results: &Results) -> Vec<String> {
    let mut said = Vec::new();
    let writes = results.workloads.iter().filter(|workload| workload.writes);
    let headline =
        writes.clone().find(|workload| workload.id == "4k-randwrite-d32").or(writes.clone().next());
    if let Some(workload) = headline {
        said.extend(costs(results, workload));
    }
    if let Some(workload) =
        results.workloads.iter().find(|workload| workload.id == "4k-randread-d32")
    {
        said.extend(costs(results, workload));
    }
    let unverified: Vec<&str> = results
        .configurations
        .iter()
        .filter(|known| known.verified == Some(false))
        .map(|known| known.name.as_str())
        .collect();
    said.push(match unverified.is_empty() {
        true => "All data that was checked after the last round read back right.".to_owned(),
        false => format!("Data did not read back right from: {}.", unverified.join(", ")),
    });
    said.extend(noise(results));
    said
}

/// What each replicated configuration keeps of the raw disk, and of what the disk allows.
fn costs(results: &Results, workload: &Workload) -> Option<String> {
    let raw = results.row(&results.raw()?.id, &workload.id)?.summary.as_ref()?;
    let mut parts = Vec::new();
    for known in &results.configurations {
        if !matches!(known.family, Family::Evenkeel | Family::ReplicatedPeer | Family::SinglePeer) {
            continue;
        }
        let Some(summary) =
            results.row(&known.id, &workload.id).and_then(|row| row.summary.as_ref())
        else {
            continue;
        };
        let Some(ratio) = summary.to_raw else { continue };
        let limit = summary.to_limit.map_or(String::new(), |limit| {
            format!(" ({} of what {} copies on one disk allow)", percent(limit), known.copies)
        });
        parts.push(format!("{} reaches {} of that{limit}", known.name, percent(ratio)));
    }
    if parts.is_empty() {
        return None;
    }
    let raw = figure(raw.median, workload.measure);
    Some(format!("{}: the raw disk does {raw}. {}.", workload.name, parts.join("; ")))
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
        format!(", and {} of the processors went to others and to the kernel", percent(load))
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

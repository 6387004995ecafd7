//! The picture at the beginning: bars of the headline workloads, and from which round to which
//! they reach.

use crate::report::figure;
use crate::report::findings::{Figure, Rivals, headlines};
use crate::result::{Configuration, Family, Results, Workload};
use crate::stats;
use crate::units::percent;

/// One workload of the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The workload's name.
    pub workload: String,
    /// What the bars are a part of, as in `raw`; the fastest of them if nothing else is there.
    pub reference: String,
    /// A bar for each configuration.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// [`Configuration::id`].
    pub configuration: String,
    /// Its name.
    pub name: String,
    /// Its length and the ends of its whisker: parts of the track, from 0 to 1.
    pub length: f64,
    /// From the slowest to the fastest round, if there are several.
    pub rounds: Option<(f64, f64)>,
    /// The ratio in words, as in `41 % of raw`; else the figure itself.
    pub label: String,
    /// The slowest and the fastest round in words, if there are several.
    pub reach: Option<String>,
}

/// The panels of the headline workloads that have anything to compare.
pub(super) fn panels(results: &Results, rivals: &Rivals<'_>) -> Vec<Panel> {
    let chosen = headlines(results).into_iter();
    chosen.filter_map(|workload| panel(results, rivals, workload)).collect()
}

fn panel(results: &Results, rivals: &Rivals<'_>, workload: &Workload) -> Option<Panel> {
    let reference = rivals.reference;
    let base = reference.and_then(|known| Figure::of(results, known, workload));
    let shown = |known: &&Configuration| known.family != Family::Limit;
    let all: Vec<Figure<'_>> = results
        .configurations
        .iter()
        .filter(shown)
        .filter_map(|known| Figure::of(results, known, workload))
        .collect();
    let fastest = all.iter().map(|figure| figure.median).fold(0.0, f64::max);
    // With a reference a bar is the ratio to it in the same rounds, else a part of the fastest.
    let unit = |one: &Figure<'_>| match (reference, &base) {
        (Some(known), Some(_)) => {
            let row = results.row(&one.known.id, &workload.id)?;
            let base = results.row(&known.id, &workload.id)?;
            stats::ratio(row, base, workload.measure, 1.0).map(|ratio| ratio / one.median)
        }
        _ => (fastest > 0.0).then(|| 1.0 / fastest),
    };
    let sized: Vec<(&Figure<'_>, f64)> = all
        .iter()
        .filter_map(|one| Some((one, unit(one).filter(|unit| unit.is_finite())?)))
        .collect();
    let longest = sized.iter().map(|(one, unit)| one.high * unit).fold(1.0, f64::max);
    let raw = reference.is_some_and(|known| known.family == Family::Raw);
    let name = match reference.filter(|_| base.is_some()) {
        Some(_) if raw => "raw".to_owned(),
        Some(known) => known.name.clone(),
        None => "the fastest".to_owned(),
    };
    let bars = sized.iter().map(|(one, unit)| Bar {
        configuration: one.known.id.clone(),
        name: one.known.name.clone(),
        length: one.median * unit / longest,
        rounds: (one.rounds > 1).then(|| (one.low * unit / longest, one.high * unit / longest)),
        label: match base {
            Some(_) => format!("{} of {name}", percent(one.median * unit)),
            None => plain(results, workload, one),
        },
        reach: (one.rounds > 1).then(|| {
            format!("rounds from {} to {}", percent(one.low * unit), percent(one.high * unit))
        }),
    });
    let bars: Vec<Bar> = bars.collect();
    (bars.len() > 1).then_some(Panel { workload: workload.name.clone(), reference: name, bars })
}

/// The figure as the tool gives it.
fn plain(results: &Results, workload: &Workload, one: &Figure<'_>) -> String {
    let summary = results.row(&one.known.id, &workload.id).and_then(|row| row.summary.as_ref());
    summary.map_or_else(String::new, |summary| figure(summary.median, workload.measure))
}

//! Pages and tables for people, made of results: each begins with what the results show.

pub mod charts;
pub mod compare;
pub mod findings;
pub mod html;
pub mod markdown;
pub mod messages;
pub mod plot;
pub mod terminal;

use crate::result::{Configuration, Measure, Results, Row, Workload};
use crate::units;

/// A figure with its unit.
pub fn figure(value: f64, measure: Measure) -> String {
    match measure {
        Measure::OperationsPerSecond => format!("{}/s", units::rate(value)),
        Measure::BytesPerSecond => units::bandwidth(value),
        Measure::SecondsPerOperation => units::micros(value * 1e6),
    }
}

/// The rows of a workload with their configurations, in the order of the configurations.
pub fn rows_of<'a>(
    results: &'a Results,
    workload: &'a Workload,
) -> impl Iterator<Item = (&'a Configuration, &'a Row)> {
    results
        .configurations
        .iter()
        .filter_map(|known| Some((known, results.row(&known.id, &workload.id)?)))
}

/// How far the rounds of a row lie apart, as a part of their median; `None` of one round.
pub fn spread(row: &Row) -> Option<f64> {
    row.summary.as_ref().filter(|_| row.samples.len() > 1).map(|summary| summary.spread)
}

/// Memory for people.
pub fn memory(bytes: u64) -> String {
    format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30))
}

/// A measured span for a column; a dash if there is none.
pub fn or_dash(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

#[cfg(test)]
mod tests;

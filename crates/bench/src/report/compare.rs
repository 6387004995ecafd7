//! Two runs beside each other: what changed beyond the noise.

use std::fmt::Write as _;

use serde::Serialize;

use crate::report::findings::MIN_ROUNDS;
use crate::report::{figure, messages};
use crate::result::{Measure, Results, Row, Workload};
use crate::units::percent;

/// One row that both runs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The configuration's name.
    pub configuration: String,
    /// The workload's name.
    pub workload: String,
    /// The figure by which they are compared.
    pub measure: Measure,
    /// Median of the first run.
    pub before: f64,
    /// Median of the second run.
    pub after: f64,
    /// How much faster the second is: 0.1 is ten percent. By the ratios to raw if both have them.
    pub faster: f64,
    /// From which difference on it counts.
    pub noise: f64,
    /// Whether it is more than noise.
    pub counts: bool,
}

/// Compares the rows that both runs have.
pub fn changes(before: &Results, after: &Results) -> Vec<Change> {
    let rows = before.rows.iter().filter_map(|row| {
        let other = after.row(&row.configuration, &row.workload)?;
        let known = before.configuration(&row.configuration)?;
        let workload = before.workload(&row.workload)?;
        let spreads = [before.machine.raw_spread, after.machine.raw_spread];
        change(known.name.clone(), workload, row, other, &spreads)
    });
    rows.collect()
}

fn change(
    configuration: String,
    workload: &Workload,
    before: &Row,
    after: &Row,
    machines: &[Option<f64>],
) -> Option<Change> {
    let (old, new) = (before.summary.as_ref()?, after.summary.as_ref()?);
    let ratio = match (old.to_raw, new.to_raw) {
        // Raw itself is always itself: only its own figure tells.
        (Some(old), Some(new)) if (old, new) != (1.0, 1.0) => new / old,
        _ if workload.measure.more_is_better() => new.median / old.median,
        _ => old.median / new.median,
    };
    let mut spreads = vec![old.spread, new.spread];
    spreads.extend(machines.iter().flatten());
    let (faster, noise) = (ratio - 1.0, messages::threshold(&spreads));
    faster.is_finite().then(|| Change {
        configuration,
        workload: workload.name.clone(),
        measure: workload.measure,
        before: old.median,
        after: new.median,
        faster,
        noise,
        counts: faster.abs() > noise && is_enough(before) && is_enough(after),
    })
}

/// Whether there are rounds enough to tell noise from a change.
fn is_enough(row: &Row) -> bool {
    row.samples.len() >= MIN_ROUNDS
}

/// What a reader must know before the changes: that rounds are missing, or machines differ.
fn cautions(before: &Results, after: &Results) -> String {
    let mut text = String::new();
    let few = before.rows.iter().any(|row| {
        let other = after.row(&row.configuration, &row.workload);
        other.is_some_and(|other| !is_enough(row) || !is_enough(other))
    });
    if few {
        text += &format!(
            "Rows of fewer than {MIN_ROUNDS} rounds show no change; they stand within the noise.\n"
        );
    }
    let facts = |results: &Results| {
        let machine = &results.machine;
        [machine.processor.clone(), machine.kernel.clone(), machine.disk.clone()]
    };
    let known = |facts: &[String; 3]| !facts[1].is_empty();
    let (old, new) = (facts(before), facts(after));
    if known(&old) && known(&new) && old != new {
        let differ: Vec<String> = old
            .iter()
            .zip(&new)
            .filter(|(old, new)| old != new)
            .map(|(old, new)| format!("{old} → {new}"))
            .collect();
        text += &format!(
            "The machine is not the same ({}): what changed may be its doing.\n",
            differ.join("; ")
        );
    }
    text
}

/// The comparison as JSON: a list of [`Change`]s.
pub fn json(before: &Results, after: &Results) -> String {
    // Every field is a plain value: there is nothing that could fail.
    serde_json::to_string_pretty(&changes(before, after))
        .map(|text| text + "\n")
        .unwrap_or_default()
}

/// The comparison as text.
pub fn text(before: &Results, after: &Results) -> String {
    let changes = changes(before, after);
    let (counted, within): (Vec<&Change>, Vec<&Change>) =
        changes.iter().partition(|change| change.counts);
    let mut text = cautions(before, after);
    text += &match (changes.len(), counted.len()) {
        (0, _) => "No row is in both: nothing can be compared.\n".to_owned(),
        (all, 0) => format!("{all} rows in both; none changed by more than noise.\n"),
        (all, some) => format!("{all} rows in both; {some} changed by more than noise:\n"),
    };
    text += &table(&counted);
    if !within.is_empty() {
        text += "\nWithin the noise:\n";
        text += &table(&within);
    }
    text
}

/// A line for each change, in columns.
fn table(changes: &[&Change]) -> String {
    let width = |of: fn(&Change) -> &str| {
        changes.iter().map(|change| of(change).chars().count()).max().unwrap_or(0)
    };
    let (names, workloads) =
        (width(|change| &change.configuration), width(|change| &change.workload));
    let mut text = String::new();
    for change in changes {
        let word = match (change.counts, change.faster >= 0.0) {
            (true, true) => "faster",
            (true, false) => "SLOWER",
            (false, true) => "+",
            (false, false) => "-",
        };
        let (before, after) =
            (figure(change.before, change.measure), figure(change.after, change.measure));
        // Writing into a String does not fail.
        let _ = writeln!(
            text,
            "  {word:>6} {:>7} of before, noise {:>6}  {:<workloads$}  {:<names$}  {before:>10} → {after}",
            percent(1.0 + change.faster),
            percent(change.noise),
            change.workload,
            change.configuration,
        );
    }
    text
}

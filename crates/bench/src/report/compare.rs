//! Two runs beside each other: what changed beyond the noise.

use std::fmt::Write as _;

use crate::report::{figure, words};
use crate::result::{Results, Row, Workload};
use crate::units::percent;

/// One row that both runs have.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The configuration's name.
    pub configuration: String,
    /// The workload's name.
    pub workload: String,
    /// The figure of the first run, for people.
    pub before: String,
    /// The figure of the second run, for people.
    pub after: String,
    /// How much faster the second is: 0.1 is ten percent. By the ratios to raw if both have them.
    pub faster: f64,
    /// From which difference on it counts.
    pub noise: f64,
}

impl Change {
    /// Whether it is more than noise.
    pub fn counts(&self) -> bool {
        self.faster.abs() > self.noise
    }
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
    Some(Change {
        configuration,
        workload: workload.name.clone(),
        before: figure(old.median, workload.measure),
        after: figure(new.median, workload.measure),
        faster: ratio - 1.0,
        noise: words::threshold(&spreads),
    })
    .filter(|change| change.faster.is_finite())
}

/// The comparison as text.
pub fn text(before: &Results, after: &Results) -> String {
    let changes = changes(before, after);
    let mut text = String::new();
    let counted: Vec<&Change> = changes.iter().filter(|change| change.counts()).collect();
    let _ = writeln!(
        text,
        "{} rows in both; {} changed by more than noise.",
        changes.len(),
        counted.len()
    );
    for change in counted {
        let word = if change.faster > 0.0 { "faster" } else { "SLOWER" };
        let _ = writeln!(
            text,
            "  {word} by {:>6} (noise {:>6})  {} → {}  {}, {}",
            percent(change.faster.abs()),
            percent(change.noise),
            change.before,
            change.after,
            change.configuration,
            change.workload,
        );
    }
    if changes.iter().any(|change| !change.counts()) {
        text += "within the noise:\n";
    }
    for change in changes.iter().filter(|change| !change.counts()) {
        let sign = if change.faster < 0.0 { "-" } else { "+" };
        let _ = writeln!(
            text,
            "  {sign}{:>6} (noise {:>6})  {}, {}",
            percent(change.faster.abs()),
            percent(change.noise),
            change.configuration,
            change.workload,
        );
    }
    text
}

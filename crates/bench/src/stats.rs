//! Medians, spreads and ratios.

use crate::result::{FLUSH, Family, Measure, Results, Row, Sample, Summary};

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Processor time that the clock of processes, which counts in ticks of 10 ms, can tell.
const MIN_CPU_SECONDS: f64 = 0.1;

/// The median of what the rounds give; `None` if it is not most of them that give anything.
pub fn over_max(samples: &[Sample], of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    of_max(&samples.iter().filter_map(of).collect::<Vec<_>>(), samples.len())
}

/// The median of what most of so many rounds gave: one of a few would stand for all.
fn of_max(values: &[f64], rounds: usize) -> Option<f64> {
    median(values).filter(|_| values.len() * 2 > rounds)
}

/// The latency at a percentile of reads, writes or flushes, whichever are slowest: who mixes them
/// waits for each. `None` if that of one of them is not known.
pub fn slowest(sample: &Sample, percentile: f64) -> Option<f64> {
    let timed = sample.parts.iter().filter(|part| part.latency.is_some());
    let all: Option<Vec<f64>> = timed.map(|part| part.percentile(percentile)).collect();
    all?.into_iter().reduce(f64::max)
}

/// Whether the latencies of a row contain what was waited for: where each write is flushed, earlier
/// versions kept only those of the writes.
pub fn times_its_flushes(row: &Row) -> bool {
    let flushed = |sample: &Sample| sample.parts.iter().any(|part| part.name == FLUSH);
    !row.command.contains(" --fsync=") || row.samples.iter().all(flushed)
}

/// What the samples of one row give together, without ratios to other rows.
pub fn summarize(samples: &[Sample], measure: Measure) -> Option<Summary> {
    let figures: Vec<f64> = samples.iter().filter_map(|sample| sample.figure(measure)).collect();
    let middle = median(&figures)?;
    let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let high = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let over = |of: &dyn Fn(&Sample) -> Option<f64>| over_max(samples, of);
    let percentile = |percentile: f64| over(&|sample| slowest(sample, percentile));
    let per_operation = |of: fn(&Sample) -> Option<f64>| {
        over(&|sample| Some(of(sample)? * 1e6 / sample.operations().filter(|count| *count > 0.0)?))
    };
    fn clocked(seconds: Option<f64>) -> Option<f64> {
        seconds.filter(|seconds| *seconds >= MIN_CPU_SECONDS)
    }
    Some(Summary {
        median: middle,
        low,
        high,
        spread: if middle > 0.0 { (high - low) / middle } else { 0.0 },
        to_raw: None,
        to_limit: None,
        bytes_per_second: over(&|sample| sample.figure(Measure::BytesPerSecond)),
        p50: percentile(50.0),
        p99: percentile(99.0),
        server_cpu_per_operation: per_operation(|sample| clocked(sample.server_cpu_seconds)),
        client_cpu_per_operation: per_operation(|sample| sample.client_cpu_seconds),
        machine_cpu_per_operation: per_operation(|sample| clocked(sample.machine_cpu_seconds)),
    })
}

/// Median over the rounds that both have, of the ratio in the same round, as speed: above 1 is
/// faster than the base, whatever the measure. `None` if the base lacks half of the row's rounds:
/// the ratio would be of other rounds than the figure beside it.
pub fn ratio(row: &Row, base: &Row, measure: Measure, divisor: f64) -> Option<f64> {
    let ratios: Vec<f64> = row
        .samples
        .iter()
        .filter_map(|sample| {
            let other = base.samples.iter().find(|other| other.round == sample.round)?;
            let (mine, theirs) = (sample.figure(measure)?, other.figure(measure)? / divisor);
            let (top, bottom) =
                if measure.more_is_better() { (mine, theirs) } else { (theirs, mine) };
            (bottom > 0.0).then(|| top / bottom)
        })
        .collect();
    let figures = row.samples.iter().filter(|sample| sample.figure(measure).is_some());
    of_max(&ratios, figures.count())
}

/// Fills every row's summary, ratios included, and how noisy the machine was.
pub fn summarize_all(results: &mut Results) {
    let raw = results.raw().map(|configuration| configuration.id.clone());
    let summaries: Vec<Option<Summary>> =
        results.rows.iter().map(|row| summary_of(results, row, raw.as_deref())).collect();
    for (row, summary) in results.rows.iter_mut().zip(summaries) {
        // Without rounds (someone has left them out) there is nothing better than what was said.
        if !row.samples.is_empty() {
            row.summary = summary;
        }
    }
    let spreads: Vec<f64> = results
        .rows
        .iter()
        .filter(|row| Some(&row.configuration) == raw.as_ref() && row.samples.len() > 1)
        .filter_map(|row| row.summary.as_ref().map(|summary| summary.spread))
        .collect();
    results.machine.raw_spread = median(&spreads);
}

fn summary_of(results: &Results, row: &Row, raw: Option<&str>) -> Option<Summary> {
    let workload = results.workload(&row.workload)?;
    let configuration = results.configuration(&row.configuration)?;
    let mut summary = summarize(&row.samples, workload.measure)?;
    if !times_its_flushes(row) {
        (summary.p50, summary.p99) = (None, None);
    }
    let base = raw.and_then(|raw| results.row(raw, &row.workload));
    summary.to_raw = base.and_then(|base| ratio(row, base, workload.measure, 1.0));
    if workload.writes && configuration.family != Family::Limit && configuration.copies > 1 {
        summary.to_limit = limit_row(results, row, configuration.copies)
            .and_then(|limit| ratio(row, limit, workload.measure, f64::from(configuration.copies)));
    }
    Some(summary)
}

/// The row of N files at once under the same workload.
fn limit_row<'a>(results: &'a Results, row: &Row, copies: u32) -> Option<&'a Row> {
    let limit = results.configurations.iter().find(|configuration| {
        configuration.family == Family::Limit && configuration.copies == copies
    })?;
    results.row(&limit.id, &row.workload)
}

#[cfg(test)]
mod tests;

use super::*;
use crate::result::{Latency, Part};

fn sample(round: u32, rate: f64) -> Sample {
    let part = Part {
        name: "write".to_owned(),
        operations: Some(rate),
        seconds: Some(1.0),
        operations_per_second: Some(rate),
        latency: Some(Latency { percentiles: vec![(50.0, 1e6 / rate)], ..Latency::default() }),
        ..Part::default()
    };
    Sample { round, parts: vec![part], server_cpu_seconds: Some(0.5), ..Sample::default() }
}

fn row(rates: &[(u32, f64)]) -> Row {
    Row {
        configuration: String::new(),
        workload: String::new(),
        command: String::new(),
        cache: String::new(),
        samples: rates.iter().map(|(round, rate)| sample(*round, *rate)).collect(),
        summary: None,
    }
}

#[test]
fn the_median_needs_no_order_and_ignores_what_is_no_number() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(&[f64::NAN, 5.0]), Some(5.0));
}

#[test]
fn a_summary_tells_the_middle_and_how_far_the_rounds_lie_apart() {
    let rounds = row(&[(1, 100.0), (2, 80.0), (3, 120.0)]);
    let summary = summarize(&rounds.samples, Measure::OperationsPerSecond).unwrap();
    assert_eq!((summary.median, summary.low, summary.high), (100.0, 80.0, 120.0));
    assert!((summary.spread - 0.4).abs() < 1e-9);
    assert_eq!(summary.p50, Some(10_000.0));
    assert_eq!(summary.server_cpu_per_operation, Some(5_000.0));
}

#[test]
fn ratios_are_taken_within_a_round() {
    // The machine became four times slower after round 1; the ratio stays what it is.
    let raw = row(&[(1, 400.0), (2, 100.0), (3, 100.0)]);
    let mirror = row(&[(1, 200.0), (2, 50.0), (4, 7.0)]);
    assert_eq!(ratio(&mirror, &raw, Measure::OperationsPerSecond, 1.0), Some(0.5));
    assert_eq!(ratio(&mirror, &raw, Measure::OperationsPerSecond, 2.0), Some(1.0));
}

#[test]
fn a_ratio_of_times_is_one_of_speeds() {
    let raw = row(&[(1, 100.0)]);
    let slower = row(&[(1, 25.0)]);
    assert_eq!(ratio(&slower, &raw, Measure::SecondsPerOperation, 1.0), Some(0.25));
}

#[test]
fn a_median_of_a_few_rounds_does_not_stand_for_all() {
    // Raw failed in two of three rounds: the ratio would be of one round, the figure of three.
    let raw = row(&[(2, 100.0)]);
    let mirror = row(&[(1, 10.0), (2, 50.0), (3, 12.0)]);
    assert_eq!(ratio(&mirror, &raw, Measure::OperationsPerSecond, 1.0), None);
    let mut rounds = row(&[(1, 100.0), (2, 80.0), (3, 120.0)]);
    rounds.samples[0].server_cpu_seconds = None;
    rounds.samples[1].server_cpu_seconds = None;
    let summary = summarize(&rounds.samples, Measure::OperationsPerSecond).unwrap();
    assert_eq!(summary.server_cpu_per_operation, None);
}

#[test]
fn a_percentile_needs_operations_beyond_it() {
    let percentile = |operations: f64, percentile: f64| {
        let mut sample = sample(1, operations);
        let latency = sample.parts[0].latency.as_mut().unwrap();
        latency.percentiles = vec![(50.0, 1.0), (99.0, 2.0)];
        slowest(&sample, percentile)
    };
    assert_eq!(percentile(1_000.0, 99.0), Some(2.0));
    assert_eq!(percentile(999.0, 99.0), None);
    assert_eq!((percentile(20.0, 50.0), percentile(19.0, 50.0)), (Some(1.0), None));
}

#[test]
fn the_latency_of_a_mix_is_that_of_its_slowest_part() {
    let mut mixed = sample(1, 5_000.0);
    let latency = |at: f64| Some(Latency { percentiles: vec![(99.0, at)], ..Latency::default() });
    mixed.parts[0].latency = latency(40.0);
    mixed.parts.push(Part {
        name: "flush".to_owned(),
        latency: latency(900.0),
        ..mixed.parts[0].clone()
    });
    assert_eq!(slowest(&mixed, 99.0), Some(900.0));
    // Of too few flushes nobody knows the p99, and that of the writes is not the workload's.
    mixed.parts[1].operations = Some(10.0);
    assert_eq!(slowest(&mixed, 99.0), None);
}

#[test]
fn half_of_a_mix_is_not_the_mix() {
    let mut mixed = sample(1, 100.0);
    mixed.parts.push(Part {
        name: "read".to_owned(),
        operations_per_second: None,
        ..mixed.parts[0].clone()
    });
    assert_eq!(mixed.figure(Measure::OperationsPerSecond), None);
}

#[test]
fn processor_time_below_the_clock_is_not_a_figure() {
    let mut rounds = row(&[(1, 100.0)]);
    rounds.samples[0].server_cpu_seconds = Some(0.01);
    let summary = summarize(&rounds.samples, Measure::OperationsPerSecond).unwrap();
    assert_eq!(summary.server_cpu_per_operation, None);
}

//! One direction of one group: everything behind `read:` or `write:`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::import::{agree, numbers};
use crate::result::{Latency, Part};

/// The percentiles that fio prints unless told otherwise.
const USUAL: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

static HEAD_3: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\w+\s*:\s*IOPS=\s*([\d.]+[kM]?),\s*BW=\s*([\d.]+)\s*([KMGT]?i?B)/s\s*\(([\d.]+)\s*([kMGT]?B)/s\)\s*\(([\d.]+)\s*([KMGT]?i?B)/(\d+)\s*msec\)").ok()
});
static HEAD_2: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\w+\s*:\s*io=\s*([\d.]+)\s*([KMGT]?B),\s*bw=\s*([\d.]+)\s*([KMG]?B)/s,\s*iops=\s*(\d+),\s*runt=\s*(\d+)\s*msec").ok()
});
static TIMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\b(slat|clat|lat)\s*\((nsec|usec|msec|sec)\)\s*:\s*min=\s*([\d.]+[kKM]?),\s*max=\s*([\d.]+[kKM]?),\s*avg=\s*([\d.]+[kKM]?),\s*stdev=\s*([\d.]+[kKM]?)").ok()
});
static PERCENTILES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"clat\s+percentiles\s*\((nsec|usec|msec|sec)\)\s*:").ok());
static PERCENTILE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(\d+\.\d+)th\s*=\s*\[\s*>?=?\s*([^\]\[\s]+)\s*\]").ok());
static ENDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b(bw\s*\(|iops\s*:|lat\s*\(\w+\)\s*:\s*\d|cpu\s*:)").ok());

/// What was read of a direction.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The figures; `None` if not even the first line is whole.
    pub part: Option<Part>,
    /// What could not be read.
    pub missing: Vec<String>,
}

/// Reads a direction from its segment of the text. With `orphan` there is only its first line.
pub fn read(name: &str, segment: &str, block: Option<f64>, mixed: bool, orphan: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let head = head_3(segment).or_else(|| head_2(segment));
    let Some(mut part) = head else {
        outcome.missing.push("its first line is damaged".to_owned());
        return outcome;
    };
    part.name = name.to_owned();
    check_rates(&mut part, segment, block, &mut outcome.missing);
    if !orphan {
        part.latency = latency(segment, mixed, &mut outcome.missing);
    }
    outcome.part = Some(part);
    outcome
}

fn size(captures: &Captures<'_>, number: usize, unit: usize, thousand: f64) -> Option<f64> {
    Some(numbers::number(&captures[number])? * numbers::unit(&captures[unit], thousand)?)
}

fn head_3(segment: &str) -> Option<Part> {
    let captures = HEAD_3.as_ref()?.captures(segment)?;
    let decimal = size(&captures, 4, 5, 1000.0)?;
    let binary = size(&captures, 2, 3, 1024.0)?;
    let seconds = numbers::number(&captures[8])? / 1000.0;
    Some(Part {
        bytes: size(&captures, 6, 7, 1024.0),
        seconds: (seconds > 0.0).then_some(seconds),
        // Both are rounded; that they are the same is one of the checks on them.
        bytes_per_second: agree(decimal, binary, 0.015).then_some(binary),
        operations_per_second: numbers::scaled(&captures[1]),
        ..Part::default()
    })
}

fn head_2(segment: &str) -> Option<Part> {
    let captures = HEAD_2.as_ref()?.captures(segment)?;
    let seconds = numbers::number(&captures[6])? / 1000.0;
    Some(Part {
        bytes: size(&captures, 1, 2, 1024.0),
        seconds: (seconds > 0.0).then_some(seconds),
        bytes_per_second: size(&captures, 3, 4, 1024.0),
        operations_per_second: numbers::number(&captures[5]),
        ..Part::default()
    })
}

/// Leaves out rates that contradict each other.
fn check_rates(part: &mut Part, segment: &str, block: Option<f64>, missing: &mut Vec<String>) {
    let consistent = match (part.bytes, part.seconds, part.bytes_per_second) {
        (Some(bytes), Some(seconds), Some(rate)) => agree(bytes / seconds, rate, 0.012),
        _ => false,
    };
    if !consistent {
        missing.push("bytes, time and bandwidth contradict each other: left out".to_owned());
        (part.bytes, part.seconds, part.bytes_per_second) = (None, None, None);
    }
    let count = super::issued(segment)
        .map(|(reads, writes)| if part.name == "read" { reads } else { writes });
    part.operations = count.filter(|count| *count > 0.0);
    // What is not there contradicts nothing.
    let Some(rate) = part.operations_per_second else { return };
    // One unit: fio 2 cuts off what is behind the point.
    let tolerance = 0.012 + 1.0 / rate.max(1.0);
    let by_block = block.zip(part.bytes_per_second).map(|(block, bytes)| bytes / block);
    let by_count = part.operations.zip(part.seconds).map(|(count, seconds)| count / seconds);
    let agrees = |other: Option<f64>| other.map(|other| agree(rate, other, tolerance));
    match (agrees(by_block), agrees(by_count)) {
        (Some(false), Some(false) | None) | (None, Some(false)) => {
            missing.push("the rate contradicts bandwidth and count: left out".to_owned());
            part.operations_per_second = None;
        }
        (Some(true) | None, None) | (Some(true), Some(true)) | (None, Some(true)) => {}
        (Some(true), Some(false)) => {
            missing.push("the count of operations contradicts the rate: left out".to_owned());
            part.operations = None;
        }
        (Some(false), Some(true)) => {
            missing.push("the bandwidth contradicts the rate: left out".to_owned());
            part.bytes_per_second = None;
        }
    }
}

struct Times {
    min: f64,
    max: f64,
    mean: f64,
}

fn times(segment: &str, wanted: &str, missing: &mut Vec<String>) -> Option<Times> {
    let captures =
        TIMES.as_ref()?.captures_iter(segment).find(|captures| &captures[1] == wanted)?;
    let unit = numbers::micros(&captures[2])?;
    let value = |index: usize| numbers::scaled(&captures[index]).map(|value| value * unit);
    let (min, max, mean) = (value(3)?, value(4)?, value(5)?);
    // Smallest and largest are cut to whole units.
    match min <= mean + unit && mean <= max + unit {
        true => Some(Times { min, max, mean }),
        false => {
            missing.push(format!("min, avg and max of {wanted} contradict each other: left out"));
            None
        }
    }
}

/// The segment up to where a kind of latency stands a second time: there begins another
/// direction, whose first line is gone.
fn own(segment: &str) -> &str {
    let Some(pattern) = TIMES.as_ref() else { return segment };
    let mut known: Vec<&str> = Vec::new();
    for captures in pattern.captures_iter(segment) {
        let (Some(all), Some(kind)) = (captures.get(0), captures.get(1)) else { continue };
        if known.contains(&kind.as_str()) {
            return &segment[..all.start()];
        }
        known.push(kind.as_str());
    }
    segment
}

fn latency(segment: &str, mixed: bool, missing: &mut Vec<String>) -> Option<Latency> {
    let segment = own(segment);
    let submission = times(segment, "slat", missing);
    let completion = times(segment, "clat", missing);
    let whole = times(segment, "lat", missing);
    if completion.is_none() && mixed {
        // The next lines may belong to the other direction, whose first line went with the gap.
        missing.push("lines are gone, and what follows may belong to the other direction: latencies left out".to_owned());
        return None;
    }
    let mut latency = Latency {
        completion_mean: completion.as_ref().map(|times| times.mean),
        percentiles: percentiles(segment, completion.as_ref(), missing),
        ..Latency::default()
    };
    if completion.is_none() {
        missing.push("the mean of the completion latency is gone".to_owned());
    }
    match whole {
        Some(whole) => {
            let parts = completion
                .as_ref()
                .map(|clat| clat.mean + submission.as_ref().map_or(0.0, |slat| slat.mean));
            // The parts are rounded in units of their own; fio's own overhead lies between them.
            let fits = parts
                .is_none_or(|sum| agree(sum, whole.mean, 0.02) || (sum - whole.mean).abs() < 1.0);
            if fits {
                (latency.mean, latency.min, latency.max) =
                    (Some(whole.mean), Some(whole.min), Some(whole.max));
            } else {
                missing.push("the mean latency contradicts its parts: left out".to_owned());
            }
        }
        None => missing.push("the mean of the whole latency is gone".to_owned()),
    }
    (latency != Latency::default()).then_some(latency)
}

fn percentiles(
    segment: &str,
    completion: Option<&Times>,
    missing: &mut Vec<String>,
) -> Vec<(f64, f64)> {
    let Some(start) = PERCENTILES.as_ref().and_then(|pattern| pattern.captures(segment)) else {
        missing.push("the percentiles are gone".to_owned());
        return Vec::new();
    };
    let begin = start.get(0).map_or(0, |all| all.end());
    let Some(unit) = numbers::micros(&start[1]) else { return Vec::new() };
    let end = ENDS
        .as_ref()
        .and_then(|pattern| pattern.find_at(segment, begin))
        .map_or(segment.len(), |end| end.start());
    let Some(pattern) = PERCENTILE.as_ref() else { return Vec::new() };
    let pairs = pattern.captures_iter(&segment[begin..end]).filter_map(|captures| {
        Some((numbers::number(&captures[1])?, numbers::scaled(&captures[2])? * unit))
    });
    let pairs: Vec<(f64, f64)> = pairs.collect();
    let gone: Vec<String> = USUAL
        .iter()
        .filter(|usual| !pairs.iter().any(|(known, _)| known == *usual))
        .map(|usual| format!("{usual}th"))
        .collect();
    if !gone.is_empty() {
        missing.push(format!("percentiles are gone: {}", gone.join(", ")));
    }
    let ordered = pairs.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    // Buckets are a few percent wide; fio 2 has none above about 17 seconds.
    let within = completion.is_none_or(|clat| {
        pairs
            .iter()
            .all(|(_, value)| *value <= clat.max * 1.05 + unit && *value >= clat.min * 0.95 - unit)
    });
    match ordered && within {
        true => pairs,
        false => {
            missing.push("the percentiles contradict each other: left out".to_owned());
            Vec::new()
        }
    }
}

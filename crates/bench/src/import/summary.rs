//! Results that a person has summed up in one line:
//! `name: throughput(1849KB/s), clat(2.39us), iops(462)`. KB are 1024 bytes, as fio 2 counts.

use std::sync::LazyLock;

use regex::Regex;

use crate::import::document::Document;
use crate::import::{Found, Reading, described, numbers};
use crate::result::{Latency, Measure, Part};

static LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?m)^[\s*-]*([\w.-]+):\s+throughput\(([\d.]+)KB/s\),\s*(c?lat)\(([\d.]+)us\),\s*iops\((\d+)\)").ok()
});
static HINT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"throughput\([^)]*\)[^\n]*iops\(").ok());
static PATTERN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"--(?:rw|readwrite)=(\w+)").ok());

/// What a person has told in other words: shown to the reader, because no tool's words say what it
/// is.
static TOLD: [(LazyLock<Option<Regex>>, &str); 3] = [
    (
        LazyLock::new(|| Regex::new(r"(?m)^.*\biops\(\d+\),[^\n]*throughput\([^\n]*$").ok()),
        "summary: figures of several commands in one line",
    ),
    (
        LazyLock::new(|| Regex::new(r"(?m)^[\s*-]*[\w.-]+:[ \t]+TBD[ \t]*$").ok()),
        "summary: figures were never filled in",
    ),
    (
        LazyLock::new(|| {
            Regex::new(r"(?m)^.*\bresults? (?:is|are):[^\n]*\d ?(?:[kMG]?B/s|s)\b[^\n]*$").ok()
        }),
        "dd: results told in a sentence",
    ),
];

/// Reads every such line in a text.
pub fn read(document: &Document) -> Reading {
    let mut reading = Reading::default();
    let (Some(line), Some(hint)) = (LINE.as_ref(), HINT.as_ref()) else { return reading };
    let text = document.text();
    let mut ends = Vec::new();
    for captures in line.captures_iter(text) {
        let Some(all) = captures.get(0) else { continue };
        ends.push(all.end());
        let figures = (
            numbers::number(&captures[2]),
            numbers::number(&captures[4]),
            numbers::number(&captures[5]),
        );
        let at = all.start() + all.as_str().len() - all.as_str().trim_start().len();
        let (Some(rate), Some(latency), Some(operations)) = figures else {
            reading.illegible.push((at, "summary: a figure cannot be read".to_owned()));
            continue;
        };
        let Some(pattern) = pattern_before(text, at) else {
            let what = "summary: the command is gone, which says what was done";
            reading.illegible.push((at, what.to_owned()));
            continue;
        };
        let latency = match &captures[3] {
            "lat" => Latency { mean: Some(latency), ..Latency::default() },
            _ => Latency { completion_mean: Some(latency), ..Latency::default() },
        };
        let part = Part {
            name: if pattern.contains("read") { "read" } else { "write" }.to_owned(),
            bytes_per_second: Some(rate * 1024.0),
            operations_per_second: Some(operations),
            latency: Some(latency),
            ..Part::default()
        };
        reading.found.push(Found {
            at,
            begin: at,
            subject: Some(captures[1].to_owned()),
            workload: described(
                format!("summary-{pattern}"),
                format!("summed up by hand, {pattern}"),
                "fio",
                Measure::OperationsPerSecond,
                !pattern.contains("read"),
            ),
            command: String::new(),
            parts: vec![part],
        });
    }
    for hint in hint.find_iter(text) {
        if !ends.iter().any(|end| (hint.start()..hint.end() + 40).contains(end)) {
            reading.illegible.push((hint.start(), "summary: the line is damaged".to_owned()));
        }
    }
    for (told, what) in &TOLD {
        let found = told.as_ref().map(|told| told.find_iter(text)).into_iter().flatten();
        reading.illegible.extend(found.map(|found| {
            let blank = found.as_str().len() - found.as_str().trim_start().len();
            (found.start() + blank, (*what).to_owned())
        }));
    }
    reading
}

/// The pattern of the last command before a position, under the same heading.
fn pattern_before(text: &str, at: usize) -> Option<String> {
    let begin = text[..at].rfind("\n#").unwrap_or(0);
    let found = PATTERN.as_ref()?.captures_iter(&text[begin..at]).last()?;
    Some(found[1].to_owned())
}

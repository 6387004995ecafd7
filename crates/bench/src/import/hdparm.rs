//! hdparm -tT: `Timing buffered disk reads: 586 MB in  3.00 seconds = 195.12 MB/sec`. Its MB are
//! 1,048,576 bytes.

use std::sync::LazyLock;

use regex::Regex;

use crate::import::document::Document;
use crate::import::{Found, Reading, agree, described, numbers};
use crate::result::{Measure, Part};

static OUTCOME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"Timing\s+(cached|buffered\s+disk|O_DIRECT\s+cached|O_DIRECT\s+disk)\s+reads:\s*([^=\n]*)=\s*(\S+)\s+([kMG])B/sec").ok()
});
static AMOUNT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(\d+)\s+MB\s+in\s+(\S+)\s+seconds\s*$").ok());
static HINT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"Timing\s+\S+[^\n]*reads").ok());
static DEVICE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)(?:^|\s)(/dev/[^\s:]+):\s*$").ok());

const MEBI: f64 = 1_048_576.0;

/// The outcomes in the output of one run.
pub fn outcomes(text: &str) -> Vec<Part> {
    read(&Document::new(text)).found.into_iter().flat_map(|found| found.parts).collect()
}

/// Reads every run of hdparm in a text.
pub fn read(document: &Document) -> Reading {
    let mut reading = Reading::default();
    let (Some(outcome), Some(hint)) = (OUTCOME.as_ref(), HINT.as_ref()) else { return reading };
    let text = document.text();
    let mut seen = Vec::new();
    for captures in outcome.captures_iter(text) {
        let Some(all) = captures.get(0) else { continue };
        seen.push(all.start());
        let kind = captures[1].split_whitespace().collect::<Vec<_>>().join(" ");
        match part(&format!("{kind} reads"), &captures[2], &captures[3], &captures[4]) {
            Ok(part) => add(&mut reading, text, all.start(), part),
            Err(why) => reading.illegible.push((all.start(), format!("hdparm: {why}"))),
        }
    }
    for hint in hint.find_iter(text).filter(|hint| !seen.contains(&hint.start())) {
        reading.illegible.push((hint.start(), "hdparm: the line is damaged".to_owned()));
    }
    reading
}

fn part(name: &str, amount: &str, rate: &str, unit: &str) -> Result<Part, String> {
    let factor = match unit {
        "k" => 1024.0,
        "M" => MEBI,
        _ => MEBI * 1024.0,
    };
    let rate = numbers::number(rate).ok_or("the rate cannot be read")? * factor;
    let captures = AMOUNT.as_ref().and_then(|pattern| pattern.captures(amount.trim_start()));
    let captures = captures.ok_or("amount and time cannot be read")?;
    let bytes = numbers::number(&captures[1]).ok_or("the amount cannot be read")? * MEBI;
    let seconds = numbers::number(&captures[2]).filter(|seconds| *seconds > 0.0);
    let seconds = seconds.ok_or("the time cannot be read")?;
    // The time has two digits behind the point.
    if !agree(bytes / seconds, rate, 0.006 / seconds + 0.001) {
        return Err("amount, time and rate contradict each other".to_owned());
    }
    Ok(Part {
        name: name.to_owned(),
        bytes: Some(bytes),
        seconds: Some(seconds),
        bytes_per_second: Some(rate),
        ..Part::default()
    })
}

/// Both figures are workloads of their own: one is of the memory, the other of the disk.
fn add(reading: &mut Reading, text: &str, at: usize, part: Part) {
    let device = DEVICE
        .as_ref()
        .and_then(|pattern| pattern.captures_iter(&text[..at]).last())
        .map(|captures| captures[1].to_owned());
    let id = format!("hdparm-{}", part.name.replace(' ', "-"));
    let name = format!("hdparm, {}", part.name);
    let workload = described(id, name, "hdparm", Measure::BytesPerSecond, false);
    let begin = at;
    reading.found.push(Found {
        at,
        begin,
        subject: device,
        workload,
        command: "hdparm -tT".to_owned(),
        parts: vec![part],
    });
}

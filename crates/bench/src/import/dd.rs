//! dd: `536870912 bytes (537 MB) copied, 2.93126 s, 183 MB/s`, with or without the binary size.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::import::document::Document;
use crate::import::{Found, Reading, agree, described, numbers};
use crate::result::{Latency, Measure, Part};

static OUTCOME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(\d+)\s+bytes(?:\s+\((\S+)\s+([kMGT]?B)(?:,[^)]*)?\))?\s+copied,\s+(\S+)\s+s,\s+(\S+)\s+([kMGT]?B)/s",
    )
    .ok()
});
static DAMAGED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"bytes[^\n]{0,40}\bcopied").ok());
static RECORDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(\d+)\+(\d+)\s+records\s+out").ok());
static COMMAND: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\bdd\s+((?:(?:if|of|bs|count|iflag|oflag|conv)=[^\s;]+\s*)+)").ok()
});
static WORDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b(?:if|of|bs|count)=\S").ok());

/// Block sizes up to which a run of dd is about latency rather than throughput.
const SMALL_BLOCK: f64 = 65_536.0;
/// How far before its outcome the records of a run stand.
const RECORDS_REACH: usize = 200;

/// The outcomes in the output of one run.
pub fn outcomes(text: &str) -> Vec<Part> {
    read(&Document::new(text)).found.into_iter().flat_map(|found| found.parts).collect()
}

/// Reads every run of dd in a text.
pub fn read(document: &Document) -> Reading {
    let mut reading = Reading::default();
    let (Some(outcome), Some(damaged)) = (OUTCOME.as_ref(), DAMAGED.as_ref()) else {
        return reading;
    };
    let text = document.text();
    let mut whole = Vec::new();
    for captures in outcome.captures_iter(text) {
        let Some(all) = captures.get(0) else { continue };
        whole.push(all.range());
        match part(text, all.start(), &captures) {
            Ok((part, command)) => reading.found.push(found(all.start(), part, command)),
            Err(why) => reading.illegible.push((all.start(), format!("dd: {why}"))),
        }
    }
    for hint in damaged.find_iter(text) {
        if !whole
            .iter()
            .any(|range| range.contains(&hint.start()) || range.contains(&(hint.end() - 1)))
        {
            reading.illegible.push((hint.start(), "dd: its outcome is damaged".to_owned()));
        }
    }
    reading
}

#[derive(Debug, Default, Clone)]
struct Command {
    begin: usize,
    text: String,
}

impl Command {
    fn value(&self, key: &str) -> Option<&str> {
        self.text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn block(&self) -> Option<f64> {
        crate::units::parse_size(self.value("bs")?).ok().map(|bytes| bytes as f64)
    }
}

fn part(text: &str, at: usize, captures: &Captures<'_>) -> Result<(Part, Command), String> {
    let field = |index: usize| captures.get(index).map_or("", |field| field.as_str());
    let bytes = numbers::number(field(1)).ok_or("the bytes cannot be read")?;
    let seconds = numbers::number(field(4)).filter(|seconds| *seconds > 0.0);
    let seconds = seconds.ok_or("the time cannot be read")?;
    let rate = numbers::number(field(5)).zip(numbers::unit(field(6), 1000.0));
    let (rate, unit) = rate.ok_or("the rate cannot be read")?;
    // The rate has two or three digits.
    let step = if rate < 10.0 { 0.05 * unit } else { 0.5 * unit };
    let exact = bytes / seconds;
    if (exact - rate * unit).abs() > step * 1.1 + exact * 0.002 {
        return Err(format!("{bytes} bytes in {seconds} s are not {rate} {}/s", field(6)));
    }
    if let Some((short, unit)) = numbers::number(field(2)).zip(numbers::unit(field(3), 1000.0))
        && !agree(short * unit, bytes, 0.06)
    {
        return Err(format!("{bytes} bytes are not {short} {}", field(3)));
    }
    let command = command_before(text, at).ok_or("the command above it is damaged")?;
    let operations = records_before(text, at).filter(|(full, partial)| {
        let fits = |block: f64| (full * block..=(full + partial) * block).contains(&bytes);
        command.block().is_none_or(fits)
    });
    let operations = operations.map(|(full, partial)| full + partial);
    let reads =
        command.value("if").is_some_and(|from| from != "/dev/zero" && from != "/dev/urandom");
    let part = Part {
        name: if reads { "read" } else { "write" }.to_owned(),
        bytes: Some(bytes),
        operations,
        seconds: Some(seconds),
        bytes_per_second: Some(exact),
        operations_per_second: operations.map(|count| count / seconds),
        processor_percent: None,
        latency: operations
            .map(|count| Latency { mean: Some(seconds * 1e6 / count), ..Latency::default() }),
    };
    Ok((part, command))
}

/// Full and partial records, which stand directly above the outcome: others are another run's.
fn records_before(text: &str, at: usize) -> Option<(f64, f64)> {
    let mut begin = at.saturating_sub(RECORDS_REACH);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    let above = text[begin..at].trim_end();
    let captures = RECORDS.as_ref()?.captures_iter(above).last()?;
    if captures.get(0)?.end() != above.len() {
        return None;
    }
    Some((numbers::number(&captures[1])?, numbers::number(&captures[2])?))
}

/// The last command of dd before a position; empty if there is none, and `None` if part of it is
/// gone, or words of another one stand below it.
fn command_before(text: &str, at: usize) -> Option<Command> {
    let (pattern, words) = (COMMAND.as_ref()?, WORDS.as_ref()?);
    let found = pattern.find_iter(&text[..at]).last();
    let Some(found) = found else {
        return Some(Command { begin: at, text: String::new() });
    };
    let command = Command {
        begin: found.start(),
        text: found.as_str().split_whitespace().collect::<Vec<_>>().join(" "),
    };
    let is_whole = |flags, file| command.value(flags).is_none() || command.value(file).is_some();
    let is_last = !words.is_match(&text[found.end()..at]);
    (is_last && is_whole("iflag", "if") && is_whole("oflag", "of")).then_some(command)
}

fn found(at: usize, part: Part, command: Command) -> Found {
    let block = command.block();
    let latency = part.operations.is_some_and(|count| count > 1.0)
        && block.is_some_and(|block| block <= SMALL_BLOCK);
    let size = command.value("bs").unwrap_or("unknown").to_lowercase();
    let copies = part.name == "read" && command.value("of").is_some_and(|to| to != "/dev/null");
    let action = if copies { "copy" } else { part.name.as_str() };
    let count = command.value("count").unwrap_or("?");
    let measure = if latency { Measure::SecondsPerOperation } else { Measure::BytesPerSecond };
    let writes = part.name == "write";
    let workload = described(
        format!("dd-{action}-{size}-{count}"),
        format!("dd {action}, bs={size} count={count}"),
        "dd",
        measure,
        writes,
    );
    Found {
        at,
        begin: command.begin,
        subject: None,
        workload,
        command: command.text,
        parts: vec![part],
    }
}

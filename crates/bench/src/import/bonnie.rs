//! bonnie++ 1.96 and 2.x: the table for people, and the line of comma-separated values.
//!
//! Rates are in units of 1,024 bytes. `+++++` means: too fast to be measured.

use std::sync::LazyLock;

use regex::Regex;

use crate::import::document::Document;
use crate::import::{Found, Reading, described, numbers};
use crate::result::{Latency, Measure, Part};

const KIBI: f64 = 1024.0;
/// Lines that both tables of a run take at most.
const TABLE_LINES: usize = 14;
/// The six tests of a file, in the order of the columns, and whether they are in bytes.
const TESTS: [(&str, bool); 6] = [
    ("write by character", true),
    ("write by block", true),
    ("rewrite", true),
    ("read by character", true),
    ("read by block", true),
    ("seeks", false),
];
/// Those that remain with `-f`.
const FAST: [usize; 4] = [1, 2, 4, 5];
/// The six tests of many small files.
const FILES: [&str; 6] = [
    "sequential create",
    "sequential stat",
    "sequential delete",
    "random create",
    "random stat",
    "random delete",
];

static CSV: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)^\s*1\.9[6-9],[12]\.\d\d?\w?,[^\n]*$").ok());
static COMMAND: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"bonnie\+\+( +-[^\n]*)").ok());

/// The outcomes in the output of one run.
pub fn outcomes(text: &str) -> Vec<Part> {
    read(&Document::new(text)).found.into_iter().flat_map(|found| found.parts).collect()
}

/// Reads every table and every line of values in a text.
pub fn read(document: &Document) -> Reading {
    let mut reading = Reading::default();
    let mut line = 1;
    while line <= document.line_count() {
        let text = document.line_text(line);
        if text.contains("Sequential Output") {
            line = table(document, line, &mut reading);
        } else if text.contains("Sequential Create") {
            line = files(document, line, &mut reading);
        }
        line += 1;
    }
    values(document, &mut reading);
    reading
}

/// Where a line begins.
fn position(document: &Document, line: usize) -> usize {
    let text = document.line_text(line);
    text.as_ptr() as usize - document.text().as_ptr() as usize
}

/// The line in the next few that satisfies this.
fn seek(
    document: &Document,
    from: usize,
    reach: usize,
    wanted: impl Fn(&str) -> bool,
) -> Option<usize> {
    (from..=(from + reach).min(document.line_count()))
        .find(|line| wanted(document.line_text(*line)))
}

/// The line with the latencies of a row, before the next table's head.
fn latency_line(document: &Document, row: usize) -> Option<usize> {
    let lines = (row + 1..=row + 3).take_while(|line| !document.line_text(*line).contains("%CP"));
    lines.into_iter().find(|line| document.line_text(*line).trim_start().starts_with("Latency"))
}

/// A table of the file's tests. Returns its last line.
fn table(document: &Document, top: usize, reading: &mut Reading) -> usize {
    let at = position(document, top);
    let mut complain = |what: &str| reading.illegible.push((at, format!("bonnie++: {what}")));
    let heads = |text: &str| text.matches("%CP").count() == 6;
    let Some(head) = seek(document, top + 1, 4, heads) else {
        complain("the head of the table is damaged");
        return top;
    };
    let Some(row) = seek(document, head + 1, 2, |text| !text.trim().is_empty()) else {
        complain("the table has no row");
        return head;
    };
    let words: Vec<&str> = document.line_text(row).split_whitespace().collect();
    let Some(indices) = indices(&words) else {
        complain("the row has more or fewer columns than the head");
        return row;
    };
    let mut parts = Vec::new();
    for (index, pair) in indices.iter().zip(words[2..].chunks(2)) {
        match rate(TESTS[*index], pair[0], pair[1]) {
            Ok(part) => parts.extend(part),
            Err(()) => complain(&format!("the figures of `{}` cannot be read", TESTS[*index].0)),
        }
    }
    let last = latency_line(document, row);
    match last.map(|line| latencies(document.line_text(line), indices.len())) {
        Some(Some(found)) => {
            for (index, micros) in indices.iter().zip(found) {
                set_latency(&mut parts, TESTS[*index].0, micros);
            }
        }
        _ => complain("the latencies cannot be read"),
    }
    let (name, size) = (words[0], words[1]);
    push(
        document,
        reading,
        at,
        Some(name),
        parts,
        &format!("file of {size}"),
        Measure::BytesPerSecond,
    );
    last.unwrap_or(row)
}

/// Which tests a row has: name and size, then a pair for each.
fn indices(words: &[&str]) -> Option<Vec<usize>> {
    numbers::scaled(words.get(1)?)?;
    match words.len() {
        14 => Some((0..6).collect()),
        10 => Some(FAST.to_vec()),
        _ => None,
    }
}

/// A table of the tests of small files. Returns its last line.
fn files(document: &Document, top: usize, reading: &mut Reading) -> usize {
    let at = position(document, top);
    let mut complain = |what: &str| reading.illegible.push((at, format!("bonnie++: {what}")));
    let heads =
        |text: &str| text.trim_start().starts_with("files") && text.matches("%CP").count() == 6;
    let Some(row) = seek(document, top + 1, 4, heads).map(|head| head + 1) else {
        complain("the head of the table of files is damaged");
        return top;
    };
    let words: Vec<&str> = document.line_text(row).split_whitespace().collect();
    if words.len() != 13 {
        complain("the row of files has more or fewer columns than the head");
        return row;
    }
    let mut parts = Vec::new();
    for (name, pair) in FILES.iter().zip(words[1..].chunks(2)) {
        match rate((name, false), pair[0], pair[1]) {
            Ok(part) => parts.extend(part),
            Err(()) => complain(&format!("the figures of `{name}` cannot be read")),
        }
    }
    let last = latency_line(document, row);
    match last.map(|line| latencies(document.line_text(line), 6)) {
        Some(Some(found)) => {
            for (name, micros) in FILES.iter().zip(found) {
                set_latency(&mut parts, name, micros);
            }
        }
        _ => complain("the latencies of files cannot be read"),
    }
    let size = format!("{},000 small files", words[0]).replace(",000", " × 1024");
    push(document, reading, at, None, parts, &size, Measure::OperationsPerSecond);
    last.unwrap_or(row)
}

/// A figure and its processor use. `Ok(None)`: too fast, or not run.
fn rate((name, bytes): (&str, bool), figure: &str, processor: &str) -> Result<Option<Part>, ()> {
    let pluses = |text: &str| text.len() >= 3 && text.chars().all(|c| c == '+');
    if pluses(figure) && pluses(processor) {
        return Ok(Some(Part { name: name.to_owned(), ..Part::default() }));
    }
    // Version 2 puts a unit behind: k is the unit of version 1.
    let value = match (figure.chars().last(), bytes) {
        (Some('k'), true) => numbers::number(&figure[..figure.len() - 1]),
        (Some('m'), true) => numbers::number(&figure[..figure.len() - 1]).map(|value| value * KIBI),
        (Some('g'), true) => {
            numbers::number(&figure[..figure.len() - 1]).map(|value| value * KIBI * KIBI)
        }
        _ => numbers::number(figure),
    };
    let value = value.ok_or(())?;
    let processor =
        if pluses(processor) { None } else { Some(numbers::number(processor).ok_or(())?) };
    Ok(Some(Part {
        name: name.to_owned(),
        bytes_per_second: bytes.then_some(value * KIBI),
        operations_per_second: (!bytes).then_some(value),
        processor_percent: processor,
        ..Part::default()
    }))
}

/// So many longest latencies, in microseconds.
fn latencies(line: &str, count: usize) -> Option<Vec<f64>> {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    if words.len() != count {
        return None;
    }
    words.iter().map(|word| latency(word)).collect()
}

fn latency(word: &str) -> Option<f64> {
    let (digits, factor) = if let Some(digits) = word.strip_suffix("us") {
        (digits, 1.0)
    } else if let Some(digits) = word.strip_suffix("ms") {
        (digits, 1e3)
    } else {
        (word.strip_suffix('s')?, 1e6)
    };
    numbers::number(digits).map(|value| value * factor)
}

fn set_latency(parts: &mut [Part], name: &str, micros: f64) {
    if let Some(part) = parts.iter_mut().find(|part| part.name == name) {
        part.latency = Some(Latency { max: Some(micros), ..Latency::default() });
    }
}

/// Lines of comma-separated values.
fn values(document: &Document, reading: &mut Reading) {
    // The pattern is a constant, and a test compiles it.
    let Some(pattern) = CSV.as_ref() else { return };
    for line in pattern.find_iter(document.text()) {
        // Below the table for people the same run stands once more.
        let here = document.line(line.start());
        let told = |found: &Found| document.line(found.at) + TABLE_LINES >= here;
        if reading.found.iter().any(|found| found.at < line.start() && told(found)) {
            continue;
        }
        let fields: Vec<&str> = line.as_str().trim().split(',').collect();
        let first = if fields[0] >= "1.98" { 9 } else { 7 };
        if fields.len() != first + 41 {
            let what = "bonnie++: the line of values has more or fewer fields than its version";
            reading.illegible.push((line.start(), what.to_owned()));
            continue;
        }
        let measured = |column: &usize| !fields[*column].is_empty();
        let tests = TESTS
            .iter()
            .enumerate()
            .map(|(index, test)| (*test, first + 2 * index, first + 29 + index));
        let files = FILES
            .iter()
            .enumerate()
            .map(|(index, name)| ((*name, false), first + 17 + 2 * index, first + 35 + index));
        let mut parts = Vec::new();
        for (test, column, wait) in tests.chain(files).filter(|(_, column, _)| measured(column)) {
            match rate(test, fields[column], fields[column + 1]) {
                Ok(part) => parts.extend(part),
                Err(()) => {
                    let what = format!("bonnie++: the value of `{}` cannot be read", test.0);
                    reading.illegible.push((line.start(), what));
                }
            }
            if let Some(micros) = latency(fields[wait]) {
                set_latency(&mut parts, test.0, micros);
            }
        }
        let size = format!("file of {}", fields[5]);
        push(
            document,
            reading,
            line.start(),
            Some(fields[2]),
            parts,
            &size,
            Measure::BytesPerSecond,
        );
    }
}

fn push(
    document: &Document,
    reading: &mut Reading,
    at: usize,
    subject: Option<&str>,
    parts: Vec<Part>,
    size: &str,
    measure: Measure,
) {
    if parts.is_empty() {
        return;
    }
    let command =
        COMMAND.as_ref().and_then(|pattern| pattern.captures_iter(&document.text()[..at]).last());
    let begin = command.as_ref().and_then(|found| found.get(0)).map_or(at, |found| found.start());
    let command = command.map_or(String::new(), |found| format!("bonnie++{}", found[1].trim_end()));
    let id = format!("bonnie-{}", size.replace(' ', "-"));
    let workload = described(id, format!("bonnie++, {size}"), "bonnie++", measure, true);
    let subject = subject.map(str::to_owned);
    reading.found.push(Found { at, begin, subject, workload, command, parts });
}

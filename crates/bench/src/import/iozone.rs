//! IOzone's automatic mode: a table of kB/s (1,024 bytes) by file and record size.

use crate::import::document::Document;
use crate::import::{Found, Reading, described, numbers};
use crate::result::{Measure, Part};

/// The columns of a full run, behind file and record size.
const FULL: [&str; 13] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "random read",
    "random write",
    "backward read",
    "record rewrite",
    "stride read",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
];

/// The outcomes in the output of one run.
pub fn outcomes(text: &str) -> Vec<Part> {
    read(&Document::new(text)).found.into_iter().flat_map(|found| found.parts).collect()
}

/// Reads every table in a text.
pub fn read(document: &Document) -> Reading {
    let mut reading = Reading::default();
    let mut line = 1;
    while line <= document.line_count() {
        let text = document.line_text(line);
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_head = words.len() > 2 && matches!(words[0], "kB" | "KB") && words[1] == "reclen";
        if is_head {
            line = table(document, line, &words[2..], &mut reading);
        } else if text.contains("Performance Test of File I/O") && !has_table(document, line) {
            let at = position(document, line);
            reading.illegible.push((at, "IOzone: there is a banner, but no table".to_owned()));
        }
        line += 1;
    }
    // Damage may repeat the banner.
    reading.illegible.dedup_by(|a, b| a.1 == b.1);
    reading
}

fn position(document: &Document, line: usize) -> usize {
    document.line_text(line).as_ptr() as usize - document.text().as_ptr() as usize
}

fn has_table(document: &Document, from: usize) -> bool {
    (from..(from + 60).min(document.line_count() + 1))
        .any(|line| document.line_text(line).split_whitespace().nth(1) == Some("reclen"))
}

/// The line of the banner above a table; before it stands its title.
fn banner(document: &Document, head: usize) -> Option<usize> {
    let above = head.saturating_sub(60).max(1)..head;
    above.rev().find(|line| document.line_text(*line).contains("Performance Test of File I/O"))
}

/// Reads the rows below a head. Returns the last of them.
fn table(document: &Document, head: usize, columns: &[&str], reading: &mut Reading) -> usize {
    let Some(names) = names(document, head, columns) else {
        let at = position(document, head);
        reading.illegible.push((at, "IOzone: the columns cannot be told apart".to_owned()));
        return head;
    };
    let mut parts = Vec::new();
    let mut line = head + 1;
    while line <= document.line_count() {
        let words: Vec<&str> = document.line_text(line).split_whitespace().collect();
        if !words.first().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
            break;
        }
        match row(&words, &names) {
            Some(row) => parts.extend(row),
            None => {
                let at = position(document, line);
                reading.illegible.push((at, "IOzone: a row of the table is damaged".to_owned()));
            }
        }
        line += 1;
    }
    if !parts.is_empty() {
        let at = position(document, head);
        let workload = described(
            "iozone".to_owned(),
            "IOzone".to_owned(),
            "iozone",
            Measure::BytesPerSecond,
            true,
        );
        let command = String::new();
        let begin = position(document, banner(document, head).unwrap_or(head));
        reading.found.push(Found { at, begin, subject: None, workload, command, parts });
    }
    line - 1
}

/// The names of the columns. Of a full run, or one without the `f` functions, they are known by
/// their number; else `read` and `write` are told apart by the word above them.
fn names(document: &Document, head: usize, columns: &[&str]) -> Option<Vec<String>> {
    let last = |name: &&str| name.rsplit(' ').next().unwrap_or(name).to_owned();
    if columns.len() == 13 || columns.len() == 9 {
        let expected: Vec<String> = FULL[..columns.len()].iter().map(last).collect();
        return (expected == columns)
            .then(|| FULL[..columns.len()].iter().map(|name| (*name).to_owned()).collect());
    }
    let plain = columns.iter().all(|name| matches!(*name, "write" | "rewrite" | "read" | "reread"));
    let mut unique = columns.to_vec();
    unique.sort_unstable();
    unique.dedup();
    let above = document.line_text(head.saturating_sub(1)).trim();
    (plain && unique.len() == columns.len() && above.is_empty())
        .then(|| columns.iter().map(|name| (*name).to_owned()).collect())
}

fn row(words: &[&str], names: &[String]) -> Option<Vec<Part>> {
    let values: Vec<f64> = words.iter().map(|word| numbers::number(word)).collect::<Option<_>>()?;
    if values.len() != names.len() + 2 {
        return None;
    }
    let (file, record) = (values[0], values[1]);
    // IOzone's record is never larger than its file.
    if record > file {
        return None;
    }
    let parts = names.iter().zip(&values[2..]).map(|(name, rate)| Part {
        name: format!("{name}, {file}K file, {record}K records"),
        bytes_per_second: Some(rate * 1024.0),
        ..Part::default()
    });
    Some(parts.collect())
}

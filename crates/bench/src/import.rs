//! Reads the text output of other tools, also out of old reports that went through a PDF.
//!
//! Every parser looks for what its tool prints, wherever it stands, and checks each figure
//! against the others of the same result: bandwidth against bytes and time, rates against block
//! sizes, percentiles against their order. A figure that contradicts the others, or is missing
//! where the tool always prints it, is listed as illegible and left out: nothing is guessed.

pub mod bonnie;
pub mod dd;
pub mod document;
pub mod fio;
pub mod hdparm;
pub mod iozone;
pub mod numbers;
pub mod summary;

use std::collections::HashMap;

use crate::import::document::Document;
use crate::result::{
    Configuration, Durable, FORMAT, Family, Illegible, Machine, Measure, Origin, Part, Results,
    Row, Sample, VERSION, Workload,
};
use crate::stats;

/// Longest file that is read, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// One result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Where it stands in the text, in bytes.
    pub at: usize,
    /// Where its command or first line stands; its title is looked for before that.
    pub begin: usize,
    /// What it was run on, if the output itself says so.
    pub subject: Option<String>,
    /// The workload.
    pub workload: Workload,
    /// The command, if it is there.
    pub command: String,
    /// The figures.
    pub parts: Vec<Part>,
}

/// What a parser has read.
#[derive(Debug, Default)]
pub struct Reading {
    /// Results.
    pub found: Vec<Found>,
    /// What could not be read: position in the text, and what is missing.
    pub illegible: Vec<(usize, String)>,
}

/// Reads a whole file. `name` is its name without the folder.
pub fn read(name: &str, text: &str) -> Results {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let document = Document::new(&text[..end]);
    let mut reading = Reading::default();
    for parser in [fio::read, dd::read, hdparm::read, bonnie::read, iozone::read, summary::read] {
        let more = parser(&document);
        reading.found.extend(more.found);
        reading.illegible.extend(more.illegible);
    }
    reading.found.sort_by_key(|found| found.at);
    reading.illegible.sort();
    let mut results = empty(name);
    let mut rows = Rows::default();
    for found in reading.found {
        let title = title_of(&document, &found);
        let line = document.line(found.at);
        add(&mut results, &mut rows, &title, line, found);
    }
    results.illegible = reading
        .illegible
        .into_iter()
        .map(|(at, what)| Illegible { line: document.line(at), what })
        .collect();
    stats::summarize_all(&mut results);
    results
}

fn title_of(document: &Document, found: &Found) -> String {
    let title = document.title_before(found.begin);
    match &found.subject {
        Some(subject) if title.is_empty() => subject.clone(),
        Some(subject) => format!("{title} › {subject}"),
        None if title.is_empty() => "unnamed".to_owned(),
        None => title,
    }
}

fn empty(name: &str) -> Results {
    Results {
        format: FORMAT.to_owned(),
        version: VERSION,
        origin: Origin::Imported,
        profile: name.to_owned(),
        started: String::new(),
        seconds: 0.0,
        software: env!("CARGO_PKG_VERSION").to_owned(),
        command: String::new(),
        scale: 1.0,
        machine: Machine::default(),
        method: vec![
            "Read from the text output of the tools named in each row; nothing was measured here."
                .to_owned(),
            "Figures that contradict each other or could not be read are listed, not guessed."
                .to_owned(),
        ],
        configurations: Vec::new(),
        workloads: Vec::new(),
        rows: Vec::new(),
        skipped: Vec::new(),
        illegible: Vec::new(),
    }
}

/// Lines within which the next result of the same kind is another round of it.
const ROUNDS_APART: usize = 12;

/// What is known of a row while a file is read.
#[derive(Debug, Default)]
struct Rows {
    /// The row's number by title, workload and command, and the line of its last result.
    known: HashMap<(String, String, String), (usize, usize)>,
}

/// Adds a result. One of the same title, workload and command right behind is another round of
/// it; further away it is a configuration of its own.
fn add(results: &mut Results, rows: &mut Rows, title: &str, line: usize, found: Found) {
    let key = (title.to_owned(), found.workload.id.clone(), found.command.clone());
    if let Some((row, last)) = rows.known.get_mut(&key)
        && line - *last <= ROUNDS_APART
    {
        *last = line;
        let samples = &mut results.rows[*row].samples;
        let round = samples.len() as u32 + 1;
        samples.push(Sample { round, parts: found.parts, ..Sample::default() });
        return;
    }
    let id = configuration_of(results, title, &found.workload.id);
    let workload = workload(results, found.workload);
    rows.known.insert(key, (results.rows.len(), line));
    results.rows.push(Row {
        configuration: id,
        workload,
        command: found.command,
        cache: String::new(),
        samples: vec![Sample { round: 1, parts: found.parts, ..Sample::default() }],
        summary: None,
    });
}

/// The configuration of this title that has no row of this workload yet; a new one if need be.
fn configuration_of(results: &mut Results, title: &str, workload: &str) -> String {
    let mut name = title.to_owned();
    let mut copy = 1;
    loop {
        match results.configurations.iter().find(|known| known.name == name) {
            Some(known) if results.row(&known.id, workload).is_none() => return known.id.clone(),
            Some(_) => {
                copy += 1;
                name = format!("{title} ({copy})");
            }
            None => {
                let id = format!("c{}", results.configurations.len() + 1);
                results.configurations.push(configuration(&id, &name));
                return id;
            }
        }
    }
}

fn workload(results: &mut Results, workload: Workload) -> String {
    let id = workload.id.clone();
    if results.workload(&id).is_none() {
        results.workloads.push(workload);
    }
    id
}

fn configuration(id: &str, title: &str) -> Configuration {
    Configuration {
        id: id.to_owned(),
        name: title.to_owned(),
        family: Family::Imported,
        copies: 1,
        access: String::new(),
        cache: String::new(),
        durable_flush: Durable::Unknown,
        note: String::new(),
        setup: Vec::new(),
        verified: None,
    }
}

/// A workload of a tool.
fn described(id: String, name: String, tool: &str, measure: Measure, writes: bool) -> Workload {
    Workload { id, name, tool: tool.to_owned(), measure, writes }
}

/// Whether two figures that should be the same are, but for rounding.
fn agree(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests;

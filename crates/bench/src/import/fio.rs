//! fio 2.x and 3.x, the text for people.
//!
//! Everything from `read: IOPS=` or `write: io=` up to the next such line belongs to one
//! direction of one group. Lines may be wrapped, joined, or gone.

mod direction;

use std::sync::LazyLock;

use regex::Regex;

use crate::import::document::Document;
use crate::import::{Found, Reading, described, numbers};
use crate::result::{Measure, Part};

static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        (?P<job>\S+):\s+\(g=\d+\):\s+rw=(?P<rw>\w+),\s+bs=(?P<bs>[^=]{1,120}?)\s*,?\s+ioengine=(?P<engine>\w+),\s+iodepth=(?P<depth>\d+)
        | (?P<job2>\S+):\s+rw=(?P<rw2>\w+),\s+bs=(?P<bs2>[^\n]*?\S)\s*,\s+\(g=\d+\):\s+ioengine=(?P<engine2>\w+),\s+iodepth=(?P<depth2>\d+)
        | (?P<group>\S+):\s+\(groupid=\d+,\s+jobs=(?P<jobs>\d+)\):\s+err=\s*(?P<err>\d+)
        | \b(?P<direction>read|write|trim)\s*:\s*(?P<new>IOPS=|io=)
        | (?P<status>Run\s+status\s+group)
        | (?P<all>READ|WRITE|TRIM):\s+(?:io|bw)=
        | (?P<disks>Disk\s+stats)",
    )
    .ok()
});
static COMMAND: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\bfio\s+(?:-\S+\s*)+").ok());
static ISSUED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"issued\s*(?:rwts?)?\s*:\s*total\s*=\s*(?:r\s*=\s*(\d+)\s*/\s*w\s*=\s*(\d+)|(\d+),(\d+))",
    )
    .ok()
});
static BLOCK: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?:\(R\)\s*)?(\d+[KkMG]?)B?-(\d+[KkMG]?)B?").ok());
static STATUS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(READ|WRITE):\s+io=(\d+)MB,\s+aggrb=(\d+)KB/s,.*?maxt=\s*(\d+)msec").ok()
});

/// One job's definition and its group's head, as far as they were there.
#[derive(Debug, Default, Clone)]
struct Group {
    begin: Option<usize>,
    job: String,
    pattern: String,
    block: Option<f64>,
    engine: String,
    depth: u32,
    jobs: u32,
    /// The group's line, if it was there; without it there are only lines of a summary.
    head: Option<usize>,
    parts: Vec<Part>,
    first: Option<usize>,
}

impl Group {
    fn mixed(&self) -> bool {
        matches!(self.pattern.as_str(), "rw" | "randrw" | "readwrite")
    }
}

/// Reads every group in a text.
pub fn read(document: &Document) -> Reading {
    let mut reading = Reading::default();
    let Some(marks) = MARKS.as_ref() else { return reading };
    let text = document.text();
    let found: Vec<_> = marks.captures_iter(text).collect();
    let mut group = Group::default();
    for (index, captures) in found.iter().enumerate() {
        let Some(all) = captures.get(0) else { continue };
        let next = found.get(index + 1).and_then(|next| next.get(0));
        let segment = &text[all.start()..next.map_or(text.len(), |next| next.start())];
        if captures.name("job").is_some() || captures.name("job2").is_some() {
            finish(document, &mut group, &mut reading);
            group = definition(text, all.start(), captures);
        } else if captures.name("group").is_some() {
            if group.head.is_some() {
                finish(document, &mut group, &mut reading);
                group = Group { begin: None, parts: Vec::new(), head: None, first: None, ..group };
            }
            begin(&mut group, all.start(), captures, &mut reading);
        } else if let Some(name) = captures.name("direction") {
            if group.head.is_none() && segment.contains("clat") {
                // The group's own line was moved away, its figures were not.
                group.head = Some(all.start());
                group.begin = group.begin.or(group.head);
            }
            add_direction(document, all.start(), name.as_str(), segment, &mut group, &mut reading);
        } else if captures.name("all").is_some() {
            recover(segment, all.start(), &mut group, &mut reading);
        } else if captures.name("disks").is_some() {
            finish(document, &mut group, &mut reading);
            group = Group::default();
        }
    }
    finish(document, &mut group, &mut reading);
    reading
}

/// A group's own line.
fn begin(group: &mut Group, at: usize, line: &regex::Captures<'_>, reading: &mut Reading) {
    let field = |name: &str| line.name(name).map_or("", |field| field.as_str());
    group.head = Some(at);
    group.begin = group.begin.or(Some(at));
    group.jobs = field("jobs").parse().unwrap_or(0);
    if group.job.is_empty() {
        group.job = field("group").to_owned();
    }
    if field("err") != "0" {
        reading.illegible.push((at, format!("fio: error {} is reported", field("err"))));
    }
}

/// What a group, or a line without its group, has read or written.
fn add_direction(
    document: &Document,
    at: usize,
    name: &str,
    segment: &str,
    group: &mut Group,
    reading: &mut Reading,
) {
    let is_orphan = group.head.is_none();
    let outcome = direction::read(name, segment, group.block, group.mixed(), is_orphan);
    let missing = outcome.missing.into_iter().map(|what| (at, format!("fio {name}: {what}")));
    reading.illegible.extend(missing);
    if is_orphan {
        orphaned(document, at, outcome.part, reading);
    } else {
        group.first = group.first.or(Some(at));
        group.parts.extend(outcome.part);
    }
}

fn definition(text: &str, at: usize, captures: &regex::Captures<'_>) -> Group {
    // A conversion may have moved the group's number behind the sizes.
    let field = |name: &str| {
        let found = captures.name(name).or_else(|| captures.name(&format!("{name}2")));
        found.map_or("", |field| field.as_str())
    };
    let sizes = BLOCK.as_ref().and_then(|pattern| pattern.captures(field("bs").trim()));
    let block = sizes
        .filter(|sizes| sizes[1] == sizes[2])
        .and_then(|sizes| crate::units::parse_size(&sizes[1]).ok());
    let command = command_before(text, at);
    Group {
        begin: Some(command.map_or(at, |(begin, _)| begin)),
        job: field("job").to_owned(),
        pattern: field("rw").to_owned(),
        block: block.map(|bytes| bytes as f64),
        engine: field("engine").to_owned(),
        depth: field("depth").parse().unwrap_or(0),
        ..Group::default()
    }
}

/// The command line just above a position, which may lie inside a character.
fn command_before(text: &str, at: usize) -> Option<(usize, String)> {
    let at = text.floor_char_boundary(at);
    let begin = text.ceil_char_boundary(at.saturating_sub(600));
    let found = COMMAND.as_ref()?.find_iter(&text[begin..at]).last()?;
    // It stands directly above: nothing but blanks between.
    let between = &text[begin + found.end()..at];
    let line = between.trim().is_empty();
    line.then(|| {
        (begin + found.start(), found.as_str().split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

/// A direction of a mix whose lines are gone still stands in the run's status, in fio 2.
fn recover(text: &str, at: usize, group: &mut Group, reading: &mut Reading) {
    // Another status than fio 2's says nothing of directions.
    let Some(captures) = STATUS.as_ref().and_then(|pattern| pattern.captures(text)) else { return };
    let name = captures[1].to_lowercase();
    if group.head.is_none() || group.parts.iter().any(|part| part.name == name) {
        return;
    }
    let value = |index: usize| numbers::number(&captures[index]);
    // What can't be read is as good as gone.
    let (Some(mib), Some(rate), Some(milliseconds)) = (value(2), value(3), value(4)) else {
        return;
    };
    let (bytes, seconds) = (mib * 1_048_576.0, milliseconds / 1000.0);
    if seconds > 0.0 && crate::import::agree(bytes / seconds, rate * 1024.0, 0.005) {
        let what = format!(
            "fio {name}: its lines are gone; only bandwidth and time stand in the run's status"
        );
        reading.illegible.push((at, what));
        group.parts.push(Part {
            name,
            bytes: Some(bytes),
            seconds: Some(seconds),
            bytes_per_second: Some(rate * 1024.0),
            ..Part::default()
        });
    }
}

/// Ends a group: checks its counts and adds it.
fn finish(document: &Document, group: &mut Group, reading: &mut Reading) {
    // None was begun.
    let Some(head) = group.head.take() else { return };
    let parts = std::mem::take(&mut group.parts);
    if parts.is_empty() {
        reading.illegible.push((head, "fio: a group without figures".to_owned()));
        return;
    }
    let known = !group.pattern.is_empty();
    if !known {
        let what = "fio: the line of the job is gone: pattern, block size and depth are not known";
        reading.illegible.push((head, what.to_owned()));
    }
    let pattern = if known { group.pattern.clone() } else { format!("some {}", parts[0].name) };
    let size = group.block.map_or("?".to_owned(), |bytes| crate::units::short_size(bytes as u64));
    let depth = if known { group.depth.to_string() } else { "?".to_owned() };
    let jobs = if group.jobs > 0 { group.jobs.to_string() } else { "?".to_owned() };
    let workload = described(
        format!("fio-{}-{size}-d{depth}-j{jobs}", pattern.replace(' ', "-")),
        format!("fio {size} {pattern}, depth {depth}, {jobs} jobs{}", engine(&group.engine)),
        "fio",
        Measure::BytesPerSecond,
        !pattern.ends_with("read"),
    );
    let begin = group.begin.unwrap_or(head);
    let command =
        command_before(document.text(), begin + 4).or_else(|| command_at(document.text(), begin));
    reading.found.push(Found {
        at: group.first.unwrap_or(head),
        begin,
        subject: None,
        workload,
        command: command.map(|(_, command)| command).unwrap_or_default(),
        parts,
    });
}

fn engine(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(", {name}") }
}

fn command_at(text: &str, at: usize) -> Option<(usize, String)> {
    let found = COMMAND.as_ref()?.find_at(text, at)?;
    (found.start() == at)
        .then(|| (at, found.as_str().split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// A line without its group: from a summary that somebody made of fio's output.
fn orphaned(document: &Document, at: usize, part: Option<Part>, reading: &mut Reading) {
    // What is missing of it is noted by now.
    let Some(part) = part else { return };
    let line = document.line(at);
    let begin = document.text().len() - document.text()[at..].len();
    // A second direction directly below belongs to the first: one mix.
    if let Some(last) = reading.found.last_mut() {
        let close = document.line(last.at) + 4 >= line && last.workload.id == "fio-line";
        if close && last.parts.iter().all(|known| known.name != part.name) && part.name == "write" {
            last.parts.push(part);
            return;
        }
    }
    let workload = described(
        "fio-line".to_owned(),
        "fio, one line of its output".to_owned(),
        "fio",
        Measure::BytesPerSecond,
        part.name != "read",
    );
    reading.found.push(Found {
        at,
        begin,
        subject: None,
        workload,
        command: String::new(),
        parts: vec![part],
    });
}

/// Operations that were issued, reads and writes, if the segment tells.
fn issued(segment: &str) -> Option<(f64, f64)> {
    let captures = ISSUED.as_ref()?.captures(segment)?;
    let value = |a: usize, b: usize| {
        numbers::number(
            captures.get(a).or_else(|| captures.get(b)).map_or("", |field| field.as_str()),
        )
    };
    Some((value(1, 3)?, value(2, 4)?))
}

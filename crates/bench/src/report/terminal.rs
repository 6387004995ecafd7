//! The table on the terminal, and the progress while it is being measured.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use crate::report::findings::Findings;
use crate::report::findings::picture::Bar;
use crate::report::{figure, or_dash, rows_of, spread};
use crate::result::{Configuration, Family, Results, Row, Skipped, Summary, Workload};
use crate::runner::Observer;
use crate::units::{micros, percent, span};

/// Columns of a terminal that does not tell how many it has, and of a pipe.
const USUAL_WIDTH: usize = 132;
/// Width of a bar that is as fast as raw.
const BAR: usize = 20;

/// What a run shows, and all its tables, for a terminal of so many columns.
pub fn page(results: &Results, width: usize) -> String {
    let mut text = beginning(&Findings::of(results), width);
    for workload in &results.workloads {
        text += &table(results, workload, width);
        text.push('\n');
    }
    for skipped in &results.skipped {
        text += &left_out(skipped);
    }
    text
}

/// Warnings, picture and sentences.
fn beginning(findings: &Findings, width: usize) -> String {
    let narrow = width.min(100);
    let mut text = String::new();
    for warning in &findings.warnings {
        text += &format!("{}\n\n", wrapped(&format!("WARNING: {}", warning.sentence()), narrow));
    }
    text += &picture(findings, width);
    for sentence in findings.sentences() {
        text += &format!("{}\n\n", wrapped(&sentence, narrow));
    }
    text
}

/// The headline workloads as bars, at most so wide.
pub fn picture(findings: &Findings, width: usize) -> String {
    let mut text = String::new();
    let bars = || findings.panels.iter().flat_map(|panel| &panel.bars);
    let longest = |of: fn(&Bar) -> &str| bars().map(|bar| of(bar).chars().count()).max();
    let names = longest(|bar| &bar.name).unwrap_or(0);
    let labels = longest(|bar| &bar.label).unwrap_or(0);
    let reach = longest(|bar| bar.reach.as_deref().unwrap_or_default()).unwrap_or(0);
    let with_reach = 2 + names + 1 + BAR + 2 + labels + 2 + reach <= width;
    for panel in &findings.panels {
        // Writing into a String does not fail.
        let _ = writeln!(text, "{}, as a part of {}", panel.workload, panel.reference);
        for one in &panel.bars {
            let (bar, label) = (blocks(one.length), &one.label);
            let reach = one.reach.as_deref().filter(|_| with_reach).unwrap_or_default();
            let line = format!("  {:<names$} {bar}  {label:<labels$}  {reach}", one.name);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text.push('\n');
    }
    text
}

/// One column right of the bars.
struct Column {
    name: &'static str,
    of: fn(&Summary, &Row) -> Option<String>,
    /// The higher, the sooner it is left out where there is no room.
    dispensable: u8,
}

/// The columns in their order.
const COLUMNS: [Column; 6] = [
    Column { name: "spread", of: |_, row| spread(row).map(percent), dispensable: 2 },
    Column { name: "of raw", of: |summary, _| summary.to_raw.map(percent), dispensable: 0 },
    Column { name: "of limit", of: |summary, _| summary.to_limit.map(percent), dispensable: 1 },
    Column { name: "p50", of: |summary, _| summary.p50.map(micros), dispensable: 4 },
    Column { name: "p99", of: |summary, _| summary.p99.map(micros), dispensable: 3 },
    Column {
        name: "CPU/op",
        of: |summary, _| summary.server_cpu_per_operation.map(micros),
        dispensable: 5,
    },
];
/// Width of a column with the blanks before it.
const CELL: usize = 10;
/// Width of the figure's column with the blanks before it.
const FIGURE: usize = 12;

/// The table of one workload, at most so wide.
pub fn table(results: &Results, workload: &Workload, width: usize) -> String {
    let rows: Vec<(&Configuration, &Row, &Summary)> = rows_of(results, workload)
        .filter_map(|(known, row)| Some((known, row, row.summary.as_ref()?)))
        .collect();
    let names = rows.iter().map(|(known, ..)| known.name.chars().count()).max().unwrap_or(0);
    let before = 2 + names + 1 + BAR + 1 + FIGURE;
    let columns = shown_columns(&rows, width.saturating_sub(before));
    let mut text = format!("{:<before$}", workload.name);
    for column in &columns {
        text += &format!("{:>CELL$}", column.name);
    }
    text = text.trim_end().to_owned() + "\n";
    for (known, row, summary) in rows {
        let bar = bar(summary.to_raw.filter(|_| known.family != Family::Limit));
        let value = figure(summary.median, workload.measure);
        // Writing into a String does not fail.
        let _ = write!(text, "  {:<names$} {bar}{value:>FIGURE$}", known.name);
        for column in &columns {
            let cell = (column.of)(summary, row).unwrap_or_else(|| "–".to_owned());
            text += &format!("{cell:>CELL$}");
        }
        text.push('\n');
    }
    text
}

/// The columns in which there is anything, as far as there is room for them.
fn shown_columns(rows: &[(&Configuration, &Row, &Summary)], room: usize) -> Vec<&'static Column> {
    let mut columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| rows.iter().any(|(_, row, summary)| (column.of)(summary, row).is_some()))
        .collect();
    while columns.len() * CELL > room {
        let Some(least) = columns.iter().map(|column| column.dispensable).max() else { break };
        columns.retain(|column| column.dispensable < least);
    }
    columns
}

/// A bar for a ratio to raw; faster than raw has a mark at its end.
fn bar(ratio: Option<f64>) -> String {
    let Some(ratio) = ratio else { return " ".repeat(BAR + 1) };
    blocks(ratio) + if ratio > 1.005 { "\u{25b8}" } else { " " }
}

/// So much of the width of a bar, in block characters, filled up with blanks.
fn blocks(ratio: f64) -> String {
    let eighths = (ratio.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let part = ['\u{258f}', '\u{258e}', '\u{258d}', '\u{258c}', '\u{258b}', '\u{258a}', '\u{2589}'];
    let mut text = "\u{2588}".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(part[eighths % 8 - 1]);
    }
    let fill = BAR.saturating_sub(text.chars().count());
    text + &" ".repeat(fill)
}

fn left_out(skipped: &Skipped) -> String {
    let mut text = format!("left out: {}: {}\n", skipped.what, skipped.why);
    for line in skipped.remedy.lines() {
        text += &format!("          {line}\n");
    }
    text
}

/// Breaks a sentence at so many columns.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// How many columns a terminal has.
pub fn width_of(stream: &impl std::os::fd::AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => USUAL_WIDTH,
    }
}

/// Shows a run as it goes, on standard error: on a terminal the table of the present workload,
/// drawn anew after each measurement; else a line for each.
#[derive(Debug)]
pub struct Progress {
    live: bool,
    quiet: bool,
    drawn: usize,
    stage: String,
    begin: Option<Instant>,
    left: Option<f64>,
}

impl Progress {
    /// For this terminal. Says nothing but what is left out if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let live = std::io::stderr().is_terminal();
        Self { live, quiet, drawn: 0, stage: String::new(), begin: None, left: None }
    }

    /// Draws over what was drawn before. Lines are cut at the terminal's width: those that wrap
    /// would not be drawn over.
    fn draw(&mut self, text: &str) {
        let width = width_of(&std::io::stderr());
        let cut = |line: &str| line.chars().take(width).collect::<String>() + "\n";
        let text: String = text.lines().map(cut).collect();
        let mut out = std::io::stderr().lock();
        let mut shown = String::new();
        if self.drawn > 0 {
            let _ = write!(shown, "\x1b[{}A\x1b[J", self.drawn);
        }
        shown += &text;
        self.drawn = text.lines().count();
        // A terminal that is gone is no reason to end a measurement.
        drop(out.write_all(shown.as_bytes()));
    }

    fn status(&self) -> String {
        match self.left {
            Some(left) => format!("… {}; about {} left\n", self.stage, span(left)),
            None => format!("… {}\n", self.stage),
        }
    }
}

impl Observer for Progress {
    fn stage(&mut self, what: &str) {
        what.clone_into(&mut self.stage);
        if self.live && !self.quiet && self.drawn <= 1 {
            let status = self.status();
            self.draw(&status);
        } else if !self.live && !self.quiet && self.begin.is_none() {
            eprintln!("{what}");
        }
    }

    fn skipped(&mut self, skipped: &Skipped) {
        self.drawn = 0;
        eprint!("{}", left_out(skipped));
    }

    fn measured(&mut self, results: &Results, row: usize, done: usize, all: usize) {
        let begin = *self.begin.get_or_insert_with(Instant::now);
        // The first measurement has ended when the clock starts.
        if done > 1 {
            let each = begin.elapsed().as_secs_f64() / (done - 1) as f64;
            self.left = Some(each * (all - done) as f64);
        }
        let row = &results.rows[row];
        // A row is shown once it has something to show.
        let (Some(workload), Some(sample)) = (results.workload(&row.workload), row.samples.last())
        else {
            return;
        };
        if self.quiet {
            return;
        }
        if self.live {
            let width = width_of(&std::io::stderr());
            let text = table(results, workload, width) + &self.status();
            self.draw(&text);
        } else {
            let value = sample.figure(workload.measure);
            let value = or_dash(value, |value| figure(value, workload.measure));
            eprintln!(
                "[{done}/{all}] round {} {} {}: {value}",
                sample.round, row.workload, row.configuration
            );
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.live && self.drawn > 0 {
            self.draw("");
        }
    }
}

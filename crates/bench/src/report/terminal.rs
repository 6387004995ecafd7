//! The table on the terminal, and the progress while it is being measured.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use crate::report::{figure, or_dash, rows_of, words};
use crate::result::{Family, Results, Skipped, Workload};
use crate::runner::Observer;
use crate::units::{micros, percent, span};

/// Width of a bar that is as fast as raw.
const BAR: usize = 20;

/// All tables of a run, with the summary.
pub fn tables(results: &Results) -> String {
    let mut text = String::new();
    for workload in &results.workloads {
        text += &table(results, workload);
        text.push('\n');
    }
    for sentence in words::summary(results) {
        text += &format!("{}\n", wrapped(&sentence));
    }
    for skipped in &results.skipped {
        text += &left_out(skipped);
    }
    text
}

/// The table of one workload.
pub fn table(results: &Results, workload: &Workload) -> String {
    let width =
        rows_of(results, workload).map(|(known, _)| known.name.chars().count()).max().unwrap_or(0);
    let mut text = format!("{}\n", workload.name);
    for (known, row) in rows_of(results, workload) {
        let Some(summary) = &row.summary else { continue };
        let bar = bar(summary.to_raw.filter(|_| known.family != Family::Limit));
        let value = figure(summary.median, workload.measure);
        let spread = (row.samples.len() > 1).then_some(summary.spread / 2.0);
        let spread = spread.map_or(String::new(), |spread| format!("±{}", percent(spread)));
        // Writing into a String does not fail.
        let _ = writeln!(
            text,
            "  {:<width$} {bar} {value:>12} {spread:>7}  {:>6} raw  {:>6} limit  p50 {:>8}  p99 {:>8}  cpu {:>8}",
            known.name,
            or_dash(summary.to_raw, percent),
            or_dash(summary.to_limit, percent),
            or_dash(summary.p50, micros),
            or_dash(summary.p99, micros),
            or_dash(summary.server_cpu_per_operation, micros),
        );
    }
    text
}

/// A bar for a ratio to raw; faster than raw has a mark at its end.
fn bar(ratio: Option<f64>) -> String {
    let Some(ratio) = ratio else { return " ".repeat(BAR + 1) };
    let eighths = (ratio.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let part = ['\u{258f}', '\u{258e}', '\u{258d}', '\u{258c}', '\u{258b}', '\u{258a}', '\u{2589}'];
    let mut text = "\u{2588}".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(part[eighths % 8 - 1]);
    }
    let fill = BAR.saturating_sub(text.chars().count());
    text + &" ".repeat(fill) + if ratio > 1.005 { "\u{25b8}" } else { " " }
}

fn left_out(skipped: &Skipped) -> String {
    let mut text = format!("left out: {}: {}\n", skipped.what, skipped.why);
    for line in skipped.remedy.lines() {
        text += &format!("          {line}\n");
    }
    text
}

/// Breaks a sentence at 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > 100 {
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

    fn draw(&mut self, text: &str) {
        let mut out = std::io::stderr().lock();
        let mut shown = String::new();
        if self.drawn > 0 {
            let _ = write!(shown, "\x1b[{}A\x1b[J", self.drawn);
        }
        shown += text;
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
        let (Some(workload), Some(sample)) = (results.workload(&row.workload), row.samples.last())
        else {
            return;
        };
        if self.quiet {
            return;
        }
        if self.live {
            let text = table(results, workload) + &self.status();
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

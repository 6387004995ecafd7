//! Results as Markdown.

use std::fmt::Write as _;

use crate::report::findings::Findings;
use crate::report::{figure, memory, messages, or_dash, rows_of, spread, terminal};
use crate::result::{Origin, Results};
use crate::units::{micros, percent};

/// Columns of the picture.
const PICTURE_WIDTH: usize = 110;

/// A page in Markdown: summary, tables, configurations, method.
pub fn page(results: &Results) -> String {
    let mut text = format!("# evenkeel bench {}\n\n", results.profile);
    text += &beginning(&Findings::of(results));
    for workload in &results.workloads {
        let _ = writeln!(text, "## {}\n", workload.name);
        text += "| configuration | median | spread | of raw | of limit | p50 | p99 | server CPU/op | tool CPU/op |\n";
        text += "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        for (known, row) in rows_of(results, workload) {
            let Some(summary) = &row.summary else { continue };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                escaped(&known.name),
                figure(summary.median, workload.measure),
                or_dash(spread(row), percent),
                or_dash(summary.to_raw, percent),
                or_dash(summary.to_limit, percent),
                or_dash(summary.p50, micros),
                or_dash(summary.p99, micros),
                or_dash(summary.server_cpu_per_operation, micros),
                or_dash(summary.client_cpu_per_operation, micros),
            );
        }
        text.push('\n');
    }
    text += &configurations(results);
    text += &circumstances(results);
    text
}

/// Warnings, picture and sentences.
fn beginning(findings: &Findings) -> String {
    let mut text = String::new();
    for warning in &findings.warnings {
        let _ = writeln!(text, "> **Warning.** {}\n", warning.sentence());
    }
    if !findings.panels.is_empty() {
        let _ = writeln!(text, "```text\n{}```\n", terminal::picture(findings, PICTURE_WIDTH));
    }
    for sentence in findings.sentences() {
        let _ = writeln!(text, "{sentence}\n");
    }
    text
}

fn configurations(results: &Results) -> String {
    if results.origin == Origin::Imported {
        return String::new();
    }
    let mut text = "## Configurations\n\n".to_owned();
    text +=
        "| configuration | copies | way in | direct I/O is | flush durable | data read back |\n";
    text += "|---|---:|---|---|---|---|\n";
    for known in &results.configurations {
        let durable = messages::flush_durable(known.durable_flush);
        let verified = messages::read_back(known.verified);
        let [name, access, cache] =
            [&known.name, &known.access, &known.cache].map(|text| escaped(text));
        let copies = known.copies;
        let _ =
            writeln!(text, "| {name} | {copies} | {access} | {cache} | {durable} | {verified} |");
    }
    text + "\n"
}

fn circumstances(results: &Results) -> String {
    let mut text = String::new();
    let machine = &results.machine;
    if !machine.kernel.is_empty() {
        let _ = writeln!(
            text,
            "Machine: {} × {}, {}, {}, kernel {}, {}. Made by `{}`, {}.\n",
            machine.processors,
            machine.processor,
            memory(machine.memory_bytes),
            machine.system,
            machine.kernel,
            machine.disk,
            results.command,
            results.started,
        );
    }
    for sentence in &results.method {
        let _ = writeln!(text, "- {sentence}");
    }
    for skipped in &results.skipped {
        let _ = writeln!(text, "- Left out: {}: {}", escaped(&skipped.what), escaped(&skipped.why));
    }
    for illegible in &results.illegible {
        let _ =
            writeln!(text, "- Illegible, line {}: {}", illegible.line, escaped(&illegible.what));
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

//! One workload: its table, its charts, and every round with the command to repeat it.

use std::fmt::Write as _;

use crate::report::charts::{self, Line};
use crate::report::html::{anchor, bar, colour, escaped};
use crate::report::{figure, or_dash, rows_of, spread};
use crate::result::{Configuration, Family, Part, Results, Row, Sample, Summary, Workload};
use crate::stats;
use crate::units::{bandwidth, micros, percent, rate};

/// The section of a workload.
pub fn of(results: &Results, number: usize, workload: &Workload) -> String {
    let mut html = format!(
        "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"facts\">{}</p>\n",
        anchor(results, number),
        escaped(&workload.name),
        escaped(&facts(results, workload))
    );
    html += &table(results, workload);
    html += &figures(results, workload);
    html += &commands(results, workload);
    html + "</section>\n"
}

/// What all rows have in common: the tool, how often, and the caches.
fn facts(results: &Results, workload: &Workload) -> String {
    let rows = || rows_of(results, workload).map(|(_, row)| row);
    let mut facts = vec![workload.tool.clone()];
    match rows().map(|row| row.samples.len()).max().unwrap_or(0) {
        0 => {}
        1 => facts.push("one round".to_owned()),
        rounds => facts.push(format!("{rounds} rounds")),
    }
    facts.extend(common_cache(results, workload));
    facts.join(" · ")
}

/// The cache of all rows, if it is one and known.
fn common_cache(results: &Results, workload: &Workload) -> Option<String> {
    let mut caches = rows_of(results, workload).map(|(_, row)| row.cache.as_str());
    let first = caches.next().filter(|cache| !cache.is_empty())?;
    caches.all(|cache| cache == first).then(|| first.to_owned())
}

/// Which columns have anything in them.
#[derive(Debug, Clone, Copy)]
struct Columns {
    /// Whether figures are medians of several rounds.
    spread: bool,
    raw: bool,
    limit: bool,
    latency: bool,
}

impl Columns {
    fn of(results: &Results, workload: &Workload) -> Self {
        let any = |has: fn(&Summary) -> bool| {
            rows_of(results, workload).any(|(_, row)| row.summary.as_ref().is_some_and(has))
        };
        Self {
            spread: rows_of(results, workload).any(|(_, row)| spread(row).is_some()),
            raw: any(|summary| summary.to_raw.is_some()),
            limit: any(|summary| summary.to_limit.is_some()),
            latency: any(|summary| summary.p50.is_some()),
        }
    }

    fn head(self) -> String {
        let figure = if self.spread { "median" } else { "one round" };
        let mut html = format!("<th>configuration</th><th></th><th>{figure}</th>");
        for (shown, name) in [
            (self.spread, "<th>spread</th>"),
            (self.raw, "<th>of raw</th>"),
            (self.limit, "<th>of limit</th>"),
            (self.latency, "<th>p50</th><th>p99</th>"),
        ] {
            html += if shown { name } else { "" };
        }
        html
    }

    fn count(self) -> usize {
        let optional = [self.spread, self.raw, self.limit, self.latency, self.latency];
        1 + optional.into_iter().filter(|shown| *shown).count()
    }
}

fn table(results: &Results, workload: &Workload) -> String {
    let columns = Columns::of(results, workload);
    let mut html = format!(
        "<div class=\"card\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n",
        columns.head()
    );
    let largest = rows_of(results, workload)
        .filter_map(|(_, row)| row.summary.as_ref())
        .map(|summary| speed(summary, workload))
        .fold(0.0, f64::max);
    let longest = rows_of(results, workload)
        .filter(|(known, _)| known.family != Family::Limit)
        .filter_map(|(_, row)| row.summary.as_ref()?.to_raw)
        .fold(1.0, f64::max);
    // With raw beside it a bar is the ratio to raw, else a part of the fastest; never both.
    let unit = match columns.raw {
        true => Unit::Raw { longest },
        false => Unit::Fastest { speed: largest },
    };
    for (known, row) in rows_of(results, workload) {
        match &row.summary {
            Some(summary) => {
                let share = share(known, summary, workload, unit);
                html += &table_row(results, workload, columns, known, row, summary, share);
            }
            None => html += &without_figure(known, row, columns),
        }
    }
    html + "</tbody></table></div>\n"
}

/// The figure as a speed: more is better.
fn speed(summary: &Summary, workload: &Workload) -> f64 {
    match workload.measure.more_is_better() {
        true => summary.median,
        false if summary.median > 0.0 => 1.0 / summary.median,
        false => 0.0,
    }
}

/// What the bars of a table are a part of.
#[derive(Debug, Clone, Copy)]
enum Unit {
    /// The raw disk, or of it what the longest bar has.
    Raw { longest: f64 },
    /// The fastest.
    Fastest { speed: f64 },
}

/// The length of a bar, at most 1; `None` where the table's unit does not apply.
fn share(known: &Configuration, summary: &Summary, workload: &Workload, unit: Unit) -> Option<f64> {
    match unit {
        _ if known.family == Family::Limit => None,
        Unit::Raw { longest } => summary.to_raw.map(|ratio| ratio / longest),
        Unit::Fastest { speed: fastest } => {
            (fastest > 0.0).then(|| speed(summary, workload) / fastest)
        }
    }
}

fn table_row(
    results: &Results,
    workload: &Workload,
    columns: Columns,
    known: &Configuration,
    row: &Row,
    summary: &Summary,
    share: Option<f64>,
) -> String {
    let limit = known.family == Family::Limit;
    let bar = share.map_or(String::new(), |share| bar(share, colour(results, known)));
    let cache = match common_cache(results, workload) {
        None if !row.cache.is_empty() => format!("<br><small>{}</small>", escaped(&row.cache)),
        _ => String::new(),
    };
    let mut html = format!(
        "<tr{}><td><span class=\"what\">{}</span>{cache}</td><td class=\"bar\">{bar}</td><td class=\"figure\">{}</td>",
        if limit { " class=\"limit\"" } else { "" },
        escaped(&known.name),
        figure(summary.median, workload.measure),
    );
    for (shown, value) in [
        (columns.spread, or_dash(spread(row), percent)),
        (columns.raw, or_dash(summary.to_raw.filter(|_| !limit), percent)),
        (columns.limit, or_dash(summary.to_limit, percent)),
        (columns.latency, or_dash(summary.p50, micros)),
        (columns.latency, or_dash(summary.p99, micros)),
    ] {
        if shown {
            // Writing into a String does not fail.
            let _ = write!(html, "<td>{value}</td>");
        }
    }
    html + "</tr>\n"
}

/// A row without the workload's own figure: nothing but that it is there.
fn without_figure(known: &Configuration, row: &Row, columns: Columns) -> String {
    format!(
        "<tr><td><span class=\"what\">{}</span></td><td class=\"bar\"></td><td colspan=\"{}\">{} results, see below</td></tr>\n",
        escaped(&known.name),
        columns.count(),
        row.samples.len()
    )
}

fn figures(results: &Results, workload: &Workload) -> String {
    let rows: Vec<_> =
        rows_of(results, workload).filter(|(known, _)| known.family != Family::Limit).collect();
    // More lines than colours cannot be told apart; the table has them all.
    let shown = &rows[..rows.len().min(charts::COLOURS - 2)];
    let lines = |points: fn(&Row) -> Vec<(f64, f64)>| -> Vec<Line> {
        shown
            .iter()
            .map(|(known, row)| Line {
                name: known.name.clone(),
                colour: colour(results, known),
                points: points(row),
            })
            .filter(|line| line.points.len() > 2)
            .collect()
    };
    let mut html = String::new();
    let mut add = |caption: &str, body: String| {
        if !body.is_empty() {
            let _ = write!(html, "<figure><figcaption>{caption}</figcaption>{body}</figure>");
        }
    };
    let latency = lines(percentiles);
    if !latency.is_empty() {
        let title = format!("Latency by percentile, {}", workload.name);
        let several = shown.iter().any(|(_, row)| row.samples.len() > 1);
        let of = if several { "medians of the rounds" } else { "one round" };
        add(&format!("Latency by percentile ({of})"), charts::percentiles(&title, &latency));
    }
    let series =
        lines(|row| row.samples.last().map(|sample| sample.series.clone()).unwrap_or_default());
    if !series.is_empty() {
        let title = format!("Operations per second over time, {}", workload.name);
        add("Operations per second over time (last round)", charts::series(&title, &series));
    }
    add("Processor time per operation", processor_time(results, &rows));
    if html.is_empty() { html } else { format!("<div class=\"charts\">{html}</div>\n") }
}

/// The median over the rounds at each percentile that they have enough operations for.
fn percentiles(row: &Row) -> Vec<(f64, f64)> {
    if !stats::times_its_flushes(row) {
        return Vec::new();
    }
    let latency = |sample: &Sample| sample.parts.iter().find_map(|part| part.latency.clone());
    let Some(first) = row.samples.iter().find_map(latency) else { return Vec::new() };
    let known = first.percentiles.iter().map(|(percentile, _)| *percentile);
    known
        .filter_map(|percentile| {
            let slowest = |sample: &Sample| stats::slowest(sample, percentile);
            Some((percentile, stats::over_max(&row.samples, slowest)?))
        })
        .filter(|(_, value)| *value > 0.0)
        .collect()
}

/// Bars of what servers and tool use of the processors for an operation, and of the rest of the
/// machine: kernel threads, and other people's work.
fn processor_time(results: &Results, rows: &[(&Configuration, &Row)]) -> String {
    let parts = |summary: &Summary| {
        let server = summary.server_cpu_per_operation.unwrap_or(0.0);
        let tool = summary.client_cpu_per_operation.unwrap_or(0.0);
        let all = summary.machine_cpu_per_operation.unwrap_or(0.0).max(server + tool);
        [server, tool, all - server - tool]
    };
    let measured = |summary: &&Summary| {
        summary.client_cpu_per_operation.or(summary.server_cpu_per_operation).is_some()
    };
    let known: Vec<_> = rows
        .iter()
        .filter_map(|(known, row)| Some((*known, parts(row.summary.as_ref().filter(measured)?))))
        .collect();
    let longest = known.iter().map(|(_, parts)| parts.iter().sum()).fold(0.0_f64, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    let mut html = "<div class=\"scroll\"><table class=\"cpu\"><thead><tr><th>configuration</th><th></th><th>servers</th><th>tool</th><th>rest</th></tr></thead>\n<tbody>".to_owned();
    for (known, parts) in known {
        let number = colour(results, known);
        let mut bars = String::new();
        for (part, class) in parts.iter().zip(["", " tool", " rest"]) {
            let width = part / longest * 100.0;
            let _ = write!(bars, "<i class=\"c{number}{class}\" style=\"width:{width:.1}%\"></i>");
        }
        let _ = write!(
            html,
            "<tr><td>{}</td><td class=\"bar\"><span class=\"track parts\">{bars}</span></td>",
            escaped(&known.name)
        );
        for part in parts {
            let _ = write!(html, "<td>{}</td>", or_dash((part > 0.0).then_some(part), micros));
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div><p class=\"legend\">Full colour: all processes that serve it; lighter: the tool; \
            pale: the rest of the machine, kernel threads and others’ work.</p>"
}

/// Every round and part, and the command to repeat each row.
fn commands(results: &Results, workload: &Workload) -> String {
    let mut html =
        "<details><summary>Every round, and the commands to repeat it</summary>".to_owned();
    for (known, row) in rows_of(results, workload) {
        let _ = write!(html, "<h3>{}</h3>", escaped(&known.name));
        if !row.command.is_empty() {
            let _ = write!(html, "<pre><code>{}</code></pre>", escaped(&row.command));
        }
        html += "<ul>";
        for sample in &row.samples {
            for part in &sample.parts {
                let _ = write!(
                    html,
                    "<li>round {}, {}: {}</li>",
                    sample.round,
                    escaped(&part.name),
                    escaped(&told(part))
                );
            }
        }
        html += "</ul>";
    }
    html + "</details>\n"
}

/// All that a tool says in one figure.
fn told(part: &Part) -> String {
    let latency =
        |of: fn(&crate::result::Latency) -> Option<f64>| part.latency.as_ref().and_then(of);
    let facts: Vec<String> = [
        part.bytes_per_second.map(bandwidth),
        part.operations_per_second.map(|value| format!("{}/s", rate(value))),
        part.seconds.map(|seconds| format!("{seconds:.2} s")),
        latency(|latency| latency.mean).map(|mean| format!("mean {}", micros(mean))),
        latency(|latency| latency.max).map(|max| format!("longest {}", micros(max))),
        part.processor_percent.map(|value| format!("processor {}", percent(value / 100.0))),
    ]
    .into_iter()
    .flatten()
    .collect();
    match facts.is_empty() {
        true => "too fast to be measured".to_owned(),
        false => facts.join(", "),
    }
}

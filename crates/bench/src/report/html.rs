//! Results as one HTML file that needs nothing else: no network, no script.

use std::fmt::Write as _;

use crate::report::charts::{self, Line};
use crate::report::{figure, or_dash, rows_of, words};
use crate::result::{Configuration, Durable, Family, Origin, Results, Row, Summary, Workload};
use crate::units::{micros, percent, span};

const STYLE: &str = include_str!("style.css");

/// A page of one or several results, each with its own part.
pub fn page(all: &[Results]) -> String {
    let title = all.iter().map(|results| results.profile.as_str()).collect::<Vec<_>>().join(", ");
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"evenkeel bench\">\n<title>evenkeel bench: {}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escaped(&title)
    );
    for results in all {
        html += &part(results);
    }
    html += "<footer>Made by <code>evenkeel bench</code>. Bars and percentages of raw compare within the same round; \
             a wider bar is a faster one.</footer>\n</main>\n</body>\n</html>\n";
    html
}

/// Text as it stands in HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn part(results: &Results) -> String {
    let mut html = header(results);
    html += "<section class=\"summary\">";
    for sentence in words::summary(results) {
        let _ = write!(html, "<p>{}</p>", escaped(&sentence));
    }
    html += "</section>\n";
    for workload in &results.workloads {
        html += &section(results, workload);
    }
    html += &configurations(results);
    html += &circumstances(results);
    html
}

fn header(results: &Results) -> String {
    let machine = &results.machine;
    let kind = match results.origin {
        Origin::Measured => "measured",
        Origin::Imported => "read from a report",
    };
    let mut facts = Vec::new();
    if !machine.kernel.is_empty() {
        facts.push(format!("{} × {}", machine.processors, machine.processor));
        facts.push(format!("{:.0} GiB", machine.memory_bytes as f64 / f64::from(1 << 30)));
        facts.push(format!("{}, kernel {}", machine.system, machine.kernel));
        facts.push(machine.disk.clone());
    }
    if !results.started.is_empty() {
        facts.push(results.started.replace('T', " ").replace('Z', " UTC"));
    }
    format!(
        "<header><div class=\"kind\">evenkeel bench · {kind}</div>\n<h1>{}</h1>\n<p class=\"facts\">{}</p></header>\n",
        escaped(&results.profile),
        escaped(&facts.join(" · "))
    )
}

fn section(results: &Results, workload: &Workload) -> String {
    let mut html = format!(
        "<section>\n<h2>{}</h2>\n<div class=\"card\"><table>\n<thead><tr>",
        escaped(&workload.name)
    );
    html += "<th>configuration</th><th></th><th>median</th><th class=\"wide\">±</th><th>of raw</th>\
             <th>of limit</th><th>p50</th><th>p99</th><th class=\"wide\">server CPU/op</th>\
             <th class=\"wide\">tool CPU/op</th></tr></thead>\n<tbody>\n";
    let largest = rows_of(results, workload)
        .filter_map(|(_, row)| row.summary.as_ref())
        .map(|summary| speed(summary, workload))
        .fold(0.0, f64::max);
    for (known, row) in rows_of(results, workload) {
        match &row.summary {
            Some(summary) => html += &table_row(results, workload, known, row, summary, largest),
            None => html += &parts_only(known, row),
        }
    }
    html += "</tbody></table></div>\n";
    html += &figures(results, workload);
    html += &commands(results, workload);
    html + "</section>\n"
}

/// The figure as a speed: more is better.
fn speed(summary: &Summary, workload: &Workload) -> f64 {
    match workload.measure.more_is_better() {
        true => summary.median,
        false if summary.median > 0.0 => 1.0 / summary.median,
        false => 0.0,
    }
}

fn table_row(
    results: &Results,
    workload: &Workload,
    known: &Configuration,
    row: &Row,
    summary: &Summary,
    largest: f64,
) -> String {
    let limit = known.family == Family::Limit;
    // With raw beside it a bar is the ratio to raw, else the share of the fastest.
    let share = match summary.to_raw {
        _ if limit => None,
        Some(ratio) => Some(ratio),
        None if largest > 0.0 => Some(speed(summary, workload) / largest),
        None => None,
    };
    let bar = share.map_or(String::new(), |share| {
        format!(
            "<span class=\"track\"><i class=\"c{}\" style=\"width:{:.1}%\"></i></span>",
            colour(results, known),
            share.clamp(0.0, 1.0) * 100.0
        )
    });
    let spread =
        if row.samples.len() > 1 { percent(summary.spread / 2.0) } else { "–".to_owned() };
    format!(
        "<tr{}><td><span class=\"what\">{}</span></td><td class=\"bar\">{bar}</td><td class=\"figure\">{}</td>\
         <td class=\"wide\">{spread}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"wide\">{}</td>\
         <td class=\"wide\">{}</td></tr>\n",
        if limit { " class=\"limit\"" } else { "" },
        escaped(&known.name),
        figure(summary.median, workload.measure),
        or_dash(summary.to_raw.filter(|_| !limit), percent),
        or_dash(summary.to_limit, percent),
        or_dash(summary.p50, micros),
        or_dash(summary.p99, micros),
        or_dash(summary.server_cpu_per_operation, micros),
        or_dash(summary.client_cpu_per_operation, micros),
    )
}

/// A row without the workload's own figure: nothing but that it is there.
fn parts_only(known: &Configuration, row: &Row) -> String {
    format!(
        "<tr><td><span class=\"what\">{}</span></td><td class=\"bar\"></td><td colspan=\"8\">{} results, see below</td></tr>\n",
        escaped(&known.name),
        row.samples.len()
    )
}

fn colour(results: &Results, known: &Configuration) -> usize {
    match known.family {
        Family::Raw => 0,
        Family::Limit => 1,
        _ => {
            let others = results
                .configurations
                .iter()
                .filter(|other| !matches!(other.family, Family::Raw | Family::Limit));
            let index = others.take_while(|other| other.id != known.id).count();
            3 + index % (charts::COLOURS - 3)
        }
    }
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
    let latency = lines(percentiles);
    if !latency.is_empty() {
        let chart =
            charts::percentiles(&format!("Latency by percentile, {}", workload.name), &latency);
        let _ = write!(
            html,
            "<figure><figcaption>Latency by percentile (all rounds’ medians)</figcaption>{chart}</figure>"
        );
    }
    let series =
        lines(|row| row.samples.last().map(|sample| sample.series.clone()).unwrap_or_default());
    if !series.is_empty() {
        let chart =
            charts::series(&format!("Operations per second over time, {}", workload.name), &series);
        let _ = write!(
            html,
            "<figure><figcaption>Operations per second over time (last round)</figcaption>{chart}</figure>"
        );
    }
    if html.is_empty() { html } else { format!("<div class=\"charts\">{html}</div>\n") }
}

/// The median over the rounds at each percentile.
fn percentiles(row: &Row) -> Vec<(f64, f64)> {
    let latencies: Vec<_> =
        row.samples.iter().filter_map(|sample| sample.parts.first()?.latency.as_ref()).collect();
    let Some(first) = latencies.first() else { return Vec::new() };
    let known = first.percentiles.iter().map(|(percentile, _)| *percentile);
    known
        .filter_map(|percentile| {
            let values: Vec<f64> =
                latencies.iter().filter_map(|latency| latency.at(percentile)).collect();
            Some((percentile, crate::stats::median(&values)?))
        })
        .filter(|(_, value)| *value > 0.0)
        .collect()
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
                let mut facts = Vec::new();
                facts.extend(part.bytes_per_second.map(crate::units::bandwidth));
                facts.extend(
                    part.operations_per_second
                        .map(|value| format!("{}/s", crate::units::rate(value))),
                );
                facts.extend(part.seconds.map(|seconds| format!("{seconds:.2} s")));
                facts.extend(
                    part.latency
                        .as_ref()
                        .and_then(|latency| latency.mean)
                        .map(|mean| format!("mean {}", micros(mean))),
                );
                facts.extend(
                    part.latency
                        .as_ref()
                        .and_then(|latency| latency.max)
                        .map(|max| format!("longest {}", micros(max))),
                );
                facts.extend(part.processor_percent.map(|value| format!("processor {value:.0} %")));
                let facts = if facts.is_empty() {
                    "too fast to be measured".to_owned()
                } else {
                    facts.join(", ")
                };
                let _ = write!(
                    html,
                    "<li>round {}, {}: {}</li>",
                    sample.round,
                    escaped(&part.name),
                    escaped(&facts)
                );
            }
        }
        html += "</ul>";
    }
    html + "</details>\n"
}

fn configurations(results: &Results) -> String {
    if results.origin == Origin::Imported {
        return String::new();
    }
    let mut html = "<section>\n<h2>Configurations</h2>\n<div class=\"card\"><table>\n<thead><tr><th>configuration</th>\
                    <th>copies</th><th>way in</th><th>cache</th><th>flush durable</th><th>data read back</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for known in &results.configurations {
        let durable = match known.durable_flush {
            Durable::Yes => "yes",
            Durable::No => "no",
            Durable::Unknown => "not known",
        };
        let verified = match known.verified {
            Some(true) => "<span class=\"good\">right</span>",
            Some(false) => "<span class=\"bad\">WRONG</span>",
            None => "not checked",
        };
        let _ = writeln!(
            html,
            "<tr><td><span class=\"what\">{}</span><br><small>{}</small></td><td>{}</td><td>{}</td><td>{}</td><td>{durable}</td><td>{verified}</td></tr>",
            escaped(&known.name),
            escaped(&known.note),
            known.copies,
            escaped(&known.access),
            escaped(&known.cache),
        );
    }
    html += "</tbody></table></div>\n<details><summary>The commands that set them up</summary>";
    for known in results.configurations.iter().filter(|known| !known.setup.is_empty()) {
        let _ = write!(
            html,
            "<h3>{}</h3><pre><code>{}</code></pre>",
            escaped(&known.name),
            escaped(&known.setup.join("\n"))
        );
    }
    html + "</details>\n</section>\n"
}

fn circumstances(results: &Results) -> String {
    let mut html = "<section>\n<h2>How it was measured</h2>\n<ul>".to_owned();
    for sentence in &results.method {
        let _ = write!(html, "<li>{}</li>", escaped(sentence));
    }
    html += "</ul>\n";
    if !results.command.is_empty() {
        let _ = write!(
            html,
            "<pre><code>{}</code></pre><p class=\"facts\">It took {}.</p>",
            escaped(&results.command),
            span(results.seconds)
        );
    }
    if !results.machine.tools.is_empty() {
        let tools =
            results.machine.tools.iter().map(|(name, version)| format!("{name}: {version}"));
        let _ = write!(
            html,
            "<details><summary>Versions of tools and peers</summary><pre><code>{}</code></pre></details>",
            escaped(&tools.collect::<Vec<_>>().join("\n"))
        );
    }
    if !results.skipped.is_empty() {
        html += "<h2>Left out</h2><ul>";
        for skipped in &results.skipped {
            let _ = write!(
                html,
                "<li><b>{}</b>: {} <small>{}</small></li>",
                escaped(&skipped.what),
                escaped(&skipped.why),
                escaped(&skipped.remedy)
            );
        }
        html += "</ul>";
    }
    if !results.illegible.is_empty() {
        html += "<h2>Illegible</h2><ul>";
        for illegible in &results.illegible {
            let _ = write!(html, "<li>line {}: {}</li>", illegible.line, escaped(&illegible.what));
        }
        html += "</ul>";
    }
    html + "</section>\n"
}

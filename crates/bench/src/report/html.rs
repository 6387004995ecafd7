//! Results as one HTML file that needs nothing else: no network, no script.

mod beginning;
mod circumstances;
mod overview;
mod section;

use crate::report::{charts, memory};
use crate::result::{Configuration, Family, Origin, Results, Workload};

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
             a longer bar is a faster one.</footer>\n</main>\n</body>\n</html>\n";
    html
}

/// Text as it stands in HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn part(results: &Results) -> String {
    let mut html = header(results);
    html += &beginning::of(results);
    html += &overview::table(results);
    for (number, workload) in results.workloads.iter().enumerate() {
        html += &section::of(results, number, workload);
    }
    html += &circumstances::configurations(results);
    html += &circumstances::method(results);
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
        facts.push(memory(machine.memory_bytes));
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

/// Where a workload's own section begins.
fn anchor(results: &Results, number: usize) -> String {
    let letters = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let profile: String = results.profile.chars().map(letters).collect();
    format!("{profile}-{number}")
}

/// The number of a configuration's colour: the same in all tables and charts of its results.
fn colour(results: &Results, known: &Configuration) -> usize {
    match known.family {
        Family::Raw => 0,
        Family::Limit => 1,
        _ => {
            let own = |other: &&Configuration| !matches!(other.family, Family::Raw | Family::Limit);
            let others = results.configurations.iter().filter(own);
            let index = others.take_while(|other| other.id != known.id).count();
            2 + index % (charts::COLOURS - 2)
        }
    }
}

/// A bar of this length, at most 1.
fn bar(share: f64, colour: usize) -> String {
    let width = share.clamp(0.0, 1.0) * 100.0;
    format!("<span class=\"track\"><i class=\"c{colour}\" style=\"width:{width:.1}%\"></i></span>")
}

/// What kind of request a workload makes, for a column that has little room.
fn short_name(workload: &Workload) -> String {
    workload
        .name
        .replace("4K random ", "4K ")
        .replace("1M sequential ", "1M ")
        .replace(", depth ", " ×")
}

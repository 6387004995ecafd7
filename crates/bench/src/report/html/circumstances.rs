//! What one must know to judge the figures: configurations, method, versions, what is missing.

use std::fmt::Write as _;

use crate::report::html::escaped;
use crate::report::messages;
use crate::result::{Configuration, Durable, Origin, Results};
use crate::units::span;

/// What was measured: how it is reached, its promises, and how to set it up.
pub fn configurations(results: &Results) -> String {
    if results.origin == Origin::Imported {
        return String::new();
    }
    let mut html = "<section>\n<h2>Configurations</h2>\n<div class=\"card\"><table class=\"words\">\n<thead><tr><th>configuration</th>\
                    <th>copies</th><th>way in</th><th>direct I/O is</th><th>flush durable</th><th>data read back</th></tr></thead>\n<tbody>\n"
        .to_owned();
    html.extend(results.configurations.iter().map(row));
    html += "</tbody></table></div>\n";
    let shown = |known: &&Configuration| !known.setup.is_empty();
    let setups = results.configurations.iter().filter(shown).map(|known| {
        let (name, commands) = (escaped(&known.name), escaped(&known.setup.join("\n")));
        format!("<h3>{name}</h3><pre><code>{commands}</code></pre>")
    });
    html += &folded("The commands that set them up", &setups.collect::<String>());
    html + "</section>\n"
}

fn row(known: &Configuration) -> String {
    let coloured = |class, text| format!("<span class=\"{class}\">{text}</span>");
    let durable = messages::flush_durable(known.durable_flush);
    let durable = match known.durable_flush {
        Durable::No => coloured("bad", durable),
        Durable::Yes | Durable::Unknown => durable.to_owned(),
    };
    let verified = messages::read_back(known.verified);
    let verified = match known.verified {
        Some(right) => coloured(if right { "good" } else { "bad" }, verified),
        None => verified.to_owned(),
    };
    format!(
        "<tr><td><span class=\"what\">{}</span><br><small>{}</small></td><td>{}</td><td>{}</td><td>{}</td><td>{durable}</td><td>{verified}</td></tr>\n",
        escaped(&known.name),
        escaped(&known.note),
        known.copies,
        escaped(&known.access),
        escaped(&known.cache),
    )
}

/// How and where it was measured, and what is missing.
pub fn method(results: &Results) -> String {
    let sentences: Vec<String> = results.method.iter().map(|sentence| escaped(sentence)).collect();
    let mut html = format!("<section>\n<h2>How it was measured</h2>\n{}", list(&sentences));
    if !results.command.is_empty() {
        let took = match results.origin {
            Origin::Measured => {
                format!("<p class=\"facts\">It took {}.</p>", span(results.seconds))
            }
            Origin::Imported => String::new(),
        };
        let _ = writeln!(html, "<pre><code>{}</code></pre>{took}", escaped(&results.command));
    }
    if !results.machine.tools.is_empty() {
        let tools: Vec<String> = results
            .machine
            .tools
            .iter()
            .map(|(name, version)| format!("{name}: {version}"))
            .collect();
        let tools = format!("<pre><code>{}</code></pre>", escaped(&tools.join("\n")));
        html += &folded("Versions of tools and peers", &tools);
    }
    html += &missing(results);
    html + "</section>\n"
}

fn missing(results: &Results) -> String {
    let skipped: Vec<String> = results
        .skipped
        .iter()
        .map(|skipped| {
            let (what, why) = (escaped(&skipped.what), escaped(&skipped.why));
            format!("<b>{what}</b>: {why} <small>{}</small>", escaped(&skipped.remedy))
        })
        .collect();
    let illegible: Vec<String> = results
        .illegible
        .iter()
        .map(|illegible| format!("line {}: {}", illegible.line, escaped(&illegible.what)))
        .collect();
    let mut html = String::new();
    for (title, entries) in [("Left out", skipped), ("Illegible", illegible)] {
        if !entries.is_empty() {
            html += &format!("<h2>{title}</h2>\n{}", list(&entries));
        }
    }
    html
}

fn list(entries: &[String]) -> String {
    format!("<ul><li>{}</li></ul>\n", entries.join("</li><li>"))
}

fn folded(title: &str, body: &str) -> String {
    match body.is_empty() {
        true => String::new(),
        false => format!("<details><summary>{title}</summary>{body}</details>\n"),
    }
}

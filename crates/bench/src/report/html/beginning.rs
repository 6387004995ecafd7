//! What a page begins with: warnings, one picture, three sentences.

use std::fmt::Write as _;

use crate::report::findings::picture::Bar;
use crate::report::findings::{Findings, Panel};
use crate::report::html::{colour, escaped};
use crate::result::Results;

/// The beginning of these results' part of the page.
pub fn of(results: &Results) -> String {
    let findings = Findings::of(results);
    let mut html = String::new();
    for warning in &findings.warnings {
        // Writing into a String does not fail.
        let _ = writeln!(
            html,
            "<p class=\"warning\" role=\"note\"><b>Warning.</b> {}</p>",
            escaped(&warning.sentence())
        );
    }
    html += &picture(results, &findings);
    html += "<section class=\"summary\">";
    for sentence in findings.sentences() {
        let _ = write!(html, "<p>{}</p>", with_code(&sentence));
    }
    html + "</section>\n"
}

fn picture(results: &Results, findings: &Findings) -> String {
    if findings.panels.is_empty() {
        return String::new();
    }
    let pale = if findings.concludes() { "" } else { " unsure" };
    let mut html = format!("<figure class=\"picture{pale}\">\n");
    html.extend(findings.panels.iter().map(|panel| self::panel(results, panel)));
    let mut bars = findings.panels.iter().flat_map(|panel| &panel.bars);
    let legend = match bars.any(|bar| bar.rounds.is_some()) {
        true => {
            "A longer bar is faster. A thin line reaches from the slowest to the fastest round: where two \
             overlap, their difference may be chance."
        }
        false => {
            "A longer bar is faster. Of one round nobody knows how far the next would lie off."
        }
    };
    let _ = writeln!(html, "<p class=\"legend\">{legend}</p></figure>");
    html
}

fn panel(results: &Results, panel: &Panel) -> String {
    let bars: String = panel.bars.iter().map(|one| bar(results, one)).collect();
    format!(
        "<div class=\"panel\"><h3>{}, as a part of {}</h3>{bars}</div>\n",
        escaped(&panel.workload),
        escaped(&panel.reference)
    )
}

fn bar(results: &Results, one: &Bar) -> String {
    let number =
        results.configuration(&one.configuration).map_or(0, |known| colour(results, known));
    let whisker = one.rounds.map_or(String::new(), |(low, high)| {
        let (left, width) = (low * 100.0, (high - low).max(0.0) * 100.0);
        format!("<b class=\"whisker\" style=\"left:{left:.1}%;width:{width:.1}%\"></b>")
    });
    format!(
        "<div class=\"row\"{}><span class=\"name\">{}</span><span class=\"long\">\
         <i class=\"c{number}\" style=\"width:{:.1}%\"></i>{whisker}</span>\
         <span class=\"value\">{}</span></div>",
        one.reach.as_ref().map_or(String::new(), |reach| format!(" title=\"{}\"", escaped(reach))),
        escaped(&one.name),
        one.length.clamp(0.0, 1.0) * 100.0,
        escaped(&one.label),
    )
}

/// A sentence in HTML; what stands between backquotes is a command.
fn with_code(sentence: &str) -> String {
    let mut html = String::new();
    for (number, piece) in sentence.split('`').enumerate() {
        match number % 2 {
            0 => html += &escaped(piece),
            _ => {
                let _ = write!(html, "<code>{}</code>", escaped(piece));
            }
        }
    }
    html
}

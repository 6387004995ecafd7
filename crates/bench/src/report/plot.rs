//! One picture of a run that stands alone, for a README: bars of the headline workloads.

use std::fmt::Write as _;

use crate::report::html::escaped;
use crate::report::{figure, rows_of};
use crate::result::{Configuration, Family, Results, Summary, Workload};
use crate::units::percent;

const WIDTH: f64 = 760.0;
/// Where the bars begin, right of the names.
const LEFT: f64 = 290.0;
/// The longest bar.
const MAX_WIDTH: f64 = 300.0;
const STEP: f64 = 24.0;
/// The workloads that are shown, if they were measured; else the first three.
const SHOWN: [&str; 3] = ["4k-randwrite-d32", "4k-randwrite-flush", "4k-randread-d32"];
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1c2024}.h{font-weight:600;font-size:15px}\
.s{fill:#60656c}.t{fill:#eeeff1}.raw{fill:#6e7781}.own{fill:#0b68cb}.peer{fill:#d9730d}\
@media(prefers-color-scheme:dark){text{fill:#e8eaed}.s{fill:#9ba3ab}.t{fill:#24282d}.raw{fill:#9aa3ab}\
.own{fill:#6cb2ff}.peer{fill:#ffa657}}";

/// The picture, as SVG. Each bar is the ratio to the raw disk in the same rounds.
pub fn picture(results: &Results) -> String {
    let mut chosen: Vec<&Workload> = SHOWN.iter().filter_map(|id| results.workload(id)).collect();
    if chosen.is_empty() {
        chosen = results.workloads.iter().take(SHOWN.len()).collect();
    }
    let mut body = String::new();
    let mut y = 8.0;
    for workload in chosen {
        y += 26.0;
        // Writing into a String does not fail.
        let _ =
            write!(body, "<text class=\"h\" x=\"8\" y=\"{y}\">{}</text>", escaped(&workload.name));
        y += 10.0;
        for (known, row) in rows_of(results, workload) {
            if let Some(summary) = row.summary.as_ref().filter(|_| known.family != Family::Limit) {
                body += &bar(workload, known, summary, y);
                y += STEP;
            }
        }
    }
    y += 20.0;
    let _ =
        write!(body, "<text class=\"s\" x=\"8\" y=\"{y}\">{}</text>", escaped(&origin(results)));
    let height = y + 12.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Speed as a part of the raw disk's\"><style>{STYLE}</style>{body}</svg>\n"
    )
}

fn bar(workload: &Workload, known: &Configuration, summary: &Summary, y: f64) -> String {
    let class = match known.family {
        Family::Raw => "raw",
        Family::Evenkeel => "own",
        _ => "peer",
    };
    let of_limit =
        summary.to_limit.map_or(String::new(), |limit| format!(", {} of limit", percent(limit)));
    // Without a ratio there is no bar: an empty one would say that it is infinitely slow.
    let bar = summary.to_raw.map_or(String::new(), |ratio| {
        format!(
            "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"14\" rx=\"4\"/>",
            MAX_WIDTH * ratio.clamp(0.0, 1.0)
        )
    });
    format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
         <rect class=\"t\" x=\"{LEFT}\" y=\"{y}\" width=\"{MAX_WIDTH}\" height=\"14\" rx=\"4\"/>{bar}\
         <text class=\"s\" x=\"{}\" y=\"{}\">{}{of_limit}</text>\n",
        LEFT - 10.0,
        y + 11.5,
        escaped(&known.name),
        LEFT + MAX_WIDTH + 10.0,
        y + 11.5,
        figure(summary.median, workload.measure),
    )
}

/// Where and when it was measured, and how noisy it was.
fn origin(results: &Results) -> String {
    let machine = &results.machine;
    let mut facts = Vec::new();
    if !machine.processor.is_empty() {
        facts.push(format!("{} × {}", machine.processors, machine.processor));
    }
    facts.push(machine.disk.clone());
    facts.extend(
        machine.raw_spread.map(|spread| format!("rounds of raw {} apart", percent(spread))),
    );
    facts.extend(results.started.split_once('T').map(|(day, _)| day.to_owned()));
    facts.join(" · ")
}

//! All ratios to raw at one glance: configurations by workloads.

use std::fmt::Write as _;

use crate::report::html::{anchor, escaped, short_name};
use crate::result::{Configuration, Family, Results};
use crate::units::percent;

/// The table; empty where there is nothing to compare.
pub fn table(results: &Results) -> String {
    let shown = |known: &&Configuration| !matches!(known.family, Family::Raw | Family::Limit);
    let rows: Vec<String> = results
        .configurations
        .iter()
        .filter(shown)
        .filter_map(|known| row(results, known))
        .collect();
    if rows.is_empty() || results.workloads.len() < 2 {
        return String::new();
    }
    let mut html = "<section>\n<h2>Speed, as a part of the raw disk’s</h2>\n<div class=\"card\"><table class=\"overview\">\n<thead><tr>\
                    <th>configuration</th>"
        .to_owned();
    for (number, workload) in results.workloads.iter().enumerate() {
        // Writing into a String does not fail.
        let _ = write!(
            html,
            "<th><a href=\"#{}\">{}</a></th>",
            anchor(results, number),
            escaped(&short_name(workload))
        );
    }
    html + "</tr></thead>\n<tbody>\n" + &rows.concat() + "</tbody></table></div>\n</section>\n"
}

fn row(results: &Results, known: &Configuration) -> Option<String> {
    let mut cells = String::new();
    let mut found = false;
    for workload in &results.workloads {
        let row = results.row(&known.id, &workload.id);
        match row.and_then(|row| row.summary.as_ref()?.to_raw) {
            Some(ratio) => {
                found = true;
                let shade = ratio.clamp(0.0, 1.0) * 100.0;
                let _ = write!(
                    cells,
                    "<td><span class=\"cell\" style=\"--shade:{shade:.0}%\">{}</span></td>",
                    percent(ratio)
                );
            }
            None => cells += "<td>–</td>",
        }
    }
    let name = escaped(&known.name);
    found.then(|| format!("<tr><td><span class=\"what\">{name}</span></td>{cells}</tr>\n"))
}

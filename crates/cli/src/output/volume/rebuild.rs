//! How far a rebuild is.

use std::time::Duration;

use evenkeel_api::types::Rebuild;

use crate::output::phrases::percent;
use crate::output::{rate, size, span};

/// Columns of the bar of a rebuild.
const BAR: usize = 24;

/// `[======>                 ]  25%  1G of 4G, 210M/s, 14 s left, from n1`.
pub fn rebuild_line(rebuild: &Rebuild) -> String {
    let source = rebuild.source_node.as_ref();
    let from = source.map_or_else(String::new, |node| format!(", from {}", node.name));
    // An older node does not say that it counts.
    if rebuild.counting || rebuild.total == 0 {
        let copied = match rebuild.copied {
            0 => String::new(),
            some => format!(", {} copied", size(some)),
        };
        return format!("counting what is to be copied{copied}{from}");
    }
    let percent = percent(rebuild.done, rebuild.total);
    let filled = usize::try_from(percent).unwrap_or(100).min(100) * BAR / 100;
    let bar = match BAR - filled {
        0 => "=".repeat(BAR),
        empty => format!("{}>{}", "=".repeat(filled), " ".repeat(empty - 1)),
    };
    let mut text = format!(
        "[{bar}] {percent:>3}%  {} of {}, {}",
        size(rebuild.done),
        size(rebuild.total),
        pace(rebuild),
    );
    if let Some(seconds) = rebuild.eta_seconds {
        text.push_str(&format!(", {} left", span(Duration::from_secs(seconds))));
    }
    text + &from
}

fn pace(rebuild: &Rebuild) -> String {
    if is_measuring(rebuild) { "measuring the rate".into() } else { rate(rebuild.rate) }
}

/// Whether it will have a rate soon. One that waits for something has none.
pub fn is_measuring(rebuild: &Rebuild) -> bool {
    rebuild.measuring && rebuild.waits_for.is_none()
}

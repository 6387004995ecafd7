//! What became of volumes that were put together, and how the sides of a split brain differ.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_node::api::types::{
    AssembleAnswer, AssembleOutcome, Assembled, SplitBrain, SplitDifference, SplitSide,
};

use super::volume::{short, warnings};
use super::{Painted as _, size, span};

/// Ranges that are shown one by one; `--json` has up to 10,000.
const MOST_RANGES: usize = 16;

/// Every volume, one after the other.
pub fn page(answer: &AssembleAnswer) -> String {
    let mut text: String = answer.volumes.iter().map(|volume| one(volume, answer)).collect();
    if answer.volumes.is_empty() {
        text.push_str("No volume was found.\n");
    }
    text + &warnings(&answer.warnings)
}

fn one(volume: &Assembled, answer: &AssembleAnswer) -> String {
    let mut text = match volume.outcome {
        AssembleOutcome::Refused if answer.volumes.len() > 1 => {
            let action = volume.error.as_ref().map_or("", |error| &error.action);
            format!(
                "volume {}: {}: {}\n  do: {action}\n",
                volume.name.bold(),
                "refused".bad(),
                volume.message
            )
        }
        // The error says the rest.
        AssembleOutcome::Refused => String::new(),
        AssembleOutcome::Assembled | AssembleOutcome::Unchanged => format!("{}\n", volume.message),
    };
    if let Some(split) = &volume.split {
        text.push_str(&split_brain(&volume.name, split));
    }
    text
}

fn split_brain(name: &str, split: &SplitBrain) -> String {
    let mut text =
        format!("volume {}: {} sides were written apart\n", name.bold(), split.sides.len());
    for (number, side) in split.sides.iter().enumerate() {
        text.push_str(&one_side(number, side));
    }
    for difference in &split.differences {
        text.push_str(&differing(difference));
    }
    if let Some(why) = &split.not_compared {
        text.push_str(&format!("  not compared: {why}\n"));
    }
    text
}

fn one_side(number: usize, side: &SplitSide) -> String {
    let newest = if number == 0 { " (the newest)" } else { "" };
    let mut text = format!("  side {}{newest}: generation {}", number + 1, side.generation);
    if let Some(saved) = side.saved {
        text.push_str(&format!(", saved {} ago", ago(saved)));
    }
    if let Some(parted) = side.parted {
        text.push_str(&format!(", parted {} ago", ago(parted)));
    }
    text.push_str(&format!(", lineage {}\n", short(&side.lineage)));
    for replica in &side.replicas {
        let (id, place) = (short(&replica.id), &replica.place);
        text.push_str(&format!("    replica {id} at {place}, mirror {}\n", replica.mirror));
    }
    text
}

fn differing(difference: &SplitDifference) -> String {
    let mut text = format!(
        "  side {} differs from side 1 in {} blocks of 4K, {}\n",
        difference.side + 1,
        difference.blocks,
        size(difference.bytes)
    );
    for range in difference.ranges.iter().take(MOST_RANGES) {
        let (from, to) = (range.offset, range.offset + range.length);
        text.push_str(&format!(
            "    mirror {}: bytes {from} to {to}, {}\n",
            range.mirror,
            size(range.length)
        ));
    }
    let more = difference.ranges.len().saturating_sub(MOST_RANGES);
    if more > 0 || !difference.complete {
        let at_least = if difference.complete { "" } else { "at least " };
        text.push_str(&format!("    and {at_least}{more} more ranges: see --json\n"));
    }
    text
}

fn ago(moment: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    span(Duration::from_secs(now.saturating_sub(moment)))
}

#[cfg(test)]
mod tests;

//! What became of volumes that were put together, and how the branches of a split brain differ.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_api::types::{
    AssembleAnswer, AssembleOutcome, AssemblePlan, AssemblePlanAnswer, Assembled, DiscardedReplica,
    KeptReplica, SplitBrain, SplitBranch, SplitDifference,
};

use super::phrases::{short, warnings};
use super::table::{Align, Table};
use super::{Painted as _, size, span};

/// Ranges that are shown one by one; `--json` has up to 10,000.
const MAX_RANGES: usize = 16;

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

/// What would become of every volume.
pub fn plan(answer: &AssemblePlanAnswer) -> String {
    let several = answer.volumes.len() > 1;
    let mut text: String = answer.volumes.iter().map(|volume| planned(volume, several)).collect();
    if answer.volumes.is_empty() {
        text.push_str("No volume was found.\n");
    }
    text + &warnings(&answer.warnings)
}

fn planned(volume: &AssemblePlan, several: bool) -> String {
    let split = volume.split.as_ref().map(|split| split_brain(&volume.name, split));
    let split = split.unwrap_or_default();
    match &volume.error {
        Some(error) if several => {
            let (name, action) = (volume.name.bold(), &error.action);
            let why = &volume.message;
            format!("volume {name}: {}: {why}\n  do: {action}\n{split}", "would be refused".bad())
        }
        // The error says the rest.
        Some(_) => split,
        None => {
            let mut text = format!("{}\n", volume.message);
            let (found, missing): (Vec<_>, Vec<_>) =
                volume.keeps.iter().cloned().partition(|kept| kept.generation.is_some());
            text.push_str(&kept("would be kept", &found));
            text.push_str(&kept(
                "not found: they stay in the volume, and whether they are there is not known",
                &missing,
            ));
            text.push_str(&kept("would be rebuilt", &volume.rebuilds));
            text.push_str(&discarded(&volume.discards));
            text
        }
    }
}

fn kept(title: &str, replicas: &[KeptReplica]) -> String {
    if replicas.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&COLUMNS);
    for KeptReplica { id, place, mirror, generation, saved } in replicas {
        table.row(row(id, place, *mirror, *generation, *saved));
    }
    format!("{title}:\n{}", table.render(2))
}

fn discarded(replicas: &[DiscardedReplica]) -> String {
    if replicas.is_empty() {
        return "no replica would be discarded\n".to_owned();
    }
    let columns: Vec<_> = COLUMNS.into_iter().chain([("LOSES", Align::Right)]).collect();
    let mut table = Table::new(&columns);
    for DiscardedReplica { id, place, mirror, generation, saved, loses } in replicas {
        let mut row = row(id, place, *mirror, *generation, *saved);
        row.push(loses.map_or_else(|| "unknown".to_owned(), size));
        table.row(row);
    }
    format!("would be discarded:\n{}", table.render(2))
}

const COLUMNS: [(&str, Align); 5] = [
    ("REPLICA", Align::Left),
    ("PLACE", Align::Left),
    ("MIRROR", Align::Right),
    ("GENERATION", Align::Right),
    ("SAVED", Align::Left),
];

fn row(
    id: &str,
    place: &str,
    mirror: usize,
    generation: Option<u64>,
    saved: Option<u64>,
) -> Vec<String> {
    let generation = generation.map_or_else(|| "not found".to_owned(), |g| g.to_string());
    let saved = saved.map_or_else(|| "-".to_owned(), |saved| format!("{} ago", ago(saved)));
    vec![short(id).to_owned(), place.to_owned(), mirror.to_string(), generation, saved]
}

fn split_brain(name: &str, split: &SplitBrain) -> String {
    let mut text =
        format!("volume {}: {} branches have diverged\n", name.bold(), split.branches.len());
    for (number, branch) in split.branches.iter().enumerate() {
        text.push_str(&one_branch(number, branch));
    }
    for difference in &split.differences {
        text.push_str(&differing(difference));
    }
    if let Some(why) = &split.not_compared {
        text.push_str(&format!("  not compared: {why}\n"));
    }
    text
}

fn one_branch(number: usize, branch: &SplitBranch) -> String {
    let newest = if number == 0 { " (the newest)" } else { "" };
    let mut text = format!("  branch {}{newest}: generation {}", number + 1, branch.generation);
    if let Some(saved) = branch.saved {
        text.push_str(&format!(", saved {} ago", ago(saved)));
    }
    if let Some(diverged) = branch.diverged {
        text.push_str(&format!(", diverged {} ago", ago(diverged)));
    }
    text.push_str(&format!(", history {}\n", short(&branch.history)));
    for replica in &branch.replicas {
        let (id, place) = (short(&replica.id), &replica.place);
        text.push_str(&format!("    replica {id} at {place}, mirror {}\n", replica.mirror));
    }
    text
}

fn differing(difference: &SplitDifference) -> String {
    let mut text = format!(
        "  branch {} differs from branch 1 in {} blocks of 4K, {}\n",
        difference.branch + 1,
        difference.blocks,
        size(difference.bytes)
    );
    for range in difference.ranges.iter().take(MAX_RANGES) {
        let (from, to) = (range.offset, range.offset + range.length);
        text.push_str(&format!(
            "    mirror {}: bytes {from} to {to}, {}\n",
            range.mirror,
            size(range.length)
        ));
    }
    let more = difference.ranges.len().saturating_sub(MAX_RANGES);
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

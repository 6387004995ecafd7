//! Many volumes: a line for each, and their sum.

use evenkeel_api::types::{VolumeHealth, VolumeState, VolumeStatus, VolumesAnswer};

use super::failures::last_failed_write;
use super::words::{health, health_word, painted, state, summary, user};
use crate::output::phrases::{count, moment, warnings};
use crate::output::table::{Align, Table};
use crate::output::{Painted as _, size};
use crate::selection::is_starting_late;

/// One line for each volume, below their sum; `total` of them were there to choose from.
pub fn list(answer: &VolumesAnswer, total: usize) -> String {
    if answer.volumes.is_empty() {
        let text = match total {
            0 if !answer.complete => "Nothing is known of any volume here.\n",
            0 => "There is no volume yet. Create one: evenkeel volume create NAME --size 4G\n",
            _ => &format!("None of {} wants attention.\n", count(total, "volume")),
        };
        return text.to_owned() + &warnings(&answer.warnings);
    }
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("SIZE", Align::Right),
        ("PROTOCOL", Align::Left),
        ("REPLICAS", Align::Left),
        ("HEALTH", Align::Left),
        ("STATE", Align::Left),
        ("ATTACHED ON", Align::Left),
    ]);
    for volume in &answer.volumes {
        table.row(vec![
            volume.name.bold(),
            size(volume.size),
            format!("{:?}", volume.protocol),
            painted(&summary(volume), volume.health),
            painted(&health_word(volume), volume.health),
            state(volume),
            attached_on(volume),
        ]);
        if let Some(reason) = &volume.reason {
            table.note(format!("why: {reason}"));
        }
        if let Some(since) = volume.suspended.as_ref().and_then(|waits| waits.since) {
            table.note(format!("since: {}", moment(since)));
        }
        if let Some(saved) = volume.as_of {
            table.note(format!("as of: {}", moment(saved)));
        }
        if let Some(last) = last_failed_write(volume) {
            table.note(format!(
                "{} failed, the last {}: a filesystem on it may have become read-only",
                count(usize::try_from(last.count).unwrap_or(usize::MAX), &last.kind),
                moment(last.last)
            ));
        }
    }
    sum(&answer.volumes, total) + &table.render(0) + &warnings(&answer.warnings)
}

/// `50 volumes: 48 in-sync, 1 degraded, 1 unreachable`, a line, or `2 of 50 volumes: …` if these
/// were chosen from `total`; nothing for a single volume of one.
pub fn sum(volumes: &[VolumeStatus], total: usize) -> String {
    if total < 2 {
        return String::new();
    }
    let number = match volumes.len() {
        all if all == total => count(all, "volume"),
        some => format!("{some} of {}", count(total, "volume")),
    };
    let words = volumes.iter().map(condition);
    // From good to bad, as the eye ends at the last one.
    let mut counts: Vec<(&str, usize)> = [
        "in-sync",
        "rebuilding",
        "degraded",
        "starting",
        "suspended",
        "unknown",
        "degraded?",
        "unreachable?",
        "not given up",
        "primary unreachable",
        "unreachable",
    ]
    .map(|w| (w, 0))
    .to_vec();
    for word in words {
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, number)) => *number += 1,
            None => counts.push((word, 1)),
        }
    }
    let parts: Vec<_> = counts
        .iter()
        .filter(|(_, number)| *number > 0)
        .map(|(word, number)| format!("{number} {word}{}", usable(word, *number, volumes)))
        .collect();
    format!("{number}: {}\n", parts.join(", "))
}

/// How many of the volumes that are called unreachable, because a replica does not answer, answer
/// their clients all the same.
fn usable(word: &str, number: usize, volumes: &[VolumeStatus]) -> String {
    let is_it = |volume: &&VolumeStatus| {
        condition(volume) == "unreachable" && volume.state == VolumeState::Serving
    };
    match (word, volumes.iter().filter(is_it).count()) {
        ("unreachable", usable) if usable == number => " (usable)".to_owned(),
        ("unreachable", usable @ 1..) => format!(" ({usable} usable)"),
        _ => String::new(),
    }
}

/// The one word that says most of a volume.
fn condition(volume: &VolumeStatus) -> &'static str {
    match volume.state {
        VolumeState::Starting if is_starting_late(volume) => "starting",
        VolumeState::Suspended => "suspended",
        VolumeState::Unreachable if volume.not_given_up => "not given up",
        VolumeState::Unreachable => "primary unreachable",
        // The worst that is known of it, however old.
        VolumeState::Unknown => match volume.health {
            VolumeHealth::Degraded => "degraded?",
            VolumeHealth::Unreachable => "unreachable?",
            _ => "unknown",
        },
        _ => health(volume.health),
    }
}

pub(super) fn attached_on(volume: &VolumeStatus) -> String {
    let names: Vec<_> = volume.primaries.iter().map(|primary| user(volume, primary)).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

//! What a verify has found, as people see it.

use std::time::Duration;

use evenkeel_api::types::{
    CoveredReplica, ReplicaStatus, Verify, VerifyState, VolumeStatus, WrongRange, WrongReplica,
};

use super::phrases::{moment, percent, short};
use super::{size, span};

/// What a verify has found: in all, on each replica, and where.
pub fn reported(verify: &Verify, volume: &VolumeStatus) -> String {
    let mut text = format!("{}\n", verdict(verify, volume));
    let of_replica = |replica| format!("  {}\n", of_replica(replica, volume));
    let mut replicas: Vec<_> = verify.replicas.iter().map(of_replica).collect();
    replicas.sort();
    text.push_str(&replicas.concat());
    for range in &verify.ranges {
        text.push_str(&format!("  {}\n", line(range, volume)));
    }
    let listed: u64 = verify.ranges.iter().map(|range| range.length).sum();
    let more = (verify.different + verify.damaged + verify.unreadable).saturating_sub(listed);
    if more > 0 {
        text.push_str(&format!("  and {} more\n", size(more)));
    }
    text
}

/// A verify in one line. Only one that has compared everything says that the replicas are
/// identical, and which they are.
pub fn verdict(verify: &Verify, volume: &VolumeStatus) -> String {
    let mut text = match wrong(verify) {
        Some(wrong) => with_wrong(verify, &wrong),
        None => without_wrong(verify, volume),
    };
    text.extend(caveats(verify, volume).iter().map(|caveat| format!("; {caveat}")));
    if let Some(ended) = verify.ended {
        text.push_str(&format!("; ended {}", moment(ended)));
        text.push_str(&about(verify, volume));
    }
    text
}

/// What is wrong, if anything is.
fn wrong(verify: &Verify) -> Option<String> {
    if (verify.different, verify.damaged, verify.unreadable) == (0, 0, 0) {
        return None;
    }
    Some(format!(
        "{} differ between replicas, {} contradict their checksums, {} could not be read, {} repaired",
        size(verify.different),
        size(verify.damaged),
        size(verify.unreadable),
        size(verify.repaired)
    ))
}

/// How far it is, and that this is wrong.
fn with_wrong(verify: &Verify, wrong: &str) -> String {
    let took = span(Duration::from_secs(verify.seconds));
    let (checked, total) = (size(verify.checked), size(verify.total));
    match verify.state {
        VerifyState::Running => {
            format!("{}% compared in {took}: {wrong}", percent(verify.checked, verify.total))
        }
        VerifyState::Done if verify.alone == verify.total => {
            format!("all {total} read in {took}: {wrong}")
        }
        VerifyState::Done => format!("{} in {took}: {wrong}", amount(verify)),
        VerifyState::Stopped => format!("stopped after {checked} of {total}: {wrong}"),
    }
}

/// How far it is, and how much it means that nothing is wrong.
fn without_wrong(verify: &Verify, volume: &VolumeStatus) -> String {
    let took = span(Duration::from_secs(verify.seconds));
    let (checked, total) = (size(verify.checked), size(verify.total));
    match verify.state {
        VerifyState::Running => format!(
            "{}% compared in {took}: no difference so far",
            percent(verify.checked, verify.total)
        ),
        VerifyState::Stopped => {
            format!("no difference in {checked} of {total}, where it was stopped")
        }
        VerifyState::Done if verify.alone == verify.total => format!(
            "all {total} read in {took}: nothing is wrong with it; nothing to compare it with"
        ),
        VerifyState::Done if is_past(verify) => format!(
            "{} in {took}: the replicas were identical, and each was rebuilt or replaced since",
            amount(verify)
        ),
        VerifyState::Done if let Some(left) = only_one_left(verify, volume) => format!(
            "{} in {took}: no difference; of the compared replicas only {left} is as it was then: there is nothing to compare it with now",
            amount(verify)
        ),
        VerifyState::Done if verify.alone > 0 => {
            format!("{} in {took}: no difference", amount(verify))
        }
        VerifyState::Done => {
            // If others were added since, those that were compared are named below.
            let which = if verify.not_covered.is_empty() { "all in-sync" } else { "the compared" };
            format!("all {total} compared in {took}: {which} replicas identical")
        }
    }
}

/// What else there is to know of its result.
fn caveats(verify: &Verify, volume: &VolumeStatus) -> Vec<String> {
    let mut caveats = Vec::new();
    if verify.lost > 0 {
        caveats.push(format!("{} are whole on no in-sync replica", size(verify.lost)));
    }
    if verify.undecided > 0 {
        caveats.push(format!(
            "of {} nobody knows which content is right: choose a replica whose content goes to all: evenkeel volume verify {} --repair --source REPLICA",
            size(verify.undecided),
            volume.name
        ));
    }
    if verify.overruled > 0 {
        caveats.push(format!(
            "in {} the named source does not count: other copies match their checksums, or more of them do",
            size(verify.overruled)
        ));
    }
    if verify.alone > 0 {
        caveats.push(format!("{} are on one in-sync replica only", size(verify.alone)));
    }
    caveats
}

/// How much of it was compared: what only one replica has was read, and no more.
fn amount(verify: &Verify) -> String {
    match verify.alone {
        0 => format!("all {} compared", size(verify.total)),
        alone => format!(
            "{} of {} compared, and {} only read",
            size(verify.total.saturating_sub(alone)),
            size(verify.total),
            size(alone)
        ),
    }
}

/// Whether no replica is left as it was when it was compared.
fn is_past(verify: &Verify) -> bool {
    verify.covered.as_ref().is_some_and(Vec::is_empty) && !verify.not_covered.is_empty()
}

/// The compared replicas that are left as they were, if no mirror has two of them any more.
fn only_one_left(verify: &Verify, volume: &VolumeStatus) -> Option<String> {
    let covered = verify.covered.as_ref()?;
    let is_covered = |id: &str| covered.iter().any(|covered| covered.id == id);
    let mut left = Vec::new();
    for mirror in &volume.mirrors {
        let mut of_mirror = mirror.replicas.iter().filter(|replica| is_covered(&replica.id));
        left.extend(of_mirror.next().map(ReplicaStatus::place));
        if of_mirror.next().is_some() {
            return None;
        }
    }
    (!left.is_empty()).then(|| left.join(", "))
}

/// `; compared: n1:fast, n2:fast; not covered: n3:fast, added or rebuilt since`. Nothing of
/// software that does not say it.
fn about(verify: &Verify, volume: &VolumeStatus) -> String {
    let Some(covered) = &verify.covered else { return String::new() };
    let mirrors = volume.mirrors.len().max(1) as u64;
    // What a mirror has of the part that was compared, give or take a chunk of the stripe.
    let slack = if mirrors > 1 { u64::from(volume.chunk) } else { 0 };
    let share = verify.checked / mirrors;
    let of_replica = |covered: &CoveredReplica| match name(&covered.id, volume) {
        name if covered.bytes + slack < share => format!("{name} ({} of it)", size(covered.bytes)),
        name => name,
    };
    let list = |mut names: Vec<String>| {
        names.sort();
        names.join(", ")
    };
    let compared = list(covered.iter().map(of_replica).collect());
    let others = list(verify.not_covered.iter().map(|id| name(id, volume)).collect());
    let mut text = String::new();
    if !compared.is_empty() {
        text.push_str(&format!("; compared: {compared}"));
    }
    let read = list(verify.read.iter().map(of_replica).collect());
    if !read.is_empty() {
        text.push_str(&format!("; only read and matched with its checksums: {read}"));
    }
    if !others.is_empty() {
        text.push_str(&format!(
            "; not covered: {others} (not compared, or added or rebuilt since)"
        ));
    }
    if volume.size > verify.total {
        let grown = size(volume.size - verify.total);
        text.push_str(&format!("; not covered: {grown} by which the volume has grown since"));
    }
    text
}

/// `n2:fast: 8K contradict their checksums`.
fn of_replica(replica: &WrongReplica, volume: &VolumeStatus) -> String {
    let counts = [
        (replica.different, "differ from those that count as right"),
        (replica.damaged, "contradict their checksums"),
        (replica.unreadable, "could not be read"),
    ];
    let counts = counts.iter().filter(|(bytes, _)| *bytes > 0);
    let parts: Vec<_> = counts.map(|(bytes, what)| format!("{} {what}", size(*bytes))).collect();
    format!("{}: {}", name(&replica.id, volume), parts.join(", "))
}

/// `bytes 8192 to 12288: damaged on n2:fast; repaired`.
fn line(range: &WrongRange, volume: &VolumeStatus) -> String {
    let places = |ids: &[String]| {
        let mut names: Vec<_> = ids.iter().map(|id| name(id, volume)).collect();
        names.sort();
        names.join(", ")
    };
    let ways = [
        ("different on", &range.different),
        ("damaged on", &range.damaged),
        ("unreadable on", &range.unreadable),
    ];
    let ways = ways.iter().filter(|(_, ids)| !ids.is_empty());
    let mut parts: Vec<_> = ways.map(|(how, ids)| format!("{how} {}", places(ids))).collect();
    if range.undecided {
        parts.push("which is right is not known".into());
    }
    if range.lost {
        parts.push("whole on no in-sync replica".into());
    }
    if range.repaired {
        parts.push("repaired".into());
    }
    let end = range.offset + range.length;
    format!("bytes {} to {end}: {}", range.offset, parts.join("; "))
}

/// A replica by its node and disk, as far as they are known.
fn name(id: &str, volume: &VolumeStatus) -> String {
    let mut replicas = volume.mirrors.iter().flat_map(|mirror| &mirror.replicas);
    replicas
        .find(|replica| replica.id == id)
        .map_or_else(|| short(id).to_owned(), ReplicaStatus::place)
}

#[cfg(test)]
mod tests;

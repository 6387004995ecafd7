//! Volumes as people see them.

use std::time::Duration;

use evenkeel_api::types::{
    Export, FailedRequests, MirrorStatus, NoCoordinator, NoData, NvmeExport, PrimaryStatus,
    Rebuild, RebuildRate, ReplicaCause, ReplicaReach, ReplicaRole, ReplicaState, ReplicaStatus,
    StatusSource, Suspended, VolumeBitmap, VolumeHealth, VolumePlan, VolumeState, VolumeStatus,
    VolumesAnswer, WaitsFor,
};

use super::table::{Align, Table};
use super::verify::verdict;
use super::{Painted as _, rate, size, span};
use crate::selection::is_starting_late;

/// Columns of the bar of a rebuild.
const BAR: usize = 24;

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
            painted(health(volume.health), volume.health),
            state(volume.state),
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
        if let Some(last) = failed_writes(volume) {
            table.note(format!(
                "writes have failed, the last {}: a filesystem on it may have become read-only",
                moment(last)
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
    let mut counts: Vec<(&str, usize)> =
        ["in-sync", "rebuilding", "degraded", "starting", "suspended", "unknown", "unreachable"]
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
        .map(|(word, number)| format!("{number} {word}"))
        .collect();
    format!("{number}: {}\n", parts.join(", "))
}

/// The one word that says most of a volume.
fn condition(volume: &VolumeStatus) -> &'static str {
    match volume.state {
        VolumeState::Starting if is_starting_late(volume) => "starting",
        VolumeState::Suspended => "suspended",
        VolumeState::Unreachable => "unreachable",
        VolumeState::Unknown => "unknown",
        _ => health(volume.health),
    }
}

/// What there is to know of a volume without its progress, in one line that has no colours:
/// `[UU_] degraded, serving: the replica on n3 is stale`.
pub fn line(volume: &VolumeStatus) -> String {
    let reason = volume.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let (word, state) = (health(volume.health), state_word(volume.state));
    format!("{} {word}, {state}{reason}", summary(volume))
}

/// Everything about one volume.
pub fn status(volume: &VolumeStatus) -> String {
    let mut text = format!(
        "volume {} {} {}, {}\n",
        volume.name.bold(),
        painted(&summary(volume), volume.health),
        painted(health(volume.health), volume.health),
        state(volume.state),
    );
    if let Some(reason) = &volume.reason {
        text.push_str(&format!("  why       {reason}\n"));
    }
    if let Some(saved) = volume.as_of {
        text.push_str(&format!("  as of     {}\n", moment(saved)));
    }
    if let Some(suspended) = &volume.suspended {
        text.push_str(&suspension(suspended));
    }
    text.push_str(&format!("  layout    {}\n", layout(volume)));
    for primary in &volume.primaries {
        text.push_str(&format!("  attached  {}\n", attachment(volume, primary)));
    }
    for failed in &volume.failed {
        text.push_str(&format!("  failed    {}\n", failures(failed).bad()));
    }
    if let Some(verified) = &volume.verify {
        text.push_str(&format!("  verify    {}\n", verdict(verified, volume)));
    }
    if let Some(reservation) = &volume.reservation {
        text.push_str(&format!("  reserved  {}\n", super::reservation::line(reservation)));
    }
    for export in &volume.exports {
        text.push_str(&format!("  export    {}\n", export_line(export)));
    }
    text.push('\n');
    text.push_str(&replicas(volume));
    text
}

/// `3 writes, the first 2026-11-24 02:30:01, the last 2026-11-24 02:31:07, 5 min ago: …`.
/// When the last write failed for a reason that was the volume's own, if its reason does not tell it:
/// whoever has it mounted has to look.
fn failed_writes(volume: &VolumeStatus) -> Option<u64> {
    let is_told = |reason: &String| reason.contains("requests fail");
    if volume.reason.as_ref().is_some_and(is_told) {
        return None;
    }
    let is_own = |failed: &&FailedRequests| {
        let cause = failed.cause.as_str();
        let is_others = matches!(cause, "fenced" | "detached" | "reserved" | "invalid");
        !is_others && !matches!(failed.kind.as_str(), "read" | "map")
    };
    volume.failed.iter().filter(is_own).map(|failed| failed.last).max()
}

fn failures(failed: &FailedRequests) -> String {
    let number = usize::try_from(failed.count).unwrap_or(usize::MAX);
    let last = match failed.count {
        1 => moment(failed.last),
        _ => format!("the first {}, the last {}", date(failed.first), moment(failed.last)),
    };
    format!("{}, {last}: {}", count(number, &failed.kind), failed.why)
}

/// Where the replicas of a new volume are, or would be.
pub fn plan(plan: &VolumePlan, created: bool) -> String {
    let verb = if created { "Created" } else { "Would create" };
    let mut text = format!(
        "{verb} volume {}: {} usable, protocol {:?}, block size {}, {} on each replica's disk\n\n",
        plan.name.bold(),
        size(plan.size),
        plan.protocol,
        plan.block_size,
        size(plan.replica_size),
    );
    let mut table = Table::new(&[
        ("MIRROR", Align::Right),
        ("REPLICA", Align::Left),
        ("NODE", Align::Left),
        ("DISK", Align::Left),
    ]);
    for replica in &plan.replicas {
        table.row(vec![
            replica.mirror.to_string(),
            short(&replica.id).to_owned(),
            replica.node.name.clone(),
            replica.disk.clone(),
        ]);
    }
    text.push_str(&table.render(2));
    text + &warnings(&plan.warnings)
}

/// An export, with what to type to use it.
pub fn export_line(export: &Export) -> String {
    let mut text = format!("{} by {}", export.kind, export.node.name);
    if export.read_only {
        text.push_str(", read-only");
    }
    match export.clients {
        0 => {}
        many if export.nvme.is_some() => text.push_str(&format!(", {}", count(many, "host"))),
        1 => text.push_str(", 1 client"),
        many => text.push_str(&format!(", {many} clients")),
    }
    if !export.client_names.is_empty() {
        text.push_str(&format!(", on TCP for {}", export.client_names.join(", ")));
    }
    for uri in &export.uris {
        text.push_str(&format!("\n            {uri}"));
    }
    if let Some(nvme) = &export.nvme {
        text.push_str(&nvme_lines(export, nvme));
    }
    text
}

/// The subsystem with its addresses, who may use it, and who does.
fn nvme_lines(export: &Export, nvme: &NvmeExport) -> String {
    let mut lines = vec![format!("{} on {}", nvme.subsystem, export.tcp.join(", "))];
    lines.extend(nvme.hosts.iter().map(|host| {
        let proof = nvme.authenticated.iter().find(|it| it.nqn == *host);
        let proof = proof.map_or("", |proof| match proof.both_ways {
            true => ", which proves who it is, as the node does",
            false => ", which proves who it is",
        });
        format!("for {host}{proof}")
    }));
    lines.extend(nvme.connected.iter().map(|host| {
        let queues = count(host.queues, "I/O queue");
        format!("used by {} from {}, {queues}", host.nqn, host.address)
    }));
    lines.iter().map(|line| format!("\n            {line}")).collect()
}

/// What could not be found out.
pub fn warnings(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("{} {sentence}\n", "note:".warning())).collect()
}

/// `[UU_]`, one pair of brackets for each mirror; `[UU_]?` if that was so once.
pub fn summary(volume: &VolumeStatus) -> String {
    let mirrors = volume.mirrors.iter();
    let letters: String =
        mirrors.map(|mirror| format!("[{}]", mirror.summary.trim_matches(['[', ']']))).collect();
    letters + doubt(is_old(volume))
}

/// Whether all of it is from a view that may have been replaced since.
fn is_old(volume: &VolumeStatus) -> bool {
    volume.source == StatusSource::Replica
}

/// What stands behind a word that need not be true any more.
const fn doubt(is_doubtful: bool) -> &'static str {
    if is_doubtful { "?" } else { "" }
}

/// A node on which a volume is attached, or was when it was last heard of.
fn user(volume: &VolumeStatus, primary: &PrimaryStatus) -> String {
    let is_silent = volume.state == VolumeState::Unreachable || !primary.alive;
    format!("{}{}", primary.node.name, doubt(is_silent || is_old(volume)))
}

/// The first digits of an identity, enough to name it.
pub fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// `45%`, never 100 before it is done.
pub fn percent(done: u64, total: u64) -> u64 {
    if total == 0 {
        100
    } else {
        u64::try_from(u128::from(done) * 100 / u128::from(total)).unwrap_or(100)
    }
}

fn layout(volume: &VolumeStatus) -> String {
    let replicas = numbers(volume, ReplicaRole::Copy);
    let spares = match numbers(volume, ReplicaRole::Spare).as_str() {
        "0 spares" => String::new(),
        some => format!(" and {some}"),
    };
    let mirrors = match volume.mirrors.len() {
        0 | 1 => String::new(),
        many => format!("a stripe of {many} mirrors of "),
    };
    let patience = match volume.no_data {
        _ if volume.source == StatusSource::Replica => "generations may have followed".to_owned(),
        NoData::Suspend { seconds } => {
            format!("without data requests wait {}", span(Duration::from_secs(seconds)))
        }
        NoData::Error => "without data requests fail at once".to_owned(),
    };
    let alone = match volume.no_coordinator {
        NoCoordinator::Suspend => String::new(),
        NoCoordinator::Fail { seconds } => {
            let limit = span(Duration::from_secs(seconds));
            format!("; without the coordinator they fail after {limit}")
        }
    };
    let pace = match volume.rebuild {
        RebuildRate::None => String::new(),
        RebuildRate::Paused => "; rebuilds are paused".to_owned(),
        RebuildRate::Rate { bytes_per_second } => {
            format!("; rebuilds at most {}", rate(bytes_per_second))
        }
    };
    format!(
        "{}, {mirrors}{}{spares}, protocol {:?}, bitmap {}, block size {}, generation {}; {patience}{alone}{pace}{}",
        size(volume.size),
        replicas,
        volume.protocol,
        match volume.bitmap {
            VolumeBitmap::None => "none".to_owned(),
            VolumeBitmap::Internal => format!("internal ({})", regions(volume)),
            VolumeBitmap::Clustered => {
                format!("clustered ({} in each of {} slots)", regions(volume), volume.slots)
            }
        },
        volume.block_size,
        volume.generation,
        lease(volume),
    )
}

/// How many replicas of a role each mirror has: `3 replicas`, or, where they have not as many,
/// `3 and 2 replicas`.
fn numbers(volume: &VolumeStatus, role: ReplicaRole) -> String {
    let (one, word) = match role {
        ReplicaRole::Spare => ("spare", "spares"),
        _ => ("replica", "replicas"),
    };
    let of = |mirror: &MirrorStatus| mirror.replicas.iter().filter(|r| r.role == role).count();
    let each: Vec<usize> = volume.mirrors.iter().map(of).collect();
    let first = each.first().copied().unwrap_or(0);
    if each.iter().all(|other| *other == first) {
        return count(first, one);
    }
    let texts: Vec<String> = each.iter().map(ToString::to_string).collect();
    let (last, others) = texts.split_last().map_or(("", &[][..]), |(l, o)| (l.as_str(), o));
    format!("{} and {last} {word}", others.join(", "))
}

/// The lease, where it is not the usual one.
fn lease(volume: &VolumeStatus) -> String {
    match (volume.lease_ms, volume.lease_margin_ms) {
        (6000, 500) => String::new(),
        (lease, margin) => {
            let [lease, margin] = [lease, margin].map(|ms| span(Duration::from_millis(ms)));
            format!("; lease {lease} and {margin}")
        }
    }
}

/// `2026-11-24 02:30:01, 5 min ago`.
pub fn moment(seconds: u64) -> String {
    let age = jiff::Timestamp::now().as_second() - i64::try_from(seconds).unwrap_or(i64::MAX);
    let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
    format!("{}, {} ago", date(seconds), span(age))
}

/// `2026-11-24 02:30:01`, here.
pub fn date(seconds: u64) -> String {
    let then = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    let Some(then) = then else { return "a time that nobody can have meant".to_owned() };
    then.to_zoned(jiff::tz::TimeZone::system()).strftime("%F %T").to_string()
}

fn regions(volume: &VolumeStatus) -> String {
    format!("{} regions of {}", volume.open_regions, size(volume.region_size))
}

/// `1 replica`, `3 replicas`.
pub fn count(number: usize, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if noun.ends_with("sh") => "es",
        _ => "s",
    };
    format!("{number} {noun}{ending}")
}

fn attachment(volume: &VolumeStatus, primary: &PrimaryStatus) -> String {
    let mut text = format!("on {}", user(volume, primary));
    if let Some(device) = &primary.device {
        text.push_str(&format!(" as {}", device.bold()));
    }
    if let Some(kind) = &primary.device_kind {
        text.push_str(&format!(" ({kind})"));
    }
    if !primary.alive {
        text.push_str(&", but that node does not answer".warning());
    }
    text
}

fn attached_on(volume: &VolumeStatus) -> String {
    let names: Vec<_> = volume.primaries.iter().map(|primary| user(volume, primary)).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn suspension(suspended: &Suspended) -> String {
    let waited = span(Duration::from_secs(suspended.seconds));
    let since = suspended.since.map(|at| format!(", since {}", date(at))).unwrap_or_default();
    let limit = match suspended.limit_seconds {
        Some(0) => ", and requests fail at once".to_owned(),
        Some(limit) => {
            format!(", and requests fail after {}", span(Duration::from_secs(limit)))
        }
        None if suspended.waits_for == WaitsFor::Coordinator => {
            ", and requests wait without a limit (`volume change --on-no-coordinator` sets one)"
                .into()
        }
        None => String::new(),
    };
    format!(
        "  {}   for {waited}{since}{limit}: {}\n  do        {}\n",
        "waiting".warning(),
        suspended.why,
        suspended.action,
    )
}

fn replicas(volume: &VolumeStatus) -> String {
    let striped = volume.mirrors.len() > 1;
    let mut columns = vec![
        ("REPLICA", Align::Left),
        ("NODE", Align::Left),
        ("DISK", Align::Left),
        ("STATE", Align::Left),
    ];
    if striped {
        columns.insert(0, ("MIRROR", Align::Left));
    }
    let mut table = Table::new(&columns);
    for mirror in &volume.mirrors {
        for (position, replica) in mirror.replicas.iter().enumerate() {
            let mut cells = replica_cells(replica, is_old(volume));
            if striped {
                cells.insert(0, mirror_cell(mirror, position));
            }
            table.row(cells);
            notes(&mut table, replica, has_failed_reads(volume));
            table_role(&mut table, mirror, replica);
        }
    }
    table.render(2)
}

fn mirror_cell(mirror: &MirrorStatus, position: usize) -> String {
    if position == 0 { mirror.index.to_string() } else { String::new() }
}

fn replica_cells(replica: &ReplicaStatus, is_old: bool) -> Vec<String> {
    vec![
        short(&replica.id).to_owned(),
        replica.node.name.clone(),
        replica.disk.clone().unwrap_or_else(|| "?".to_owned()),
        match replica.reach {
            ReplicaReach::Answers | ReplicaReach::NotNeeded => {
                replica_state(replica.state) + doubt(is_old)
            }
            reach => reached(reach, replica.state),
        },
    ]
}

/// The word for what a replica is to its mirror, if it is there.
pub fn reached(reach: ReplicaReach, state: ReplicaState) -> String {
    match reach {
        ReplicaReach::Unreachable => "unreachable".bad(),
        ReplicaReach::Unknown => "unknown".warning(),
        ReplicaReach::FileGone => "file gone".bad(),
        ReplicaReach::ReadOnly => "read-only".bad(),
        ReplicaReach::Answers | ReplicaReach::NotNeeded => replica_state(state),
    }
}

/// Whether clients were told that reads failed: no other replica answered these.
fn has_failed_reads(volume: &VolumeStatus) -> bool {
    volume.failed.iter().any(|failed| failed.kind == "read")
}

fn notes(table: &mut Table, replica: &ReplicaStatus, has_failed_reads: bool) {
    if let Some(rebuild) = &replica.rebuild {
        table.note(rebuild_line(rebuild));
        if let Some(reason) = &rebuild.waits_for {
            table.note(format!("it waits: {reason}"));
        }
    }
    if let Some(reason) = &replica.reason {
        table.note(format!("why: {reason}"));
    }
    // One that has diverged is reached, and does not return for that.
    let is_apart = replica.cause == Some(ReplicaCause::OtherHistory);
    if let Some(seconds) = replica.retry_seconds.filter(|_| !is_apart) {
        let pause = span(Duration::from_secs(seconds));
        table.note(match (replica.left_again, seconds) {
            (Some(times), 1..) => format!(
                "left {times} times in a row, each time within a minute; taken in again in {pause}"
            ),
            (_, 0) => "it is being tried again".to_owned(),
            (None, _) => format!("tries again in {pause}"),
        });
    }
    if replica.node_alive == Some(false) {
        table.note(format!("node {} does not answer", replica.node.name));
    }
    if let Some(at) = replica.disk_failed {
        table.note(format!(
            "its disk failed a request that no other replica could answer, {}; a verify that finds nothing wrong ends this note",
            moment(at)
        ));
    }
    if let Some(failed) = replica.failed_reads.filter(|failed| *failed > 0) {
        table.note(match has_failed_reads {
            true => format!("{failed} reads failed here or contradicted their checksums"),
            false => format!(
                "{failed} reads failed or contradicted their checksums; others answered, and repaired them here"
            ),
        });
    }
}

/// A replica by its node and disk.
pub fn place(replica: &ReplicaStatus) -> String {
    format!("{}:{}", replica.node.name, replica.disk.as_deref().unwrap_or("?"))
}

/// In whose place a replica is.
fn table_role(table: &mut Table, mirror: &MirrorStatus, replica: &ReplicaStatus) {
    let Some(other) = &replica.instead_of else { return };
    let found = mirror.replicas.iter().find(|r| r.id == *other);
    let place = found.map_or_else(|| short(other).to_owned(), place);
    table.note(match replica.role {
        ReplicaRole::Spare => format!("it stands in for {place}"),
        _ => format!("it is to replace {place}, which is removed then"),
    });
}

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

/// The word for what a replica is to its mirror.
pub fn replica_state(state: ReplicaState) -> String {
    match state {
        ReplicaState::InSync => "in-sync".good(),
        ReplicaState::Rebuilding => "rebuilding".warning(),
        ReplicaState::Stale => "stale".warning(),
        ReplicaState::Faulty => "faulty".bad(),
        ReplicaState::Spare => "spare".dim(),
    }
}

/// The word for a volume's health.
pub const fn health(health: VolumeHealth) -> &'static str {
    match health {
        VolumeHealth::InSync => "in-sync",
        VolumeHealth::Rebuilding => "rebuilding",
        VolumeHealth::Degraded => "degraded",
        VolumeHealth::Unknown => "unknown",
        VolumeHealth::Unreachable => "unreachable",
    }
}

fn painted(text: &str, health: VolumeHealth) -> String {
    match health {
        VolumeHealth::InSync => text.good(),
        VolumeHealth::Rebuilding | VolumeHealth::Unknown => text.warning(),
        VolumeHealth::Degraded | VolumeHealth::Unreachable => text.bad(),
    }
}

fn state(state: VolumeState) -> String {
    let word = state_word(state);
    match state {
        VolumeState::Stopped | VolumeState::Detached => word.dim(),
        VolumeState::Starting | VolumeState::Unknown => word.warning(),
        VolumeState::Serving => word.good(),
        VolumeState::Suspended | VolumeState::Unreachable => word.bad(),
    }
}

const fn state_word(state: VolumeState) -> &'static str {
    match state {
        VolumeState::Stopped => "stopped",
        VolumeState::Detached => "detached",
        VolumeState::Starting => "starting",
        VolumeState::Serving => "serving",
        VolumeState::Suspended => "suspended",
        VolumeState::Unreachable => "primary unreachable",
        VolumeState::Unknown => "unknown whether attached",
    }
}

#[cfg(test)]
pub mod tests;

//! The tables of all states in `docs/manual/states.md`: which line, which words in JSON and which
//! code a volume has, by who answers and what is known of its replicas. `tests/states.rs` of this
//! crate compares many of these lines with those of nodes that run.

use std::fmt::Write as _;

use evenkeel_api::types::{
    PrimaryStatus, ReplicaReach, ReplicaState, StatusSource, VolumeHealth, VolumeState,
    VolumeStatus, VolumesAnswer,
};
use evenkeel_core::view::Cause;
use evenkeel_node::volumes::status::condition::{Account, ReplicaFacts, conclude};

use super::super::{line, list};
use super::volume;
use crate::commands::look::verdict;
use crate::exit::Exit;
use reporters::{Reporter, replica, reporters};

mod axes;
mod reporters;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manual/states.md");
const BEGIN: &str =
    "<!-- written by a test: EVENKEEL_WRITE_DOCS=1 cargo test -p evenkeel states -->\n";

/// The statuses of a volume in several states, all from one who answers.
struct Table {
    heading: String,
    /// What its first column says.
    column: &'static str,
    rows: Vec<(String, VolumeStatus)>,
}

fn tables() -> Vec<Table> {
    let of = |reporter: Reporter| {
        let rows = reporter.seconds().into_iter();
        let rows = rows.map(|(name, second)| (name.to_owned(), status(&reporter, second)));
        let rows = rows.collect();
        Table { heading: reporter.heading, column: "Replica on n2", rows }
    };
    reporters().into_iter().map(of).chain(axes::tables()).collect()
}

fn status(reporter: &Reporter, second: ReplicaFacts) -> VolumeStatus {
    let mut volume = volume();
    volume.wanted_on.clone_from(&reporter.wanted);
    volume.mirrors[0].replicas.truncate(2);
    volume.source = reporter.source;
    let alive = !matches!(reporter.account, Account::Silent { alive: false, .. });
    volume.primaries = reporter.attached.into_iter().map(|name| primary(name, alive)).collect();
    let mut first = replica("n1", reporter.first, Cause::None);
    if reporter.source == StatusSource::Primary {
        first.connected = Some(true);
    }
    volume.mirrors[0].replicas[1].disk.clone_from(&second.disk);
    conclude(&mut volume, &reporter.account, &[vec![first, second]]);
    volume.suspended = reporter.waited.map(super::starting);
    volume
}

fn primary(name: &str, alive: bool) -> PrimaryStatus {
    let node = serde_json::json!({"id": name, "name": name});
    let primary = serde_json::json!({"node": node, "alive": alive, "here": name == "n1"});
    serde_json::from_value(primary).unwrap()
}

/// What `volume status` says above the layout, in one line.
fn page(volume: &VolumeStatus) -> String {
    let page = super::super::status(volume);
    let mut lines = page.lines();
    let first = lines.next().unwrap().strip_prefix("volume music ").unwrap().to_owned();
    let why = lines.find_map(|line| line.strip_prefix("  why       "));
    why.map_or(first.clone(), |why| format!("{first}: {why}"))
}

/// The last four cells of its row in `volume list`.
fn row(volume: &VolumeStatus) -> String {
    let volumes = vec![volume.clone()];
    let answer = VolumesAnswer { version: 1, volumes, complete: true, warnings: vec![] };
    let list = list(&answer, 1);
    let row = list.lines().nth(1).unwrap();
    let cells: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    cells[cells.len() - 4..].join(", ")
}

/// The words in JSON that a program decides by: the volume's, and those of all replicas but the
/// first of each mirror.
fn json(volume: &VolumeStatus) -> String {
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let volume = serde_json::to_value(volume).unwrap();
    let mut text = format!("{}, {}", word(&volume["state"]), word(&volume["health"]));
    for mirror in volume["mirrors"].as_array().unwrap() {
        for replica in &mirror["replicas"].as_array().unwrap()[1..] {
            let _ = write!(text, "; {}, {}", word(&replica["state"]), word(&replica["reach"]));
        }
    }
    text
}

fn page_of_tables() -> String {
    let mut text = String::new();
    for Table { heading, column, rows } in tables() {
        let source = serde_json::to_value(rows[0].1.source).unwrap();
        let word = source.as_str().unwrap();
        let _ = writeln!(text, "\n### {heading}\n\n`source` in JSON: `{word}`\n");
        let _ = writeln!(text, "| {column} | `status` | `list` | `--json` | `--check` |");
        text.push_str("|---|---|---|---|---:|\n");
        for (name, volume) in rows {
            let code = verdict(std::slice::from_ref(&volume), true).code();
            let cells = [name, page(&volume), row(&volume), json(&volume)];
            let cells = cells.map(|cell| cell.replace('|', "\\|")).join(" | ");
            let _ = writeln!(text, "| {cells} | {code} |");
        }
    }
    text
}

/// Each row, with where it stands.
fn rows() -> impl Iterator<Item = (String, VolumeStatus)> {
    tables().into_iter().flat_map(|table| {
        let of = move |(name, volume)| (format!("{}: {name}", table.heading), volume);
        table.rows.into_iter().map(of)
    })
}

#[test]
fn one_look_says_what_the_other_says() {
    for (place, volume) in rows() {
        assert_eq!(page(&volume), line(&volume), "{place}");
    }
}

#[test]
fn no_two_rows_of_a_table_have_the_same_name() {
    let mut places: Vec<_> = rows().map(|(place, _)| place).collect();
    let count = places.len();
    places.sort();
    places.dedup();
    assert_eq!(places.len(), count);
}

#[test]
fn the_page_has_every_state() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (by_hand, written) = page.split_once(BEGIN).expect("the page has the mark");
    let tables = page_of_tables();
    if std::env::var_os("EVENKEEL_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{by_hand}{BEGIN}{tables}")).unwrap();
    } else {
        assert!(
            written == tables,
            "docs/manual/states.md is old: EVENKEEL_WRITE_DOCS=1 writes it anew"
        );
    }
}

#[test]
fn a_code_of_0_needs_everybody_to_have_answered() {
    for (place, volume) in rows() {
        let mut replicas = volume.mirrors.iter().flat_map(|mirror| &mirror.replicas);
        let all_answer = replicas.all(|replica| match replica.state {
            // Nobody has a session with it; whoever is known to be away is missed.
            ReplicaState::Spare => replica.reach == ReplicaReach::NotNeeded,
            _ => replica.reach == ReplicaReach::Answers,
        });
        let all_attached = volume.primaries.iter().all(|primary| primary.alive);
        let is_late = volume.state == VolumeState::Starting
            && volume.suspended.as_ref().is_some_and(|wait| wait.seconds > 30);
        let is_missed =
            volume.wanted_on.iter().any(|on| on.why.is_some() || on.alive != Some(true));
        let good = volume.health == VolumeHealth::InSync
            && !is_late
            && !is_missed
            && all_attached
            && !matches!(
                volume.state,
                VolumeState::Suspended | VolumeState::Unreachable | VolumeState::Unknown
            );
        let is_done = verdict(std::slice::from_ref(&volume), true) == Exit::Done;
        assert_eq!(is_done, good && all_answer, "{place}: {}", line(&volume));
    }
}

//! The table of all states in `docs/manual/states.md`: which line, which words in JSON and which code a
//! volume has, by who answers and what is known of its second replica.

use std::fmt::Write as _;

use evenkeel_api::types::{
    NodeRef, ReplicaReach, StatusSource, VolumeHealth, VolumeState, VolumeStatus, WantedStatus,
};
use evenkeel_core::ReplicaState as State;
use evenkeel_core::view::Cause;
use evenkeel_node::disks::Unserved;
use evenkeel_node::volumes::condition::{Account, ReplicaFacts, Wait, conclude};

use super::{line, tests::volume};
use crate::commands::look::verdict;
use crate::exit::Exit;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manual/states.md");
const BEGIN: &str =
    "<!-- written by a test: EVENKEEL_WRITE_DOCS=1 cargo test -p evenkeel states -->\n";

/// Whoever answers, with the words of the heading, and where else the volume is wanted.
fn accounts() -> Vec<(&'static str, StatusSource, Account, Vec<WantedStatus>)> {
    let mut all: Vec<_> = of_this_volume()
        .into_iter()
        .map(|(heading, source, account)| (heading, source, account, Vec::new()))
        .collect();
    let waiting = [
        ("attached nowhere, wanted on a node that is dead", Some(false), None),
        ("attached nowhere, wanted on a node that has not attached it", Some(true), None),
        (
            "attached nowhere, wanted on a node that says why it is not",
            Some(true),
            Some("no in-sync replica answers"),
        ),
        ("attached nowhere, wanted on a node not heard of yet", None, None),
    ];
    all.extend(waiting.map(|(heading, alive, why)| {
        let heading = format!("The coordinator: {heading}").leak();
        (&*heading, StatusSource::Coordinator, Account::Detached, vec![wanted(alive, why)])
    }));
    all
}

/// It is meant to be attached on n3.
fn wanted(alive: Option<bool>, why: Option<&str>) -> WantedStatus {
    let node = NodeRef { id: "3".into(), name: "n3".into() };
    WantedStatus { node, alive, device: true, nbd: false, why: why.map(str::to_owned) }
}

fn of_this_volume() -> Vec<(&'static str, StatusSource, Account)> {
    let waits = |why: &str, silent_mirror| Wait { why: why.into(), silent_mirror };
    let coordinator_away = "a view has to change, and the coordinator does not answer";
    let starting = "it is being attached: replicas are reached and the view is changed";
    let no_data = "no in-sync replica of mirror 0 answers";
    vec![
        ("The primary: it serves", StatusSource::Primary, Account::Serving),
        (
            "The primary: it is being attached",
            StatusSource::Primary,
            Account::Starting(waits(starting, None)),
        ),
        (
            "The primary: it waits for the coordinator",
            StatusSource::Primary,
            Account::Suspended(waits(coordinator_away, None)),
        ),
        (
            "The primary: only the return of a replica waits for the coordinator",
            StatusSource::Primary,
            Account::Awaiting(coordinator_away.into()),
        ),
        (
            "The primary: it waits for an in-sync replica",
            StatusSource::Primary,
            Account::Suspended(waits(no_data, Some(0))),
        ),
        ("The coordinator: attached nowhere", StatusSource::Coordinator, Account::Detached),
        ("The coordinator: stopped", StatusSource::Coordinator, Account::Stopped("music".into())),
        (
            "The coordinator: attached here, where nothing uses it",
            StatusSource::Coordinator,
            Account::Forgotten { node: "n1".into(), name: "music".into() },
        ),
        (
            "The coordinator: attached on a node that does not answer",
            StatusSource::Coordinator,
            Account::Silent { node: "n3".into(), alive: true, teller: "n1".into() },
        ),
        (
            "The coordinator: attached on a node that is dead",
            StatusSource::Coordinator,
            Account::Silent { node: "n3".into(), alive: false, teller: "n1".into() },
        ),
        ("A replica here: nobody else answers", StatusSource::Replica, Account::Replica),
    ]
}

fn replica(node: &str, state: State, cause: Cause) -> ReplicaFacts {
    ReplicaFacts {
        node: node.into(),
        disk: Some("fast".into()),
        state,
        cause,
        leaves: false,
        apart: false,
        unserved: None,
        file_gone: None,
        connected: None,
        node_alive: Some(true),
        answered: None,
        teller: "n1".into(),
    }
}

/// What may be known of the second replica, by whoever answers.
fn seconds(source: StatusSource) -> Vec<(&'static str, ReplicaFacts)> {
    let of = |state, cause| replica("n2", state, cause);
    let away = || Unserved::Away("its disk is absent".into());
    let gone = || Unserved::Gone("node n2 has no such replica: its file was deleted".into());
    let deleted = || Some("disk fast of node n2: there is no file at /fast/r any more".to_owned());
    let known = |alive| ReplicaFacts { node_alive: alive, ..of(State::InSync, Cause::None) };
    let session = |up| ReplicaFacts { connected: Some(up), ..of(State::InSync, Cause::None) };
    // A primary says of each whether it has a session.
    let connected = (source == StatusSource::Primary).then_some(false);
    let missing = [
        ("stale, just added", State::Stale, Cause::None),
        ("stale", State::Stale, Cause::Disconnected),
        ("faulty", State::Faulty, Cause::Medium),
    ];
    let missing =
        missing.map(|(name, state, cause)| (name, ReplicaFacts { connected, ..of(state, cause) }));
    let mut all = match source {
        StatusSource::Primary => vec![
            ("in-sync, answers", session(true)),
            ("in-sync, does not answer", session(false)),
            ("in-sync, its disk absent", ReplicaFacts { unserved: Some(away()), ..session(false) }),
            (
                "in-sync, answers, its file deleted",
                ReplicaFacts { file_gone: deleted(), ..session(true) },
            ),
            (
                "in-sync, left a request unanswered, leaves when the coordinator answers",
                session(true).leaving(State::Stale, Cause::Late),
            ),
            (
                "in-sync, its disk failed, leaves when the coordinator answers",
                session(true).leaving(State::Faulty, Cause::Medium),
            ),
            (
                "rebuilding, answers",
                ReplicaFacts { connected: Some(true), ..of(State::Rebuilding, Cause::Restarted) },
            ),
            (
                "rebuilding, does not answer",
                ReplicaFacts { connected: Some(false), ..of(State::Rebuilding, Cause::Restarted) },
            ),
            (
                "written apart",
                ReplicaFacts {
                    apart: true,
                    connected: Some(true),
                    ..of(State::Stale, Cause::None)
                },
            ),
        ],
        StatusSource::Coordinator => vec![
            ("in-sync, node alive", known(Some(true))),
            (
                "in-sync, node alive, its disk absent",
                ReplicaFacts { unserved: Some(away()), ..known(Some(true)) },
            ),
            (
                "in-sync, node alive, its file deleted and open still",
                ReplicaFacts { file_gone: deleted(), ..known(Some(true)) },
            ),
            (
                "in-sync, node alive, its file deleted",
                ReplicaFacts { unserved: Some(gone()), ..known(Some(true)) },
            ),
            (
                "in-sync, node alive, and silent to the node that is asked",
                ReplicaFacts { answered: Some(false), ..known(Some(true)) },
            ),
            ("in-sync, node dead", known(Some(false))),
            (
                "in-sync, node dead, and answers the node that is asked",
                ReplicaFacts { answered: Some(true), ..known(Some(false)) },
            ),
            ("in-sync, node not heard of yet", known(None)),
            ("rebuilding, node alive", of(State::Rebuilding, Cause::Restarted)),
        ],
        StatusSource::Replica => vec![("in-sync", known(None))],
    };
    all.extend(missing);
    all
}

fn status(
    source: StatusSource,
    account: &Account,
    wanted: &[WantedStatus],
    second: ReplicaFacts,
) -> VolumeStatus {
    let mut volume = volume();
    volume.wanted_on = wanted.to_vec();
    volume.mirrors[0].replicas.truncate(2);
    volume.source = source;
    let mut first = replica("n1", State::InSync, Cause::None);
    if source == StatusSource::Primary {
        first.connected = Some(true);
    }
    conclude(&mut volume, account, &[vec![first, second]]);
    volume
}

fn table() -> String {
    let mut page = String::new();
    for (heading, source, account, wanted) in accounts() {
        let word = serde_json::to_value(source).unwrap();
        let _ =
            writeln!(page, "\n### {heading}\n\n`source` in JSON: `{}`\n", word.as_str().unwrap());
        page.push_str("| Replica on n2 | Line | `--check` |\n|---|---|---:|\n");
        for (second, facts) in seconds(source) {
            let volume = status(source, &account, &wanted, facts);
            let code = verdict(std::slice::from_ref(&volume), true).code();
            let _ = writeln!(page, "| {second} | {} | {code} |", line(&volume).replace('|', "\\|"));
        }
    }
    page
}

#[test]
fn the_page_has_every_state() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (by_hand, written) = page.split_once(BEGIN).expect("the page has the mark");
    let table = table();
    if std::env::var_os("EVENKEEL_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{by_hand}{BEGIN}{table}")).unwrap();
    } else {
        assert!(
            written == table,
            "docs/manual/states.md is old: EVENKEEL_WRITE_DOCS=1 writes it anew"
        );
    }
}

#[test]
fn a_code_of_0_needs_everybody_to_have_answered() {
    for (heading, source, account, wanted) in accounts() {
        for (second, facts) in seconds(source) {
            let volume = status(source, &account, &wanted, facts);
            let all_answer =
                volume.mirrors[0].replicas.iter().all(|r| r.reach == ReplicaReach::Answers);
            let good = volume.health == VolumeHealth::InSync
                && !matches!(
                    volume.state,
                    VolumeState::Suspended | VolumeState::Unreachable | VolumeState::Unknown
                );
            let is_done = verdict(std::slice::from_ref(&volume), true) == Exit::Done;
            assert_eq!(is_done, good && all_answer, "{heading}: {second}: {}", line(&volume));
        }
    }
}

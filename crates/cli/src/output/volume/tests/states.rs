//! The table of all states in `docs/manual/states.md`: which line, which words in JSON and which
//! code a volume has, by who answers and what is known of its second replica.

use std::fmt::Write as _;

use evenkeel_api::types::{
    NodeRef, PrimaryStatus, ReplicaReach, StatusSource, VolumeHealth, VolumeState, VolumeStatus,
    VolumesAnswer, WantedStatus,
};
use evenkeel_core::ReplicaState as State;
use evenkeel_core::view::Cause;
use evenkeel_node::disks::{Risk, Unserved};
use evenkeel_node::volumes::status::condition::{Account, ReplicaFacts, Wait, conclude};

use super::super::{line, list};
use super::volume;
use crate::commands::look::verdict;
use crate::exit::Exit;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manual/states.md");
const BEGIN: &str =
    "<!-- written by a test: EVENKEEL_WRITE_DOCS=1 cargo test -p evenkeel states -->\n";

/// Who answers, and what that says of the volume itself.
struct Teller {
    heading: String,
    source: StatusSource,
    account: Account,
    /// The node on which it is attached, by the view.
    attached: Option<&'static str>,
    wanted: Vec<WantedStatus>,
    /// What the replica on n1 is, which answers.
    first: State,
    /// For how many seconds its requests have waited, where that matters.
    waited: Option<u64>,
    /// Whether the coordinator answers node n1, which then knows of nodes' heartbeats.
    hears_coordinator: bool,
}

impl Teller {
    fn new(
        source: StatusSource,
        heading: String,
        attached: Option<&'static str>,
        account: Account,
    ) -> Self {
        let (wanted, first, waited) = (Vec::new(), State::InSync, None);
        let hears_coordinator = source != StatusSource::Replica;
        Self { heading, source, account, attached, wanted, first, waited, hears_coordinator }
    }

    /// What may be known of the second replica, and how that is called.
    fn seconds(&self) -> Vec<(&'static str, ReplicaFacts)> {
        let mut all = seconds(self.source);
        for (_, facts) in all.iter_mut().filter(|_| !self.hears_coordinator) {
            facts.node_alive = None;
        }
        all
    }

    fn primary(heading: &str, node: &'static str, account: Account) -> Self {
        let heading = format!("The primary on {node}: {heading}");
        Self::new(StatusSource::Primary, heading, Some(node), account)
    }

    fn coordinator(heading: &str, attached: Option<&'static str>, account: Account) -> Self {
        let heading = format!("The coordinator: {heading}");
        Self::new(StatusSource::Coordinator, heading, attached, account)
    }

    fn wanted(heading: &str, alive: Option<bool>, why: Option<&str>) -> Self {
        let heading = format!("attached nowhere, wanted on a node {heading}");
        let wanted = vec![wanted(alive, why)];
        Self { wanted, ..Self::coordinator(&heading, None, Account::Detached) }
    }

    fn replica(node: &str, heading: &str, attached: Option<&'static str>) -> Self {
        let heading = format!(
            "The replica on {node}, while neither the coordinator nor a primary answers: {heading}"
        );
        let account = Account::Replica { node: node.to_owned(), teller: "n1".into() };
        Self::new(StatusSource::Replica, heading, attached, account)
    }
}

/// Whoever may answer node n1, which is asked.
fn tellers() -> Vec<Teller> {
    let mut all = primaries();
    all.extend(coordinators());
    all.push(Teller::replica("n1", "it was attached nowhere", None));
    all.push(Teller::replica("n1", "it was attached on n3", Some("n3")));
    all.push(Teller::replica("n2", "it was attached nowhere", None));
    all
}

/// It is meant to be attached on n3.
fn wanted(alive: Option<bool>, why: Option<&str>) -> WantedStatus {
    let node = NodeRef { id: "3".into(), name: "n3".into() };
    WantedStatus { node, alive, device: true, nbd: false, nvme: false, why: why.map(str::to_owned) }
}

fn primaries() -> Vec<Teller> {
    let waits = |why: &str, silent_mirror| Wait { why: why.into(), silent_mirror };
    let coordinator_away = "a view has to change, and the coordinator does not answer node n1";
    let starting = "it is being attached: replicas are reached and the view is changed";
    let device = "its block device is being made on node n1; its primary serves";
    let no_data = "no in-sync replica of mirror 0 answers";
    vec![
        Teller::primary("it serves", "n1", Account::Serving),
        Teller::primary("it serves", "n3", Account::Serving),
        Teller {
            hears_coordinator: false,
            ..Teller::primary(
                "it serves, and the coordinator does not answer",
                "n1",
                Account::Serving,
            )
        },
        Teller::primary("it is being attached", "n1", Account::Starting(waits(starting, None))),
        Teller::primary(
            "its block device is being made, since less than 30 s ago",
            "n1",
            Account::Starting(waits(device, None)),
        ),
        Teller {
            waited: Some(31),
            ..Teller::primary(
                "its block device is being made, since 31 s ago",
                "n1",
                Account::Starting(waits(device, None)),
            )
        },
        Teller::primary(
            "it waits for the coordinator",
            "n1",
            Account::Suspended(waits(coordinator_away, None)),
        ),
        Teller::primary(
            "only the return of a replica waits for the coordinator",
            "n1",
            Account::Awaiting(coordinator_away.into()),
        ),
        Teller::primary(
            "it waits for an in-sync replica",
            "n1",
            Account::Suspended(waits(no_data, Some(0))),
        ),
    ]
}

fn coordinators() -> Vec<Teller> {
    let silent = |alive| Account::Silent { node: "n3".into(), alive, teller: "n1".into() };
    let forgotten = Account::Forgotten { node: "n1".into(), name: "music".into() };
    vec![
        Teller::coordinator("attached nowhere", None, Account::Detached),
        Teller::coordinator("stopped", None, Account::Stopped("music".into())),
        Teller::coordinator("attached here, where nothing uses it", Some("n1"), forgotten),
        Teller::coordinator("attached on a node that does not answer", Some("n3"), silent(true)),
        Teller::coordinator("attached on a node that is dead", Some("n3"), silent(false)),
        Teller {
            first: State::Stale,
            ..Teller::coordinator(
                "attached on a node that is dead, and the replica on n1 is stale",
                Some("n3"),
                silent(false),
            )
        },
        Teller::wanted("that is dead", Some(false), None),
        Teller::wanted("that has not attached it", Some(true), None),
        Teller::wanted("that says why it is not", Some(true), Some("no in-sync replica answers")),
        Teller::wanted("not heard of yet", None, None),
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
        risk: None,
        connected: None,
        may_lack: false,
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
    let gone_file = "disk fast of node n2: there is no file at /fast/r any more";
    let deleted = || Some(Risk::FileGone(gone_file.into()));
    let read_only = || {
        Some(Risk::ReadOnly("disk fast of node n2: its file system is read-only: mount it".into()))
    };
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
            (
                "in-sync, answers, may lack the last writes",
                ReplicaFacts { may_lack: true, ..session(false) },
            ),
            ("in-sync, its disk absent", ReplicaFacts { unserved: Some(away()), ..session(false) }),
            (
                "in-sync, answers, its file deleted",
                ReplicaFacts { risk: deleted(), ..session(true) },
            ),
            (
                "in-sync, answers, its disk read-only",
                ReplicaFacts { risk: read_only(), ..session(true) },
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
                "diverged",
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
                ReplicaFacts { risk: deleted(), ..known(Some(true)) },
            ),
            (
                "in-sync, node alive, its disk read-only",
                ReplicaFacts { risk: read_only(), ..known(Some(true)) },
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

fn status(teller: &Teller, second: ReplicaFacts) -> VolumeStatus {
    let mut volume = volume();
    volume.wanted_on.clone_from(&teller.wanted);
    volume.mirrors[0].replicas.truncate(2);
    volume.source = teller.source;
    let alive = !matches!(teller.account, Account::Silent { alive: false, .. });
    volume.primaries = teller.attached.into_iter().map(|name| primary(name, alive)).collect();
    let mut first = replica("n1", teller.first, Cause::None);
    if teller.source == StatusSource::Primary {
        first.connected = Some(true);
    }
    conclude(&mut volume, &teller.account, &[vec![first, second]]);
    volume.suspended = teller.waited.map(super::starting);
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

/// The words in JSON that a program decides by: the volume's, and those of its second replica.
fn json(volume: &VolumeStatus) -> String {
    let volume = serde_json::to_value(volume).unwrap();
    let second = &volume["mirrors"][0]["replicas"][1];
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let [state, health, held, reach] =
        [&volume["state"], &volume["health"], &second["state"], &second["reach"]].map(word);
    format!("{state}, {health}; {held}, {reach}")
}

fn table() -> String {
    let mut text = String::new();
    for teller in tellers() {
        let word = serde_json::to_value(teller.source).unwrap();
        let (heading, word) = (&teller.heading, word.as_str().unwrap());
        let _ = writeln!(text, "\n### {heading}\n\n`source` in JSON: `{word}`\n");
        text.push_str("| Replica on n2 | `status` | `list` | `--json` | `--check` |\n");
        text.push_str("|---|---|---|---|---:|\n");
        for (second, facts) in teller.seconds() {
            let volume = status(&teller, facts);
            let code = verdict(std::slice::from_ref(&volume), true).code();
            let cells = [second.to_owned(), page(&volume), row(&volume), json(&volume)];
            let cells = cells.map(|cell| cell.replace('|', "\\|")).join(" | ");
            let _ = writeln!(text, "| {cells} | {code} |");
        }
    }
    text
}

#[test]
fn one_look_says_what_the_other_says() {
    for teller in tellers() {
        for (second, facts) in teller.seconds() {
            let volume = status(&teller, facts);
            assert_eq!(page(&volume), line(&volume), "{}: {second}", teller.heading);
        }
    }
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
    for teller in tellers() {
        for (second, facts) in teller.seconds() {
            let volume = status(&teller, facts);
            let all_answer =
                volume.mirrors[0].replicas.iter().all(|r| r.reach == ReplicaReach::Answers);
            let is_missed =
                volume.wanted_on.iter().any(|on| on.why.is_some() || on.alive != Some(true));
            let good = volume.health == VolumeHealth::InSync
                && teller.waited.is_none()
                && !is_missed
                && !matches!(
                    volume.state,
                    VolumeState::Suspended | VolumeState::Unreachable | VolumeState::Unknown
                );
            let is_done = verdict(std::slice::from_ref(&volume), true) == Exit::Done;
            assert_eq!(
                is_done,
                good && all_answer,
                "{}: {second}: {}",
                teller.heading,
                line(&volume)
            );
        }
    }
}

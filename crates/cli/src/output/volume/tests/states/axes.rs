//! What a volume of two replicas with one primary does not show: spares, stripes, several
//! primaries, and whatever goes on while the coordinator does not answer. A table for each.

use evenkeel_api::types::{Rebuild, ReplicaRole, StatusSource, Suspended, VolumeStatus};
use evenkeel_core::ReplicaState as State;
use evenkeel_core::view::Cause;
use evenkeel_node::disks::Unserved;
use evenkeel_node::volumes::status::condition::together::{self, Reported};
use evenkeel_node::volumes::status::condition::{Account, ReplicaFacts, Wait, conclude};

use super::super::volume;
use super::reporters::{ABSENT, replica};
use super::{Table, primary};

pub(super) fn tables() -> Vec<Table> {
    vec![
        without_coordinator(),
        with_spare("The primary on n1, with a spare on n3: it serves", &Account::Serving),
        with_spare("The coordinator, with a spare on n3: attached nowhere", &Account::Detached),
        waiting_rebuild(),
        striped(),
        shared(),
    ]
}

/// As nodes say it.
const EXCLUDED: &str = "a replica says that another node has taken the volume over, or that node n1 was evicted, and refuses what node n1 asks; only the coordinator can confirm it";

/// A replica with which the primary has a session, or has none.
fn session(node: &str, is_up: bool) -> ReplicaFacts {
    ReplicaFacts { connected: Some(is_up), ..replica(node, State::InSync, Cause::None) }
}

/// A stale one.
fn stale(node: &str) -> ReplicaFacts {
    ReplicaFacts { connected: Some(false), ..replica(node, State::Stale, Cause::Disconnected) }
}

fn dead(facts: ReplicaFacts) -> ReplicaFacts {
    ReplicaFacts { node_alive: Some(false), ..facts }
}

fn rebuilding(node: &str) -> ReplicaFacts {
    ReplicaFacts { connected: Some(true), ..replica(node, State::Rebuilding, Cause::Restarted) }
}

/// The status of a volume with these replicas, by mirror.
fn concluded(account: &Account, attached: &[&str], mirrors: &[Vec<ReplicaFacts>]) -> VolumeStatus {
    let mut status = volume();
    status.source = match account {
        Account::Detached => StatusSource::Coordinator,
        _ => StatusSource::Primary,
    };
    status.primaries = attached.iter().map(|name| primary(name, true)).collect();
    status.mirrors = vec![status.mirrors.remove(0); mirrors.len()];
    for (index, (mirror, facts)) in status.mirrors.iter_mut().zip(mirrors).enumerate() {
        (mirror.index, mirror.replicas) = (index, mirror.replicas[..facts.len()].to_vec());
    }
    conclude(&mut status, account, mirrors);
    status
}

/// The primary on n1, while the coordinator does not answer: nobody tells it which nodes live.
fn without_coordinator() -> Table {
    let away = "a view has to change, and the coordinator does not answer node n1";
    let wait = |why: &str, silent_mirror| Wait { why: why.into(), silent_mirror };
    let starting = "it is being attached: replicas are reached and the view is changed";
    let accounts = [
        ("it serves", Account::Serving),
        ("it is being attached", Account::Starting(wait(starting, None))),
        ("it waits for the coordinator", Account::Suspended(wait(away, None))),
        ("only the return of a replica waits for the coordinator", Account::Awaiting(away.into())),
        (
            "it stood still, and a replica says that the volume was taken over",
            Account::Excluded(wait(EXCLUDED, None)),
        ),
        (
            "it waits for an in-sync replica",
            Account::Suspended(wait("no in-sync replica of mirror 0 answers", Some(0))),
        ),
    ];
    let unseen = |facts| ReplicaFacts { node_alive: None, ..facts };
    let seconds = [
        ("in-sync, answers", unseen(session("n2", true))),
        ("in-sync, does not answer", unseen(session("n2", false))),
        (
            "in-sync, left a request unanswered, leaves when the coordinator answers",
            unseen(session("n2", true)).leaving(State::Stale, Cause::Late),
        ),
        (
            "in-sync, does not answer, leaves when the coordinator answers",
            unseen(session("n2", false)).leaving(State::Stale, Cause::Disconnected),
        ),
        ("stale", unseen(stale("n2"))),
    ];
    let rows = accounts.iter().flat_map(|(does, account)| {
        seconds.iter().map(move |(second, facts)| {
            let first = session("n1", true);
            let reported = concluded(account, &["n1"], &[vec![first, facts.clone()]]);
            (format!("{does}; {second}"), reported)
        })
    });
    Table {
        heading: "The primary on n1, while the coordinator does not answer".into(),
        column: "What it does; the replica on n2",
        rows: rows.collect(),
    }
}

/// The primary says what a rebuild waits for.
fn waiting_rebuild() -> Table {
    let states = [
        (
            "paused by an operator",
            "an operator paused it, until `evenkeel volume rebuild music --resume`",
        ),
        ("waits for its source", "a connection to its source"),
        ("its source fails", "its source cannot read byte 4096"),
    ];
    let rows = states.into_iter().map(|(name, why)| {
        let account = Account::Serving;
        let disconnected = ReplicaFacts { cause: Cause::Disconnected, ..rebuilding("n2") };
        let facts = [vec![session("n1", true), disconnected]];
        let mut reported = concluded(&account, &["n1"], &facts);
        reported.mirrors[0].replicas[1].rebuild = Some(waiting(why));
        conclude(&mut reported, &account, &facts);
        (name.to_owned(), reported)
    });
    Table {
        heading: "The primary on n1, with a rebuild that waits".into(),
        column: "Replica on n2, rebuilding",
        rows: rows.collect(),
    }
}

fn waiting(why: &str) -> Rebuild {
    serde_json::from_value(serde_json::json!({
        "done": 0, "total": 4096, "copied": 0, "rate": 0, "eta_seconds": null, "source": null,
        "source_node": null, "waits_for": why,
    }))
    .unwrap()
}

fn with_spare(heading: &str, account: &Account) -> Table {
    let runs = *account == Account::Serving;
    let known = |facts: ReplicaFacts| ReplicaFacts {
        connected: facts.connected.filter(|_| runs),
        answered: (!runs && facts.node != "n1").then_some(facts.node_alive == Some(true)),
        ..facts
    };
    let second = || session("n2", true);
    let spare =
        || ReplicaFacts { connected: Some(false), ..replica("n3", State::Spare, Cause::None) };
    let absent = Unserved::Away(ABSENT.replace("n2", "n3"));
    let mut states = vec![
        ("in-sync; its node alive", second(), spare()),
        ("in-sync; its node dead", second(), dead(spare())),
        ("in-sync; its disk absent", second(), ReplicaFacts { unserved: Some(absent), ..spare() }),
        ("stale, its node dead; its node dead", dead(stale("n2")), dead(spare())),
    ];
    if runs {
        let instead = ReplicaFacts { cause: Cause::None, ..rebuilding("n3") };
        states.extend([
            ("stale, its node dead; stands in for it, rebuilding", dead(stale("n2")), instead),
            (
                "stale, its node dead; stands in for it, in-sync",
                dead(stale("n2")),
                session("n3", true),
            ),
        ]);
    }
    let attached: &[&str] = if runs { &["n1"] } else { &[] };
    let rows = states.into_iter().map(|(name, second, third)| {
        let facts = [session("n1", true), second, third].map(known);
        let mut reported = concluded(account, attached, &[facts.to_vec()]);
        reported.mirrors[0].replicas[2].role = ReplicaRole::Spare;
        (name.to_owned(), reported)
    });
    let column = "Replica on n2; the spare on n3";
    Table { heading: heading.into(), column, rows: rows.collect() }
}

/// Two mirrors, each with replicas on n1 and n2.
fn striped() -> Table {
    let (up, down) = (session("n2", true), session("n2", false));
    let waits = Account::Suspended(Wait {
        why: "no in-sync replica of mirror 1 answers".into(),
        silent_mirror: Some(1),
    });
    let own = || session("n1", true);
    let serving = Account::Serving;
    let states = [
        ("it serves; in-sync, answers; in-sync, answers", &serving, [up.clone(), up.clone()]),
        ("it serves; in-sync, answers; stale", &serving, [up.clone(), stale("n2")]),
        ("it serves; neither answers", &serving, [down.clone(), down.clone()]),
        (
            "it serves; stale, its node dead; stale, its node dead",
            &serving,
            [dead(stale("n2")), dead(stale("n2"))],
        ),
        ("it serves; stale; rebuilding, answers", &serving, [stale("n2"), rebuilding("n2")]),
        ("it waits for mirror 1; in-sync, answers; in-sync, does not", &waits, [up, down]),
    ];
    let rows = states.into_iter().map(|(name, account, [first, second])| {
        let mut others = own();
        if matches!(account, Account::Suspended(_)) {
            others = stale("n1");
        }
        let mirrors = [vec![own(), first], vec![others, second]];
        (name.to_owned(), concluded(account, &["n1"], &mirrors))
    });
    Table {
        heading: "The primary on n1, of a stripe of two mirrors with replicas on n1 and n2".into(),
        column: "What it does; the replicas on n2 of mirrors 0 and 1",
        rows: rows.collect(),
    }
}

/// A volume that is attached on n1 and n3 at once.
fn shared() -> Table {
    let away = "a view has to change, and the coordinator does not answer node n3";
    let says = |node: &'static str, account: &Account, second: ReplicaFacts| {
        let mut status = concluded(account, &["n1", "n3"], &[vec![session("n1", true), second]]);
        status.suspended = matches!(account, Account::Suspended(_)).then(|| suspended(away));
        Reported { node: primary(node, true).node, status }
    };
    let unseen = ReplicaFacts { node_alive: None, ..session("n2", true) };
    let well = |node| says(node, &Account::Serving, session("n2", true));
    let misses = |node| says(node, &Account::Serving, session("n2", false));
    let waits = Account::Suspended(Wait { why: away.into(), silent_mirror: None });
    let leaves = session("n2", true).leaving(State::Stale, Cause::Late);
    let mut evicted = well("n3");
    evicted.status.generation -= 1;
    let alone = {
        let mut own = well("n1");
        own.status.primaries.truncate(1);
        own
    };
    let silent = || together::note_of_silent("n3", "n1");
    let evicts = Account::Suspended(Wait {
        why: "a view has to change, and the coordinator does not answer node n1".into(),
        silent_mirror: None,
    });
    let states = [
        ("both serve, and say the same", vec![well("n1"), well("n3")], vec![]),
        ("n1 serves; n3 does not answer", vec![well("n1")], vec![silent()]),
        (
            "n1 waits for the coordinator to evict n3, which does not answer",
            vec![says("n1", &evicts, unseen)],
            vec![silent()],
        ),
        ("both serve; n3 does not reach the replica on n2", vec![well("n1"), misses("n3")], vec![]),
        ("both serve; neither reaches the replica on n2", vec![misses("n1"), misses("n3")], vec![]),
        (
            "n1 serves; n3 waits for the coordinator",
            vec![well("n1"), says("n3", &waits, leaves)],
            vec![],
        ),
        ("n1 serves; n3 was evicted, and does not know it", vec![alone, evicted], vec![]),
    ];
    let rows = states.into_iter().map(|(name, reported, notes)| {
        let is_silent = !notes.is_empty();
        let mut reported = together::worst(reported, notes, 0).unwrap();
        let silent = reported.primaries.iter_mut().filter(|it| is_silent && it.node.name == "n3");
        silent.for_each(|primary| primary.alive = false);
        (name.to_owned(), reported)
    });
    Table {
        heading: "The primaries of a shared volume, attached on n1 and n3".into(),
        column: "What they say",
        rows: rows.collect(),
    }
}

fn suspended(why: &str) -> Suspended {
    serde_json::from_value(serde_json::json!({
        "waits_for": "coordinator", "mirror": null, "seconds": 3, "limit_seconds": null,
        "why": why, "do": "Wait",
    }))
    .unwrap()
}

//! Who may answer node n1, and what may be known of the second replica by whoever does.

use evenkeel_api::types::{NodeRef, StatusSource, WantedStatus};
use evenkeel_core::ReplicaState as State;
use evenkeel_core::view::Cause;
use evenkeel_node::disks::{Risk, Unserved};
use evenkeel_node::volumes::status::condition::{Account, ReplicaFacts, Wait};

/// When a replica saved what it knows, in seconds since 1970.
const SAVED: u64 = 1_700_000_000;

/// As nodes say it.
pub(super) const ABSENT: &str = "node n2 has not opened it: disk fast: No such file or directory (os error 2); it is tried again, at least every 15 s";
const NO_REPLICA: &str =
    "node n2 has no such replica: its file was deleted, or its disk erased or exchanged";
const DELETED: &str =
    "disk fast of node n2: there is no file at /fast/r any more: it was deleted or moved";
const READ_ONLY: &str = "its file system is read-only, as after an error of its disk (see the kernel's log): unmount it, check it, and mount it for writing";

/// Who answers, and what that says of the volume itself.
pub(super) struct Reporter {
    pub heading: String,
    pub source: StatusSource,
    pub account: Account,
    /// The node on which it is attached, by the view.
    pub attached: Option<&'static str>,
    pub wanted: Vec<WantedStatus>,
    /// What the replica on n1 is, which answers.
    pub first: State,
    /// For how many seconds its requests have waited, where that matters.
    pub waited: Option<u64>,
    /// Whether the coordinator answers node n1, which then knows of nodes' heartbeats.
    reaches_coordinator: bool,
}

impl Reporter {
    fn new(
        source: StatusSource,
        heading: String,
        attached: Option<&'static str>,
        account: Account,
    ) -> Self {
        let (wanted, first, waited) = (Vec::new(), State::InSync, None);
        let reaches_coordinator = source != StatusSource::Replica;
        Self { heading, source, account, attached, wanted, first, waited, reaches_coordinator }
    }

    /// What may be known of the second replica, and how that is called.
    pub fn seconds(&self) -> Vec<(&'static str, ReplicaFacts)> {
        let mut all = seconds(self.source);
        for (_, facts) in all.iter_mut().filter(|_| !self.reaches_coordinator) {
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

    fn replica(
        node: &str,
        heading: &str,
        attached: Option<&'static str>,
        stopped: Option<&str>,
    ) -> Self {
        let heading = format!(
            "The replica on {node}, while neither the coordinator nor a primary answers: {heading}"
        );
        let saved = Some(SAVED);
        let (reporter, stopped) = ("n1".into(), stopped.map(str::to_owned));
        let account = Account::Replica { node: node.to_owned(), saved, reporter, stopped };
        Self::new(StatusSource::Replica, heading, attached, account)
    }
}

/// Whoever may answer node n1, which is asked.
pub(super) fn reporters() -> Vec<Reporter> {
    let mut all = primaries();
    all.extend(coordinators());
    all.push(Reporter::replica("n1", "it was attached nowhere", None, None));
    all.push(Reporter::replica("n1", "it was attached on n3", Some("n3"), None));
    all.push(Reporter::replica("n2", "it was attached nowhere", None, None));
    all.push(Reporter::replica("n1", "it was stopped", None, Some("music")));
    all
}

/// It is meant to be attached on n3.
fn wanted(alive: Option<bool>, why: Option<&str>) -> WantedStatus {
    let node = NodeRef { id: "3".into(), name: "n3".into() };
    let (exports, why) = (Vec::new(), why.map(str::to_owned));
    WantedStatus { node, alive, device: true, nbd: false, nvme: false, exports, why }
}

fn primaries() -> Vec<Reporter> {
    let waits = |why: &str, silent_mirror| Wait { why: why.into(), silent_mirror };
    let coordinator_away = "a view has to change, and the coordinator does not answer node n1";
    let starting = "it is being attached: replicas are reached and the view is changed";
    let device = "its block device is being made on node n1; its primary serves";
    let no_data = "no in-sync replica of mirror 0 answers";
    vec![
        Reporter::primary("it serves", "n1", Account::Serving),
        Reporter::primary("it serves", "n3", Account::Serving),
        Reporter {
            reaches_coordinator: false,
            ..Reporter::primary(
                "it serves, and the coordinator does not answer",
                "n1",
                Account::Serving,
            )
        },
        Reporter::primary("it is being attached", "n1", Account::Starting(waits(starting, None))),
        Reporter::primary(
            "its block device is being made, since less than 30 s ago",
            "n1",
            Account::Starting(waits(device, None)),
        ),
        Reporter {
            waited: Some(31),
            ..Reporter::primary(
                "its block device is being made, since 31 s ago",
                "n1",
                Account::Starting(waits(device, None)),
            )
        },
        Reporter::primary(
            "it waits for the coordinator",
            "n1",
            Account::Suspended(waits(coordinator_away, None)),
        ),
        Reporter::primary(
            "only the return of a replica waits for the coordinator",
            "n1",
            Account::Awaiting(coordinator_away.into()),
        ),
        Reporter::primary(
            "it waits for an in-sync replica",
            "n1",
            Account::Suspended(waits(no_data, Some(0))),
        ),
    ]
}

fn coordinators() -> Vec<Reporter> {
    let silent = |alive| Account::Silent { node: "n3".into(), alive, reporter: "n1".into() };
    let forgotten = Account::Forgotten { node: "n1".into(), name: "music".into() };
    vec![
        Reporter::coordinator("attached nowhere", None, Account::Detached),
        Reporter::coordinator("stopped", None, Account::Stopped("music".into())),
        Reporter::coordinator("attached here, where nothing uses it", Some("n1"), forgotten),
        Reporter::coordinator("attached on a node that does not answer", Some("n3"), silent(true)),
        Reporter::coordinator("attached on a node that is dead", Some("n3"), silent(false)),
        Reporter {
            first: State::Stale,
            ..Reporter::coordinator(
                "attached on a node that is dead, and the replica on n1 is stale",
                Some("n3"),
                silent(false),
            )
        },
        Reporter::wanted("that is dead", Some(false), None),
        Reporter::wanted("that has not attached it", Some(true), None),
        Reporter::wanted("that says why it is not", Some(true), Some("no in-sync replica answers")),
        Reporter::wanted("that was not seen yet", None, None),
    ]
}

pub(super) fn replica(node: &str, state: State, cause: Cause) -> ReplicaFacts {
    ReplicaFacts {
        node: node.into(),
        disk: Some("fast".into()),
        state,
        cause,
        leaves: false,
        diverged: false,
        unserved: None,
        risk: None,
        connected: None,
        may_be_out_of_sync: false,
        node_alive: Some(true),
        answered: None,
        reporter: "n1".into(),
    }
}

/// What may be known of the second replica, by whoever answers.
fn seconds(source: StatusSource) -> Vec<(&'static str, ReplicaFacts)> {
    let of = |state, cause| replica("n2", state, cause);
    let away = || Unserved::Away(ABSENT.into());
    let gone = || Unserved::Gone(NO_REPLICA.into());
    let deleted = || Some(Risk::FileGone(DELETED.into()));
    let read_only = || Some(Risk::ReadOnly(format!("disk fast of node n2: {READ_ONLY}")));
    let both = || Some(Risk::FileGoneReadOnly(format!("{DELETED}; and {READ_ONLY}")));
    // Its node has let go of the disk, and could not serve it from there again.
    let both_closed = || {
        let tried = "it is tried again, at least every 15 s";
        Unserved::Gone(format!("{DELETED}; and {READ_ONLY}; {tried}"))
    };
    let answers = |facts| ReplicaFacts { answered: Some(true), ..facts };
    let known = |alive| ReplicaFacts { node_alive: alive, ..of(State::InSync, Cause::None) };
    let session = |up| ReplicaFacts { connected: Some(up), ..of(State::InSync, Cause::None) };
    // A primary says of each whether it has a session.
    let connected = (source == StatusSource::Primary).then_some(false);
    // Of its node the coordinator tells.
    let dead = |facts| ReplicaFacts { node_alive: Some(false), ..facts };
    let missing = [
        ("stale, just added", of(State::Stale, Cause::None)),
        ("stale", of(State::Stale, Cause::Disconnected)),
        ("stale, its node dead", dead(of(State::Stale, Cause::Disconnected))),
        ("faulty", of(State::Faulty, Cause::Medium)),
        (
            "faulty, its disk read-only",
            ReplicaFacts {
                unserved: Some(Unserved::Unusable(format!(
                    "disk fast of node n2: {READ_ONLY}; it is tried again, at least every 15 s"
                ))),
                ..of(State::Faulty, Cause::Medium)
            },
        ),
    ];
    let missing = missing.map(|(name, facts)| (name, ReplicaFacts { connected, ..facts }));
    let mut all = match source {
        StatusSource::Primary => vec![
            ("in-sync, answers", session(true)),
            ("in-sync, does not answer", session(false)),
            (
                "in-sync, answers, may lack the last writes",
                ReplicaFacts { may_be_out_of_sync: true, ..session(false) },
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
                "in-sync, answers, its file deleted and its disk read-only",
                ReplicaFacts { risk: both(), ..session(true) },
            ),
            (
                "in-sync, its file deleted and its disk read-only, closed for that",
                ReplicaFacts { unserved: Some(both_closed()), ..session(false) },
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
                "rebuilding, just added, does not answer",
                ReplicaFacts { connected: Some(false), ..of(State::Rebuilding, Cause::None) },
            ),
            (
                "diverged",
                ReplicaFacts {
                    diverged: true,
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
                "in-sync, node alive, its file deleted and open still, its disk read-only",
                ReplicaFacts { risk: both(), ..known(Some(true)) },
            ),
            (
                "in-sync, node alive, its file deleted and its disk read-only, closed for that",
                ReplicaFacts { unserved: Some(both_closed()), ..known(Some(true)) },
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
            ("in-sync, node not seen yet", known(None)),
            ("rebuilding, node alive", of(State::Rebuilding, Cause::Restarted)),
            ("rebuilding, just added, node dead", dead(of(State::Rebuilding, Cause::None))),
        ],
        StatusSource::Replica => vec![
            ("in-sync, its node answers", answers(known(None))),
            (
                "in-sync, its node does not answer",
                ReplicaFacts { answered: Some(false), ..known(None) },
            ),
            ("in-sync, its node was not asked", known(None)),
            (
                "in-sync, its node answers, its disk absent",
                // Only the disk itself would say what it is called.
                ReplicaFacts { disk: None, unserved: Some(away()), ..answers(known(None)) },
            ),
            (
                "in-sync, its node answers, its file deleted and open still",
                ReplicaFacts { risk: deleted(), ..answers(known(None)) },
            ),
            (
                "in-sync, its node answers, its file deleted and its disk read-only, closed for that",
                // No disk that is open has it.
                ReplicaFacts { disk: None, unserved: Some(both_closed()), ..answers(known(None)) },
            ),
            (
                "rebuilding, its node answers",
                ReplicaFacts {
                    node_alive: None,
                    ..answers(of(State::Rebuilding, Cause::Restarted))
                },
            ),
        ],
    };
    // Without the coordinator nobody says that a node is dead.
    let is_known = |name: &str| source != StatusSource::Replica || !name.contains("dead");
    all.extend(missing.into_iter().filter(|(name, _)| is_known(name)));
    all
}

use evenkeel_api::types::LostCopy;
use serde_json::json;

use super::*;

pub(super) const YES: Option<bool> = Some(true);
pub(super) const NO: Option<bool> = Some(false);

/// A replica of which these are the facts.
pub(super) fn replica(
    state: ReplicaState,
    connected: Option<bool>,
    node_alive: Option<bool>,
) -> ReplicaFacts {
    ReplicaFacts {
        node: "n3".into(),
        disk: Some("fast".into()),
        state,
        cause: Cause::None,
        leaves: false,
        diverged: false,
        unserved: None,
        risk: None,
        connected,
        may_be_out_of_sync: false,
        node_alive,
        answered: None,
        reporter: "n1".into(),
    }
}

pub(super) fn in_sync(connected: Option<bool>, node_alive: Option<bool>) -> ReplicaFacts {
    replica(ReplicaState::InSync, connected, node_alive)
}

pub(super) fn concluded(account: &Account, facts: &[ReplicaFacts]) -> VolumeStatus {
    let one = |facts: &ReplicaFacts| {
        json!({
            "id": "", "node": {"id": "", "name": facts.node}, "disk": facts.disk, "state": "in-sync",
        })
    };
    let replicas: Vec<_> = facts.iter().map(one).collect();
    let mut status = serde_json::from_value(json!({
        "id": "", "name": "music", "size": 4096, "block_size": 512, "chunk": 65536, "protocol": "C",
        "bitmap": "internal", "region_size": 1048576, "open_regions": 1024, "slots": 1,
        "rebuild": {"limit": "none"}, "lease_ms": 6000, "lease_margin_ms": 500,
        "no_data": {"policy": "error"}, "state": "detached", "health": "in-sync", "generation": 7,
        "history": "", "source": "coordinator", "primaries": [], "exports": [], "events": [],
        "mirrors": [{"index": 0, "summary": "", "replicas": replicas}],
    }))
    .unwrap();
    conclude(&mut status, account, &[facts.to_vec()]);
    status
}

pub(super) fn waits(why: &str) -> Account {
    Account::Suspended(Wait { why: why.into(), silent_mirror: None })
}

fn of_replica() -> Account {
    let saved = Some(1_700_000_000);
    Account::Replica { node: "n2".into(), saved, reporter: "n1".into(), stopped: None }
}

/// Letters, health and reason of a volume that nobody has attached.
fn detached(facts: &[ReplicaFacts]) -> (String, VolumeHealth, String) {
    let status = concluded(&Account::Detached, facts);
    (status.mirrors[0].summary.clone(), status.health, status.reason.unwrap_or_default())
}

#[test]
fn of_a_full_disk_it_is_said_what_to_do() {
    let full = ReplicaFacts { cause: Cause::NoSpace, ..replica(ReplicaState::Faulty, YES, YES) };
    let (summary, health, reason) = detached(&[in_sync(YES, YES), full]);
    assert_eq!((summary.as_str(), health), ("[UF]", VolumeHealth::Degraded));
    assert!(reason.contains("its disk was full: make room on it"), "{reason}");
}

#[test]
fn what_answers_is_as_the_view_has_it() {
    let good = ("[UU]".to_owned(), VolumeHealth::InSync, String::new());
    assert_eq!(detached(&[in_sync(YES, YES), in_sync(YES, NO)]), good);
    assert_eq!(detached(&[in_sync(None, YES), in_sync(None, YES)]), good);
}

#[test]
fn a_dead_node_is_not_called_in_sync() {
    let (summary, health, reason) = detached(&[in_sync(None, YES), in_sync(None, NO)]);
    assert_eq!((&*summary, health), ("[U?]", VolumeHealth::Unreachable));
    assert_eq!(reason, "replica n3:fast: it does not answer; it was in-sync when it last did");
    // The primary knows better than whoever hears that node's heartbeats.
    let (summary, health, _) = detached(&[in_sync(YES, YES), in_sync(NO, YES)]);
    assert_eq!((&*summary, health), ("[U?]", VolumeHealth::Unreachable));
}

#[test]
fn a_copy_that_was_lost_with_its_node_is_missed() {
    let lost = |node: &str| LostCopy { node: node.into(), at: 7 };
    let with = |lost: Vec<LostCopy>, second: ReplicaFacts| {
        let facts = vec![in_sync(YES, YES), second];
        let mut status = concluded(&Account::Detached, &facts);
        status.mirrors[0].lost = lost;
        conclude(&mut status, &Account::Detached, &[facts]);
        (status.mirrors[0].summary.clone(), status.health, status.reason.unwrap())
    };
    let (summary, health, reason) = with(vec![lost("n9")], in_sync(YES, YES));
    assert_eq!((&*summary, health), ("[UU-]", VolumeHealth::Degraded));
    assert_eq!(
        reason,
        "it lost a copy with node n9, which was removed from the cluster: `evenkeel volume change music --replicas 3` makes new ones if other nodes have disks with room; `--replicas 2` leaves it so"
    );
    // What is worse, or was there before, is said first.
    let (summary, health, reason) = with(vec![lost("n8"), lost("n9")], in_sync(None, NO));
    assert_eq!((&*summary, health), ("[U?--]", VolumeHealth::Unreachable));
    let (first, second) = reason.split_once("; it lost ").unwrap();
    assert!(first.starts_with("replica n3:fast: it does not answer"), "{reason}");
    assert!(second.starts_with("2 copies with nodes n8, n9, which were removed"), "{reason}");
    assert!(second.contains("--replicas 4` makes new ones"), "{reason}");
}

#[test]
fn no_more_copies_are_advised_than_there_are_nodes_for() {
    let reported = |others: &[usize]| {
        let facts = vec![in_sync(YES, YES), in_sync(YES, YES)];
        let mut status = concluded(&Account::Detached, &facts);
        status.mirrors = vec![status.mirrors.remove(0); others.len()];
        for (mirror, others) in status.mirrors.iter_mut().zip(others) {
            mirror.lost = vec![LostCopy { node: "n9".into(), at: 7 }];
            mirror.other_nodes = Some(*others);
        }
        conclude(&mut status, &Account::Detached, &vec![facts; others.len()]);
        status.reason.unwrap()
    };
    let change = "`evenkeel volume change music --replicas 3`";
    for enough in [&[1][..], &[1, 2]] {
        assert!(reported(enough).contains(&format!(": {change} makes new ones if")), "{enough:?}");
    }
    for too_few in [&[0][..], &[1, 0]] {
        let reason = reported(too_few);
        let ends = format!(
            ": no other nodes are left for new ones: join some, with a disk each, then {change}; `--replicas 2` leaves it so"
        );
        assert!(reason.ends_with(&ends), "{reason}");
    }
}

#[test]
fn a_mirror_with_more_copies_loses_none_by_what_is_advised_for_another() {
    let facts = || vec![in_sync(YES, YES), in_sync(YES, YES)];
    let mut status = concluded(&Account::Detached, &facts());
    let mut other = status.mirrors[0].clone();
    other.replicas.pop();
    other.lost = vec![LostCopy { node: "n9".into(), at: 7 }];
    status.mirrors.push(other);
    conclude(&mut status, &Account::Detached, &[facts(), vec![in_sync(YES, YES)]]);
    assert_eq!(
        status.reason.unwrap(),
        "it lost a copy with node n9, which was removed from the cluster: `evenkeel volume change music --replicas 2` makes new ones if other nodes have disks with room"
    );
}

#[test]
fn what_nobody_knows_is_called_unknown_unless_worse_is_known() {
    let (summary, health, reason) = detached(&[in_sync(None, None)]);
    assert_eq!((&*summary, health), ("[?]", VolumeHealth::Unknown));
    assert!(reason.contains("whether node n3 is there is not known"), "{reason}");
    // It may be gone, whatever the others are. Only one that is known to be is worse.
    for other in [ReplicaState::InSync, ReplicaState::Rebuilding, ReplicaState::Stale] {
        let half = [in_sync(None, None), replica(other, None, YES)];
        assert_eq!(detached(&half).1, VolumeHealth::Unknown, "{other:?}");
    }
    assert_eq!(detached(&[in_sync(None, None), in_sync(None, NO)]).1, VolumeHealth::Unreachable);
}

#[test]
fn a_replica_that_counts_as_missing_need_not_answer() {
    let stale = replica(ReplicaState::Stale, NO, NO);
    let spare = replica(ReplicaState::Spare, None, YES);
    let (summary, health, _) = detached(&[in_sync(YES, YES), stale, spare]);
    assert_eq!((&*summary, health), ("[U_S]", VolumeHealth::Degraded));
}

#[test]
fn a_replica_that_rebuilt_and_does_not_answer_is_said_not_to_answer() {
    let mut rebuilt = replica(ReplicaState::Rebuilding, NO, NO);
    rebuilt.cause = Cause::Restarted;
    let (summary, health, reason) = detached(&[in_sync(YES, YES), rebuilt]);
    assert_eq!((&*summary, health), ("[U?]", VolumeHealth::Unreachable));
    assert!(reason.contains("it does not answer; it was rebuilding"), "{reason}");
}

#[test]
fn a_replica_whose_file_is_gone_does_not_count_though_its_node_is_there() {
    let gone = Unserved::Gone("no disk of this node has it".into());
    let lost = ReplicaFacts { unserved: Some(gone), ..in_sync(None, YES) };
    let (summary, health, reason) = detached(&[in_sync(None, YES), lost]);
    assert_eq!((&*summary, health), ("[U?]", VolumeHealth::Unreachable));
    assert!(reason.contains("no disk of this node has it"), "{reason}");
}

fn file_gone(why: &str) -> Option<Risk> {
    Some(Risk::FileGone(why.into()))
}

#[test]
fn a_replica_that_cannot_be_written_is_degraded_though_nobody_writes_to_it() {
    let risk = Some(Risk::ReadOnly("disk fast of node n3: its file system is read-only".into()));
    for connected in [YES, None] {
        let read_only = ReplicaFacts { risk: risk.clone(), ..in_sync(connected, YES) };
        let (summary, health, reason) = detached(&[in_sync(YES, YES), read_only.clone()]);
        assert_eq!((summary.as_str(), health), ("[U!]", VolumeHealth::Degraded));
        assert!(reason.contains("can't be written: disk fast of node n3"), "{reason}");
        assert!(reason.contains("it leaves the mirror by itself"), "{reason}");
        // The others are of no help if they don't answer, or are no better.
        for other in [in_sync(NO, NO), read_only.clone()] {
            let status = concluded(&Account::Serving, &[read_only.clone(), other]);
            let reason = status.mirrors[0].replicas[0].reason.clone().unwrap();
            assert!(reason.contains("copy what it holds while it can be read"), "{reason}");
        }
    }
    // Who has left does not leave.
    for state in [ReplicaState::Faulty, ReplicaState::Stale, ReplicaState::Spare] {
        let left = ReplicaFacts { risk: risk.clone(), ..replica(state, YES, YES) };
        let (_, _, reason) = detached(&[in_sync(YES, YES), left]);
        assert!(reason.contains("can't be written") && !reason.contains("leaves"), "{reason}");
    }
    let silent = ReplicaFacts { risk, ..in_sync(None, NO) };
    let (letters, health, reason) = detached(&[silent]);
    assert_eq!((letters.as_str(), health), ("[?]", VolumeHealth::Unreachable));
    assert!(reason.contains("when node n3 last answered, it could not be written"), "{reason}");
}

#[test]
fn a_deleted_file_is_not_hidden_by_a_disk_that_cannot_be_written() {
    let why = "disk fast of node n3: there is no file at /fast/x any more; and its file system is read-only";
    let both = ReplicaFacts { risk: Some(Risk::FileGoneReadOnly(why.into())), ..in_sync(YES, YES) };
    let status = concluded(&Account::Serving, &[in_sync(YES, YES), both.clone()]);
    let replica = &status.mirrors[0].replicas[1];
    assert_eq!((replica.reach, replica.unwritable), (ReplicaReach::FileGone, true));
    let reason = replica.reason.as_ref().unwrap();
    assert!(reason.contains("gone when its node's daemon ends or lets go of its disk, and can't"));
    assert!(reason.contains(why) && reason.contains("`evenkeel replica replace`"), "{reason}");
    // Nothing else can be written: no advice that ends what can be read still.
    let alone = concluded(&Account::Serving, std::slice::from_ref(&both)).reason.unwrap();
    assert!(alone.contains("copy what it holds while it can be read, before"), "{alone}");
    // Nor can the volume be attached on the strength of it.
    let silent = Account::Silent { node: "n4".into(), alive: false, reporter: "n1".into() };
    let reason = concluded(&silent, &[both]).reason.unwrap();
    assert!(reason.contains("first one with an in-sync replica of mirror 0"), "{reason}");
}

#[test]
fn a_replica_that_is_gone_when_its_daemon_ends_is_degraded_though_it_answers() {
    let risk = file_gone("disk fast of node n3: there is no file at /fast/x any more");
    for connected in [YES, None] {
        let gone = ReplicaFacts { risk: risk.clone(), ..in_sync(connected, YES) };
        let (summary, health, reason) = detached(&[in_sync(YES, YES), gone]);
        assert_eq!((summary.as_str(), health), ("[U!]", VolumeHealth::Degraded));
        assert!(reason.contains("gone when its node's daemon ends: disk fast of node n3"));
        assert!(reason.contains("take another disk by `evenkeel replica replace`"), "{reason}");
        assert!(reason.contains("never a copy"), "a stale one would be put there: {reason}");
    }
    // Worse is known.
    let away = ReplicaFacts { risk: risk.clone(), ..in_sync(NO, YES) };
    assert_eq!(detached(&[away]).1, VolumeHealth::Unreachable);
    let spare = ReplicaFacts { risk: risk.clone(), ..replica(ReplicaState::Spare, None, YES) };
    let (summary, health, _) = detached(&[in_sync(YES, YES), spare]);
    assert_eq!((summary.as_str(), health), ("[U!]", VolumeHealth::Degraded));
    let faulty = ReplicaFacts { risk, ..replica(ReplicaState::Faulty, YES, YES) };
    let (summary, _, reason) = detached(&[in_sync(YES, YES), faulty]);
    assert_eq!(summary, "[UF]");
    assert!(!reason.contains("re-add"), "that would end with an error: {reason}");
}

#[test]
fn of_a_silent_node_it_is_not_said_that_its_replica_is_served_still() {
    let risk = file_gone("disk fast of node n3: there is no file at /fast/x any more");
    let then = "; when node n3 last answered, its file was gone: disk fast of node n3: there is no";
    for (state, connected, alive, letters) in [
        (ReplicaState::InSync, NO, YES, "[?]"),
        (ReplicaState::InSync, None, NO, "[?]"),
        (ReplicaState::InSync, None, None, "[?]"),
        (ReplicaState::Stale, NO, NO, "[_]"),
        (ReplicaState::Faulty, NO, NO, "[F]"),
    ] {
        let gone = ReplicaFacts { risk: risk.clone(), ..replica(state, connected, alive) };
        let status = concluded(&Account::Detached, &[gone]);
        assert_eq!(status.mirrors[0].summary, letters);
        let reason = status.reason.unwrap();
        assert!(reason.contains(then) && !reason.contains("move the same file"), "{reason}");
        assert!(!status.mirrors[0].replicas[0].lost, "{reason}");
    }
    let spare = ReplicaFacts { risk, ..replica(ReplicaState::Spare, None, NO) };
    let (letters, _, reason) = detached(&[spare]);
    assert_eq!(letters, "[?]");
    assert!(reason.contains(&then[2..]), "{reason}");
}

#[test]
fn without_the_coordinator_no_replica_is_said_to_return_as_soon_as_it_is_reached() {
    let stale = |alive| ReplicaFacts {
        cause: Cause::Disconnected,
        ..replica(ReplicaState::Stale, NO, alive)
    };
    let reason =
        |alive| concluded(&Account::Serving, &[in_sync(YES, YES), stale(alive)]).reason.unwrap();
    assert!(reason(YES).ends_with("it returns by itself as soon as it can be reached"));
    let alone = "it returns by itself as soon as it and the coordinator can be reached";
    assert!(reason(None).ends_with(alone), "{}", reason(None));
}

#[test]
fn a_replica_that_has_nobody_to_copy_from_is_not_said_to_wait_for_itself_alone() {
    let reason = |facts: &[ReplicaFacts]| {
        let status = concluded(&Account::Serving, facts);
        status.mirrors[0].replicas[1].reason.clone().unwrap()
    };
    let new = replica(ReplicaState::Stale, YES, YES);
    let alone = reason(&[in_sync(NO, NO), new.clone()]);
    let both = "as soon as it and an in-sync replica of its mirror can be reached";
    assert_eq!(alone, format!("it holds nothing yet; it rebuilds {both}"));
    let beside = reason(&[in_sync(YES, YES), new]);
    assert!(beside.ends_with("it rebuilds as soon as it can be reached"), "{beside}");
    let copies = replica(ReplicaState::Rebuilding, YES, YES);
    let alone = reason(&[in_sync(NO, NO), copies]);
    assert!(alone.ends_with("as soon as one that is in-sync answers"), "{alone}");
}

/// What requests wait for does not say who keeps them waiting.
#[test]
fn why_a_volume_waits_is_said_with_the_replicas_that_are_away() {
    let why = "a view has to change, and the coordinator does not answer node n1";
    let leaving = || in_sync(NO, None).leaving(ReplicaState::Stale, Cause::Disconnected);
    let reason = |facts: &[ReplicaFacts]| concluded(&waits(why), facts).reason.unwrap_or_default();
    assert_eq!(
        reason(&[in_sync(YES, YES), leaving()]),
        format!(
            "{why}; replica n3:fast: its connection was lost; it leaves the mirror as soon as the coordinator answers the primary's node"
        )
    );
    let at = |node: &str| ReplicaFacts { node: node.into(), ..leaving() };
    let all = reason(&[at("n3"), at("n4"), at("n4"), at("n5")]);
    assert!(all.ends_with("(and 3 more: n4:fast, n5:fast)"), "{all}");
    let many = reason(&["n1", "n2", "n3", "n4", "n5"].map(at));
    assert!(many.ends_with("(and 4 more: n2:fast, n3:fast, n4:fast, …)"), "{many}");
    assert!(reason(&[at("n3"), at("n3")]).ends_with("(and 1 more)"));
    // Of a replica that nothing is wrong with nothing is said.
    assert_eq!(reason(&[in_sync(YES, YES), in_sync(YES, YES)]), why);
}

/// Whoever believes that a spare is there does not look for another one.
#[test]
fn a_spare_that_is_known_to_be_away_is_missed() {
    let spare = |alive, answered| ReplicaFacts {
        answered,
        // No primary has a session with it.
        connected: NO,
        ..replica(ReplicaState::Spare, None, alive)
    };
    let why = "it does not answer; it was a spare when it last did";
    let absent = Unserved::Away("its disk is absent".into());
    for (facts, letter, health, says) in [
        (spare(YES, None), "S", VolumeHealth::InSync, ""),
        (spare(YES, YES), "S", VolumeHealth::InSync, ""),
        (spare(None, None), "S", VolumeHealth::InSync, ""),
        // All data is there: that is no more than degraded.
        (spare(NO, None), "?", VolumeHealth::Degraded, why),
        (spare(NO, NO), "?", VolumeHealth::Degraded, why),
        (spare(YES, NO), "?", VolumeHealth::Degraded, "it was a spare"),
        (
            ReplicaFacts { unserved: Some(absent), ..spare(YES, YES) },
            "?",
            VolumeHealth::Degraded,
            "its disk is absent",
        ),
    ] {
        let status = concluded(&Account::Serving, &[in_sync(YES, YES), facts]);
        let letters = format!("[U{letter}]");
        assert_eq!((&status.mirrors[0].summary, status.health), (&letters, health));
        assert!(status.is_in_sync(), "{says}");
        assert!(status.reason.unwrap_or_default().contains(says), "{says}");
    }
}

#[test]
fn a_spare_that_is_away_is_waited_for_only_with_what_has_data() {
    let away = replica(ReplicaState::Spare, NO, NO);
    let well = in_sync(YES, YES);
    let is_in_sync = |account: &Account, facts: &[ReplicaFacts]| {
        let mut status = concluded(account, facts);
        // What was concluded before counts no more.
        status.lacks_only_spares = true;
        conclude(&mut status, account, &[facts.to_vec()]);
        status.is_in_sync()
    };
    assert!(is_in_sync(&Account::Serving, &[well.clone(), away.clone()]));
    let gone = ReplicaFacts { risk: Some(Risk::FileGone("gone".into())), ..well.clone() };
    let bad = [ReplicaState::Stale, ReplicaState::Rebuilding, ReplicaState::Faulty];
    let bad = bad.map(|state| replica(state, YES, YES)).into_iter().chain([in_sync(NO, YES), gone]);
    for facts in bad {
        let all = [well.clone(), facts.clone(), away.clone()];
        assert!(!is_in_sync(&Account::Serving, &all), "{facts:?}");
    }
    assert!(!is_in_sync(&of_replica(), &[well, away]), "nobody says that it is so now");
}

#[test]
fn of_a_node_that_two_see_differently_it_is_said_who_does() {
    let unseen = ReplicaFacts { answered: YES, ..in_sync(None, NO) };
    let (summary, health, reason) = detached(&[in_sync(None, YES), unseen]);
    assert_eq!((&*summary, health), ("[UU]", VolumeHealth::InSync));
    assert!(reason.contains("the coordinator does not hear node n3, and node n1 does"), "{reason}");
    let out_of_reach = ReplicaFacts { answered: NO, ..in_sync(None, YES) };
    let (summary, health, reason) = detached(&[in_sync(None, YES), out_of_reach]);
    assert_eq!((&*summary, health), ("[U?]", VolumeHealth::Unknown));
    assert!(
        reason.contains("n3:fast: node n3 does not answer node n1; the coordinator has heard it"),
        "{reason}"
    );
    // A primary has tried itself.
    let connected = ReplicaFacts { answered: None, ..in_sync(YES, NO) };
    assert_eq!(detached(&[connected]).2, "");
}

/// Its cause is that of the first event; that its node is away now is said first.
#[test]
fn of_a_replica_that_left_it_is_said_that_its_node_is_dead_or_silent_now() {
    for state in [ReplicaState::Stale, ReplicaState::Faulty] {
        let left = ReplicaFacts { cause: Cause::Late, ..replica(state, None, NO) };
        let reason = detached(std::slice::from_ref(&left)).2;
        assert!(reason.contains("n3:fast: node n3 counts as dead now; it "), "{reason}");
        assert!(reason.contains("left a request unanswered"), "the cause is kept: {reason}");
        let silent = ReplicaFacts { answered: NO, node_alive: YES, ..left.clone() };
        let reason = detached(&[silent]).2;
        assert!(reason.contains("n3:fast: node n3 does not answer node n1; "), "{reason}");
        assert!(reason.contains("left a request unanswered"), "the cause is kept: {reason}");
        // Who has reached it itself knows better, and who has not been told says nothing.
        for facts in [
            ReplicaFacts { answered: YES, ..left.clone() },
            ReplicaFacts { node_alive: None, ..left.clone() },
            ReplicaFacts { node_alive: YES, ..left },
        ] {
            let reason = detached(std::slice::from_ref(&facts)).2;
            assert!(!reason.contains("as dead"), "{reason}");
        }
    }
}

#[test]
fn what_returns_by_itself_and_when_depends_on_who_has_it_attached() {
    let away = Some(Unserved::Away("disk d of node n3: it is not there".into()));
    let stale = ReplicaFacts { unserved: away.clone(), ..replica(ReplicaState::Stale, None, YES) };
    let reason = detached(std::slice::from_ref(&stale)).2;
    assert!(reason.contains("when it is served and the volume is attached"), "{reason}");
    let status = concluded(&Account::Serving, &[ReplicaFacts { connected: NO, ..stale }]);
    let reason = status.reason.unwrap();
    assert!(reason.ends_with("it returns by itself when it is served"), "{reason}");
    let faulty = ReplicaFacts { unserved: away, ..replica(ReplicaState::Faulty, None, YES) };
    let reason = detached(&[faulty]).2;
    assert!(reason.contains("replica re-add") && !reason.contains("by itself"), "{reason}");
}

#[test]
fn what_the_volume_itself_lacks_comes_before_what_a_replica_lacks() {
    let facts = [in_sync(YES, YES), in_sync(NO, NO)];
    let status = concluded(&waits("the coordinator is away"), &facts);
    let why = "the coordinator is away; replica n3:fast: it does not answer; it was in-sync when it last did";
    assert_eq!(status.reason.as_deref(), Some(why));
    assert_eq!(status.state, VolumeState::Suspended);
    assert_eq!(status.health, VolumeHealth::Unreachable);
}

#[test]
fn a_replica_is_not_in_sync_that_the_primary_waits_for() {
    let wait =
        Wait { why: "no in-sync replica of mirror 0 answers".into(), silent_mirror: Some(0) };
    let stale = replica(ReplicaState::Stale, YES, YES);
    for account in [Account::Suspended(wait.clone()), Account::Starting(wait)] {
        // Its session is up, and it leaves requests unanswered.
        let status = concluded(&account, &[in_sync(YES, YES), in_sync(None, YES), stale.clone()]);
        assert_eq!(status.mirrors[0].summary, "[??_]");
        assert_eq!(status.health, VolumeHealth::Unreachable);
    }
}

#[test]
fn who_waits_for_the_coordinator_only_to_welcome_somebody_serves() {
    let rebuilt = replica(ReplicaState::Rebuilding, YES, YES);
    let goes_on = |facts: &[ReplicaFacts], oldest: Option<u64>| {
        let mut status = concluded(&Account::Serving, facts);
        status.mirrors[0].replicas[0].oldest_ms = oldest;
        super::goes_on(&status.mirrors, &[facts.to_vec()])
    };
    let stale = replica(ReplicaState::Stale, NO, NO);
    assert!(goes_on(&[in_sync(YES, YES), rebuilt.clone(), stale], Some(20)));
    // Each of these is one for whom requests wait.
    assert!(!goes_on(&[in_sync(YES, YES), in_sync(NO, YES)], None));
    let leaves = in_sync(YES, YES).leaving(ReplicaState::Stale, Cause::Late);
    assert!(!goes_on(&[in_sync(YES, YES), leaves], None));
    assert!(!goes_on(&[in_sync(YES, YES), rebuilt.clone()], Some(1000)));
    let facts = [in_sync(YES, YES), rebuilt];
    let status = concluded(&Account::Awaiting("a view has to change".into()), &facts);
    assert_eq!((status.state, status.health), (VolumeState::Serving, VolumeHealth::Rebuilding));
    let why = "a view has to change; requests go on meanwhile; replica n3:fast: it is new, and copies what the others hold";
    assert_eq!(status.reason.as_deref(), Some(why));
}

#[test]
fn what_a_silent_replica_holds_that_is_to_leave_is_not_known() {
    for cause in [Cause::Late, Cause::Disconnected, Cause::Unreachable] {
        let leaves = in_sync(YES, YES).leaving(ReplicaState::Stale, cause);
        let status = concluded(&waits("it waits"), &[in_sync(YES, YES), leaves]);
        assert_eq!(status.mirrors[0].summary, "[U?]");
        let why = status.mirrors[0].replicas[1].reason.clone().unwrap();
        assert!(
            why.ends_with(
                "it leaves the mirror as soon as the coordinator answers the primary's node"
            ),
            "{why}"
        );
    }
    let failed = in_sync(YES, YES).leaving(ReplicaState::Faulty, Cause::Medium);
    assert_eq!(concluded(&waits("it waits"), &[failed]).mirrors[0].summary, "[F]");
}

#[test]
fn of_what_a_replica_knew_once_only_what_was_bad_is_a_health() {
    let answers = |state| ReplicaFacts { answered: YES, ..replica(state, None, None) };
    let unseen = ReplicaFacts { answered: NO, ..in_sync(None, None) };
    for (facts, letters, health) in [
        (answers(ReplicaState::InSync), "[UU]", VolumeHealth::Unknown),
        (answers(ReplicaState::Rebuilding), "[UR]", VolumeHealth::Unknown),
        (unseen.clone(), "[U?]", VolumeHealth::Unknown),
        (answers(ReplicaState::Stale), "[U_]", VolumeHealth::Degraded),
        (answers(ReplicaState::Faulty), "[UF]", VolumeHealth::Degraded),
    ] {
        let status = concluded(&of_replica(), &[answers(ReplicaState::InSync), facts]);
        assert_eq!((&*status.mirrors[0].summary, status.health), (letters, health));
        assert_eq!(status.state, VolumeState::Unknown);
    }
    // That nobody knows of another one makes it no better.
    let status = concluded(&of_replica(), &[unseen, answers(ReplicaState::Faulty)]);
    assert_eq!((&*status.mirrors[0].summary, status.health), ("[?F]", VolumeHealth::Degraded));
}

#[test]
fn it_is_said_whose_view_is_told_while_the_coordinator_is_silent() {
    let status = concluded(&of_replica(), &[in_sync(None, YES)]);
    let why = "the coordinator does not answer node n1: this, with the name, is what a replica on node n2 knew last, saved at 2023-11-14 22:13:20 UTC; no node that answers knows more";
    assert_eq!(status.reason.as_deref(), Some(why));
}

#[test]
fn where_a_volume_is_wanted_is_said_beside_what_a_replica_lacks() {
    let mut status = concluded(&Account::Detached, &[in_sync(None, YES), in_sync(None, NO)]);
    let reason = status.reason.take().unwrap();
    status.wanted_on = serde_json::from_value(json!([{
        "node": {"id": "", "name": "n2"}, "alive": false, "device": true, "nbd": false, "why": null,
    }]))
    .unwrap();
    conclude(&mut status, &Account::Detached, &[vec![in_sync(None, YES), in_sync(None, NO)]]);
    let wanted = "it is wanted on node n2, which does not answer";
    assert_eq!(status.reason, Some(format!("{wanted}; {reason}")));
    status.wanted_on[0].why = Some("its device is in use".into());
    let well = vec![in_sync(YES, YES), in_sync(YES, YES)];
    conclude(&mut status, &waits("it waits"), &[well]);
    let why = "it waits; it is wanted on node n2, which has not attached it: its device is in use";
    assert_eq!(status.reason.as_deref(), Some(why));
}

#[test]
fn a_rebuild_that_stands_still_copies_nothing() {
    let fact =
        ReplicaFacts { cause: Cause::Disconnected, ..replica(ReplicaState::Rebuilding, YES, YES) };
    let facts = [in_sync(YES, YES), fact];
    let mut status = concluded(&Account::Serving, &facts);
    let copies = "replica n3:fast: it copies what it lacks: its connection was lost";
    assert_eq!(status.reason.as_deref(), Some(copies));
    status.mirrors[0].replicas[1].rebuild = serde_json::from_value(json!({
        "done": 0, "total": 4096, "counting": false, "copied": 0, "rate": 0, "measuring": true,
        "waits_for": "an operator paused it",
    }))
    .unwrap();
    conclude(&mut status, &Account::Serving, &[facts.to_vec()]);
    let waits = "replica n3:fast: it lacks writes: its connection was lost; its rebuild waits: an operator paused it";
    assert_eq!(status.reason.as_deref(), Some(waits));
}

fn wanted_on_n2() -> Vec<WantedStatus> {
    serde_json::from_value(json!([{
        "node": {"id": "2", "name": "n2"}, "alive": true, "device": true, "nbd": false,
        "why": "the daemon was restarted",
    }]))
    .unwrap()
}

#[test]
fn nobody_is_sent_to_attach_what_a_node_attaches_by_itself() {
    let forgotten = Account::Forgotten { node: "n2".into(), name: "music".into() };
    let facts = [in_sync(None, YES)];
    let mut status = concluded(&forgotten, &facts);
    assert!(status.not_given_up && !concluded(&Account::Detached, &facts).not_given_up);
    assert!(status.reason.take().unwrap().contains("`evenkeel detach music --node n2` does"));
    status.wanted_on = wanted_on_n2();
    conclude(&mut status, &forgotten, &[facts.to_vec()]);
    let why = "it is wanted on node n2, which has not attached it: the daemon was restarted";
    assert_eq!(status.reason.as_deref(), Some(why));
    assert_eq!(status.state, VolumeState::Unreachable);
}

#[test]
fn what_an_attached_volume_is_not_shown_by_is_told() {
    let facts = [in_sync(YES, YES)];
    let mut status = concluded(&Account::Serving, &facts);
    status.wanted_on = wanted_on_n2();
    status.source = StatusSource::Primary;
    let attached = json!([{"node": {"id": "2", "name": "n2"}, "alive": true, "here": true}]);
    status.primaries = serde_json::from_value(attached).unwrap();
    conclude(&mut status, &Account::Serving, &[facts.to_vec()]);
    let why = "on node n2 its block device could not be made yet: the daemon was restarted";
    assert_eq!(status.reason.as_deref(), Some(why));
}

#[test]
fn that_a_dead_primary_is_silent_is_said_once() {
    let silent = Account::Silent { node: "n2".into(), alive: false, reporter: "n1".into() };
    let facts = [in_sync(None, YES)];
    let mut status = concluded(&silent, &facts);
    status.primaries = serde_json::from_value(json!([
        {"node": {"id": "2", "name": "n2"}, "alive": false, "here": false},
    ]))
    .unwrap();
    status.wanted_on = wanted_on_n2();
    (status.wanted_on[0].alive, status.wanted_on[0].why) = (Some(false), None);
    conclude(&mut status, &silent, &[facts.to_vec()]);
    let why = "node n2, on which it was attached, counts as dead, for the coordinator does not hear it: start that node or repair its network, or attach the volume on another one";
    assert_eq!(status.reason.as_deref(), Some(why));
}

#[test]
fn an_attach_elsewhere_is_advised_only_where_an_in_sync_replica_answers() {
    let silent = Account::Silent { node: "n2".into(), alive: false, reporter: "n1".into() };
    let reason = |facts: &[ReplicaFacts]| concluded(&silent, facts).reason.unwrap();
    let stale = replica(ReplicaState::Stale, None, YES);
    let rebuilt = replica(ReplicaState::Rebuilding, None, YES);
    for of_n3 in [in_sync(None, NO), in_sync(None, None), rebuilt] {
        let why = reason(&[of_n3.clone(), stale.clone()]);
        assert!(!why.contains("attach the volume"), "{of_n3:?}: {why}");
        assert!(why.contains("start that node or repair its network, or first one with an in-sync replica of mirror 0, of which none is known to answer"), "{why}");
        let why = reason(&[of_n3, in_sync(None, YES)]);
        assert!(why.contains("or attach the volume on another one"), "{why}");
    }
}

#[test]
fn a_replica_that_rebuilt_copies_nothing_while_the_volume_is_attached_nowhere() {
    let rebuilt =
        |c| ReplicaFacts { cause: Cause::Restarted, ..replica(ReplicaState::Rebuilding, c, YES) };
    let reason = detached(&[in_sync(None, YES), rebuilt(None)]).2;
    assert!(reason.ends_with("its rebuild goes on when the volume is attached"), "{reason}");
    assert!(!reason.contains("copies"), "{reason}");
    // A primary that does not answer may go on with it.
    let silent = Account::Silent { node: "n2".into(), alive: true, reporter: "n1".into() };
    let reported = |account: &Account, c| {
        let facts = [in_sync(YES, YES), rebuilt(c)];
        concluded(account, &facts).mirrors[0].replicas[1].reason.clone().unwrap()
    };
    assert!(
        reported(&silent, None).starts_with("it copies what it lacks while the volume is attached")
    );
    assert_eq!(reported(&Account::Serving, YES), "it copies what it lacks: its node restarted");
}

#[test]
fn a_replica_of_a_stopped_volume_is_not_said_to_return_by_itself() {
    let why = "disk d of node n3: it is closed, as its volume was stopped".to_owned();
    let closed = ReplicaFacts { unserved: Some(Unserved::Stopped(why)), ..in_sync(None, YES) };
    let status = concluded(&Account::Detached, &[closed]);
    let reported = status.mirrors[0].replicas[0].reason.clone().unwrap();
    assert_eq!(
        reported,
        "it does not answer: disk d of node n3: it is closed, as its volume was stopped; it is opened when the volume is assembled: `evenkeel volume assemble`"
    );
    assert!(!status.mirrors[0].replicas[0].lost);
}

/// Whoever repairs the disk before the volume is assembled has to know of it.
#[test]
fn why_a_replica_of_a_stopped_volume_is_bad_is_said_beside_that_it_is_stopped() {
    let why = "disk d of node n3: its file system is read-only".to_owned();
    let bad = ReplicaFacts { unserved: Some(Unserved::Unusable(why)), ..in_sync(None, YES) };
    let stopped = Account::Stopped("music".into());
    let status = concluded(&stopped, &[in_sync(None, YES), bad]);
    assert_eq!(status.health, VolumeHealth::Unreachable);
    let reason = status.reason.unwrap();
    assert!(reason.starts_with("it is stopped until `evenkeel volume assemble music`"), "{reason}");
    assert!(reason.contains("disk d of node n3: its file system is read-only"), "{reason}");
}

#[test]
fn after_the_death_of_a_primary_in_sync_replicas_are_said_to_differ_perhaps() {
    let silent = Account::Silent { node: "n2".into(), alive: false, reporter: "n1".into() };
    let faulty = replica(ReplicaState::Faulty, None, YES);
    let both = [in_sync(None, YES), in_sync(None, YES), faulty];
    let reason = concluded(&silent, &both).reason.unwrap();
    let differ = "in-sync replicas may differ in up to 1024 regions of 1M, where it wrote last";
    assert!(reason.contains(differ), "{reason}");
    assert!(reason.contains("it failed"), "{reason}");
    let reason = concluded(&silent, &both[1..]).reason.unwrap();
    assert!(!reason.contains("may differ"), "one is equal to itself: {reason}");
    for account in [Account::Detached, Account::Serving, Account::Stopped("music".into())] {
        let reason = concluded(&account, &both).reason.unwrap_or_default();
        assert!(!reason.contains("may differ"), "{reason}");
    }
}

#[test]
fn what_a_replica_knew_to_be_bad_is_said_though_nothing_is_known_of_now() {
    let faulty = replica(ReplicaState::Faulty, None, None);
    let status = concluded(&of_replica(), &[in_sync(None, None), in_sync(None, None), faulty]);
    assert_eq!((status.health, &*status.mirrors[0].summary), (VolumeHealth::Degraded, "[??F]"));
    assert!(status.reason.unwrap().contains("; replica n3:fast: it failed"));
}

#[test]
fn what_a_verify_found_counts_while_nothing_worse_is_known() {
    let found = json!({"at": 1, "different": 0, "damaged": 4096, "unreadable": 0, "repaired": 0});
    let reported = |facts: &[ReplicaFacts]| {
        let mut status = concluded(&Account::Detached, facts);
        status.mirrors[0].replicas[0].found_wrong = serde_json::from_value(found.clone()).unwrap();
        conclude(&mut status, &Account::Detached, &[facts.to_vec()]);
        (status.health, status.reason.unwrap_or_default())
    };
    let (health, reason) = reported(&[in_sync(None, YES)]);
    assert_eq!(health, VolumeHealth::Degraded);
    assert!(reason.contains("4K contradict their checksums: write these blocks again"), "{reason}");
    let (health, reason) = reported(&[in_sync(None, YES), in_sync(None, YES)]);
    assert_eq!(health, VolumeHealth::Degraded);
    assert!(reason.ends_with("repair them by `evenkeel volume verify music --repair`"), "{reason}");
    let (health, reason) = reported(&[in_sync(None, NO), in_sync(None, YES)]);
    assert_eq!(health, VolumeHealth::Unreachable);
    assert!(!reason.contains("checksums"), "{reason}");
}

/// Every replica of which anything can be known.
fn all() -> Vec<ReplicaFacts> {
    let states = [
        ReplicaState::InSync,
        ReplicaState::Rebuilding,
        ReplicaState::Stale,
        ReplicaState::Faulty,
        ReplicaState::Spare,
    ];
    let unserved = [None, Some(Unserved::Away("its disk is absent".into()))];
    let mut all = Vec::new();
    for (state, connected) in states.iter().flat_map(|s| [YES, NO, None].map(|c| (*s, c))) {
        for (unserved, alive) in unserved.iter().flat_map(|u| [YES, NO, None].map(|a| (u, a))) {
            for bits in 0..48 {
                let (leaves, diverged) = (bits & 1 != 0, bits & 2 != 0);
                let why = "so it is".to_owned();
                let risks = [
                    None,
                    Some(Risk::FileGone(why.clone())),
                    Some(Risk::ReadOnly(why.clone())),
                    Some(Risk::FileGoneReadOnly(why)),
                ];
                let risk = risks[bits / 12].clone();
                let unserved = unserved.clone();
                all.push(ReplicaFacts {
                    leaves,
                    diverged,
                    unserved,
                    risk,
                    answered: [None, YES, NO][bits % 12 / 4],
                    ..replica(state, connected, alive)
                });
            }
        }
    }
    all
}

#[test]
fn nothing_is_called_in_sync_that_nobody_has_said_to_be_there() {
    for facts in all() {
        let (letters, health, reason) = detached(std::slice::from_ref(&facts));
        let answers = match facts.connected {
            None => facts.answered.or(facts.node_alive) == YES && facts.unserved.is_none(),
            Some(connected) => connected,
        } && !facts.leaves;
        if facts.state == ReplicaState::InSync {
            let stays = answers && facts.risk.is_none();
            assert_eq!(letters == "[U]", stays, "{facts:?}");
            assert_eq!(health == VolumeHealth::InSync, stays, "{facts:?}");
        }
        let is_good = matches!(facts.state, ReplicaState::InSync | ReplicaState::Spare);
        assert!(health != VolumeHealth::InSync || is_good, "{facts:?}");
        assert!(health == VolumeHealth::InSync || !reason.is_empty(), "{facts:?}");
    }
}

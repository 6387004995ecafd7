//! Stories of a cluster, step by step. Each shows a rule or an invariant of docs/rules.md at work.

use std::time::Duration;

use crate::cluster::{Cluster, SIZE, replica};
use evenkeel_core::primary::{Command, EndReason, Waiting};
use evenkeel_core::view::{Cause, Change};
use evenkeel_core::*;

const SECOND: Duration = Duration::from_secs(1);
const A_WHILE: Duration = Duration::from_secs(30);

#[test]
fn a_write_reaches_every_replica_before_it_is_acknowledged() {
    let mut cluster = Cluster::new(1, 3, Protocol::C);
    let primary = cluster.attach(0);
    let write = cluster.write(primary, 4096, 7, 8192);
    assert!(cluster.is_acknowledged(write));
    for r in 0..3 {
        assert_eq!(cluster.data(replica(0, r))[4096..4096 + 8192], [7; 8192]);
    }
    assert_eq!(cluster.read(primary, 4096, 512), Some(vec![7; 512]));
}

#[test]
fn a_stripe_spreads_a_write_and_reads_it_back_in_one_piece() {
    let mut cluster = Cluster::new(2, 2, Protocol::C);
    let primary = cluster.attach(9);
    let write = cluster.write(primary, 65536 - 512, 5, 3 << 20);
    assert!(cluster.is_acknowledged(write));
    assert_eq!(cluster.read(primary, 65536 - 512, 3 << 20), Some(vec![5; 3 << 20]));
    let zero = Operation::Zero { offset: 0, length: 1 << 20, unmap: true, durable: false };
    let zero = cluster.request(primary, zero);
    assert!(cluster.is_acknowledged(zero));
    assert_eq!(cluster.read(primary, (1 << 20) - 512, 1024), {
        Some([vec![0; 512], vec![5; 512]].concat())
    });
}

#[test]
fn requests_outside_the_volume_are_refused() {
    let mut cluster = Cluster::new(1, 1, Protocol::C);
    let primary = cluster.attach(0);
    for (offset, length) in [(SIZE, 512), (SIZE - 512, 1024), (1, 512), (0, 100), (0, 0)] {
        let read = cluster.request(primary, Operation::Read { offset, length });
        assert!(matches!(cluster.replies[&read], Err(RequestError::Invalid)), "{offset}");
    }
}

#[test]
fn a_killed_replica_leaves_returns_and_rebuilds() {
    let mut cluster = Cluster::new(1, 3, Protocol::C);
    let primary = cluster.attach(0);
    cluster.write(primary, 0, 1, 4096);
    cluster.kill(replica(0, 2));
    let write = cluster.write(primary, 4096, 2, 4096);
    assert!(cluster.is_acknowledged(write));
    assert_eq!(cluster.state(replica(0, 2)), ReplicaState::Stale);
    cluster.restart(replica(0, 2), true);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 2)), ReplicaState::InSync);
    assert!(cluster.data(replica(0, 2)) == cluster.data(replica(0, 0)));
}

#[test]
fn a_short_interruption_costs_nothing() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    let before = cluster.newest.generation;
    cluster.frozen.insert(replica(0, 1));
    let write = cluster.write(primary, 0, 1, 4096);
    cluster.cut_links(primary, replica(0, 1));
    assert!(!cluster.is_acknowledged(write));
    cluster.thaw(replica(0, 1));
    assert!(cluster.is_acknowledged(write), "resent in the new session");
    assert_eq!(cluster.newest.generation, before);
}

#[test]
fn a_frozen_replica_leaves_after_the_deadline() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    cluster.frozen.insert(replica(0, 1));
    let write = cluster.write(primary, 0, 1, 4096);
    cluster.pass(4 * SECOND);
    assert!(!cluster.is_acknowledged(write));
    cluster.pass(2 * SECOND);
    assert!(cluster.is_acknowledged(write));
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::Stale);
    cluster.thaw(replica(0, 1));
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::InSync);
}

#[test]
fn a_replica_whose_disk_fails_waits_for_a_command() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    cluster.failing.insert(replica(0, 1));
    let write = cluster.write(primary, 0, 1, 4096);
    assert!(cluster.is_acknowledged(write));
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::Faulty);
    cluster.failing.clear();
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::Faulty);
    let command = cluster.command(primary, Command::ReAdd(replica(0, 1)));
    assert_eq!(cluster.commands[&command], Ok(()));
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::InSync);
}

/// Nobody writes, so no operation says it.
#[test]
fn a_replica_whose_disk_cannot_be_written_leaves_as_it_would_with_the_next_write() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    let failed = cluster.command(primary, Command::FailDisk(replica(0, 1)));
    assert_eq!(cluster.commands[&failed], Ok(()));
    let (_, record) = cluster.newest.replica(replica(0, 1)).unwrap();
    assert_eq!((record.state, record.cause), (ReplicaState::Faulty, Cause::Medium));
    let last = cluster.command(primary, Command::FailDisk(replica(0, 0)));
    assert!(cluster.commands[&last].is_err(), "nobody else could be read");
    assert_eq!(cluster.state(replica(0, 0)), ReplicaState::InSync);
}

#[test]
fn the_last_in_sync_replica_is_not_dropped_and_its_error_is_told() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    cluster.kill(replica(0, 1));
    cluster.write(primary, 0, 1, 4096);
    cluster.failing.insert(replica(0, 0));
    let write = cluster.write(primary, 0, 2, 4096);
    assert!(matches!(cluster.replies[&write], Err(RequestError::Medium)));
    let fail = cluster.command(primary, Command::Fail(replica(0, 0)));
    assert!(cluster.commands[&fail].is_err());
    assert_eq!(cluster.state(replica(0, 0)), ReplicaState::InSync);
}

#[test]
fn requests_wait_for_the_last_replica_and_then_fail() {
    let mut cluster = Cluster::new(1, 1, Protocol::C);
    let primary = cluster.attach(9);
    cluster.write(primary, 0, 1, 4096);
    cluster.kill(replica(0, 0));
    let write = cluster.write(primary, 4096, 2, 4096);
    cluster.pass(A_WHILE);
    assert!(!cluster.replies.contains_key(&write));
    cluster.restart(replica(0, 0), false);
    cluster.pass(10 * SECOND);
    assert!(cluster.is_acknowledged(write), "the process restarted, nothing is lost");
    cluster.kill(replica(0, 0));
    let write = cluster.write(primary, 8192, 3, 4096);
    cluster.pass(130 * SECOND);
    assert!(matches!(cluster.replies[&write], Err(RequestError::NoData)));
}

/// Both replicas die. The one that leaves is said to leave; the other one, which is the last, is
/// never, though the primary waits in vain for the first view without the first one to be adopted.
#[test]
fn the_last_replica_is_never_said_to_leave() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(9);
    cluster.write(primary, 0, 1, 4096);
    let (first, last) = (replica(0, 0), replica(0, 1));
    cluster.kill(first);
    cluster.write(primary, 4096, 2, 4096);
    let mut waited = Duration::ZERO;
    while cluster.leaving(primary, first).is_none() && cluster.state(first) == ReplicaState::InSync
    {
        cluster.pass(SECOND / 10);
        waited += SECOND / 10;
        assert!(waited < A_WHILE, "nobody leaves");
    }
    cluster.kill(last);
    cluster.write(primary, 8192, 3, 4096);
    for _ in 0..600 {
        cluster.pass(SECOND / 10);
        assert_eq!(cluster.leaving(primary, last), None);
    }
    assert_eq!(cluster.state(first), ReplicaState::Stale);
    assert_eq!(cluster.state(last), ReplicaState::InSync);
}

#[test]
fn a_machine_that_lost_unflushed_writes_ends_its_primary() {
    for flushed in [false, true] {
        let mut cluster = Cluster::new(1, 1, Protocol::C);
        let primary = cluster.attach(9);
        cluster.write(primary, 0, 1, 4096);
        if flushed {
            let flush = cluster.request(primary, Operation::Flush);
            assert!(cluster.is_acknowledged(flush));
        }
        cluster.kill(replica(0, 0));
        cluster.restart(replica(0, 0), true);
        cluster.pass(A_WHILE);
        let lost = cluster.ended.get(&primary) == Some(&EndReason::LostWrites);
        assert_eq!(lost, !flushed);
    }
}

#[test]
fn a_takeover_fences_the_old_primary() {
    let mut cluster = Cluster::new(1, 3, Protocol::C);
    let old = cluster.attach(0);
    cluster.write(old, 0, 1, 4096);
    cluster.cut_off.insert(old);
    let new = cluster.attach(1);
    let write = cluster.write(new, 0, 2, 4096);
    cluster.pass(5 * SECOND);
    assert!(!cluster.is_acknowledged(write), "the old primary may still answer reads");
    cluster.pass(5 * SECOND);
    assert!(cluster.is_acknowledged(write));
    let stale = cluster.read(old, 0, 512);
    assert_eq!(stale, None, "the old primary's lease is over");
    cluster.cut_off.clear();
    cluster.pass(A_WHILE);
    assert_eq!(cluster.ended.get(&old), Some(&EndReason::Fenced));
    assert_eq!(cluster.read(new, 0, 512), Some(vec![2; 512]));
    for r in 0..3 {
        assert_eq!(cluster.state(replica(0, r)), ReplicaState::InSync);
    }
}

#[test]
fn a_live_old_primary_gives_way_at_once() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let old = cluster.attach(0);
    let new = cluster.attach(1);
    cluster.pass(SECOND);
    assert_eq!(cluster.ended.get(&old), Some(&EndReason::Fenced));
    let write = cluster.write(new, 0, 2, 4096);
    assert!(cluster.is_acknowledged(write));
}

#[test]
fn a_clean_detach_needs_no_rebuild() {
    let mut cluster = Cluster::new(2, 2, Protocol::C);
    let first = cluster.attach(0);
    cluster.write(first, 0, 1, 1 << 20);
    let detach = cluster.command(first, Command::Detach);
    assert_eq!(cluster.commands[&detach], Ok(()));
    assert_eq!(cluster.ended[&first], EndReason::Detached);
    assert!(cluster.newest.primaries.is_empty());
    let second = cluster.attach(1);
    assert!(cluster.newest.replicas().all(|(_, r)| r.state == ReplicaState::InSync));
    assert_eq!(cluster.read(second, 0, 1 << 20), Some(vec![1; 1 << 20]));
}

#[test]
fn protocols_differ_in_what_an_acknowledgement_waits_for() {
    // With the remote replica's disk frozen: C waits for it, B for its receipt, A for nothing.
    for (protocol, remote_frozen, local_frozen) in
        [(Protocol::C, false, false), (Protocol::B, true, false), (Protocol::A, true, false)]
    {
        let mut cluster = Cluster::new(1, 2, protocol);
        let primary = cluster.attach(0);
        cluster.frozen.insert(replica(0, 1));
        let write = cluster.write(primary, 0, 1, 4096);
        assert_eq!(cluster.is_acknowledged(write), remote_frozen, "{protocol}");
        let flush = cluster.request(primary, Operation::Flush);
        assert!(!cluster.is_acknowledged(flush), "a flush waits, whatever the protocol");
        cluster.thaw(replica(0, 1));
        assert!(cluster.is_acknowledged(write) && cluster.is_acknowledged(flush));
        cluster.frozen.insert(replica(0, 0));
        let write = cluster.write(primary, 0, 2, 4096);
        assert_eq!(cluster.is_acknowledged(write), local_frozen, "{protocol}");
        cluster.thaw(replica(0, 0));
        assert!(cluster.is_acknowledged(write));
    }
}

/// Under A and B only the replica on the dead primary's node surely has what was acknowledged, even
/// if it has restarted. Under C all have it, and a restart may have cost one what no flush covers.
#[test]
fn a_replica_that_may_lack_writes_says_so_while_who_has_them_is_away() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    cluster.pass(A_WHILE);
    let write = cluster.write(primary, 0, 7, 512);
    assert!(cluster.is_acknowledged(write));
    let (lost, restarted) = (replica(0, 0), replica(0, 1));
    assert!(!cluster.may_be_out_of_sync(primary, restarted));
    // Both go before the view can change.
    cluster.coordinator_answers = false;
    cluster.kill(lost);
    cluster.kill(restarted);
    cluster.coordinator_answers = true;
    assert!(!cluster.may_be_out_of_sync(primary, restarted), "nobody knows before it answers");
    cluster.restart(restarted, true);
    cluster.pass(A_WHILE);
    assert!(cluster.may_be_out_of_sync(primary, restarted));
    assert!(!cluster.may_be_out_of_sync(primary, lost));
    assert_eq!(cluster.waiting(primary).unwrap().why, Waiting::Replica(0));
    // Whoever knows that the other one is lost for good goes on without it.
    cluster.command(primary, Command::Detach);
    cluster.pass(A_WHILE);
    let anew = cluster.attach(1);
    cluster.pass(A_WHILE);
    let write = cluster.write(anew, 0, 8, 512);
    cluster.pass(A_WHILE);
    assert!(cluster.is_acknowledged(write));
    assert!(!cluster.may_be_out_of_sync(anew, restarted));
}

#[test]
fn a_takeover_prefers_the_dead_primarys_node_then_who_has_not_restarted() {
    for (protocol, source) in [(Protocol::A, 0), (Protocol::B, 0), (Protocol::C, 1)] {
        let mut cluster = Cluster::new(1, 3, protocol);
        let dead = cluster.attach(0);
        cluster.write(dead, 0, 1, 4096);
        cluster.cut_off.insert(dead);
        // So that the dead one drops nobody.
        cluster.coordinator_answers = false;
        for restarted in [replica(0, 0), replica(0, 2)] {
            cluster.kill(restarted);
            cluster.restart(restarted, false);
        }
        cluster.coordinator_answers = true;
        cluster.attach(2);
        cluster.pass(A_WHILE);
        let records: Vec<_> = cluster.newest.replicas().map(|(_, record)| *record).collect();
        assert!(records.iter().all(|record| record.state == ReplicaState::InSync), "{protocol}");
        let kept = records.iter().filter(|record| record.since == Generation(1));
        let kept: Vec<_> = kept.map(|record| record.id).collect();
        assert_eq!(kept, [replica(0, source)], "{protocol}: the others were copied from it");
    }
}

#[test]
fn io_goes_on_without_a_coordinator_until_the_view_must_change() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    cluster.coordinator_answers = false;
    let write = cluster.write(primary, 0, 1, 4096);
    assert!(cluster.is_acknowledged(write));
    cluster.kill(replica(0, 1));
    let write = cluster.write(primary, 0, 2, 4096);
    cluster.pass(A_WHILE);
    assert!(!cluster.replies.contains_key(&write));
    cluster.coordinator_answers = true;
    cluster.pass(SECOND);
    assert!(cluster.is_acknowledged(write));
    cluster.coordinator_answers = false;
    cluster.restart(replica(0, 1), false);
    cluster.pass(A_WHILE);
    let write = cluster.write(primary, 0, 3, 4096);
    assert!(cluster.is_acknowledged(write), "a replica that can't return holds nobody up");
}

/// Nothing but the coordinator is away: by default requests wait for as long as that takes, and
/// what follows has its whole time to wait for data.
#[test]
fn requests_wait_for_the_coordinator_without_a_limit() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    cluster.coordinator_answers = false;
    cluster.kill(replica(0, 1));
    let write = cluster.write(primary, 0, 1, 4096);
    cluster.pass(10_000 * SECOND);
    assert!(!cluster.replies.contains_key(&write));
    let wait = cluster.waiting(primary).unwrap();
    assert_eq!(wait.why, Waiting::Coordinator);
    assert!(
        cluster.now.since(wait.since).as_secs() >= 9_900,
        "the wait is told from its beginning"
    );
    cluster.kill(replica(0, 0));
    cluster.pass(60 * SECOND);
    assert!(!cluster.replies.contains_key(&write), "it waited for data for 60 s only");
    let wait = cluster.waiting(primary).unwrap();
    assert_eq!(wait.why, Waiting::Replica(0));
    assert!(cluster.now.since(wait.since).as_secs() <= 60, "it is told how long it waits for data");
    cluster.restart(replica(0, 0), false);
    cluster.coordinator_answers = true;
    cluster.pass(10 * SECOND);
    assert!(cluster.is_acknowledged(write));
    assert_eq!(cluster.waiting(primary), None);
}

#[test]
fn requests_fail_without_the_coordinator_if_the_volume_says_so() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    let policy = NoCoordinatorPolicy::from_milliseconds(20_000);
    cluster.command(primary, Command::Change(Change::NoCoordinator(policy)));
    cluster.pass(SECOND);
    cluster.coordinator_answers = false;
    cluster.kill(replica(0, 1));
    let first = cluster.write(primary, 0, 1, 4096);
    cluster.pass(30 * SECOND);
    assert!(matches!(cluster.replies[&first], Err(RequestError::NoCoordinator)));
    let second = cluster.write(primary, 0, 2, 4096);
    cluster.pass(5 * SECOND);
    assert!(!cluster.replies.contains_key(&second), "each has its time");
    let wait = cluster.waiting(primary).unwrap();
    assert!(cluster.now.since(wait.since).as_secs() >= 30, "it is one suspension still");
    cluster.pass(20 * SECOND);
    assert!(matches!(cluster.replies[&second], Err(RequestError::NoCoordinator)));
}

/// A replica that may not return holds nobody up, however slow a disk is: what has waited for as
/// long as requests may wait for the coordinator has not waited for it.
#[test]
fn requests_that_need_no_coordinator_do_not_fail_for_want_of_it() {
    let mut cluster = Cluster::new(1, 3, Protocol::C);
    let primary = cluster.attach(0);
    let policy = NoCoordinatorPolicy::from_milliseconds(1_000);
    cluster.command(primary, Command::Change(Change::NoCoordinator(policy)));
    cluster.kill(replica(0, 2));
    cluster.pass(5 * SECOND);
    cluster.coordinator_answers = false;
    cluster.restart(replica(0, 2), false);
    cluster.pass(A_WHILE);
    let why = cluster.waiting(primary).map(|wait| wait.why);
    assert_eq!(why, Some(Waiting::Coordinator), "it can't return");
    for value in 1..=4 {
        cluster.frozen_data.insert(replica(0, 1));
        let slow = cluster.write(primary, 0, value, 4096);
        let behind = cluster.write(primary, 0, value + 10, 4096);
        cluster.pass(Duration::from_millis(1_300 + 150 * u64::from(value)));
        cluster.frozen_data.clear();
        cluster.thaw(replica(0, 1));
        for write in [slow, behind] {
            assert!(cluster.is_acknowledged(write), "{:?}", cluster.replies.get(&write));
        }
    }
    cluster.kill(replica(0, 1));
    let old = cluster.write(primary, 0, 1, 4096);
    cluster.pass(Duration::from_millis(900));
    let young = cluster.write(primary, 4096, 2, 4096);
    cluster.pass(Duration::from_millis(500));
    assert!(matches!(cluster.replies[&old], Err(RequestError::NoCoordinator)));
    assert!(!cluster.replies.contains_key(&young), "each has its time");
    cluster.pass(SECOND);
    assert!(matches!(cluster.replies[&young], Err(RequestError::NoCoordinator)));
}

/// However long a replica could not return for want of the coordinator: nobody has waited for data
/// meanwhile.
#[test]
fn requests_have_their_time_for_data_after_a_long_silence_of_the_coordinator() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    let policy = NoCoordinatorPolicy::from_milliseconds(1_000);
    cluster.command(primary, Command::Change(Change::NoCoordinator(policy)));
    cluster.kill(replica(0, 1));
    cluster.pass(5 * SECOND);
    cluster.coordinator_answers = false;
    cluster.restart(replica(0, 1), false);
    cluster.pass(1_000 * SECOND);
    cluster.kill(replica(0, 0));
    let write = cluster.write(primary, 0, 1, 4096);
    cluster.pass(100 * SECOND);
    assert!(!cluster.replies.contains_key(&write), "{:?}", cluster.replies.get(&write));
    cluster.pass(30 * SECOND);
    assert!(matches!(cluster.replies[&write], Err(RequestError::NoData)));
}

/// A change of it counts for what waits already.
#[test]
fn how_long_requests_wait_for_data_is_changed_while_they_wait() {
    let mut cluster = Cluster::new(1, 1, Protocol::C);
    let primary = cluster.attach(0);
    let limit = |milliseconds| Command::Change(Change::NoData(milliseconds));
    cluster.command(primary, limit(600_000));
    cluster.pass(SECOND);
    cluster.kill(replica(0, 0));
    let first = cluster.write(primary, 0, 1, 4096);
    cluster.pass(300 * SECOND);
    assert!(!cluster.replies.contains_key(&first), "it waited for as long as the start said");
    cluster.restart(replica(0, 0), false);
    cluster.pass(10 * SECOND);
    assert!(cluster.is_acknowledged(first));
    cluster.command(primary, limit(0));
    cluster.pass(SECOND);
    cluster.kill(replica(0, 0));
    let second = cluster.write(primary, 0, 2, 4096);
    cluster.pass(5 * SECOND);
    assert!(matches!(cluster.replies[&second], Err(RequestError::NoData)));
}

#[test]
fn a_rebuild_under_writes_converges() {
    let mut cluster = Cluster::new(1, 3, Protocol::C);
    let primary = cluster.attach(9);
    for block in 0..64 {
        cluster.write(primary, block * 131_072, block as u8 + 1, 131_072);
    }
    cluster.kill(replica(0, 1));
    cluster.write(primary, 0, 99, 4096);
    cluster.restart(replica(0, 1), true);
    for round in 0..40u64 {
        cluster.write(primary, (round * 37 % 64) * 131_072, round as u8 + 100, 131_072);
        cluster.pass(Duration::from_millis(50));
    }
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::InSync);
    assert!(cluster.data(replica(0, 1)) == cluster.data(replica(0, 0)));
    assert!(cluster.data(replica(0, 2)) == cluster.data(replica(0, 0)));
}

/// I7, by every way in which a replica can be away.
#[test]
fn a_replica_that_returns_gets_only_what_has_changed() {
    for rebooted in [false, true] {
        let mut cluster = Cluster::new(1, 3, Protocol::C);
        let primary = cluster.attach(9);
        for chunk in 0..64 {
            cluster.write(primary, chunk * 131_072, chunk as u8 + 1, 131_072);
        }
        // All of that becomes stable, and what was open is closed.
        cluster.pass(A_WHILE);
        cluster.kill(replica(0, 1));
        let offsets = [0, 5 * 4096, 1 << 20, (1 << 20) + 3 * 4096, SIZE - 4096];
        for (n, offset) in offsets.iter().enumerate() {
            cluster.write(primary, *offset, n as u8 + 200, 4096);
        }
        cluster.restart(replica(0, 1), rebooted);
        cluster.pass(A_WHILE);
        assert_eq!(cluster.state(replica(0, 1)), ReplicaState::InSync);
        assert!(cluster.data(replica(0, 1)) == cluster.data(replica(0, 0)));
        assert_eq!(cluster.bytes_written(replica(0, 1)), 5 * 4096);
    }
}

/// I7 after a crash of everything: what was open is copied, not more.
#[test]
fn after_a_takeover_only_open_regions_are_copied() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let first = cluster.attach(9);
    for chunk in 0..64 {
        cluster.write(first, chunk * 131_072, chunk as u8 + 1, 131_072);
    }
    cluster.pass(A_WHILE);
    cluster.write(first, 3 << 20, 77, 4096);
    for index in 0..2 {
        cluster.kill(replica(0, index));
        cluster.restart(replica(0, index), true);
    }
    let second = cluster.attach(8);
    cluster.pass(A_WHILE);
    let states = [0, 1].map(|index| cluster.state(replica(0, index)));
    assert_eq!(states, [ReplicaState::InSync; 2]);
    let written: u64 = (0..2).map(|index| cluster.bytes_written(replica(0, index))).sum();
    assert!((4096..=1 << 20).contains(&written), "{written} bytes copied, one region was open");
    assert_eq!(cluster.read(second, 3 << 20, 4096), Some(vec![77; 4096]));
}

//! Several primaries of one volume: they join, write, leave and die.

use std::time::Duration;

use crate::cluster::{Cluster, replica};
use evenkeel_core::primary::{Command, CommandError, EndReason, Note};
use evenkeel_core::view::{Cause, Change, ViewError};
use evenkeel_core::*;

const A_WHILE: Duration = Duration::from_secs(30);
const BLOCK: usize = 4096;
const MIB: u64 = 1 << 20;

/// A mirror of three, attached on so many nodes at once.
fn shared(primaries: usize) -> Cluster {
    Cluster::shared(primaries as u8, primaries)
}

fn in_sync(cluster: &Cluster) -> usize {
    cluster.newest.mirrors[0].in_sync().count()
}

#[test]
fn what_one_has_acknowledged_the_others_read() {
    let mut cluster = shared(3);
    let slots: Vec<_> = cluster.newest.primaries.iter().map(|primary| primary.slot).collect();
    assert_eq!(slots, [0, 1, 2]);
    for writer in 0..3 {
        let value = writer as u8 + 1;
        let write = cluster.write(writer, 0, value, BLOCK);
        assert!(cluster.is_acknowledged(write));
        for reader in 0..3 {
            assert_eq!(cluster.read(reader, 0, BLOCK as u32), Some(vec![value; BLOCK]));
        }
    }
}

#[test]
fn halves_of_one_block_by_two_primaries_both_stay() {
    let mut cluster = shared(2);
    let (first, second) = (cluster.write(0, 0, 1, 512), cluster.write(1, 512, 2, 512));
    cluster.pass(A_WHILE);
    assert!(cluster.is_acknowledged(first) && cluster.is_acknowledged(second));
    assert_eq!(cluster.read(0, 0, 1024), Some([vec![1; 512], vec![2; 512]].concat()));
}

#[test]
fn one_more_than_there_are_slots_is_refused() {
    let mut cluster = shared(2);
    let late = cluster.attach(2);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.ended.get(&late), Some(&EndReason::TooManyPrimaries));
    assert_eq!(cluster.newest.primaries.len(), 2);
}

#[test]
fn who_does_not_reach_an_in_sync_replica_does_not_join() {
    let mut cluster = Cluster::new(1, 3, Protocol::C);
    cluster.newest.intents.slots = 4;
    let first = cluster.attach(0);
    let late = cluster.attach(1);
    cluster.pass(A_WHILE);
    let detach = cluster.command(late, Command::Detach);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.commands[&detach], Ok(()));
    // It stands still; the one that runs the volume has not noticed yet.
    cluster.frozen.insert(replica(0, 2));
    cluster.kill(replica(0, 2));
    let late = cluster.attach(1);
    let write = cluster.write(first, 0, 1, BLOCK);
    cluster.pass(A_WHILE);
    assert!(cluster.is_acknowledged(write));
    assert_eq!(cluster.ended.get(&late), None, "it joins when that one has left");
    assert_eq!(cluster.newest.primaries.len(), 2);
}

#[test]
fn a_dead_one_is_evicted_and_only_its_slot_is_copied() {
    let mut cluster = shared(2);
    cluster.write(0, 0, 1, 64 * BLOCK);
    cluster.cut_off.insert(1);
    // Sent to nobody; what it had open before is what counts.
    cluster.write(1, 4 * MIB, 2, BLOCK);
    cluster.cut_off.remove(&1);
    cluster.write(1, 2 * MIB, 2, BLOCK);
    cluster.cut_off.insert(1);
    let before: Vec<_> = (0..3).map(|r| cluster.bytes_written(replica(0, r))).collect();
    let mut writes = Vec::new();
    for _ in 0..40 {
        cluster.pass(Duration::from_millis(500));
        writes.push(cluster.write(0, 0, 3, BLOCK));
    }
    cluster.pass(A_WHILE);
    assert!(writes.iter().all(|write| cluster.is_acknowledged(*write)), "the survivor goes on");
    assert_eq!(cluster.newest.primaries.len(), 1);
    assert_eq!(in_sync(&cluster), 3);
    let own = 40 * BLOCK as u64;
    for (r, before) in before.iter().enumerate() {
        let copied = cluster.bytes_written(replica(0, r)) - before - own;
        assert!(copied <= MIB, "{copied} bytes were copied to replica {r}: a region at most");
    }
    assert_eq!(cluster.read(0, 2 * MIB, 512), Some(vec![2; 512]));
    cluster.cut_off.remove(&1);
    cluster.write(1, 0, 9, BLOCK);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.ended.get(&1), Some(&EndReason::Evicted));
    assert!(cluster.notes.contains(&Note::Evicted(NodeId(1))), "{:?}", cluster.notes);
    assert_eq!(cluster.read(0, 0, 512), Some(vec![3; 512]));
}

#[test]
fn who_was_evicted_learns_that_also_when_the_others_have_ended_meanwhile() {
    let mut cluster = shared(2);
    cluster.cut_off.insert(1);
    cluster.pass(A_WHILE * 3);
    assert_eq!(cluster.newest.primaries.len(), 1, "it was not evicted");
    cluster.command(0, Command::Detach);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.ended.get(&0), Some(&EndReason::Detached));
    cluster.cut_off.remove(&1);
    cluster.write(1, 0, 9, BLOCK);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.newest.primaries, []);
    assert_eq!(cluster.ended.get(&1), Some(&EndReason::Evicted), "nobody has taken it over");
}

#[test]
fn changes_of_the_view_do_not_keep_a_dead_one_in_it() {
    let mut cluster = shared(2);
    cluster.cut_off.insert(1);
    for second in 0..30 {
        cluster.command(0, Command::Change(Change::NoData(60_000 + second)));
        cluster.pass(Duration::from_secs(2));
    }
    assert_eq!(cluster.newest.primaries.len(), 1, "each change begins the wait anew");
}

/// A replica does not answer while it waits for the lease of a primary that has died with another
/// replica.
#[test]
fn who_waits_for_a_dead_ones_lease_is_not_late() {
    let mut cluster = shared(2);
    cluster.write(1, 0, 1, BLOCK);
    cluster.frozen.insert(replica(0, 1));
    let flushes = [(); 2].map(|()| cluster.request(0, Operation::Flush));
    cluster.cut_off.insert(1);
    cluster.command(0, Command::Fail(replica(0, 2)));
    cluster.pass(Duration::from_millis(100));
    cluster.thaw(replica(0, 1));
    cluster.pass(Duration::from_millis(6_000));
    assert!(flushes.iter().any(|flush| !cluster.is_acknowledged(*flush)), "it waits no more");
    cluster.pass(Duration::from_millis(1_000));
    for flush in flushes {
        assert!(cluster.is_acknowledged(flush), "{:?}", cluster.replies.get(&flush));
    }
    let left = |note: &&Note| matches!(note, Note::Left(..));
    let left: Vec<_> = cluster.notes.iter().filter(left).collect();
    assert_eq!(left, [&Note::Left(replica(0, 2), Cause::Operator)]);
}

/// While a view is adopted nobody is heard. That is no sign of death.
#[test]
fn silence_does_not_count_while_nobody_listens() {
    let mut cluster = shared(2);
    cluster.cut_off.insert(1);
    cluster.pass(Duration::from_millis(9_000));
    assert_eq!(cluster.newest.primaries.len(), 2);
    cluster.frozen.insert(replica(0, 2));
    cluster.command(0, Command::Change(Change::NoData(60_000)));
    cluster.pass(Duration::from_millis(9_000));
    cluster.thaw(replica(0, 2));
    cluster.pass(Duration::from_millis(5_000));
    assert_eq!(cluster.newest.primaries.len(), 2, "it was evicted for the time of the adoption");
    cluster.pass(A_WHILE);
    assert_eq!(cluster.newest.primaries.len(), 1);
}

#[test]
fn who_detaches_leaves_nothing_to_be_copied() {
    let mut cluster = shared(3);
    cluster.write(1, MIB, 5, BLOCK);
    let before = cluster.newest.generation;
    let detach = cluster.command(1, Command::Detach);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.commands[&detach], Ok(()));
    assert_eq!(cluster.ended.get(&1), Some(&EndReason::Detached));
    assert_eq!((cluster.newest.generation, in_sync(&cluster)), (before.next(), 3));
    assert_eq!(cluster.read(2, MIB, 512), Some(vec![5; 512]));
}

#[test]
fn a_replica_fails_and_returns_while_all_write_whoever_says_so() {
    let mut cluster = shared(3);
    cluster.write(0, 0, 1, 32 * BLOCK);
    cluster.pass(A_WHILE);
    for by in 0..3 {
        let fail = cluster.command(by, Command::Fail(replica(0, 2)));
        for primary in 0..3 {
            let offset = (primary as u64 + 1) * MIB;
            let write = cluster.write(primary, offset, by as u8 + 1, BLOCK);
            cluster.pass(A_WHILE);
            assert!(cluster.is_acknowledged(write), "primary {primary}, command of {by}");
        }
        assert_eq!(cluster.commands[&fail], Ok(()));
        assert_eq!(cluster.state(replica(0, 2)), ReplicaState::Faulty);
        let before = cluster.bytes_written(replica(0, 2));
        let back = cluster.command((by + 1) % 3, Command::ReAdd(replica(0, 2)));
        cluster.pass(A_WHILE);
        assert_eq!(cluster.commands[&back], Ok(()));
        assert_eq!(cluster.state(replica(0, 2)), ReplicaState::InSync);
        assert!(cluster.bytes_written(replica(0, 2)) - before <= 3 * BLOCK as u64);
        assert_eq!(cluster.data(replica(0, 2)), cluster.data(replica(0, 0)));
    }
    assert!(cluster.ended.is_empty());
}

#[test]
fn the_last_replicas_machine_restarts_and_nobody_goes_on() {
    let mut cluster = shared(2);
    for r in [1, 2] {
        cluster.command(0, Command::Retire(replica(0, r)));
        cluster.pass(A_WHILE);
    }
    cluster.write(1, 0, 1, BLOCK);
    cluster.kill(replica(0, 0));
    cluster.restart(replica(0, 0), true);
    cluster.pass(A_WHILE);
    // The first one had nothing unflushed; what the other one had it can't know.
    for primary in 0..2 {
        assert_eq!(cluster.ended.get(&primary), Some(&EndReason::LostWrites), "{primary}");
    }
    let anew = cluster.attach(0);
    cluster.pass(A_WHILE);
    let write = cluster.write(anew, 0, 2, BLOCK);
    cluster.pass(A_WHILE);
    assert!(cluster.is_acknowledged(write) || cluster.ended.contains_key(&anew));
}

#[test]
fn what_needs_one_primary_is_refused() {
    let mut cluster = shared(2);
    let mut refusal = |command| {
        let id = cluster.command(0, command);
        cluster.pass(A_WHILE);
        cluster.commands[&id]
    };
    let change = |change| Command::Change(change);
    let refused = |error| Err(CommandError::View(error));
    assert_eq!(refusal(change(Change::Protocol(Protocol::A))), refused(ViewError::NotProtocolC));
    let bitmap = Bitmap::Internal;
    let slots = |slots| change(Change::Bitmap { bitmap, slots });
    assert_eq!(refusal(slots(1)), refused(ViewError::SlotHeld(1)));
    assert_eq!(refusal(slots(33)), refused(ViewError::WrongSlots));
    assert_eq!(refusal(slots(8)), Ok(()));
}

#[test]
fn a_node_that_attaches_again_replaces_its_own_dead_primary() {
    let mut cluster = shared(2);
    cluster.write(1, MIB, 4, BLOCK);
    cluster.cut_off.insert(1);
    let again = cluster.attach(1);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.newest.primaries.len(), 2);
    assert_eq!(in_sync(&cluster), 3);
    assert_eq!(cluster.read(again, MIB, 512), Some(vec![4; 512]));
    let evicted = cluster.newest.replicas().all(|(_, record)| record.cause == Cause::None);
    assert!(evicted, "{:?}", cluster.newest);
}

/// A node that stands still, or is cut off, for longer than its lease and its replica's deadline.
#[test]
fn who_is_silent_for_two_leases_keeps_the_volume() {
    let mut cluster = shared(3);
    cluster.cut_off.insert(1);
    let mut writes = Vec::new();
    for _ in 0..24 {
        cluster.pass(Duration::from_millis(500));
        writes.push(cluster.write(0, 0, 3, BLOCK));
    }
    cluster.cut_off.remove(&1);
    cluster.pass(A_WHILE);
    assert!(writes.iter().all(|write| cluster.is_acknowledged(*write)), "the others go on");
    assert!(cluster.ended.is_empty(), "{:?}", cluster.ended);
    assert_eq!((cluster.newest.primaries.len(), in_sync(&cluster)), (3, 3));
    assert_eq!(cluster.read(1, 0, 512), Some(vec![3; 512]));
}

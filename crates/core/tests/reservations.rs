//! Hosts that reserve a volume, whichever primary they ask.

use std::time::Duration;

use crate::cluster::{Cluster, host, replica};
use evenkeel_core::primary::{Command, CommandError};
use evenkeel_core::view::{Change, ReservationChange, ReservationKind, ViewError};
use evenkeel_core::*;

const A_WHILE: Duration = Duration::from_secs(30);
const BLOCK: usize = 4096;
const KIND: ReservationKind = ReservationKind::WriteExclusiveRegistrants;

/// A mirror of three, attached on so many nodes; each client's host has its own number as the key.
fn shared(primaries: usize) -> Cluster {
    Cluster::shared(4, primaries)
}

fn change(
    cluster: &mut Cluster,
    primary: usize,
    change: ReservationChange,
) -> Result<(), CommandError> {
    let id = cluster.command(primary, Command::Change(Change::Reservation(change)));
    cluster.pass(A_WHILE);
    cluster.commands[&id]
}

fn register(cluster: &mut Cluster, primary: usize, is_persistent: bool) {
    let (host, key) = (host(primary), primary as u64 + 1);
    let is_persistent = Some(is_persistent);
    let register = ReservationChange::Register { host, expected: Some(0), key, is_persistent };
    assert_eq!(change(cluster, primary, register), Ok(()));
}

fn reserve(cluster: &mut Cluster, primary: usize) {
    let (host, key) = (host(primary), primary as u64 + 1);
    let reserve = ReservationChange::Reserve { host, key, kind: KIND };
    assert_eq!(change(cluster, primary, reserve), Ok(()));
}

fn preempt(primary: usize, victim: usize) -> ReservationChange {
    let (host, key, victim) = (host(primary), primary as u64 + 1, victim as u64 + 1);
    ReservationChange::Preempt { host, key, victim, kind: KIND }
}

/// What became of a write by this primary's client.
fn write(cluster: &mut Cluster, primary: usize, value: u8) -> Option<RequestError> {
    let request = cluster.write(primary, 0, value, BLOCK);
    cluster.pass(A_WHILE);
    cluster.replies[&request].as_ref().err().copied()
}

#[test]
fn what_one_primary_is_told_holds_at_all() {
    let mut cluster = shared(3);
    register(&mut cluster, 0, false);
    register(&mut cluster, 1, false);
    reserve(&mut cluster, 1);
    assert_eq!(write(&mut cluster, 0, 1), None);
    assert_eq!(write(&mut cluster, 1, 2), None);
    assert_eq!(write(&mut cluster, 2, 3), Some(RequestError::Reserved));
    assert_eq!(cluster.read(2, 0, 512), Some(vec![2; 512]), "it may read");
    let late = cluster.attach(3);
    cluster.pass(A_WHILE);
    assert_eq!(write(&mut cluster, late, 4), Some(RequestError::Reserved));
}

#[test]
fn who_is_preempted_writes_no_more_not_even_what_was_under_way() {
    let mut cluster = shared(2);
    register(&mut cluster, 0, false);
    register(&mut cluster, 1, false);
    reserve(&mut cluster, 1);
    // One replica does not answer: the write is under way when the other host preempts.
    cluster.frozen.insert(replica(0, 2));
    let under_way = cluster.write(1, 0, 7, BLOCK);
    assert!(!cluster.replies.contains_key(&under_way));
    let command = cluster.command(0, Command::Change(Change::Reservation(preempt(0, 1))));
    assert!(!cluster.commands.contains_key(&command), "not before that has ended");
    let late = cluster.write(1, 8192, 8, BLOCK);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.commands[&command], Ok(()));
    assert!(cluster.is_acknowledged(under_way));
    let refused = cluster.replies[&late].as_ref().err().copied();
    assert_eq!(refused, Some(RequestError::Reserved));
    assert_eq!(cluster.read(0, 8192, 512), Some(vec![0; 512]));
    assert_eq!(write(&mut cluster, 1, 9), Some(RequestError::Reserved));
    assert_eq!(write(&mut cluster, 0, 10), None);
}

#[test]
fn of_two_that_fence_a_third_one_wins() {
    let mut cluster = shared(3);
    for primary in 0..3 {
        register(&mut cluster, primary, false);
    }
    reserve(&mut cluster, 2);
    cluster.cut_off.insert(2);
    let commands: Vec<_> = (0..2)
        .map(|p| cluster.command(p, Command::Change(Change::Reservation(preempt(p, 2)))))
        .collect();
    cluster.pass(A_WHILE);
    let results: Vec<_> = commands.iter().map(|id| cluster.commands[id]).collect();
    assert_eq!(results, [Ok(()), Err(CommandError::View(ViewError::ReservationConflict))]);
    assert_eq!(write(&mut cluster, 1, 1), None, "it is still registered");
}

#[test]
fn what_is_persistent_is_there_after_everybody_has_gone() {
    for is_persistent in [false, true] {
        let mut cluster = shared(1);
        register(&mut cluster, 0, is_persistent);
        reserve(&mut cluster, 0);
        let detach = cluster.command(0, Command::Detach);
        cluster.pass(A_WHILE);
        assert_eq!(cluster.commands[&detach], Ok(()));
        let other = cluster.attach(1);
        cluster.pass(A_WHILE);
        let expected = is_persistent.then_some(RequestError::Reserved);
        assert_eq!(write(&mut cluster, other, 1), expected);
        assert_eq!(change(&mut cluster, other, ReservationChange::Drop), Ok(()));
        assert_eq!(write(&mut cluster, other, 2), None);
    }
}

#[test]
fn a_reservation_waits_for_one_that_has_died_until_it_is_evicted() {
    let mut cluster = shared(2);
    register(&mut cluster, 0, false);
    cluster.cut_off.insert(1);
    let (host, key) = (host(0), 1);
    let reserve = ReservationChange::Reserve { host, key, kind: KIND };
    let command = cluster.command(0, Command::Change(Change::Reservation(reserve)));
    cluster.pass(Duration::from_millis(200));
    assert!(!cluster.commands.contains_key(&command), "the other one may still write");
    cluster.pass(A_WHILE);
    assert_eq!(cluster.commands[&command], Ok(()));
}

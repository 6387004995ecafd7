//! A node's newer primary, and an older one that may live on with a copy of the node's state.

use std::time::Duration;

use crate::cluster::{Cluster, replica};
use evenkeel_core::primary::{Earlier, EndReason};
use evenkeel_core::*;

const BLOCK: usize = 4096;

/// A volume that is shared by so many slots, attached on node 1; that node's next primary, a second
/// later.
fn followed(slots: u8, earlier: Earlier, cut_off: bool) -> (Cluster, usize) {
    let mut cluster = Cluster::new(1, 3, Protocol::C);
    cluster.newest.intents.slots = slots;
    let first = cluster.attach(1);
    let write = cluster.write(first, 0, 1, BLOCK);
    assert!(cluster.is_acknowledged(write));
    if cut_off {
        cluster.cut_off.insert(first);
    }
    cluster.pass(Duration::from_secs(1));
    let next = cluster.attach_after(1, earlier);
    cluster.pass(Duration::from_secs(1));
    (cluster, next)
}

fn serves(cluster: &mut Cluster, primary: usize, value: u8) -> bool {
    let write = cluster.write(primary, 0, value, BLOCK);
    cluster.is_acknowledged(write)
}

#[test]
fn one_that_has_ended_is_not_waited_for() {
    for slots in [1, 4] {
        let mut probe = Cluster::new(1, 3, Protocol::C);
        probe.attach(1);
        let ended = probe.newest.primaries[0].id.incarnation;
        for earlier in [Earlier::Ended, Earlier::OneEnded(ended)] {
            let (mut cluster, next) = followed(slots, earlier, true);
            assert!(serves(&mut cluster, next, 2), "{slots} slots, {earlier:?}");
        }
    }
}

#[test]
fn one_that_may_live_is_waited_for_until_its_lease_is_over() {
    for slots in [1, 4] {
        for earlier in [Earlier::MayLive, Earlier::OneEnded(Incarnation(1))] {
            let (mut cluster, next) = followed(slots, earlier, true);
            let lease = cluster.newest.lease.honoured();
            assert!(!serves(&mut cluster, next, 2), "{slots} slots, {earlier:?}: its lease runs");
            cluster.pass(lease);
            assert!(serves(&mut cluster, next, 2), "{slots} slots, {earlier:?}");
            assert_eq!(cluster.newest.primaries.len(), 1);
        }
    }
}

#[test]
fn one_that_is_answered_keeps_the_volume() {
    for slots in [1, 4] {
        let (mut cluster, next) = followed(slots, Earlier::MayLive, false);
        for value in 0..90 {
            cluster.pass(Duration::from_millis(500));
            assert!(serves(&mut cluster, 0, value), "{slots} slots, write {value}");
        }
        assert_eq!(cluster.ended.get(&next), Some(&EndReason::PredecessorAlive));
        assert_eq!(cluster.ended.get(&0), None);
    }
}

#[test]
fn one_that_another_node_took_over_from_is_waited_for_until_its_lease_is_over() {
    for earlier in [Earlier::Ended, Earlier::MayLive] {
        let mut cluster = Cluster::new(1, 3, Protocol::C);
        let first = cluster.attach(1);
        assert!(serves(&mut cluster, first, 1));
        cluster.cut_off.insert(first);
        let other = cluster.attach(2);
        // A copy of the first one's node: the view that it reads names the other primary alone.
        let next = cluster.attach_after(1, earlier);
        assert!(!serves(&mut cluster, next, 2), "{earlier:?}: the first one's lease runs");
        cluster.pass(cluster.newest.lease.honoured());
        assert!(serves(&mut cluster, next, 2), "{earlier:?}");
        assert!(!serves(&mut cluster, other, 3), "{earlier:?}");
    }
}

/// A mirror of three of which one replica was away while the primary changed.
fn returned(next_on: u128) -> (Cluster, usize) {
    let mut cluster = Cluster::new(1, 3, Protocol::C);
    let first = cluster.attach(1);
    assert!(serves(&mut cluster, first, 1));
    let away = replica(0, 2);
    cluster.kill(away);
    let lease = cluster.newest.lease.honoured();
    cluster.pass(lease * 2);
    assert!(serves(&mut cluster, first, 2) && cluster.state(away) == ReplicaState::Stale);
    cluster.cut_off.insert(first);
    cluster.pass(lease);
    let next = cluster.attach(next_on);
    cluster.pass(lease);
    assert!(serves(&mut cluster, next, 3));
    cluster.restart(away, true);
    (cluster, next)
}

#[test]
fn a_replica_that_returns_makes_nobody_wait_for_the_lease_of_a_primary_it_knew() {
    for next_on in [1, 2] {
        let (mut cluster, next) = returned(next_on);
        for value in 0..200 {
            cluster.pass(Duration::from_millis(100));
            assert!(serves(&mut cluster, next, value), "node {next_on}, write {value}");
        }
        assert_eq!(cluster.state(replica(0, 2)), ReplicaState::InSync);
    }
}

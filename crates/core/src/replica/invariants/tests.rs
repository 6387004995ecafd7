//! Each invariant is broken by hand, in a replica that rebuilds, and found by its label.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::cluster::{Bytes, Cluster, replica};
use crate::primary::Command;
use crate::view::Cause;
use crate::*;

/// Whose source's disk stands still.
pub(in crate::replica) const REBUILDING: ReplicaId = ReplicaId(1);

/// A mirror of two with a write under way on the first one; the other one has left before, and
/// rebuilds if that is wanted: then its source does not answer.
pub(in crate::replica) fn cluster(rebuilds: bool) -> Cluster {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    cluster.write(primary, 0, 1, 4096);
    cluster.command(primary, Command::Fail(REBUILDING));
    cluster.pass(Duration::from_secs(10));
    let missed = cluster.write(primary, 4096, 2, 4096);
    assert!(cluster.is_acknowledged(missed));
    cluster.pass(Duration::from_secs(10));
    cluster.frozen_data.insert(replica(0, 0));
    if rebuilds {
        cluster.command(primary, Command::ReAdd(REBUILDING));
        cluster.pass(Duration::from_millis(300));
        assert!(cluster.progress(REBUILDING).is_some(), "it rebuilds");
    } else {
        // Of one block: the primary has both under way, the replica one after the other.
        cluster.write(primary, 0, 3, 512);
        cluster.write(primary, 512, 3, 512);
    }
    cluster
}

/// That this change of a replica breaks this rule, which held before.
pub(in crate::replica) fn breaks(
    label: &str,
    (mut cluster, id): (Cluster, ReplicaId),
    change: impl FnOnce(&mut Replica<Bytes>),
) {
    let replica = cluster.replica(id);
    replica.check_invariants();
    change(replica);
    let failed = catch_unwind(AssertUnwindSafe(|| replica.check_invariants()));
    let failed = failed.expect_err("it holds");
    let text = failed.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| failed.downcast_ref::<&str>().copied()).expect("a text");
    assert!(text.starts_with(&format!("{label}: ")), "not {label}, but {text}");
}

fn rebuilding() -> (Cluster, ReplicaId) {
    (cluster(true), REBUILDING)
}

/// The first one, with a write on its disk and another one that waits for its range.
pub(in crate::replica) fn writing() -> (Cluster, ReplicaId) {
    (cluster(false), replica(0, 0))
}

fn record(replica: &mut Replica<Bytes>, index: usize) -> &mut ReplicaRecord {
    &mut replica.views.view_mut().mirrors[0].replicas[index]
}

#[test]
fn who_rebuilds_is_rebuilding_by_the_view() {
    breaks("B4", rebuilding(), |replica| record(replica, 1).state = ReplicaState::Stale);
}

#[test]
fn its_source_is_in_sync() {
    breaks("B2", rebuilding(), |replica| {
        (record(replica, 0).state, record(replica, 0).cause) =
            (ReplicaState::Faulty, Cause::Medium);
    });
}

#[test]
fn what_another_one_lacks_is_named() {
    breaks("W7", writing(), |replica| replica.log.forget_bitmaps());
    breaks("W7", writing(), |replica| record(replica, 1).missing_since = Some(Generation(1)));
}

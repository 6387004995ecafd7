//! Replicas whose invariants tests break by hand, and find by their labels.

use std::time::Duration;

use crate::cluster::{Bytes, Cluster, replica};
use crate::primary::Command;
use crate::trips::trips;
use crate::*;

/// Whose source's disk stands still.
const REBUILDING: ReplicaId = ReplicaId(1);

/// A mirror of two with a write under way on the first one; the other one has left before, and
/// rebuilds if that is wanted: then its source does not answer.
fn cluster(rebuilds: bool) -> Cluster {
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
    trips(label, || replica.check_invariants());
}

/// The second one, of which a range is held and asked of its source.
pub(in crate::replica) fn rebuilding() -> (Cluster, ReplicaId) {
    (cluster(true), REBUILDING)
}

/// The first one, with a write on its disk and another one that waits for its range.
pub(in crate::replica) fn writing() -> (Cluster, ReplicaId) {
    (cluster(false), replica(0, 0))
}

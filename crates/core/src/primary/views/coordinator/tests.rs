//! What must hold of a view that is proposed is broken by hand, and found by its label.

use crate::primary::Informed;
use crate::primary::invariants::tests::writing;
use crate::trips::trips;
use crate::*;

/// That a primary which proposes this in place of its view breaks this rule.
fn breaks(label: &str, next: impl FnOnce(&View) -> View) {
    let mut cluster = writing();
    let (now, primary) = (cluster.now, cluster.primary(0));
    let next = next(primary.view().expect("it serves"));
    let mut effects = Vec::new();
    let cx = &mut primary.context(now, &mut effects);
    let Informed { views, membership, .. } = primary.informed();
    trips(label, || views.call_swap(cx, membership, next));
}

#[test]
fn the_next_view_follows_the_one_that_is_known() {
    breaks("V1", View::clone);
}

#[test]
fn the_last_in_sync_replica_stays() {
    breaks("V2", |view| {
        let mut next = view.successor();
        next.mirrors[0].replicas.iter_mut().for_each(|record| record.state = ReplicaState::Stale);
        next
    });
}

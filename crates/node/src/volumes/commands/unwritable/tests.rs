use std::collections::BTreeSet;

use evenkeel_core::primary::PeerStatus;
use evenkeel_core::view::Cause;
use evenkeel_core::{NodeId, ReplicaRecord, ReplicaState, View};

use super::*;
use crate::disks::tests::superblock;

/// A primary of a volume of these mirrors: each replica's identity, whether it is in-sync, and
/// whether it answers.
fn primary(mirrors: &[&[(u128, bool, bool)]]) -> PrimaryStatus {
    let mut view: View = superblock(8 << 20).view;
    let record = |(id, in_sync, _): &(u128, bool, bool)| {
        let state = if *in_sync { ReplicaState::InSync } else { ReplicaState::Stale };
        let first = view.mirrors[0].replicas[0];
        ReplicaRecord { id: ReplicaId(*id), node: NodeId(*id), state, cause: Cause::None, ..first }
    };
    let mirrors_of_view: Vec<_> = mirrors
        .iter()
        .map(|replicas| MirrorView { replicas: replicas.iter().map(record).collect() })
        .collect();
    view.mirrors = mirrors_of_view;
    let peer = |(id, _, connected): &(u128, bool, bool)| PeerStatus {
        replica: ReplicaId(*id),
        leaving: None,
        connected: *connected,
        may_be_out_of_sync: false,
        outstanding: 0,
        oldest: None,
        retry_in: None,
        left_again: None,
        rebuild: None,
        failed_reads: 0,
    };
    PrimaryStatus {
        view: Some(view),
        serving: true,
        waiting: None,
        replicas: mirrors.iter().flat_map(|replicas| replicas.iter().map(peer)).collect(),
        requests: 0,
        unflushed: false,
        verify: None,
        rewritten: 0,
        is_said_to_be_excluded: false,
    }
}

/// Of all replicas that can be written it was heard that they are well.
fn known(primary: &PrimaryStatus, unwritable: &[u128]) -> Lasting {
    let unwritable: BTreeSet<ReplicaId> = unwritable.iter().copied().map(ReplicaId).collect();
    let all = primary.replicas.iter().map(|peer| peer.replica);
    Lasting { well: all.filter(|id| !unwritable.contains(id)).collect(), unwritable }
}

fn leaves(mirrors: &[&[(u128, bool, bool)]], unwritable: &[u128]) -> Vec<u128> {
    let primary = primary(mirrors);
    leaving(&primary, &known(&primary, unwritable)).into_iter().map(|id| id.0).collect()
}

/// Its file is gone, its node says nothing, or it lacks a write: that it is not known to be
/// unwritable is no reason to count on it.
#[test]
fn none_leaves_beside_one_that_is_not_known_to_be_well() {
    let mut primary = primary(&[&[(1, true, true), (2, true, true)]]);
    let mut known = known(&primary, &[2]);
    primary.replicas[0].may_be_out_of_sync = true;
    assert_eq!(leaving(&primary, &known), []);
    primary.replicas[0].may_be_out_of_sync = false;
    known.well.clear();
    assert_eq!(leaving(&primary, &known), []);
}

#[test]
fn one_leaves_if_another_one_that_answers_goes_on() {
    let both: &[_] = &[(1, true, true), (2, true, true)];
    assert_eq!(leaves(&[both], &[2]), [2]);
    assert_eq!(leaves(&[both], &[]), []);
    assert_eq!(leaves(&[both], &[1, 2]), [], "nobody could adopt the view that says so");
    assert_eq!(leaves(&[&[(1, true, false), (2, true, true)]], &[2]), [], "it is the last to read");
    assert_eq!(leaves(&[&[(1, false, true), (2, true, true)]], &[2]), [], "the other is stale");
    assert_eq!(leaves(&[&[(1, true, true), (2, false, true)]], &[2]), [], "it is out already");
}

/// Its view would change, too, and it can't adopt it: it could not even be read then.
#[test]
fn none_leaves_while_that_would_take_the_last_one_of_another_mirror_away() {
    let both: &[_] = &[(1, true, true), (2, true, true)];
    assert_eq!(leaves(&[both, &[(3, true, true), (4, false, true)]], &[2, 3]), []);
    assert_eq!(leaves(&[both, &[(3, true, true), (4, true, true)]], &[2, 3]), [2, 3]);
}

#[test]
fn one_that_leaves_already_is_not_told_again() {
    let mut primary = primary(&[&[(1, true, true), (2, true, true)]]);
    primary.replicas[1].leaving = Some((ReplicaState::Faulty, Cause::Medium));
    assert_eq!(leaving(&primary, &known(&primary, &[2])), []);
    primary.replicas[1].leaving = None;
    primary.serving = false;
    assert_eq!(leaving(&primary, &known(&primary, &[2])), []);
}

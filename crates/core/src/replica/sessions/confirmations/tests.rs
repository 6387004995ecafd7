use super::*;
use crate::stripe::Geometry;
use crate::view::{MirrorView, PrimaryRecord, ReplicaRecord};

const START: Instant = Instant(1_000_000_000);

fn primary(node: u128, incarnation: u64) -> PrimaryId {
    PrimaryId { node: NodeId(node), incarnation: Incarnation(incarnation) }
}

/// A view that names these primaries.
fn view(generation: u64, primaries: &[PrimaryId]) -> View {
    let mirror = MirrorView { replicas: vec![ReplicaRecord::first(ReplicaId(1), NodeId(1))] };
    let geometry = Geometry { size: 1 << 20, block_size: 512, chunk: 65536 };
    let first = View::first(VolumeId(1), History(1), CoordinatorId(1), geometry, vec![mirror]);
    let record = |(slot, id): (usize, &PrimaryId)| PrimaryRecord { id: *id, slot: slot as u8 };
    View {
        generation: Generation(generation),
        primaries: primaries.iter().enumerate().map(record).collect(),
        ..first
    }
}

/// Whom a view of generation 9 waits for, whose adoption `adopter` has asked for.
fn awaited(of: &Confirmations, adopter: PrimaryId, follows: Follows) -> Vec<PrimaryId> {
    of.unaware(&view(9, &[adopter]), adopter, follows).map(|(primary, _)| primary).collect()
}

#[test]
fn an_older_primary_of_the_adopters_node_is_not_waited_for_if_it_was_known_before() {
    let (older, newer, other) = (primary(1, 5), primary(1, 6), primary(2, 7));
    let mut of = Confirmations::at_start(&view(1, &[older, other]), START);
    of.came(newer);
    assert_eq!(awaited(&of, newer, Follows::Directly), [other]);
    // The adopter has read a view of which this replica knows nothing, or of another epoch.
    assert_eq!(awaited(&of, newer, Follows::AfterOthers), [older, other]);
    assert_eq!(awaited(&of, newer, Follows::InAnotherEpoch), [older, other]);
    // For another node's primary it is one like any other.
    assert_eq!(awaited(&of, other, Follows::Directly), [older]);
}

#[test]
fn one_that_was_answered_since_is_waited_for() {
    let (older, newer) = (primary(1, 5), primary(1, 6));
    let mut of = Confirmations::at_start(&view(1, &[older]), START);
    of.came(newer);
    of.answered(older, START);
    assert_eq!(awaited(&of, newer, Follows::Directly), [older]);
}

#[test]
fn one_that_became_known_after_the_newer_one_had_come_is_waited_for() {
    let (older, newer) = (primary(1, 5), primary(1, 6));
    for is_shared in [false, true] {
        let mut of = Confirmations::at_start(&view(1, &[]), START);
        of.came(newer);
        let mut named = view(2, &[older]);
        named.intents.slots = if is_shared { 4 } else { 1 };
        of.follow(&named, START);
        of.answered(older, START);
        assert_eq!(awaited(&of, newer, Follows::Directly), [older], "shared: {is_shared}");
    }
}

#[test]
fn an_adopter_is_not_waited_for_itself() {
    let own = primary(1, 5);
    let of = Confirmations::at_start(&view(1, &[own]), START);
    for follows in [Follows::Directly, Follows::AfterOthers, Follows::InAnotherEpoch] {
        assert_eq!(awaited(&of, own, follows), []);
    }
}

#[test]
fn one_that_knows_of_the_view_is_not_waited_for_within_its_epoch() {
    let (other, adopter) = (primary(2, 7), primary(1, 6));
    let mut of = Confirmations::at_start(&view(1, &[other]), START);
    of.knows(other, Generation(8));
    assert_eq!(awaited(&of, adopter, Follows::AfterOthers), [other]);
    of.knows(other, Generation(9));
    assert_eq!(awaited(&of, adopter, Follows::AfterOthers), []);
    assert_eq!(awaited(&of, adopter, Follows::InAnotherEpoch), [other]);
}

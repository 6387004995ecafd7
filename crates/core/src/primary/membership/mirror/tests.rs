use super::*;
use crate::primary::invariants::tests::breaks;
use crate::view::tests::view;

#[test]
fn a_replica_keeps_its_place_in_the_sets_as_long_as_it_is_of_the_volume() {
    let mut mirror = view(1, 3).mirrors.remove(0);
    let mut peers = MirrorPeers::default();
    peers.update(&mirror, NodeId(1));
    assert_eq!((peers.members(), peers.in_sync(), peers.local()), (0b111, 0b111, 0b010));
    mirror.replicas.remove(0);
    mirror.replicas[0].state = ReplicaState::Rebuilding;
    peers.update(&mirror, NodeId(1));
    assert_eq!((peers.members(), peers.in_sync(), peers.local()), (0b110, 0b100, 0b010));
    let ids: Vec<_> = peers.ids(0b111).collect();
    assert_eq!(ids, [mirror.replicas[0].id, mirror.replicas[1].id]);
}

#[test]
fn sets_are_those_of_the_view() {
    let breaks_of = |label: &str, change: fn(&mut MirrorPeers)| {
        breaks(label, |primary| change(primary.informed().membership.mirror_mut(0)));
    };
    breaks_of("I4", |peers| peers.members |= 1 << 9);
    breaks_of("I4", |peers| peers.in_sync |= 1 << 9);
}

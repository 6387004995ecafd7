use core::time::Duration;

use super::*;
use crate::primary::invariants::tests::breaks;

const NOW: Instant = Instant(0);
const LINK: LinkId = LinkId(7);
const REPLICA: ReplicaId = ReplicaId(1);

/// Two replicas, to the first of which a link is up.
fn peers() -> Membership {
    let mut peers = Membership::new(NOW);
    for bit in 0..2 {
        let id = ReplicaId(u128::from(bit) + 1);
        let place = Place { id, node: NodeId(0), mirror: 0, bit };
        let peer = Peer::new(place, Duration::ZERO, Duration::ZERO, NOW);
        peers.known.insert(id, peer);
    }
    peers.get_mut(&REPLICA).expect("it is known").connect();
    peers.link_up(REPLICA, LINK, NOW).expect("it is wanted");
    peers.check_invariants();
    peers
}

#[test]
fn a_link_that_nobody_wants_is_not_taken() {
    let mut peers = peers();
    assert_eq!(peers.link_up(REPLICA, LinkId(8), NOW), None);
    assert_eq!(peers.link_up(ReplicaId(9), LinkId(8), NOW), None);
    assert_eq!((peers.at(LINK), peers.at(LinkId(8))), (Some(REPLICA), None));
    peers.check_invariants();
}

#[test]
fn a_link_that_was_closed_is_nobodys() {
    let mut peers = peers();
    assert_eq!((peers.close(ReplicaId(2)), peers.close(REPLICA)), (None, Some(LINK)));
    assert_eq!(peers.close(REPLICA), None);
    assert!(peers.at(LINK).is_none() && peers.link_ended(LINK).is_none());
    peers.check_invariants();
}

#[test]
fn closing_all_tells_each_link() {
    let mut peers = peers();
    assert_eq!(peers.close_all(NOW), [LINK]);
    assert_eq!(peers.close_all(NOW), []);
    peers.check_invariants();
}

#[test]
fn who_is_forgotten_is_told_with_its_link() {
    let mut peers = peers();
    let mut forgotten = Vec::new();
    peers.forget_removed(|_| false, |peer, link| forgotten.push((peer.id(), link)));
    assert_eq!(forgotten, [(REPLICA, Some(LINK)), (ReplicaId(2), None)]);
    peers.check_invariants();
}

#[test]
fn links_and_replicas_belong_together() {
    breaks("W2", |primary| primary.informed().membership.links.extend([(LinkId(99), REPLICA)]));
    breaks("W2", |primary| primary.informed().membership.links.clear());
}

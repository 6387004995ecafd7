use super::*;
use crate::harness::Blank;
use crate::primary::membership::peer::{Peer, Place};
use crate::trips::trips;

#[test]
fn nothing_is_done_without_a_view() {
    let mut unread: Unread<Blank> = Unread::new(Instant(0));
    unread.check_invariants();
    let place = Place { id: ReplicaId(1), node: NodeId(1), mirror: 0, bit: 0 };
    let peer = Peer::new(place, Duration::ZERO, Duration::ZERO, Instant(0));
    unread.membership.know(peer);
    trips("W3", || unread.check_invariants());
}

use super::*;
use crate::harness::Blank;
use crate::primary::invariants::tests::text_of;
use crate::primary::membership::peer::{Peer, Place};

#[test]
fn nothing_is_done_without_a_view() {
    let mut unread: Unread<Blank> = Unread::new(Instant(0));
    unread.check_invariants();
    let place = Place { id: ReplicaId(1), node: NodeId(1), mirror: 0, bit: 0 };
    let peer = Peer::new(place, Duration::ZERO, Duration::ZERO, Instant(0));
    unread.membership.know(peer);
    assert!(text_of(|| unread.check_invariants()).starts_with("W3: "));
}

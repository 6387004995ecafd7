//! What must hold of a primary's parts and its requests, peers and view after every step (see
//! [`crate::primary::invariants`]).

use super::Parts;
use super::part::Part;
use crate::payload::Payload;
use crate::primary::io::requests::Requests;
use crate::primary::membership::Membership;
use crate::primary::views::Views;

impl<P: Payload> Parts<P> {
    /// Panics if an invariant of parts does not hold.
    pub fn check_invariants(&self, requests: &Requests<P>, peers: &Membership, views: &Views) {
        for (sequence, part) in self.table.iter() {
            // A path is called drained when no request that came over it is under way.
            let is_known = requests.is_under_way(part.request());
            assert!(is_known, "I14: {sequence:?} is carried out for a request that is over");
            let is_unplaced = || self.table.is_unplaced(sequence);
            part.check_invariants(sequence, peers.mirror(part.mirror()), is_unplaced);
        }
        let unfinished = requests.unfinished_parts();
        let under_way = self.table.count();
        assert!(unfinished == under_way, "I11: {unfinished} of {under_way}");
        if views.adoption().is_over() {
            self.check_sent(peers);
        }
    }

    /// What a member has to carry out it has been sent, unless it refused that.
    fn check_sent(&self, peers: &Membership) {
        for peer in peers.values().filter(|peer| peer.is_ready() && !peer.has_refused()) {
            let of_mirror = self.table.of_mirror(peer.mirror());
            let mut unsent = of_mirror.filter(|(_, part)| part.unsent() & peer.bit() != 0);
            let unsent = unsent.next().map(|(sequence, _)| sequence);
            assert!(unsent.is_none(), "W2: {:?} is not sent {unsent:?}", peer.id());
        }
    }
}

/// A part is about to be answered with success: what that promises is so.
pub(super) fn check_acknowledged<P: Payload>(peers: &Membership, views: &Views, part: &Part<P>) {
    assert!(views.adoption().is_over(), "V2: an answer before all members have adopted the view");
    part.check_acknowledged(peers.mirror(part.mirror()), views.view().protocol);
}

#[cfg(test)]
mod tests;

//! What must hold of a primary's parts and its requests, peers and view after every step (see
//! [`crate::primary::invariants`]).

use crate::payload::Payload;
use crate::primary::io::Io;
use crate::primary::io::part::Part;
use crate::primary::membership::Membership;
use crate::primary::views::Views;

impl<P: Payload> Io<P> {
    pub(in crate::primary::io) fn check_parts(&self, peers: &Membership, views: &Views) {
        for (sequence, part) in self.parts.iter() {
            let is_unplaced = || self.parts.is_unplaced(sequence);
            part.check_invariants(sequence, peers.mirror(part.mirror()), is_unplaced);
        }
        let unfinished = self.requests.unfinished_parts();
        let under_way = self.parts.count();
        assert!(unfinished == under_way, "I11: {unfinished} of {under_way}");
        if views.adoption().is_over() {
            self.check_sent(peers);
        }
    }

    /// What a member has to carry out it has been sent, unless it refused that.
    fn check_sent(&self, peers: &Membership) {
        for peer in peers.values().filter(|peer| peer.is_ready() && !peer.has_refused()) {
            let of_mirror = self.parts.of_mirror(peer.mirror());
            let mut unsent = of_mirror.filter(|(_, part)| part.unsent() & peer.bit() != 0);
            let unsent = unsent.next().map(|(sequence, _)| sequence);
            assert!(unsent.is_none(), "W2: {:?} is not sent {unsent:?}", peer.id());
        }
    }

    /// A part is about to be answered with success: what that promises is so.
    pub(in crate::primary::io) fn check_acknowledged(
        &self,
        peers: &Membership,
        views: &Views,
        part: &Part<P>,
    ) {
        assert!(
            views.adoption().is_over(),
            "V2: an answer before all members have adopted the view"
        );
        let protocol = views.view().map(|view| view.protocol);
        part.check_acknowledged(peers.mirror(part.mirror()), protocol);
    }
}

#[cfg(test)]
mod tests;

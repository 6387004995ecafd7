//! Which requests can't be answered before the view changes.

use std::collections::BTreeSet;

use super::part::Part;
use super::placing::awaits_newest_view;
use super::{Below, Parts};
use crate::payload::Payload;
use crate::primary::Stage;
use crate::primary::io::requests::RequestNumber;
use crate::primary::membership::OutOfSync;
use crate::primary::membership::mirror::MirrorPeers;
use crate::primary::membership::peer::Peer;
use crate::primary::views::edits::{Edit, PendingEdit};

impl<P: Payload> Parts<P> {
    /// Keeps those of some requests that can't be answered before the view changes. One that waits
    /// for its range counts as soon as any other does: that may be the one it waits for.
    pub fn held_up(
        &self,
        below: &Below<'_, P>,
        stage: Stage,
        mut numbers: Vec<RequestNumber>,
    ) -> Vec<RequestNumber> {
        let mirrors: Vec<_> =
            below.peers.mirrors().iter().map(|m| self.is_mirror_held_up(below, m)).collect();
        let is_held_up =
            |part: &&Part<P>| mirrors[part.mirror()] || awaits_newest_view(below, part);
        let parts = self.table.values().filter(is_held_up).filter(|part| !part.is_answered());
        let begun: BTreeSet<_> = parts.map(|part| part.request()).collect();
        let is_eviction = |pending: &PendingEdit| matches!(pending.edit(), Edit::Evict(_));
        let is_any = mirrors.contains(&true)
            || !begun.is_empty()
            || below
                .views
                .calls()
                .edits()
                .iter()
                .chain(below.views.edits().iter())
                .any(is_eviction);
        let waiting: BTreeSet<_> = below.requests.unsent().filter(|_| is_any).collect();
        let is_all = !below.views.can_send(stage);
        numbers.retain(|number| is_all || begun.contains(number) || waiting.contains(number));
        numbers
    }

    /// Whether some member of a mirror has to leave before it goes on: every write waits for each
    /// of them, and reads wait for their confirmation.
    fn is_mirror_held_up(&self, below: &Below<'_, P>, mirror: &MirrorPeers) -> bool {
        let out_of_sync: OutOfSync<'_> = &|mirror| self.table.out_of_sync(mirror);
        let is_blocked = |peer: &Peer| peer.is_failing() || peer.has_refused();
        mirror.ids(mirror.members()).any(|id| {
            !below.peers.is_sound(id, out_of_sync) || below.peers.known(id).is_none_or(is_blocked)
        })
    }
}

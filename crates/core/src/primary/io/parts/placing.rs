//! To which replica a read goes: to a local one if it can answer, and to the one that has the
//! fewest reads to answer.

use crate::ids::*;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::primary::Context;
use crate::primary::io::{Io, Lower};
use crate::primary::membership::Lacking;
use crate::primary::membership::peer::Peer;

/// How many of the latest parts are looked at to see who has much to answer: more are seldom under
/// way, and each read looks.
const MAX_LOOKED_AT: usize = 128;

impl<P: Payload> Io<P> {
    /// Chooses replicas for reads that have none.
    pub fn place_reads(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        if !lower.views.can_send(cx.stage) {
            return;
        }
        for _ in 0..self.parts.unplaced() {
            if let Some(sequence) = self.parts.next_unplaced() {
                self.place_read(cx, lower, sequence);
            }
        }
    }

    pub(super) fn place_read(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        sequence: Sequence,
    ) {
        let Some(part) = self.parts.get(sequence) else {
            return; // Its client was told meanwhile that it has failed.
        };
        if part.was_refused() && (lower.views.wants_newest() || lower.views.calls().is_under_way())
        {
            return self.parts.await_replica(sequence);
        }
        let mirror = lower.peers.mirror(part.mirror());
        // One that failed a write lacks it; it is read only if there is no other one to drop it
        // for, and if nobody was told that the write succeeded.
        let is_last = mirror.in_sync().count_ones() == 1;
        let lacking: Lacking<'_> = &|mirror| self.parts.lacking(mirror);
        let is_usable = |id: &ReplicaId| {
            let may_read = |peer: &Peer| {
                peer.is_healthy()
                    && (!peer.is_failing() || is_last && lower.peers.is_sound(*id, lacking))
            };
            lower.peers.known(*id).is_some_and(may_read)
        };
        let choose = |set: ReplicaSet| {
            let usable: Vec<_> = mirror.ids(set & !part.failed()).filter(is_usable).collect();
            self.least_asked(lower, part.mirror(), &usable, sequence)
        };
        let chosen = choose(mirror.in_sync() & mirror.local()).or_else(|| choose(mirror.in_sync()));
        let bit = chosen.and_then(|id| lower.peers.known(id)).map_or(0, Peer::bit);
        let exhausted = mirror.in_sync() & !part.failed() == 0;
        if bit == 0 && self.accept_unverified(sequence) {
            return self.check_read(cx, lower, sequence);
        }
        if bit != 0 {
            self.parts.known_mut(sequence).into_iter().for_each(|part| part.place(bit, cx.now));
            self.send_unsent(cx, lower, sequence, bit);
        } else if !exhausted {
            self.parts.await_replica(sequence);
        } else if let Some(part) = self.parts.end(sequence) {
            // Those that could have read it have left since: the failure is the answer.
            self.part_answered(cx, part.request(), part.error());
            self.part_finished(part.request());
        }
    }

    /// Of these replicas, the one that has the fewest reads to answer; those that have as few take
    /// turns. So each disk gives what it can, also beside a slower one.
    fn least_asked(
        &self,
        lower: &Lower<'_>,
        mirror: usize,
        usable: &[ReplicaId],
        sequence: Sequence,
    ) -> Option<ReplicaId> {
        if usable.len() < 2 {
            return usable.first().copied();
        }
        let latest = self.parts.values().rev().take(MAX_LOOKED_AT);
        let asked = latest.filter(|part| part.mirror() == mirror && part.is_read());
        let mut reads = [0; ReplicaSet::BITS as usize + 1];
        // A set of one is the power of two of its place; a read that is not placed has none.
        asked.for_each(|part| reads[part.targets().trailing_zeros() as usize] += 1);
        let reads_of = |id: &ReplicaId| {
            let bit = lower.peers.known(*id).map_or(0, Peer::bit);
            reads[bit.trailing_zeros() as usize]
        };
        let turn = sequence.0 as usize % usable.len();
        let (before, after) = usable.split_at(turn);
        after.iter().chain(before).copied().min_by_key(reads_of)
    }
}

//! To which replica a read goes: to a local one if it can answer, and to the one that has the
//! fewest reads to answer.

use super::part::Part;
use super::{Below, Parts};
use crate::ids::*;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::primary::Context;
use crate::primary::membership::OutOfSync;
use crate::primary::membership::peer::Peer;

/// How many of the latest parts are looked at to see who has much to answer: more are seldom under
/// way, and each read looks.
const MAX_LOOKED_AT: usize = 128;

impl<P: Payload> Parts<P> {
    /// Chooses replicas for reads that have none.
    pub fn place_reads(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        if !below.views.can_send(cx.stage) {
            return;
        }
        for _ in 0..self.table.unplaced() {
            if let Some(sequence) = self.table.next_unplaced() {
                self.place_read(cx, below, sequence);
            }
        }
    }

    pub(super) fn place_read(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        sequence: Sequence,
    ) {
        let Some(part) = self.table.get(sequence) else {
            return; // Its client was told meanwhile that it has failed.
        };
        if awaits_newest_view(below, part) {
            return self.table.await_replica(sequence);
        }
        let bit = self
            .choose_replica(cx, below, sequence, part)
            .and_then(|id| below.peers.known(id))
            .map_or(0, Peer::bit);
        let exhausted = below.peers.mirror(part.mirror()).in_sync() & !part.failed() == 0;
        if bit != 0 {
            self.table.known_mut(sequence).into_iter().for_each(|part| part.place(bit, cx.now));
            self.send_unsent(cx, below, sequence, bit);
        } else if part.has_unverified() {
            self.await_or_accept(cx, below, sequence);
        } else if !exhausted {
            self.table.await_replica(sequence);
        } else if let Some(part) = self.table.end(sequence) {
            // Those that could have read it have left since: the failure is the answer.
            below.requests.part_answered(cx, part.request(), part.error());
            below.requests.part_finished(part.request());
        }
    }

    /// Which replica a read is asked of, if any can be asked at present.
    fn choose_replica(
        &self,
        cx: &Context<'_, P>,
        below: &Below<'_, P>,
        sequence: Sequence,
        part: &Part<P>,
    ) -> Option<ReplicaId> {
        let mirror = below.peers.mirror(part.mirror());
        // One that failed a write lacks it; it is read only if there is no other one to drop it
        // for, and if nobody was told that the write succeeded.
        let is_last = mirror.in_sync().count_ones() == 1;
        let out_of_sync: OutOfSync<'_> = &|mirror| self.table.out_of_sync(mirror);
        let is_usable = |id: &ReplicaId| {
            let may_read = |peer: &Peer| {
                peer.is_healthy()
                    && (!peer.is_failing() || is_last && below.peers.is_sound(*id, out_of_sync))
            };
            below.peers.known(*id).is_some_and(may_read)
        };
        let choose = |set: ReplicaSet| {
            let usable: Vec<_> = mirror.ids(set).filter(is_usable).collect();
            self.least_asked(below, part.mirror(), &usable, sequence)
        };
        let askable = part.may_be_read_from(cx.now, cx.config.settings.deadline);
        let askable = mirror.in_sync() & askable;
        choose(askable & mirror.local())
            .or_else(|| choose(askable))
            .or_else(|| late_one(below, part, askable))
    }

    /// Of these replicas, the one that has the fewest reads to answer; those that have as few take
    /// turns. So each disk gives what it can, also beside a slower one.
    fn least_asked(
        &self,
        below: &Below<'_, P>,
        mirror: usize,
        usable: &[ReplicaId],
        sequence: Sequence,
    ) -> Option<ReplicaId> {
        if usable.len() < 2 {
            return usable.first().copied();
        }
        let latest = self.table.values().rev().take(MAX_LOOKED_AT);
        let asked = latest.filter(|part| part.mirror() == mirror && part.is_read());
        let mut reads = [0; ReplicaSet::BITS as usize + 1];
        // A set of one is the power of two of its place; a read that is not placed has none.
        asked.for_each(|part| reads[part.targets().trailing_zeros() as usize] += 1);
        let reads_of = |id: &ReplicaId| {
            let bit = below.peers.known(*id).map_or(0, Peer::bit);
            reads[bit.trailing_zeros() as usize]
        };
        let turn = sequence.0 as usize % usable.len();
        let (before, after) = usable.split_at(turn);
        after.iter().chain(before).copied().min_by_key(reads_of)
    }
}

/// Who is asked though it is late, because nothing was read yet that anybody vouches for: within
/// two deadlines it answers, or its session ends.
fn late_one<P: Payload>(
    below: &Below<'_, P>,
    part: &Part<P>,
    askable: ReplicaSet,
) -> Option<ReplicaId> {
    let is_late = |id: &ReplicaId| below.peers.known(*id).is_some_and(Peer::is_only_late);
    let mut askable = below.peers.mirror(part.mirror()).ids(askable);
    if part.has_unverified() { askable.find(is_late) } else { None }
}

/// Whether a read waits until the newest view is known: a replica has refused it that was not just
/// adopting the present one. For a swap it does not wait.
pub(super) fn awaits_newest_view<P: Payload>(below: &Below<'_, P>, part: &Part<P>) -> bool {
    part.was_refused() && (below.views.wants_newest() || below.views.calls().is_reading())
}

//! Several primaries at once: what the oracles are told of them, and the lock by which their clients keep
//! out of each other's way, as a cluster's filesystem does.

use evenkeel_core::*;

use super::Cluster;
use crate::marks::Mark;
use crate::oracles::minimal::Primaries;
use crate::oracles::views;

impl Cluster {
    /// Whether another primary may be changing some of these sectors: what it has not been answered, or
    /// was told to have failed, may still come, as long as it is a primary.
    pub(super) fn is_locked(&self, primary: usize, first: u32, count: u32) -> bool {
        if !self.coordinator.newest().is_shared() && self.profile.primaries == 1 {
            return false;
        }
        let slot = &self.primaries[primary];
        let own = slot.core.status(self.nodes[slot.node].clock(self.now)).view;
        let views = [Some(self.coordinator.newest()), own.as_ref()];
        self.primaries.iter().enumerate().filter(|(other, _)| *other != primary).any(
            |(_, other)| {
                let may_act =
                    || other.alive || views.iter().flatten().any(|view| view.has_primary(other.id));
                let overlaps =
                    |(_, at, n): &(u32, u32, u32)| *at < first + count && first < *at + n;
                other.unsure.iter().any(overlaps) && may_act()
            },
        )
    }

    /// Whether a primary works by the newest view.
    pub(super) fn knows_newest(&self, primary: usize) -> bool {
        let slot = &self.primaries[primary];
        let view = slot.core.status(self.nodes[slot.node].clock(self.now)).view;
        view.is_some_and(|view| view.generation == self.coordinator.newest().generation)
    }

    /// A client asks for a change of these sectors.
    pub(super) fn begins_to_change(&mut self, primary: usize, change: (u32, u32, u32)) {
        self.primaries[primary].unsure.push(change);
        self.note_view_of(primary, change.0);
    }

    /// Notes by which view a primary works when it is asked for a change.
    pub(super) fn note_view_of(&mut self, primary: usize, write: u32) {
        let slot = &self.primaries[primary];
        let view = slot.core.status(self.nodes[slot.node].clock(self.now)).view;
        let generation = view.map_or(Generation(0), |view| view.generation);
        self.asked_in.insert(write, generation);
    }

    /// I8, and what has become of whom.
    pub(super) fn judge_primaries(&mut self, proposer: usize, before: &View) {
        let view = self.coordinator.newest().clone();
        let by = self.primaries[proposer].id;
        let verdict = views::check_primaries(before, &view, by);
        self.judge(verdict);
        self.note_reservations(before, &view);
        if view.is_shared() {
            self.lines.share();
        }
        let is_gone = |record: &&PrimaryRecord| !view.has_primary(record.id);
        let gone: Vec<_> =
            before.primaries.iter().filter(is_gone).map(|record| record.id).collect();
        let others_go_on =
            view.primaries.iter().any(|record| before.has_primary(record.id) && record.id != by);
        let is_new = view.has_primary(by) && !before.has_primary(by);
        let stays = before.primaries.iter().any(|record| view.has_primary(record.id));
        let mark = match (is_new, stays, gone.contains(&by)) {
            (true, true, _) => Some(Mark::Joined),
            (true, false, _) if !gone.is_empty() => Some(Mark::TakenOver),
            (_, _, true) if others_go_on => Some(Mark::LeftToOthers),
            _ if stays && !gone.is_empty() && !gone.contains(&by) => Some(Mark::Buried),
            _ => None,
        };
        mark.into_iter().for_each(|mark| self.marks.reach(mark));
    }

    /// Told to the oracle of what rebuilds copy: which replicas are in-sync now.
    pub(super) fn note_primaries(&mut self, states: &[(usize, bool)], before: &View) {
        let view = self.coordinator.newest();
        let is_present = |p: &usize| view.has_primary(self.primaries[*p].id);
        let present: Vec<_> = (0..self.primaries.len()).filter(is_present).collect();
        let stays = before.primaries.iter().any(|record| view.has_primary(record.id));
        let is_shared = view.is_shared() && stays;
        let are_others = before.primaries != view.primaries && !is_shared;
        let primaries = Primaries { present: &present, are_others };
        self.minimal.committed(states, primaries);
    }
}

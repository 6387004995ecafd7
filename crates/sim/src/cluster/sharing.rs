//! Several primaries at once: what the oracles learn of them, and the lock with which their clients
//! exclude each other, as a cluster filesystem does.

use evenkeel_core::*;

use super::Cluster;
use super::primaries::SimPrimary;
use crate::marks::Mark;
use crate::oracles::Violation;
use crate::oracles::minimal::Primaries;
use crate::oracles::views;
use crate::queue::Time;

/// When a replica answered a primary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    /// The last time.
    last: Time,
    /// The last time that this was the first answer after a long silence.
    after_silence: Time,
    /// Since when no two answers in a row were a lease apart.
    steady_since: Time,
}

impl Cluster {
    /// Whether another primary may be changing some of these sectors: what it has not been
    /// answered, or was told to have failed, may still come, as long as it is a primary.
    pub(super) fn is_locked(&self, primary: usize, first: u32, count: u32) -> bool {
        if !self.coordinator.newest().is_shared() && self.profile.primaries == 1 {
            return false;
        }
        let slot = &self.primaries[primary];
        let own = slot.core.view().cloned();
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
        let view = slot.core.view().cloned();
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
        let view = slot.core.view().cloned();
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
            _ if stays && !gone.is_empty() && !gone.contains(&by) => Some(Mark::Evicted),
            _ => None,
        };
        mark.into_iter().for_each(|mark| self.marks.reach(mark));
    }

    /// For how long a primary has to be silent before it may be evicted. The core waits for half a
    /// lease longer; clocks drift by far less.
    fn long_silence(&self) -> Time {
        self.profile.lease.time().as_nanos() as Time * 5 / 2
    }

    /// A replica answers a primary in the generation of both: neither is gone.
    pub(super) fn note_answer(&mut self, replica: usize, primary: usize, message: &Message) {
        if !matches!(message, Message::Pong { .. } | Message::Adopted { .. } | Message::Done { .. })
        {
            return;
        }
        let (now, silence) = (self.now, self.long_silence());
        let lease = self.profile.lease.time().as_nanos() as Time;
        let first = Answered { last: now, after_silence: now, steady_since: now };
        let answered = self.primaries[primary].answered.entry(replica).or_insert(first);
        if now - answered.last >= silence {
            answered.after_silence = now;
        }
        if now - answered.last >= lease {
            answered.steady_since = now;
        }
        answered.last = now;
    }

    /// I11: a primary that lives is evicted only if no member of the evicting one's view has
    /// answered it for long; or it came back too late for that to be known, or the evicting one did
    /// not hear all members all the time.
    pub(super) fn judge_evictions(&mut self, by: usize, next: &View) {
        let slot = &self.primaries[by];
        let Some(view) = slot.core.view().cloned() else {
            return;
        };
        if !view.has_primary(slot.id) || !next.has_primary(slot.id) {
            return; // It takes over, or leaves.
        }
        if self.coordinator.newest().generation != view.generation {
            return; // Whoever knows an old view is refused, and learns of the newest by that.
        }
        if self.profile.changes_lease() {
            return; // How long is long differs from view to view.
        }
        let (settings, lease) = (&self.profile.settings, self.profile.lease.time());
        let known_by = (settings.deadline * 4 + lease * 2).as_nanos() as Time;
        let members: Vec<_> = (0..self.replicas.len())
            .filter(|r| {
                let record = view.replica(self.replicas[*r].id);
                record.is_some_and(|(_, record)| record.state.takes_writes())
            })
            .collect();
        let (now, silence, node) = (self.now, self.long_silence(), slot.id.node);
        // Between two words that are a lease apart a primary may have been heard, unnoticed.
        let watched = (lease * 2).as_nanos() as Time;
        let is_steady = |r: &usize| {
            slot.answered.get(r).is_some_and(|answers| now - answers.steady_since >= watched)
        };
        if !members.iter().all(is_steady) {
            return;
        }
        let is_evicted =
            |p: &&SimPrimary| view.has_primary(p.id) && !next.has_primary(p.id) && p.alive;
        let mut verdict = Ok(());
        for evicted in self.primaries.iter().filter(is_evicted).filter(|p| p.id.node != node) {
            let answers = members.iter().filter_map(|r| evicted.answered.get(r));
            let is_fresh =
                |a: &&Answered| now - a.last < silence && now - a.after_silence > known_by;
            if let Some(answered) = answers.into_iter().find(is_fresh) {
                let ms = (now - answered.last) / 1_000_000;
                let text = format!(
                    "primary {by} evicts {:?}, which a member has answered {ms} ms ago",
                    evicted.id
                );
                verdict = Err(Violation::new("I11", text));
            }
            self.marks.reach(Mark::EvictedAlive);
        }
        self.judge(verdict);
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

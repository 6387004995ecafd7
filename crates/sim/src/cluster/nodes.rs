//! Nodes: processes and machines that start, stop, pause and keep time.

use std::ops::Range;

use evenkeel_core::{BootId, Instant};

use super::{Cluster, Event};
use crate::network::Party;
use crate::queue::{MILLISECOND, SECOND, Time};
use crate::random::Random;

/// A machine and the one process on it that matters.
#[derive(Debug)]
pub(super) struct Node {
    pub up: bool,
    /// Stays down for the rest of the run.
    pub dead: bool,
    /// Counts the incarnations of the process.
    pub starts: u32,
    pub boot: BootId,
    pub paused_until: Time,
    /// Until when the coordinator does not hear it, though others do.
    pub no_coordinator_until: Time,
    offset: u64,
    /// How far the clock is from the true rate, in parts per million.
    ppm: i64,
    /// When its clock stood still: only a canary's does.
    slept: Slept,
}

/// For how long a clock has stood still.
#[derive(Debug, Default)]
struct Slept {
    /// Before the last time.
    before: Time,
    /// The last time.
    last: Range<Time>,
}

impl Slept {
    /// For how long it has gone at a time.
    fn gone(&self, now: Time) -> Time {
        now - self.before - now.min(self.last.end).saturating_sub(self.last.start)
    }

    /// At which time it has gone for so long.
    fn time(&self, gone: Time) -> Time {
        let time = gone + self.before;
        if time <= self.last.start { time } else { time + (self.last.end - self.last.start) }
    }

    /// It stands still from now on.
    fn begins(&mut self, now: Time, until: Time) {
        if now > self.last.end {
            self.before += self.last.end - self.last.start;
            self.last.start = now;
        }
        self.last.end = until;
    }

    /// It goes on.
    fn ends(&mut self, now: Time) {
        self.last.end = self.last.end.min(now).max(self.last.start);
    }
}

impl Node {
    pub fn new(random: &mut Random, ppm: i64) -> Self {
        let mut node = Self {
            up: false,
            dead: false,
            starts: 0,
            boot: BootId(0),
            paused_until: 0,
            no_coordinator_until: 0,
            offset: 0,
            ppm,
            slept: Slept::default(),
        };
        node.boots(random);
        node
    }

    /// The machine starts anew: another boot, another clock.
    fn boots(&mut self, random: &mut Random) {
        self.boot = BootId(u128::from(random.bits()));
        self.offset = random.below(1000 * SECOND);
    }

    /// What the node's clock says at a time.
    pub fn clock(&self, now: Time) -> Instant {
        let scaled =
            i128::from(self.slept.gone(now)) * i128::from(1_000_000 + self.ppm) / 1_000_000;
        Instant(self.offset + scaled as u64)
    }

    /// At which time the node's clock has reached a moment.
    pub fn time(&self, moment: Instant) -> Time {
        let elapsed = i128::from(moment.0.saturating_sub(self.offset));
        let gone = u64::try_from(elapsed * 1_000_000 / i128::from(1_000_000 + self.ppm) + 2);
        gone.map_or(u64::MAX, |gone| self.slept.time(gone))
    }

    /// The process stands still until then. With `unseen`, so does its clock.
    pub fn pauses(&mut self, now: Time, until: Time, unseen: bool) {
        self.paused_until = until;
        if unseen {
            self.slept.begins(now, until);
        }
    }

    /// It does not stand still any more.
    pub fn wakes(&mut self, now: Time) {
        self.paused_until = self.paused_until.min(now);
        self.slept.ends(now);
    }
}

impl Cluster {
    pub(super) fn node_starts(&mut self, node: usize, starts: u32) {
        if self.nodes[node].starts != starts || self.nodes[node].dead || self.nodes[node].up {
            return;
        }
        self.nodes[node].up = true;
        self.log(|| format!("node {node} starts"));
        if self.coordinator.stopped {
            return;
        }
        for replica in 0..self.replicas.len() {
            if self.replicas[replica].node == node {
                let at = self.now + self.random.below(2 * MILLISECOND);
                let starts = self.replicas[replica].starts;
                self.queue.push(at, Event::ReplicaStarts { replica, starts });
            }
        }
    }

    /// The process ends; with `power`, the machine does.
    pub(super) fn stop_node(&mut self, node: usize, power: bool) {
        self.log(|| format!("node {node} {}", if power { "loses power" } else { "is killed" }));
        let (random, now) = (&mut self.random, self.now);
        let stopped = &mut self.nodes[node];
        stopped.up = false;
        stopped.starts += 1;
        stopped.wakes(now);
        stopped.paused_until = 0;
        if power {
            stopped.boots(random);
        }
        for primary in 0..self.primaries.len() {
            if self.primaries[primary].node == node {
                self.primary_dies(primary, power);
            }
        }
        for replica in 0..self.replicas.len() {
            if self.replicas[replica].node == node {
                self.replica_dies(replica, power);
            }
        }
    }

    /// Lets the process start after this pause.
    pub(super) fn start_node_after(&mut self, node: usize, pause: Time) {
        let starts = self.nodes[node].starts;
        self.queue.push(self.now + pause, Event::NodeStarts { node, starts });
    }

    /// All links of a party break. A killed process closes them at once; a machine without power
    /// leaves the other ends in the dark.
    pub(super) fn drop_links(&mut self, party: Party, silent: bool) {
        for link in self.network.links_of(|other| other == party) {
            let Some(mine) = self.network.end_of(link, party) else { continue };
            if let Some(link) = self.network.links.get_mut(&link) {
                link.ends[mine].open = false;
                link.ends[mine].incoming.clear();
            }
            let darkness = if silent {
                self.random.between(1, 2 * self.profile.settings.deadline.as_nanos() as u64)
            } else {
                self.random.below(MILLISECOND)
            };
            self.cut_link(link, darkness);
        }
    }
}

#[cfg(test)]
mod tests;

//! Cloned identities: the state directory of a node is copied to another machine (a cloned virtual
//! machine, a restored backup), and the daemon there attaches the volume as that node, while the
//! node's own primary is cut off. The disks stay where they are; for stale clones of these see
//! [`copies`](super::copies).
//!
//! The two primaries have the same node and different incarnations. The lock on the state directory
//! proves to neither that the other one has ended ([`Earlier`]): it is waited for until no replica
//! has answered it for its lease. That the coordinator refuses the copy while the node itself is
//! heard is simulated with the coordinator; here it lets both ask, as it does when the node is cut
//! off from it for long enough.

use evenkeel_core::primary::Earlier;
use evenkeel_core::{NodeId, PrimaryId};

use super::{Cluster, Event};
use crate::marks::Mark;
use crate::queue::Time;
use crate::sabotage::Sabotage;

/// How often a copy tries to attach the volume, after the first time.
const MORE_TRIES: u64 = 2;

/// How often a client reads in the last quarter of the lease of a primary that is cut off.
const LAST_READS: u64 = 24;

impl Cluster {
    /// The node of a primary is copied, and cut off from the coordinator or from all other nodes.
    /// The copy attaches the volume meanwhile.
    pub(super) fn clone_node(&mut self) {
        let lease = self.profile.lease.time().as_nanos() as Time;
        let leases = self.random.between(1, 8);
        let from_all = self.random.chance(700);
        let more: Vec<_> = (0..MORE_TRIES).map(|_| self.random.below(lease * leases)).collect();
        let Some(primary) = self.serving_primary() else { return };
        let PrimaryId { node: identity, .. } = self.primaries[primary].id;
        let is_free = |node: &usize| self.nodes[*node].up && !self.is_taken(*node);
        let free: Vec<_> = (0..self.nodes.len()).filter(is_free).collect();
        if free.is_empty() || self.now < self.next_cut {
            return;
        }
        let machine = self.random.pick(&free);
        self.cloned.insert(identity);
        self.log(|| format!("   node {} runs on node {machine}, too", identity.0 - 1));
        if from_all {
            self.cut_off(primary, leases);
            // A copy serves no sooner than it has given up the replica that it does not reach.
            for read in 0..LAST_READS {
                let pause = lease * 3 / 4 + lease / 4 * read / LAST_READS;
                self.queue.push(self.now + pause, Event::Reads { primary });
            }
        } else {
            let own = self.primaries[primary].node;
            self.nodes[own].no_coordinator_until = self.now + lease * leases;
        }
        self.copy_attaches(machine, identity);
        for pause in more {
            self.queue.push(self.now + pause, Event::CopyAttaches { machine, identity });
        }
    }

    pub(super) fn copy_attaches(&mut self, machine: usize, identity: NodeId) {
        let is_possible = self.faulty && self.nodes[machine].up && self.coordinator.is_usable();
        if is_possible && !self.is_taken(machine) && self.living_primaries().count() < 3 {
            self.attach_as(machine, identity);
        }
    }

    /// What a daemon knows of earlier primaries of its node. The lock proves that those have ended
    /// which ran on its own machine.
    pub(super) fn earlier(&self, machine: usize, identity: NodeId) -> Earlier {
        if !self.cloned.contains(&identity) || self.sabotage == Some(Sabotage::TrustClones) {
            return Earlier::Ended;
        }
        let mut own = self.primaries.iter().filter(|p| p.node == machine && p.id.node == identity);
        own.next_back().map_or(Earlier::MayLive, |last| Earlier::OneEnded(last.id.incarnation))
    }

    /// Another primary of the same node that lives elsewhere.
    fn twin(&self, primary: usize) -> Option<usize> {
        let id = self.primaries[primary].id;
        self.living_primaries().find(|p| *p != primary && self.primaries[*p].id.node == id.node)
    }

    /// A primary begins to serve.
    pub(super) fn note_twin_serves(&mut self, primary: usize) {
        if self.twin(primary).is_some() {
            self.marks.reach(Mark::TwinServed);
        }
    }

    /// A primary was not let in.
    pub(super) fn note_twin_refused(&mut self, primary: usize) {
        if self.twin(primary).is_some() {
            self.marks.reach(Mark::TwinRefused);
        }
    }
}

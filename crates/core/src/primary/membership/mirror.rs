//! The replicas of one mirror, as the sets in which they are counted.

use crate::ids::*;
use crate::policy::ReplicaSet;
use crate::view::{MirrorView, ReplicaState};

/// The replicas of one mirror as sets, in which each has a bit.
#[derive(Debug, Default, Clone)]
pub(in crate::primary) struct MirrorPeers {
    /// Which replica has which bit.
    bits: [Option<ReplicaId>; 16],
    members: ReplicaSet,
    in_sync: ReplicaSet,
    /// Those on the primary's node.
    local: ReplicaSet,
}

impl MirrorPeers {
    /// Who takes writes by the view.
    #[inline]
    pub fn members(&self) -> ReplicaSet {
        self.members
    }

    #[inline]
    pub fn in_sync(&self) -> ReplicaSet {
        self.in_sync
    }

    /// Those on the primary's node.
    #[inline]
    pub fn local(&self) -> ReplicaSet {
        self.local
    }

    /// Takes over what a view says; bits of replicas that stay do not change.
    pub fn update(&mut self, mirror: &MirrorView, here: NodeId) {
        for holder in &mut self.bits {
            if holder.is_some_and(|id| !mirror.replicas.iter().any(|r| r.id == id)) {
                *holder = None;
            }
        }
        (self.members, self.in_sync, self.local) = (0, 0, 0);
        for record in &mirror.replicas {
            let bit = self.bit_for(record.id).map_or(0, |bit| 1 << bit);
            self.members |= if record.state.takes_writes() { bit } else { 0 };
            self.in_sync |= if record.state == ReplicaState::InSync { bit } else { 0 };
            self.local |= if record.node == here { bit } else { 0 };
        }
    }

    /// The number of a replica's bit; a free one is taken if it has none yet. There is one: no
    /// valid view has more replicas in a mirror than there are bits.
    pub fn bit_for(&mut self, id: ReplicaId) -> Option<u32> {
        let position = |wanted| self.bits.iter().position(|holder| *holder == wanted);
        let bit = position(Some(id)).or_else(|| position(None));
        debug_assert!(bit.is_some(), "{id:?} is one too many");
        let bit = bit?;
        self.bits[bit] = Some(id);
        Some(bit as u32)
    }

    /// Panics if these are not the sets of a view's mirror.
    pub fn check_invariants(&self, mirror: &MirrorView, here: NodeId) {
        assert!(self.in_sync & !self.members == 0, "I4: who is in-sync is a member");
        let mut expected = self.clone();
        expected.update(mirror, here);
        let sets = |peers: &Self| (peers.members, peers.in_sync, peers.local);
        assert!(sets(self) == sets(&expected), "I4: the members are not those of the view");
    }

    /// The replicas of a set, in the order of their bits.
    pub fn ids(&self, set: ReplicaSet) -> impl Iterator<Item = ReplicaId> {
        self.bits
            .iter()
            .enumerate()
            .filter(move |(bit, _)| set >> bit & 1 == 1)
            .filter_map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests;

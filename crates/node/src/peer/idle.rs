//! Connections that are kept for further requests.

use std::collections::HashMap;

use crate::config::Address;

/// Connections kept to one address, at most.
const MAX_KEPT: usize = 4;

/// Which of this node's certificates a connection was made with: the first, the second, …
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Proof(u64);

/// Connections that nobody uses at present.
#[derive(Debug)]
pub(super) struct Idle<C> {
    proof: Proof,
    kept: HashMap<Address, Vec<C>>,
}

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Self { proof: Proof::default(), kept: HashMap::new() }
    }
}

impl<C> Idle<C> {
    /// What proves a connection that is begun now.
    pub(super) const fn proof(&self) -> Proof {
        self.proof
    }

    /// The node has a new certificate: no connection is used again that another one has proved, be
    /// it kept or in use now.
    pub(super) fn proved_anew(&mut self) {
        self.proof.0 += 1;
        self.kept.clear();
    }

    /// Keeps a connection that was begun with this proof, unless there are enough.
    pub(super) fn keep(&mut self, address: &Address, proof: Proof, connection: C) {
        if proof != self.proof {
            return;
        }
        let kept = self.kept.entry(address.clone()).or_default();
        if kept.len() < MAX_KEPT {
            kept.push(connection);
        }
    }

    /// Takes a connection to this address for which `is_wanted` holds; drops those that ended.
    pub(super) fn take(
        &mut self,
        address: &Address,
        has_ended: impl Fn(&C) -> bool,
        is_wanted: impl Fn(&C) -> bool,
    ) -> Option<C> {
        let kept = self.kept.get_mut(address)?;
        kept.retain(|connection| !has_ended(connection));
        let ready = kept.iter().position(is_wanted)?;
        Some(kept.swap_remove(ready))
    }

    /// Drops connections.
    pub(super) fn drop_those(&mut self, is_dropped: impl Fn(&C) -> bool) {
        for kept in self.kept.values_mut() {
            kept.retain(|connection| !is_dropped(connection));
        }
    }
}

#[cfg(test)]
mod tests;

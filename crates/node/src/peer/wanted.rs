//! Whom a connection is meant to reach.

use evenkeel_coordinator::NodeLiveness;

use super::PeerError;
use super::hello::Host;
use crate::config::Address;

/// Whom a connection is meant to reach. Whoever listens proves who it is, and that is compared with
/// this: a member that answers at the address of another one is no other one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// This node.
    Node {
        /// Its identity.
        id: String,
        /// Its name.
        name: String,
    },
    /// Whoever listens there, if it belongs to the cluster: an operator has given the address to
    /// `node join`, or the coordinator's node has never been spoken to. Nobody else is known there.
    Anyone,
}

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub struct Destination<'a> {
    /// Where somebody listens.
    pub address: &'a Address,
    /// Who it has to be.
    pub wanted: &'a Wanted,
}

impl Wanted {
    /// A member.
    #[must_use]
    pub fn member(member: &NodeLiveness) -> Self {
        Self::Node { id: member.node.id.clone(), name: member.node.name.clone() }
    }

    /// Whether a host that has been connected to is wanted, by its identity.
    pub(super) fn is(&self, host: &Host) -> bool {
        match self {
            Self::Node { id, .. } => host.node.to_string() == *id,
            Self::Anyone => true,
        }
    }

    /// Refuses a host that is another node. A name counts only where it is proved, by a
    /// certificate: else it may have been changed since it was heard of.
    ///
    /// # Errors
    /// Says who was wanted, and who is there.
    pub(super) fn check(
        &self,
        host: &Host,
        is_name_proved: bool,
        address: &Address,
    ) -> Result<(), PeerError> {
        let Self::Node { name, .. } = self else { return Ok(()) };
        let is_named = !is_name_proved || host.name == *name;
        if self.is(host) && is_named {
            return Ok(());
        }
        let found = match host.name == *name {
            true => format!("another node of that name ({})", host.node),
            false => format!("node {}", host.name),
        };
        Err(PeerError::Another { address: address.to_string(), wanted: name.clone(), found })
    }
}

#[cfg(test)]
mod tests;

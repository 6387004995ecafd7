//! Hosts: who asks, and who is permitted.

use std::collections::BTreeSet;

/// A host, as it named itself when it connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// HOSTID.
    pub identifier: [u8; 16],
    /// HOSTNQN.
    pub name: String,
}

/// Which hosts may connect, by their names; nobody at first. A name is what a host says of itself;
/// whether it has to prove it is not decided here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    everyone: bool,
    names: BTreeSet<String>,
}

impl Hosts {
    /// Each host: for discovery, which shows a host only what it may connect to.
    #[must_use]
    pub const fn everyone() -> Self {
        Self { everyone: true, names: BTreeSet::new() }
    }

    /// Those with these names.
    #[must_use]
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        Self { everyone: false, names: names.into_iter().collect() }
    }

    /// Whether the host of this name may connect.
    #[must_use]
    pub fn admit(&self, name: &str) -> bool {
        self.everyone || self.names.contains(name)
    }
}

//! Hosts: who asks, and who is permitted.

use std::collections::BTreeSet;

use crate::nvme::command::ConnectData;

/// A host, as it named itself when it connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// HOSTID.
    pub identifier: [u8; 16],
    /// HOSTNQN.
    pub name: String,
}

impl Host {
    /// Whether it is the one that says this.
    pub(super) fn is(&self, data: &ConnectData<'_>) -> bool {
        self.identifier == data.host && self.name == data.host_name
    }
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

    /// Those that one of these admits.
    #[must_use]
    pub fn union<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut union = Self::default();
        for hosts in all {
            union.everyone |= hosts.everyone;
            union.names.extend(hosts.names.iter().cloned());
        }
        union
    }

    /// Whether the host of this name may connect.
    #[must_use]
    pub fn admit(&self, name: &str) -> bool {
        self.everyone || self.names.contains(name)
    }
}

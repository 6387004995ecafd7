//! Where a volume is meant to be attached, as the coordinator keeps it beside the view.
//!
//! A view says where a volume is attached. A node that is down, was restarted or was evicted is not
//! in the view, but may be meant to attach the volume again. Each swap says what its node intends,
//! and the same transaction stores it.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_core::{NodeId, View};
use serde::{Deserialize, Serialize};

use crate::VolumeRecord;

/// By the node's identity: how the volume is meant to be shown there, or `None` where that was
/// taken back. Of a node that is not in it nothing is known: software that notes nothing ran there,
/// or it never attached the volume.
pub type WantedOn = BTreeMap<String, Option<Shown>>;

/// How a volume is shown where it is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// As a block device.
    pub device: bool,
    /// As an NBD export.
    #[serde(default)]
    pub nbd: Option<WantedNbd>,
    /// As an NVMe export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<WantedNvme>,
    /// What of this was made to mount the volume. `None`: nothing, or older software noted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<ForMount>,
}

/// How many mounts are known by which one device is used: of more the oldest is forgotten, whose
/// device the kernel keeps if it is mounted.
const MAX_MOUNTS: usize = 16;

/// What was made for a mount: `umount` takes away as much, and no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForMount {
    made: Made,
    /// The mount that it was made for, or the oldest of those that have it.
    token: String,
    /// The mounts that have found it made, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<String>,
}

impl ForMount {
    /// Made for the mount with this token.
    #[must_use]
    pub const fn new(made: Made, token: String) -> Self {
        Self { made, token, others: Vec::new() }
    }

    /// How much it is.
    #[must_use]
    pub const fn made(&self) -> Made {
        self.made
    }

    /// Its device alone from now on: somebody else wants it attached.
    pub const fn leave_attachment(&mut self) {
        self.made = Made::Device;
    }

    /// Whether the mount with this token is the only one that has it.
    #[must_use]
    pub fn is_only_for(&self, token: &str) -> bool {
        self.token == token && self.others.is_empty()
    }

    /// The mount with this token has it, too.
    pub fn add(&mut self, token: String) {
        if self.token == token || self.others.contains(&token) {
            return;
        }
        self.others.push(token);
        if self.others.len() >= MAX_MOUNTS {
            self.token = self.others.remove(0);
        }
    }

    /// The mount with this token has failed. The last one stays, for whoever takes away what it
    /// has.
    pub fn remove(&mut self, token: &str) {
        self.others.retain(|other| other != token);
        if self.token == token && !self.others.is_empty() {
            self.token = self.others.remove(0);
        }
    }
}

/// What of the use of a volume was made for a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    /// Its block device: it was attached before.
    Device,
    /// All of it: it was attached to be mounted.
    Attachment,
}

/// An NBD export to be made again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedNbd {
    /// On TCP as well.
    pub tcp: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Who may use it on TCP: names of which a client's certificate has to have one. None: all whom
    /// the node lets connect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
}

/// An NVMe export to be made again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedNvme {
    /// NQNs of the hosts that may use it; nobody else may.
    pub hosts: Vec<String>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// The keys of those hosts that have to prove who they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, NvmeKeys>,
}

/// The keys by which a host and the controllers of an export know each other, as text. They are not
/// shown in logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmeKeys {
    /// Proves the host.
    pub host: String,
    /// Proves the controllers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
}

impl fmt::Debug for NvmeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NvmeKeys")
    }
}

/// What a swap says of where its volume is meant to be attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wish {
    /// On the node that asks, if this swap adds its primary.
    Here(Shown),
    /// Not there any more, if this swap drops its primary: it is detached for good.
    NoMore,
    /// Where it was before: it is attached in passing, or its daemon ends and the next one attaches
    /// it.
    AsBefore,
}

/// Whether primaries come or go by a swap.
pub(crate) fn concerns(newest: &View, next: &View) -> bool {
    let is_new = |view: &View, other: &View| {
        view.primaries.iter().any(|primary| !other.has_primary(primary.id))
    };
    is_new(next, newest) || is_new(newest, next)
}

impl VolumeRecord {
    /// Follows a swap by this node. A volume that is not shared is meant for whoever attached it
    /// last. Software that says nothing leaves unknown what is meant.
    pub(crate) fn follow(&mut self, newest: &View, next: &View, by: NodeId, wish: Option<Wish>) {
        if wish == Some(Wish::AsBefore) {
            return;
        }
        let by = by.to_string();
        let joined = next.primaries.iter().find(|primary| !newest.has_primary(primary.id));
        if let Some(joined) = joined {
            let user = joined.id.node.to_string();
            let others = self.wanted_on.iter_mut().filter(|(node, _)| **node != user);
            others.filter(|_| !next.is_shared()).for_each(|(_, shown)| *shown = None);
            self.used_on = Some(user);
        }
        let has_left = newest.primaries.iter().any(|primary| primary.id.node.to_string() == by);
        match (wish, joined) {
            (None, _) => drop(self.wanted_on.remove(&by)),
            (Some(Wish::Here(shown)), Some(_)) => drop(self.wanted_on.insert(by, Some(shown))),
            (Some(Wish::NoMore), None) if has_left => drop(self.wanted_on.insert(by, None)),
            _ => {}
        }
    }

    /// It is not meant to be attached anywhere any more.
    pub(crate) fn is_wanted_nowhere(&mut self) {
        self.wanted_on.values_mut().for_each(|shown| *shown = None);
    }
}

#[cfg(test)]
mod tests;

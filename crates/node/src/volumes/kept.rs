//! What the coordinator keeps of a volume's replicas beside the verdict of its last verify: so
//! every node tells it, and it outlives detaches and restarts.
//!
//! Older software reads the verdict alone, and passes over what stands beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::lock;
use crate::coordinator::VolumeRecord;
use crate::volumes::Node;

/// Of so many replicas it is kept; a volume has at most as many at a time.
const MAX_REPLICAS: usize = 256;

/// A kind of thing that is kept.
pub(super) trait Kind: Serialize + DeserializeOwned {
    /// The field of what the coordinator keeps of verifies in which it stands.
    const KEY: &'static str;
    /// What it is called where people read of it.
    const NAME: &'static str;
}

/// What is kept of each replica, by its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept<K>(BTreeMap<String, K>);

impl<K> Default for Kept<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Kind> Kept<K> {
    /// What the coordinator keeps. If that can't be read, it is nothing, which the node's status
    /// says.
    pub(super) fn of(node: &Node, record: &VolumeRecord) -> Self {
        Self::read(record).unwrap_or_else(|error| {
            if node.volumes.unreadable.is_new(&record.id, K::KEY) {
                node.warn(unreadable::<K>(&record.name, &error));
            }
            Self::default()
        })
    }

    /// # Errors
    /// If it has another form than this software knows.
    pub(super) fn read(record: &VolumeRecord) -> Result<Self, serde_json::Error> {
        let kept = record.verified.as_ref().and_then(|kept| kept.get(K::KEY)).cloned();
        Ok(Self(kept.map(serde_json::from_value).transpose()?.unwrap_or_default()))
    }

    /// What is kept of this replica.
    pub(super) fn get(&self, replica: &str) -> Option<&K> {
        self.0.get(replica)
    }

    /// Keeps this of a replica; `merge`: with what is kept of it already.
    pub(super) fn note(&mut self, replica: String, new: K, merge: impl FnOnce(&mut K, K)) {
        match self.0.get_mut(&replica) {
            Some(before) => merge(before, new),
            None => drop(self.0.insert(replica, new)),
        }
        while self.0.len() > MAX_REPLICAS {
            self.0.pop_first();
        }
    }

    /// Forgets all but these.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(&str, &K) -> bool) {
        self.0.retain(|replica, kept| stays(replica, kept));
    }

    /// Puts it into what the coordinator is to keep.
    pub(super) fn put_into(&self, verified: &mut Value) {
        if let Some(verified) = verified.as_object_mut() {
            verified.insert(K::KEY.to_owned(), json!(self.0));
        }
    }
}

fn unreadable<K: Kind>(volume: &str, error: &serde_json::Error) -> String {
    let name = K::NAME;
    format!(
        "{name} of volume {volume} are not shown: the coordinator keeps them in a form that this \
         node's software does not know ({error}); update the node, or verify the volume again"
    )
}

/// What could not be read, by the volume's identity and the field: each is told once.
#[derive(Debug, Default)]
pub(super) struct Unreadable(Mutex<BTreeSet<(String, &'static str)>>);

impl Unreadable {
    fn is_new(&self, volume: &str, key: &'static str) -> bool {
        lock(&self.0).insert((volume.to_owned(), key))
    }
}

#[cfg(test)]
mod tests;

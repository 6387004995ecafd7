//! The first transaction of a coordinator: finds its cluster in the store, or creates it.

use std::collections::BTreeMap;

use evenkeel_core::CoordinatorId;

use crate::liveness;
use crate::store::{Commit, Guard, Key, Outcome, Range, Space, Store, StoreError, Write};

/// Why a coordinator does not use a store.
#[derive(Debug, thiserror::Error)]
pub enum FoundingError {
    /// The store reported an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was made for another cluster.
    #[error(
        "the coordinator's database belongs to cluster {stored:?} and the configuration says {configured:?}: set `cluster` to the former, or use another state directory"
    )]
    OtherCluster {
        /// The name of the cluster in the store.
        stored: String,
        /// The name of the cluster in the configuration.
        configured: String,
    },
}

/// The cluster that a store holds when a coordinator starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// The cluster's identity for its views.
    pub id: CoordinatorId,
    /// Its name.
    pub name: String,
    /// All members.
    pub members: Vec<String>,
    /// For how long those were silent of which it was counted.
    pub silent: BTreeMap<String, liveness::Entry>,
}

/// Finds the cluster of this name in a store; makes it with `id` if there is none.
///
/// # Errors
/// If the store cannot be used, or belongs to another cluster.
pub fn found<S: Store>(
    store: &S,
    configured: &str,
    id: CoordinatorId,
) -> Result<Cluster, FoundingError> {
    loop {
        let mut snapshot = store.snapshot()?;
        let known = store.read(&mut snapshot, &Range::Space(Space::Cluster))?;
        let get = |key: &str| known.get(key).map(|entry| text(&entry.value)).transpose();
        // Renamed since it was configured so; else it is another cluster's.
        let is_renamed = get("configured")?.is_some_and(|before| before == configured);
        let name = get("name")?.unwrap_or_else(|| configured.into());
        if name != configured && !is_renamed {
            let configured = configured.into();
            return Err(FoundingError::OtherCluster { stored: name, configured });
        }
        let id = match get("id")? {
            Some(id) => id.parse().map_err(|_| StoreError::Content(id))?,
            None => id,
        };
        let now =
            [("id", id.to_string()), ("name", name.clone()), ("configured", configured.to_owned())];
        let writes: Vec<_> = now
            .into_iter()
            .filter(|(key, value)| {
                known.get(*key).is_none_or(|entry| entry.value != value.as_bytes())
            })
            .map(|(key, value)| Write {
                key: Key::new(Space::Cluster, key),
                value: Some(value.into_bytes()),
            })
            .collect();
        let guard = |key| Guard::Key(Key::new(Space::Cluster, key), known.get(key).cloned());
        let guards = ["id", "name", "configured"].map(guard).to_vec();
        if writes.is_empty() || store.commit(&Commit { guards, writes })? == Outcome::Committed {
            let (members, silent) = listed(store, &mut snapshot)?;
            return Ok(Cluster { id, name, members, silent });
        }
    }
}

type Listed = (Vec<String>, BTreeMap<String, liveness::Entry>);

fn listed<S: Store>(store: &S, snapshot: &mut S::Snapshot) -> Result<Listed, StoreError> {
    let members = store.read(snapshot, &Range::Space(Space::Nodes))?;
    let mut silent = BTreeMap::new();
    for (node, entry) in store.read(snapshot, &Range::Space(Space::Silent))? {
        let milliseconds = text(&entry.value)?;
        let milliseconds = milliseconds.parse().map_err(|_| StoreError::Content(milliseconds))?;
        let revision = Some(entry.revision);
        silent.insert(node, liveness::Entry { milliseconds, revision });
    }
    Ok((members.into_keys().collect(), silent))
}

fn text(value: &[u8]) -> Result<String, StoreError> {
    let text = String::from_utf8(value.to_vec());
    text.map_err(|error| StoreError::Content(error.to_string()))
}

//! Copies the state of a worker for status displays and metrics.

use std::collections::HashMap;

use super::Worker;
use super::link::{Link, Transport};
use crate::api::{LinkStatus, OpenReplicaStatus, VolumeRebuilds, VolumeStatus, WorkerStatus};
use crate::counters::WorkerCounters;
use crate::slab::Key;

impl Worker {
    pub(super) fn worker_status(&self) -> WorkerStatus {
        // One look at all links, not one for each volume: this holds up the data path.
        let mut links: HashMap<Key, Vec<LinkStatus>> = HashMap::new();
        for (_, link) in self.links.iter().filter(|(_, link)| is_connection(link)) {
            links.entry(link.volume).or_default().push(status_of(link));
        }
        let volumes = self.volumes.keys().into_iter().filter_map(|key| {
            let links = links.remove(&key).unwrap_or_default();
            self.status_with(key, links)
        });
        WorkerStatus {
            worker: self.index,
            counters: WorkerCounters { system_calls: self.ring.system_calls, ..self.counters },
            memory: self.pool.in_use(),
            volumes: volumes.collect(),
        }
    }

    pub(super) fn volume_status(&self, key: Key) -> Option<VolumeStatus> {
        let links = self.links.iter().map(|(_, link)| link);
        let ours = links.filter(|link| link.volume == key && is_connection(link));
        self.status_with(key, ours.map(status_of).collect())
    }

    /// The rebuilds of the volumes that are attached.
    pub(super) fn rebuilds(&self) -> VolumeRebuilds {
        let primaries = self.volumes.iter().filter_map(|(_, volume)| {
            let rebuilds = volume.primary.as_ref()?.core.rebuilds();
            (!rebuilds.is_empty()).then_some((volume.id, rebuilds))
        });
        primaries.collect()
    }

    fn status_with(&self, key: Key, links: Vec<LinkStatus>) -> Option<VolumeStatus> {
        let volume = self.volumes.get(key)?;
        let frontends = volume.frontends.iter().filter_map(|key| self.frontends.get(*key));
        Some(VolumeStatus {
            volume: volume.id,
            primary: volume.primary.as_ref().map(|primary| primary.core.status(self.now)),
            counters: volume.counters.clone(),
            replicas: volume.replicas.iter().filter_map(|(_, key)| self.replica(*key)).collect(),
            frontends: frontends.map(|host| (host.id, host.name.clone())).collect(),
            links,
            memory: (volume.budget.used(), volume.memory),
        })
    }

    fn replica(&self, key: Key) -> Option<OpenReplicaStatus> {
        let host = self.replicas.get(key)?;
        Some(OpenReplicaStatus { core: host.core.status(), disk: host.disk.counters() })
    }
}

/// Whether it is a connection to or from another node.
fn is_connection(link: &Link) -> bool {
    matches!(link.transport, Transport::Socket(_))
}

fn status_of(link: &Link) -> LinkStatus {
    LinkStatus { caller: link.caller, replica: link.replica, counters: link.counters }
}

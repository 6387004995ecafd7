//! Copies the state of a worker for status displays and metrics.

use crate::api::{LinkStatus, OpenReplicaStatus, VolumeStatus, WorkerStatus};
use crate::counters::WorkerCounters;
use crate::link::Transport;
use crate::slab::Key;
use crate::worker::Worker;

impl Worker {
    pub(crate) fn worker_status(&self) -> WorkerStatus {
        let volumes = self.volumes.keys();
        WorkerStatus {
            worker: self.index,
            counters: WorkerCounters { system_calls: self.ring.system_calls, ..self.counters },
            memory: self.pool.in_use(),
            volumes: volumes.into_iter().filter_map(|key| self.volume_status(key)).collect(),
        }
    }

    pub(crate) fn volume_status(&self, key: Key) -> Option<VolumeStatus> {
        let volume = self.volumes.get(key)?;
        let frontends = volume.frontends.iter().filter_map(|key| self.frontends.get(*key));
        Some(VolumeStatus {
            volume: volume.id,
            primary: volume.primary.as_ref().map(|primary| primary.core.status(self.now)),
            counters: volume.counters.clone(),
            replicas: volume.replicas.iter().filter_map(|(_, key)| self.replica(*key)).collect(),
            frontends: frontends.map(|host| (host.id, host.name.clone())).collect(),
            links: self.links_of(key),
            memory: (volume.budget.used(), volume.memory),
        })
    }

    fn replica(&self, key: Key) -> Option<OpenReplicaStatus> {
        let host = self.replicas.get(key)?;
        Some(OpenReplicaStatus { core: host.core.status(), disk: host.disk.counters.clone() })
    }

    /// The connections to and from other nodes.
    fn links_of(&self, volume: Key) -> Vec<LinkStatus> {
        self.links
            .iter()
            .map(|(_, link)| link)
            .filter(|link| link.volume == volume && matches!(link.transport, Transport::Socket(_)))
            .map(|link| LinkStatus {
                caller: link.caller,
                replica: link.replica,
                counters: link.counters,
            })
            .collect()
    }
}

//! Copies the state of machines for status displays and metrics.

use evenkeel_core::VolumeId;

use super::Machines;
use crate::api::{LinkStatus, VolumeStatus};
use crate::ring::Key;
use crate::worker::context::Context;

impl Machines {
    /// The state of all volumes.
    pub fn statuses(&self, cx: &Context) -> Vec<VolumeStatus> {
        let mut links = self.links.statuses();
        let volumes = self.volumes.keys().into_iter().filter_map(|key| {
            let links = links.remove(&self.volumes.id(key)?).unwrap_or_default();
            self.status(cx, key, links)
        });
        volumes.collect()
    }

    /// The state of one; `None`: nothing of it is here.
    pub(super) fn volume_status(&self, cx: &Context, volume: VolumeId) -> Option<VolumeStatus> {
        self.status(cx, self.volumes.key(volume)?, self.links.status_of(volume))
    }

    fn status(&self, cx: &Context, key: Key, links: Vec<LinkStatus>) -> Option<VolumeStatus> {
        let status = self.volumes.status(key, cx.now())?;
        let replicas = self.volumes.replicas(key).filter_map(|key| self.replicas.status(key));
        let names = self.volumes.frontends(key).iter().filter_map(|key| self.frontends.name(*key));
        let frontends = names.map(|(id, name)| (id, name.to_owned()));
        Some(VolumeStatus {
            replicas: replicas.collect(),
            frontends: frontends.collect(),
            links,
            ..status
        })
    }
}

//! Devices that give errors: their volume was taken away, by its end here or by that of a daemon
//! that was killed.
//!
//! A killed daemon leaves the mount of its FUSE file and a loop device, or a ublk device. If the
//! volume is to be attached here again, whoever does that takes them up or away. If it is attached
//! elsewhere by now, or is gone, nobody would: so each start looks for them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_api::types::VolumeStatus;
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_attach::{CleanedUp, DeadDevice, Filesystems, Record, StillUsed};

use super::actor::turn;
use super::device::{device_error, place};
use crate::volumes::Node;
use crate::volumes::lock;
use crate::volumes::lookup::find;

/// The pause before each look: volumes that are remembered are awaited by then.
const PAUSE: Duration = Duration::from_secs(3);

/// A device that gives errors for as long as somebody uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Leftover {
    /// The volume's name.
    volume: String,
    device: DeadDevice,
}

/// Those of which this daemon knows.
#[derive(Debug, Default)]
pub(in crate::volumes) struct Leftovers(Mutex<Vec<Leftover>>);

impl Leftovers {
    /// A volume was taken away from devices that are used.
    pub(super) fn note(&self, volume: &str, used: &[StillUsed]) {
        let mut leftovers = lock(&self.0);
        for StillUsed { device, .. } in used {
            let leftover = Leftover { volume: volume.to_owned(), device: device.clone() };
            if !leftovers.contains(&leftover) {
                leftovers.push(leftover);
            }
        }
    }

    /// A device was made, perhaps under the name of one that is gone.
    pub(super) fn made(&self, device: &std::path::Path) {
        lock(&self.0).retain(|leftover| leftover.device.path() != device);
    }

    /// Those that are used still. Others are forgotten. It asks the kernel for users.
    fn reported(&self, node: &str) -> Vec<Reported> {
        let known = lock(&self.0).clone();
        let mut reported = Vec::new();
        for leftover in known {
            match evenkeel_attach::users_of_dead(&leftover.device) {
                Ok(None) => lock(&self.0).retain(|other| *other != leftover),
                Ok(Some(users)) => {
                    let users: Vec<_> = users.iter().map(ToString::to_string).collect();
                    reported.push(Reported::new(leftover, node, &users));
                }
                // It is told as long as nobody knows better.
                Err(_) => reported.push(Reported::new(leftover, node, &[])),
            }
        }
        reported
    }
}

/// What is said of one that is used.
#[derive(Debug, PartialEq, Eq)]
struct Reported {
    of: Leftover,
    sentence: String,
}

impl Reported {
    fn new(of: Leftover, node: &str, users: &[String]) -> Self {
        let sentence = sentence(node, of.device.path(), users);
        Self { of, sentence }
    }

    /// Adds it to the status of its volume, unless a reason there names the device already.
    fn add_to(&self, volume: &mut VolumeStatus) {
        let device = self.of.device.path().display().to_string();
        if !volume.reason.as_ref().is_some_and(|reason| reason.contains(&device)) {
            let before = volume.reason.take().into_iter();
            let all: Vec<String> = before.chain([self.sentence.clone()]).collect();
            volume.reason = Some(all.join("; "));
        }
        volume.dead_devices.push(device);
    }
}

fn sentence(node: &str, device: &std::path::Path, users: &[String]) -> String {
    let users = match users.is_empty() {
        true => "by whom can't be seen from here".to_owned(),
        false => users.join(", "),
    };
    format!(
        "device {} on node {node} gives errors, as the volume was taken away from it, and is in use still ({users}): unmount or close it",
        device.display()
    )
}

/// What is to be said of them in the status of this node.
pub async fn warnings(node: &Arc<Node>) -> Vec<String> {
    let reported = reported(node).await.into_iter();
    reported
        .map(|reported| format!("volume {}: {}", reported.of.volume, reported.sentence))
        .collect()
}

/// Adds it to the status of their volumes, for who asks this node.
pub async fn report(node: &Arc<Node>, volumes: &mut [VolumeStatus]) {
    for reported in reported(node).await {
        volumes
            .iter_mut()
            .filter(|it| it.name == reported.of.volume)
            .for_each(|it| reported.add_to(it));
    }
}

async fn reported(node: &Arc<Node>) -> Vec<Reported> {
    if lock(&node.volumes.leftovers.0).is_empty() {
        return Vec::new();
    }
    let name = node.identity.name.clone();
    let reported = node.blocking(move |node| Ok(node.volumes.leftovers.reported(&name)));
    reported.await.unwrap_or_default()
}

/// Looks for what an earlier daemon has left, until nothing is left of which nobody takes care.
pub async fn clean(node: Arc<Node>) {
    let cleans = async {
        if !node.admission.admitted().await {
            return;
        }
        loop {
            tokio::time::sleep(PAUSE).await;
            let left = node.blocking(|node| Ok(left(node))).await.unwrap_or_default();
            if left.is_empty() {
                return;
            }
            for record in left {
                if let Err(error) = clean_one(&node, &record.name).await {
                    tracing::debug!(volume = record.name, %error, "what is left stays");
                }
            }
        }
    };
    let _ = node.unless_stopping(cleans).await;
}

/// What other daemons have noted.
fn left(node: &Node) -> Vec<Record> {
    let mut records = evenkeel_attach::list(&place(node)).unwrap_or_else(|error| {
        tracing::warn!(%error, "it is not known what an earlier daemon has left");
        Vec::new()
    });
    records.retain(|record| !record.is_own());
    records
}

/// Takes away what is left of a volume that is not to be attached here.
async fn clean_one(node: &Arc<Node>, name: &str) -> Result<(), ApiError> {
    let what = format!("cannot take away what is left of volume {name}");
    let _turn = match find(node, &what, name).await {
        Ok(found) => {
            let id = found.view.volume;
            let turn = turn(node, id).await;
            let here = node.identity.node.to_string();
            let noted = found.stored.record.wanted_on.get(&here);
            let is_wanted = noted.is_some_and(Option::is_some) && !node.volumes.is_unreported(id);
            if is_wanted || node.volumes.get(id).is_some() || node.volumes.awaited(id).is_some() {
                return Ok(());
            }
            Some(turn)
        }
        Err(error) if error.code == ErrorCode::NoSuchVolume => {
            // One that was renamed is awaited by the name that this node remembers.
            if node.volumes.awaited_by_name(name).is_some() || node.volumes.by_name(name).is_some()
            {
                return Ok(());
            }
            None
        }
        Err(error) => return Err(error),
    };
    let (clean, of) = (what.clone(), name.to_owned());
    let cleaned = node.blocking(move |node| {
        if !left(node).iter().any(|record| record.name == of) {
            return Ok(CleanedUp::default());
        }
        evenkeel_attach::clean_up_stale(&place(node), &of, Filesystems::Leave)
            .map_err(|e| device_error(&clean, &e))
    });
    let cleaned = cleaned.await?;
    for device in &cleaned.devices {
        tracing::info!(volume = name, device = %device.display(), "took away what a killed daemon had left");
    }
    node.volumes.leftovers.note(name, &cleaned.still_used);
    Ok(())
}

#[cfg(test)]
mod tests;

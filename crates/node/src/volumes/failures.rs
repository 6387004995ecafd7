//! Requests of clients that were answered with an error, for the log, the events and the status. What failed is known
//! until the volume is attached here again to be used, or the daemon ends.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_core::{RequestError, VolumeId};
use evenkeel_engine::counters::Failure;

use super::{Volumes, lock};
use crate::api::types::FailedRequests;

/// Of so many volumes it is remembered; of more, the one whose last failure is the oldest is forgotten.
const MAX_VOLUMES: usize = 256;

/// What failed, by volumes.
#[derive(Debug, Default)]
pub(super) struct Failed(Mutex<BTreeMap<VolumeId, Vec<Failure>>>);

impl Failed {
    /// It is attached to be used.
    pub(super) fn forget(&self, volume: VolumeId) {
        lock(&self.0).remove(&volume);
    }

    /// What has failed, as far as it was told.
    pub(super) fn of(&self, volume: VolumeId) -> Vec<FailedRequests> {
        lock(&self.0).get(&volume).into_iter().flatten().map(described).collect()
    }

    fn note(&self, volume: VolumeId, failure: Failure) {
        let mut volumes = lock(&self.0);
        let known = volumes.entry(volume).or_default();
        match known.iter_mut().find(|f| f.kind == failure.kind && f.error == failure.error) {
            Some(before) => *before = failure,
            None => known.push(failure),
        }
        if volumes.len() > MAX_VOLUMES {
            let last = |failures: &Vec<Failure>| failures.iter().map(|f| f.last).max();
            let oldest = volumes.iter().min_by_key(|(_, failures)| last(failures));
            if let Some(oldest) = oldest.map(|(volume, _)| *volume) {
                volumes.remove(&oldest);
            }
        }
    }
}

impl Volumes {
    /// Requests have failed: for the log, and for the volume's events.
    pub fn requests_failed(&self, volume: VolumeId, failure: Failure) {
        self.failed.note(volume, failure);
        let attached = self.get(volume);
        let name = attached.as_ref().map_or_else(|| volume.to_string(), |a| a.name().to_owned());
        let message = sentence(&failure);
        tracing::warn!(volume = name, cause = cause(failure.error), "{message}");
        if let Some(attached) = attached {
            attached.event(message);
        }
    }
}

/// `3 requests of clients have failed, each a write: …`.
fn sentence(failure: &Failure) -> String {
    let Failure { kind, error, count, .. } = failure;
    match count {
        1 => format!("a {kind} of a client has failed: {error}"),
        count => format!("{count} requests of clients have failed, each a {kind}: {error}"),
    }
}

/// As the API tells it.
pub(super) fn described(failure: &Failure) -> FailedRequests {
    FailedRequests {
        kind: failure.kind.to_owned(),
        cause: cause(failure.error).to_owned(),
        why: failure.error.to_string(),
        count: failure.count,
        first: seconds(failure.first),
        last: seconds(failure.last),
    }
}

/// In seconds since 1970.
pub(crate) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The name of a reason, for programs.
pub(crate) const fn cause(error: RequestError) -> &'static str {
    match error {
        RequestError::Invalid => "invalid",
        RequestError::Medium => "medium",
        RequestError::NoSpace => "no-space",
        RequestError::NoData => "no-data",
        RequestError::NoCoordinator => "no-coordinator",
        RequestError::Fenced => "fenced",
        RequestError::LostWrites => "lost-writes",
        RequestError::Detached => "detached",
        RequestError::Reserved => "reserved",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(count: u64, second: u64) -> Failure {
        let at = UNIX_EPOCH + std::time::Duration::from_secs(second);
        Failure { kind: "write", error: RequestError::NoCoordinator, count, first: at, last: at }
    }

    #[test]
    fn what_failed_is_known_until_the_volume_is_used_again() {
        let failed = Failed::default();
        failed.note(VolumeId(1), failure(1, 5));
        failed.note(VolumeId(1), failure(7, 9));
        let told = failed.of(VolumeId(1));
        assert_eq!((told.len(), told[0].count, told[0].last), (1, 7, 9));
        assert_eq!(told[0].cause, "no-coordinator");
        failed.forget(VolumeId(1));
        assert!(failed.of(VolumeId(1)).is_empty());
    }

    #[test]
    fn of_too_many_volumes_the_oldest_is_forgotten() {
        let failed = Failed::default();
        for volume in 0..=MAX_VOLUMES as u128 {
            failed.note(VolumeId(volume), failure(1, 1000 - volume as u64));
        }
        assert!(failed.of(VolumeId(MAX_VOLUMES as u128)).is_empty(), "its failure is the oldest");
        assert_eq!(failed.of(VolumeId(0)).len(), 1);
    }

    #[test]
    fn the_log_counts() {
        assert!(sentence(&failure(1, 0)).starts_with("a write of a client has failed: a replica"));
        assert!(
            sentence(&failure(3, 0))
                .starts_with("3 requests of clients have failed, each a write: ")
        );
    }
}

//! Requests of clients that were answered with an error, for the log, the events, the status and
//! the metrics, until the daemon ends. The status tells what failed since somebody attached the
//! volume here to be used apart from what failed before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_api::types::FailedRequests;
use evenkeel_core::{RequestError, VolumeId};
use evenkeel_engine::counters::{Failure, Failures};

use super::{Volumes, disk_errors, lock};
use crate::volumes::Node;

/// Of so many volumes it is remembered; of more, the one whose last failure is the oldest is
/// forgotten.
const MAX_VOLUMES: usize = 256;

/// What failed, by volumes.
#[derive(Debug, Default)]
pub(super) struct Failed(Mutex<BTreeMap<VolumeId, OfVolume>>);

/// What failed of one volume, by kind and error.
#[derive(Debug, Default, Clone)]
struct OfVolume {
    /// What it was called last.
    name: String,
    /// Of uses before this one, for the metrics.
    earlier: Vec<Failure>,
    /// As its primary counts: the newest counters are the whole.
    of_primary: Vec<Failure>,
    /// Of primaries before it, which this node made by itself.
    before: Vec<Failure>,
}

impl OfVolume {
    /// All that failed.
    fn all(&self) -> Vec<Failure> {
        self.beside(self.of_primary.iter())
    }

    /// All that failed, if this is what its primary counts.
    fn beside<'a>(&self, of_primary: impl Iterator<Item = &'a Failure>) -> Vec<Failure> {
        together(self.before.clone(), of_primary)
    }
}

/// The sums, by kind and error, of what failed before and later.
fn together<'a>(
    mut all: Vec<Failure>,
    later: impl IntoIterator<Item = &'a Failure>,
) -> Vec<Failure> {
    for failure in later {
        match all.iter_mut().find(|f| is_same(f, failure)) {
            Some(before) => {
                before.count += failure.count;
                before.first = before.first.min(failure.first);
                before.last = before.last.max(failure.last);
            }
            None => all.push(*failure),
        }
    }
    all
}

fn is_same(one: &Failure, other: &Failure) -> bool {
    one.kind == other.kind && one.error == other.error
}

impl Failed {
    /// It is attached again by itself: its next primary counts from nothing.
    pub(super) fn begin_anew(&self, volume: VolumeId) {
        if let Some(known) = lock(&self.0).get_mut(&volume) {
            (known.before, known.of_primary) = (known.all(), Vec::new());
        }
    }

    /// Somebody attaches it to be used.
    pub(super) fn forget(&self, volume: VolumeId) {
        if let Some(known) = lock(&self.0).get_mut(&volume) {
            known.earlier = together(std::mem::take(&mut known.earlier), &known.all());
            (known.before, known.of_primary) = (Vec::new(), Vec::new());
        }
    }

    /// All that has failed since the daemon's start, by the names of volumes. Those of `attached`
    /// are called so now, and their primaries have counted this: what is told here comes later. A
    /// name that another volume had before counts once.
    pub(crate) fn since_start<'a>(
        &self,
        attached: impl Iterator<Item = (VolumeId, &'a str, Vec<Failure>)>,
    ) -> BTreeMap<String, Vec<Failure>> {
        let mut volumes = lock(&self.0).clone();
        for (volume, name, counted) in attached {
            if !counted.is_empty() {
                volumes.entry(volume).or_default().of_primary = counted;
            }
            if let Some(known) = volumes.get_mut(&volume) {
                name.clone_into(&mut known.name);
            }
        }
        let mut by_name: BTreeMap<String, Vec<Failure>> = BTreeMap::new();
        for known in volumes.values() {
            let all = together(known.earlier.clone(), &known.all());
            let before = by_name.remove(&known.name).unwrap_or_default();
            by_name.insert(known.name.clone(), together(before, &all));
        }
        by_name
    }

    /// What failed before somebody attached it to be used now, since the daemon's start.
    pub(super) fn earlier(&self, node: &str, volume: VolumeId) -> Vec<FailedRequests> {
        let volumes = lock(&self.0);
        let earlier = volumes.get(&volume).map(|known| &*known.earlier).unwrap_or_default();
        earlier.iter().map(|failure| described(node, failure)).collect()
    }

    /// What has failed, as far as it was told; `node` is the name of this one.
    pub(super) fn of(&self, node: &str, volume: VolumeId) -> Vec<FailedRequests> {
        let failed = lock(&self.0).get(&volume).map(OfVolume::all).unwrap_or_default();
        failed.iter().map(|failure| described(node, failure)).collect()
    }

    /// The same of a volume whose primary here has counted these.
    pub(super) fn counted(
        &self,
        node: &str,
        volume: VolumeId,
        of_primary: &Failures,
    ) -> Vec<FailedRequests> {
        let known = lock(&self.0).get(&volume).cloned().unwrap_or_default();
        known.beside(of_primary.iter()).iter().map(|failure| described(node, failure)).collect()
    }

    /// `name`: what it is called, if it is attached still.
    fn note(&self, volume: VolumeId, name: Option<&str>, failure: Failure) {
        let mut volumes = lock(&self.0);
        let known = volumes.entry(volume).or_default();
        match name {
            Some(name) => name.clone_into(&mut known.name),
            None if known.name.is_empty() => known.name = volume.to_string(),
            None => {}
        }
        let known = &mut known.of_primary;
        match known.iter_mut().find(|f| is_same(f, &failure)) {
            Some(before) => *before = failure,
            None => known.push(failure),
        }
        if volumes.len() > MAX_VOLUMES {
            let last = |known: &OfVolume| {
                let all = [&known.earlier, &known.before, &known.of_primary];
                all.into_iter().flatten().map(|failure| failure.last).max()
            };
            let oldest = volumes.iter().min_by_key(|(_, known)| last(known));
            if let Some(oldest) = oldest.map(|(volume, _)| *volume) {
                volumes.remove(&oldest);
            }
        }
    }
}

impl Volumes {
    /// All requests that have failed here since the daemon's start, by the names of volumes.
    /// `counted`: what the primary of an attached one has counted by now.
    pub(crate) fn failed_since_start(
        &self,
        counted: impl Fn(VolumeId) -> Vec<Failure>,
    ) -> BTreeMap<String, Vec<Failure>> {
        let attached = self.all();
        let now = attached.iter().map(|it| (it.id, it.name(), counted(it.id)));
        self.failed.since_start(now)
    }

    /// Requests have failed: for the log, and for the volume's events.
    pub fn requests_failed(&self, node: &Arc<Node>, volume: VolumeId, failure: Failure) {
        let attached = self.get(volume);
        let called = attached.as_ref().map(|attached| attached.name());
        self.failed.note(volume, called, failure);
        let name = called.map_or_else(|| volume.to_string(), str::to_owned);
        let message = sentence(&failure);
        tracing::warn!(volume = name, cause = cause(failure.error), "{message}");
        if let Some(attached) = attached {
            attached.event(message);
            if failure.error == RequestError::Medium {
                disk_errors::keep_soon(node, attached, failure);
            }
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

/// As the API tells it; `node` is the name of this one.
fn described(node: &str, failure: &Failure) -> FailedRequests {
    FailedRequests {
        kind: failure.kind.to_owned(),
        cause: cause(failure.error).to_owned(),
        why: why(node, failure.error),
        count: failure.count,
        first: seconds(failure.first),
        last: seconds(failure.last),
    }
}

/// Why requests failed that were answered on this node. What they waited for may have come since:
/// of that no more is said than was so then.
fn why(node: &str, error: RequestError) -> String {
    match error {
        RequestError::NoCoordinator => format!(
            "a replica had to leave the view, and the coordinator did not answer node {node}"
        ),
        RequestError::NoData => format!("no in-sync replica answered node {node}"),
        _ => error.to_string(),
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
        RequestError::Cancelled => "cancelled",
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
        failed.note(VolumeId(1), Some("web"), failure(1, 5));
        failed.note(VolumeId(1), Some("web"), failure(7, 9));
        let reported = failed.of("n1", VolumeId(1));
        assert_eq!((reported.len(), reported[0].count, reported[0].last), (1, 7, 9));
        assert_eq!(reported[0].cause, "no-coordinator");
        let why = "a replica had to leave the view, and the coordinator did not answer node n1";
        assert_eq!(reported[0].why, why, "it is past, and no advice");
        assert!(failed.earlier("n1", VolumeId(1)).is_empty());
        failed.forget(VolumeId(1));
        assert!(failed.of("n1", VolumeId(1)).is_empty());
        let earlier = failed.earlier("n1", VolumeId(1));
        assert_eq!((earlier.len(), earlier[0].count, earlier[0].last), (1, 7, 9), "with its time");
    }

    #[test]
    fn what_fails_when_a_volume_is_taken_away_counts_by_its_name() {
        let failed = Failed::default();
        failed.note(VolumeId(1), Some("web"), failure(1, 5));
        failed.note(VolumeId(1), None, failure(2, 6));
        let all = failed.since_start(std::iter::empty());
        assert_eq!(all["web"][0].count, 2, "{all:?}");
        failed.note(VolumeId(2), None, failure(1, 5));
        let id = VolumeId(2).to_string();
        assert_eq!(failed.since_start(std::iter::empty())[&id][0].count, 1);
    }

    #[test]
    fn the_metrics_count_on_when_a_volume_is_detached_and_used_again() {
        let failed = Failed::default();
        failed.note(VolumeId(1), Some("web"), failure(7, 9));
        let count = || {
            let all = failed.since_start([(VolumeId(1), "web", Vec::new())].into_iter());
            all["web"].iter().map(|failure| failure.count).sum::<u64>()
        };
        assert_eq!(count(), 7);
        failed.forget(VolumeId(1));
        assert_eq!(count(), 7, "it is used again");
        failed.note(VolumeId(1), Some("web"), failure(2, 20));
        failed.begin_anew(VolumeId(1));
        failed.note(VolumeId(1), Some("web"), failure(1, 30));
        assert_eq!(count(), 10);
        // One of the same name, as after a deletion, has no line of its own.
        failed.note(VolumeId(2), Some("web"), failure(1, 40));
        assert_eq!(count(), 11);
        let renamed = failed.since_start([(VolumeId(1), "www", Vec::new())].into_iter());
        assert_eq!((renamed["www"][0].count, renamed["web"][0].count), (10, 1));
        // What was told comes later than what was counted, and is a part of it.
        let counted = [
            (VolumeId(1), "www", vec![failure(4, 50)]),
            (VolumeId(3), "new", vec![failure(1, 50)]),
        ];
        let now = failed.since_start(counted.into_iter());
        assert_eq!((now["www"][0].count, now["new"][0].count), (13, 1));
    }

    #[test]
    fn what_failed_before_an_eviction_is_counted_on() {
        let failed = Failed::default();
        failed.begin_anew(VolumeId(1));
        assert!(failed.of("n1", VolumeId(1)).is_empty());
        failed.note(VolumeId(1), Some("web"), failure(7, 9));
        failed.begin_anew(VolumeId(1));
        let count =
            || failed.of("n1", VolumeId(1)).iter().map(|reported| reported.count).sum::<u64>();
        assert_eq!(count(), 7);
        failed.note(VolumeId(1), Some("web"), failure(1, 20));
        failed.note(VolumeId(1), Some("web"), failure(2, 21));
        assert_eq!(count(), 9);
        let reported = &failed.of("n1", VolumeId(1))[0];
        assert_eq!((reported.first, reported.last), (9, 21));
        failed.begin_anew(VolumeId(1));
        failed.note(VolumeId(1), Some("web"), failure(1, 30));
        assert_eq!(count(), 10);
    }

    #[test]
    fn of_too_many_volumes_the_oldest_is_forgotten() {
        let failed = Failed::default();
        for volume in 0..=MAX_VOLUMES as u128 {
            failed.note(VolumeId(volume), Some("web"), failure(1, 1000 - volume as u64));
        }
        assert!(
            failed.of("n1", VolumeId(MAX_VOLUMES as u128)).is_empty(),
            "its failure is the oldest"
        );
        assert_eq!(failed.of("n1", VolumeId(0)).len(), 1);
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

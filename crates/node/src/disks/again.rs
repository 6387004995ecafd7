//! What could not be opened is opened again: a disk that was absent, or held by somebody, and a
//! replica whose file was, or could not be read. Each is a probe of its own: one that hangs keeps
//! no other one waiting, and none of them holds the lock of the list.

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use super::origins::Origins;
use super::states::{EntryState, Hold, KnownState, Retry, Trouble};
use super::{Disks, Entry, Found, Known, OpenReplica, Record, device, directory};

/// A disk or a replica to be opened again. Whether it is still wanted is looked at when that is
/// done.
#[derive(Debug)]
pub struct Probe {
    /// Which entry it is: another disk may get its name and path meanwhile.
    pub(super) serial: u64,
    pub(super) target: Target,
}

#[derive(Debug)]
pub(super) enum Target {
    Disk(Record),
    Replica(ReplicaTarget),
}

/// One replica on a disk that is open.
#[derive(Debug)]
pub(super) struct ReplicaTarget {
    path: PathBuf,
    block_size: u32,
    /// Its device, unless it is a file.
    device: Option<File>,
}

impl ReplicaTarget {
    /// `None`: there is no replica any more.
    fn open(&self, origins: &Origins, opened: &mut Vec<OpenReplica>) -> Option<Known> {
        let Some(device) = &self.device else {
            return Some(directory::open_replica(&self.path, self.block_size, origins, opened));
        };
        let file = device.try_clone().map_err(Trouble::from);
        file.and_then(|file| device::open_replica(file, &self.path, self.block_size, opened))
            .unwrap_or_else(|trouble| {
                let state = KnownState::Waiting(trouble, Retry::first(Instant::now()));
                Some(Known::new(&self.path, None, state))
            })
    }
}

impl Disks {
    /// Waits until something may have to be opened again.
    pub async fn until_due(&self) {
        self.listed.until(|| self.next_try()).await;
    }

    fn next_try(&self) -> Option<Instant> {
        self.lock().iter().filter_map(Entry::next_try).min()
    }

    /// What is to be opened again now; each is given out once.
    pub fn due(&self, now: Instant) -> Vec<Probe> {
        let mut entries = self.lock();
        entries.iter_mut().flat_map(|entry| entry.begin_probes(now)).collect()
    }

    /// Opens a disk again, and all replicas on it, or one replica. The disk may have been removed
    /// meanwhile, by whoever sees that it does not come: then it is let go.
    pub fn open_again(&self, probe: Probe) -> Vec<OpenReplica> {
        let mut opened = match probe.target {
            Target::Disk(record) => self.take_up(Found::open(probe.serial, record, &self.origins)),
            Target::Replica(target) => self.open_replica_again(probe.serial, &target),
        };
        self.listed.wake();
        self.keep_closed(&mut opened);
        opened
    }

    /// Notes what has become of a disk that was being opened, and remembers which one it is.
    /// Returns the replicas that were opened.
    pub(super) fn take_up(&self, found: Found) -> Vec<OpenReplica> {
        let (replicas, is_news) = self.note_found(found);
        if is_news && let Err(error) = self.save_records() {
            tracing::warn!(%error, "cannot remember which disk this is; it is tried again");
        }
        replicas
    }

    /// The same; returns too whether more is known of which disk it is than the state directory
    /// has.
    pub(super) fn note_found(&self, mut found: Found) -> (Vec<OpenReplica>, bool) {
        let mut entries = self.lock();
        let Some(entry) = entries.numbered(found.serial) else {
            return (Vec::new(), false);
        };
        // It was closed meanwhile: as its volume was stopped, or because it was deleted.
        let Some((before, retry)) = entry.state().being_opened() else {
            return (Vec::new(), false);
        };
        let (now, name) = (Instant::now(), entry.name());
        let is_other = entry.is_unsaved() || *entry.record() != found.record;
        let is_news = found.opened.is_ok() && is_other && !entry.is_new();
        match found.opened {
            Ok(opened) => {
                let replicas = opened.replicas.len();
                tracing::info!(disk = name, replicas, "a disk was opened");
                entry.opened(found.record, opened);
                if is_news {
                    entry.is_to_be_saved();
                }
                let mount = entry.mount();
                found.replicas.iter_mut().for_each(|replica| replica.mount = mount);
            }
            Err(trouble) => {
                // What was in the way so far has gone, and this may soon: the pause begins anew.
                let is_other = trouble.state() != before.state();
                let retry = if is_other { Retry::first(now) } else { retry.again(now) };
                if trouble != *before {
                    tracing::warn!(disk = name, why = trouble.why(), "a disk cannot be opened yet");
                }
                entry.not_opened(&trouble, retry, found.glimpsed);
            }
        }
        (found.replicas, is_news)
    }

    fn open_replica_again(&self, serial: u64, target: &ReplicaTarget) -> Vec<OpenReplica> {
        let mut opened = Vec::new();
        let now_known = target.open(&self.origins, &mut opened);
        let mut entries = self.lock();
        let entry = entries.numbered(serial);
        let found = entry.and_then(|entry| {
            let position = entry.replicas().iter().position(|known| known.path() == target.path)?;
            let retry = match entry.replicas()[position].state() {
                KnownState::Opening(_, retry) => *retry,
                // Its volume was stopped meanwhile: it stays closed.
                _ => return None,
            };
            Some((entry, position, retry))
        });
        let Some((entry, position, retry)) = found else { return Vec::new() };
        let Some(mut known) = now_known else {
            entry.remove_replica(position);
            return Vec::new();
        };
        let next = retry.again(Instant::now());
        known.try_again(next);
        entry.replicas_mut()[position].opened_again(known);
        let mount = entry.mount();
        opened.iter_mut().for_each(|replica| replica.mount = mount);
        opened
    }
}

impl Entry {
    /// When something of it is to be tried again. A replica waits with its disk.
    fn next_try(&self) -> Option<Instant> {
        match self.state() {
            EntryState::Waiting(_, retry) => Some(retry.at),
            EntryState::Serving(_) => {
                self.replicas().iter().filter_map(|known| known.state().next_try()).min()
            }
            EntryState::Opening(..) | EntryState::Missing(..) | EntryState::Stopped => None,
        }
    }

    fn begin_probes(&mut self, now: Instant) -> Vec<Probe> {
        if self.begin_opening(now) {
            let target = Target::Disk(self.record().clone());
            return vec![Probe { serial: self.serial(), target }];
        }
        if !matches!(self.state(), EntryState::Serving(_)) {
            return Vec::new();
        }
        let is_due = |known: &Known| known.state().next_try().is_some_and(|at| at <= now);
        let positions = 0..self.replicas().len();
        let due: Vec<usize> = positions.filter(|at| is_due(&self.replicas()[*at])).collect();
        due.into_iter().filter_map(|position| self.begin_replica(position)).collect()
    }

    /// Begins to open a replica. `None`: there are too many open files for that just now; it is
    /// tried again.
    pub(super) fn begin_replica(&mut self, position: usize) -> Option<Probe> {
        let device = match self.state().hold() {
            Some(Hold::Device { file, .. }) => Some(file.try_clone()),
            _ => None,
        };
        let (device, block_size, now) = (device.transpose(), self.block_size(), Instant::now());
        let known = &mut self.replicas_mut()[position];
        let device = match device {
            Ok(device) => device,
            Err(error) => {
                known.wait_again(error.into(), now);
                return None;
            }
        };
        known.begin_opening(now);
        let target = ReplicaTarget { path: known.path().to_owned(), block_size, device };
        Some(Probe { serial: self.serial(), target: Target::Replica(target) })
    }
}

#[cfg(test)]
mod tests;

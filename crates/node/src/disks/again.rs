//! What could not be opened is opened again: a disk that was absent, or held by somebody, and a
//! replica whose file was.

use std::time::Instant;

use super::states::{EntryState, KnownState};
use super::{Disks, Entry, OpenReplica, Record, directory, open_record};
use crate::api::ApiError;

/// A disk to be opened again. Whether it is still wanted is looked at when that is done.
#[derive(Debug)]
pub struct Probe {
    /// Which entry it is: another disk may get its name and path meanwhile.
    serial: u64,
    record: Record,
}

impl Disks {
    /// Waits until something may have to be opened again.
    pub async fn until_due(&self) {
        let changed = self.changed.notified();
        match self.next_try() {
            Some(at) => tokio::select! {
                () = tokio::time::sleep_until(at.into()) => {}
                () = changed => {}
            },
            None => changed.await,
        }
    }

    fn next_try(&self) -> Option<Instant> {
        self.lock().iter().filter_map(Entry::next_try).min()
    }

    /// The disks that are to be opened again now; each is given out once.
    pub fn due(&self, now: Instant) -> Vec<Probe> {
        let mut entries = self.lock();
        entries.iter_mut().filter_map(|entry| entry.begin_probe(now)).collect()
    }

    /// Opens a disk again, and all replicas on it. It may have been removed meanwhile, by whoever
    /// sees that it does not come: then it is let go.
    ///
    /// # Errors
    /// If it cannot be remembered that a replica of a stopped volume stays closed.
    pub fn open_again(&self, mut probe: Probe) -> Result<Vec<OpenReplica>, ApiError> {
        let mut opened = Vec::new();
        // Without the lock: a disk that fails may take long, and others want to know of theirs.
        let found = open_record(&mut probe.record, &mut opened);
        let mut entries = self.lock();
        let Some(entry) = entries.iter_mut().find(|entry| entry.serial == probe.serial) else {
            return Ok(Vec::new());
        };
        let EntryState::Opening(_, retry) = &entry.state else { return Ok(Vec::new()) };
        let name = &entry.record.name;
        match found {
            Ok((hold, block_size, replicas)) => {
                tracing::info!(disk = name, replicas = replicas.len(), "a disk was opened");
                (entry.state, entry.block_size) = (EntryState::Serving(hold), block_size);
                (entry.record, entry.replicas) = (probe.record, replicas);
            }
            Err(trouble) => {
                tracing::debug!(disk = name, why = trouble.why(), "a disk cannot be opened yet");
                entry.state = EntryState::Waiting(trouble, retry.again(Instant::now()));
            }
        }
        drop(entries);
        self.changed.notify_one();
        self.keep_closed(&mut opened);
        Ok(opened)
    }

    /// Opens the replicas again, on disks that are open, whose files somebody else had.
    ///
    /// # Errors
    /// If it cannot be remembered that a replica of a stopped volume stays closed.
    pub fn open_replicas_again(&self, now: Instant) -> Result<Vec<OpenReplica>, ApiError> {
        let mut opened = Vec::new();
        for entry in self.lock().iter_mut().filter(|entry| entry.state.hold().is_some()) {
            let block_size = entry.block_size;
            for known in &mut entry.replicas {
                let KnownState::Waiting(_, retry) = known.state else { continue };
                if retry.at > now {
                    continue;
                }
                *known = directory::open_replica(&known.path, block_size, &mut opened);
                if let KnownState::Waiting(_, next) = &mut known.state {
                    *next = retry.again(Instant::now());
                }
            }
        }
        self.keep_closed(&mut opened);
        Ok(opened)
    }
}

impl Entry {
    /// When something of it is to be tried again. A replica waits with its disk.
    fn next_try(&self) -> Option<Instant> {
        match &self.state {
            EntryState::Waiting(_, retry) => Some(retry.at),
            EntryState::Serving(_) => {
                let tries = self.replicas.iter().filter_map(|known| match &known.state {
                    KnownState::Waiting(_, retry) => Some(retry.at),
                    _ => None,
                });
                tries.min()
            }
            EntryState::Opening(..) | EntryState::Stopped => None,
        }
    }

    fn begin_probe(&mut self, now: Instant) -> Option<Probe> {
        match &self.state {
            EntryState::Waiting(trouble, retry) if retry.at <= now => {
                self.state = EntryState::Opening(trouble.clone(), *retry);
                Some(Probe { serial: self.serial, record: self.record.clone() })
            }
            _ => None,
        }
    }
}

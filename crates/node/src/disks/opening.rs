//! Disks are opened at the same time, each by a thread of its own: one that hangs keeps none
//! waiting.

use std::sync::{PoisonError, mpsc};
use std::time::{Duration, Instant};

use evenkeel_api::types::DiskKind;

use super::entry::Record;
use super::known::Known;
use super::origins::Origins;
use super::states::{Hold, Retry, Trouble};
use super::{Disks, OpenReplica, device, directory};

/// What is open of a disk.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) hold: Hold,
    /// The smallest unit of direct I/O, in bytes.
    pub(super) block_size: u32,
    pub(super) replicas: Vec<Known>,
}

/// What has come of opening a disk.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) serial: u64,
    pub(super) record: Record,
    pub(super) opened: Result<Opened, Trouble>,
    /// The replicas on it that were opened.
    pub(super) replicas: Vec<OpenReplica>,
    /// The replicas that could be read on a device that could not be opened.
    pub(super) glimpsed: Vec<Known>,
}

impl Found {
    /// Opens a disk, and all replicas on it.
    pub(super) fn open(serial: u64, mut record: Record, origins: &Origins) -> Self {
        let mut replicas = Vec::new();
        let opened = match record.kind {
            DiskKind::Device => device::open(&record.path, &mut record.device, &mut replicas),
            DiskKind::Directory => {
                directory::open(&record.path, &mut record.marker, origins, &mut replicas)
            }
        };
        if opened.is_ok() {
            record.mount.look(&record.path, record.kind);
        }
        let glimpsed = match (&opened, record.kind) {
            (Err(trouble), DiskKind::Device) => {
                device::glimpse(&record, trouble, Retry::first(Instant::now()))
            }
            _ => Vec::new(),
        };
        Self { serial, record, opened, replicas, glimpsed }
    }
}

impl Disks {
    /// Opens all disks at the same time. Those that have not answered in time are left to
    /// [`Disks::late`]. Returns the replicas that were opened, and whether more is known now of
    /// which disks they are.
    pub(super) fn open_all(&self, patience: Duration) -> (Vec<OpenReplica>, bool) {
        let (sender, found) = mpsc::channel();
        let mut count = 0;
        for entry in self.lock().iter() {
            let (serial, record, sender) = (entry.serial(), entry.record().clone(), sender.clone());
            let origins = self.origins.clone();
            count += 1;
            // Nobody listens any more if the daemon has ended.
            std::thread::spawn(move || drop(sender.send(Found::open(serial, record, &origins))));
        }
        drop(sender);
        let end = Instant::now() + patience;
        let (mut opened, mut is_news) = (Vec::new(), false);
        while count > 0 {
            match found.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(found) => {
                    let (replicas, of_it) = self.note_found(found);
                    opened.extend(replicas);
                    is_news |= of_it;
                }
                Err(_) => break,
            }
            count -= 1;
        }
        if count > 0 {
            tracing::warn!(disks = count, "some disks do not answer; they are opened when they do");
            *self.late.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        }
        (opened, is_news)
    }

    /// Waits for disks that did not answer at the start, and gives each set of replicas that were
    /// opened to `serve`. Returns when all have answered; it blocks until then.
    pub fn serve_late(&self, serve: impl Fn(Vec<OpenReplica>)) {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner).take();
        for found in late.into_iter().flatten() {
            let mut opened = self.take_up(found);
            self.listed.wake();
            self.keep_closed(&mut opened);
            serve(opened);
        }
    }
}

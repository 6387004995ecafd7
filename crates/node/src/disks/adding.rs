//! Disks are given to a node and taken back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evenkeel_api::types::{Disk, DiskKind};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::ReplicaId;

use super::entry::{Entry, Record};
use super::mounted::Mount;
use super::opening::Found;
use super::probe::device_number;
use super::states::Trouble;
use super::{Disks, OpenReplica, device, directory, system};

impl Disks {
    /// Gives a disk to evenkeel. Replicas that it already holds are opened.
    ///
    /// # Errors
    /// If it is in use, holds something else (unless `force`), is too small, or has the name or
    /// path of another disk.
    pub fn add(
        &self,
        path: &Path,
        name: Option<String>,
        force: bool,
    ) -> Result<(Disk, Vec<OpenReplica>), ApiError> {
        let what = format!("cannot add {}", path.display());
        let path = canonical(path, &what)?;
        let name = name.unwrap_or_else(|| default_name(&path));
        let kind = match device_number(&path).map_err(|e| system(&what, &e))? {
            Some(_) => DiskKind::Device,
            None => DiskKind::Directory,
        };
        let record = Record {
            name: name.clone(),
            path,
            kind,
            marker: None,
            device: None,
            // What was on it before it was removed may have lost writes while nobody looked.
            mount: Mount::new(),
        };
        let serial = self.begin_adding(record.clone(), &what)?;
        // Without the lock: it may take long, and others want to know of their disks.
        let mut opened = match self.open_new(serial, record, force, &what) {
            Ok(opened) => opened,
            Err(error) => {
                // It is dropped without the lock: to close a device blocks on it.
                let _closed = self.lock().take_out(serial);
                return Err(error);
            }
        };
        self.keep_closed(&mut opened);
        let disk = self.list().into_iter().find(|disk| disk.name == name);
        disk.map(|disk| (disk, opened)).ok_or_else(|| {
            let why = "it was removed meanwhile";
            ApiError::new(ErrorCode::NoSuchDisk, what, why, "Add it again")
        })
    }

    /// Takes the name and path of a disk that is to be added, so that nobody else does meanwhile.
    fn begin_adding(&self, record: Record, what: &str) -> Result<u64, ApiError> {
        let mut entries = self.lock();
        entries.refuse_duplicate(&record.path, &record.name, what)?;
        let mut entry = Entry::opening(record, Trouble::Held("it is being added".into()));
        entry.add();
        let serial = entry.serial();
        entries.push(entry);
        Ok(serial)
    }

    fn open_new(
        &self,
        serial: u64,
        mut record: Record,
        force: bool,
        what: &str,
    ) -> Result<Vec<OpenReplica>, ApiError> {
        match record.kind {
            DiskKind::Device => {
                let identity = device::prepare(&record.path, force, what)?;
                self.lock().refuse_known(&identity, what)?;
                record.device = Some(identity);
            }
            DiskKind::Directory => directory::prepare(&record.path, what)?,
        }
        let found = Found::open(serial, record, &self.origins);
        if let Err(trouble) = &found.opened {
            let advice = "Choose another disk, or end what uses it";
            return Err(ApiError::new(ErrorCode::DiskInUse, what, trouble.why(), advice));
        }
        let opened = self.take_up(found);
        if let Some(entry) = self.lock().numbered(serial) {
            entry.remember();
        }
        self.save()?;
        Ok(opened)
    }

    /// A name for a disk at this path that no other disk has.
    #[must_use]
    pub fn free_name(&self, path: &Path) -> String {
        self.lock().free_name(path)
    }

    /// Takes a disk back from evenkeel. Only one without replicas; those do not count that are
    /// closed and which no volume has any more.
    ///
    /// # Errors
    /// If there is no such disk, or it holds replicas.
    pub fn remove(&self, name: &str, unwanted: &BTreeSet<ReplicaId>) -> Result<(), ApiError> {
        let mut entries = self.lock();
        let entry = entries.remove(name, unwanted)?;
        drop(entries);
        if let Err(e) = self.save() {
            self.lock().push(entry);
            return Err(e);
        }
        Ok(())
    }

    /// Refuses what [`Self::remove`] would.
    ///
    /// # Errors
    /// If there is no such disk, or it holds replicas.
    pub fn refuse_removal(
        &self,
        name: &str,
        unwanted: &BTreeSet<ReplicaId>,
    ) -> Result<(), ApiError> {
        self.lock().removable(name, unwanted).map(drop)
    }
}

/// The path without links and dots. Links under /dev/disk are kept: they are the stable names.
pub(super) fn canonical(path: &Path, what: &str) -> Result<PathBuf, ApiError> {
    if !path.is_absolute() {
        let advice = "Give the path from the root, as in /dev/disk/by-id/…";
        return Err(ApiError::new(ErrorCode::BadRequest, what, "the path is relative", advice));
    }
    let found = path.canonicalize().map_err(|e| {
        let advice = "Check the path; a directory must exist before it is added";
        ApiError::new(ErrorCode::BadRequest, what, e.to_string(), advice)
    })?;
    Ok(if path.starts_with("/dev/disk") { path.to_owned() } else { found })
}

/// The last part of its path.
pub(super) fn default_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

//! The disks of this node as a list: which is which, and where a replica is.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_format::{NAME_RULE, is_name};

use super::adding::default_name;
use super::entry::{Entry, Record};
use super::known::Known;
use super::mark::DeviceIdentity;
use super::states::KnownState;

/// Most volumes that a refusal names.
const MAX_NAMED: usize = 20;

/// Disks, each of them changed in its place; they come and go by name or number.
#[derive(Debug)]
pub(super) struct Entries(Vec<Entry>);

impl Deref for Entries {
    type Target = [Entry];

    fn deref(&self) -> &[Entry] {
        &self.0
    }
}

impl DerefMut for Entries {
    fn deref_mut(&mut self) -> &mut [Entry] {
        &mut self.0
    }
}

impl FromIterator<Entry> for Entries {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl Entries {
    /// Adds a disk.
    pub(super) fn push(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    /// Takes the disk with this serial number out.
    pub(super) fn take_out(&mut self, serial: u64) -> Option<Entry> {
        let position = self.0.iter().position(|entry| entry.serial() == serial)?;
        Some(self.0.remove(position))
    }

    /// The disk with this serial number.
    pub(super) fn numbered(&mut self, serial: u64) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.serial() == serial)
    }

    /// The disk that a replica is on, and what is known of the replica.
    pub(super) fn holder(&self, replica: ReplicaId) -> Option<(&Entry, &Known)> {
        self.0.iter().find_map(|entry| Some((entry, entry.known(replica)?)))
    }

    /// The disk that a replica is on, and which of its replicas it is.
    pub(super) fn holder_mut(&mut self, replica: ReplicaId) -> Option<(&mut Entry, usize)> {
        self.0.iter_mut().find_map(|entry| entry.position(replica).map(|at| (entry, at)))
    }

    /// Takes out the disk of this name.
    ///
    /// # Errors
    /// If there is none, or it may not be removed.
    pub(super) fn remove(
        &mut self,
        name: &str,
        unwanted: &BTreeSet<ReplicaId>,
    ) -> Result<Entry, ApiError> {
        let index = self.removable(name, unwanted)?;
        Ok(self.0.remove(index))
    }

    /// What the state directory is to remember of them.
    pub(super) fn records(&self) -> Vec<Record> {
        let remembered = self.0.iter().filter(|entry| !entry.is_new());
        remembered.map(|entry| entry.record().clone()).collect()
    }

    /// The replicas of a disk that are closed, because it or they can't be used just now.
    pub(super) fn closed_on(&self, name: &str) -> Vec<(ReplicaId, VolumeId)> {
        let known = self.0.iter().filter(|e| e.name() == name).flat_map(Entry::replicas);
        let closed = known.filter(|k| k.state().is_waiting());
        closed.filter_map(Known::superblock).map(|s| (s.replica, s.volume)).collect()
    }

    /// The replicas of which this node knows, with their volumes, but for those being made.
    pub(super) fn finished_replicas(&self) -> Vec<(ReplicaId, VolumeId)> {
        let known = self.0.iter().flat_map(Entry::replicas);
        let finished = known.filter(|k| *k.state() != KnownState::Making);
        finished.filter_map(Known::superblock).map(|s| (s.replica, s.volume)).collect()
    }

    /// A name for a disk at this path that no other disk has.
    pub(super) fn free_name(&self, path: &Path) -> String {
        let name = default_name(path);
        let is_free = |name: &String| !self.0.iter().any(|entry| entry.name() == name);
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        names.find(is_free).unwrap_or(name)
    }

    /// Refuses a device that is another disk of this node already, by another path.
    pub(super) fn refuse_known(
        &self,
        identity: &DeviceIdentity,
        what: &str,
    ) -> Result<(), ApiError> {
        let is_it = |entry: &&Entry| {
            entry.record().device.as_ref().is_some_and(|known| known.has_mark_of(identity))
        };
        let Some(known) = self.0.iter().find(is_it).map(Entry::record) else {
            return Ok(());
        };
        let (name, path) = (&known.name, known.path.display());
        Err(ApiError::new(
            ErrorCode::NameInUse,
            what,
            format!(
                "it bears the mark of disk {name}, which was added as {path}: it is that disk, or a copy of it"
            ),
            format!(
                "If it is that disk: `evenkeel disk remove {name}`, then add it anew; to use a copy as an empty disk, add it with --force"
            ),
        ))
    }

    /// A disk that may be removed: it holds no replica but such as are closed and unwanted.
    pub(super) fn removable(
        &self,
        name: &str,
        unwanted: &BTreeSet<ReplicaId>,
    ) -> Result<usize, ApiError> {
        let what = format!("cannot remove disk {name}");
        let index = self.find(name, &what)?;
        let counts = |known: &&Known| {
            let is_unwanted = known.replica().is_some_and(|replica| unwanted.contains(&replica));
            !is_unwanted || !known.state().is_waiting()
        };
        let held: Vec<&Known> = self.0[index].replicas().iter().filter(counts).collect();
        if held.is_empty() {
            return Ok(index);
        }
        let volumes: BTreeSet<&str> = held.iter().map(|known| known.volume_name()).collect();
        let named: Vec<&str> = volumes.iter().copied().take(MAX_NAMED).collect();
        let more = match volumes.len().saturating_sub(named.len()) {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let (count, volumes) = (held.len(), named.join(", "));
        let why = format!("it holds {count} replica(s), of: {volumes}{more}");
        let advice = format!(
            "Move each to another disk first: `evenkeel replica move VOLUME NODE:{name} --to NODE`; or delete the volumes"
        );
        Err(ApiError::new(ErrorCode::DiskHasReplicas, what, why, advice))
    }

    /// Where the disk of this name is.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn find(&self, name: &str, what: &str) -> Result<usize, ApiError> {
        self.0.iter().position(|entry| entry.name() == name).ok_or_else(|| {
            let names: Vec<&str> = self.0.iter().map(Entry::name).collect();
            let why = match names.as_slice() {
                [] => "this node has no disk".to_owned(),
                names => {
                    format!("this node has no disk of that name; it has: {}", names.join(", "))
                }
            };
            let advice = match name.split_once(':') {
                Some((node, disk)) => format!(
                    "On this node a disk is named without its node; ask node {node} for its disk {disk}"
                ),
                None => "See `evenkeel disk list`".to_owned(),
            };
            ApiError::new(ErrorCode::NoSuchDisk, what, why, advice)
        })
    }

    /// Refuses a disk that has the name or path of another one, or a name that none can have.
    pub(super) fn refuse_duplicate(
        &self,
        path: &Path,
        name: &str,
        what: &str,
    ) -> Result<(), ApiError> {
        if !is_name(name) {
            let why = format!("{name:?} cannot be its name: {NAME_RULE}");
            return Err(ApiError::new(ErrorCode::BadRequest, what, why, "Give it another name"));
        }
        let refuse =
            |why| Err(ApiError::new(ErrorCode::NameInUse, what, why, "See `evenkeel disk list`"));
        if let Some(entry) = self.0.iter().find(|entry| entry.path() == path) {
            return refuse(format!("it is already disk {}", entry.name()));
        }
        match self.0.iter().find(|entry| entry.name() == name) {
            Some(entry) => refuse(format!(
                "the name {name} is taken by {}; give this one another name",
                entry.path().display()
            )),
            None => Ok(()),
        }
    }
}

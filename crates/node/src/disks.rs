//! The disks of this node, and the replicas on them.
//!
//! A disk is a block device, which holds one replica, or a directory, which holds one file for
//! each. All calls block on the disks: they belong on a thread that may.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use evenkeel_api::types::{Disk, DiskState, NodeRef};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{BootId, ReplicaId, View, VolumeId};
use evenkeel_format::{Newest, Superblock};

use crate::state::{StateDirectory, StateError};

mod adding;
mod again;
mod deletion;
mod device;
mod directory;
mod entries;
mod entry;
mod errors;
mod failing;
mod growing;
mod in_engine;
mod known;
mod listed;
mod making;
mod mark;
mod mounted;
mod opening;
mod origins;
mod plan;
mod presence;
mod probe;
mod replica_file;
mod risk;
mod space;
mod states;
mod stopped;
mod unserved;

pub use again::Probe;
pub use failing::Failing;
pub use in_engine::InEngine;
pub use making::NewReplica;
pub use presence::{Due, Look, Looks, Seen};
pub use probe::{device_number, length, mount_point};
pub(crate) use replica_file::{length_of, open_to_read, read_copy};
pub use risk::Risk;
pub use stopped::ReplicaPlace;
pub use unserved::Unserved;

/// The command that puts a replica onto another disk, for advice. Whether there is another one with
/// space, whoever advises it does not know.
pub const REPLACE: &str =
    "`evenkeel replica replace` (if no other disk has space for it, first `evenkeel disk add`)";

use adding::{canonical, default_name};
use entries::Entries;
use entry::{Entry, Record};
pub use growing::GrowingFile;
use known::Known;
use listed::Listed;
use opening::{Found, Opened};
use origins::Origins;
use space::{Asked, Question, Space};
use states::{KnownState, Trouble};
use stopped::Stopped;

const FILE: &str = "disks.json";
/// How long the start waits for disks to be opened. One that hangs is opened when it answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// A replica that was opened: checked, locked, ready for direct I/O.
#[derive(Debug)]
pub struct OpenReplica {
    /// The file or device, opened with O_DIRECT.
    pub file: File,
    /// Its path.
    pub path: PathBuf,
    /// Whether it is a block device.
    pub device: bool,
    /// The smallest unit of direct I/O, in bytes.
    pub block_size: u32,
    /// What it says of itself.
    pub newest: Newest,
    /// The disk's [`Entry::mount`], as soon as its entry has it.
    mount: u64,
}

impl OpenReplica {
    /// A replica that has just been made: both copies are its first superblock.
    fn new(file: File, path: PathBuf, device: bool, block_size: u32, first: &Superblock) -> Self {
        Self { file, path, device, block_size, newest: replica_file::both(first), mount: 0 }
    }

    /// Makes it no replica any more.
    fn erase(&self) -> std::io::Result<()> {
        match self.device {
            true => replica_file::erase(&self.file),
            false => directory::delete(&self.path),
        }
    }

    /// Since when what was written there and not flushed is safe from all but a power cut: the
    /// machine's boot, and, of a device, that time of its being in the machine, of a directory, of
    /// its file system's being mounted. Who pulls a disk out cuts its power, and a file system that
    /// was shut down has forgotten what it had not written. A restart of the daemon changes none.
    #[must_use]
    pub fn boot(&self, machine: BootId) -> BootId {
        let number = probe::device_number(&self.path).ok().flatten().filter(|_| self.device);
        let sequence = number.and_then(probe::disk_sequence).unwrap_or(0);
        BootId(machine.0 ^ u128::from(sequence) ^ u128::from(self.mount) << 64)
    }
}

/// The paths of the disks that a state directory remembers, whether its node runs or not.
///
/// # Errors
/// If the list cannot be read.
pub fn remembered(state: &Path) -> std::io::Result<Vec<PathBuf>> {
    let text = match std::fs::read(state.join(FILE)) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let records: Vec<Record> = serde_json::from_slice(&text)?;
    Ok(records.into_iter().map(|record| record.path).collect())
}

/// The disks of this node.
#[derive(Debug)]
pub struct Disks {
    state: Arc<StateDirectory>,
    listed: Arc<Listed>,
    looks: Looks,
    failing: Failing,
    in_engine: InEngine,
    stopped: Stopped,
    /// Held while what the state directory remembers is changed, so that what is newer is saved
    /// later. Only by threads that may block, and before the others.
    saving: Mutex<()>,
    /// Which file each replica was last.
    origins: Arc<Origins>,
    /// Disks that did not answer at the start.
    late: Mutex<Option<mpsc::Receiver<Found>>>,
}

impl Disks {
    /// Opens all disks that the state directory remembers, and all replicas on them. What cannot
    /// be opened is reported in [`Disks::list`] and left alone.
    ///
    /// # Errors
    /// If the state directory cannot be read.
    pub fn open(
        state: Arc<StateDirectory>,
        node: NodeRef,
    ) -> Result<(Self, Vec<OpenReplica>), StateError> {
        let records: Vec<Record> = state.load(FILE)?.unwrap_or_default();
        let stopped = Stopped::load(state.clone())?;
        let origins = Arc::new(Origins::load(&state)?);
        let entries =
            records.into_iter().map(|record| Entry::opening(record, Trouble::no_answer()));
        let listed = Arc::new(Listed::new(node, entries.collect()));
        let disks = Self {
            state,
            looks: Looks::new(listed.clone()),
            failing: Failing::new(listed.clone()),
            in_engine: InEngine::new(listed.clone()),
            listed,
            stopped,
            saving: Mutex::default(),
            origins,
            late: Mutex::default(),
        };
        let (mut opened, is_news) = disks.open_all(PATIENCE);
        if is_news {
            disks.save_records()?;
        }
        disks.remember_files();
        disks.keep_closed(&mut opened);
        Ok((disks, opened))
    }

    /// What looks at their paths find.
    #[must_use]
    pub const fn looks(&self) -> &Looks {
        &self.looks
    }

    /// Those whose file system fails or is read-only.
    #[must_use]
    pub const fn failing(&self) -> &Failing {
        &self.failing
    }

    /// The replicas on them that the engine has, or is to have.
    #[must_use]
    pub const fn in_engine(&self) -> &InEngine {
        &self.in_engine
    }

    /// All disks, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Disk> {
        // A disk that hangs keeps neither this list waiting for good nor any other one.
        let ask = |entry: &Entry| {
            let asked = Question::of(entry).map(|ask| entry.sampler().ask(move || ask.answer()));
            (entry.describe(self.listed.node()), asked)
        };
        let asked: Vec<_> = self.lock().iter().map(ask).collect();
        let end = Instant::now() + space::PATIENCE;
        let fill = |(disk, asked): (Disk, Option<Asked>)| match asked {
            Some(asked) => with_space(disk, &asked.until(end)),
            None => disk,
        };
        let mut disks: Vec<Disk> = asked.into_iter().map(fill).collect();
        disks.sort_by(|a, b| a.name.cmp(&b.name));
        disks
    }

    /// Calls the replicas here by the names that their volumes have now.
    pub fn learn_names(&self, names: &BTreeMap<VolumeId, String>) {
        for known in self.lock().iter_mut().flat_map(Entry::replicas_mut) {
            if let Some(name) = known.volume().and_then(|volume| names.get(&volume)) {
                known.call(name);
            }
        }
    }

    /// Name of the disk that holds a replica.
    #[must_use]
    pub fn disk_of(&self, replica: ReplicaId) -> Option<String> {
        let entries = self.lock();
        entries.holder(replica).map(|(entry, _)| entry.name().to_owned())
    }

    /// Whether a replica is open, or being given to the engine.
    #[must_use]
    pub fn is_open(&self, replica: ReplicaId) -> bool {
        self.state_of(replica).is_some_and(|state| state.is_open())
    }

    fn state_of(&self, replica: ReplicaId) -> Option<KnownState> {
        let entries = self.lock();
        entries.holder(replica).map(|(_, known)| known.state().clone())
    }

    /// The replicas of a disk that are closed, because it or they can't be used just now.
    #[must_use]
    pub fn closed_on(&self, name: &str) -> Vec<(ReplicaId, VolumeId)> {
        self.lock().closed_on(name)
    }

    /// The replicas of which this node knows, with their volumes, but for those being made.
    #[must_use]
    pub fn finished_replicas(&self) -> Vec<(ReplicaId, VolumeId)> {
        self.lock().finished_replicas()
    }

    /// The view of a replica's newest superblock, read from the disk: what is remembered here
    /// is older once the replica is served. Of one whose file is gone it is what is remembered.
    /// `None`: it is not here, or cannot be read.
    #[must_use]
    pub fn newest_view(&self, replica: ReplicaId) -> Option<View> {
        let (path, remembered) = {
            let entries = self.lock();
            let (entry, known) = entries.holder(replica)?;
            // Its disk is there, and nothing is where it was.
            let is_absent = known.state().is_absent() && entry.state().hold().is_some();
            let is_gone =
                known.state().gone_file().is_some() || known.lost_file().is_some() || is_absent;
            let remembered = known.superblock().filter(|_| is_gone);
            (known.path().to_owned(), remembered.map(|superblock| superblock.view.clone()))
        };
        let found = replica_file::read_newest(&path).filter(|found| found.replica == replica);
        found.map(|superblock| superblock.view).or(remembered)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.listed.lock()
    }

    fn save(&self) -> Result<(), ApiError> {
        self.save_records().map_err(|e| {
            let advice = "Free some space, or repair the file system of the state directory";
            ApiError::new(ErrorCode::System, "cannot remember the disks", e.to_string(), advice)
        })
    }

    /// Saves which files the replicas are, if that has changed. It blocks on the state directory.
    pub fn remember_files(&self) {
        let _alone = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        self.origins.save(&self.state);
    }

    /// Saves that mounts are over, if the state directory does not know of one. A daemon that took
    /// the next one for the same would not miss what was lost in between. It blocks on the state
    /// directory.
    pub fn remember_mounts(&self) {
        let is_unsaved = self.lock().iter().any(Entry::is_unsaved);
        if is_unsaved && let Err(error) = self.save_records() {
            tracing::warn!(%error, "cannot remember that a disk failed or was pulled out; it is tried again");
        }
    }

    fn save_records(&self) -> Result<(), StateError> {
        let _alone = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let records = self.lock().records();
        self.state.save(FILE, &records)?;
        for entry in self.lock().iter_mut() {
            records.iter().for_each(|record| entry.note_saved(record));
        }
        Ok(())
    }
}

fn with_space(mut disk: Disk, space: &Space) -> Disk {
    (disk.size, disk.free, disk.available) = (space.size, space.free, space.available);
    if let Some(trouble) = space.trouble.clone().filter(|_| disk.problem.is_none()) {
        (disk.state, disk.problem) = (DiskState::Failing, Some(trouble));
    }
    for (position, replica) in disk.replicas.iter_mut().enumerate() {
        replica.unallocated = space.unallocated(position);
    }
    disk
}

fn system(what: &str, error: &std::io::Error) -> ApiError {
    let full = error.kind() == std::io::ErrorKind::StorageFull;
    let code = if full { ErrorCode::NoSpace } else { ErrorCode::System };
    ApiError::new(code, what, error.to_string(), "See the kernel's log, and check the disk")
}

#[cfg(test)]
pub(crate) mod tests;

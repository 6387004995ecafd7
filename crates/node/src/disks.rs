//! The disks of this node, and the replicas on them.
//!
//! A disk is a block device, which holds one replica, or a directory, which holds one file for
//! each. All calls block on the disks: they belong on a thread that may.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use evenkeel_api::types::{Disk, DiskKind, DiskReplica, DiskState, NodeRef};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{BootId, ReplicaId, View, VolumeId};
use evenkeel_format::{NAME_RULE, Newest, Superblock, is_name};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::state::{StateDirectory, StateError};

mod again;
mod deletion;
mod device;
mod directory;
mod errors;
mod failing;
mod making;
mod mark;
mod origins;
mod plan;
mod presence;
mod probe;
mod replica_file;
mod risk;
mod room;
mod space;
mod states;
mod stopped;
mod unserved;

pub use again::Probe;
pub use making::NewReplica;
pub use presence::{Due, Look, Seen};
pub use probe::{device_number, length, mount_point};
pub(crate) use replica_file::{length_of, open_to_read, read_copy};
pub use risk::Risk;
pub use stopped::ReplicaPlace;
pub use unserved::Unserved;

use errors::{LastError, Lines};
use failing::FailedLooks;
use mark::DeviceIdentity;
use origins::Origins;
use presence::{Identity, LastLook};
pub use room::Room;
use space::{Asked, Question, Sampler, Space};
use states::{EntryState, Hold, KnownState, Retry, Trouble};

const FILE: &str = "disks.json";
/// Most volumes that a refusal names.
const MAX_NAMED: usize = 20;
/// How long the start waits for disks to be opened. One that hangs is opened when it answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// A disk as the state directory remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    name: String,
    path: PathBuf,
    kind: DiskKind,
    /// What its marker file says, of a directory, so that no other one is taken for it. `None`: it
    /// was added by software that made none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    marker: Option<String>,
    /// Which one it is, of a block device. `None`: it was added by software that did not mark it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<DeviceIdentity>,
}

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
    /// The disk's [`Entry::mount`].
    mount: u64,
}

impl OpenReplica {
    /// A replica that has just been made: both slots hold its first superblock.
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
    /// was shut down has forgotten what it had not written.
    #[must_use]
    pub fn boot(&self, machine: BootId) -> BootId {
        let number = probe::device_number(&self.path).ok().flatten().filter(|_| self.device);
        let sequence = number.and_then(probe::disk_sequence).unwrap_or(0);
        BootId(machine.0 ^ u128::from(sequence) ^ u128::from(self.mount) << 64)
    }
}

/// What is known of a replica on a disk, whether it could be opened or not.
#[derive(Debug, Clone)]
struct Known {
    path: PathBuf,
    superblock: Option<Superblock>,
    state: KnownState,
    /// When it is tried again should the engine not be able to read it, if it was so already.
    next_try: Option<Retry>,
    /// Bytes that its file is to have, while it is made longer; else zero.
    reserved: u64,
    /// Which file is open, if one is and the system has told.
    identity: Option<Identity>,
    /// That file has other names.
    has_other_names: bool,
    last_error: Option<LastError>,
    /// What its volume is called now, as the coordinator has told it.
    called: Option<String>,
}

#[derive(Debug)]
struct Entry {
    /// Which one it is; no other entry has ever had it.
    serial: u64,
    record: Record,
    state: EntryState,
    block_size: u32,
    replicas: Vec<Known>,
    /// It is being added, and not remembered yet.
    is_new: bool,
    sampler: Arc<Sampler>,
    last_look: LastLook,
    failed_looks: FailedLooks,
    lines: Lines,
    /// A random number, drawn whenever the disk is let go of because its file system fails; before
    /// that 0.
    mount: u64,
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
    node: NodeRef,
    entries: Mutex<Vec<Entry>>,
    /// Volumes whose replicas are kept closed.
    stopped: Mutex<BTreeSet<VolumeId>>,
    /// Held while what the state directory remembers is changed, so that what is newer is saved
    /// later. Only by threads that may block, and before the others.
    saving: Mutex<()>,
    /// Which file each replica was last.
    origins: Arc<Origins>,
    /// Disks that did not answer at the start.
    late: Mutex<Option<mpsc::Receiver<Found>>>,
    /// Something may have to be opened again sooner than was thought.
    changed: Notify,
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
        let stopped = Mutex::new(stopped::load(&state)?);
        let origins = Arc::new(Origins::load(&state)?);
        let entries =
            records.into_iter().map(|record| Entry::opening(record, Trouble::no_answer()));
        let disks = Self {
            state,
            node,
            entries: Mutex::new(entries.collect()),
            stopped,
            saving: Mutex::default(),
            origins,
            late: Mutex::default(),
            changed: Notify::new(),
        };
        let (mut opened, is_news) = disks.open_all(PATIENCE);
        if is_news {
            disks.save_records()?;
        }
        disks.remember_files();
        disks.keep_closed(&mut opened);
        Ok((disks, opened))
    }

    /// Opens all disks at the same time. Those that have not answered in time are left to
    /// [`Disks::late`]. Returns the replicas that were opened, and whether more is known now of
    /// which disks they are.
    fn open_all(&self, patience: Duration) -> (Vec<OpenReplica>, bool) {
        let (sender, found) = mpsc::channel();
        let mut count = 0;
        for entry in self.lock().iter() {
            let (serial, record, sender) = (entry.serial, entry.record.clone(), sender.clone());
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
            self.changed.notify_one();
            self.keep_closed(&mut opened);
            serve(opened);
        }
    }

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
        let record = Record { name: name.clone(), path, kind, marker: None, device: None };
        let serial = self.begin_adding(record.clone(), &what)?;
        // Without the lock: it may take long, and others want to know of their disks.
        let mut opened = match self.open_new(serial, record, force, &what) {
            Ok(opened) => opened,
            Err(error) => {
                // It is dropped without the lock: to close a device blocks on it.
                let _closed = self.take_out(serial);
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

    fn take_out(&self, serial: u64) -> Option<Entry> {
        let mut entries = self.lock();
        let position = entries.iter().position(|entry| entry.serial == serial)?;
        Some(entries.remove(position))
    }

    /// Takes the name and path of a disk that is to be added, so that nobody else does meanwhile.
    fn begin_adding(&self, record: Record, what: &str) -> Result<u64, ApiError> {
        let mut entries = self.lock();
        refuse_duplicate(&entries, &record.path, &record.name, what)?;
        let mut entry = Entry::opening(record, Trouble::Held("it is being added".into()));
        entry.is_new = true;
        let serial = entry.serial;
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
                self.refuse_known(&identity, what)?;
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
        for entry in self.lock().iter_mut().filter(|entry| entry.serial == serial) {
            entry.is_new = false;
        }
        self.save()?;
        Ok(opened)
    }

    /// Refuses a device that is another disk of this node already, by another path.
    fn refuse_known(&self, identity: &DeviceIdentity, what: &str) -> Result<(), ApiError> {
        let is_it = |entry: &&Entry| {
            entry.record.device.as_ref().is_some_and(|known| known.has_mark_of(identity))
        };
        let entries = self.lock();
        let Some(known) = entries.iter().find(is_it).map(|entry| &entry.record) else {
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

    /// A name for a disk at this path that no other disk has.
    #[must_use]
    pub fn free_name(&self, path: &Path) -> String {
        let name = default_name(path);
        let entries = self.lock();
        let is_free = |name: &String| !entries.iter().any(|entry| entry.record.name == *name);
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        names.find(is_free).unwrap_or(name)
    }

    /// The replicas of a disk that are closed, because it or they can't be used just now.
    #[must_use]
    pub fn closed_on(&self, name: &str) -> Vec<(ReplicaId, VolumeId)> {
        let entries = self.lock();
        let known = entries.iter().filter(|e| e.record.name == name).flat_map(|e| &e.replicas);
        let closed = known.filter(|k| matches!(k.state, KnownState::Waiting(..)));
        closed.filter_map(|k| k.superblock.as_ref()).map(|s| (s.replica, s.volume)).collect()
    }

    /// Takes a disk back from evenkeel. Only one without replicas; those do not count that are
    /// closed and which no volume has any more.
    ///
    /// # Errors
    /// If there is no such disk, or it holds replicas.
    pub fn remove(&self, name: &str, unwanted: &BTreeSet<ReplicaId>) -> Result<(), ApiError> {
        let mut entries = self.lock();
        let index = removable(&entries, name, unwanted)?;
        let entry = entries.remove(index);
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
        removable(&self.lock(), name, unwanted).map(drop)
    }

    /// All disks, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Disk> {
        // A disk that hangs keeps neither this list waiting for good nor any other one.
        let ask = |entry: &Entry| {
            let asked = Question::of(entry).map(|ask| entry.sampler.ask(move || ask.answer()));
            (self.describe(entry), asked)
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
        for known in self.lock().iter_mut().flat_map(|entry| &mut entry.replicas) {
            let volume = known.superblock.as_ref().map(|superblock| superblock.volume);
            if let Some(name) = volume.and_then(|volume| names.get(&volume)) {
                known.called = Some(name.clone());
            }
        }
    }

    /// Name of the disk that holds a replica.
    #[must_use]
    pub fn disk_of(&self, replica: ReplicaId) -> Option<String> {
        let entries = self.lock();
        let entry = entries.iter().find(|entry| entry.position(replica).is_some())?;
        Some(entry.record.name.clone())
    }

    /// The replicas of which this node knows, with their volumes, but for those being made.
    #[must_use]
    pub fn finished_replicas(&self) -> Vec<(ReplicaId, VolumeId)> {
        let entries = self.lock();
        let known = entries
            .iter()
            .flat_map(|entry| &entry.replicas)
            .filter(|k| k.state != KnownState::Making);
        known.filter_map(|k| k.superblock.as_ref()).map(|s| (s.replica, s.volume)).collect()
    }

    /// Whether a replica is open, or being given to the engine.
    #[must_use]
    pub fn is_open(&self, replica: ReplicaId) -> bool {
        self.state_of(replica).is_some_and(|state| state.is_open())
    }

    fn state_of(&self, replica: ReplicaId) -> Option<KnownState> {
        let entries = self.lock();
        entries.iter().find_map(|e| Some(e.replicas[e.position(replica)?].state.clone()))
    }

    /// The view of a replica's newest superblock, read from the disk: what is remembered here
    /// is older once the replica is served. Of one whose file is gone it is what is remembered.
    /// `None`: it is not here, or cannot be read.
    #[must_use]
    pub fn newest_view(&self, replica: ReplicaId) -> Option<View> {
        let (path, remembered) = {
            let entries = self.lock();
            let (entry, position) =
                entries.iter().find_map(|e| e.position(replica).map(|p| (e, p)))?;
            let known = &entry.replicas[position];
            // Its disk is there, and nothing is where it was.
            let is_absent = matches!(
                known.state,
                KnownState::Waiting(Trouble::Absent(_), _)
                    | KnownState::Opening(Trouble::Absent(_), _)
            );
            let is_gone = matches!(known.state, KnownState::FileGone(_))
                || (is_absent && entry.state.hold().is_some());
            let remembered = known.superblock.as_ref().filter(|_| is_gone);
            (known.path.clone(), remembered.map(|superblock| superblock.view.clone()))
        };
        let found = replica_file::read_newest(&path).filter(|found| found.replica == replica);
        found.map(|superblock| superblock.view).or(remembered)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn save_records(&self) -> Result<(), StateError> {
        let _alone = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = self.lock();
        let remembered = entries.iter().filter(|entry| !entry.is_new);
        let records: Vec<Record> = remembered.map(|entry| entry.record.clone()).collect();
        drop(entries);
        self.state.save(FILE, &records)
    }

    fn describe(&self, entry: &Entry) -> Disk {
        let (state, problem) = match (entry.state.described(), entry.hangs()) {
            ((DiskState::Serving, _), Some(why)) => (DiskState::Failing, Some(why)),
            (described, _) => described,
        };
        Disk {
            name: entry.record.name.clone(),
            node: self.node.clone(),
            path: entry.record.path.display().to_string(),
            kind: entry.record.kind,
            size: 0,
            free: 0,
            available: None,
            block_size: entry.block_size,
            replicas: entry.replicas.iter().map(Known::describe).collect(),
            state,
            problem,
        }
    }
}

impl Entry {
    fn position(&self, replica: ReplicaId) -> Option<usize> {
        let is = |known: &Known| known.superblock.as_ref().is_some_and(|s| s.replica == replica);
        self.replicas.iter().position(is)
    }
}

impl Known {
    fn new(path: &Path, superblock: Option<Superblock>, state: KnownState) -> Self {
        Self {
            path: path.to_owned(),
            superblock,
            state,
            next_try: None,
            reserved: 0,
            identity: None,
            has_other_names: false,
            last_error: None,
            called: None,
        }
    }

    /// The name of its volume as far as the coordinator has told, else that which the volume had
    /// when the replica was made; `?` if that can't be read.
    fn volume_name(&self) -> &str {
        let made_as = || self.superblock.as_ref().map_or("?", |superblock| &superblock.name);
        self.called.as_deref().unwrap_or_else(made_as)
    }

    fn describe(&self) -> DiskReplica {
        let superblock = self.superblock.as_ref();
        DiskReplica {
            id: superblock.map(|s| s.replica.to_string()),
            volume_id: superblock.map(|s| s.volume.to_string()),
            volume: superblock.map(|_| self.volume_name().to_owned()),
            mirror: superblock.map(|s| s.mirror as usize),
            size: superblock.map(|s| s.data_length),
            unallocated: None,
            path: self.path.display().to_string(),
            problem: self.state.problem(),
            file_gone: matches!(self.state, KnownState::FileGone(_)),
            warning: self.warning(),
        }
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

/// What is open of a disk: its hold, the smallest unit of direct I/O in bytes, its replicas.
type Opened = (Hold, u32, Vec<Known>);

/// What has come of opening a disk.
struct Found {
    serial: u64,
    record: Record,
    opened: Result<Opened, Trouble>,
    /// The replicas on it that were opened.
    replicas: Vec<OpenReplica>,
    /// The replicas that could be read on a device that could not be opened.
    glimpsed: Vec<Known>,
}

impl Found {
    /// Opens a disk, and all replicas on it.
    fn open(serial: u64, mut record: Record, origins: &Origins) -> Self {
        let mut replicas = Vec::new();
        let opened = match record.kind {
            DiskKind::Device => device::open(&record.path, &mut record.device, &mut replicas),
            DiskKind::Directory => {
                directory::open(&record.path, &mut record.marker, origins, &mut replicas)
            }
        };
        let glimpsed = match (&opened, record.kind) {
            (Err(trouble), DiskKind::Device) => {
                device::glimpse(&record, trouble, Retry::first(Instant::now()))
            }
            _ => Vec::new(),
        };
        Self { serial, record, opened, replicas, glimpsed }
    }
}

impl Entry {
    /// A disk that is about to be opened.
    fn opening(record: Record, trouble: Trouble) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let state = EntryState::Opening(trouble, Retry::at_once(Instant::now()));
        Self {
            serial,
            record,
            state,
            block_size: 4096,
            replicas: Vec::new(),
            is_new: false,
            sampler: Arc::default(),
            last_look: LastLook::default(),
            failed_looks: FailedLooks::default(),
            lines: Lines::default(),
            mount: 0,
        }
    }
}

/// A disk that may be removed: it holds no replica but such as are closed and unwanted.
fn removable(
    entries: &[Entry],
    name: &str,
    unwanted: &BTreeSet<ReplicaId>,
) -> Result<usize, ApiError> {
    let what = format!("cannot remove disk {name}");
    let index = find(entries, name, &what)?;
    let counts = |known: &&Known| {
        let replica = known.superblock.as_ref().map(|superblock| superblock.replica);
        let is_unwanted = replica.is_some_and(|replica| unwanted.contains(&replica));
        !is_unwanted || !matches!(known.state, KnownState::Waiting(..))
    };
    let held: Vec<&Known> = entries[index].replicas.iter().filter(counts).collect();
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

fn find(entries: &[Entry], name: &str, what: &str) -> Result<usize, ApiError> {
    entries.iter().position(|entry| entry.record.name == name).ok_or_else(|| {
        let names: Vec<&str> = entries.iter().map(|e| e.record.name.as_str()).collect();
        let why = format!("this node has no disk of that name; it has: {}", names.join(", "));
        ApiError::new(ErrorCode::NoSuchDisk, what, why, "See `evenkeel disk list`")
    })
}

fn refuse_duplicate(
    entries: &[Entry],
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
    if let Some(entry) = entries.iter().find(|entry| entry.record.path == path) {
        return refuse(format!("it is already disk {}", entry.record.name));
    }
    match entries.iter().find(|entry| entry.record.name == name) {
        Some(entry) => refuse(format!(
            "the name {name} is taken by {}; give this one another name",
            entry.record.path.display()
        )),
        None => Ok(()),
    }
}

/// The path without links and dots. Links under /dev/disk are kept: they are the stable names.
fn canonical(path: &Path, what: &str) -> Result<PathBuf, ApiError> {
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

fn default_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn system(what: &str, error: &std::io::Error) -> ApiError {
    let full = error.kind() == std::io::ErrorKind::StorageFull;
    let code = if full { ErrorCode::NoSpace } else { ErrorCode::System };
    ApiError::new(code, what, error.to_string(), "See the kernel's log, and check the disk")
}

#[cfg(test)]
pub(crate) mod tests;

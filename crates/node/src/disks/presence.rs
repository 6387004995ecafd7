//! Whether what is open of a disk is still what lies at its path.
//!
//! A file that is deleted while it is open goes on being written, and so does one whose directory
//! is moved or unmounted lazily. It is gone, or not found, when the daemon ends. No operation fails
//! meanwhile, so nothing but a look at the path tells.
//!
//! A path may hang, so a look belongs on a thread of its own. There is one for each disk at a time:
//! a path that hangs for good costs one thread, and is told.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use evenkeel_core::{ReplicaId, VolumeId};

use super::directory::{self, MARKER};
use super::listed::Listed;
use super::replica_file::read_newest;
use super::states::{FileNews, KnownState};
use super::{Entries, Entry, Known, OpenReplica};
use crate::files::own_file;

/// A path that has not answered for so long is said to hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which file, directory or block device something is, by whatever path it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        match metadata.file_type().is_block_device() {
            // What names it in /dev may be made anew.
            true => Self { device: metadata.rdev(), number: 0 },
            false => Self { device: metadata.dev(), number: metadata.ino() },
        }
    }

    /// That of what is open. `None`: the system does not tell; then it is not looked for.
    pub(super) fn of_open(file: &File) -> Option<Self> {
        file.metadata().ok().as_ref().map(Self::of)
    }

    /// That of what lies at a path. `None`: the system does not tell.
    pub(super) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().as_ref().map(Self::of)
    }

    fn place(self, path: &Path) -> Option<Place> {
        match fs::metadata(path) {
            Ok(found) if Self::of(&found) == self => {
                Some(Place::Here { has_other_names: found.nlink() > 1 })
            }
            Ok(_) => Some(Place::Another),
            Err(e) if is_nothing(&e) => Some(Place::Gone),
            Err(e) if is_medium(&e) => Some(Place::Failing),
            // It may not be looked at: nothing is known of the path.
            Err(_) => None,
        }
    }
}

/// Whether an error says that nothing is at a path.
pub(super) fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, StaleNetworkFileHandle};
    matches!(error.kind(), NotFound | NotADirectory | StaleNetworkFileHandle)
}

/// Whether an error says that what lies below fails.
pub(super) fn is_medium(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::IO)
}

/// What lies at the path of something that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// That, and whether there are hard links to it elsewhere.
    Here { has_other_names: bool },
    /// Nothing.
    Gone,
    /// Something else.
    Another,
    /// The file system answers with an input/output error.
    Failing,
}

impl Place {
    /// The same, but for what tells nothing of the path.
    fn known(self) -> Option<Self> {
        (self != Self::Failing).then_some(self)
    }
}

/// What a look has found that is to be done together with the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// A volume's replica, whose device was pulled and put back: what is open of it is the one that
    /// was pulled, so it is to be closed and opened anew.
    Reopen(VolumeId, ReplicaId),
    /// A disk, by its serial number, whose file system fails or is read-only: its replicas are to
    /// be closed, and it is to be let go of.
    LetGo(u64),
}

/// What is to be looked at of one disk: itself.
#[derive(Debug)]
pub(super) struct DiskLook {
    serial: u64,
    path: PathBuf,
    identity: Identity,
    /// The replica of a device.
    on_device: Option<ReplicaId>,
}

/// What was found of a disk itself.
#[derive(Debug)]
pub(super) struct DiskSeen {
    look: DiskLook,
    place: Option<Place>,
    /// Its file system can't be written to.
    is_read_only: bool,
    /// Another device is there, and holds the replica of the one that is open.
    is_put_back: bool,
}

impl DiskLook {
    fn carry_out(self) -> DiskSeen {
        let place = self.identity.place(&self.path).map(|place| self.or_failing(place));
        let replica = self.on_device.filter(|_| place == Some(Place::Another));
        let found = replica.and_then(|_| read_newest(&self.path)).map(|s| s.replica);
        let is_here = matches!(place, Some(Place::Here { .. }));
        let is_read_only = is_here && directory::is_read_only(&self.path);
        let is_put_back = replica.is_some() && found == replica;
        DiskSeen { look: self, place, is_read_only, is_put_back }
    }

    /// What is known of a directory may be had from memory when its file system has failed: whether
    /// its marker can be read tells.
    fn or_failing(&self, place: Place) -> Place {
        let read = own_file::read_small(&self.path.join(MARKER));
        match (place, read) {
            (Place::Here { .. }, Err(error)) if is_medium(&error) => Place::Failing,
            (place, _) => place,
        }
    }
}

/// What is to be looked at of the file of a replica.
#[derive(Debug)]
struct FileLook {
    replica: ReplicaId,
    path: PathBuf,
    identity: Identity,
}

/// What was found of it.
#[derive(Debug)]
struct FileSeen {
    look: FileLook,
    place: Option<Place>,
}

impl FileLook {
    fn carry_out(self) -> FileSeen {
        FileSeen { place: self.identity.place(&self.path), look: self }
    }
}

/// What is to be looked at of one disk: itself, and the files of its replicas.
#[derive(Debug)]
pub struct Look {
    disk: DiskLook,
    /// None if it is a device.
    files: Vec<FileLook>,
    /// While this is there the look is under way.
    under_way: Arc<()>,
}

/// What was found.
#[derive(Debug)]
pub struct Seen {
    disk: DiskSeen,
    files: Vec<FileSeen>,
    _under_way: Arc<()>,
}

impl Look {
    /// Looks. It blocks on the disk.
    #[must_use]
    pub fn carry_out(self) -> Seen {
        let disk = self.disk.carry_out();
        let files = self.files.into_iter().map(FileLook::carry_out).collect();
        Seen { disk, files, _under_way: self.under_way }
    }

    /// The same, on a file system that is read-only.
    #[cfg(test)]
    pub(super) fn carried_out_read_only(self) -> Seen {
        let mut seen = self.carry_out();
        seen.disk.is_read_only = true;
        seen
    }

    /// The same, on a file system that may fail.
    #[cfg(test)]
    pub(super) fn carried_out(self, fails: bool) -> Seen {
        let mut seen = self.carry_out();
        if fails {
            seen.disk.place = Some(Place::Failing);
            seen.files.iter_mut().for_each(|file| file.place = Some(Place::Failing));
        }
        seen
    }
}

/// The last look at a disk that was begun.
#[derive(Debug, Default)]
pub(super) struct LastLook(Option<(Weak<()>, Instant)>);

impl LastLook {
    fn is_under_way(&self) -> bool {
        self.0.as_ref().is_some_and(|(look, _)| look.strong_count() > 0)
    }

    /// Since when the path has not answered, if it hangs.
    fn hangs_since(&self) -> Option<Instant> {
        let (_, began) = self.0.as_ref().filter(|_| self.is_under_way())?;
        (began.elapsed() > PATIENCE).then_some(*began)
    }
}

/// Looks at the paths of all disks, and what they have found.
#[derive(Debug)]
pub struct Looks(Arc<Listed>);

impl Looks {
    pub(super) const fn new(listed: Arc<Listed>) -> Self {
        Self(listed)
    }

    /// Looks whether one disk is at its path now. It blocks on the disk.
    pub(super) fn look_at(&self, disk: &str) {
        self.look_by(disk, DiskLook::carry_out);
    }

    fn look_by(&self, disk: &str, carry_out: impl FnOnce(DiskLook) -> DiskSeen) {
        let look = self.0.lock().iter().find(|e| e.name() == disk).and_then(Entry::disk_look);
        // Without the lock: if the path hangs, whoever asks for disks must not.
        let Some(seen) = look.map(carry_out) else { return };
        self.note_disk_seen(&mut self.0.lock(), &seen);
    }

    /// Why a replica that this node serves is gone when the daemon ends, as a sentence. `None`: it
    /// is not, or is not served.
    #[must_use]
    pub fn file_gone(&self, replica: ReplicaId) -> Option<String> {
        let entries = self.0.lock();
        let (entry, known) = entries.holder(replica)?;
        let why = known.state().gone_file()?;
        Some(format!("disk {} of node {}: {why}", entry.name(), self.0.node().name))
    }

    /// The same of all replicas, with their volumes' names.
    #[must_use]
    pub fn files_gone(&self) -> Vec<String> {
        let gone = |entry: &Entry, known: &Known| {
            let (why, volume) = (known.state().gone_file()?, known.volume_name());
            Some(format!("disk {}: the replica of {volume}: {why}", entry.name()))
        };
        let entries = self.0.lock();
        let all = entries.iter().flat_map(|entry| entry.replicas().iter().map(move |k| (entry, k)));
        all.filter_map(|(entry, known)| gone(entry, known)).collect()
    }

    /// A look at each disk that is open, but for those of which an earlier one has not ended.
    #[must_use]
    pub fn begin(&self) -> Vec<Look> {
        let mut entries = self.0.lock();
        let idle = entries.iter_mut().filter(|entry| !entry.last_look().is_under_way());
        let begin = |entry: &mut Entry| {
            let look = entry.look()?;
            entry.begin_look(LastLook(Some((Arc::downgrade(&look.under_way), Instant::now()))));
            Some(look)
        };
        idle.filter_map(begin).collect()
    }

    /// Takes note of what was found. Returns what is to be done about it with the engine.
    pub fn note_seen(&self, seen: Seen) -> Option<Due> {
        let mut entries = self.0.lock();
        let entry = self.note_disk_seen(&mut entries, &seen.disk)?;
        let has_failed = seen.disk.place == Some(Place::Failing);
        entry.failed_looks_mut().note(has_failed, seen.disk.is_read_only);
        let let_go = entry.begin_let_go().then_some(Due::LetGo(entry.serial()));
        if entry.is_failing() {
            return let_go;
        }
        let gone = entry.gone();
        if let Some(hold) = entry.let_go_if_empty(Instant::now()) {
            self.0.wake();
            drop(entries);
            // To close a device may take long.
            drop(hold);
            return None;
        }
        if entry.state().is_device() {
            entry.replicas_mut().iter_mut().for_each(|known| known.note_gone(gone.clone()));
            let replica = seen.disk.look.on_device.filter(|_| seen.disk.is_put_back)?;
            let volume = entry.replicas()[entry.position(replica)?].volume()?;
            return Some(Due::Reopen(volume, replica));
        }
        for FileSeen { look: FileLook { replica, path, identity }, place } in seen.files {
            let Some(position) = entry.position(replica) else { continue };
            let known = &mut entry.replicas_mut()[position];
            // Another file may have been opened meanwhile.
            if known.identity() == Some(identity) {
                known.note_place(&path, place, gone.as_ref());
            }
        }
        let_go
    }

    /// Takes note of what was found of a disk itself. `None`: it was removed meanwhile.
    fn note_disk_seen<'a>(
        &self,
        entries: &'a mut Entries,
        seen: &DiskSeen,
    ) -> Option<&'a mut Entry> {
        let entry = entries.numbered(seen.look.serial)?;
        let was_missing = entry.gone().is_some();
        entry.note_place(seen.look.identity, seen.place);
        if was_missing && entry.gone().is_none() {
            // What could not be opened meanwhile is tried again.
            self.0.wake();
        }
        Some(entry)
    }

    /// Whether the disk of a replica is open, and not at its path.
    #[must_use]
    pub fn is_missing(&self, replica: ReplicaId) -> bool {
        let entries = self.0.lock();
        let entry = entries.iter().find(|entry| entry.position(replica).is_some());
        entry.is_some_and(|entry| entry.gone().is_some())
    }
}

const DEVICE: &str = "device";
const FILE: &str = "file";

/// Why what was open at this path is not there any more.
fn why_gone(what: &str, path: &Path, place: Place) -> Option<String> {
    let path = path.display();
    match place {
        Place::Here { .. } | Place::Failing => None,
        Place::Gone if what == DEVICE => Some(format!(
            "there is no {what} at {path} any more: it was pulled out, or given another path; it is opened anew when it is back"
        )),
        Place::Another if what == DEVICE => Some(format!(
            "another {what} is at {path}: the one in use was pulled out, or given another path; it is opened anew when it is back"
        )),
        // Its directory is where it was.
        Place::Gone if what == FILE => {
            Some(format!("there is no {what} at {path} any more: it was deleted or moved"))
        }
        Place::Another if what == FILE => {
            Some(format!("another {what} is at {path}: the one in use was deleted or moved"))
        }
        Place::Gone => Some(format!(
            "there is no {what} at {path} any more: it was deleted, moved or unmounted while it was in use; if it was unmounted, mount it again"
        )),
        Place::Another => Some(format!(
            "another {what} is at {path}: the one in use was deleted, moved or unmounted; if it was unmounted, mount it again"
        )),
    }
}

impl Entry {
    fn disk_look(&self) -> Option<DiskLook> {
        let hold = self.state().any_hold()?;
        let is_device = self.state().is_device();
        let on_device = self.replicas().first().filter(|_| is_device).and_then(Known::replica);
        let (path, identity) = (self.path().to_owned(), hold.identity()?);
        Some(DiskLook { serial: self.serial(), path, identity, on_device })
    }

    fn look(&self) -> Option<Look> {
        let disk = self.disk_look()?;
        let of = |known: &Known| {
            let is_looked_at = known.state().is_open() || known.state().is_stopped();
            let identity = known.identity().filter(|_| is_looked_at)?;
            let (replica, path) = (known.replica()?, known.path().to_owned());
            Some(FileLook { replica, path, identity })
        };
        let files = match self.state().is_device() {
            true => Vec::new(),
            false => self.replicas().iter().filter_map(of).collect(),
        };
        Some(Look { disk, files, under_way: Arc::new(()) })
    }

    /// Why it is not at its path, if it is open and not there.
    fn gone(&self) -> Option<String> {
        self.state().missing().map(|trouble| trouble.why().to_owned())
    }

    /// Why its path does not answer, if it hangs.
    pub(super) fn hangs(&self) -> Option<String> {
        let since = self.last_look().hangs_since()?;
        Some(format!("its path has not answered for {} s; it may hang", since.elapsed().as_secs()))
    }

    fn note_place(&mut self, identity: Identity, place: Option<Place>) {
        // Nothing is known of what is there.
        let Some(place) = place.and_then(Place::known) else { return };
        let what = if self.state().is_device() { DEVICE } else { "directory" };
        let why = why_gone(what, self.path(), place);
        if self.note_gone(identity, why.clone()) {
            let (disk, why) = (self.name(), why.unwrap_or_default());
            tracing::warn!(disk, why, "a disk is not at its path any more");
        }
    }
}

impl Known {
    /// A replica that is open.
    pub(super) fn served(replica: &OpenReplica) -> Self {
        let superblock = Some(replica.newest.superblock.clone());
        let mut known = Self::new(&replica.path, superblock, KnownState::Served);
        known.opened(Identity::of_open(&replica.file));
        if !replica.device {
            known.note_names(own_file::has_other_names(&replica.file).unwrap_or(false));
        }
        known
    }

    fn note_names(&mut self, has_others: bool) {
        let had_others = self.set_other_names(has_others);
        if let (Some(warning), false) = (self.other_names(), had_others) {
            tracing::warn!("{warning}");
        }
    }

    /// That its file has other names, and what that means.
    pub(super) fn other_names(&self) -> Option<String> {
        let path = self.path().display();
        self.has_other_names().then(|| format!(
            "{path} has another name, too (a hard link, as `cp -l` makes): that is no backup, for it changes with the replica, and what writes to it damages the replica. Remove the other name"
        ))
    }

    /// What lies at the path of its file; `disk_gone`: why its disk is not there, if so.
    fn note_place(&mut self, path: &Path, place: Option<Place>, disk_gone: Option<&String>) {
        let place = place.and_then(Place::known);
        // Closed, its file may be exchanged for a copy that is as good.
        let place = match place {
            Some(Place::Another) if self.state().is_stopped() => {
                Some(Place::Here { has_other_names: false })
            }
            place => place,
        };
        if let Some(Place::Here { has_other_names }) = place {
            self.note_names(has_other_names);
        }
        match (disk_gone, place.map(|place| why_gone(FILE, path, place))) {
            (Some(why), _) => self.note_gone(Some(why.clone())),
            (None, Some(why)) => self.note_gone(why),
            (None, None) => {}
        }
    }

    /// Why its file is gone, or that it is there.
    fn note_gone(&mut self, why: Option<String>) {
        let news = self.note_file(why);
        let path = self.path().display();
        match news {
            Some(FileNews::Gone(why)) => {
                tracing::warn!(%path, why, "a replica is written that is gone when the daemon ends");
            }
            Some(FileNews::Back) => tracing::info!(%path, "a replica's file is at its path again"),
            Some(FileNews::StoppedAndGone(why)) => {
                tracing::warn!(%path, why, "a replica of a stopped volume is gone");
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;

//! Whether what is open of a disk is still what lies at its path.
//!
//! A file that is deleted while it is open goes on being written, and so does one whose directory is moved or
//! unmounted lazily. It is gone, or not found, when the daemon ends. No operation fails meanwhile, so nothing but
//! a look at the path tells.
//!
//! A path may hang, so a look belongs on a thread of its own. There is one for each disk at a time: a path that
//! hangs for good costs one thread, and is told.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use evenkeel_core::ReplicaId;

use super::states::{EntryState, Hold, KnownState, Trouble};
use super::{Disks, Entry, Known, OpenReplica};
use crate::own_file;

/// A path that has not answered for so long is said to hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which file, directory or block device something is, by whatever path it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
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
            // Its disk fails, or may not be looked at: nothing is known of the path.
            Err(_) => None,
        }
    }
}

fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, StaleNetworkFileHandle};
    matches!(error.kind(), NotFound | NotADirectory | StaleNetworkFileHandle)
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
}

/// What is to be looked at of one disk.
#[derive(Debug)]
pub struct Look {
    serial: u64,
    path: PathBuf,
    identity: Identity,
    /// The files of its replicas, unless it is a device.
    files: Vec<(ReplicaId, PathBuf, Identity)>,
    /// While this is there the look is under way.
    under_way: Arc<()>,
}

/// What was found.
#[derive(Debug)]
pub struct Seen {
    look: Look,
    disk: Option<Place>,
    /// In the order of the look's.
    files: Vec<Option<Place>>,
}

impl Look {
    /// Looks. It blocks on the disk.
    #[must_use]
    pub fn carry_out(self) -> Seen {
        let disk = self.identity.place(&self.path);
        let files = self.files.iter().map(|(_, path, identity)| identity.place(path)).collect();
        Seen { look: self, disk, files }
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

impl Disks {
    /// Looks at one disk now. It blocks on the disk.
    pub(super) fn look_at(&self, disk: &str) {
        let look = self.lock().iter().find(|e| e.record.name == disk).and_then(Entry::look);
        if let Some(look) = look {
            self.note_seen(look.carry_out());
        }
    }

    /// Why a replica that this node serves is gone when the daemon ends, as a sentence. `None`: it is not, or
    /// is not served.
    #[must_use]
    pub fn file_gone(&self, replica: ReplicaId) -> Option<String> {
        let entries = self.lock();
        let (entry, known) =
            entries.iter().find_map(|e| e.position(replica).map(|p| (e, &e.replicas[p])))?;
        let KnownState::FileGone(why) = &known.state else { return None };
        Some(format!("disk {} of node {}: {why}", entry.record.name, self.node.name))
    }

    /// The same of all replicas, with their volumes' names.
    #[must_use]
    pub fn files_gone(&self) -> Vec<String> {
        let gone = |entry: &Entry, known: &Known| {
            let KnownState::FileGone(why) = &known.state else { return None };
            let volume = &known.superblock.as_ref()?.name;
            Some(format!("disk {}: the replica of {volume}: {why}", entry.record.name))
        };
        let entries = self.lock();
        let all = entries.iter().flat_map(|entry| entry.replicas.iter().map(move |k| (entry, k)));
        all.filter_map(|(entry, known)| gone(entry, known)).collect()
    }

    /// A look at each disk that is open, but for those of which an earlier one has not ended.
    #[must_use]
    pub fn begin_looks(&self) -> Vec<Look> {
        let mut entries = self.lock();
        let idle = entries.iter_mut().filter(|entry| !entry.last_look.is_under_way());
        let begin = |entry: &mut Entry| {
            let look = entry.look()?;
            entry.last_look = LastLook(Some((Arc::downgrade(&look.under_way), Instant::now())));
            Some(look)
        };
        idle.filter_map(begin).collect()
    }

    /// Takes note of what was found.
    pub fn note_seen(&self, seen: Seen) {
        let mut entries = self.lock();
        // It may have been removed meanwhile.
        let Some(entry) = entries.iter_mut().find(|entry| entry.serial == seen.look.serial) else {
            return;
        };
        entry.note_place(seen.look.identity, seen.disk);
        let gone = match &entry.state {
            EntryState::Missing(_, trouble) => Some(trouble.why().to_owned()),
            _ => None,
        };
        if entry.is_device() {
            entry.replicas.iter_mut().for_each(|known| known.note_gone(gone.clone()));
            return;
        }
        for ((replica, path, identity), place) in seen.look.files.iter().zip(seen.files) {
            let Some(position) = entry.position(*replica) else { continue };
            let known = &mut entry.replicas[position];
            // Another file may have been opened meanwhile.
            if known.identity != Some(*identity) {
                continue;
            }
            if let Some(Place::Here { has_other_names }) = place {
                known.note_names(has_other_names);
            }
            match (&gone, place.map(|place| why_gone("file", path, place))) {
                (Some(why), _) => known.note_gone(Some(why.clone())),
                (None, Some(why)) => known.note_gone(why),
                (None, None) => {}
            }
        }
    }
}

/// Why what was open at this path is not there any more.
fn why_gone(what: &str, path: &Path, place: Place) -> Option<String> {
    let path = path.display();
    match place {
        Place::Here { .. } => None,
        Place::Gone => Some(format!(
            "there is no {what} at {path} any more: it was deleted, moved or unmounted while it was in use"
        )),
        Place::Another => Some(format!(
            "another {what} is at {path}: the one in use was deleted, moved or unmounted"
        )),
    }
}

impl Entry {
    fn look(&self) -> Option<Look> {
        let (EntryState::Serving(hold) | EntryState::Missing(hold, _)) = &self.state else {
            return None;
        };
        let of = |known: &Known| {
            let replica = known.superblock.as_ref()?.replica;
            Some((replica, known.path.clone(), known.identity.filter(|_| known.state.is_open())?))
        };
        let files = match hold {
            Hold::Device { .. } => Vec::new(),
            Hold::Directory { .. } => self.replicas.iter().filter_map(of).collect(),
        };
        let (serial, path, identity) = (self.serial, self.record.path.clone(), hold.identity()?);
        Some(Look { serial, path, identity, files, under_way: Arc::new(()) })
    }

    /// Why its path does not answer, if it hangs.
    pub(super) fn hangs(&self) -> Option<String> {
        let since = self.last_look.hangs_since()?;
        Some(format!("its path has not answered for {} s; it may hang", since.elapsed().as_secs()))
    }

    fn is_device(&self) -> bool {
        matches!(
            self.state,
            EntryState::Serving(Hold::Device { .. }) | EntryState::Missing(Hold::Device { .. }, _)
        )
    }

    fn note_place(&mut self, identity: Identity, place: Option<Place>) {
        let name = &self.record.name;
        let Some(place) = place else { return };
        let what = if self.is_device() { "device" } else { "directory" };
        let why = why_gone(what, &self.record.path, place);
        // What is between is replaced at once.
        self.state = match (std::mem::replace(&mut self.state, EntryState::Stopped), why) {
            (EntryState::Serving(hold) | EntryState::Missing(hold, _), None)
                if hold.identity() == Some(identity) =>
            {
                EntryState::Serving(hold)
            }
            (EntryState::Serving(hold), Some(why)) if hold.identity() == Some(identity) => {
                tracing::warn!(disk = name, why, "a disk is not at its path any more");
                EntryState::Missing(hold, Trouble::Absent(why))
            }
            (EntryState::Missing(hold, _), Some(why)) if hold.identity() == Some(identity) => {
                EntryState::Missing(hold, Trouble::Absent(why))
            }
            // It was opened anew meanwhile.
            (state, _) => state,
        };
    }
}

impl Known {
    /// A replica that is open.
    pub(super) fn served(replica: &OpenReplica) -> Self {
        let superblock = Some(replica.newest.superblock.clone());
        let mut known = Self::new(&replica.path, superblock, KnownState::Served);
        known.identity = Identity::of_open(&replica.file);
        if !replica.device {
            known.note_names(own_file::has_other_names(&replica.file).unwrap_or(false));
        }
        known
    }

    fn note_names(&mut self, has_others: bool) {
        let had_others = std::mem::replace(&mut self.has_other_names, has_others);
        if let (Some(warning), false) = (self.other_names(), had_others) {
            tracing::warn!("{warning}");
        }
    }

    /// That its file has other names, and what that means.
    pub(super) fn other_names(&self) -> Option<String> {
        let path = self.path.display();
        self.has_other_names.then(|| format!(
            "{path} has another name, too (a hard link, as `cp -l` makes): that is no backup, for it changes with the replica, and what writes to it damages the replica. Remove the other name"
        ))
    }

    /// Why its file is gone, or that it is there.
    fn note_gone(&mut self, why: Option<String>) {
        let path = self.path.display();
        self.state = match (std::mem::replace(&mut self.state, KnownState::Served), why) {
            (KnownState::Served, Some(why)) => {
                tracing::warn!(%path, why, "a replica is written that is gone when the daemon ends");
                KnownState::FileGone(why)
            }
            (KnownState::FileGone(_), Some(why)) => KnownState::FileGone(why),
            (KnownState::FileGone(_), None) => {
                tracing::info!(%path, "a replica's file is at its path again");
                KnownState::Served
            }
            (state, _) => state,
        };
    }
}

#[cfg(test)]
mod tests;

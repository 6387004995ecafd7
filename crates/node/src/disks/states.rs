//! What a disk, and a replica on it, can be: served, or why not and when it is tried again.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use evenkeel_api::types::DiskState;
use evenkeel_core::settings::Pauses;

use super::presence::Identity;

/// The pauses before retries.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(200), Duration::from_secs(15));
/// Why a file system that can't be written to holds no replica to use, and what to do.
pub(super) const READ_ONLY: &str = "its file system is read-only, as after an error of its disk (see the kernel's log): unmount it, check it, and mount it for writing";
/// Why a replica or a device of a stopped volume is not served.
pub(super) const STOPPED: &str = "its volume is stopped: assemble it by `evenkeel volume assemble`";

/// When something is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retry {
    pub(super) at: Instant,
    pause: Duration,
}

impl Retry {
    /// At once: nothing has failed yet. The next one is as the first one.
    pub(super) fn at_once(now: Instant) -> Self {
        Self { at: now, pause: PAUSES.first / 2 }
    }

    pub(super) fn first(now: Instant) -> Self {
        Self { at: now + PAUSES.first, pause: PAUSES.first }
    }

    /// The next one, after one that was to no avail.
    pub(super) fn again(self, now: Instant) -> Self {
        let pause = PAUSES.after(self.pause);
        Self { at: now + pause, pause }
    }
}

/// Why something on a disk, or all of it, could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// There is nothing at its path, or another disk.
    Absent(String),
    /// Somebody else has it.
    Held(String),
    /// Its file system can't be written to.
    ReadOnly,
    /// It, or the system, reports an error.
    Failing(String),
}

impl Trouble {
    /// It is asked, and has said nothing.
    pub(super) fn no_answer() -> Self {
        Self::Failing("it does not answer".into())
    }

    /// It was closed on purpose, and is to be opened.
    pub(super) fn just_assembled() -> Self {
        Self::Held("its volume was stopped until now".into())
    }

    pub(super) const fn state(&self) -> DiskState {
        match self {
            Self::Absent(_) => DiskState::Absent,
            Self::Held(_) => DiskState::Held,
            Self::ReadOnly | Self::Failing(_) => DiskState::Failing,
        }
    }

    pub(super) fn why(&self) -> &str {
        match self {
            Self::Absent(why) | Self::Held(why) | Self::Failing(why) => why,
            Self::ReadOnly => READ_ONLY,
        }
    }

    /// The reason, and that it is not given up.
    pub(super) fn with_retry(&self) -> String {
        format!("{}; it is tried again, at least every {} s", self.why(), PAUSES.longest.as_secs())
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        use rustix::io::Errno;
        let why = error.to_string();
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::NOMEDIUM) => Self::Absent(why),
            Some(Errno::BUSY) => {
                Self::Held("another program or device has it open exclusively".into())
            }
            Some(Errno::ROFS) => Self::ReadOnly,
            _ => Self::Failing(why),
        }
    }
}

/// What a disk keeps open, and which directory or device that is; `None`: the system has not told.
#[derive(Debug)]
pub(super) enum Hold {
    /// Its lock file.
    Directory { _lock: File, identity: Option<Identity> },
    /// The device itself, opened exclusively.
    Device { file: File, identity: Option<Identity> },
}

impl Hold {
    pub(super) fn device(file: File) -> Self {
        let identity = Identity::of_open(&file);
        Self::Device { file, identity }
    }

    pub(super) const fn identity(&self) -> Option<Identity> {
        let (Self::Directory { identity, .. } | Self::Device { identity, .. }) = self;
        *identity
    }
}

/// What a disk is at the moment.
#[derive(Debug)]
pub(super) enum EntryState {
    /// It is open; so are its replicas, but for those with trouble of their own.
    Serving(Hold),
    /// It is open, as are its replicas, but it is not at its path any more. Nothing new is made of
    /// it.
    Missing(Hold, Trouble),
    /// It could not be opened.
    Waiting(Trouble, Retry),
    /// It is being opened again. What is told is the trouble that it had.
    Opening(Trouble, Retry),
    /// A device whose replica is of a stopped volume.
    Stopped,
}

impl EntryState {
    pub(super) fn described(&self) -> (DiskState, Option<String>) {
        match self {
            Self::Serving(_) => (DiskState::Serving, None),
            Self::Missing(_, trouble) => (trouble.state(), Some(trouble.why().to_owned())),
            Self::Waiting(trouble, _) => (trouble.state(), Some(trouble.with_retry())),
            Self::Opening(trouble, _) => (DiskState::Opening, Some(trouble.with_retry())),
            Self::Stopped => (DiskState::Stopped, Some(STOPPED.into())),
        }
    }

    /// What is open of a disk on which something may be made.
    pub(super) const fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Serving(hold) => Some(hold),
            _ => None,
        }
    }

    /// What is open of it, wherever it is.
    pub(super) const fn any_hold(&self) -> Option<&Hold> {
        match self {
            Self::Serving(hold) | Self::Missing(hold, _) => Some(hold),
            Self::Waiting(..) | Self::Opening(..) | Self::Stopped => None,
        }
    }

    /// Whether it is a device that is open.
    pub(super) const fn is_device(&self) -> bool {
        matches!(self.any_hold(), Some(Hold::Device { .. }))
    }

    /// Whether it is a directory that is open.
    pub(super) const fn is_directory(&self) -> bool {
        matches!(self.any_hold(), Some(Hold::Directory { .. }))
    }

    /// Why it is not at its path, if it is open and not there.
    pub(super) fn missing(&self) -> Option<&Trouble> {
        match self {
            Self::Missing(_, trouble) => Some(trouble),
            _ => None,
        }
    }

    /// What was wrong with it when it was last tried to be opened, and when it is tried next.
    pub(super) const fn being_opened(&self) -> Option<(&Trouble, Retry)> {
        match self {
            Self::Opening(trouble, retry) => Some((trouble, *retry)),
            _ => None,
        }
    }

    /// It is open.
    pub(super) fn serve(&mut self, hold: Hold) {
        *self = Self::Serving(hold);
    }

    /// It is closed, and tried again. Returns what was open of it.
    pub(super) fn close(&mut self, trouble: Trouble, retry: Retry) -> Option<Hold> {
        self.replace(Self::Waiting(trouble, retry))
    }

    /// It is closed, as the volume of its replica is stopped. Returns what was open of it.
    pub(super) fn stop(&mut self) -> Option<Hold> {
        self.replace(Self::Stopped)
    }

    /// The same of one that is open and not at its path: it is tried again at once.
    pub(super) fn close_missing(&mut self, now: Instant) -> Option<Hold> {
        let trouble = self.missing()?.clone();
        self.close(trouble, Retry::at_once(now))
    }

    fn replace(&mut self, after: Self) -> Option<Hold> {
        match std::mem::replace(self, after) {
            Self::Serving(hold) | Self::Missing(hold, _) => Some(hold),
            Self::Waiting(..) | Self::Opening(..) | Self::Stopped => None,
        }
    }

    /// It is being opened, if it waits for that and its time has come. Returns whether it is.
    pub(super) fn begin_opening(&mut self, now: Instant) -> bool {
        match self {
            Self::Waiting(trouble, retry) if retry.at <= now => {
                *self = Self::Opening(trouble.clone(), *retry);
                true
            }
            _ => false,
        }
    }

    /// It is being opened, as the volume of its replica is not stopped any more.
    pub(super) fn begin_opening_stopped(&mut self, now: Instant) {
        *self = Self::Opening(Trouble::just_assembled(), Retry::at_once(now));
    }

    /// What is open of it is at its path, or is not: why. Returns whether it was there until now.
    /// `identity`: what was looked for; it may have been opened anew meanwhile.
    pub(super) fn note_place(&mut self, identity: Identity, gone: Option<String>) -> bool {
        if self.any_hold().and_then(Hold::identity) != Some(identity) {
            return false;
        }
        // What is between is replaced at once.
        let (after, is_news) = match (std::mem::replace(self, Self::Stopped), gone) {
            (Self::Serving(hold) | Self::Missing(hold, _), None) => (Self::Serving(hold), false),
            (Self::Serving(hold), Some(why)) => (Self::Missing(hold, Trouble::Absent(why)), true),
            (Self::Missing(hold, _), Some(why)) => {
                (Self::Missing(hold, Trouble::Absent(why)), false)
            }
            (closed, _) => (closed, false),
        };
        *self = after;
        is_news
    }
}

/// What is new of the file of a replica.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileNews {
    /// It is written, and gone when the daemon ends: why.
    Gone(String),
    /// It is at its path again.
    Back,
    /// It is closed, and gone: why.
    StoppedAndGone(String),
}

/// What a replica on a disk is at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KnownState {
    /// It is open; the engine has it, or is about to.
    Served,
    /// The same, but what lies at its path is not it: it is gone when the daemon ends. Why.
    FileGone(String),
    /// The engine does not have it yet: its disk has not answered for some time.
    Slow,
    /// It is being made: nobody else touches it.
    Making,
    /// It is being deleted: nobody else touches it.
    Deleting,
    /// Its volume is stopped. Why its file is not there, if it was seen to be gone.
    Stopped(Option<String>),
    /// It could not be opened, and is tried again: with its disk, or by itself.
    Waiting(Trouble, Retry),
    /// It is being opened again, by itself. What is told is the trouble that it had.
    Opening(Trouble, Retry),
    /// It cannot be served as it is: why.
    Refused(String),
}

impl KnownState {
    /// Whether its file is open, or was given to the engine.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Served | Self::FileGone(_) | Self::Slow)
    }

    pub(super) const fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped(_))
    }

    /// Whether the engine has it, as far as is known.
    pub(super) const fn is_served(&self) -> bool {
        matches!(self, Self::Served | Self::FileGone(_))
    }

    /// Whether it is being made or deleted: that ends by itself.
    pub(super) const fn is_busy(&self) -> bool {
        matches!(self, Self::Making | Self::Deleting)
    }

    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting(..))
    }

    pub(super) const fn is_opening(&self) -> bool {
        matches!(self, Self::Opening(..))
    }

    /// Why it could not be opened, of one that is tried again.
    pub(super) const fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Waiting(trouble, _) | Self::Opening(trouble, _) => Some(trouble),
            _ => None,
        }
    }

    /// Whether there was no file when it was last tried to be opened.
    pub(super) const fn is_absent(&self) -> bool {
        matches!(self.trouble(), Some(Trouble::Absent(_)))
    }

    /// When it is tried again, if it waits for that.
    pub(super) const fn next_try(&self) -> Option<Instant> {
        match self {
            Self::Waiting(_, retry) => Some(retry.at),
            _ => None,
        }
    }

    /// It is being opened. One that does not wait was closed on purpose until now.
    pub(super) fn begin_opening(&mut self, now: Instant) {
        *self = match self {
            Self::Waiting(trouble, retry) => Self::Opening(trouble.clone(), *retry),
            _ => Self::Opening(Trouble::just_assembled(), Retry::at_once(now)),
        };
    }

    /// It can't be opened just now, and is tried again later than last time.
    pub(super) fn wait_again(&mut self, trouble: Trouble, now: Instant) {
        let before = match self {
            Self::Waiting(_, retry) => *retry,
            _ => Retry::at_once(now),
        };
        *self = Self::Waiting(trouble, before.again(now));
    }

    /// Why its file is gone, or that it is there. Returns what is news of that.
    pub(super) fn note_file(&mut self, gone: Option<String>) -> Option<FileNews> {
        let (after, news) = match (std::mem::replace(self, Self::Served), gone) {
            (Self::Served, Some(why)) => (Self::FileGone(why.clone()), Some(FileNews::Gone(why))),
            (Self::FileGone(_), Some(why)) => (Self::FileGone(why), None),
            (Self::FileGone(_), None) => (Self::Served, Some(FileNews::Back)),
            (Self::Stopped(None), Some(why)) => {
                (Self::Stopped(Some(why.clone())), Some(FileNews::StoppedAndGone(why)))
            }
            (Self::Stopped(_), why) => (Self::Stopped(why), None),
            (state, _) => (state, None),
        };
        *self = after;
        news
    }

    /// Why its file is not at its path, while it is open.
    pub(super) fn gone_file(&self) -> Option<&String> {
        match self {
            Self::FileGone(why) => Some(why),
            _ => None,
        }
    }

    /// The same of one that is not open any more.
    pub(super) fn into_gone_file(self) -> Option<String> {
        match self {
            Self::FileGone(why) => Some(why),
            _ => None,
        }
    }

    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::Served => None,
            Self::Making => Some("it is being made".into()),
            Self::Deleting => Some("it is being deleted".into()),
            Self::Stopped(gone) => Some(gone.clone().unwrap_or_else(|| STOPPED.into())),
            Self::Slow => {
                Some("its disk does not answer yet; it is served as soon as it does".into())
            }
            Self::Waiting(trouble, _) | Self::Opening(trouble, _) => Some(trouble.with_retry()),
            Self::Refused(why) | Self::FileGone(why) => Some(why.clone()),
        }
    }
}

#[cfg(test)]
mod tests;

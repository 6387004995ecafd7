//! What a disk, and a replica on it, can be: served, or why not and when it is tried again.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use evenkeel_api::types::DiskState;

use super::presence::Identity;

/// The pause before the first retry, and the longest one: it doubles each time.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));
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
        Self { at: now, pause: PAUSE.0 / 2 }
    }

    pub(super) fn first(now: Instant) -> Self {
        Self { at: now + PAUSE.0, pause: PAUSE.0 }
    }

    /// The next one, after one that was to no avail.
    pub(super) fn again(self, now: Instant) -> Self {
        let pause = (self.pause * 2).min(PAUSE.1);
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
        format!("{}; it is tried again, at least every {} s", self.why(), PAUSE.1.as_secs())
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

    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Serving(_) | Self::Missing(..))
    }
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

    /// Why its file is not at its path, while it is open.
    pub(super) fn gone_file(self) -> Option<String> {
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

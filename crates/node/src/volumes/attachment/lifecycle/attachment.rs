//! An attachment of a volume: how far it is, what it is for, and what others see of it.

use evenkeel_core::primary::EndReason;
use evenkeel_core::{Incarnation, PrimaryId, VolumeId};

use super::TurnId;
use crate::coordinator::{ForMount, Made, Shown, WantedNbd, WantedNvme};
use crate::volumes::Device;
use crate::volumes::remembered::{Point, Wanted};

/// How far a volume is attached here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The engine makes its primary.
    Making,
    /// The same; it is told to end as soon as it is made.
    Unwanted,
    /// Its primary reads the view and reaches replicas.
    Opening,
    /// Its primary serves. It is not shown yet as was asked, or it is attached in passing.
    Serving,
    /// It serves, and is shown: from now on it stays attached until somebody detaches it.
    Attached,
    /// Its device and exports are taken away.
    Withdrawing,
    /// Its primary was told to end.
    Detaching,
    /// Its primary is over; what served it is taken away.
    Closed(Over),
}

impl Phase {
    /// Whether its primary has not served yet.
    #[must_use]
    pub const fn is_opening(self) -> bool {
        matches!(self, Self::Making | Self::Unwanted | Self::Opening)
    }

    /// Whether its primary has served and is not over.
    #[must_use]
    pub const fn is_used(self) -> bool {
        matches!(self, Self::Serving | Self::Attached | Self::Withdrawing | Self::Detaching)
    }
}

/// How a primary came to be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The engine did not make it.
    NotMade,
    /// It has ended.
    Ended(EndReason),
}

/// What a volume is attached for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::volumes) enum Purpose {
    /// To be used, shown like this.
    Use(Shown),
    /// For a moment, so that its replicas adopt a view.
    Passing,
}

/// Who has asked for a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::volumes) enum AskedBy {
    /// A command: it stays until another one takes it away.
    Command,
    /// The mount with this token.
    Mount(String),
    /// Whoever did before it was gone: it is made again.
    Before,
}

/// What others see of an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::volumes) struct Seen {
    phase: Phase,
    device: Option<Device>,
    nbd: Option<WantedNbd>,
    nvme: Option<WantedNvme>,
    follows: Option<PrimaryId>,
}

impl Seen {
    pub(in crate::volumes) const NEW: Self =
        Self { phase: Phase::Making, device: None, nbd: None, nvme: None, follows: None };

    pub(in crate::volumes) const fn phase(&self) -> Phase {
        self.phase
    }

    pub(in crate::volumes) const fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    pub(in crate::volumes) const fn nbd(&self) -> Option<&WantedNbd> {
        self.nbd.as_ref()
    }

    pub(in crate::volumes) const fn nvme(&self) -> Option<&WantedNvme> {
        self.nvme.as_ref()
    }

    /// The only primary of the view that its first view replaced, known once it serves.
    pub(in crate::volumes) const fn follows(&self) -> Option<PrimaryId> {
        self.follows
    }

    pub(in crate::volumes) fn shown(&self) -> Shown {
        let (nbd, nvme) = (self.nbd.clone(), self.nvme.clone());
        Shown { device: self.device.is_some(), nbd, nvme, mount: None }
    }

    #[cfg(test)]
    pub(in crate::volumes) fn of_phase(phase: Phase) -> Self {
        Self { phase, ..Self::NEW }
    }

    #[cfg(test)]
    pub(in crate::volumes) fn with_device(self, device: Option<Device>) -> Self {
        Self { device, ..self }
    }
}

/// What the machine knows of one.
#[derive(Debug)]
pub(super) struct Attachment {
    primary: Incarnation,
    name: String,
    purpose: Purpose,
    seen: Seen,
    established: Option<Shown>,
    /// Why it is not shown so, as a sentence.
    unshown_reason: String,
    /// Who takes away what served it.
    clearing: Option<TurnId>,
    replaced: Option<Point>,
}

/// What follows when a primary says that it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serves {
    /// It is news. If `ends`, it is to be told to end.
    Now { ends: bool },
    /// It has said so before, or is over.
    Known,
}

/// What comes of it when an attachment is to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Established {
    /// It does from now on. Whether it is shown as was asked for.
    Now {
        as_asked: bool,
    },
    Before,
    /// Its primary does not serve, or it is attached in passing.
    Not,
}

impl Attachment {
    /// One whose primary is about to be made.
    pub(super) fn new(primary: Incarnation, name: &str, purpose: Purpose) -> Self {
        Self {
            primary,
            name: name.to_owned(),
            purpose,
            seen: Seen::NEW,
            established: None,
            unshown_reason: String::new(),
            clearing: None,
            replaced: None,
        }
    }

    pub(super) const fn primary(&self) -> Incarnation {
        self.primary
    }

    pub(super) const fn phase(&self) -> Phase {
        self.seen.phase
    }

    pub(super) const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// As what it was asked to be shown; `None`: it is attached in passing.
    pub(super) const fn asked(&self) -> Option<&Shown> {
        match &self.purpose {
            Purpose::Use(asked) => Some(asked),
            Purpose::Passing => None,
        }
    }

    pub(super) const fn is_for_use(&self) -> bool {
        self.asked().is_some()
    }

    /// How it is meant to be shown, once it is attached.
    pub(super) const fn established(&self) -> Option<&Shown> {
        self.established.as_ref()
    }

    /// Whether its primary is over.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.seen.phase, Phase::Closed(_))
    }

    /// Whether its primary ends, as it was told to, or is to be.
    pub(super) const fn is_ending(&self) -> bool {
        matches!(self.seen.phase, Phase::Unwanted | Phase::Detaching)
    }

    /// The view that its first one replaces.
    pub(super) fn replaces(&mut self, point: Point) {
        self.replaced = Some(point);
    }

    /// The engine has made the primary, or not. Returns true if it is to be told to end.
    pub(super) fn made(&mut self, is_made: bool) -> bool {
        let (phase, ends) = match (self.seen.phase, is_made) {
            (Phase::Making, true) => (Phase::Opening, false),
            (Phase::Unwanted, true) => (Phase::Detaching, true),
            (Phase::Making | Phase::Unwanted, false) => (Phase::Closed(Over::NotMade), false),
            // It has told so itself.
            (other, _) => (other, false),
        };
        self.seen.phase = phase;
        ends
    }

    /// The primary serves, the first one since this one, if that is certain.
    pub(super) fn serves(&mut self, follows: Option<PrimaryId>) -> Serves {
        let (phase, ends) = match self.seen.phase {
            Phase::Making | Phase::Opening => (Phase::Serving, false),
            Phase::Unwanted => (Phase::Detaching, true),
            Phase::Detaching => (Phase::Detaching, false),
            // It says so once.
            _ => return Serves::Known,
        };
        (self.seen.phase, self.seen.follows) = (phase, follows);
        Serves::Now { ends }
    }

    /// A block device is made. Returns true if it is meant to be shown otherwise now.
    pub(super) fn set_device(&mut self, device: Device, asked_by: AskedBy) -> bool {
        self.seen.device = Some(device);
        self.means(|meant| {
            let was_meant = std::mem::replace(&mut meant.device, true);
            match asked_by {
                AskedBy::Command => meant.mount = None,
                AskedBy::Mount(token) if !was_meant => {
                    meant.mount = Some(ForMount::new(Made::Device, token));
                }
                // What is asked for already is no mount's, or an earlier one's.
                AskedBy::Mount(_) | AskedBy::Before => {}
            }
        })
    }

    /// A mount has found the block device, which may have been made for another one. Returns true
    /// if that is news.
    pub(super) fn add_mount(&mut self, token: String) -> bool {
        self.means(|meant| {
            if let Some(mount) = &mut meant.mount {
                mount.add(token);
            }
        })
    }

    /// A mount has failed, and others have what was made for it. Returns true if that is news.
    pub(super) fn remove_mount(&mut self, token: &str) -> bool {
        self.means(|meant| {
            if let Some(mount) = &mut meant.mount {
                mount.remove(token);
            }
        })
    }

    /// A command wants it attached, with its block device if `device`: that is no mount's any more.
    /// Returns true if it was one's.
    pub(super) fn claim(&mut self, device: bool) -> bool {
        self.means(|meant| match &mut meant.mount {
            Some(mount) if !device => mount.leave_attachment(),
            _ => meant.mount = None,
        })
    }

    /// Its block device is gone. Returns true if it is meant to be shown otherwise now.
    pub(super) fn clear_device(&mut self) -> bool {
        self.seen.device = None;
        self.means(|meant| (meant.device, meant.mount) = (false, None))
    }

    /// It is exported by NBD, or not any more. Returns true if it is meant to be shown otherwise
    /// now.
    pub(super) fn set_nbd(&mut self, nbd: Option<WantedNbd>) -> bool {
        self.seen.nbd.clone_from(&nbd);
        self.means(|meant| meant.nbd = nbd)
    }

    /// It is exported by NVMe over TCP, or not any more. Returns true if it is meant to be shown
    /// otherwise now.
    pub(super) fn set_nvme(&mut self, nvme: Option<WantedNvme>) -> bool {
        self.seen.nvme.clone_from(&nvme);
        self.means(|meant| meant.nvme = nvme)
    }

    fn means(&mut self, change: impl FnOnce(&mut Shown)) -> bool {
        // What else it lacks it is still to be shown by.
        let mut meant = self.established.clone().unwrap_or_default();
        change(&mut meant);
        let is_new = self.phase() == Phase::Attached && self.established.as_ref() != Some(&meant);
        if is_new {
            self.established = Some(meant);
        }
        is_new
    }

    /// It stays attached, and is meant to be shown so; why it is not, if it is not.
    pub(super) fn establish(&mut self, meant: Shown) -> Established {
        let Some(asked) = self.asked() else { return Established::Not };
        let as_asked = *asked == meant;
        match self.seen.phase {
            Phase::Attached => return Established::Before,
            Phase::Serving => self.seen.phase = Phase::Attached,
            _ => return Established::Not,
        }
        self.established = Some(meant);
        Established::Now { as_asked }
    }

    /// Its device is gone, if it had one; its exports are about to go, then its primary.
    pub(super) fn withdraw(&mut self) {
        if self.seen.phase == Phase::Attached {
            self.seen.phase = Phase::Withdrawing;
        }
        self.seen.device = None;
    }

    /// Its primary is to end. Returns true if it is to be told so.
    pub(super) const fn end(&mut self) -> bool {
        match self.seen.phase {
            Phase::Making => self.seen.phase = Phase::Unwanted,
            Phase::Unwanted | Phase::Closed(_) => {}
            _ => {
                self.seen.phase = Phase::Detaching;
                return true;
            }
        }
        false
    }

    /// The primary has ended. Returns how far it was; `None` if that is known.
    pub(super) const fn ended(&mut self, reason: EndReason) -> Option<Phase> {
        let before = self.seen.phase;
        if self.is_over() {
            return None;
        }
        self.seen.phase = Phase::Closed(Over::Ended(reason));
        Some(before)
    }

    /// Whoever has this turn takes away what served it.
    pub(super) const fn clear_in(&mut self, turn: TurnId) {
        self.clearing = Some(turn);
    }

    /// Whether what served it is taken away in this turn.
    pub(super) fn is_cleared_in(&self, turn: TurnId) -> bool {
        self.is_over() && self.clearing == Some(turn)
    }

    /// What it is not shown by, though it is meant to be. `None`: it is attached, and shown as it
    /// is meant to be; or it is not attached.
    pub(super) fn unshown(&self) -> Option<Shown> {
        let meant = self.established.as_ref().filter(|_| self.phase() == Phase::Attached)?;
        let device = meant.device && self.seen.device.is_none();
        let nbd = meant.nbd.clone().filter(|_| self.seen.nbd.is_none());
        let nvme = meant.nvme.clone().filter(|_| self.seen.nvme.is_none());
        let unshown_reason = device || nbd.is_some() || nvme.is_some();
        unshown_reason.then_some(Shown { device, nbd, nvme, mount: None })
    }

    /// Why it lacks that, as a sentence.
    pub(super) fn why_unshown(&self) -> &str {
        &self.unshown_reason
    }

    /// The same, to be changed.
    pub(super) const fn why_unshown_mut(&mut self) -> &mut String {
        &mut self.unshown_reason
    }

    /// How it is attached again, if it stays attached.
    pub(super) fn wanted(&self, volume: VolumeId) -> Option<Wanted> {
        let shown = self.established.clone()?;
        let wanted = Wanted::new(volume.to_string(), self.name.clone(), self.primary.0, shown);
        Some(Wanted { replaced: self.replaced.clone(), ..wanted })
    }
}

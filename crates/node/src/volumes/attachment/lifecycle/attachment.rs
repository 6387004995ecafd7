//! An attachment of a volume: how far it is, what it is for, and what others see of it.

use evenkeel_core::primary::EndReason;
use evenkeel_core::{Incarnation, PrimaryId, VolumeId};

use super::TurnId;
use crate::coordinator::{Shown, WantedNbd, WantedNvme};
use crate::volumes::{Device, Point, Wanted};

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

/// What others see of an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::volumes) struct Seen {
    pub(in crate::volumes) phase: Phase,
    pub(in crate::volumes) device: Option<Device>,
    pub(in crate::volumes) nbd: Option<WantedNbd>,
    pub(in crate::volumes) nvme: Option<WantedNvme>,
    /// The only primary of the view that its first view replaced, known once it serves.
    pub(in crate::volumes) follows: Option<PrimaryId>,
}

impl Seen {
    pub(in crate::volumes) const NEW: Self =
        Self { phase: Phase::Making, device: None, nbd: None, nvme: None, follows: None };

    pub(in crate::volumes) fn shown(&self) -> Shown {
        let (nbd, nvme) = (self.nbd.clone(), self.nvme.clone());
        Shown { device: self.device.is_some(), nbd, nvme, by_mount: None }
    }
}

/// What the machine knows of one.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) primary: Incarnation,
    pub(in crate::volumes) name: String,
    pub(super) purpose: Purpose,
    pub(super) seen: Seen,
    /// How it is meant to be shown, once it is attached.
    pub(super) established: Option<Shown>,
    /// Why it is not shown so, as a sentence.
    pub(super) lacks: String,
    /// Who takes away what served it.
    pub(super) clearing: Option<TurnId>,
    /// The view that its first one replaces.
    pub(super) replaced: Option<Point>,
}

impl Attachment {
    pub(super) const fn is_for_use(&self) -> bool {
        matches!(self.purpose, Purpose::Use(_))
    }

    pub(super) const fn is_established(&self) -> bool {
        self.established.is_some()
    }

    /// What it is not shown by, though it is meant to be. `None`: it is attached, and shown as it
    /// is meant to be; or it is not attached.
    pub(super) fn lacking(&self) -> Option<Shown> {
        let established =
            self.established.as_ref().filter(|_| self.seen.phase == Phase::Attached)?;
        let device = established.device && self.seen.device.is_none();
        let nbd = established.nbd.clone().filter(|_| self.seen.nbd.is_none());
        let nvme = established.nvme.clone().filter(|_| self.seen.nvme.is_none());
        let lacks = device || nbd.is_some() || nvme.is_some();
        lacks.then_some(Shown { device, nbd, nvme, by_mount: None })
    }

    /// How it is attached again, if it stays attached.
    pub(super) fn wanted(&self, volume: VolumeId) -> Option<Wanted> {
        let shown = self.established.clone()?;
        let wanted = Wanted::new(volume.to_string(), self.name.clone(), self.primary.0, shown);
        Some(Wanted { replaced: self.replaced.clone(), ..wanted })
    }
}

//! What the state directory remembers of volumes that are attached here, or are to be.

use evenkeel_attach::DeadDevice;
use evenkeel_core::View;
use serde::{Deserialize, Serialize};

use crate::coordinator::{ForMount, Shown, WantedNbd, WantedNvme};

/// The file that has it, a list of [`Wanted`].
pub(super) const ATTACHED: &str = "attached.json";

/// How a volume was attached, to do it again after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wanted {
    /// The volume's identity.
    pub volume: String,
    /// Its name.
    pub name: String,
    /// The incarnation of its primary, to tell whether another one was there since.
    pub incarnation: u64,
    /// With a block device.
    pub device: bool,
    /// With an NBD export: on TCP too, and whether writes are refused.
    pub nbd: Option<WantedNbd>,
    /// With an NVMe export: for which hosts, and whether writes are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<WantedNvme>,
    /// What of this was made to mount it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<ForMount>,
    /// Devices of an attachment that has ended, which give errors. While anybody uses one, none is
    /// made in its place: whoever has it mounted would take the two for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead: Vec<DeadDevice>,
    /// The view that its first one replaced. A coordinator whose view is no newer has forgotten
    /// that it was attached here. `None`: older software has saved this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Point>,
}

/// A point in the history of a volume's views.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Point {
    coordinator: String,
    // What is stored keeps its names.
    #[serde(rename = "lineage")]
    history: String,
    generation: u64,
}

impl Point {
    pub(super) fn of(view: &View) -> Self {
        let (coordinator, history) = (view.coordinator.to_string(), view.history.to_string());
        Self { coordinator, history, generation: view.generation.0 }
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether a view is of this epoch, and comes no later.
    pub(super) fn is_not_before(&self, view: &View) -> bool {
        let at = Self::of(view);
        (&self.coordinator, &self.history) == (&at.coordinator, &at.history)
            && self.generation >= at.generation
    }
}

impl Wanted {
    pub(super) fn new(volume: String, name: String, incarnation: u64, shown: Shown) -> Self {
        let Shown { device, nbd, nvme, mount } = shown;
        let (dead, replaced) = (Vec::new(), None);
        Self { volume, name, incarnation, device, nbd, nvme, mount, dead, replaced }
    }

    pub(super) fn shown(&self) -> Shown {
        let (nbd, nvme, mount) = (self.nbd.clone(), self.nvme.clone(), self.mount.clone());
        Shown { device: self.device, nbd, nvme, mount }
    }
}

//! The open regions of a replica, as a table on its disk names them.

use crate::view::IntentLayout;

/// In a table instead of a region: all of the replica is open.
pub const ALL_OPEN: u64 = u32::MAX as u64;

/// The open regions of a replica, as a table on its disk names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRegions {
    /// The slot whose table it is.
    pub slot: u8,
    /// Bytes of one region when the table was saved.
    pub region: u64,
    /// Which are open, in ascending order; or [`ALL_OPEN`] alone.
    pub open: Vec<u64>,
}

impl OpenRegions {
    /// Nothing is open.
    #[must_use]
    pub const fn none(layout: IntentLayout, slot: u8) -> Self {
        Self { slot, region: layout.region, open: Vec::new() }
    }

    /// Everything is open.
    #[must_use]
    pub fn all(layout: IntentLayout, slot: u8) -> Self {
        Self { slot, region: layout.region, open: vec![ALL_OPEN] }
    }

    /// Whether everything is open.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.open.contains(&ALL_OPEN)
    }
}

//! The size of the intent logs of a volume's replicas.

use core::fmt;

use crate::settings::{BLOCK, MAX_OPEN_REGIONS, MAX_PRIMARIES, MAX_ZERO};

/// The size of the intent log of each replica of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntentLayout {
    /// Bytes of one region, a power of two, at least [`BLOCK`]. If it is not less than a replica's
    /// size, the whole replica is one region, and after a crash all of it has to be compared or
    /// copied.
    pub region: u64,
    /// Most regions that are open at once, 1 to [`MAX_OPEN_REGIONS`].
    pub places: u16,
    /// Slots, each with a table of its own, of which every primary has one: 1 to [`MAX_PRIMARIES`].
    pub slots: u8,
}

/// Why an intent log can't have such a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutError {
    /// Not a power of two, or out of bounds.
    Region,
    /// None, or more than a table has.
    Places,
    /// None, or more than there is room for.
    Slots,
    /// The longest request would not fit.
    TooShort {
        /// As many places would do.
        needed: u64,
    },
    /// A replica would have more regions than can be named.
    TooSmall {
        /// A region would have to have at least so many bytes.
        needed: u64,
    },
}

/// Regions of new volumes, in bytes: of those whose replicas are smaller than [`SMALL`], and of
/// others.
const REGIONS: (u64, u64) = (1 << 20, 4 << 20);
const SMALL: u64 = 4 << 30;
/// Places of new volumes.
const PLACES: u16 = 1024;
/// The smallest and the largest region that can be asked for, in bytes. The most places of smaller
/// ones would not hold the longest request.
const BOUNDS: (u64, u64) = (128 << 10, 1 << 30);
/// Regions that can be named.
const MAX_REGIONS: u64 = u32::MAX as u64;

impl IntentLayout {
    /// The layout of a volume whose replicas have so many bytes, if nothing else is asked for:
    /// regions of 4 MiB (1 MiB below 4 GiB), and room for 1024 of them. Only what was written
    /// lately is open, so a crash costs at most a copy of that, and never more than 4 GiB.
    #[must_use]
    pub fn for_size(size: u64) -> Self {
        let region = if size < SMALL { REGIONS.0 } else { REGIONS.1 };
        Self { region, places: PLACES, slots: 1 }.reaching(size)
    }

    /// The smallest region by which all of a replica of so many bytes can be named.
    fn least_region(size: u64) -> u64 {
        size.div_ceil(MAX_REGIONS).next_power_of_two().max(u64::from(BLOCK))
    }

    /// This layout, with regions no smaller than replicas of so many bytes need.
    #[must_use]
    pub fn reaching(self, size: u64) -> Self {
        Self { region: self.region.max(Self::least_region(size)), ..self }
    }

    /// Whether a table can hold it, and name every region of a replica of so many bytes.
    #[must_use]
    pub fn is_valid(self, size: u64) -> bool {
        self.region.is_power_of_two()
            && self.region >= Self::least_region(size)
            && (1..=MAX_OPEN_REGIONS).contains(&usize::from(self.places))
            && (1..=MAX_PRIMARIES).contains(&usize::from(self.slots))
    }

    /// Whether it may be asked for.
    ///
    /// # Errors
    /// See [`LayoutError`].
    pub fn check(self, size: u64) -> Result<(), LayoutError> {
        // A request may begin in the middle of a region.
        let needed = u64::from(MAX_ZERO).div_ceil(self.region.max(1)) + 1;
        if !self.region.is_power_of_two() || !(BOUNDS.0..=BOUNDS.1).contains(&self.region) {
            Err(LayoutError::Region)
        } else if !(1..=MAX_OPEN_REGIONS).contains(&usize::from(self.places)) {
            Err(LayoutError::Places)
        } else if !(1..=MAX_PRIMARIES).contains(&usize::from(self.slots)) {
            Err(LayoutError::Slots)
        } else if u64::from(self.places) < needed {
            Err(LayoutError::TooShort { needed })
        } else if self.region < Self::least_region(size) {
            Err(LayoutError::TooSmall { needed: Self::least_region(size) })
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Region => write!(
                f,
                "the size of a region is a power of two, {} KiB to {} GiB",
                BOUNDS.0 >> 10,
                BOUNDS.1 >> 30
            ),
            Self::Places => write!(f, "1 to {MAX_OPEN_REGIONS} regions can be open at once"),
            Self::Slots => write!(f, "a volume has 1 to {MAX_PRIMARIES} slots"),
            Self::TooShort { needed } => write!(
                f,
                "the longest request touches {needed} regions of that size, and all of them have to be open at once"
            ),
            Self::TooSmall { needed } => write!(
                f,
                "regions of a volume of that size have at least {needed} bytes, for their number to fit"
            ),
        }
    }
}

impl core::error::Error for LayoutError {}

#[cfg(test)]
mod tests;

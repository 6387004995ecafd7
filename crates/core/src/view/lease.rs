//! How long one confirmation of a replica permits a primary to answer reads (rule V3).
//!
//! It stands in the view, because both sides have to mean the same by a confirmation: a primary
//! counts on it for the lease's time, and the replica that gave it lets nobody take over for that
//! time and the margin.

use core::time::Duration;

/// One step of a lease's time, in milliseconds: so it stands on disk.
const STEP: u64 = 10;

/// What one confirmation of a replica is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Steps of 10 ms; never zero.
    steps: u16,
    /// Milliseconds; never zero.
    margin: u16,
}

impl Lease {
    /// A lease of this time, and what replicas add to it for clocks that drift apart. `None` unless
    /// the time is a multiple of 10 ms, at most 655,350 ms, and the margin whole milliseconds, at
    /// most 65,535; neither is zero.
    #[must_use]
    pub fn new(time: Duration, margin: Duration) -> Option<Self> {
        let steps = whole(time, STEP)?;
        let margin = whole(margin, 1)?;
        Some(Self { steps, margin })
    }

    /// How long a primary may answer reads by one confirmation, counted from asking for it.
    #[must_use]
    pub fn time(self) -> Duration {
        Duration::from_millis(u64::from(self.steps) * STEP)
    }

    /// What replicas add to it, for clocks that drift apart.
    #[must_use]
    pub fn margin(self) -> Duration {
        Duration::from_millis(self.margin.into())
    }

    /// How long a replica honours its confirmation, counted from giving it.
    #[must_use]
    pub fn honoured(self) -> Duration {
        self.time() + self.margin()
    }
}

impl Default for Lease {
    /// 6 s, and 500 ms more.
    fn default() -> Self {
        Self { steps: 600, margin: 500 }
    }
}

/// A time in units of so many milliseconds, if it is some of them and no more than fit.
fn whole(time: Duration, unit: u64) -> Option<u16> {
    let milliseconds = u64::try_from(time.as_millis()).ok()?;
    let is_whole = Duration::from_millis(milliseconds) == time && milliseconds % unit == 0;
    u16::try_from(milliseconds / unit).ok().filter(|units| is_whole && *units != 0)
}

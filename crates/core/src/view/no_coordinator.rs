//! How long clients' requests wait for a coordinator that does not answer while the view has to
//! change.
//!
//! It stands in the view, because it is a promise to the volume's user, wherever the volume is
//! attached.

use core::num::NonZeroU32;
use core::time::Duration;

/// What clients' requests do while the view has to change and the coordinator does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NoCoordinatorPolicy {
    /// They wait until it answers.
    #[default]
    Suspend,
    /// They wait for so many milliseconds, then fail.
    FailAfter(NonZeroU32),
}

impl NoCoordinatorPolicy {
    /// Requests fail after so many milliseconds; with 0 they wait until the coordinator answers.
    #[must_use]
    pub fn from_milliseconds(limit: u32) -> Self {
        NonZeroU32::new(limit).map_or(Self::Suspend, Self::FailAfter)
    }

    /// The reverse of [`Self::from_milliseconds`].
    #[must_use]
    pub const fn milliseconds(self) -> u32 {
        match self {
            Self::Suspend => 0,
            Self::FailAfter(limit) => limit.get(),
        }
    }

    /// How long requests wait before they fail. `None`: until the coordinator answers.
    #[must_use]
    pub const fn limit(self) -> Option<Duration> {
        match self {
            Self::Suspend => None,
            Self::FailAfter(limit) => Some(Duration::from_millis(limit.get() as u64)),
        }
    }
}

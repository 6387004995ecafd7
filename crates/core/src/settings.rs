//! Limits and times, with their defaults. All are stated to users in the manual.

use core::time::Duration;

/// Most replicas that a mirror may have.
pub const MAX_REPLICAS: usize = 16;
/// Most mirrors that a stripe may have.
pub const MAX_MIRRORS: usize = 16;
/// Most primaries that a volume may have at once.
pub const MAX_PRIMARIES: usize = 32;

/// Most replicas of a volume, of all its mirrors.
pub const MAX_REPLICAS_IN_ALL: usize = 192;
/// Most hosts that may be registered with a volume.
pub const MAX_REGISTRANTS: usize = 64;

/// Most regions that one table of an intent log names.
pub const MAX_OPEN_REGIONS: usize = 2032;

/// Most epochs that a view remembers; of more, the oldest are forgotten.
pub const MAX_EPOCHS: usize = 8;
/// Longest client request, in bytes (the customary limit of NBD clients).
pub const MAX_REQUEST: u32 = 32 << 20;
/// Longest payload of one message, in bytes. Longer requests are sent in pieces.
pub const MAX_PAYLOAD: u32 = 1 << 20;
/// Longest range of one compare-and-write, in bytes.
pub const MAX_COMPARE: u32 = MAX_PAYLOAD;
/// Longest run that one message may zero or map, in bytes.
pub const MAX_ZERO: u32 = 128 << 20;
/// Most extents in one answer to a map request.
pub const MAX_EXTENTS: usize = 256;
/// The unit that a rebuild copies, in bytes.
pub const REGION: u32 = 1 << 20;
/// The unit of bitmaps and checksums, and the largest logical block size, in bytes.
pub const BLOCK: u32 = 4096;

/// What to do while no in-sync replica of a mirror answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDataPolicy {
    /// Hold requests for this long, then fail them, and fail further ones at once until a replica
    /// is back.
    Suspend(Duration),
    /// Fail requests as soon as it is known.
    Error,
}

/// Pauses between attempts, each twice as long as the one before, up to the longest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// The first one.
    pub first: Duration,
    /// The longest one.
    pub longest: Duration,
}

impl Pauses {
    /// From the first one to the longest one.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The one after this one.
    #[must_use]
    pub fn after(self, pause: Duration) -> Duration {
        pause.saturating_mul(2).min(self.longest)
    }
}

/// When a replica is too slow for its mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LagSettings {
    /// Medians are taken over so long; three slow windows in a row are too many.
    pub window: Duration,
    /// How many times the fastest in-sync peer's median is slow; zero: nobody ever is.
    pub times: u32,
    /// A median below this is never slow.
    pub least: Duration,
    /// How long a slow replica stays away.
    pub pause: Pauses,
}

/// When a replica that returns and leaves again, time after time, stays away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnSettings {
    /// One that leaves so soon after its return has returned in vain.
    pub within: Duration,
    /// How long it stays away after the third time in a row.
    pub pause: Pauses,
}

/// The times by which a primary and its replicas work. Each node has its own: what both sides have
/// to agree upon is in the view ([`crate::view::Lease`]), and no claim about the data rests on
/// these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// A replica that leaves a request unanswered for this long leaves the view.
    pub deadline: Duration,
    /// How long a lost connection may take to return before the replica leaves the view.
    pub reconnect_grace: Duration,
    /// The pauses between attempts to reach a replica that has left.
    pub retry_pause: Pauses,
    /// What to do while no in-sync replica answers, unless the view says it
    /// ([`crate::View::no_data`]).
    pub no_data: NoDataPolicy,
    /// How long an attach and commands wait for a coordinator that does not answer, before they
    /// fail. For clients' requests see [`crate::view::NoCoordinatorPolicy`].
    pub coordinator_patience: Duration,
    /// How long a rebuilding replica may hold writes of one region.
    pub longest_hold: Duration,
    /// How many regions a rebuilding replica copies at once.
    pub concurrent_copies: usize,
    /// Whether a rebuild asks its source ahead how much it has to copy, for people to see.
    /// Otherwise all that the replica lacks counts.
    pub count_ahead: bool,
    /// While clients are busy a rebuild copies one region at a time, for this share of the time, in
    /// percent.
    pub rebuild_share: u32,
    /// After how long without a flush of the client a primary lets its writes become stable by
    /// itself, and after how long without a write a replica closes a stable region.
    pub stabilize_after: Duration,
    /// When a replica is too slow for its mirror.
    pub lag: LagSettings,
    /// When a replica that returns in vain stays away.
    pub returns: ReturnSettings,
    /// How long a replica may be stale before a spare stands in for it. For a faulty one it does at
    /// once.
    pub spare_takes_over_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(5),
            reconnect_grace: Duration::from_millis(500),
            retry_pause: Pauses::new(Duration::from_millis(250), Duration::from_secs(5)),
            no_data: NoDataPolicy::Suspend(Duration::from_secs(120)),
            coordinator_patience: Duration::from_secs(60),
            longest_hold: Duration::from_secs(1),
            concurrent_copies: 4,
            count_ahead: true,
            rebuild_share: 90,
            stabilize_after: Duration::from_secs(5),
            lag: LagSettings {
                window: Duration::from_secs(5),
                times: 16,
                least: Duration::from_millis(100),
                pause: Pauses::new(Duration::from_secs(30), Duration::from_secs(600)),
            },
            returns: ReturnSettings {
                within: Duration::from_secs(60),
                pause: Pauses::new(Duration::from_secs(5), Duration::from_secs(60)),
            },
            spare_takes_over_after: Duration::from_secs(600),
        }
    }
}

//! Canaries: deliberate faults of the driver that the oracles must find. A simulator that can't
//! fail proves nothing.

/// What the driver does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Flushes are answered, but make nothing durable.
    IgnoreFlushes,
    /// Some writes are answered, but not carried out.
    LoseWrites,
    /// Some reads return what was there before the last write.
    ReadStale,
    /// Superblocks are not saved.
    ForgetViews,
    /// What a rebuild copies arrives as zeroes.
    CopyZeroes,
    /// A write is acknowledged to the client when it is sent.
    AcknowledgeEarly,
    /// Some answers to clients are dropped.
    DropReplies,
    /// Some disk writes happen after they were answered.
    WriteLate,
    /// Tables of open regions are not saved.
    ForgetIntents,
    /// What a rebuilding replica is told to lack is everything.
    CopyEverything,
    /// Pages of bitmaps are not saved.
    ForgetBits,
    /// A volume is put together without replicas that may have newer data, and nobody took the loss.
    AssembleWithout,
}

impl Sabotage {
    /// Every canary.
    pub const ALL: [Self; 12] = [
        Self::IgnoreFlushes,
        Self::LoseWrites,
        Self::ReadStale,
        Self::ForgetViews,
        Self::CopyZeroes,
        Self::AcknowledgeEarly,
        Self::DropReplies,
        Self::WriteLate,
        Self::ForgetIntents,
        Self::CopyEverything,
        Self::ForgetBits,
        Self::AssembleWithout,
    ];
}

//! Canaries: deliberate faults of the driver that the oracles must find. A simulator that can't
//! fail proves nothing.

use std::str::FromStr;

/// Canaries: what the driver does wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Flushes are answered, but make nothing durable.
    IgnoreFlushes,
    /// Some writes are answered, but not carried out.
    LoseWrites,
    /// Some reads return what was there before the last write.
    ReadStale,
    /// Some superblocks are not saved.
    ForgetViews,
    /// What a rebuild copies arrives as zeroes.
    CopyZeroes,
    /// A write is acknowledged to the client when it is sent.
    AcknowledgeEarly,
    /// Clients' flushes are answered, and not asked of anybody.
    AnswerFlushes,
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
    /// Who takes over calls all replicas in-sync that were.
    TakeOverAll,
    /// Some of what a rebuild copies is written after that was answered.
    CopyLate,
    /// A block changes by itself after its last read.
    RotUnseen,
    /// The stale clone of a disk passes for the newest one.
    PassStaleClones,
    /// Some blocks are called damaged that are whole.
    CryDamage,
    /// Who is to yield a range is told another one.
    ClusterLockElsewhere,
    /// Replicas say that they have not heard any primary.
    HearNobody,
    /// Requests are taken for those of whoever holds the reservation.
    MistakeHosts,
    /// Primaries count on a longer lease than replicas honour, as if each node had its own.
    CountOnLonger,
    /// A volume is put together without replicas that may have newer data, and nobody took the
    /// loss.
    AssembleWithout,
    /// A table of open regions that could not be saved counts as the one that was saved last.
    CountFailedTables,
    /// A device flush that lost what it covered is told as a table that could not be saved.
    HideLost,
    /// A copy of a node takes a lock that it holds alone for proof that the node's own primary has
    /// ended.
    TrustClones,
    /// Primaries let requests wait for the coordinator for a quarter of the time that the volume
    /// says.
    GiveUpEarly,
    /// Writes that are to be durable by themselves are answered, and are not.
    IgnoreFua,
    /// Requests that were given up are said to be cancelled although they were sent.
    CancelSent,
    /// So are those of which one mirror was sent its part, and another one was not; clients give
    /// all of these up.
    CancelHalf,
    /// A path is said to be drained when its requests are answered.
    DrainEarly,
    /// The coordinator's answer to a primary that has ended is taken for that to the next one on
    /// its node.
    AnswerNext,
    /// What is read of a block without a checksum is said to fit it.
    TrustForgotten,
    /// What a rebuild copies is said to fit its checksums.
    CopyForgotten,
    /// The clock of a node stands still while its process does.
    SleepUnseen,
}

impl Sabotage {
    /// Every canary.
    pub const ALL: [Self; 34] = [
        Self::IgnoreFlushes,
        Self::LoseWrites,
        Self::ReadStale,
        Self::ForgetViews,
        Self::CopyZeroes,
        Self::AcknowledgeEarly,
        Self::AnswerFlushes,
        Self::DropReplies,
        Self::WriteLate,
        Self::ForgetIntents,
        Self::CopyEverything,
        Self::ForgetBits,
        Self::TakeOverAll,
        Self::CopyLate,
        Self::RotUnseen,
        Self::PassStaleClones,
        Self::CryDamage,
        Self::ClusterLockElsewhere,
        Self::HearNobody,
        Self::MistakeHosts,
        Self::CountOnLonger,
        Self::AssembleWithout,
        Self::CountFailedTables,
        Self::HideLost,
        Self::GiveUpEarly,
        Self::TrustClones,
        Self::IgnoreFua,
        Self::CancelSent,
        Self::CancelHalf,
        Self::DrainEarly,
        Self::AnswerNext,
        Self::TrustForgotten,
        Self::CopyForgotten,
        Self::SleepUnseen,
    ];
}

impl FromStr for Sabotage {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Self::ALL.map(|canary| format!("{canary:?}"));
        let found = Self::ALL.into_iter().zip(&names).find(|(_, known)| *known == name);
        found.map(|(canary, _)| canary).ok_or_else(|| {
            format!("there is no canary of this name; there are {}", names.join(", "))
        })
    }
}

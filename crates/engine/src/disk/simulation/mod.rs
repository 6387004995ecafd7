//! The shipped disk over a simulated device, all from one seed: `docs/simulator.md` tells what it
//! covers.
//!
//! `EVENKEEL_DISK_SEEDS=N` runs so many seeds in place of the sample, from `EVENKEEL_DISK_FROM` on;
//! `EVENKEEL_DISK_SEED=S` runs one, and tells every event.

pub(super) mod device;
mod lost_sectors;
mod metadata;
mod model;
pub(super) mod plan;
pub(super) mod queue;
pub(super) mod scenarios;
mod tests;
mod world;

use self::device::Lie;

/// What is done wrong on purpose, for an oracle to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sabotage {
    Nothing,
    /// By the device.
    Device(Lie),
    /// A start leaves the checksums of open regions as they are.
    KeepChecksums,
    /// Nothing is compared.
    CompareNothing,
    /// What commits would write is forgotten.
    ForgetUnsaved,
    /// A flush counts although another one has failed that it overlaps.
    BelieveFlushes,
    /// What flushes of others on the same drive have lost is no matter of this disk.
    ShareNoDrive,
    /// The core is told of failed flushes by its own alone.
    TellNoFailures,
    /// A table that could not be saved counts as the newest one.
    CountFailedTables,
    /// Each save of a view begins with the same superblock.
    WriteOneSlotFirst,
    /// What is to read as zeroes before data lie there is left as it is.
    SkipZeroing,
    /// Checksums are not copied to where they will lie.
    LoseCarried,
    /// A step of making room is forgotten that waits.
    ForgetSpace,
    /// The disk is closed whatever is under way.
    CloseAtOnce,
    /// What is refused for want of space counts as a flush that has failed.
    CountRefusals,
}

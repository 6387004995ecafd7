//! Defects that a test puts into the shipped code on purpose, for an oracle to find.

use std::cell::Cell;

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Canary {
    /// An answer goes to the first request of its number, whatever the volume.
    AnswerByNumber,
    /// A key is used again while something may still come for whom it named before.
    ReuseKey,
    /// Of all who wait for memory one is woken.
    WakeOne,
    /// An answer of the coordinator goes to whoever is attached, whoever has asked.
    AnswerNext,
    /// What was reserved for the answer to a read over a link stays reserved.
    KeepRooms,
    /// The other end of a link is not told that it has failed.
    FailUnheard,
    /// A failed flush of a drive is told to nobody but who asked for it.
    ShareNoDrive,
}

thread_local! {
    static PRESENT: Cell<Option<Canary>> = const { Cell::new(None) };
}

/// Whether this defect is there.
pub(crate) fn is(canary: Canary) -> bool {
    PRESENT.get() == Some(canary)
}

/// From now on this thread has this defect, or none.
pub(crate) fn set(canary: Option<Canary>) {
    PRESENT.set(canary);
}

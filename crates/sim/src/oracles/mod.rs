//! The oracles: each knows one invariant of the design and nothing of how the core keeps it.
//!
//! The driver passes what happened to the oracles, and each says whether that was permitted. What
//! each permits:
//!
//! - [`registers`] (**I1 durable, I2 fresh, I3 fenced reads**): every sector is a register. See
//!   there for what a crash may take back.
//! - [`lines`]: a forced assembly begins another branch of the data; each is judged by itself.
//! - [`agreement`] (**I4 agreed**): at the moment of an acknowledgement the simulator looks at the
//!   disks of all members of the primary's view. It permits a member to hold something newer (a
//!   later or concurrent write), and excuses a replica whose incarnation ended since the write
//!   began (what it had answered before, its machine may have taken back), and a rebuilding one
//!   that joined after the write began (the copy brings it; I6 sees whether it does).
//! - [`fencing`] (**I3 fenced**): no answer of an adoption while work of an older generation is on
//!   the disk, no data read out under a generation that is not the adopted one, no lower generation
//!   after a restart. It permits work of the old generation until the adoption is answered.
//! - [`given_up`] (**I14 given up**): a cancelled write is not sent, and was not; a drained one is
//!   neither sent nor carried out any more. It permits a replica that is no member to carry one
//!   out: nobody reads there before it is copied anew; and repairs, which write what was read.
//! - [`order`] (**I10 ordered**): on one disk, a sector takes the writes of one primary in the
//!   order in which that primary sent them. It permits repeats (a resend after a reconnect), held
//!   writes that run after a copy which has them already, and older data from a copy when the
//!   primary that wrote it is not the one that runs the mirror now, or when the newer write was
//!   answered with an error, or will be: a replica has failed it.
//! - [`minimal`] (**I7 minimal**): what a rebuild copies. See there for what counts as changed.
//! - [`tables`] (**I5**): what a replica finds open when it starts. That it opens regions before it
//!   writes to them is judged where writes begin.
//! - [`views`]: every committed view is a permitted successor: nothing becomes in-sync but what was
//!   rebuilding in the same incarnation, no mirror loses its last in-sync replica; and who takes
//!   over from a primary that has not detached leaves one in-sync replica in each mirror, from
//!   which all reads of open regions come (**I8 one resync source**).
//! - **I6 convergent** and **I11 loud** are judged where they end: see the cluster's `finale`. I11
//!   also forbids a request that waits for longer than all waits with a bound together, and asking
//!   a replica for what it refuses again and again without a pause.

pub mod agreement;
pub mod fencing;
pub mod given_up;
pub mod lines;
pub mod minimal;
pub mod order;
pub mod registers;
pub mod tables;
pub mod views;

/// Something that an invariant forbids has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant, by its name in the design.
    pub oracle: &'static str,
    /// What happened, as a sentence.
    pub text: String,
}

impl Violation {
    /// Of this invariant, with this account.
    #[must_use]
    pub fn new(oracle: &'static str, text: impl Into<String>) -> Self {
        Self { oracle, text: text.into() }
    }
}

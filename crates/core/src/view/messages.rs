//! What the parts of a view are called, and why a change is not permitted, in words.

use core::fmt;

use super::{Bitmap, Cause, Protocol, ReplicaState, ViewError};
use crate::settings::*;

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownReplica => f.write_str("the volume has no such replica"),
            Self::LastInSync => f.write_str(
                "it is the last in-sync replica of its mirror; the data would be lost. Let another one become in-sync first",
            ),
            Self::WrongState(state) => write!(f, "the replica is {state}"),
            Self::WrongIncarnation => f.write_str("the replica restarted meanwhile"),
            Self::TooManyPrimaries => f.write_str("all slots of the volume are primaries'"),
            Self::NotProtocolC => f.write_str(
                "with more than one slot, for several primaries at once, a volume needs protocol C",
            ),
            Self::WrongSlots => write!(f, "a volume has 1 to {MAX_PRIMARIES} slots"),
            Self::UnknownMirror => f.write_str("the volume has no such mirror"),
            Self::TooManyReplicas => {
                write!(
                    f,
                    "a mirror may have {MAX_REPLICAS} replicas, a volume {MAX_REPLICAS_IN_ALL} in all"
                )
            }
            Self::NoCopy => {
                f.write_str("the replica is a spare, or is itself to replace another one")
            }
            Self::WrongSize => f.write_str(
                "a volume can't become smaller, and its size is a multiple of its block size",
            ),
            Self::SlotHeld(slot) => write!(f, "a primary holds slot {slot}, which would go"),
            Self::SlotOpen(slot) => {
                write!(f, "regions are open in slot {slot}, which would go")
            }
            Self::NotAllInSync => f.write_str("not all of its replicas are in-sync"),
            Self::Unconfirmed => f.write_str(
                "the replica has not confirmed yet that the volume was put together from its disks: without it, what it may have written meanwhile would be lost",
            ),
            Self::ReservationConflict => f.write_str(
                "another host has reserved the volume, or this one is not registered with that key",
            ),
            Self::WrongReservation => f.write_str(
                "the reservation is of another kind, or nobody has registered that key",
            ),
            Self::TooManyRegistrants => {
                write!(f, "{MAX_REGISTRANTS} hosts are registered, the most that may be")
            }
            Self::ReplacedAlready => f.write_str("another replica takes its place already"),
        }
    }
}

impl core::error::Error for ViewError {}

impl fmt::Display for ReplicaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InSync => "in-sync",
            Self::Rebuilding => "rebuilding",
            Self::Stale => "stale",
            Self::Faulty => "faulty",
            Self::Spare => "spare",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "",
            Self::Disconnected => "its connection was lost",
            Self::Late => "it left a request unanswered for longer than the deadline",
            Self::Restarted => "its node restarted",
            Self::Unreachable => "it did not answer when the volume was attached",
            Self::UncleanEnd => "the last primary ended without detaching",
            Self::Medium => "its disk reported an error",
            Self::NoSpace => "its disk was full",
            Self::Operator => "an operator failed it",
            Self::OtherHistory => "its data belongs to another history",
            Self::Lagging => "its writes took far longer than those of the other replicas",
            Self::Unconfirmed => {
                "it has not confirmed yet that the volume was put together from its disks"
            }
            Self::StaleClone => "a stale clone of its disk was put back",
            Self::TooLarge => {
                "it is larger than the volume, which had grown on a branch that was not kept"
            }
            Self::SourceFailed => "its source failed a write that it has itself",
        })
    }
}

impl fmt::Display for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Internal => "internal",
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        })
    }
}

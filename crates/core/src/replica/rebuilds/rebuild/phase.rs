//! The phases of a rebuild.

use std::collections::BTreeSet;

use super::learning::Question;
use crate::ids::*;
use crate::replica::DiskError;
use crate::time::Instant;

/// How far a rebuild is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::replica::rebuilds) enum Phase {
    /// It asks what it lacks.
    Learning(Option<Question>),
    Copying,
    /// It asks what these others lack.
    Inheriting(Vec<ReplicaId>, Option<Question>),
    /// It saves these pages of what others lack.
    Saving(BTreeSet<(ReplicaId, u32)>),
    /// It makes what it has copied durable.
    Flushing,
    /// Nothing is left, all is durable; the primaries have been told.
    Complete,
    /// This replica's disk failed so; each primary is told, also who comes later.
    Broken(DiskError),
}

/// Of whom the source is to be asked next what it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replica::rebuilds) enum Inherits {
    /// Nobody at present.
    None,
    /// This replica.
    From(ReplicaId),
    /// Of nobody any more: what was told is to be [saved](super::Rebuild::saves).
    All,
}

impl Phase {
    /// Whether it is not known yet what is lacking.
    pub const fn is_learning(&self) -> bool {
        matches!(self, Self::Learning(_))
    }

    /// Whether the source is to be asked now what this replica lacks.
    pub const fn is_to_learn(&self) -> bool {
        matches!(self, Self::Learning(None))
    }

    /// Whether it is time for copies.
    pub const fn is_copying(&self) -> bool {
        matches!(self, Self::Copying)
    }

    /// Whether nothing is left to be copied.
    pub const fn has_copied(&self) -> bool {
        matches!(self, Self::Inheriting(..) | Self::Saving(_) | Self::Flushing | Self::Complete)
    }

    /// Whether it goes on only with a source.
    pub const fn needs_source(&self) -> bool {
        matches!(self, Self::Learning(_) | Self::Copying | Self::Inheriting(..))
    }

    /// Whether a flush is waited for.
    pub const fn is_flushing(&self) -> bool {
        matches!(self, Self::Flushing)
    }

    /// Whether nothing is left, and all is durable.
    pub const fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    /// How this replica's disk has failed it, if it has.
    pub const fn failure(&self) -> Option<DiskError> {
        match self {
            Self::Broken(error) => Some(*error),
            _ => None,
        }
    }

    /// Since when the source has not answered what somebody lacks.
    pub fn asked_at(&self) -> Option<Instant> {
        match self {
            Self::Learning(question) | Self::Inheriting(_, question) => {
                question.map(|question| question.asked_at)
            }
            _ => None,
        }
    }

    /// Of whom the source is to be asked next what it lacks.
    pub fn inherits(&self) -> Inherits {
        match self {
            Self::Inheriting(others, None) => {
                others.first().map_or(Inherits::All, |other| Inherits::From(*other))
            }
            _ => Inherits::None,
        }
    }
}

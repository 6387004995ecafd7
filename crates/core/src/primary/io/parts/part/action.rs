//! What a part asks of a replica.

use core::ops::Range;

use crate::ids::*;
use crate::message::{Message, OperationId};
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::primary::membership::mirror::MirrorPeers;

/// What a part asks of a replica.
#[derive(Debug, Clone)]
pub(in crate::primary) enum PartAction<P> {
    Write {
        offset: u64,
        payload: P,
        durable: bool,
    },
    Zero {
        offset: u64,
        length: u32,
        unmap: bool,
        durable: bool,
    },
    Read {
        offset: u64,
        length: u32,
    },
    Map {
        offset: u64,
        length: u32,
    },
    /// What every in-sync replica holds.
    Digest {
        offset: u64,
        length: u32,
    },
    /// `stabilizes`: how far all writes to the mirror were finished when it was made.
    Flush {
        covers: Sequence,
        stabilizes: Sequence,
    },
    /// A flush for the sake of the intent logs; all writes up to here are finished.
    Stabilize {
        through: Sequence,
    },
}

impl<P: Payload> PartAction<P> {
    pub fn message(&self, id: OperationId, receipt: bool) -> (Message, Option<P>) {
        match self.clone() {
            Self::Write { offset, payload, durable } => {
                let length = payload.length();
                (Message::Write { id, offset, length, durable, receipt }, Some(payload))
            }
            Self::Zero { offset, length, unmap, durable } => {
                (Message::Zero { id, offset, length, unmap, durable, receipt }, None)
            }
            Self::Read { offset, length } => (Message::Read { id, offset, length }, None),
            Self::Map { offset, length } => (Message::Map { id, offset, length }, None),
            Self::Digest { offset, length } => (Message::Digest { id, offset, length }, None),
            Self::Flush { covers, .. } | Self::Stabilize { through: covers } => {
                (Message::Flush { id, covers }, None)
            }
        }
    }

    /// Who has to carry it out, of a mirror's replicas; of a read, nobody in particular.
    pub fn targets(&self, mirror: &MirrorPeers) -> ReplicaSet {
        match self {
            Self::Read { .. } | Self::Map { .. } => 0,
            Self::Digest { .. } => mirror.in_sync(),
            _ => mirror.members(),
        }
    }

    #[inline]
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Map { .. })
    }

    /// Whether success is more than a word.
    pub fn asks_for_content(&self) -> bool {
        self.is_read() || matches!(self, Self::Digest { .. })
    }

    pub fn is_durable(&self) -> bool {
        match self {
            Self::Write { durable, .. } | Self::Zero { durable, .. } => *durable,
            // Every one of its targets has to answer.
            Self::Flush { .. } | Self::Stabilize { .. } | Self::Digest { .. } => true,
            Self::Read { .. } | Self::Map { .. } => false,
        }
    }

    /// The range that it reads or compares.
    pub fn read_range(&self) -> Option<Range<u64>> {
        match self {
            Self::Read { offset, length } | Self::Digest { offset, length } => {
                Some(*offset..*offset + u64::from(*length))
            }
            _ => None,
        }
    }

    /// The range that it changes.
    pub fn written_range(&self) -> Option<Range<u64>> {
        match self {
            Self::Write { offset, payload, .. } => {
                Some(*offset..*offset + u64::from(payload.length()))
            }
            Self::Zero { offset, length, .. } => Some(*offset..*offset + u64::from(*length)),
            Self::Read { .. }
            | Self::Map { .. }
            | Self::Digest { .. }
            | Self::Flush { .. }
            | Self::Stabilize { .. } => None,
        }
    }
}

//! Parts: what one request asks of one mirror. [`sending`] brings them to the members, and again
//! after a reconnect; [`answers`] acknowledges them by the protocol's rule, and ends them when every
//! member has carried them out; [`blockwise`] reads once more what nobody could read as a whole, and
//! [`unverified`] elsewhere what nothing vouches for.

mod answers;
mod blockwise;
mod invariants;
mod placing;
mod sending;
mod unverified;

use self::unverified::Unverified;
use crate::ids::*;
use crate::message::{Failure, Message, OperationId};
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::primary::io::requests::RequestNumber;
use crate::primary::membership::peers::MirrorPeers;
use crate::time::Instant;

/// What one request asks of one mirror.
#[derive(Debug)]
pub(in crate::primary) struct Part<P> {
    pub request: RequestNumber,
    pub mirror: usize,
    /// Where in the request it begins.
    from: u64,
    action: PartAction<P>,
    /// Who has to carry it out: the members when it was sent, less those that left since. Of a
    /// read, the one replica that was asked.
    targets: ReplicaSet,
    /// Whether it was ever sent to anybody.
    begun: bool,
    /// To whom it was sent in their present session.
    sent: ReplicaSet,
    received: ReplicaSet,
    written: ReplicaSet,
    failed: ReplicaSet,
    failure: Option<Failure>,
    /// What was read where the checksum was lost.
    unverified: Option<Unverified<P>>,
    /// When it was sent first, or when its read was placed.
    pub sent_at: Instant,
    /// Whether its request has been told.
    answered: bool,
    /// Whether its request was told that it succeeded.
    is_acknowledged: bool,
    /// Whether its read was refused: then it waits for the coordinator's word on the view.
    was_refused: bool,
    /// Whether it reads one block of a range that no replica could read as a whole.
    is_one_block: bool,
}

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
    /// `settles`: how far all writes to the mirror were finished when it was made.
    Flush {
        covers: Sequence,
        settles: Sequence,
    },
    /// A flush for the sake of the intent logs; all writes up to here are finished.
    Settle {
        through: Sequence,
    },
}

impl<P: Payload> PartAction<P> {
    fn message(&self, id: OperationId, receipt: bool) -> (Message, Option<P>) {
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
            Self::Flush { covers, .. } | Self::Settle { through: covers } => {
                (Message::Flush { id, covers }, None)
            }
        }
    }

    /// Who has to carry it out, of a mirror's replicas; of a read, nobody in particular.
    fn targets(&self, mirror: &MirrorPeers) -> ReplicaSet {
        match self {
            Self::Read { .. } | Self::Map { .. } => 0,
            Self::Digest { .. } => mirror.in_sync,
            _ => mirror.members,
        }
    }

    fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Map { .. })
    }

    /// Whether success is more than a word.
    fn asks_for_content(&self) -> bool {
        self.is_read() || matches!(self, Self::Digest { .. })
    }

    fn is_durable(&self) -> bool {
        match self {
            Self::Write { durable, .. } | Self::Zero { durable, .. } => *durable,
            // Every one of its targets has to answer.
            Self::Flush { .. } | Self::Settle { .. } | Self::Digest { .. } => true,
            Self::Read { .. } | Self::Map { .. } => false,
        }
    }

    /// The range that it reads or compares.
    fn read_range(&self) -> Option<core::ops::Range<u64>> {
        match self {
            Self::Read { offset, length } | Self::Digest { offset, length } => {
                Some(*offset..*offset + u64::from(*length))
            }
            _ => None,
        }
    }

    /// The range that it changes.
    fn written_range(&self) -> Option<core::ops::Range<u64>> {
        match self {
            Self::Write { offset, payload, .. } => {
                Some(*offset..*offset + u64::from(payload.length()))
            }
            Self::Zero { offset, length, .. } => Some(*offset..*offset + u64::from(*length)),
            Self::Read { .. }
            | Self::Map { .. }
            | Self::Digest { .. }
            | Self::Flush { .. }
            | Self::Settle { .. } => None,
        }
    }
}

impl<P: Payload> Part<P> {
    /// Whether this replica has still to answer.
    pub fn waits_for(&self, bit: ReplicaSet) -> bool {
        self.missing() & bit != 0
    }

    /// Whether it may change data.
    pub fn changes_data(&self) -> bool {
        matches!(self.action, PartAction::Write { .. } | PartAction::Zero { .. })
    }

    pub fn is_settling(&self) -> bool {
        matches!(self.action, PartAction::Settle { .. })
    }

    /// Whether this replica has written it.
    pub fn was_written_by(&self, bit: ReplicaSet) -> bool {
        self.written & bit != 0
    }

    /// To whom it was sent and who has not answered.
    pub fn unanswered(&self) -> ReplicaSet {
        self.sent & self.missing()
    }

    /// Whether its request was told what became of it.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Whether its request was told that it failed.
    fn has_failed(&self) -> bool {
        self.answered && !self.is_acknowledged
    }

    /// Whether the mirror has this write, or is to get it. One that was answered with an error is in
    /// neither case while all in-sync replicas lack it: who copies from them lacks it, too. As soon as one
    /// that has it is in-sync it belongs to the data, and who copies from the others would not hear of it.
    fn is_of_the_mirror(&self, mirror: &MirrorPeers) -> bool {
        !self.has_failed() || self.targets & self.written & mirror.in_sync != 0
    }

    fn missing(&self) -> ReplicaSet {
        self.targets & !self.written & !self.failed
    }

    fn is_flush(&self) -> bool {
        matches!(self.action, PartAction::Flush { .. } | PartAction::Settle { .. })
    }

    /// Whether it changes bytes of this range that this replica has not written.
    pub fn may_differ(&self, bit: ReplicaSet, range: &core::ops::Range<u64>) -> bool {
        self.written & bit == 0
            && self.targets & bit != 0
            && self
                .action
                .written_range()
                .is_some_and(|own| own.start < range.end && range.start < own.end)
    }
}

//! The types through which a driver and a replica talk.

use super::log::{FoundPage, MissingPage, OpenRegions};
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::message::{Failure, Message, PayloadBlocks, RebuildProgress};
use crate::operation::Extent;
use crate::payload::Payload;
use crate::settings::Settings;
use crate::view::View;

/// What happens to a replica.
#[derive(Debug)]
pub enum ReplicaEvent<P> {
    /// Somebody has connected. Who, its first message says, and `from` has to agree with it.
    LinkOpened {
        /// Names the connection from now on; never used again.
        link: LinkId,
        /// The node at its other end, as that has proved; `None` for one in the memory of this
        /// process.
        from: Option<NodeId>,
    },
    /// A connection has ended.
    LinkClosed {
        /// As [`ReplicaEvent::LinkOpened`] or `SourceLink` named it.
        link: LinkId,
    },
    /// The connection asked for by [`ReplicaEffect::ConnectSource`] is there (`Some`), or could
    /// not be made.
    SourceLink {
        /// To which replica.
        replica: ReplicaId,
        /// Names the connection from now on; `None`: it could not be made.
        link: Option<LinkId>,
    },
    /// Somebody says something.
    Message {
        /// Over which link.
        link: LinkId,
        /// What is said; fields from a peer may hold anything.
        message: Message,
        /// The data that belong to it; `None` if its kind has none.
        payload: Option<P>,
    },
    /// A disk action has ended.
    Disk {
        /// As it was given to [`ReplicaEffect::Disk`].
        ticket: DiskTicket,
        /// What it brought, or why it failed.
        outcome: Result<DiskOutcome<P>, DiskError>,
    },
    /// A device flush has failed that no action of the replica asked for, or that one did which was
    /// to do more: what was written may be lost.
    FlushFailed,
    /// The moment named by [`super::Replica::next_wakeup`] has come.
    Tick,
}

/// What a replica wants done. Effects are carried out in their order.
#[derive(Debug)]
pub enum ReplicaEffect<P> {
    /// Say something over a link. Messages on one link arrive in their order or not at all.
    Send {
        /// Over which link.
        link: LinkId,
        /// What is said.
        message: Message,
        /// The data that belong to it; `None` if its kind has none.
        payload: Option<P>,
    },
    /// Begin a disk action; answered by exactly one [`ReplicaEvent::Disk`]. Actions may be carried
    /// out in any order and at the same time: the replica keeps those apart that must not be. An
    /// action once begun is never cancelled: its result would be unknown.
    Disk {
        /// Names the answer.
        ticket: DiskTicket,
        /// What to do.
        action: DiskAction<P>,
    },
    /// Make a connection to another replica of the mirror, to copy from it; answered by exactly
    /// one [`ReplicaEvent::SourceLink`].
    ConnectSource {
        /// The replica.
        replica: ReplicaId,
        /// The node that has its disk, by the adopted view.
        node: NodeId,
    },
    /// Close a connection. Nothing more is heard of it.
    Disconnect {
        /// As [`ReplicaEvent::LinkOpened`] or `SourceLink` named it.
        link: LinkId,
    },
}

/// A disk action under way, named by the part of the replica that asked for it. A driver returns it
/// with the outcome, and needs to know no more of it than that no two under way have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskTicket {
    /// An operation of a primary or of a rebuilding replica.
    Operation(OperationNumber),
    /// The rebuild writes a run that it has copied.
    Copy(CopyToken),
    /// The device flush. There is one at a time, as of everything below.
    Flush,
    /// The save of a view that is being adopted.
    Adoption,
    /// The save of the present incarnation, with the adopted view.
    Incarnation,
    /// The save of a table of open regions.
    Intents,
    /// The save of pages of bitmaps.
    Bitmaps,
}

/// Something to do on the replica's disk. Offsets count from the start of the replica's data.
#[derive(Debug, Clone)]
pub enum DiskAction<P> {
    /// Read a range.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Write a payload.
    Write {
        /// First byte.
        offset: u64,
        /// The data.
        payload: P,
        /// Whether this write is durable when it ends, without a flush of anything else. Only a
        /// disk is asked for it that has [`ReplicaConfig::has_fua`]. If it fails with
        /// [`DiskError::Lost`], what was written before may be lost, as by a flush that fails. With
        /// any other error it has failed before it wrote anything.
        durable: bool,
        /// Blocks for which nothing vouches: what a rebuild copies of a source that has lost their
        /// checksums. They get none here, and lose that of what they held. `None`: each gets one.
        forgotten: Option<Box<PayloadBlocks>>,
    },
    /// Make a range read as zeroes.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Whether space may be given back.
        unmap: bool,
    },
    /// Make everything durable that was written before.
    Flush {
        /// Whether the checksums of what was written become durable, too. Otherwise they do before
        /// the region is closed in which it was written.
        with_checksums: bool,
    },
    /// Tell which parts of a range hold data.
    Map {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Make this view durable in both superblocks, one after the other, with the replica's
    /// incarnations.
    SaveView(Box<View>, Incarnations),
    /// Make this table of open regions durable, in its slot. One save at a time is asked for; the
    /// last one of the slot that succeeded must survive a crash during the next. The checksums of
    /// regions that it closes become durable before it does.
    SaveIntents(OpenRegions),
    /// Make these pages of bitmaps durable, in any order. A crash may damage those under way.
    SaveMissing(Vec<MissingPage>),
}

/// What a disk action that succeeded brought.
#[derive(Debug, Clone)]
pub enum DiskOutcome<P> {
    /// Nothing more to say.
    Done,
    /// What was read; all of it fits the checksums that are stored for it.
    Data(P),
    /// What was read, and for what of it no checksum is stored.
    Unverified(P, Unverified),
    /// The map.
    Extents(Vec<Extent>),
}

/// What of a range was read with no stored checksum to compare it with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unverified {
    /// All of it: the disk keeps no checksums.
    All,
    /// These blocks, counted from the first one that the range touches, in ascending order.
    Blocks {
        /// They read as zeroes: as far as the disk knows they were never written.
        empty: Vec<u32>,
        /// They hold data: their checksums were lost, in a crash or with the page that held them.
        forgotten: Vec<u32>,
    },
}

impl Unverified {
    /// Whether checksums were lost that a write of the same content would bring back.
    #[must_use]
    pub fn is_forgotten(&self) -> bool {
        matches!(self, Self::Blocks { forgotten, .. } if !forgotten.is_empty())
    }

    /// The blocks whose checksums were lost, as bits.
    #[must_use]
    pub fn forgotten(&self) -> PayloadBlocks {
        let mut bits = PayloadBlocks::default();
        if let Self::Blocks { forgotten, .. } = self {
            for block in forgotten {
                let word = bits.get_mut((block / u64::BITS) as usize);
                debug_assert!(word.is_some(), "block {block} is beyond any payload");
                if let Some(word) = word {
                    *word |= 1 << (block % u64::BITS);
                }
            }
        }
        bits
    }
}

/// Why a disk action failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskError {
    /// An input/output error, or anything else that is not a lack of space.
    Medium,
    /// What the disk returned contradicts its checksum.
    Damaged,
    /// No space left.
    NoSpace,
    /// A device flush has failed, or a durable write, which is one as well: what was written before
    /// it, and since the last one, may be lost.
    Lost,
}

/// A replica's state, for status displays.
#[derive(Debug, Clone)]
pub struct ReplicaStatus {
    /// Its identity.
    pub id: ReplicaId,
    /// The adopted view.
    pub view: View,
    /// Whether another one is being adopted, or could not be saved: then nothing else is acted
    /// upon.
    pub is_adopting: bool,
    /// Primaries with an open session.
    pub sessions: Vec<PrimaryId>,
    /// Operations under way.
    pub operations: usize,
    /// How far the rebuild is, if it is rebuilding.
    pub rebuild: Option<RebuildProgress>,
    /// Bytes written to the data area since this incarnation began, by clients' writes and by
    /// copies.
    pub bytes_written: u64,
    /// Disk errors met since this incarnation began.
    pub disk_errors: u64,
    /// Regions that are open in its intent log.
    pub open_regions: usize,
    /// Saves of the intent log since this incarnation began.
    pub intent_saves: u64,
}

/// What a replica is made of.
#[derive(Debug, Clone)]
pub struct ReplicaConfig {
    /// Which it is.
    pub id: ReplicaId,
    /// Its present incarnation; drawn anew by the driver at each start.
    pub incarnation: Incarnation,
    /// The boot of its machine.
    pub boot: BootId,
    /// The view in its superblock.
    pub view: View,
    /// The incarnations that the superblocks list.
    pub incarnations: Incarnations,
    /// The tables of open regions on its disk, of all slots that hold anything.
    pub open_regions: Vec<OpenRegions>,
    /// What its places for bitmaps hold.
    pub missing: Vec<FoundPage>,
    /// Times and limits.
    pub settings: Settings,
    /// Whether its disk makes a single write durable (forced unit access) for less than a flush.
    pub has_fua: bool,
}

impl From<DiskError> for Failure {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Medium | DiskError::Lost => Self::Medium,
            DiskError::Damaged => Self::Damaged,
            DiskError::NoSpace => Self::NoSpace,
        }
    }
}

impl<P: Payload> DiskAction<P> {
    /// The range of data that it is about (offset and length in bytes), and whether it changes
    /// that; `None`: it is about no data, or all of them.
    pub fn range(&self) -> Option<(u64, u32, bool)> {
        match self {
            Self::Write { offset, payload, .. } => Some((*offset, payload.length(), true)),
            Self::Zero { offset, length, .. } => Some((*offset, *length, true)),
            Self::Read { offset, length } | Self::Map { offset, length } => {
                Some((*offset, *length, false))
            }
            Self::Flush { .. }
            | Self::SaveView(..)
            | Self::SaveIntents(_)
            | Self::SaveMissing(_) => None,
        }
    }
}

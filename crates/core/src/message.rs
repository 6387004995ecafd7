//! What primaries and replicas tell each other. The bytes are in the `wire` crate.
//!
//! Every message that acts on data names the generation in which it was sent; a replica runs it
//! only if it has adopted just that one (rule W3).

use core::ops::Range;

use crate::block_set::PageBits;
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::operation::{Extent, RequestError};
use crate::settings::{BLOCK, MAX_PAYLOAD};
use crate::view::{ReplicaState, View};

/// Names one operation of one primary in one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId {
    /// The generation in which it is sent (a resent operation may name a newer one).
    pub generation: Generation,
    /// Its number, the same at every replica and at every resend.
    pub sequence: Sequence,
}

/// Who opens a session with a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opener {
    /// A primary of the volume, to run it.
    Primary(PrimaryId),
    /// A replica of the same mirror, to copy from this one.
    Copier(ReplicaId),
}

/// What a replica says of itself when a session opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Which it is.
    pub replica: ReplicaId,
    /// Its present incarnation.
    pub incarnation: Incarnation,
    /// Whether its superblocks do not know all incarnations that the opener names: then a stale
    /// clone of its disk was put back.
    pub is_stale_clone: bool,
    /// The boot of its machine.
    pub boot: BootId,
    /// The generation that it has adopted.
    pub generation: Generation,
    /// The history of its data.
    pub history: History,
    /// Bytes of its data, by the adopted view.
    pub size: u64,
    /// What the adopted view says of it; `None` if that view does not hold it.
    pub state: Option<ReplicaState>,
    /// What it knows of the slots.
    pub slots: SlotBits,
}

/// What a replica knows of the slots of its intent log, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotBits {
    /// In which regions are open.
    pub open: u32,
    /// Whose primaries, by the adopted view, it has answered so lately that they may act.
    pub seen: u32,
}

/// Why a replica could not do what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Its disk reported an input/output error.
    Medium,
    /// What its disk returned contradicts its checksum.
    Damaged,
    /// Its disk is full.
    NoSpace,
    /// The operation is not inside the replica.
    Invalid,
}

impl From<Failure> for RequestError {
    /// What a client is told when the last replica that could have done it says this.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Medium | Failure::Damaged | Failure::Invalid => Self::Medium,
            Failure::NoSpace => Self::NoSpace,
        }
    }
}

/// What a replica holds in a block: a digest of it, or why it can't tell. The two highest bits say
/// whether a checksum vouches for the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockDigest(pub u64);

/// No checksum is stored for the block.
const UNVERIFIED: u64 = 1 << 63;
/// There was one, and it was lost.
const FORGOTTEN: u64 = 1 << 62;

impl BlockDigest {
    /// The disk could not read the block.
    pub const UNREADABLE: Self = Self(0);
    /// What the disk returned contradicts the block's checksum.
    pub const DAMAGED: Self = Self(1);

    /// Of what the block holds, which fits its checksum. The two lowest numbers stand for what is
    /// not a content; a digest that happens to be one of them becomes another one, the same on each
    /// replica.
    #[must_use]
    pub const fn of_content(digest: u64) -> Self {
        let content = digest & !(UNVERIFIED | FORGOTTEN);
        Self(if content < 2 { 2 } else { content })
    }

    /// The same content, for which no checksum is stored.
    #[must_use]
    pub const fn unverified(self) -> Self {
        Self(self.0 | UNVERIFIED)
    }

    /// The same content, whose checksum was lost: a write of it brings it back.
    #[must_use]
    pub const fn forgotten(self) -> Self {
        Self(self.0 | UNVERIFIED | FORGOTTEN)
    }

    /// A digest of what the block holds, without a word on its checksum; `None` if that can't be
    /// told.
    #[must_use]
    pub const fn content(self) -> Option<u64> {
        let content = self.0 & !(UNVERIFIED | FORGOTTEN);
        if content < 2 { None } else { Some(content) }
    }

    /// Whether the content fits a stored checksum.
    #[must_use]
    pub const fn is_verified(self) -> bool {
        self.content().is_some() && self.0 & UNVERIFIED == 0
    }

    /// Whether there is a content whose checksum was lost.
    #[must_use]
    pub const fn is_forgotten(self) -> bool {
        self.content().is_some() && self.0 & FORGOTTEN != 0
    }
}

/// Each message is moved several times on its way. So whatever only few of them carry is apart.
const _: () = assert!(size_of::<Message>() <= 80);

/// One message. Those marked "payload" travel with one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Opens a session: all work of the opener's older sessions ends before it is answered (W2).
    OpenSession {
        /// Numbered by the opener; the highest one wins.
        session: SessionNumber,
        /// The primary that writes through it, or the rebuilding replica that copies from this one.
        opener: Opener,
        /// Which incarnation of the replica a primary's view names, and which ones views may name
        /// that it could not learn of; none to copy.
        named_incarnations: Box<Incarnations>,
    },
    /// The session is open.
    SessionOpened {
        /// The number asked for.
        session: SessionNumber,
        /// What the replica says of itself.
        report: Box<ReplicaReport>,
    },
    /// Adopt this view, which the coordinator has committed (V2).
    Adopt {
        /// Newer than the one that the replica has adopted, or the same.
        view: Box<View>,
    },
    /// The view is durable in both superblocks, and all work of older ones has ended.
    Adopted {
        /// The generation now adopted.
        generation: Generation,
    },
    /// From a replica to its primaries: its disk failed in something that no operation stands for,
    /// an adoption or a rebuild.
    DiskFailed {
        /// The generation that it has adopted.
        generation: Generation,
        /// What kept it from succeeding.
        failure: Failure,
    },
    /// The replica has adopted another generation and did not run the message. If it names a lower
    /// one than the sender's, the sender is to have its view adopted first.
    Refused {
        /// The generation that the replica has adopted.
        adopted: Generation,
        /// The operation, if the message was one.
        sequence: Option<Sequence>,
    },
    /// Write the payload.
    Write {
        /// Which operation.
        id: OperationId,
        /// First byte in the replica.
        offset: u64,
        /// Bytes; equals the payload's length.
        length: u32,
        /// Answer `Done` only when the data is durable.
        durable: bool,
        /// Answer `Received` first (protocol B).
        receipt: bool,
    },
    /// Make a range read as zeroes.
    Zero {
        /// Which operation.
        id: OperationId,
        /// First byte in the replica.
        offset: u64,
        /// Bytes; at most [`crate::settings::MAX_ZERO`].
        length: u32,
        /// Whether space may be given back.
        unmap: bool,
        /// Answer `Done` only when durable.
        durable: bool,
        /// Answer `Received` first (protocol B).
        receipt: bool,
    },
    /// Read a range.
    Read {
        /// Which operation.
        id: OperationId,
        /// First byte in the replica.
        offset: u64,
        /// Bytes; at most [`crate::settings::MAX_PAYLOAD`].
        length: u32,
    },
    /// Tell what a range holds, by a digest of each block: to compare replicas.
    Digest {
        /// Which operation.
        id: OperationId,
        /// First byte in the replica.
        offset: u64,
        /// Bytes; at most [`crate::settings::MAX_PAYLOAD`].
        length: u32,
    },
    /// Make all writes up to `covers` durable (W4).
    Flush {
        /// Which operation.
        id: OperationId,
        /// The highest-numbered write that was acknowledged to the client before the flush.
        covers: Sequence,
    },
    /// Tell which parts of a range hold data.
    Map {
        /// Which operation.
        id: OperationId,
        /// First byte in the replica.
        offset: u64,
        /// Bytes; at most [`crate::settings::MAX_ZERO`].
        length: u32,
    },
    /// A write or zero has arrived.
    Received {
        /// Which operation.
        id: OperationId,
    },
    /// A write, zero or flush has been carried out, or has failed; or a read or map has failed.
    Done {
        /// Which operation.
        id: OperationId,
        /// Success, or why not.
        result: Result<(), Failure>,
    },
    /// What was read (payload).
    Data {
        /// Which operation.
        id: OperationId,
        /// Whether some of it holds data whose checksum the replica's disk has lost: nothing
        /// vouches for it there, and another replica's copy may be better.
        is_unverified: bool,
    },
    /// The digests asked for: of each block its xxHash3, with whether it fits a checksum, or that
    /// it can't be read.
    Digests {
        /// Which operation.
        id: OperationId,
        /// In ascending order of the blocks.
        digests: Vec<BlockDigest>,
    },
    /// The map asked for: at most [`crate::settings::MAX_EXTENTS`] extents, which may cover less
    /// than the range, but cover its start.
    Extents {
        /// Which operation.
        id: OperationId,
        /// In ascending order, without gaps.
        extents: Vec<Extent>,
    },
    /// Are you there, and still in this generation? Sent when nothing else was.
    Ping {
        /// The sender's generation.
        generation: Generation,
        /// Returned in the answer.
        number: PingNumber,
    },
    /// Yes.
    Pong {
        /// The generation of the question, which the replica has adopted.
        generation: Generation,
        /// The number of the question.
        number: PingNumber,
        /// What it knows of the slots.
        slots: SlotBits,
    },
    /// From a replica to a primary: a newer view has been adopted here in which you are not a
    /// primary.
    Fenced {
        /// The generation adopted, or about to be.
        generation: Generation,
    },
    /// From a primary to a replica: I have ended, and answer no more reads.
    FenceConfirmed {
        /// The generation of the `Fenced` message.
        generation: Generation,
    },
    /// From a primary to the replica that keeps the order of cluster locks
    /// ([`View::lock_manager`]): it wants all other primaries to yield this range, or from none any
    /// more. From that replica to every primary of the view, the requester too: yield, or do so no
    /// more.
    ClusterLock {
        /// The sender's generation.
        generation: Generation,
        /// Which primary wants the lock.
        requester: PrimaryId,
        /// Which of its cluster locks. Those before are over, and this one too if there is no
        /// range.
        number: ClusterLockNumber,
        /// The bytes of the volume.
        range: Option<Range<u64>>,
    },
    /// From a primary to the replica that keeps the order of cluster locks: it has nothing under
    /// way in the range, and begins nothing. From that replica to the requester: none of them has.
    Granted {
        /// The sender's generation.
        generation: Generation,
        /// Whose cluster lock.
        requester: PrimaryId,
        /// The number that the requester gave it: an older one is over.
        number: ClusterLockNumber,
    },
    /// From a rebuilding replica to a primary: I hold this range. Answer when `source` has
    /// answered every write that you sent to it there before this message (B1).
    Drain {
        /// The rebuilding replica's generation.
        generation: Generation,
        /// Which copy this is for.
        token: CopyToken,
        /// First byte in the replica.
        offset: u64,
        /// Bytes.
        length: u32,
        /// From which replica the range will be copied.
        source: ReplicaId,
    },
    /// The range is drained.
    Drained {
        /// The primary's generation.
        generation: Generation,
        /// The token of the question.
        token: CopyToken,
        /// Whether clients ask for anything at present.
        is_busy: bool,
    },
    /// From a rebuilding replica to its source: read this range, or tell which part of a longer one
    /// holds anything.
    Copy {
        /// The rebuilding replica's generation.
        generation: Generation,
        /// Which copy this is for.
        token: CopyToken,
        /// First byte in the replica.
        offset: u64,
        /// Bytes; at most [`crate::settings::MAX_PAYLOAD`] to be read, and
        /// [`crate::settings::MAX_ZERO`] to be told of.
        length: u32,
    },
    /// The range asked for (payload, unless it reads as zeroes, failed, or was too long to be
    /// read).
    Copied {
        /// The token of the question.
        token: CopyToken,
        /// What the range holds.
        content: CopyContent,
    },
    /// From a primary to a replica: every member has your writes up to this one, and has made them
    /// durable (W6).
    Stable {
        /// The primary's generation.
        generation: Generation,
        /// The last of those writes.
        through: Sequence,
        /// If the replica has restarted and stayed: the last write that was sent before that. Once
        /// it has stable, so is all that the replica got in earlier incarnations.
        last_of_earlier_incarnations: Option<Sequence>,
    },
    /// From a replica to its primaries: my intent log fills up. See to it that writes become
    /// stable.
    LogFilling {
        /// The generation that it has adopted.
        generation: Generation,
    },
    /// From a rebuilding replica to its source: what does this replica lack?
    AskMissing {
        /// The rebuilding replica's generation.
        generation: Generation,
        /// Whose bitmap.
        replica: ReplicaId,
        /// The first page that is wanted.
        page: u32,
    },
    /// The next page of the bitmap that holds anything.
    MissingBlocks {
        /// Whose bitmap.
        replica: ReplicaId,
        /// The page that was asked for.
        asked: u32,
        /// What there is from that page on.
        content: MissingContent,
    },
    /// From a rebuilding replica to its source: I have this range now, durably. Cross it off.
    ClearBits {
        /// The rebuilding replica's generation.
        generation: Generation,
        /// First byte in the replica.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// From a rebuilding replica to its primaries: how far it is.
    RebuildProgress {
        /// Its generation.
        generation: Generation,
        /// How far.
        progress: Box<RebuildProgress>,
    },
    /// From a rebuilding replica to its primaries: what I have copied by now is durable. Answer
    /// when all that you have sent to the mirror before this message is finished. Said again by the
    /// same number it changes nothing.
    RebuildCopied {
        /// Its generation.
        generation: Generation,
        /// Which question this is.
        number: BarrierNumber,
    },
    /// From a primary to a rebuilding replica: what was sent before [`Message::RebuildCopied`] is
    /// finished.
    WritesFinished {
        /// The primary's generation.
        generation: Generation,
        /// Of the question.
        number: BarrierNumber,
    },
    /// From a rebuilding replica to its primaries: all of them have finished their writes; it may
    /// become in-sync (B4).
    RebuildDone {
        /// Its generation.
        generation: Generation,
    },
}

/// Blocks of a payload: bit *n* of word *w* stands for block 64 *w* + *n*, counted from the first
/// one that it touches.
pub type PayloadBlocks = [u64; (MAX_PAYLOAD / BLOCK / u64::BITS) as usize];

/// What a copied range holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyContent {
    /// The payload.
    Data,
    /// The payload. Of some of its blocks the source's disk has lost the checksums: nothing vouches
    /// for what they hold, and nothing will where they are copied to.
    Unverified {
        /// These blocks.
        forgotten: PayloadBlocks,
    },
    /// Zeroes only; there is no payload.
    Zeroes,
    /// Of a range too long to be read: how it begins. The rest may hold anything.
    Begins {
        /// Bytes that were never written, or trimmed, and read as zeroes.
        zeroes: u32,
        /// Bytes behind them that may hold data.
        data: u32,
    },
    /// The source could not read it.
    Failed(Failure),
    /// The source is not in the generation of the question, or not a source.
    Refused,
}

/// An answer to [`Message::AskMissing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingContent {
    /// This page.
    Page(u32, Box<PageBits>),
    /// Nothing more.
    End,
    /// No such bitmap is kept: the replica lacks everything.
    Unknown,
    /// The source is not in the generation of the question, or not a source.
    Refused,
}

/// How far a rebuild is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RebuildProgress {
    /// Bytes of data that are copied; what holds none costs nothing and is not counted.
    pub done: u64,
    /// Bytes of data that are to be copied in all; 0 until that is known.
    pub total: u64,
    /// Bytes that were sent by the source, without ranges of zeroes.
    pub copied: u64,
    /// From which replica it copies at present.
    pub source: Option<ReplicaId>,
    /// Why it does not progress at present.
    pub waits_for: Option<RebuildWait>,
}

/// What a rebuild that does not progress waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebuildWait {
    /// A connection to its source.
    Source,
    /// A primary that does not drain the range.
    Drain,
    /// The source has an unreadable range, at this byte.
    SourceMedium(u64),
    /// An operator, who paused it.
    Operator,
}

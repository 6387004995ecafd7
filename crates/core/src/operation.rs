//! What a client asks of a volume, and what it is told.

use core::fmt;
use core::ops::Range;

use crate::payload::Payload;

/// One request of a client. Offsets and lengths are bytes, multiples of the logical block size.
#[derive(Debug, Clone)]
pub enum Operation<P> {
    /// Read `length` bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes; at most [`crate::settings::MAX_REQUEST`].
        length: u32,
    },
    /// Write the payload.
    Write {
        /// First byte.
        offset: u64,
        /// The data; at most [`crate::settings::MAX_REQUEST`] bytes.
        payload: P,
        /// Acknowledge only when the data is durable on every in-sync replica (FUA).
        durable: bool,
    },
    /// Make a range read as zeroes: trim, or write-zeroes.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Whether the disk space may be given back (trim, or write-zeroes without NO_HOLE).
        unmap: bool,
        /// Acknowledge only when durable on every in-sync replica (FUA).
        durable: bool,
    },
    /// Write the payload if the range holds just what is expected: nothing else comes between,
    /// whichever primaries run the volume. Answered by [`Reply::Done`] or [`Reply::Miscompare`]
    /// (SCSI's COMPARE AND WRITE, NVMe's fused Compare and Write).
    CompareAndWrite {
        /// First byte.
        offset: u64,
        /// What the range has to hold; at most [`crate::settings::MAX_COMPARE`] bytes.
        expected: P,
        /// The data; as long as what is expected.
        payload: P,
        /// Acknowledge only when the data is durable on every in-sync replica (FUA).
        durable: bool,
    },
    /// Make every write that was acknowledged before this request durable on every in-sync replica.
    Flush,
    /// Tell which parts of a range hold data.
    Map {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

impl<P: Payload> Operation<P> {
    /// The bytes of the volume that it is about. For requests that are inside the volume.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        let (offset, length) = match self {
            Self::Read { offset, length } => (*offset, u64::from(*length)),
            Self::Write { offset, payload, .. } | Self::CompareAndWrite { offset, payload, .. } => {
                (*offset, u64::from(payload.length()))
            }
            Self::Zero { offset, length, .. } | Self::Map { offset, length } => (*offset, *length),
            Self::Flush => return None,
        };
        Some(offset..offset + length)
    }

    /// Whether it may change what is there.
    pub(crate) const fn changes_data(&self) -> bool {
        match self {
            Self::Write { .. } | Self::CompareAndWrite { .. } | Self::Zero { .. } => true,
            Self::Read { .. } | Self::Map { .. } | Self::Flush => false,
        }
    }
}

/// The answer to a request that succeeded.
#[derive(Debug, Clone)]
pub enum Reply<P> {
    /// A write, zero or flush is acknowledged.
    Done,
    /// The range does not hold what was expected; nothing is written.
    Miscompare {
        /// The first byte that differs, from the start of the request.
        at: u32,
    },
    /// What was read: pieces with their offset from the start of the request, in ascending order
    /// and without gaps.
    Data(Vec<(u32, P)>),
    /// A map of the range, in ascending order and without gaps.
    Extents(Vec<Extent>),
}

/// A run of bytes that either holds data or is known to read as zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u64,
    /// Whether disk space is allocated; if not, the run reads as zeroes.
    pub allocated: bool,
}

/// Why a request failed. Each says what, why, and what to do ([`fmt::Display`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// The request is not inside the volume, not a multiple of the block size, or too long.
    Invalid,
    /// The last in-sync replica of a mirror reported an input/output error.
    Medium,
    /// The last in-sync replica of a mirror has no space left.
    NoSpace,
    /// No in-sync replica of a mirror answers, and the wait for one is over (or was not asked for).
    NoData,
    /// A view has to change, and the coordinator did not answer in time.
    NoCoordinator,
    /// This primary has been replaced by another one.
    Fenced,
    /// Data that was acknowledged but not flushed was lost: the last in-sync replica's machine
    /// restarted, or (protocols A and B) its disk could not take it. The volume must be attached
    /// anew, so that its user learns of it.
    LostWrites,
    /// The volume is being detached.
    Detached,
    /// Another host has reserved the volume.
    Reserved,
    /// Whoever asked has cancelled it before any replica was sent it: it has no effect.
    Cancelled,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "the request is outside the volume or not a multiple of its block size",
            Self::Medium => {
                "the last in-sync replica reported an input/output error: replace its disk, or restore from a backup"
            }
            Self::NoSpace => {
                "the last in-sync replica has no space left on its disk: free some space there"
            }
            Self::NoData => {
                "no in-sync replica answers: start the nodes that hold the volume's in-sync replicas"
            }
            Self::NoCoordinator => {
                "a replica must leave the view and the coordinator does not answer: start the coordinator's node"
            }
            Self::Fenced => "another primary has taken over the volume: detach here, attach anew",
            Self::LostWrites => {
                "the last in-sync replica lost writes that were acknowledged but not flushed: detach, check the filesystem, attach anew"
            }
            Self::Detached => "the volume is being detached",
            Self::Reserved => {
                "another host has reserved the volume: register this one, or see `evenkeel reservation show`"
            }
            Self::Cancelled => "the request was cancelled before it began",
        })
    }
}

impl core::error::Error for RequestError {}

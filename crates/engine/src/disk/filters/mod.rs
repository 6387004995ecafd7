//! The layers of a replica's disk, one over the other, from the device upwards:
//!
//! - [`RawDisk`]: operations on the file or device. It continues short ones, repeats interrupted
//!   ones, zeroes by what the device can do, and counts flushes that fail.
//! - [`AllocationMap`]: marks units of a device before they are first written, and forgets those
//!   that were trimmed.
//! - [`Checksums`]: compares what is read, knows what is written, and makes that durable.
//!
//! Each has `begin` and `completed`, and its own state, which no other one sees. What a layer is to
//! do when a request has ended travels down with it as a value (`Then`), which the layer below
//! keeps without knowing it: so a request is kept once, by the raw disk, and a completion finds its
//! way up without anything being looked up.

mod allocation;
mod checksums;
mod raw;

#[cfg(test)]
mod bench;

use std::io;

use evenkeel_core::DiskOutcome;
use evenkeel_core::message::PayloadBlocks;
use evenkeel_format::SuperblockBytes;

use self::allocation::AllocationMap;
pub(super) use self::checksums::{Checksums, Counts, End};
use self::raw::RawDisk;
use crate::disk::device::{Failures, Writes};
use crate::memory::Buffer;

/// What a layer is asked for. Offsets count from the start of the data, places from that of the
/// file or device, both in bytes. What is to be durable fails if more flushes have failed in the
/// end than are named with it.
#[derive(Debug)]
pub(super) enum Request {
    Read {
        offset: u64,
        length: u32,
    },
    Write(DataWrite),
    /// Makes a range read as zeroes, and gives its space back if it is to be unmapped.
    Zero {
        offset: u64,
        length: u32,
        unmap: bool,
    },
    /// Makes durable all that has ended before, and whatever a layer puts off until a flush.
    Flush(Failures),
    /// Makes durable all that has ended before, for a layer or for metadata.
    Barrier(Failures),
    ReadMetadata {
        place: u64,
        length: u32,
    },
    /// Writes metadata, durably unless a flush follows.
    WriteMetadata(Box<Writes>, Failures),
    WriteSuperblock {
        place: u64,
        bytes: Box<SuperblockBytes>,
    },
}

/// A write of data.
#[derive(Debug)]
pub(super) struct DataWrite {
    pub offset: u64,
    pub payload: Buffer,
    /// Named if it is to be durable when it ends.
    pub durable: Option<Failures>,
    /// Blocks that get no checksum, counted from the first one that the payload touches.
    pub forgotten: Option<Box<PayloadBlocks>>,
}

/// What a request has led to.
pub(super) type Outcome = io::Result<DiskOutcome<Buffer>>;

/// What a read has brought.
fn data_of(outcome: DiskOutcome<Buffer>) -> io::Result<Buffer> {
    match outcome {
        DiskOutcome::Data(data) => Ok(data),
        _ => Err(io::Error::other("a read has ended without data")),
    }
}

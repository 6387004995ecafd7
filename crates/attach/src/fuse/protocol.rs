//! The kernel's FUSE protocol, version 7.31 and later, as far as one file in one directory needs
//! it: bytes in, values out, and back. No input or output is done here.
//!
//! All numbers are in the byte order of the machine. What the kernel sends is decoded with its
//! bounds checked all the same, so that a defect on either side ends in an error and never in a
//! read outside of a buffer.

use std::fmt;

/// Length of the header of every request, in bytes.
pub const REQUEST_HEADER: usize = 40;
/// Length of the header and the parameters of a write request; its payload follows.
pub const WRITE_HEADER: usize = 80;
/// Length of the header of every reply, in bytes.
pub const REPLY_HEADER: usize = 16;
/// The longest request other than a write that is decoded; of longer ones only the header counts.
pub const MAX_PLAIN_REQUEST: usize = 512;

/// The version of the protocol that is spoken.
pub const MAJOR: u32 = 7;
/// The newest minor version that is spoken.
pub const MINOR: u32 = 31;
/// The oldest minor version that is accepted (Linux 5.4).
pub const OLDEST_MINOR: u32 = 31;

/// Abilities that are negotiated when the filesystem is mounted.
pub mod ability {
    /// Several reads of one file may be under way.
    pub const ASYNC_READ: u32 = 1 << 0;
    /// Writes may be longer than 4 KiB.
    pub const BIG_WRITES: u32 = 1 << 5;
    /// Direct input and output may be asynchronous.
    pub const ASYNC_DIRECT_IO: u32 = 1 << 15;
    /// Looking up and reading of directories may go on in parallel.
    pub const PARALLEL_DIRECTORY_OPERATIONS: u32 = 1 << 18;
    /// The reply says how many pages a request may have.
    pub const MAX_PAGES: u32 = 1 << 22;
}

/// Bits of the reply to an open.
pub mod open_flag {
    /// Past the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// No request when a descriptor is closed.
    pub const NO_FLUSH: u32 = 1 << 5;
    /// Several direct writes at once.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// `valid` bit of a change of attributes: the size.
pub const SET_SIZE: u32 = 1 << 3;

/// The header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Length of the request with the header, in bytes.
    pub length: u32,
    /// The operation (`enum fuse_opcode`).
    pub opcode: u32,
    /// Names the request in its reply.
    pub unique: u64,
    /// The inode it is about.
    pub inode: u64,
}

/// A request of the kernel, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Negotiation, the first request.
    Initialize {
        /// Major version of the kernel.
        major: u32,
        /// Minor version of the kernel.
        minor: u32,
        /// Read-ahead that the kernel would do, in bytes.
        read_ahead: u32,
        /// Abilities of the kernel ([`ability`]).
        abilities: u32,
    },
    /// Find a name in a directory.
    Lookup {
        /// The name.
        name: &'a [u8],
    },
    /// Inodes are forgotten, or a request is interrupted; no reply is expected.
    Forget,
    /// A waiting request should be given up.
    Interrupt,
    /// Return the attributes.
    GetAttributes,
    /// Change attributes.
    SetAttributes {
        /// The attributes to change, as `FATTR_` bits.
        valid: u32,
        /// The new size, if it is one of them.
        size: u64,
    },
    /// Open the file.
    Open,
    /// Open the directory.
    OpenDirectory,
    /// Read data.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u32,
    },
    /// Write data, which follows the first [`WRITE_HEADER`] bytes.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u32,
    },
    /// A descriptor is closed.
    CloseDescriptor,
    /// Make acknowledged writes durable.
    Synchronize,
    /// Make the directory durable.
    SynchronizeDirectory,
    /// Punch a hole, or the like.
    Allocate {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// What to do: the bits of `fallocate(2)`.
        mode: u32,
    },
    /// Find data or a hole.
    Seek {
        /// From here.
        offset: u64,
        /// `SEEK_DATA` or `SEEK_HOLE`.
        whence: u32,
    },
    /// Tell the size of the filesystem.
    FilesystemStatistics,
    /// Read the directory.
    ReadDirectory {
        /// From this entry on.
        offset: u64,
        /// Bytes that the reply may have.
        size: u32,
    },
    /// The file is not open any more.
    Release,
    /// The filesystem is unmounted.
    Destroy,
    /// Anything else: to be answered with "not supported".
    Unknown,
}

/// A request that does not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its opcode demands, or than its header says.
    Short,
    /// The length of a write does not fit its payload.
    Payload,
    /// A name does not end, or is empty.
    Name,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the kernel sent a FUSE request that is too short",
            Self::Payload => "the kernel sent a FUSE write whose length does not fit its payload",
            Self::Name => "the kernel sent a FUSE lookup without a name",
        })
    }
}

impl std::error::Error for Malformed {}

/// A reader of numbers that never goes past its end.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_ne_bytes)
    }
}

/// Decodes the header of a request.
pub fn decode_header(message: &[u8]) -> Result<Header, Malformed> {
    let mut fields = Fields(message.get(..REQUEST_HEADER).ok_or(Malformed::Short)?);
    Ok(Header {
        length: fields.u32()?,
        opcode: fields.u32()?,
        unique: fields.u64()?,
        inode: fields.u64()?,
    })
}

/// Decodes a request of which `message` is the beginning and `received` the whole length.
///
/// Of a write only the first [`WRITE_HEADER`] bytes are looked at; of any other request
/// [`MAX_PLAIN_REQUEST`] bytes are enough.
pub fn decode(message: &[u8], received: usize) -> Result<(Header, Request<'_>), Malformed> {
    let header = decode_header(message)?;
    if received != header.length as usize {
        return Err(Malformed::Short);
    }
    let body = message.get(REQUEST_HEADER..message.len().min(received)).ok_or(Malformed::Short)?;
    let request = decode_body(header.opcode, body)?;
    if let Request::Write { size, .. } = request
        && received - WRITE_HEADER != size as usize
    {
        return Err(Malformed::Payload);
    }
    Ok((header, request))
}

fn decode_body(code: u32, body: &[u8]) -> Result<Request<'_>, Malformed> {
    let mut fields = Fields(body);
    Ok(match code {
        opcode::INIT => Request::Initialize {
            major: fields.u32()?,
            minor: fields.u32()?,
            read_ahead: fields.u32()?,
            abilities: fields.u32()?,
        },
        opcode::LOOKUP => Request::Lookup { name: decode_name(body)? },
        opcode::FORGET | opcode::BATCH_FORGET => Request::Forget,
        opcode::INTERRUPT => Request::Interrupt,
        opcode::GETATTR => Request::GetAttributes,
        opcode::SETATTR => {
            let valid = fields.u32()?;
            fields.take::<12>()?;
            Request::SetAttributes { valid, size: fields.u64()? }
        }
        opcode::OPEN => Request::Open,
        opcode::OPENDIR => Request::OpenDirectory,
        opcode::FLUSH => Request::CloseDescriptor,
        opcode::FSYNC => Request::Synchronize,
        opcode::FSYNCDIR => Request::SynchronizeDirectory,
        opcode::STATFS => Request::FilesystemStatistics,
        opcode::RELEASE | opcode::RELEASEDIR => Request::Release,
        opcode::DESTROY => Request::Destroy,
        opcode::READ | opcode::READDIR | opcode::WRITE | opcode::FALLOCATE | opcode::LSEEK => {
            decode_range(code, &mut fields)?
        }
        _ => Request::Unknown,
    })
}

/// Decodes the requests that begin with a file handle and an offset.
fn decode_range<'a>(code: u32, fields: &mut Fields<'_>) -> Result<Request<'a>, Malformed> {
    fields.u64()?;
    let offset = fields.u64()?;
    Ok(match code {
        opcode::READ => Request::Read { offset, size: fields.u32()? },
        opcode::READDIR => Request::ReadDirectory { offset, size: fields.u32()? },
        opcode::WRITE => {
            let size = fields.u32()?;
            fields.take::<20>()?;
            Request::Write { offset, size }
        }
        opcode::LSEEK => Request::Seek { offset, whence: fields.u32()? },
        _ => Request::Allocate { offset, length: fields.u64()?, mode: fields.u32()? },
    })
}

fn decode_name(body: &[u8]) -> Result<&[u8], Malformed> {
    let end = body.iter().position(|byte| *byte == 0).ok_or(Malformed::Name)?;
    if end == 0 { Err(Malformed::Name) } else { Ok(&body[..end]) }
}

/// The attributes of the directory or of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The inode.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Preferred size of requests, in bytes.
    pub block_size: u32,
}

/// How long the kernel may trust names and attributes: they never change, so a day.
const VALID_SECONDS: u64 = 24 * 3600;

/// What the filesystem answers to the negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Read-ahead of the kernel, in bytes.
    pub read_ahead: u32,
    /// Agreed abilities.
    pub abilities: u32,
    /// Requests that may be under way before the kernel holds further asynchronous ones back.
    pub background: u16,
    /// The longest write, in bytes.
    pub max_write: u32,
    /// The longest request, in pages of 4 KiB.
    pub max_pages: u16,
}

/// One reply, being put together. The header's length is filled in by [`Answer::finish`].
#[derive(Debug)]
pub struct Answer(Vec<u8>);

impl Answer {
    /// Begins a reply to the request `unique`.
    fn to(unique: u64) -> Self {
        let mut bytes = Vec::with_capacity(160);
        bytes.extend_from_slice(&header(unique, 0, 0));
        Self(bytes)
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn attributes(self, a: &Attributes) -> Self {
        self.u64(a.inode)
            .u64(a.size)
            .u64(a.size / 512)
            .u64(0)
            .u64(0)
            .u64(0)
            .u32(0)
            .u32(0)
            .u32(0)
            .u32(a.mode)
            .u32(1)
            .u32(0)
            .u32(0)
            .u32(0)
            .u32(a.block_size)
            .u32(0)
    }

    /// The finished reply.
    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// The header of a reply that has `payload` bytes after it; `error` is 0 or an errno.
pub fn header(unique: u64, error: i32, payload: u32) -> [u8; REPLY_HEADER] {
    let mut bytes = [0; REPLY_HEADER];
    bytes[..4].copy_from_slice(&(REPLY_HEADER as u32 + payload).to_ne_bytes());
    bytes[4..8].copy_from_slice(&(-error).to_ne_bytes());
    bytes[8..].copy_from_slice(&unique.to_ne_bytes());
    bytes
}

/// The reply to a write of `size` bytes.
pub fn written(unique: u64, size: u32) -> [u8; REPLY_HEADER + 8] {
    let mut bytes = [0; REPLY_HEADER + 8];
    bytes[..REPLY_HEADER].copy_from_slice(&header(unique, 0, 8));
    bytes[REPLY_HEADER..REPLY_HEADER + 4].copy_from_slice(&size.to_ne_bytes());
    bytes
}

/// The reply to the negotiation.
pub fn initialized(unique: u64, limits: &Limits) -> Vec<u8> {
    let answer = Answer::to(unique)
        .u32(MAJOR)
        .u32(MINOR)
        .u32(limits.read_ahead)
        .u32(limits.abilities)
        .u16(limits.background)
        .u16(limits.background / 4 * 3)
        .u32(limits.max_write)
        .u32(1)
        .u16(limits.max_pages)
        .u16(0);
    (0..8).fold(answer, |answer, _| answer.u32(0)).finish()
}

/// The reply to a negotiation that offers another major version: the kernel tries again with ours.
pub fn other_major(unique: u64) -> Vec<u8> {
    (0..14).fold(Answer::to(unique).u32(MAJOR).u32(MINOR), |answer, _| answer.u32(0)).finish()
}

/// The reply to a lookup that found something.
pub fn entry(unique: u64, attributes: &Attributes) -> Vec<u8> {
    Answer::to(unique)
        .u64(attributes.inode)
        .u64(0)
        .u64(VALID_SECONDS)
        .u64(VALID_SECONDS)
        .u32(0)
        .u32(0)
        .attributes(attributes)
        .finish()
}

/// The reply to a question for attributes, or to a change of them.
pub fn attributes(unique: u64, attributes: &Attributes) -> Vec<u8> {
    Answer::to(unique).u64(VALID_SECONDS).u32(0).u32(0).attributes(attributes).finish()
}

/// The reply to an open.
pub fn opened(unique: u64, flags: u32) -> Vec<u8> {
    Answer::to(unique).u64(0).u32(flags).u32(0).finish()
}

/// The reply to a question for data or a hole.
pub fn found(unique: u64, offset: u64) -> Vec<u8> {
    Answer::to(unique).u64(offset).finish()
}

/// The reply to a question for the filesystem's size: `blocks` of `block_size` bytes, none free.
pub fn statistics(unique: u64, blocks: u64, block_size: u32) -> Vec<u8> {
    let answer = Answer::to(unique)
        .u64(blocks)
        .u64(0)
        .u64(0)
        .u64(2)
        .u64(0)
        .u32(block_size)
        .u32(255)
        .u32(block_size)
        .u32(0);
    (0..6).fold(answer, |answer, _| answer.u32(0)).finish()
}

/// The reply to the reading of a directory: the `entries` (inode, type as in `d_type`, name) from
/// number `offset` on, as many as fit into `size` bytes.
pub fn directory(unique: u64, entries: &[(u64, u32, &[u8])], offset: u64, size: u32) -> Vec<u8> {
    let mut answer = Answer::to(unique);
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    for (index, (inode, kind, name)) in entries.iter().enumerate().skip(from) {
        let record = (24 + name.len()).next_multiple_of(8);
        if answer.0.len() - REPLY_HEADER + record > size as usize {
            break;
        }
        let end = answer.0.len() + record;
        answer = answer.u64(*inode).u64(index as u64 + 1).u32(name.len() as u32).u32(*kind);
        answer.0.extend_from_slice(name);
        answer.0.resize(end, 0);
    }
    answer.finish()
}

mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const LSEEK: u32 = 46;
}

#[cfg(test)]
mod tests;

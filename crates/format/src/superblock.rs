//! The superblock: which replica of which volume a disk holds, and the view that it has adopted. A
//! disk has two copies; see [`crate::newest()`].

use core::fmt;

use evenkeel_core::{Incarnation, Incarnations, ReplicaId, View, VolumeId};
use thiserror::Error;

use crate::bytes::{Put, Reader, Short, crc32c_of_parts, padded_text};
use crate::name::{NAME_RULE, is_name};
use crate::view::{MAX_VIEW_LENGTH, ViewFormatError, decode_view, encode_view};
use crate::{DATA_OFFSET, SOFTWARE, SUPERBLOCK_LENGTH};

/// The version of the format that this software writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Longest name of a volume, in bytes of UTF-8.
pub const MAX_NAME_LENGTH: usize = 64;

/// Bytes of the field that names the software that wrote a superblock.
pub const MAX_WRITER_LENGTH: usize = 32;

pub(crate) const MAGIC: &[u8; 16] = b"evenkeel replica";
/// A read-only-compatible feature: the data's blocks have checksums.
const CHECKSUMS: u64 = 1;

// The head, which every version of the format has, in this order:
//
// | field | bytes |
// |---|---|
// | magic | 16 |
// | version of the format | 4 |
// | length of a copy | 4 |
// | CRC-32C | 4, and 4 zeroes |
// | sequence | 8 |
// | features: compatible, read-only-compatible, incompatible | 8 each |
// | the software that wrote it | 32 |
//
// `Head::read` and `put_head` go through it with a cursor; only what is read or written alone has
// an offset.
const CRC_OFFSET: usize = MAGIC.len() + 4 + 4;
const VIEW_OFFSET: usize = 512;
/// Data starts at a multiple of this, whatever the logical block size.
const DATA_ALIGNMENT: u64 = 4096;

const _: () = assert!(VIEW_OFFSET + MAX_VIEW_LENGTH <= SUPERBLOCK_LENGTH);

/// A superblock: which replica of which volume a disk holds, and the view that it has adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Counts the saves of this replica's superblock; the first is 1.
    pub sequence: u64,
    /// The volume.
    pub volume: VolumeId,
    /// The volume's name when this was saved, for those who find the disk alone: 1 to
    /// [`MAX_NAME_LENGTH`] bytes.
    pub name: String,
    /// The replica.
    pub replica: ReplicaId,
    /// Which mirror of the stripe it belongs to.
    pub mirror: u32,
    /// First byte of the data on the disk; fixed for as long as the replica exists.
    pub data_offset: u64,
    /// Bytes of data, at least [`View::replica_size`].
    pub data_length: u64,
    /// The incarnations of the replica that a view may name; the newest one is that in which this
    /// was saved.
    pub incarnations: Incarnations,
    /// When this was saved, in seconds since 1970; zero: not known.
    pub saved: u64,
    /// First byte of the metadata that lie behind the data.
    pub metadata_offset: u64,
    /// Whether there are checksums of the data's blocks, which every write has to keep.
    pub has_checksums: bool,
    /// The adopted view.
    pub view: View,
}

/// One copy's bytes, aligned so that they can be written with O_DIRECT.
#[derive(Clone, PartialEq, Eq)]
#[repr(C, align(4096))]
pub struct SuperblockBytes(pub [u8; SUPERBLOCK_LENGTH]);

impl fmt::Debug for SuperblockBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SuperblockBytes")
    }
}

impl AsRef<[u8]> for SuperblockBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Why a superblock can't be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The name is none.
    #[error("the volume's name {0:?} is not permitted: {NAME_RULE}")]
    Name(String),
    /// A number contradicts another one, or a limit.
    #[error("the superblock would not be valid: {0}")]
    Invalid(&'static str),
    /// The view is not valid.
    #[error(transparent)]
    View(#[from] ViewFormatError),
}

/// Why a copy does not hold a superblock that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// There are fewer bytes than a copy has: it could not be read.
    #[error("the superblock could not be read: check the disk and its size")]
    Unreadable,
    /// The copy does not start as a superblock does.
    #[error("there is no evenkeel superblock: this is not a replica, or its start was overwritten")]
    NoMagic,
    /// It is whole, as far as this software can check, and of another version.
    #[error(
        "written by {writer} in format {version}, and this is {SOFTWARE}, which reads format {FORMAT_VERSION}: upgrade this node"
    )]
    UnknownVersion {
        /// The version of the format.
        version: u32,
        /// The software that wrote it.
        writer: String,
    },
    /// It is whole, and uses features that this software must not ignore.
    #[error(
        "written by {writer} with features unknown to this {SOFTWARE} (incompatible {incompatible:#x}, read-only-compatible {read_only_compatible:#x}): upgrade this node"
    )]
    UnknownFeatures {
        /// Bits of features without which the replica can't even be read.
        incompatible: u64,
        /// Bits of features without which the replica must not be written.
        read_only_compatible: u64,
        /// The software that wrote it.
        writer: String,
    },
    /// The checksum does not match.
    #[error(
        "the superblock's checksum is {stored:08x} and should be {computed:08x}: a write was cut off, or the disk is damaged"
    )]
    Checksum {
        /// The checksum that the superblock carries.
        stored: u32,
        /// The CRC-32C of its bytes.
        computed: u32,
    },
    /// The checksum matches and a number is impossible: written by defective software.
    #[error("the superblock is not valid: {0}; please report this, with its first 16 KiB")]
    Invalid(&'static str),
    /// The checksum matches and the view can't be used.
    #[error("in the superblock: {0}")]
    View(#[from] ViewFormatError),
}

impl From<Short> for FormatError {
    fn from(_: Short) -> Self {
        Self::Unreadable
    }
}

impl FormatError {
    /// Whether newer software wrote this copy, and wrote all of it. Then the other copy must not be
    /// used either: it may be older than what the newer software did.
    #[must_use]
    pub const fn is_from_newer_software(&self) -> bool {
        matches!(
            self,
            Self::UnknownVersion { .. }
                | Self::UnknownFeatures { .. }
                | Self::View(ViewFormatError::Version(_))
        )
    }
}

impl Superblock {
    /// The bytes of one copy. Both copies get the same bytes.
    ///
    /// # Errors
    /// See [`EncodeError`].
    pub fn encode(&self) -> Result<Box<SuperblockBytes>, EncodeError> {
        if !is_name(&self.name) {
            return Err(EncodeError::Name(self.name.clone()));
        }
        self.check().map_err(EncodeError::Invalid)?;
        let view = encode_view(&self.view)?;
        let mut out = Vec::with_capacity(SUPERBLOCK_LENGTH);
        self.put_head(&mut out);
        out.put_padded(self.name.as_bytes(), MAX_NAME_LENGTH);
        out.put_u32(view.len() as u32);
        out.put_padded(&[], 4);
        out.put_u64(self.incarnations.newest().0);
        out.put_u64(self.metadata_offset);
        out.put_u64(self.saved);
        self.incarnations.0[1..].iter().for_each(|incarnation| out.put_u64(incarnation.0));
        out.put_padded(&[], VIEW_OFFSET - out.len());
        out.put_padded(&view, SUPERBLOCK_LENGTH - VIEW_OFFSET);
        let crc = checksum(&out).to_le_bytes();
        let mut copy = Box::new(SuperblockBytes([0; SUPERBLOCK_LENGTH]));
        copy.0.copy_from_slice(&out);
        copy.0[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
        Ok(copy)
    }

    /// Everything before the name; the checksum is left as zeroes.
    fn put_head(&self, out: &mut Vec<u8>) {
        out.put(MAGIC);
        out.put_u32(FORMAT_VERSION);
        out.put_u32(SUPERBLOCK_LENGTH as u32);
        out.put_padded(&[], 8);
        out.put_u64(self.sequence);
        // Features: compatible, read-only-compatible, incompatible.
        out.put_u64(0);
        out.put_u64(if self.has_checksums { CHECKSUMS } else { 0 });
        out.put_u64(0);
        out.put_padded(SOFTWARE.as_bytes(), MAX_WRITER_LENGTH);
        out.put_u128(self.volume.0);
        out.put_u128(self.replica.0);
        out.put_u64(self.data_offset);
        out.put_u64(self.data_length);
        out.put_u32(self.mirror);
        out.put_padded(&[], 4);
    }

    /// Reads one copy.
    ///
    /// # Errors
    /// See [`FormatError`].
    pub fn decode(copy: &[u8]) -> Result<Self, FormatError> {
        let copy = copy.get(..SUPERBLOCK_LENGTH).ok_or(FormatError::Unreadable)?;
        let head = Head::read(copy)?.ok_or(FormatError::NoMagic)?;
        head.check(copy)?;
        let Head { envelope, rest: mut reader, .. } = head;
        let volume = VolumeId(reader.u128()?);
        let replica = ReplicaId(reader.u128()?);
        let (data_offset, data_length) = (reader.u64()?, reader.u64()?);
        let mirror = reader.u32()?;
        reader.take(4)?;
        let name = padded_text(reader.take(MAX_NAME_LENGTH)?)
            .filter(|name| is_name(name))
            .ok_or(FormatError::Invalid("the volume's name is not a permitted one"))?;
        let view_length = reader.u32()? as usize;
        reader.take(4)?;
        let mut incarnations = Incarnations([Incarnation(reader.u64()?); Incarnations::MAX]);
        let (metadata_offset, saved) = (reader.u64()?, reader.u64()?);
        for incarnation in &mut incarnations.0[1..] {
            *incarnation = Incarnation(reader.u64()?);
        }
        let view = copy[VIEW_OFFSET..]
            .get(..view_length)
            .ok_or(FormatError::Invalid("the view does not fit"))?;
        let superblock = Self {
            sequence: envelope.sequence,
            volume,
            name: name.to_owned(),
            replica,
            mirror,
            data_offset,
            data_length,
            incarnations,
            saved,
            metadata_offset,
            has_checksums: envelope.read_only_compatible & CHECKSUMS != 0,
            view: decode_view(view)?,
        };
        superblock.check().map_err(FormatError::Invalid)?;
        Ok(superblock)
    }

    /// What a superblock must fulfil beyond its view's own validity.
    fn check(&self) -> Result<(), &'static str> {
        let end = self.data_offset.checked_add(self.data_length);
        let mirror_fits = (self.mirror as usize) < self.view.mirrors.len();
        match () {
            () if self.volume != self.view.volume => Err("its view is of another volume"),
            () if !mirror_fits => Err("its view has no such mirror"),
            () if self.data_offset < DATA_OFFSET => Err("the data starts in the superblocks"),
            () if !self.data_offset.is_multiple_of(DATA_ALIGNMENT) => {
                Err("the data does not start at a multiple of 4096")
            }
            () if end.is_some_and(|end| self.metadata_offset < end) => {
                Err("its metadata start in the data")
            }
            () if !self.metadata_offset.is_multiple_of(DATA_ALIGNMENT) => {
                Err("its metadata do not start at a multiple of 4096")
            }
            () if end.is_none() => Err("the data ends beyond what a disk can have"),
            () if self.data_length < self.view.replica_size() => {
                Err("the data is shorter than the view's geometry says")
            }
            () => Ok(()),
        }
    }
}

/// The fields at the start of a copy that every version of the format has. They are returned even
/// of a copy that fails its checksum: then none of them is certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The version of the format.
    pub version: u32,
    /// Its checksum, as stored.
    pub checksum: u32,
    /// Counts the saves.
    pub sequence: u64,
    /// Feature bits that may be ignored.
    pub compatible: u64,
    /// Feature bits without which the replica must not be written.
    pub read_only_compatible: u64,
    /// Feature bits without which the replica must not even be read.
    pub incompatible: u64,
    /// The software that wrote it.
    pub writer: Option<String>,
}

/// The start of a copy; `None` if it is too short, or does not begin as a superblock does.
#[must_use]
pub fn envelope(copy: &[u8]) -> Option<Envelope> {
    let copy = copy.get(..SUPERBLOCK_LENGTH)?;
    Head::read(copy).ok()?.map(|head| head.envelope)
}

/// The start of a copy, and what follows it.
struct Head<'a> {
    envelope: Envelope,
    /// Bytes of the copy, as it says.
    length: usize,
    rest: Reader<'a>,
}

impl<'a> Head<'a> {
    /// Reads it; `None` if the copy does not begin as a superblock does.
    fn read(copy: &'a [u8]) -> Result<Option<Self>, Short> {
        let mut reader = Reader::new(copy);
        if reader.take(MAGIC.len())? != MAGIC {
            return Ok(None);
        }
        let (version, length) = (reader.u32()?, reader.u32()?);
        let checksum = reader.u32()?;
        reader.take(4)?;
        let envelope = Envelope {
            version,
            checksum,
            sequence: reader.u64()?,
            compatible: reader.u64()?,
            read_only_compatible: reader.u64()?,
            incompatible: reader.u64()?,
            writer: writer(reader.take(MAX_WRITER_LENGTH)?),
        };
        Ok(Some(Self { envelope, length: length as usize, rest: reader }))
    }

    /// Checks what all versions of the format share: length, checksum, version, features.
    fn check(&self, copy: &[u8]) -> Result<(), FormatError> {
        let Envelope { version, checksum: stored, .. } = self.envelope;
        let writer =
            || self.envelope.writer.clone().unwrap_or_else(|| "unknown software".to_owned());
        let unknown_version = || FormatError::UnknownVersion { version, writer: writer() };
        // This version has one length. That of a newer one may be more than was read: then the
        // checksum can't be judged.
        let whole = match version {
            FORMAT_VERSION => copy,
            _ => copy
                .get(..self.length)
                .filter(|whole| whole.len() >= VIEW_OFFSET)
                .ok_or_else(unknown_version)?,
        };
        let computed = checksum(whole);
        if stored != computed {
            return Err(FormatError::Checksum { stored, computed });
        }
        if version != FORMAT_VERSION {
            return Err(unknown_version());
        }
        if self.length != SUPERBLOCK_LENGTH {
            return Err(FormatError::Invalid("its length is not that of format 1"));
        }
        let read_only_compatible = self.envelope.read_only_compatible & !CHECKSUMS;
        let incompatible = self.envelope.incompatible;
        if read_only_compatible | incompatible != 0 {
            let writer = writer();
            return Err(FormatError::UnknownFeatures {
                incompatible,
                read_only_compatible,
                writer,
            });
        }
        Ok(())
    }
}

/// The software that a field names; not checked by a checksum.
fn writer(field: &[u8]) -> Option<String> {
    padded_text(field).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Over all bytes, with the checksum's own taken as zero.
fn checksum(copy: &[u8]) -> u32 {
    crc32c_of_parts(&[&copy[..CRC_OFFSET], &[0; 4], &copy[CRC_OFFSET + 4..]])
}

#[cfg(test)]
pub(crate) mod tests;

//! The hello: identities, purpose and version of a connection.
//!
//! The connecting side sends a [`Hello`], the listening side a [`HelloAnswer`]; after that the
//! connection carries what its purpose says. The hello authenticates nobody: on TCP, TLS has done
//! so before, with certificates of both sides; a unix socket is protected by its mode.
//!
//! Each of these is a *part*: read [`PREFIX_LENGTH`] bytes, then as many as [`rest_length`] returns
//! (at most [`MAX_PART_LENGTH`] in all), and pass both to the `decode` of the expected type.
//! The layout of parts never changes, so that the versions can always be negotiated.

use core::fmt;

use evenkeel_core::{Incarnation, NodeId, ReplicaId, VolumeId};
use evenkeel_format::SOFTWARE;
use thiserror::Error;

mod part;

pub use part::{MAX_PART_LENGTH, PREFIX_LENGTH, PartError, rest_length};
use part::{PartReader, PartWriter};

/// Longest name of a cluster or a node, and longest text about software, in bytes of UTF-8.
pub const MAX_NAME_LENGTH: usize = 64;
/// Longest text of a refusal, in bytes of UTF-8; longer text is cut when it is sent.
pub const MAX_TEXT_LENGTH: usize = 512;
/// Both parts have a byte and so many more that are sent as zeros and not looked at: once, who had
/// a shared key said it there, with a nonce.
const RESERVED: usize = 32;

const HELLO: u16 = 1;
const ANSWER: u16 = 2;

/// Versions that one side speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest one.
    pub oldest: u16,
    /// The highest one.
    pub newest: u16,
}

impl VersionRange {
    /// The newest version that both sides speak.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest && newest >= other.oldest).then_some(newest)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.oldest, self.newest) {
            (oldest, newest) if oldest == newest => write!(f, "{newest}"),
            (oldest, newest) => write!(f, "{oldest} to {newest}"),
        }
    }
}

/// What a connection carries after the hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Frames, with one replica of the listener's node.
    Replication {
        /// The volume.
        volume: VolumeId,
        /// The replica.
        replica: ReplicaId,
    },
    /// HTTP requests of one node to another.
    Control,
}

/// One start of a node's daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Higher than that of every earlier start from the same state directory.
    pub counter: u64,
    /// Drawn at random, so that two copies of a state directory differ from their next start on;
    /// never 0.
    pub incarnation: Incarnation,
}

/// The first part, from who connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Versions of the frames that it speaks.
    pub versions: VersionRange,
    /// What the connection carries after the hello.
    pub purpose: Purpose,
    /// Who it is.
    pub node: NodeId,
    /// Its name, for messages and logs.
    pub node_name: String,
    /// The cluster that it belongs to.
    pub cluster: String,
    /// The software, for messages and logs; set by [`Hello::encode`].
    pub software: String,
    /// Its start; `None` of software that does not count them.
    pub start: Option<Start>,
    /// The newest epoch of the cluster's membership that it knows; 0 of software that knows none.
    pub epoch: u64,
}

/// The second part, from who listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloAnswer {
    /// The version that is spoken from now on, or why none is.
    pub outcome: Result<u16, Refusal>,
    /// Versions of the frames that it speaks.
    pub versions: VersionRange,
    /// Who it is.
    pub node: NodeId,
    /// Its name, for messages and logs.
    pub node_name: String,
    /// The software, for messages and logs; set by [`HelloAnswer::encode`].
    pub software: String,
    /// Its start; `None` of software that does not count them.
    pub start: Option<Start>,
    /// The newest epoch of the cluster's membership that it knows; 0 of software that knows none.
    pub epoch: u64,
}

/// Why a listener does not serve a connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct Refusal {
    /// The reason, for programs.
    pub reason: Reason,
    /// The reason for people: what, why, and what to do.
    pub text: String,
}

/// Reasons of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There is no version that both sides speak.
    Version,
    /// The listener belongs to another cluster.
    Cluster,
    /// The listener has no such replica, or has not opened it.
    NoReplica,
    /// The listener has as many connections as it may have, or is starting or stopping.
    Busy,
    /// A later start of the connecting node is known.
    Superseded,
    /// The replica's disk is absent or held by another process: it is tried again, without a
    /// command.
    DiskAway,
    /// The replica's disk, or what it says of the replica, is bad: somebody has to do something.
    Unusable,
    /// A reason that only newer software knows; the text says it.
    Other,
}

impl Purpose {
    const fn code(self) -> u8 {
        match self {
            Self::Replication { .. } => 1,
            Self::Control => 2,
        }
    }

    const fn ids(self) -> (u128, u128) {
        match self {
            Self::Replication { volume, replica } => (volume.0, replica.0),
            Self::Control => (0, 0),
        }
    }

    fn from_code(code: u8, volume: u128, replica: u128) -> Result<Self, PartError> {
        let replication =
            Self::Replication { volume: VolumeId(volume), replica: ReplicaId(replica) };
        match (code, volume, replica) {
            (1, ..) => Ok(replication),
            (2, 0, 0) => Ok(Self::Control),
            _ => Err(PartError::Field("purpose")),
        }
    }
}

impl Reason {
    const fn code(self) -> u8 {
        match self {
            Self::Version => 1,
            Self::Cluster => 2,
            Self::NoReplica => 5,
            Self::Busy => 6,
            Self::DiskAway => 8,
            Self::Unusable => 9,
            Self::Superseded => 7,
            Self::Other => 255,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Version,
            2 => Self::Cluster,
            5 => Self::NoReplica,
            6 => Self::Busy,
            8 => Self::DiskAway,
            9 => Self::Unusable,
            7 => Self::Superseded,
            _ => Self::Other,
        }
    }
}

impl Hello {
    /// The part's bytes. Names that are too long are cut.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut part = PartWriter::new(HELLO);
        part.u16(self.versions.oldest);
        part.u16(self.versions.newest);
        part.u8(self.purpose.code());
        part.u8(0);
        let (volume, replica) = self.purpose.ids();
        part.u128(volume);
        part.u128(replica);
        part.u128(self.node.0);
        part.bytes(&[0; RESERVED]);
        part.text(&self.cluster, MAX_NAME_LENGTH);
        part.text(&self.node_name, MAX_NAME_LENGTH);
        part.text(SOFTWARE, MAX_NAME_LENGTH);
        put_start(&mut part, self.start);
        part.u64(self.epoch);
        part.finish()
    }

    /// Reads the part, prefix included.
    ///
    /// # Errors
    /// See [`PartError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, PartError> {
        let mut part = PartReader::new(HELLO, bytes)?;
        let versions = read_versions(&mut part)?;
        let (purpose, _) = (part.u8()?, part.u8()?);
        let (volume, replica) = (part.u128()?, part.u128()?);
        let node = NodeId(part.u128()?);
        part.array::<RESERVED>()?;
        Ok(Self {
            versions,
            purpose: Purpose::from_code(purpose, volume, replica)?,
            node,
            cluster: part.name("cluster")?,
            node_name: part.name("node")?,
            software: part.text(MAX_NAME_LENGTH)?,
            start: read_start(&mut part)?,
            epoch: read_epoch(&mut part)?,
        })
    }
}

impl HelloAnswer {
    /// The part's bytes. Names and texts that are too long are cut.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut part = PartWriter::new(ANSWER);
        part.u16(self.versions.oldest);
        part.u16(self.versions.newest);
        part.u16(*self.outcome.as_ref().unwrap_or(&0));
        part.u8(0);
        part.u128(self.node.0);
        part.bytes(&[0; RESERVED]);
        put_refusal(&mut part, self.outcome.as_ref().err());
        part.text(&self.node_name, MAX_NAME_LENGTH);
        part.text(SOFTWARE, MAX_NAME_LENGTH);
        put_start(&mut part, self.start);
        part.u64(self.epoch);
        part.finish()
    }

    /// Reads the part, prefix included.
    ///
    /// # Errors
    /// See [`PartError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, PartError> {
        let mut part = PartReader::new(ANSWER, bytes)?;
        let versions = read_versions(&mut part)?;
        let (version, _) = (part.u16()?, part.u8()?);
        let node = NodeId(part.u128()?);
        part.array::<RESERVED>()?;
        let refusal = read_refusal(&mut part)?;
        Ok(Self {
            outcome: refusal.map_or(Ok(version), Err),
            versions,
            node,
            node_name: part.name("node")?,
            software: part.text(MAX_NAME_LENGTH)?,
            start: read_start(&mut part)?,
            epoch: read_epoch(&mut part)?,
        })
    }
}

fn read_versions(part: &mut PartReader<'_>) -> Result<VersionRange, PartError> {
    let versions = VersionRange { oldest: part.u16()?, newest: part.u16()? };
    if versions.oldest > versions.newest {
        return Err(PartError::Field("versions"));
    }
    Ok(versions)
}

fn put_start(part: &mut PartWriter, start: Option<Start>) {
    part.u64(start.map_or(0, |start| start.counter));
    part.u64(start.map_or(0, |start| start.incarnation.0));
}

fn read_start(part: &mut PartReader<'_>) -> Result<Option<Start>, PartError> {
    if part.is_at_end() {
        return Ok(None);
    }
    let (counter, incarnation) = (part.u64()?, Incarnation(part.u64()?));
    Ok((incarnation.0 != 0).then_some(Start { counter, incarnation }))
}

fn read_epoch(part: &mut PartReader<'_>) -> Result<u64, PartError> {
    if part.is_at_end() { Ok(0) } else { part.u64() }
}

fn put_refusal(part: &mut PartWriter, refusal: Option<&Refusal>) {
    part.u8(refusal.map_or(0, |refusal| refusal.reason.code()));
    part.text(refusal.map_or("", |refusal| &refusal.text), MAX_TEXT_LENGTH);
}

fn read_refusal(part: &mut PartReader<'_>) -> Result<Option<Refusal>, PartError> {
    let (code, text) = (part.u8()?, part.text(MAX_TEXT_LENGTH)?);
    Ok((code != 0).then(|| Refusal { reason: Reason::from_code(code), text }))
}

#[cfg(test)]
mod tests;

//! What the superblocks and tables of a replica say, read from its disk alone.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ReplicaCause, ReplicaState, VolumeProtocol};

/// Answer to an examination: what was found at the paths that were given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExamineAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// Every replica, and every place that holds none, in the order of the paths.
    pub replicas: Vec<Examined>,
    /// What could not be looked at, a sentence each.
    pub warnings: Vec<String>,
}

/// Whether a replica can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaVerdict {
    /// Nothing of it is damaged.
    Whole,
    /// It can be used, and something of it is damaged: one of two copies, or a page of a bitmap.
    Impaired,
    /// It cannot be used.
    Unusable,
    /// There is no replica.
    NoReplica,
}

/// A file or device, and the replica on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Examined {
    /// The file or device.
    pub path: String,
    /// Its length in bytes; zero if it could not be opened.
    pub size: u64,
    /// Whether it is a block device.
    pub device: bool,
    /// The process that has it locked: a node that serves it. What is read may change meanwhile.
    pub used_by: Option<u32>,
    /// Whether it can be used.
    pub verdict: ReplicaVerdict,
    /// All that is wrong with it.
    pub problems: Vec<ReplicaProblem>,
    /// The two copies of the superblock.
    pub superblocks: Vec<ExaminedCopy>,
    /// The contents of the copy of the superblock that counts.
    pub replica: Option<ExaminedReplica>,
}

/// Something that is wrong with a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaProblem {
    /// What is wrong.
    pub why: String,
    /// What to do about it.
    #[serde(rename = "do")]
    pub action: String,
}

/// Whether a copy can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopyVerdict {
    /// Its checksum is right and its content makes sense.
    Good,
    /// It is not whole.
    Damaged,
    /// It was written by newer software.
    Newer,
    /// Nothing was ever written there.
    Empty,
}

/// One copy of the superblock. Of a damaged one, nothing but its place is certain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExaminedCopy {
    /// `A` or `B`.
    pub copy: String,
    /// Its first byte on the disk.
    pub offset: u64,
    /// Whether it can be used.
    pub verdict: CopyVerdict,
    /// Whether it is the one that counts.
    pub counts: bool,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// The version of the format.
    pub format: Option<u32>,
    /// The checksum that it carries, in hexadecimal digits.
    pub checksum: Option<String>,
    /// Counts the saves of the superblock.
    pub sequence: Option<u64>,
    /// When it was saved, in seconds since 1970.
    pub saved: Option<u64>,
    /// The generation of the view in it.
    pub generation: Option<u64>,
    /// The software that wrote it.
    pub writer: Option<String>,
    /// Feature bits: compatible, read-only-compatible, incompatible.
    pub features: Option<[u64; 3]>,
}

/// What the superblock that counts says, with the tables beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExaminedReplica {
    /// Its identity.
    pub id: String,
    /// Index of its mirror in the stripe.
    pub mirror: usize,
    /// The volume's identity.
    pub volume_id: String,
    /// The volume's name.
    pub volume: String,
    /// The incarnation of the replica in which the superblock was saved, in hexadecimal digits.
    pub incarnation: String,
    /// First byte of the data on the disk.
    pub data_offset: u64,
    /// Bytes of data.
    pub data_size: u64,
    /// First byte of the bitmaps behind the data.
    pub metadata_offset: u64,
    /// Whether its blocks have checksums.
    #[serde(default)]
    pub has_checksums: bool,
    /// The adopted view.
    pub view: ExaminedView,
    /// Its intent log: where it may differ from others.
    pub intents: ExaminedIntents,
    /// Its bitmaps: which blocks are out of sync on other replicas.
    pub bitmaps: Vec<ExaminedBitmap>,
}

/// A view as a superblock holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExaminedView {
    /// Its number.
    pub generation: u64,
    /// The number of the view that it replaced.
    pub parent: u64,
    /// The identity of the history of the data: each assembly from disks begins another one.
    pub history: String,
    /// The coordinator identity that committed it.
    pub coordinator: String,
    /// The epochs that it supersedes, the newest first.
    pub epochs: Vec<ExaminedEpoch>,
    /// Usable size of the volume in bytes.
    pub size: u64,
    /// Logical block size in bytes.
    pub block_size: u32,
    /// Bytes that go to one mirror before the next one's turn.
    pub chunk: u32,
    /// When a write is acknowledged.
    pub protocol: VolumeProtocol,
    /// How closely replicas remember where they may differ: `none` or `internal`.
    pub bitmap: String,
    /// Nodes on which the volume was attached; none: it was detached cleanly.
    pub primaries: Vec<String>,
    /// The replicas of each mirror.
    pub mirrors: Vec<Vec<ExaminedMember>>,
}

/// Views of a coordinator identity that have been superseded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExaminedEpoch {
    /// The coordinator identity that committed them.
    pub coordinator: String,
    /// The identity of the history of the data: each assembly from disks begins another one.
    pub history: String,
    /// The last generation that is superseded.
    pub last: u64,
    /// When the epoch ended, in seconds since 1970.
    pub ended: Option<u64>,
}

/// A replica in such a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExaminedMember {
    /// Its identity.
    pub id: String,
    /// Whether it is the replica that was examined.
    pub this: bool,
    /// Its node's identity.
    pub node: String,
    /// Its state in its mirror.
    pub state: ReplicaState,
    /// Why it is not in-sync.
    pub cause: Option<ReplicaCause>,
    /// The same as a sentence.
    pub why: Option<String>,
    /// The generation in which it took its state.
    pub since: u64,
    /// The generation in which it ceased to be in-sync; `null`: it is in-sync, or lacks everything.
    pub missing_since: Option<u64>,
    /// The incarnation of it that the view knows, in hexadecimal digits.
    pub incarnation: String,
}

/// The intent log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExaminedIntents {
    /// Regions that may be open at a time.
    pub places: u16,
    /// Bytes of one region by its view.
    pub region_size: u64,
    /// The slots that the view has, and others that were ever used.
    pub slots: Vec<ExaminedSlot>,
}

/// One slot of the intent log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExaminedSlot {
    /// Its number.
    pub slot: u8,
    /// The node whose primary holds it by the adopted view; `null`: nobody.
    pub holder: Option<String>,
    /// Sequences of its copies A and B; `null`: that copy is damaged or was never written.
    pub sequences: [Option<u64>; 2],
    /// How often it was saved.
    pub events: u64,
    /// By which of these saves a region was last closed.
    pub cleared: u64,
    /// The state of copies A and B.
    pub copies: [CopyVerdict; 2],
    /// Whether all regions count as open: the table says so (`--bitmap none`), or one was written
    /// and neither copy is whole.
    pub all_open: bool,
    /// Bytes of one region when the table was saved.
    pub region_size: u64,
    /// The open regions, ascending; region *n* begins at byte *n* times the region's size.
    pub open: Vec<u64>,
    /// Bytes of data that the open regions cover.
    pub bytes: u64,
}

/// A bitmap: what a replica lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExaminedBitmap {
    /// Its place on the disk, 0 to 15.
    pub place: u8,
    /// The replica that lacks the blocks.
    pub replica: String,
    /// The generation in which it ceased to be in-sync.
    pub since: u64,
    /// Whether it counts by the view; else it is left over from an earlier absence.
    pub counts: bool,
    /// Blocks of 4 KiB that it lacks.
    pub blocks: u64,
    /// The same in bytes.
    pub bytes: u64,
}

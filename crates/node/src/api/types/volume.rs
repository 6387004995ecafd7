//! Volumes: requests about them, and their status.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{NodeRef, RebuildRate, ReplicaRole, ReservationStatus, Verify, VolumeBitmap};

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub enum VolumeProtocol {
    /// The local replica has written it and the rest is queued.
    A,
    /// Every replica has received it.
    B,
    /// Every replica has written it.
    #[default]
    C,
}

/// What to do while no in-sync replica of a mirror answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "policy")]
pub enum NoData {
    /// Hold requests for so many seconds, then fail them.
    Suspend {
        /// 1 to 86400.
        seconds: u64,
    },
    /// Fail requests at once.
    Error,
}

impl Default for NoData {
    fn default() -> Self {
        Self::Suspend { seconds: 120 }
    }
}

/// Creates a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateVolumeRequest {
    /// Its name: 1 to 64 letters, digits, `-`, `_` and `.`, beginning with a letter or digit.
    pub name: String,
    /// Usable size in bytes; rounded up to the block size.
    pub size: u64,
    /// Replicas of each mirror, 1 to 16.
    #[serde(default = "default_replicas")]
    pub replicas: usize,
    /// Where to put them: `NODE:DISK` each, as many as replicas times mirrors, mirror by mirror.
    /// Empty: the disks with the most free space, each replica of a mirror on another node.
    #[serde(default)]
    pub on: Vec<String>,
    /// Mirrors to stripe over, 1 to 16.
    #[serde(default = "default_stripe")]
    pub stripe: usize,
    /// When a write is acknowledged.
    #[serde(default)]
    pub protocol: VolumeProtocol,
    /// Where replicas may differ after a crash.
    #[serde(default)]
    pub bitmap: VolumeBitmap,
    /// Whether replicas keep a checksum of each 4 KiB, so that what a disk has damaged is not returned.
    #[serde(default = "default_checksums")]
    pub checksums: bool,
    /// Bytes of one region of the intent logs: a power of two, 64 KiB to 1 GiB. `null`: 1 MiB if
    /// replicas have less than 4 GiB, else 4 MiB.
    #[serde(default)]
    pub region_size: Option<u64>,
    /// Regions that may be open at once: at most 2032, and at least what the longest request, of
    /// 128 MiB, touches. `null`: 1024.
    #[serde(default)]
    pub open_regions: Option<u16>,
    /// On how many nodes it may be attached at once, 1 to 32: as many slots its intent logs have. More than
    /// one only by protocol C. `null`: 4 if the bitmap is clustered, else 1.
    #[serde(default)]
    pub primaries: Option<u8>,
    /// Logical block size, 512 or 4096; `null`: 512 where every disk allows it, else 4096.
    #[serde(default)]
    pub block_size: Option<u32>,
    /// Bytes that go to one mirror before the next one's turn: a power of two, 4096 to 1 GiB.
    #[serde(default = "default_chunk")]
    pub chunk: u32,
    /// What to do while no in-sync replica of a mirror answers.
    #[serde(default)]
    pub no_data: NoData,
    /// Without room on enough different nodes, put replicas of a mirror on one node, even on
    /// one disk (for trials).
    #[serde(default)]
    pub allow_same_node: bool,
    /// Promise more space than the disks have; a disk that is full later fails its replica.
    #[serde(default)]
    pub thin: bool,
    /// Change nothing; answer what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

const fn default_replicas() -> usize {
    3
}

const fn default_checksums() -> bool {
    true
}

const fn default_stripe() -> usize {
    1
}

const fn default_chunk() -> u32 {
    64 << 10
}

impl CreateVolumeRequest {
    /// A volume with defaults for everything but its name and size.
    #[must_use]
    pub fn new(name: impl Into<String>, size: u64) -> Self {
        Self {
            name: name.into(),
            size,
            replicas: default_replicas(),
            on: Vec::new(),
            stripe: default_stripe(),
            protocol: VolumeProtocol::default(),
            bitmap: VolumeBitmap::default(),
            checksums: default_checksums(),
            region_size: None,
            open_regions: None,
            primaries: None,
            block_size: None,
            chunk: default_chunk(),
            no_data: NoData::default(),
            allow_same_node: false,
            thin: false,
            dry_run: false,
        }
    }
}

/// Answer to `POST /v1/volumes`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreateVolumeAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// Whether the volume exists now (not after a dry run).
    pub created: bool,
    /// What was, or would be, made.
    pub plan: VolumePlan,
}

/// A volume as it is, or would be, made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumePlan {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Usable size in bytes.
    pub size: u64,
    /// Logical block size.
    pub block_size: u32,
    /// Bytes that go to one mirror before the next one's turn.
    pub chunk: u32,
    /// When a write is acknowledged.
    pub protocol: VolumeProtocol,
    /// Bytes of one region of the intent logs.
    pub region_size: u64,
    /// Regions that may be open at once.
    pub open_regions: u16,
    /// Slots of the intent logs: on so many nodes it may be attached at once.
    pub slots: u8,
    /// What to do while no in-sync replica of a mirror answers.
    pub no_data: NoData,
    /// Bytes that each replica takes on its disk, with its superblock.
    pub replica_size: u64,
    /// Mirror by mirror.
    pub replicas: Vec<PlannedReplica>,
    /// What deserves a second thought, a sentence each.
    pub warnings: Vec<String>,
}

/// A replica as it is, or would be, placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedReplica {
    /// Its identity.
    pub id: String,
    /// Index of its mirror.
    pub mirror: usize,
    /// Its node.
    pub node: NodeRef,
    /// Name of its disk.
    pub disk: String,
}

/// How to await something, and what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VolumeQuery {
    /// Answer at the latest after so many seconds, 0 to 60, even if `until` has not come.
    #[serde(default)]
    #[param(maximum = 60)]
    pub wait: Option<u64>,
    /// Answer as soon as this holds.
    #[serde(default)]
    #[param(inline)]
    pub until: Option<Until>,
}

/// What can be awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// It is attached and answers requests.
    Serving,
    /// Every replica is in-sync.
    InSync,
    /// It is not attached anywhere.
    Detached,
}

/// Answer to `GET /v1/volumes`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct VolumesAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The volumes, by name.
    pub volumes: Vec<VolumeStatus>,
    /// What could not be found out, a sentence each.
    pub warnings: Vec<String>,
}

/// Answer to `GET /v1/volumes/NAME`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct VolumeAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The volume.
    pub volume: VolumeStatus,
}

/// Whether a volume can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// Stopped: its replicas are closed until it is assembled.
    Stopped,
    /// Not attached anywhere.
    Detached,
    /// A primary is starting.
    Starting,
    /// Attached; requests are answered.
    Serving,
    /// Attached; requests wait, see `suspended`.
    Suspended,
    /// The view names a primary that is not alive or does not answer.
    Unreachable,
}

/// Whether a volume has all its replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeHealth {
    /// Every replica is in-sync.
    InSync,
    /// No replica is lost, but some are rebuilding.
    Rebuilding,
    /// A replica is stale or faulty.
    Degraded,
}

/// All that a person wants to know of a volume.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct VolumeStatus {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Usable size in bytes.
    pub size: u64,
    /// Logical block size.
    pub block_size: u32,
    /// Bytes that go to one mirror before the next one's turn.
    pub chunk: u32,
    /// When a write is acknowledged.
    pub protocol: VolumeProtocol,
    /// Where replicas may differ after a crash.
    pub bitmap: VolumeBitmap,
    /// Bytes of one region of the intent logs.
    pub region_size: u64,
    /// Regions that may be open at once.
    pub open_regions: u16,
    /// Slots of the intent logs, of which each primary has one: on so many nodes it may be attached at once.
    pub slots: u8,
    /// How fast rebuilds may go.
    pub rebuild: RebuildRate,
    /// What to do while no in-sync replica of a mirror answers.
    pub no_data: NoData,
    /// Whether it can be used.
    pub state: VolumeState,
    /// Whether it has all its replicas.
    pub health: VolumeHealth,
    /// Why it is not serving and in-sync, in one line; `null` if nothing is unusual.
    pub reason: Option<String>,
    /// What requests wait for, if they do.
    pub suspended: Option<Suspended>,
    /// The number of its view.
    pub generation: u64,
    /// The line of descent of its data.
    pub lineage: String,
    /// Where this status comes from.
    pub source: StatusSource,
    /// Where it is attached.
    pub primaries: Vec<PrimaryStatus>,
    /// The mirrors, in stripe order.
    pub mirrors: Vec<MirrorStatus>,
    /// The last verify since it was attached.
    pub verify: Option<Verify>,
    /// Which hosts are registered with it, and who has reserved it; `null` if nobody is.
    #[serde(default)]
    pub reservation: Option<ReservationStatus>,
    /// Ranges that a replica could not read since it was attached, and that were rewritten there.
    pub rewritten: Option<u64>,
    /// How it is served to clients.
    pub exports: Vec<Export>,
    /// What happened lately, oldest first; at most 64.
    pub events: Vec<VolumeEvent>,
}

/// Where a status comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StatusSource {
    /// The primary: all fields are present.
    Primary,
    /// The coordinator's newest view: connections and rebuild progress are not known.
    Coordinator,
}

/// What requests wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Suspended {
    /// For what.
    pub waits_for: WaitsFor,
    /// The mirror without an in-sync replica, if that is it.
    pub mirror: Option<usize>,
    /// For how many seconds already.
    pub seconds: u64,
    /// After how many seconds in all requests fail; `null` if they wait for as long as it takes.
    pub limit_seconds: Option<u64>,
    /// Why, in a sentence.
    pub why: String,
    /// What to do about it.
    #[serde(rename = "do")]
    pub action: String,
}

/// What requests can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    /// The attach to finish.
    Start,
    /// An in-sync replica that answers.
    Replica,
    /// The coordinator, to commit a view.
    Coordinator,
}

/// A volume's use on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrimaryStatus {
    /// The node.
    pub node: NodeRef,
    /// Its slot of the intent logs; `null`: none yet.
    #[serde(default)]
    pub slot: Option<u8>,
    /// Whether that node is alive, or not yet known to be dead.
    pub alive: bool,
    /// Whether it is the node that answers.
    pub here: bool,
    /// The block device there, if there is one.
    pub device: Option<String>,
    /// How the device is made: `ublk` or `fuse-loop`.
    pub device_kind: Option<String>,
    /// Requests of clients that are not answered.
    pub requests: Option<usize>,
    /// Whether writes were acknowledged that no flush covers yet.
    pub unflushed: Option<bool>,
}

/// One mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MirrorStatus {
    /// Index in the stripe.
    pub index: usize,
    /// One character a replica: `U` in-sync, `R` rebuilding, `_` stale, `F` faulty, `S` spare;
    /// as in `[UU_]`.
    pub summary: String,
    /// The replicas, in the view's order.
    pub replicas: Vec<ReplicaStatus>,
}

/// What a replica is to its mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaState {
    /// Has every write that was acknowledged.
    InSync,
    /// Gets every new write and copies the older ones.
    Rebuilding,
    /// Lacks writes; returns by itself.
    Stale,
    /// Failed; waits for a command.
    Faulty,
    /// Holds nothing yet.
    Spare,
}

/// Why a replica is not in-sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaCause {
    /// Its connection was lost.
    Disconnected,
    /// It left a request unanswered for longer than the deadline.
    Late,
    /// Its process or machine restarted.
    Restarted,
    /// It did not answer when the volume was attached.
    Unreachable,
    /// The last primary ended without detaching.
    UncleanEnd,
    /// Its disk reported an error.
    Medium,
    /// Its disk is full.
    NoSpace,
    /// An operator failed it.
    Operator,
    /// It belongs to another line of descent of the data.
    OtherLineage,
    /// Its source failed a write that it has itself.
    SourceFailed,
    /// Its writes took far longer than those of the other replicas.
    Lagging,
    /// The volume was put together from its disks, and it has not adopted that yet.
    Unconfirmed,
    /// It is larger than the volume, which had grown on a side that was not kept.
    TooLarge,
    /// An old copy of its disk was put back.
    OldCopy,
}

/// One replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaStatus {
    /// Its identity.
    pub id: String,
    /// Its node.
    pub node: NodeRef,
    /// Whether that node is alive; `null` while that is not known.
    pub node_alive: Option<bool>,
    /// Name of its disk.
    pub disk: Option<String>,
    /// What it is to its mirror.
    pub state: ReplicaState,
    /// Why it is in its mirror.
    #[serde(default)]
    pub role: ReplicaRole,
    /// The replica that it replaces or stands in for, by its identity.
    #[serde(default)]
    pub instead_of: Option<String>,
    /// Why it is not in-sync.
    pub cause: Option<ReplicaCause>,
    /// The same as a sentence, with what to do if something has to be done.
    pub reason: Option<String>,
    /// Whether the primary has a session with it.
    pub connected: Option<bool>,
    /// Operations that it has not answered.
    pub outstanding: Option<usize>,
    /// Age of the oldest of them, in milliseconds.
    pub oldest_ms: Option<u64>,
    /// How far its rebuild is.
    pub rebuild: Option<Rebuild>,
    /// Reads that it has failed since it joined the attached volume: its disk could not read, or the data
    /// contradicted their checksum. Each was answered by another replica that has them, and what this one
    /// can't read is rewritten from there. What a verify finds is not counted here.
    #[serde(default)]
    pub failed_reads: Option<u32>,
}

/// How far a rebuild is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rebuild {
    /// Bytes that need no more work.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
    /// Bytes that were sent by the source.
    pub copied: u64,
    /// Bytes a second, over the last ten seconds or so.
    pub rate: u64,
    /// Seconds until it is done at this rate; `null` while it does not progress.
    pub eta_seconds: Option<u64>,
    /// The replica from which it copies.
    pub source: Option<String>,
    /// The node of that replica.
    pub source_node: Option<NodeRef>,
    /// Why it does not progress, if so.
    pub waits_for: Option<String>,
}

/// Something that happened to a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeEvent {
    /// When.
    pub at: u64,
    /// What, in a sentence.
    pub message: String,
}

/// How a volume becomes usable on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttachHow {
    /// A block device if this machine can make one, else an NBD socket.
    #[default]
    Auto,
    /// A block device; an error if this machine can not make one.
    Device,
    /// An NBD export on a unix socket.
    Nbd,
    /// Nothing: the primary runs; exports are made later.
    None,
}

/// Begins to use a volume on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AttachRequest {
    /// The node, by name or identity; `null`: this one.
    pub node: Option<String>,
    /// How.
    pub how: AttachHow,
    /// Refuse writes.
    pub read_only: bool,
}

/// Answer to an attach.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AttachAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The block device on that node.
    pub device: Option<String>,
    /// How the device is made: `ublk` or `fuse-loop`.
    pub device_kind: Option<String>,
    /// The NBD export, if one was made.
    pub export: Option<Export>,
    /// The volume's status after it.
    pub volume: VolumeStatus,
}

/// Ends the use of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DetachRequest {
    /// The node, by name or identity; `null`: where it is attached, if that is one node.
    pub node: Option<String>,
}

/// Answer to a detach.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DetachAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// Whether every replica answered to the end. If not, the next attach resynchronises.
    pub clean: bool,
    /// What was done, in a sentence.
    pub message: String,
}

/// Serves an attached volume by NBD, on the node where it is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExportNbdRequest {
    /// On the node's TCP address for NBD as well as on a unix socket.
    pub tcp: bool,
    /// Refuse writes.
    pub read_only: bool,
}

/// Answer to an export.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExportAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The export.
    pub export: Export,
}

/// How a volume is served to clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Export {
    /// `nbd`.
    pub kind: String,
    /// The node that serves it.
    pub node: NodeRef,
    /// The unix socket on that node.
    pub socket: Option<String>,
    /// The TCP addresses.
    pub tcp: Vec<String>,
    /// Whether TLS is required on TCP.
    pub tls: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Ready to use: an NBD URI each.
    pub uris: Vec<String>,
    /// Clients connected at present.
    pub clients: usize,
}

/// Answer to a delete.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DeleteVolumeAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// Replicas whose space has been given back.
    pub removed: usize,
    /// Replicas on nodes that do not answer: removed when those are back.
    pub remembered: Vec<PlannedReplica>,
    /// What was done, in a sentence.
    pub message: String,
}

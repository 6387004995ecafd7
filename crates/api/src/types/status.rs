//! Volumes: their status.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Export, FoundWrong, NoCoordinator, NoData, NodeRef, RebuildRate, ReplicaRole,
    ReservationStatus, Verify, VolumeBitmap, VolumeProtocol,
};

/// What a request for a status waits for, and for how long.
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

/// The conditions that a request for a status can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// It is attached and answers requests.
    Serving,
    /// Every replica is in-sync; whether spares answer does not matter.
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
    /// Whether these are all: without the coordinator a node knows those that it has to do with.
    #[serde(default = "yes")]
    pub complete: bool,
    /// What could not be found out, a sentence each.
    pub warnings: Vec<String>,
}

const fn yes() -> bool {
    true
}

/// Answer to `GET /v1/volumes/NAME`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct VolumeAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The volume.
    pub volume: VolumeStatus,
    /// What was done to it, in a sentence, if a replica was changed.
    #[serde(default)]
    pub message: Option<String>,
    /// What to know before one believes that, a sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
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
    /// The view names a primary that is not alive or does not answer, or whose node has not given
    /// the volume up (`not_given_up`).
    Unreachable,
    /// Neither the coordinator answers nor the node on which it was attached by the last view that
    /// a replica here adopted.
    Unknown,
}

/// Whether a volume has all its replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeHealth {
    /// Every replica is in-sync.
    InSync,
    /// No replica is lost, but some are rebuilding.
    Rebuilding,
    /// A replica is stale or faulty, is gone when its node's daemon ends, or is the last in-sync
    /// one of its mirror and on a disk that fails; or a spare is not known to answer.
    Degraded,
    /// Whether its replicas are there is not known: no node that has the volume attached answers,
    /// and the coordinator has received nothing from the replicas' nodes yet.
    Unknown,
    /// A replica that the volume counts on does not answer.
    Unreachable,
}

/// The status of a volume.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct VolumeStatus {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Usable size in bytes.
    pub size: u64,
    /// Logical block size in bytes.
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
    /// Intent slots, of which each primary has one: on so many nodes it may be attached
    /// at once.
    pub slots: u8,
    /// The limit for the rate of rebuilds.
    pub rebuild: RebuildRate,
    /// How long one confirmation of a replica permits a primary to answer reads, in milliseconds.
    pub lease_ms: u64,
    /// What replicas add to that before they let others take over from a silent primary, in
    /// milliseconds.
    pub lease_margin_ms: u64,
    /// What to do while no in-sync replica of a mirror answers.
    pub no_data: NoData,
    /// What requests do while a view has to change and the coordinator does not answer.
    #[serde(default)]
    pub no_coordinator: NoCoordinator,
    /// Whether it can be used.
    pub state: VolumeState,
    /// With the state `unreachable`: whether its node answers, and it does not run there any more;
    /// it was not given up. The node may wait to attach it again ([`Self::wanted_on`]).
    #[serde(default)]
    pub not_given_up: bool,
    /// Whether it has all its replicas.
    pub health: VolumeHealth,
    /// Whether it is `degraded` for nothing but spares that are not known to answer: the data is
    /// all there without them, and whoever waits until it is in-sync need not wait.
    #[serde(default)]
    pub lacks_only_spares: bool,
    /// Why it is not serving and in-sync, in one line; `null` if nothing is unusual.
    pub reason: Option<String>,
    /// What requests wait for, if they do.
    pub suspended: Option<Suspended>,
    /// The number of its view.
    pub generation: u64,
    /// The identity of the history of its data: each assembly from disks begins another one.
    pub history: String,
    /// Where this status comes from.
    pub source: StatusSource,
    /// With the source `replica`: when that was saved, in seconds since 1970.
    #[serde(default)]
    pub as_of: Option<u64>,
    /// The nodes that have it attached.
    pub primaries: Vec<PrimaryStatus>,
    /// Where it is meant to be attached and is not, also if the node is dead and its primary is in
    /// the view still; or where it is attached, and has not the device or export yet that it is
    /// meant to have.
    #[serde(default)]
    pub wanted_on: Vec<WantedStatus>,
    /// The mirrors, in stripe order.
    pub mirrors: Vec<MirrorStatus>,
    /// The last verify since it was attached.
    pub verify: Option<Verify>,
    /// Which hosts are registered with it, and who has reserved it; `null` if nobody is.
    #[serde(default)]
    pub reservation: Option<ReservationStatus>,
    /// Ranges that a replica could not read since it was attached, and that were rewritten there.
    pub rewritten: Option<u64>,
    /// Requests of clients that the node where it is attached, or was last, answered with an error
    /// since it was attached there.
    #[serde(default)]
    pub failed: Vec<FailedRequests>,
    /// The same of earlier uses of the volume, there or on the node that is asked, since the start
    /// of its daemon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_before: Vec<FailedRequests>,
    /// Devices on the node that is asked from which the volume was taken away, and that somebody
    /// has mounted or open there: whoever uses them gets errors, until they are unmounted and
    /// closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead_devices: Vec<String>,
    /// Its exports.
    pub exports: Vec<Export>,
    /// What happened lately, oldest first; at most 64.
    pub events: Vec<VolumeEvent>,
}

impl VolumeStatus {
    /// Whether every replica is in-sync and answers, of volumes of which that is known. Whether
    /// spares answer does not matter: the data is all there without them.
    #[must_use]
    pub fn is_in_sync(&self) -> bool {
        match self.health {
            VolumeHealth::InSync => true,
            VolumeHealth::Degraded => self.lacks_only_spares,
            VolumeHealth::Rebuilding | VolumeHealth::Unknown | VolumeHealth::Unreachable => false,
        }
    }
}

/// Where a status comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StatusSource {
    /// The primary: all fields are present.
    Primary,
    /// The coordinator's newest view: connections and rebuild progress are not known.
    Coordinator,
    /// What a replica on the node that was asked adopted last: nobody else answers, and anything
    /// may have changed since `as_of`.
    Replica,
}

/// What requests wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Suspended {
    /// What the requests wait for.
    pub waits_for: WaitsFor,
    /// The mirror without an in-sync replica, if that is it.
    pub mirror: Option<usize>,
    /// For how many seconds already for this, whatever they waited for before.
    pub seconds: u64,
    /// Since when for this, in seconds since 1970; `null` from software that does not say.
    #[serde(default)]
    pub since: Option<u64>,
    /// After how many seconds in all requests fail; `null` if they wait for as long as it takes.
    pub limit_seconds: Option<u64>,
    /// With `replica`: in how many seconds all requests fail, 0 if they do already. They may have
    /// waited for something else before, which counts.
    #[serde(default)]
    pub fails_in: Option<u64>,
    /// The reason, as a sentence.
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
    /// Its intent slot; `null`: none yet.
    #[serde(default)]
    pub slot: Option<u8>,
    /// Whether that node has answered, if the node that reports this status has asked it for its
    /// own; else whether it is alive, or not yet known to be dead.
    pub alive: bool,
    /// Whether it is the node that answers.
    pub here: bool,
    /// The block device there, if there is one.
    pub device: Option<String>,
    /// How the device is made: `ublk` or `loop` (over FUSE).
    pub device_kind: Option<String>,
    /// Requests of clients that are not answered.
    pub requests: Option<usize>,
    /// Whether writes were acknowledged that no flush covers yet.
    pub unflushed: Option<bool>,
}

/// A node on which a volume is meant to be attached and is not: it attaches it by itself as soon as
/// it may. If it is attached there, it lacks its device or its export, and the node tries to make
/// that until it succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WantedStatus {
    /// The node.
    pub node: NodeRef,
    /// Whether that node is alive; `null`: not known.
    pub alive: Option<bool>,
    /// Whether it is to have a block device there, and has none.
    pub device: bool,
    /// Whether it is to be exported by NBD there, and is not.
    pub nbd: bool,
    /// Whether it is to be exported by NVMe over TCP there, and is not.
    #[serde(default)]
    pub nvme: bool,
    /// How it is to be exported there, and is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<WantedExport>,
    /// Why it is not attached or shown there yet, if that node has said so.
    pub why: Option<String>,
}

/// An export that is not there yet, or not again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WantedExport {
    /// `nbd` or `nvme`.
    pub kind: String,
    /// Whether other machines will reach it.
    pub tcp: bool,
    /// Whether writes are to be refused.
    pub read_only: bool,
}

/// One mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MirrorStatus {
    /// Index in the stripe.
    pub index: usize,
    /// One character a replica: `U` in-sync, `R` rebuilding, `_` stale, `F` faulty, `S` spare;
    /// as in `[UU_]`. Behind them `-` for each copy that was lost.
    pub summary: String,
    /// The replicas, in the view's order.
    pub replicas: Vec<ReplicaStatus>,
    /// Copies that left with a node that was removed from the cluster, and that no other replica
    /// has replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostCopy>,
    /// If copies were lost: how many nodes of the cluster have no replica of this mirror, as far as
    /// the node that tells the status knows. New copies may go there, where there are disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_nodes: Option<usize>,
}

impl MirrorStatus {
    /// Whether an in-sync replica answers, or may: others can copy from it.
    #[must_use]
    pub fn has_source(&self) -> bool {
        let is_source = |replica: &ReplicaStatus| {
            replica.state == ReplicaState::InSync && replica.reach != ReplicaReach::Unreachable
        };
        self.replicas.iter().any(is_source)
    }
}

/// A copy that left a mirror with its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostCopy {
    /// Name of the node, which was removed from the cluster.
    pub node: String,
    /// When the node was removed, in seconds since 1970.
    pub at: u64,
}

/// The state of a replica in its mirror.
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
    /// Its data belong to another history, which the view does not continue.
    OtherHistory,
    /// Its source failed a write that it has itself.
    SourceFailed,
    /// Its writes took far longer than those of the other replicas.
    Lagging,
    /// The volume was put together from its disks, and it has not adopted that yet.
    Unconfirmed,
    /// It is larger than the volume, which had grown on a branch that was not kept.
    TooLarge,
    /// A stale clone of its disk was put back.
    StaleClone,
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
    /// Its state in its mirror.
    pub state: ReplicaState,
    /// Its role in its mirror.
    #[serde(default)]
    pub role: ReplicaRole,
    /// The replica that it replaces or stands in for, by its identity.
    #[serde(default)]
    pub instead_of: Option<String>,
    /// Whether it answers.
    #[serde(default)]
    pub reach: ReplicaReach,
    /// Why it is not in-sync.
    pub cause: Option<ReplicaCause>,
    /// The same as a sentence, with what to do if something has to be done.
    pub reason: Option<String>,
    /// Why its node does not serve it, if that node has said so.
    #[serde(default)]
    pub unserved: Option<String>,
    /// Whether it said that the replica does not come back by itself: its file is gone, or its disk
    /// is bad.
    #[serde(default)]
    pub lost: bool,
    /// Whether its disk can't be written, whatever else is wrong with it (`reach`).
    #[serde(default)]
    pub unwritable: bool,
    /// When its disk has last failed a request that no other replica could answer, in seconds since
    /// 1970; until a whole verify that began later finds nothing damaged or unreadable.
    #[serde(default)]
    pub disk_failed: Option<u64>,
    /// What verifies have found wrong of it since it became in-sync, where not all was repaired.
    #[serde(default)]
    pub found_wrong: Option<FoundWrong>,
    /// Whether the primary has a session with it.
    pub connected: Option<bool>,
    /// Operations that it has not answered.
    pub outstanding: Option<usize>,
    /// Age of the oldest of them, in milliseconds.
    pub oldest_ms: Option<u64>,
    /// In how many seconds the primary tries to reach it again, if it has left its mirror and
    /// returns by itself.
    #[serde(default)]
    pub retry_seconds: Option<u64>,
    /// How often in a row it has left its mirror within a minute of its return, if it is not tried
    /// before that time because of this. Three times or more.
    #[serde(default)]
    pub left_again: Option<u32>,
    /// The progress of its rebuild.
    pub rebuild: Option<Rebuild>,
    /// Reads that it has failed since it joined the attached volume: its disk could not read, or
    /// the data contradicted their checksum. Each was answered by another replica that has them,
    /// and what this one can't read is rewritten from there. What a verify finds is not counted
    /// here.
    #[serde(default)]
    pub failed_reads: Option<u32>,
}

impl ReplicaStatus {
    /// Its node and disk, as commands take them: `n1:fast`. Of a disk whose name is not known, the
    /// node alone.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.disk {
            Some(disk) => format!("{}:{disk}", self.node.name),
            None => self.node.name.clone(),
        }
    }
}

/// Whether a replica answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaReach {
    /// Nobody has said, such as right after the coordinator's start.
    #[default]
    Unknown,
    /// It answers, or its node does.
    Answers,
    /// The volume counts on it, and it does not answer.
    Unreachable,
    /// It answers, and is gone when its node's daemon ends: its file was deleted, or its disk moved
    /// or unmounted.
    FileGone,
    /// It answers, and can't be written: the file system of its disk is read-only.
    ReadOnly,
    /// The volume does not count on it: it is stale, faulty or a spare.
    NotNeeded,
}

/// The progress of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rebuild {
    /// Bytes of data that are copied; what was never written, or is trimmed, is not counted.
    pub done: u64,
    /// Bytes of data to be copied in all; 0 while `counting`.
    pub total: u64,
    /// Whether it is still counted how much there is to copy. What is copied meanwhile is `copied`.
    #[serde(default)]
    pub counting: bool,
    /// Bytes that were sent by the source.
    pub copied: u64,
    /// Bytes a second, over the last ten seconds or so; 0 while `measuring`.
    pub rate: u64,
    /// Whether it has not copied for long enough to have a rate.
    #[serde(default)]
    pub measuring: bool,
    /// Seconds until it is done at this rate, or at the volume's limit; `null` while that cannot be
    /// said.
    pub eta_seconds: Option<u64>,
    /// The replica from which it copies.
    pub source: Option<String>,
    /// The node of that replica.
    pub source_node: Option<NodeRef>,
    /// What it waits for, as a sentence; `null` if it progresses.
    pub waits_for: Option<String>,
}

/// Requests of one kind that failed for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedRequests {
    /// `read`, `write`, `compare-and-write`, `zero`, `flush` or `map`.
    pub kind: String,
    /// `no-coordinator`, `no-data`, `medium`, `no-space`, `fenced`, `lost-writes`, `detached`,
    /// `reserved` or `invalid`.
    pub cause: String,
    /// The same in a sentence, with what to do.
    pub why: String,
    /// The number of requests.
    pub count: u64,
    /// When the first one failed, in seconds since 1970.
    pub first: u64,
    /// When the last one failed, in seconds since 1970.
    pub last: u64,
}

/// Something that happened to a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeEvent {
    /// When it happened, in seconds since 1970.
    pub at: u64,
    /// What happened, as a sentence.
    pub message: String,
}

//! The coordinator: keeps the cluster's nodes, its volumes and their views.
//!
//! Small on purpose: read, compare-and-swap, watch (a revision that heartbeats bring), expire. The
//! data path asks it only when a view has to change. One implementation so far: a crash-safe
//! local database on one node ([`embedded`]), which the others reach over control connections
//! ([`remote`]).

use std::future::Future;
use std::pin::Pin;

use evenkeel_core::{NodeId, PrimaryRecord, View};
use evenkeel_format::{decode_view, encode_view};
use serde::{Deserialize, Serialize};

use crate::api::types::NoData;
use crate::start::{Lineage, StartId};

pub mod embedded;
pub mod handle;
pub mod remote;
pub mod starts;
pub mod wanted;

pub use embedded::{Embedded, RemovedNode};
pub use handle::Handle;
pub use wanted::{Shown, WantedNbd, WantedOn, Wish};

/// What a coordinator is: something that answers these requests, each as a whole or not at all.
pub trait Coordinator: Send + Sync {
    /// Answers a request. What it answers as done is durable.
    fn call(&self, request: Request) -> CallFuture<'_>;
}

/// The answer to come.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Answer, CallError>> + Send + 'a>>;

/// Why a coordinator did not answer. Whether a change was made is unknown then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No answer.
    #[error("{0}")]
    Unreachable(String),
    /// The answer was no.
    #[error("{0}")]
    Refused(String),
}

/// A node as the coordinator stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its identity.
    pub id: String,
    /// Its name, unique in the cluster.
    pub name: String,
    /// Where peers reach it.
    pub addresses: Vec<String>,
    /// Version of its software.
    pub software: String,
    /// The incarnation of its daemon's present start.
    #[serde(default)]
    pub incarnation: u64,
    /// The counter of that start; 0 of software that does not count them.
    #[serde(default)]
    pub counter: u64,
}

/// A start of a node's daemon that registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The node.
    #[serde(flatten)]
    pub node: NodeRecord,
    /// The starts that this one follows.
    #[serde(flatten)]
    pub lineage: Lineage,
    /// Whether an operator has said that this one counts, should there be copies of it.
    #[serde(default)]
    pub is_chosen: bool,
}

impl From<NodeRecord> for Registration {
    /// A start that follows none.
    fn from(node: NodeRecord) -> Self {
        Self { node, lineage: Lineage::default(), is_chosen: false }
    }
}

/// Who sends a request from another node: what the hello of its connection said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The node.
    pub node: NodeId,
    /// The start of its daemon; `None` of software that does not count them.
    pub start: Option<StartId>,
    /// The address that it connected from.
    pub at: String,
}

/// A node with what the coordinator has heard of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLife {
    /// The node.
    pub node: NodeRecord,
    /// Whether it was heard of within the expiry time.
    pub alive: bool,
    /// Whether it is not known to be dead: alive, or it was not silent for the expiry time yet while a
    /// coordinator listened, or the coordinator has just started.
    #[serde(default)]
    pub may_live: bool,
    /// When, in seconds since 1970; `None`: not since the coordinator's start.
    pub last_heard: Option<u64>,
    /// Whether it serves the coordinator.
    pub coordinator: bool,
}

/// What is stored of a volume besides its view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// Its identity.
    pub id: String,
    /// Its name, unique in the cluster.
    pub name: String,
    /// What to do while no in-sync replica of a mirror answers.
    pub no_data: NoData,
    /// Where its replicas were placed, also those that have been removed since.
    pub replicas: Vec<PlacedReplica>,
    /// Whether it was stopped: nodes keep its replicas closed, and it cannot be attached.
    #[serde(default)]
    pub stopped: bool,
    /// Whether new replicas of it keep checksums of their blocks.
    #[serde(default)]
    pub checksums: bool,
    /// The node that attached it last to use it. `None`: none has, or only under software that did not
    /// note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_on: Option<String>,
    /// Where it is meant to be attached.
    #[serde(default, skip_serializing_if = "WantedOn::is_empty")]
    pub wanted_on: WantedOn,
    /// The verdict of its last verify, as the API tells it. Only who shows it reads it: another version of
    /// the software may tell it otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<serde_json::Value>,
}

/// Where a replica was placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedReplica {
    /// Its identity.
    pub id: String,
    /// Index of its mirror.
    pub mirror: usize,
    /// Its node's identity.
    pub node: String,
    /// Name of its disk.
    pub disk: String,
    /// Whether it was taken out of the volume: its space may be given back.
    #[serde(default)]
    pub removed: bool,
    /// Who makes it, until a view holds it. When that life of a daemon ends before, it is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<Maker>,
}

/// A life of a node's daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maker {
    /// The node's identity.
    pub node: String,
    /// The life of its daemon.
    pub incarnation: u64,
}

/// A view in the form of the `format` crate, as hexadecimal text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ViewText(String);

impl ViewText {
    /// Encodes a view.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn encode(view: &View) -> Result<Self, CallError> {
        let bytes = encode_view(view).map_err(|e| CallError::Refused(e.to_string()))?;
        Ok(Self(to_hex(&bytes)))
    }

    /// Decodes it.
    ///
    /// # Errors
    /// If it is not a view that this software reads.
    pub fn decode(&self) -> Result<View, CallError> {
        let bytes =
            from_hex(&self.0).ok_or_else(|| CallError::Refused("not hexadecimal".into()))?;
        decode_view(&bytes).map_err(|e| CallError::Refused(e.to_string()))
    }
}

/// Bytes as hexadecimal text.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|b| [b >> 4, b & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Hexadecimal text as bytes.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: &u8| char::from(*b).to_digit(16);
    let pair = |p: &[u8]| Some((digit(p.first()?)? << 4 | digit(p.get(1)?)?) as u8);
    text.as_bytes().chunks(2).map(pair).collect()
}

/// A volume with its newest view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredVolume {
    /// The volume.
    pub record: VolumeRecord,
    /// Its newest view.
    pub view: ViewText,
}

/// What a coordinator can be asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Make a node a member, or renew its name and addresses: by a start of its daemon that becomes
    /// the node's present one. Answer: `Registered`, `NameInUse`, `Waits`, `Copy`, `Superseded`.
    Register(Registration),
    /// The node is alive. Answer: `Heard`.
    Heartbeat {
        /// Which.
        node: String,
    },
    /// A start of a node's daemon ends, and will say nothing more. Answer: `Done`.
    Goodbye {
        /// The node.
        node: String,
        /// The start's incarnation.
        incarnation: u64,
    },
    /// Give the cluster another name. Answer: `Done`.
    Rename {
        /// That.
        name: String,
    },
    /// Strike a node off that no volume uses, for good. Answer: `Done`, `NodeInUse`,
    /// `NotRegistered` if it never was a member.
    RemoveNode {
        /// Its identity.
        node: String,
    },
    /// Answer: `RemovedNodes`.
    RemovedNodes,
    /// Answer: `Nodes`.
    Nodes,
    /// Answer: `Volumes`.
    Volumes,
    /// Read a volume by its name or identity. Answer: `Volume`, `NoVolume`.
    Read {
        /// Name or identity.
        volume: String,
    },
    /// A volume is about to be made: its replicas are, before it is itself. Answer: `Done`,
    /// `NoVolume` if it was given up already.
    Draft {
        /// The node that makes it.
        node: String,
        /// The life of its daemon. When that ends, the draft is given up.
        incarnation: u64,
        /// The volume's identity.
        volume: String,
    },
    /// Make a volume of a draft. Answer: `Done`, `NameInUse`, `NoVolume` if the draft was given up.
    Create(Box<StoredVolume>),
    /// Give up a draft: its replicas may be deleted. A volume stays. Answer: `Done`.
    GiveUp {
        /// The volume's identity.
        volume: String,
    },
    /// Commit a view if its parent is the newest. Answer: `Done`, `Newest`, `NoVolume`,
    /// `NotExpired`, `GivenUp`.
    Swap {
        /// Who asks.
        node: String,
        /// The view.
        view: ViewText,
        /// Whether a primary that it adds only has the replicas adopt it, and is not for use.
        #[serde(default)]
        in_passing: bool,
        /// Where the volume is meant to be attached after that. `None`: older software asks, which does
        /// not say.
        #[serde(default)]
        wish: Option<Wish>,
    },
    /// Note how a volume is meant to be shown on a node that has it attached, or that it is not meant to
    /// be attached there any more. Answer: `Done`, `NoVolume`.
    Want {
        /// The volume's identity.
        volume: String,
        /// The node's.
        node: String,
        /// How; `None`: it is not meant to be attached there.
        shown: Option<Shown>,
    },
    /// A replica is about to be made, to join a volume. Answer: `Done`, `NoVolume`, `PlacedAlready`.
    Place {
        /// The volume's identity.
        volume: String,
        /// The replica, with its maker.
        replica: PlacedReplica,
        /// Whether it may be on the same disk as another one of its mirror.
        same_disk: bool,
        /// Whether it is refused while another one is being made for the same mirror.
        #[serde(default)]
        alone: bool,
    },
    /// Note that a replica was taken out of its volume, or has not come to join it. One that the
    /// newest view holds stays. Answer: `Done`, `NoVolume`.
    Forget {
        /// The volume's identity.
        volume: String,
        /// The replica.
        replica: String,
    },
    /// Keep the verdict of a volume's verify in the place of the one before. Answer: `Done`, `NoVolume`.
    Verified {
        /// The volume's identity.
        volume: String,
        /// The verdict.
        verdict: serde_json::Value,
    },
    /// Stop a volume that is attached nowhere, or let it be used again. Answer: `Done`, `Newest` if
    /// it is attached, `NoVolume`.
    Stop {
        /// The volume's identity.
        volume: String,
        /// Whether it is to be stopped.
        stopped: bool,
    },
    /// Take a volume over that was put together from its disks. Answer: `Done`, `NameInUse`,
    /// `Newest` if another view is known here than the one that was expected, or it is attached,
    /// `GivenUp` if one of its replicas is being deleted.
    Assemble {
        /// The volume, with the first view of a new era.
        volume: Box<StoredVolume>,
        /// The generation known here that it replaces; `None`: the volume is not known here.
        replaces: Option<u64>,
        /// Who asks. It says that the volume is not attached there.
        node: String,
    },
    /// Delete a volume that is not attached. Answer: `Done`, `Newest`, `NoVolume`.
    Delete {
        /// Who asks. It says that the volume is not attached there.
        node: String,
        /// The volume's identity.
        volume: String,
        /// Its generation; with another one it is not deleted.
        generation: u64,
        /// Also if it was attached on a node that is dead since: nobody can tell whether it serves
        /// there still.
        #[serde(default)]
        force: bool,
    },
    /// Give a volume another name that is attached nowhere, and is not meant to be. Answer: `Done`,
    /// `NameInUse`, `UsedOn`, `NoVolume`.
    RenameVolume {
        /// The volume's identity.
        volume: String,
        /// That.
        name: String,
    },
    /// What is to become of replicas that a node found on its disks. Answer: `Fates`.
    Fates(Vec<FoundReplica>),
    /// A replica is about to be deleted on its disk. Answer: `Done`: no volume has it, and none takes it
    /// up until that is `Discarded` or this life of the node's daemon has ended; else `Fates` with what
    /// is to become of it.
    Discard {
        /// Who deletes it.
        by: Maker,
        /// The replica.
        replica: FoundReplica,
    },
    /// A replica was deleted, or could not be. Answer: `Done`.
    Discarded(FoundReplica),
}

/// A replica that a node found on a disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FoundReplica {
    /// The volume's identity.
    pub volume: String,
    /// The replica's.
    pub replica: String,
}

/// What is to become of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Its volume has it, or is about to be made.
    Belongs,
    /// Its volume has it and is stopped: the replica is kept closed.
    Stopped,
    /// Its volume was deleted, or it was taken out: its space may be given back.
    Deleted,
    /// Its volume was given up before it was made: its space may be given back if it has never
    /// been used. One that was used shows that this coordinator was restored from a backup.
    NeverMade,
    /// Nothing is known of it: it is left alone.
    Unknown,
}

/// What a coordinator answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is done, durably.
    Done,
    /// The node is a member.
    Registered {
        /// The coordinator's identity.
        coordinator: String,
        /// The cluster's name.
        cluster: String,
    },
    /// A heartbeat was heard.
    Heard {
        /// Counts the changes of nodes and volumes since the coordinator's start.
        revision: u64,
        /// The cluster's name.
        #[serde(default)]
        cluster: Option<String>,
        /// Where a copy of the node spoke within the last minute.
        #[serde(default)]
        other: Option<String>,
    },
    /// The start is not admitted yet: the one before it may live.
    Waits {
        /// So many seconds, if nothing is heard of that one meanwhile.
        seconds: u64,
    },
    /// The start is not admitted: the node's present one lives, so one of the two has a copy of the
    /// other's state directory.
    Copy {
        /// Where the present one speaks.
        at: String,
    },
    /// A later start has taken the place of this one, for good.
    Superseded {
        /// Where that speaks.
        at: String,
    },
    /// Nothing was done: this is not the present start of its node. It has to register.
    NotRegistered,
    /// The node that asks, or one that the request names, was removed from the cluster.
    NodeRemoved {
        /// Which, and when: a sentence.
        why: String,
    },
    /// The node is not removed: something is there still.
    NodeInUse {
        /// What, in a sentence.
        why: String,
    },
    /// Nodes that were removed, the newest last.
    RemovedNodes(Vec<RemovedNode>),
    /// All nodes.
    Nodes(Vec<NodeLife>),
    /// All volumes, by name.
    Volumes(Vec<StoredVolume>),
    /// A volume.
    Volume(Box<StoredVolume>),
    /// The newest view: the swap was refused.
    Newest(ViewText),
    /// The volume is attached on these nodes, or meant to be.
    UsedOn {
        /// Their identities.
        nodes: Vec<String>,
    },
    /// There is no such volume.
    NoVolume,
    /// The name belongs to another node or volume.
    NameInUse,
    /// The view drops a primary on another node that is alive, or not yet known to be dead.
    NotExpired {
        /// That node.
        node: String,
    },
    /// The view adds a replica that was given up, or is being deleted.
    GivenUp,
    /// The volume has a replica of this mirror on this disk already, or one is being made for this mirror
    /// and the new one was to be the only one: its identity.
    PlacedAlready {
        /// That replica.
        replica: String,
    },
    /// In the order of the question.
    Fates(Vec<Fate>),
}

/// The nodes whose primaries `next` drops, other than `by` itself: a node may always replace an
/// earlier primary of its own, because its present start was admitted only when the one before had ended or
/// had been silent for the expiry time ([`starts`]). Of a shared volume
/// none: its primaries are told apart from dead ones by its replicas, which answer them.
pub fn dropped<'a>(
    next: &'a View,
    newest: &'a View,
    by: NodeId,
) -> impl Iterator<Item = NodeId> + 'a {
    let is_gone = |primary: &&PrimaryRecord| !next.has_primary(primary.id) && !newest.is_shared();
    let gone = newest.primaries.iter().filter(is_gone);
    gone.map(|primary| primary.id.node).filter(move |node| *node != by)
}

/// Seconds since 1970-01-01 UTC.
#[must_use]
pub fn unix_seconds() -> u64 {
    since_epoch().as_secs()
}

fn since_epoch() -> std::time::Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// The moment that lies so long back, in seconds since 1970; `None`: before that. The same moment gives
/// the same number whenever it is asked for, as far as the clock is not set.
#[must_use]
pub fn unix_seconds_ago(age: std::time::Duration) -> Option<u64> {
    const HALF: std::time::Duration = std::time::Duration::from_millis(500);
    since_epoch().checked_sub(age).map(|moment| (moment + HALF).as_secs())
}

//! What a coordinator stores of nodes and volumes, and returns.

use evenkeel_core::NodeId;
use evenkeel_wire::hello::Start as StartId;
use serde::{Deserialize, Serialize};

use crate::ViewText;
use crate::names;
use crate::wanted::WantedOn;

/// A node as the coordinator stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its identity.
    pub id: String,
    /// Its name, unique in the cluster.
    #[serde(deserialize_with = "names::read")]
    pub name: String,
    /// The addresses at which peers connect to it: `HOST:PORT` or `unix:PATH`.
    #[serde(deserialize_with = "names::read_addresses")]
    pub addresses: Vec<String>,
    /// Version of its software.
    #[serde(deserialize_with = "names::read_software")]
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
    /// Its name, as its certificate says if it has one.
    pub name: String,
    /// The start of its daemon; `None` of software that does not count them.
    pub start: Option<StartId>,
    /// The address that it connected from.
    pub at: String,
}

/// A node, and when the coordinator last received something from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLiveness {
    /// The node.
    pub node: NodeRecord,
    /// Whether the coordinator has received something from it within the expiry time.
    pub alive: bool,
    /// Whether it is not known to be dead: alive, or it was not silent for the expiry time yet
    /// while a coordinator listened, or the coordinator has just started, or stood still.
    #[serde(default)]
    pub may_live: bool,
    /// When the coordinator last heard from it, in seconds since 1970; `None`: not since its start.
    // What nodes say to each other keeps its names.
    #[serde(rename = "last_heard")]
    pub last_seen: Option<u64>,
    /// Whether it serves the coordinator.
    pub coordinator: bool,
}

/// What is stored of a volume besides its view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// Its identity.
    pub id: String,
    /// Its name, unique in the cluster.
    #[serde(deserialize_with = "names::read")]
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
    /// The node that attached it last to use it. `None`: none has, or only under software that did
    /// not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_on: Option<String>,
    /// The nodes on which it is meant to be attached.
    #[serde(default, skip_serializing_if = "WantedOn::is_empty")]
    pub wanted_on: WantedOn,
    /// The result of its last verify, as JSON of the API. The coordinator does not read it: another
    /// version of the software may write it in another form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<serde_json::Value>,
    /// Another one with each change: what a request was decided upon. It is the time in seconds
    /// since 1970, or one more than before, so that none comes twice after the volume was deleted
    /// or an older store put back. 0: only older software has written it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub revision: u64,
    /// Copies that left it with a node that was removed from the cluster, the oldest first, until
    /// as many others have joined, or somebody has said that the volume is to have fewer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostCopy>,
}

/// A copy of a volume that nobody took out for its own sake: its node was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostCopy {
    /// The replica's identity.
    #[serde(deserialize_with = "names::read_identity")]
    pub id: String,
    /// Index of its mirror.
    pub mirror: usize,
    /// Its node's name.
    #[serde(deserialize_with = "names::read")]
    pub node: String,
    /// When it was taken out, in seconds since 1970.
    pub at: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Where a replica was placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedReplica {
    /// Its identity.
    #[serde(deserialize_with = "names::read_identity")]
    pub id: String,
    /// Index of its mirror.
    pub mirror: usize,
    /// Its node's identity.
    #[serde(deserialize_with = "names::read_identity")]
    pub node: String,
    /// Name of its disk.
    pub disk: String,
    /// Whether it was taken out of the volume, or given up before a view held it: its space may be
    /// given back.
    #[serde(default)]
    pub removed: bool,
    /// Who makes it, until a view holds it. When that incarnation of a daemon ends before, it is
    /// given up, and this stays: such a replica has never been in use, as far as this coordinator
    /// knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<Maker>,
}

impl PlacedReplica {
    /// Whether it was given up before a view held it.
    pub(crate) const fn was_given_up(&self) -> bool {
        self.removed && self.maker.is_some()
    }
}

/// An incarnation of a node's daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maker {
    /// The node's identity.
    pub node: String,
    /// The incarnation of its daemon.
    pub incarnation: u64,
}

/// A volume with its newest view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredVolume {
    /// The volume.
    pub record: VolumeRecord,
    /// Its newest view.
    pub view: ViewText,
}

/// What a start says of those before it when it registers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The incarnations of the starts that it follows, newest first, back to the last one that is
    /// known to have been admitted. At most 256.
    #[serde(default, deserialize_with = "names::read_before")]
    pub before: Vec<u64>,
    /// Whether each of these has provably ended.
    #[serde(default)]
    pub before_ended: bool,
}

/// What to do while no in-sync replica of a mirror answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

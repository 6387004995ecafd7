//! Nodes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node, by its two names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeRef {
    /// Its identity.
    pub id: String,
    /// Its name; the identity if the name is not known.
    pub name: String,
}

/// Answer to `GET /v1/node` and `POST /v1/node/join`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NodeAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// This node.
    pub node: NodeStatus,
}

/// This node.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The cluster's name.
    pub cluster: String,
    /// Version of the software.
    pub software: String,
    /// What the daemon knows of requests that were added to since version 1 of the API, as a
    /// number that grows: 1 knows `mount` of attach, and `failed_mount` of detach. 0: it is older.
    #[serde(default)]
    pub revision: u32,
    /// Process number of the daemon.
    pub pid: u32,
    /// Since when it runs.
    pub started: u64,
    /// The addresses at which peers connect to it: `HOST:PORT` or `unix:PATH`.
    pub addresses: Vec<String>,
    /// How peers are authenticated.
    pub authentication: Authentication,
    /// The coordinator, as this node sees it.
    pub coordinator: CoordinatorStatus,
    /// Threads of the data path.
    pub workers: usize,
    /// Bounds of the memory used.
    pub memory: MemoryStatus,
    /// Disks of this node.
    pub disks: usize,
    /// Replicas on them.
    pub replicas: usize,
    /// Volumes attached here, by name.
    pub attached: Vec<String>,
    /// What an operator should look at, a sentence each.
    pub warnings: Vec<String>,
    /// When each of `warnings` was seen last, in seconds since 1970; `null`: it is so now.
    #[serde(default)]
    pub warned_at: Vec<Option<u64>>,
}

/// How peers prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Authentication {
    /// Not at all: it serves them on unix sockets only.
    None,
    /// By certificates, on encrypted connections.
    MutualTls,
}

/// The coordinator, as one node sees it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CoordinatorStatus {
    /// Its identity, once known.
    pub id: Option<String>,
    /// Whether this node serves it.
    pub here: bool,
    /// The address of the coordinator's node; `null` before this node has joined.
    pub address: Option<String>,
    /// Whether it answers.
    pub reachable: bool,
    /// Since when it has not answered, in seconds since 1970.
    pub unreachable_since: Option<u64>,
    /// What that means: which operations work and which wait.
    pub message: String,
}

/// Bounds of a node's memory, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryStatus {
    /// Most buffers that one volume (its primary and its replicas on this node) may hold.
    pub per_volume: u64,
    /// Most buffers on all workers together.
    pub buffers: u64,
    /// Buffers held at present.
    pub buffers_used: u64,
}

/// Makes this node a member of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// Where the coordinator's node listens for peers: `HOST:PORT` or `unix:PATH`.
    pub address: String,
    /// A token of that node's authority, for a node that has no certificate yet or has lost its
    /// key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Makes a token by which nodes get their first certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InviteRequest {
    /// How many nodes may use it; 1 if not given.
    #[serde(default)]
    pub count: Option<u32>,
    /// For how many seconds it is valid; an hour if not given.
    #[serde(default)]
    pub seconds: Option<u32>,
    /// The names of nodes that may use it; `*` stands for any characters. All if not given.
    #[serde(default)]
    pub names: Option<String>,
    /// The only node that may use it, which is a member already: name or identity.
    #[serde(default)]
    pub member: Option<String>,
}

/// Answer to `POST /v1/cluster/invite`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InviteAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The token. Whoever has it may join.
    pub token: String,
    /// When the token expires, in seconds since 1970.
    pub expires: u64,
    /// How many nodes may use it.
    pub count: u32,
    /// Which names they may have; `*` stands for any characters.
    pub names: String,
    /// The addresses of this node, for `evenkeel node join`.
    pub addresses: Vec<String>,
}

/// Asks for the certificate of a client of exports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificateRequest {
    /// The client's name, as exports name it.
    pub name: String,
    /// Its public key: ECDSA on P-256, as PEM.
    pub public_key: String,
    /// For how many seconds the certificate is valid.
    pub seconds: u64,
}

/// Answer to `POST /v1/cluster/client-certificate`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClientCertificateAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The client's name.
    pub name: String,
    /// Its certificate, as PEM.
    pub certificate: String,
    /// That of the cluster's authority, by which it verifies nodes, as PEM.
    pub authority: String,
    /// Until when the certificate is valid, in seconds since 1970.
    pub expires: u64,
}

/// Gives the cluster another name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameClusterRequest {
    /// The new name: letters, digits, `-`, `_` and `.`, at most 63.
    pub name: String,
}

/// Answer to `GET /v1/nodes`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NodesAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The cluster's name.
    pub cluster: String,
    /// All nodes, by name.
    pub nodes: Vec<ClusterNode>,
}

/// A node as the coordinator knows it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClusterNode {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The addresses at which peers connect to it.
    pub addresses: Vec<String>,
    /// Whether it is the node that answers.
    pub here: bool,
    /// Whether it serves the coordinator.
    pub coordinator: bool,
    /// Whether the coordinator has received something from it within the expiry time.
    pub alive: bool,
    /// Whether it may live all the same: the coordinator has not run for the expiry time itself, or
    /// has not heard it for sure since it stood still (was stopped, or starved of CPU).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// Whether it answers the node that tells this; absent: it is that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<bool>,
    /// When the coordinator last received something from it, in seconds since 1970; `null` if not
    /// since the coordinator's own start. After the coordinator stood still, what comes first may
    /// be old, and does not count.
    pub last_seen: Option<u64>,
    /// Version of its software.
    pub software: String,
}

//! What only nodes ask of each other.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_format::Superblock;
use hyper::Method;
use serde::{Deserialize, Serialize};

use crate::api::extract::{Body, Json, Path, Query, Refusal};
use crate::config::Address;
use crate::coordinator::{Answer, Caller, NodeLiveness, Request, from_hex};
use crate::disks::{NewReplica, Unserved};
use crate::node::Node;
use crate::volumes::assemble::{PIECE, found, read_piece};
use crate::volumes::{hearing, local, sweep};

/// Makes a replica on a disk of this node.
pub const REPLICAS: &str = "/peer/v1/replicas";
/// A replica of this node.
pub const REPLICA: &str = "/peer/v1/volumes/{volume}/replicas/{replica}";

/// The replicas on this node's disks, and what is attached here.
pub const FOUND: &str = "/peer/v1/found";
/// Makes this node ask the coordinator at once what is to become of its replicas.
pub const SWEEP: &str = "/peer/v1/sweep";
/// Which of some replicas this node does not serve.
pub const CONDITIONS: &str = "/peer/v1/replicas/conditions";
/// Data of a replica of this node.
pub const READ: &str = "/peer/v1/read";

/// What a node has.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerFound {
    /// Its replicas: the superblock that counts in the form of the `format` crate, as hexadecimal
    /// text without the zeroes at its end, the disk's name, and the file or device.
    pub replicas: Vec<(String, String, PathBuf)>,
    /// The identities of the volumes that are attached there.
    pub attached: Vec<String>,
}

/// Of which volume a node is asked what it has; older software tells of all.
#[derive(Debug, Deserialize)]
pub struct FoundQuery {
    volume: Option<String>,
}

/// Replicas that are believed to be on a node.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerReplicas {
    /// Their identities.
    pub replicas: Vec<String>,
}

/// Of a replica that is served, and gone when the daemon ends. Older software takes it for one that
/// is not served.
const FILE_GONE: &str = "file-gone";

/// A replica that its node does not serve, or not for long.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerReplica {
    replica: String,
    /// `gone`, `away`, `file-gone`, or what a newer node has for a replica that needs somebody's
    /// help.
    is: String,
    why: String,
}

impl PeerReplica {
    /// What another node is told.
    pub fn new(replica: ReplicaId, unserved: &Unserved) -> Self {
        let is = match unserved {
            Unserved::Gone(_) => "gone",
            // An older node takes a word that it does not know for the worst.
            Unserved::Away(_) | Unserved::Stopped(_) => "away",
            Unserved::Unusable(_) => "unusable",
        };
        Self { replica: replica.to_string(), is: is.into(), why: unserved.to_string() }
    }

    /// The same of one that is served, and gone when the daemon ends.
    pub fn file_gone(replica: ReplicaId, why: String) -> Self {
        Self { replica: replica.to_string(), is: FILE_GONE.into(), why }
    }

    /// Why it is gone when its node's daemon ends, if that is so.
    pub fn told_gone(&self) -> Option<(ReplicaId, String)> {
        let told = (self.is == FILE_GONE).then(|| self.why.clone())?;
        Some((self.replica.parse().ok()?, told))
    }

    /// What another node has told. `None`: it is served, or no replica.
    pub fn unserved(&self) -> Option<(ReplicaId, Unserved)> {
        let why = self.why.clone();
        let unserved = match self.is.as_str() {
            "gone" => Unserved::Gone(why),
            "away" => Unserved::Away(why),
            FILE_GONE => return None,
            _ => Unserved::Unusable(why),
        };
        Some((self.replica.parse().ok()?, unserved))
    }
}

/// A part of a replica's data.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadData {
    replica: String,
    offset: u64,
    length: u64,
}

/// Room for more data of a replica of this node.
pub const MAKE_ROOM: &str = "/peer/v1/volumes/{volume}/replicas/{replica}/room";

/// Room to be made.
#[derive(Debug, Serialize, Deserialize)]
pub struct MakeRoom {
    /// For so many bytes of data in all.
    pub length: u64,
    /// The generation of a view in which the replica is an idle spare, if there is one.
    #[serde(default)]
    pub spare_in: Option<u64>,
}

/// A replica to be made.
#[derive(Debug, Serialize, Deserialize)]
pub struct CreateReplica {
    /// Name of the disk.
    pub disk: String,
    /// The first superblock in the form of the `format` crate, as hexadecimal text.
    pub superblock: String,
    /// Whether the disk need not have the space for all of it.
    pub thin: bool,
}

pub async fn coordinator(
    State(node): State<Arc<Node>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<Request>,
) -> Result<Json<Answer>, Refusal> {
    let what = "the coordinator cannot be asked here";
    let Some(embedded) = node.embedded.clone() else {
        let why = format!("node {} does not serve it", node.identity.name);
        let advice = "Ask the node with `here = true` under [coordinator]";
        return Err(ApiError::new(ErrorCode::WrongCluster, what, why, advice).into());
    };
    let answer = embedded.asked(caller, request).await;
    let system = |why: String| {
        ApiError::new(ErrorCode::System, what, why, "See the log of the coordinator's node")
    };
    let answer = answer.map_err(|e| system(e.to_string()))?;
    let answer = answer.map_err(|e| {
        tracing::error!(error = %e, "the coordinator's database");
        system(e.to_string())
    })?;
    Ok(Json(answer))
}

pub async fn create_replica(
    State(node): State<Arc<Node>>,
    Body(request): Body<CreateReplica>,
) -> Result<Json<bool>, Refusal> {
    let superblock = from_hex(&request.superblock).unwrap_or_default();
    let superblock = Superblock::decode(&superblock).map_err(|e| bad(&e.to_string()))?;
    let new = NewReplica { superblock, thin: request.thin };
    local::create_replica(&node, request.disk, new).await?;
    Ok(Json(true))
}

pub async fn make_room(
    State(node): State<Arc<Node>>,
    Path((volume, replica)): Path<(String, String)>,
    Body(request): Body<MakeRoom>,
) -> Result<Json<bool>, Refusal> {
    let volume: VolumeId = volume.parse().map_err(|_| bad("no volume"))?;
    let replica: ReplicaId = replica.parse().map_err(|_| bad("no replica"))?;
    crate::volumes::grow::here(&node, volume, replica, &request).await?;
    Ok(Json(true))
}

pub async fn delete_replica(
    State(node): State<Arc<Node>>,
    Path((volume, replica)): Path<(String, String)>,
) -> Result<Json<bool>, Refusal> {
    let volume: VolumeId = volume.parse().map_err(|_| bad("no volume"))?;
    let replica: ReplicaId = replica.parse().map_err(|_| bad("no replica"))?;
    Ok(Json(local::delete_replica(&node, volume, replica).await?))
}

/// The replicas here, and what is attached.
pub async fn found(
    State(node): State<Arc<Node>>,
    Query(query): Query<FoundQuery>,
) -> Result<Json<PeerFound>, Refusal> {
    let only = query.volume.map(|volume| volume.parse().map_err(|_| bad("no volume")));
    Ok(Json(found::here(&node, only.transpose()?).await?))
}

/// `false`: something that was to be done has not ended yet.
pub async fn sweep(State(node): State<Arc<Node>>) -> Json<bool> {
    Json(sweep::now(&node).await)
}

/// A question: nothing is changed.
pub async fn conditions(
    State(node): State<Arc<Node>>,
    Body(asked): Body<PeerReplicas>,
) -> Json<Vec<PeerReplica>> {
    Json(hearing::here(&node, &asked))
}

pub async fn read(
    State(node): State<Arc<Node>>,
    Body(request): Body<ReadData>,
) -> Result<Vec<u8>, Refusal> {
    let replica: ReplicaId = request.replica.parse().map_err(|_| bad("no replica"))?;
    if request.length > PIECE {
        return Err(bad("too long a piece").into());
    }
    let read = move |node: &Node| {
        let what = format!("replica {replica} cannot be read");
        let Some((path, data)) = node.disks.place_of(replica) else {
            let why = format!("node {} has no such replica", node.identity.name);
            return Err(ApiError::new(ErrorCode::NoSuchReplica, what, why, "Ask its node"));
        };
        let offset = data.checked_add(request.offset).ok_or_else(|| bad("beyond any disk"))?;
        let piece =
            std::fs::File::open(&path).and_then(|file| read_piece(&file, offset, request.length));
        piece.map_err(|e| ApiError::new(ErrorCode::System, what, e.to_string(), "Check its disk"))
    };
    Ok(node.blocking(read).await?)
}

/// Asks another node for a part of a replica's data.
///
/// # Errors
/// If it does not answer, or cannot read it.
pub async fn read_data(
    node: &Node,
    member: &NodeLiveness,
    replica: ReplicaId,
    offset: u64,
    length: u64,
    deadline: Duration,
) -> io::Result<Vec<u8>> {
    let question = ReadData { replica: replica.to_string(), offset, length };
    let question = serde_json::to_vec(&question)?;
    let mut last = io::Error::other("its node's addresses are not known");
    for text in &member.node.addresses {
        let Ok(address) = Address::parse(text) else { continue };
        let body = question.clone().into();
        match node.peers.request(&address, Method::POST, READ, body, deadline).await {
            Ok((status, bytes)) if status.is_success() && bytes.len() as u64 == length => {
                return Ok(bytes.to_vec());
            }
            Ok((status, bytes)) => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(500)]).into_owned();
                last = io::Error::other(format!("node {}: {status}: {text}", member.node.name));
            }
            Err(e) => last = io::Error::other(e.to_string()),
        }
    }
    Err(last)
}

fn bad(why: &str) -> ApiError {
    let advice =
        "The asking node may run other software: compare versions by `evenkeel node status`";
    ApiError::new(ErrorCode::BadRequest, "a peer's request cannot be read", why, advice)
}

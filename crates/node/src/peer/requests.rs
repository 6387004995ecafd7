//! What only nodes ask of each other: the paths, and what is sent there.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_coordinator::{NodeLiveness, from_hex, to_hex};
use evenkeel_core::{CoordinatorId, ReplicaId};
use evenkeel_trust::PublicKey;
use hyper::Method;
use serde::{Deserialize, Serialize};

use super::{Destination, Peers, Wanted};
use crate::disks::{Risk, Unserved};

/// Makes a replica on a disk of this node.
pub const REPLICAS: &str = "/peer/v1/replicas";
/// A replica of this node.
pub const REPLICA: &str = "/peer/v1/volumes/{volume}/replicas/{replica}";
/// The replicas on this node's disks, and what is attached here.
pub const FOUND: &str = "/peer/v1/found";
/// Makes this node ask the coordinator at once what is to become of its replicas.
pub const SWEEP: &str = "/peer/v1/sweep";
/// Makes this node ask the coordinator at once which nodes were removed.
pub const REMOVED: &str = "/peer/v1/removed";
/// Which of some replicas this node does not serve.
pub const CONDITIONS: &str = "/peer/v1/replicas/conditions";
/// Data of a replica of this node.
pub const READ: &str = "/peer/v1/read";
/// Room for more data of a replica of this node.
pub const MAKE_SPACE: &str = "/peer/v1/volumes/{volume}/replicas/{replica}/room";

/// A new certificate of the node that asks: the only thing that one may ask for whose certificate
/// has expired.
pub const CERTIFICATE: &str = "/peer/v1/certificate";

/// What is to be certified.
#[derive(Debug, Serialize, Deserialize)]
pub struct WantedCertificate {
    /// The public key, as hexadecimal text.
    key: String,
}

impl WantedCertificate {
    /// For this key.
    #[must_use]
    pub fn new(key: &PublicKey) -> Self {
        Self { key: to_hex(key.bytes()) }
    }

    /// The key; `None`: it is none.
    #[must_use]
    pub fn key(&self) -> Option<PublicKey> {
        PublicKey::new(&from_hex(&self.key)?)
    }
}

/// A certificate that was made.
#[derive(Debug, Serialize, Deserialize)]
pub struct NewCertificate {
    /// The cluster, as certificates name it.
    cluster: String,
    /// When, in seconds since 1970.
    made: u64,
    /// DER, as hexadecimal text.
    certificate: String,
}

impl NewCertificate {
    /// Of this cluster, made at that time.
    #[must_use]
    pub fn new(cluster: CoordinatorId, made: u64, certificate: &[u8]) -> Self {
        Self { cluster: cluster.to_string(), made, certificate: to_hex(certificate) }
    }

    /// Cluster, time and DER; `None`: there is something else.
    #[must_use]
    pub fn parts(&self) -> Option<(CoordinatorId, u64, Vec<u8>)> {
        Some((self.cluster.parse().ok()?, self.made, from_hex(&self.certificate)?))
    }
}

/// What a node has.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerFound {
    /// Its replicas: the superblock that counts in the form of the `format` crate, as hexadecimal
    /// text without the zeroes at its end, the disk's name, and the file or device.
    pub replicas: Vec<(String, String, PathBuf)>,
    /// The identities of the volumes that are attached there.
    pub attached: Vec<String>,
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
/// The same of one that is served, and can't be written.
const READ_ONLY: &str = "read-only";

/// A replica that its node does not serve, or not for long.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerReplica {
    replica: String,
    /// `gone`, `away`, `file-gone`, `read-only`, or what a newer node has for a replica that needs
    /// somebody's help.
    is: String,
    why: String,
    /// Of one that is `away`: whether it is closed for its volume was stopped, and nothing else is
    /// wrong with it. Older software does not say.
    #[serde(default)]
    stopped: Option<bool>,
    /// Of one whose file is gone: whether its disk can't be written, either. Older software does
    /// not say.
    #[serde(default)]
    read_only: Option<bool>,
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
        let stopped = Some(matches!(unserved, Unserved::Stopped(_)));
        let (replica, why) = (replica.to_string(), unserved.to_string());
        Self { replica, is: is.into(), why, stopped, read_only: None }
    }

    /// The same of one that is served, and with which something is wrong.
    pub fn at_risk(replica: ReplicaId, risk: &Risk) -> Self {
        let is = match risk {
            // An older node learns the worse.
            Risk::FileGone(_) | Risk::FileGoneReadOnly(_) => FILE_GONE,
            Risk::ReadOnly(_) => READ_ONLY,
        };
        let (why, read_only) = (risk.why().to_owned(), Some(risk.is_read_only()));
        Self { replica: replica.to_string(), is: is.into(), why, stopped: None, read_only }
    }

    /// What is wrong with it although it is served, if so.
    pub fn risk(&self) -> Option<(ReplicaId, Risk)> {
        let why = self.why.clone();
        let risk = match self.is.as_str() {
            FILE_GONE if self.read_only == Some(true) => Risk::FileGoneReadOnly(why),
            FILE_GONE => Risk::FileGone(why),
            READ_ONLY => Risk::ReadOnly(why),
            _ => return None,
        };
        Some((self.replica.parse().ok()?, risk))
    }

    /// What another node has told. `None`: it is served, or no replica.
    pub fn unserved(&self) -> Option<(ReplicaId, Unserved)> {
        let why = self.why.clone();
        let unserved = match self.is.as_str() {
            "gone" => Unserved::Gone(why),
            "away" if self.stopped == Some(true) => Unserved::Stopped(why),
            "away" => Unserved::Away(why),
            FILE_GONE | READ_ONLY => return None,
            _ => Unserved::Unusable(why),
        };
        Some((self.replica.parse().ok()?, unserved))
    }
}

/// A part of a replica's data.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadData {
    /// Its identity.
    pub replica: String,
    /// Where in the data, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
}

/// Room to be made.
#[derive(Debug, Serialize, Deserialize)]
pub struct MakeSpace {
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

/// Asks another node for a part of a replica's data.
///
/// # Errors
/// If it does not answer, or cannot read it.
pub async fn read_data(
    peers: &Peers,
    member: &NodeLiveness,
    replica: ReplicaId,
    offset: u64,
    length: u64,
    deadline: Duration,
) -> io::Result<Vec<u8>> {
    let question = ReadData { replica: replica.to_string(), offset, length };
    let question = serde_json::to_vec(&question)?;
    let mut last = io::Error::other("its node's addresses are not known");
    let wanted = Wanted::member(member);
    for address in peers.addresses(member) {
        let to = Destination { address: &address, wanted: &wanted };
        let body = question.clone().into();
        match peers.request(to, Method::POST, READ, body, deadline).await {
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

#[cfg(test)]
mod tests;

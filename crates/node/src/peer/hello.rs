//! The hello, driven over a stream. What is said, and in which order, is in the `wire` crate.

use std::io;

use evenkeel_core::NodeId;
use evenkeel_wire::VERSIONS;
use evenkeel_wire::hello::{
    Authentication, Hello, HelloAnswer, MAX_PART_LENGTH, NONCE_LENGTH, PREFIX_LENGTH, Proof,
    Purpose, Reason, Refusal, Side, Verdict, proof_input, rest_length,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Credentials, PeerError};
use crate::config::Address;
use crate::random::fill_random;
use crate::start::StartId;

/// Why a hello failed.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// The connection failed, or carried something else.
    #[error("{0}")]
    Broken(String),
    /// The other side closed the connection.
    #[error("the connection was closed before the hello was complete")]
    Closed,
    /// One side does not want the other.
    #[error("{0}")]
    Refused(Refusal),
}

impl HelloError {
    /// The same with the name of the guest that was refused, for our own log.
    fn of_guest(self, hello: &Hello) -> Self {
        match self {
            Self::Refused(Refusal { reason, text }) => {
                refused(reason, format!("{}: {text}", hello.node_name))
            }
            other => other,
        }
    }

    pub(super) fn at(self, address: &Address) -> PeerError {
        let address = address.to_string();
        match self {
            Self::Broken(_) | Self::Closed => {
                PeerError::Connect { address, source: io::Error::other(self.to_string()) }
            }
            Self::Refused(refusal) => {
                PeerError::Refused { address, reason: refusal.reason, why: refusal.text }
            }
        }
    }
}

/// Who has connected, and what for.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// The start of its daemon; `None` of software that does not count them.
    pub start: Option<StartId>,
    /// What it wants.
    pub purpose: Purpose,
}

/// Who was connected to.
#[derive(Debug, Clone)]
pub struct Host {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// The start of its daemon; `None` of software that does not count them.
    pub start: Option<StartId>,
    /// The epoch of the membership that it knows.
    pub epoch: u64,
}

fn nonce() -> [u8; NONCE_LENGTH] {
    let mut nonce = [0; NONCE_LENGTH];
    fill_random(&mut nonce);
    nonce
}

fn broken(error: impl std::fmt::Display) -> HelloError {
    HelloError::Broken(error.to_string())
}

fn refused(reason: Reason, text: String) -> HelloError {
    HelloError::Refused(Refusal { reason, text })
}

fn unread(error: io::Error) -> HelloError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => HelloError::Closed,
        _ => broken(error),
    }
}

/// A guest that closes the connection when it has our proof has found it wrong.
fn after_proof(error: HelloError) -> HelloError {
    match error {
        HelloError::Closed => refused(
            Reason::KeyDiffers,
            "it has found that the keys differ: give all nodes the same peer.key_file".into(),
        ),
        other => other,
    }
}

/// Reads one part, prefix included; never more than its bytes.
async fn read_part(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, HelloError> {
    let mut prefix = [0; PREFIX_LENGTH];
    stream.read_exact(&mut prefix).await.map_err(unread)?;
    let rest = rest_length(&prefix).map_err(broken)?;
    let mut part = prefix.to_vec();
    part.resize((PREFIX_LENGTH + rest).min(MAX_PART_LENGTH), 0);
    stream.read_exact(&mut part[PREFIX_LENGTH..]).await.map_err(unread)?;
    Ok(part)
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), part: &[u8]) -> Result<(), HelloError> {
    stream.write_all(part).await.map_err(broken)?;
    stream.flush().await.map_err(broken)
}

/// The connecting side. Returns who listens.
///
/// # Errors
/// If the other side refuses, cannot prove the shared key, or speaks something else.
pub async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    credentials: &Credentials,
    purpose: Purpose,
) -> Result<Host, HelloError> {
    let authentication =
        if credentials.key.is_some() { Authentication::SharedKey } else { Authentication::None };
    let hello = Hello {
        versions: VERSIONS,
        purpose,
        authentication,
        node: credentials.node,
        node_name: credentials.name.clone(),
        cluster: credentials.cluster.get(),
        nonce: nonce(),
        software: String::new(),
        start: Some(credentials.start),
        epoch: credentials.epoch.known(),
    }
    .encode();
    send(stream, &hello).await?;
    let answer_bytes = read_part(stream).await?;
    let answer = HelloAnswer::decode(&answer_bytes).map_err(broken)?;
    if let Err(refusal) = answer.outcome {
        return Err(HelloError::Refused(refusal));
    }
    match (answer.authentication, &credentials.key) {
        (Authentication::None, None) => {}
        (Authentication::SharedKey, Some(key)) => {
            let proof = Proof::decode(&read_part(stream).await?).map_err(broken)?;
            if !key.verify(&proof_input(Side::Listening, &hello, &answer_bytes), &proof) {
                let why = format!(
                    "node {} has another key: give all nodes the same peer.key_file",
                    answer.node_name
                );
                return Err(refused(Reason::KeyDiffers, why));
            }
            let input = proof_input(Side::Connecting, &hello, &answer_bytes);
            send(stream, &key.prove(&input).encode()).await?;
            let verdict = Verdict::decode(&read_part(stream).await?).map_err(broken)?;
            verdict.0.map_err(HelloError::Refused)?;
        }
        (Authentication::None, Some(_)) => {
            let why = format!(
                "node {} has no key and this one has: give all nodes the same peer.key_file",
                answer.node_name
            );
            return Err(refused(Reason::KeyDiffers, why));
        }
        (Authentication::SharedKey, None) => {
            let why = "it demands a key and this node has none: set peer.key_file";
            return Err(refused(Reason::KeyNeeded, why.into()));
        }
    }
    let HelloAnswer { node, node_name: name, start, epoch, .. } = answer;
    Ok(Host { node, name, start, epoch })
}

/// The listening side. `is_member` says whether a node belongs to the cluster, which may have been
/// renamed since one of the two last heard of it; `admit`, whether the purpose can be served.
///
/// # Errors
/// If the guest is refused (it has been told why), or speaks something else.
pub async fn accept<A: Future<Output = Result<(), Refusal>>>(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    credentials: &Credentials,
    is_member: impl FnOnce(NodeId) -> bool,
    admit: impl FnOnce(Hello) -> A,
) -> Result<Guest, HelloError> {
    let hello_bytes = read_part(stream).await?;
    let hello = Hello::decode(&hello_bytes).map_err(broken)?;
    // Without a key there is nothing left to prove; with one, the purpose is looked at only after
    // the proof, so that strangers learn nothing.
    let (outcome, admit) = match (judge(&hello, credentials, is_member), &credentials.key) {
        (Ok(version), None) => (admit(hello.clone()).await.map(|()| version), None),
        (Ok(version), Some(_)) => (Ok(version), Some(admit)),
        (Err(refusal), _) => (Err(refusal), None),
    };
    let authentication =
        if credentials.key.is_some() { Authentication::SharedKey } else { Authentication::None };
    let refusal = outcome.as_ref().err().cloned();
    let answer = HelloAnswer {
        outcome,
        versions: VERSIONS,
        authentication,
        node: credentials.node,
        node_name: credentials.name.clone(),
        nonce: nonce(),
        software: String::new(),
        start: Some(credentials.start),
        epoch: credentials.epoch.known(),
    }
    .encode();
    send(stream, &answer).await?;
    if let Some(refusal) = refusal {
        return Err(HelloError::Refused(refusal).of_guest(&hello));
    }
    if let Some(key) = &credentials.key {
        let proof = key.prove(&proof_input(Side::Listening, &hello_bytes, &answer));
        send(stream, &proof.encode()).await?;
        let proof = read_part(stream).await.map_err(after_proof);
        let proof = Proof::decode(&proof.map_err(|e| e.of_guest(&hello))?).map_err(broken)?;
        let input = proof_input(Side::Connecting, &hello_bytes, &answer);
        let verdict = match (key.verify(&input, &proof), admit) {
            (true, Some(admit)) => admit(hello.clone()).await,
            (true, None) => Ok(()),
            (false, _) => Err(Refusal {
                reason: Reason::KeyDiffers,
                text: "the keys differ: give all nodes the same peer.key_file".into(),
            }),
        };
        send(stream, &Verdict(verdict.clone()).encode()).await?;
        verdict.map_err(|refusal| HelloError::Refused(refusal).of_guest(&hello))?;
    }
    Ok(Guest {
        node: hello.node,
        name: hello.node_name,
        start: hello.start,
        purpose: hello.purpose,
    })
}

fn judge(
    hello: &Hello,
    credentials: &Credentials,
    is_member: impl FnOnce(NodeId) -> bool,
) -> Result<u16, Refusal> {
    let refuse = |reason, text| Err(Refusal { reason, text });
    let cluster = credentials.cluster.get();
    if hello.cluster != cluster && !is_member(hello.node) {
        let text = format!(
            "node {} belongs to cluster {:?}, and you to {:?}: check the address, or the key `cluster`",
            credentials.name, cluster, hello.cluster
        );
        return refuse(Reason::Cluster, text);
    }
    match (&credentials.key, hello.authentication) {
        (Some(_), Authentication::None) => {
            let text = format!(
                "node {} demands a key: set peer.key_file to the cluster's",
                credentials.name
            );
            return refuse(Reason::KeyNeeded, text);
        }
        (None, Authentication::SharedKey) => {
            let text = format!(
                "node {} has no key and you have one: set peer.key_file there",
                credentials.name
            );
            return refuse(Reason::KeyDiffers, text);
        }
        _ => {}
    }
    let none = || Refusal {
        reason: Reason::Version,
        text: format!(
            "node {} speaks versions {VERSIONS} and you {}: upgrade the older one",
            credentials.name, hello.versions
        ),
    };
    VERSIONS.common(hello.versions).ok_or_else(none)
}

#[cfg(test)]
mod tests;

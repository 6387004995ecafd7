//! The hello, driven over a stream. What is said, and in which order, is in the `wire` crate.

use std::io;

use evenkeel_core::NodeId;
use evenkeel_wire::VERSIONS;
use evenkeel_wire::hello::{
    Hello, HelloAnswer, MAX_PART_LENGTH, PREFIX_LENGTH, Purpose, Reason, Refusal, rest_length,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Credentials, PeerError};
use crate::config::Address;
use crate::state::start::StartId;

/// Why a hello failed.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// The connection failed, or carried something else.
    #[error("{0}")]
    Broken(String),
    /// One side does not want the other.
    #[error("{0}")]
    Refused(Refusal),
}

impl HelloError {
    pub(super) fn at(self, address: &Address) -> PeerError {
        let address = address.to_string();
        match self {
            Self::Broken(_) => {
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

fn broken(error: impl std::fmt::Display) -> HelloError {
    HelloError::Broken(error.to_string())
}

fn unread(error: io::Error) -> HelloError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            broken("the connection was closed before the hello was complete")
        }
        _ => broken(error),
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
/// If the other side refuses, or speaks something else.
pub async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    credentials: &Credentials,
    purpose: Purpose,
) -> Result<Host, HelloError> {
    let hello = Hello {
        versions: VERSIONS,
        purpose,
        node: credentials.node,
        node_name: credentials.name.clone(),
        cluster: credentials.cluster.get(),
        software: String::new(),
        start: Some(credentials.start),
        epoch: credentials.epoch.known(),
    };
    send(stream, &hello.encode()).await?;
    let answer = HelloAnswer::decode(&read_part(stream).await?).map_err(broken)?;
    answer.outcome.map_err(HelloError::Refused)?;
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
    let hello = Hello::decode(&read_part(stream).await?).map_err(broken)?;
    let outcome = match judge(&hello, credentials, is_member) {
        Ok(version) => admit(hello.clone()).await.map(|()| version),
        refused => refused,
    };
    let refusal = outcome.as_ref().err().cloned();
    let answer = HelloAnswer {
        outcome,
        versions: VERSIONS,
        node: credentials.node,
        node_name: credentials.name.clone(),
        software: String::new(),
        start: Some(credentials.start),
        epoch: credentials.epoch.known(),
    };
    send(stream, &answer.encode()).await?;
    match refusal {
        // For our own log, with the guest's name.
        Some(Refusal { reason, text }) => {
            let text = format!("{}: {text}", hello.node_name);
            Err(HelloError::Refused(Refusal { reason, text }))
        }
        None => Ok(Guest {
            node: hello.node,
            name: hello.node_name,
            start: hello.start,
            purpose: hello.purpose,
        }),
    }
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

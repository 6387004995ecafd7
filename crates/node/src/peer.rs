//! Other nodes: connections to and from them.
//!
//! A connection begins with TLS over TCP (both sides show certificates), then the hello, which
//! tells its purpose. A replication connection's descriptor goes to the engine; a control
//! connection carries HTTP requests.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_api::ApiError;
use evenkeel_api::error::ErrorAnswer;
use evenkeel_coordinator::{NodeLiveness, RemovedNode};
use evenkeel_core::{Incarnation, NodeId, ReplicaId, VolumeId};
use evenkeel_engine::Connection;
use evenkeel_wire::hello::{Purpose, Reason};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::{Method, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::Address;
use crate::disks::Unserved;
use crate::state::cluster_name::ClusterName;
use crate::state::start::StartId;

pub mod epoch;
pub mod hello;
mod idle;
pub mod requests;
pub mod stream;
pub mod tls;
pub mod wanted;

use epoch::Epoch;
use hello::Host;
use idle::{Idle, Proof};
use stream::PeerStream;
pub use wanted::{Destination, Wanted};

/// How long a connection may take to be made, TLS and hello included.
const CONNECT_DEADLINE: Duration = Duration::from_secs(4);
/// Most bytes of an answer that are read.
const MAX_ANSWER: usize = 64 << 20;
/// Says that a request was already forwarded once: it is not forwarded again.
pub const FORWARDED: &str = "evenkeel-forwarded";

/// Who this node is to its peers, and how both prove it.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// This node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// This start of its daemon.
    pub start: StartId,
    /// Its cluster.
    pub cluster: ClusterName,
    /// Certificates, for TCP.
    pub tls: tls::CurrentTls,
    /// The state of the cluster's membership that it knows.
    pub epoch: Arc<Epoch>,
    /// Whether it listens for nodes of its own machine, on a unix socket. If not, such a path that
    /// a member advertises means another machine's.
    pub on_unix: bool,
}

/// Why a peer was not reached, or what came back was no answer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// No connection.
    #[error("{address} cannot be reached: {source}")]
    Connect {
        /// HOST:PORT that was tried.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// It answered, and refused the connection or the identity.
    #[error("{address} refused the connection: {why}")]
    Refused {
        /// HOST:PORT of the peer.
        address: String,
        /// The code of the cause, for programs.
        reason: Reason,
        /// The cause and the remedy, for people.
        why: String,
    },
    /// Another node answered there.
    #[error(
        "{found} answered at {address}, where node {wanted} was wanted: compare `peer.listen` and `peer.advertise` of both with `evenkeel node status`, and correct them; if the coordinator has moved to that node, give `evenkeel node join {address}`"
    )]
    Another {
        /// HOST:PORT that was tried.
        address: String,
        /// The name of who was wanted.
        wanted: String,
        /// Who answered.
        found: String,
    },
    /// It did not answer a request in time.
    #[error("{address} did not answer within {} s", deadline.as_secs_f32())]
    Late {
        /// HOST:PORT of the peer.
        address: String,
        /// The time it had.
        deadline: Duration,
    },
    /// The connection ended after the request had left, or the answer was nonsense.
    #[error("the connection to {address} failed: {why}")]
    Broken {
        /// HOST:PORT of the peer.
        address: String,
        /// What went wrong, as a sentence.
        why: String,
    },
}

impl PeerError {
    /// Whether the peer may be at work on the request all the same.
    #[must_use]
    pub const fn may_have_begun(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::Broken { .. })
    }
}

impl PeerError {
    /// Whether it was refused for who it is, which trying again does not change.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Another { .. })
    }
}

/// What the answer to a connection says of the replica that it was for.
pub fn unserved<T>(answer: &Result<T, PeerError>) -> Option<Unserved> {
    match answer {
        Err(PeerError::Refused { reason, why, .. }) => Unserved::of(*reason, why),
        _ => None,
    }
}

type Sender = SendRequest<Full<Bytes>>;

/// A connection for requests, and who is at its other end.
#[derive(Debug)]
struct Control {
    sender: Sender,
    host: Host,
    proof: Proof,
}

/// Makes connections to other nodes.
#[derive(Debug)]
pub struct Peers {
    credentials: Credentials,
    idle: Mutex<Idle<Control>>,
    /// The node that serves the coordinator; `None`: it has never been spoken to.
    coordinator: Mutex<Option<NodeLiveness>>,
    /// The present start of each node, as the coordinator said last.
    starts: Mutex<HashMap<NodeId, StartId>>,
    /// The nodes that were removed from the cluster, with a sentence that says so.
    removed: Mutex<HashMap<NodeId, String>>,
}

impl Peers {
    /// Nothing is connected before it is needed.
    #[must_use]
    pub fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            idle: Mutex::default(),
            coordinator: Mutex::default(),
            starts: Mutex::default(),
            removed: Mutex::default(),
        }
    }

    /// Notes the present start of each node, and which one serves the coordinator. Software that
    /// does not count its starts has none.
    pub fn learn(&self, nodes: &[NodeLiveness]) {
        if let Some(found) = nodes.iter().find(|member| member.coordinator) {
            *self.lock_coordinator() = Some(found.clone());
        }
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        for record in nodes.iter().map(|member| &member.node).filter(|record| record.counter != 0) {
            let incarnation = Incarnation(record.incarnation);
            let start = StartId { counter: record.counter, incarnation };
            record.id.parse().ok().and_then(|id| starts.insert(id, start));
        }
    }

    fn lock_coordinator(&self) -> MutexGuard<'_, Option<NodeLiveness>> {
        self.coordinator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom to expect where the coordinator is.
    #[must_use]
    pub fn coordinator(&self) -> Wanted {
        self.lock_coordinator().as_ref().map_or(Wanted::Anyone, Wanted::member)
    }

    /// An operator says where the coordinator is: what was known of its node does not count.
    pub fn forget_coordinator(&self) {
        *self.lock_coordinator() = None;
    }

    /// Notes which nodes were removed from the cluster, and forgets the kept connections to them.
    /// Tells those of which that is news. That is for good, whoever has forgotten it since.
    pub fn learn_removed(&self, nodes: &[RemovedNode]) -> Vec<NodeId> {
        let known = nodes.iter().filter_map(|node| Some((node.id.parse().ok()?, node.to_string())));
        let known: HashMap<NodeId, String> = known.collect();
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = |node: &&NodeId| !removed.contains_key(*node);
        let news = known.keys().filter(is_news).copied().collect();
        removed.extend(known);
        drop(removed);
        // From now on none is kept after its request, either.
        self.idle().drop_those(|control| self.removed(control.host.node).is_some());
        news
    }

    /// That a node was removed from the cluster, if it was, in a sentence.
    #[must_use]
    pub fn removed(&self, node: NodeId) -> Option<String> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned()
    }

    /// Why a start of a node is not spoken to: a later one is known. A start that is later than the
    /// one that is known here may have been admitted since.
    #[must_use]
    pub fn superseded(&self, node: NodeId, start: Option<StartId>) -> Option<String> {
        let starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, start) = (*starts.get(&node)?, start?);
        let is_older = start != known && start.counter <= known.counter;
        is_older.then(|| {
            format!(
                "it is start {} of node {node}, and start {} is known: it runs from a copy of that node's state directory, or has been superseded. Stop the one of the two that is not wanted",
                start.counter, known.counter
            )
        })
    }

    /// Connects to a node for a purpose: TLS over TCP, and the hello.
    ///
    /// # Errors
    /// If the peer is not there, is another node, refuses, or takes too long.
    pub async fn connect(
        &self,
        address: &Address,
        wanted: &Wanted,
        purpose: Purpose,
    ) -> Result<(PeerStream, Host), PeerError> {
        let connect = async {
            let tls = self.credentials.tls.get();
            let stream = stream::connect(address, tls.as_ref()).await;
            let mut stream = stream
                .map_err(|source| PeerError::Connect { address: address.to_string(), source })?;
            let host = hello::connect(&mut stream, &self.credentials, purpose).await;
            let host = host.map_err(|e| e.at(address))?;
            let refused = |reason, why| {
                let address = address.to_string();
                PeerError::Refused { address, reason, why }
            };
            if let (Some(certificate), Some(tls)) = (stream.certificate(), &tls) {
                let named = tls.check(&certificate, &host.name, host.node);
                named.map_err(|why| refused(Reason::Other, why))?;
            }
            wanted.check(&host, stream.is_tls(), address)?;
            self.credentials.epoch.learn(&host.name, host.epoch);
            if let Some(why) = self.removed(host.node) {
                return Err(refused(Reason::Other, why));
            }
            match self.superseded(host.node, host.start) {
                Some(why) => Err(refused(Reason::Superseded, why)),
                None => Ok((stream, host)),
            }
        };
        let late = || {
            let text = format!("no connection within {} s", CONNECT_DEADLINE.as_secs_f32());
            let source = io::Error::new(io::ErrorKind::TimedOut, text);
            PeerError::Connect { address: address.to_string(), source }
        };
        tokio::time::timeout(CONNECT_DEADLINE, connect).await.unwrap_or_else(|_| Err(late()))
    }

    /// Where a member can be dialed: its addresses, but for unix sockets of other machines. Such a
    /// path could be that of any program here, and a node connects as root.
    pub fn addresses(&self, member: &NodeLiveness) -> Vec<Address> {
        let all = member.node.addresses.iter().filter_map(|text| Address::parse(text).ok());
        let is_dialed = |address: &Address| self.credentials.on_unix || !address.is_unix();
        all.filter(is_dialed).collect()
    }

    /// Connects to a replica on a member by the first of its addresses that answers. `None`: the
    /// cluster knows no such member.
    ///
    /// # Errors
    /// That of the last address.
    pub async fn connect_replica(
        &self,
        member: Option<&NodeLiveness>,
        volume: VolumeId,
        replica: ReplicaId,
    ) -> Result<Connection, PeerError> {
        let unknown = || io::Error::other("its addresses are not known");
        let mut last = PeerError::Connect { address: "the node".into(), source: unknown() };
        let Some(member) = member else { return Err(last) };
        let wanted = Wanted::member(member);
        for address in self.addresses(member) {
            let purpose = Purpose::Replication { volume, replica };
            match self.connect(&address, &wanted, purpose).await {
                Ok((stream, _)) => {
                    return stream.into_connection().map_err(|source| PeerError::Connect {
                        address: address.to_string(),
                        source,
                    });
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// One request and its answer. A kept connection that turns out to be dead is replaced.
    ///
    /// # Errors
    /// If the peer is not there, is another node, refuses, or takes too long.
    pub async fn request(
        &self,
        destination: Destination<'_>,
        method: Method,
        path: &str,
        body: Bytes,
        deadline: Duration,
    ) -> Result<(StatusCode, Bytes), PeerError> {
        let Destination { address, wanted } = destination;
        let exchange = async {
            let mut control = match self.take_idle(address, wanted) {
                Some(control) => control,
                None => self.control(address, wanted).await?,
            };
            let broken = |why: String| PeerError::Broken { address: address.to_string(), why };
            let request = hyper::Request::builder()
                .method(method)
                .uri(path)
                .header(header::HOST, "evenkeel")
                .header(header::CONTENT_TYPE, "application/json")
                .header(FORWARDED, "1")
                .body(Full::new(body))
                .map_err(|e| broken(e.to_string()))?;
            let answer = match control.sender.try_send_request(request).await {
                Ok(answer) => answer,
                // It was closed while it was idle: the request has not left.
                Err(mut e) => {
                    let why = e.error().to_string();
                    let request = e.take_message().ok_or_else(|| broken(why))?;
                    control = self.control(address, wanted).await?;
                    control.sender.send_request(request).await.map_err(|e| broken(e.to_string()))?
                }
            };
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|e| broken(e.to_string()))?.to_bytes();
            self.keep(address, control);
            Ok((status, body))
        };
        let late = || PeerError::Late { address: address.to_string(), deadline };
        tokio::time::timeout(deadline, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    /// Posts JSON and reads JSON. The inner error is the peer's own.
    ///
    /// # Errors
    /// If the peer is not there, is another node, refuses, or answers something else.
    pub async fn post_json<Q: Serialize, A: DeserializeOwned>(
        &self,
        destination: Destination<'_>,
        path: &str,
        question: &Q,
        deadline: Duration,
    ) -> Result<Result<A, ApiError>, PeerError> {
        let address = destination.address.to_string();
        let broken = |why: String| PeerError::Broken { address: address.clone(), why };
        let body = serde_json::to_vec(question).map_err(|e| broken(e.to_string()))?;
        let (status, body) =
            self.request(destination, Method::POST, path, body.into(), deadline).await?;
        if status.is_success() {
            return serde_json::from_slice(&body).map(Ok).map_err(|e| broken(e.to_string()));
        }
        let error: ErrorAnswer = serde_json::from_slice(&body)
            .map_err(|_| broken(format!("status {status} without an explanation")))?;
        Ok(Err(error.error))
    }

    /// Uses no connection for another request that was made until now: it was proved by a
    /// certificate that is not this node's newest.
    pub fn proved_anew(&self) {
        self.idle().proved_anew();
    }

    fn idle(&self) -> MutexGuard<'_, Idle<Control>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn control(&self, address: &Address, wanted: &Wanted) -> Result<Control, PeerError> {
        // Asked for before the certificate is taken: a connection may pass for older than it is.
        let proof = self.idle().proof();
        let (stream, host) = self.connect(address, wanted, Purpose::Control).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| {
                let (address, source) = (address.to_string(), io::Error::other(e));
                PeerError::Connect { address, source }
            })?;
        tokio::spawn(async move {
            // Its end shows at the sender.
            let _ = connection.await;
        });
        Ok(Control { sender, host, proof })
    }

    /// A kept connection to whom is wanted at an address. One to another node is not used: who is
    /// there now shows when it is connected to.
    fn take_idle(&self, address: &Address, wanted: &Wanted) -> Option<Control> {
        let is_wanted = |it: &Control| wanted.is(&it.host) && it.sender.is_ready();
        self.idle().take(address, |control| control.sender.is_closed(), is_wanted)
    }

    /// Keeps a connection for further requests. Its node may have been removed during this one.
    fn keep(&self, address: &Address, control: Control) {
        if self.removed(control.host.node).is_none() {
            self.idle().keep(address, control.proof, control);
        }
    }
}

//! Listens for peers: TLS over TCP, the hello, then what the connection is for.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use evenkeel_core::NodeId;
use evenkeel_trust::Standing;
use evenkeel_wire::hello::{Hello, Purpose, Reason, Refusal};
use rustls::pki_types::CertificateDer;
use tokio::time::timeout;

use crate::api::server;
use crate::config::{Address, Config};
use crate::coordinator::{Answer, Caller, Request};
use crate::http::{self, Accepted, Socket};
use crate::log_limit::LogLimit;
use crate::peer::hello::{self, Guest};
use crate::peer::stream::{PeerStream, accept_tcp, refuse_other_users};
use crate::peer::tls::PeerTls;
use crate::running::Running;
use crate::seats::{Seat, Seats, Share, Shares};

/// How long the coordinator may take to tell the members to a node that lets somebody in.
const CATCH_UP: Duration = Duration::from_secs(2);

/// Most control connections of one node at a time: each of 1,024 volumes may ask the coordinator at
/// once, and each request has a connection of its own.
const MAX_CONTROL: usize = 1280;
/// The same of a node that was removed, which is refused whatever it asks, or whose certificate has
/// expired, which may ask for another one. Twice as many as it keeps for later: what it keeps of
/// before must not have the place of the one by which it asks.
const MAX_CONTROL_OUTSIDE: usize = 8;

/// Sockets that listen.
#[derive(Debug)]
pub struct PeerListener {
    sockets: Vec<Socket>,
}

impl PeerListener {
    /// Binds all configured addresses. Returns the addresses by which others reach this node:
    /// those that are advertised, else those that are bound.
    ///
    /// # Errors
    /// If one is in use, or not of this machine.
    pub async fn bind(config: &Config) -> Result<(Self, Vec<String>), String> {
        let mut sockets = Vec::new();
        let mut bound = Vec::new();
        for text in config.peer_listen() {
            match Address::parse(&text)? {
                Address::Tcp(address) => {
                    let socket = http::bind_tcp(&address, "peer.listen").await?;
                    bound.push(socket.local_addr().map_err(|e| e.to_string())?.to_string());
                    sockets.push(Socket::Tcp(socket));
                }
                Address::Unix(path) => {
                    sockets.push(Socket::Unix(http::bind_unix(&path, 0o600).await?));
                    bound.push(text);
                }
            }
        }
        let advertised = &config.peer.advertise;
        let addresses = if advertised.is_empty() { bound } else { advertised.clone() };
        Ok((Self { sockets }, addresses))
    }

    /// Accepts connections until the daemon ends.
    pub fn serve(self, running: &Running) {
        let most = running.node.config.peer.max_unauthenticated;
        let seats = Seats::new(most, "peers that have not proved who they are");
        let served = Arc::new(Served::new(running));
        for socket in self.sockets {
            tokio::spawn(accept_all(socket, served.clone(), seats.clone()));
        }
    }
}

/// What connections of peers get.
struct Served {
    running: Running,
    /// For members.
    control: Router,
    /// For members whose certificates have expired.
    renewal: Router,
    /// The control connections of each node.
    connected: Arc<Shares<NodeId>>,
    /// The same of those that may do little: they keep no place from themselves once they are let
    /// in again.
    outside: Arc<Shares<NodeId>>,
    /// How often the log tells of those that were closed.
    log: LogLimit,
}

impl Served {
    fn new(running: &Running) -> Self {
        Self {
            running: running.clone(),
            control: server::control_router(running),
            renewal: server::renewal_router(running),
            connected: Arc::default(),
            outside: Arc::default(),
            log: LogLimit::default(),
        }
    }
}

impl Served {
    /// A place for a control connection of a node. `None`: it is for something else.
    fn share(&self, hello: &Hello, standing: Standing) -> Result<Option<Share<NodeId>>, Refusal> {
        if hello.purpose != Purpose::Control {
            return Ok(None);
        }
        let peers = &self.running.node.peers;
        let is_member = standing == Standing::Current && peers.removed(hello.node).is_none();
        let (shares, most) = match is_member {
            true => (&self.connected, MAX_CONTROL),
            false => (&self.outside, MAX_CONTROL_OUTSIDE),
        };
        shares.take(hello.node, most).map(Some).ok_or_else(|| {
            let name = &self.running.node.identity.name;
            let text = format!("node {name} serves {most} connections of this node already");
            Refusal { reason: Reason::Busy, text }
        })
    }
}

async fn accept_all(socket: Socket, served: Arc<Served>, seats: Arc<Seats>) {
    while let Some(accepted) = served.running.node.unless_stopping(socket.accept()).await {
        match accepted {
            Ok(accepted) => {
                let seat = seats.take(accepted.source);
                drop(tokio::spawn(greet(accepted, served.clone(), seat)));
            }
            Err(error) => http::accept_failed("a connection from a peer", &error).await,
        }
    }
}

/// The first seconds of a connection.
async fn greet(accepted: Accepted, served: Arc<Served>, mut seat: Seat) {
    let Accepted { stream: raw, from, source } = accepted;
    let running = &served.running;
    let deadline = Duration::from_secs(running.node.config.peer.handshake_seconds);
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(deadline, prove(raw, &served)) => greeted,
        () = seat.gone() => return,
    };
    drop(seat);
    let why = match greeted {
        Ok(Ok(Some(member))) => return serve(member, from, &served).await,
        // It has got a certificate, and comes again with it.
        Ok(Ok(None)) => return,
        Ok(Err(error)) => error,
        Err(_) => "it did not say who it is in time".to_owned(),
    };
    if let Some(left_out) = served.log.line(source) {
        tracing::warn!(%from, %why, "closed a connection from a peer{left_out}");
    }
}

/// A connection of a node that has said who it is, and what its certificate permits.
struct Proved {
    stream: PeerStream,
    guest: Guest,
    standing: Standing,
    /// Of a control connection.
    share: Option<Share<NodeId>>,
}

/// `None`: a node that has no certificate yet was answered.
async fn prove(raw: PeerStream, served: &Served) -> Result<Option<Proved>, String> {
    let running = &served.running;
    let tls = running.credentials.tls.get();
    let mut stream = match raw {
        PeerStream::Tcp(stream) => {
            let tls = tls.as_ref().ok_or("this node has no certificate yet")?;
            accept_tcp(stream, tls).await.map_err(|e| format!("TLS: {e}"))?
        }
        PeerStream::Unix(stream) => {
            refuse_other_users(&stream).map_err(|e| e.to_string())?;
            PeerStream::Unix(stream)
        }
        PeerStream::Tls(stream) => PeerStream::Tls(stream),
    };
    let certificate = stream.certificate();
    if stream.is_tls() && certificate.is_none() {
        return match tls.is_some_and(|tls| tls.admits_joiners()) {
            true => running.certificates.admit_joiner(&mut stream).await.map(|()| None),
            false => Err("it shows no certificate".into()),
        };
    }
    let (mut standing, mut share) = (Standing::Current, None);
    let admit = async |hello: Hello| {
        if let (Some(certificate), Some(tls)) = (&certificate, &tls) {
            standing = identify(certificate, tls, &hello, running).await?;
        }
        match standing {
            Standing::Current => {
                catch_up(&hello, running).await?;
                admit(&hello, running)?;
            }
            Standing::Expired => admit_expired(&hello, running)?,
        }
        share = served.share(&hello, standing)?;
        Ok(())
    };
    let is_member = |other| running.node.coordinator.node(other).is_some();
    let guest = hello::accept(&mut stream, &running.credentials, is_member, admit).await;
    let guest = guest.map_err(|e| e.to_string())?;
    Ok(Some(Proved { stream, guest, standing, share }))
}

/// Whether a guest is the node that it says, by its certificate: that has the name, and the name
/// belongs to the identity. Tells what the certificate permits.
async fn identify(
    certificate: &CertificateDer<'_>,
    tls: &PeerTls,
    hello: &Hello,
    running: &Running,
) -> Result<Standing, Refusal> {
    let refusal = |text| Refusal { reason: Reason::Other, text };
    let standing = tls.check(certificate, &hello.node_name, hello.node).map_err(refusal)?;
    match name_of(running, hello).await {
        Some(name) if name != hello.node_name => Err(refusal(format!(
            "this identity belongs to node {name}, which keeps its name while certificates tell who a node is; to rename it, remove it from the cluster and join anew"
        ))),
        _ => Ok(standing),
    }
}

/// A node whose certificate has expired may only ask for a new one, where the authority's key lies.
fn admit_expired(hello: &Hello, running: &Running) -> Result<(), Refusal> {
    let refuse = |text| Err(Refusal { reason: Reason::Other, text });
    match (hello.purpose, running.certificates.are_issued_here()) {
        (Purpose::Control, true) => Ok(()),
        _ => refuse("its certificate has expired, and is renewed by the node that has the authority's key: see the warnings of its `evenkeel node status`".into()),
    }
}

/// The name that belongs to a guest's identity. The list of nodes that is kept here may lack one
/// that has just joined: if it does not bear the guest out, the coordinator is asked that this node
/// serves.
async fn name_of(running: &Running, hello: &Hello) -> Option<String> {
    let kept = running.node.coordinator.node(hello.node).map(|kept| kept.node.name);
    if !running.node.config.coordinator.here || kept.as_ref() == Some(&hello.node_name) {
        return kept;
    }
    let id = hello.node.to_string();
    match running.node.coordinator.call_once(Request::Nodes).await {
        Ok(Answer::Nodes(nodes)) => {
            let found = nodes.into_iter().find(|newest| newest.node.id == id);
            found.map(|newest| newest.node.name).or(kept)
        }
        _ => kept,
    }
}

/// A node that knows of a newer membership than it has lets nobody in to its replicas before it has
/// fetched that: who knocks may have been removed. What the other node says of the epoch is not
/// believed, only asked for.
async fn catch_up(hello: &Hello, running: &Running) -> Result<(), Refusal> {
    let epoch = &running.credentials.epoch;
    epoch.learn(&hello.node_name, hello.epoch);
    if hello.purpose == Purpose::Control || !epoch.is_behind() {
        return Ok(());
    }
    if timeout(CATCH_UP, running.node.member.refresh()).await == Ok(true) {
        return Ok(());
    }
    let text = format!(
        "node {} has learned that nodes have joined the cluster or were removed, and the coordinator does not answer which: it lets nobody in to its replicas until then. Start the coordinator's node, or repair the network between the two",
        running.node.identity.name
    );
    Err(Refusal { reason: Reason::Busy, text })
}

fn admit(hello: &Hello, running: &Running) -> Result<(), Refusal> {
    let refuse = |reason, text: String| Err(Refusal { reason, text });
    if running.node.stopping.has_begun() {
        return refuse(Reason::Busy, format!("node {} is stopping", running.node.identity.name));
    }
    // What it asks over a control connection is answered with the reason.
    if let Some(why) = running.node.peers.removed(hello.node)
        && hello.purpose != Purpose::Control
    {
        return refuse(Reason::Other, why);
    }
    if let Some(why) = running.node.peers.superseded(hello.node, hello.start)
        && !is_coordinators(running, hello)
    {
        return refuse(Reason::Superseded, why);
    }
    match hello.purpose {
        Purpose::Replication { .. } if !running.node.admission.may_serve_replicas() => {
            let why = "is not admitted by the coordinator yet: see its `evenkeel node status`";
            refuse(Reason::Busy, format!("node {} {why}", running.node.identity.name))
        }
        Purpose::Replication { replica, .. } => match running.node.disks.why_not_served(replica) {
            Some(why) => refuse(why.reason(), why.to_string()),
            None => Ok(()),
        },
        Purpose::Control => Ok(()),
    }
}

/// Whether the connection is for the coordinator here, which itself tells a superseded start so.
fn is_coordinators(running: &Running, hello: &Hello) -> bool {
    running.embedded.is_some() && hello.purpose == Purpose::Control
}

async fn serve(proved: Proved, from: String, served: &Served) {
    let running = &served.running;
    let Proved { stream, guest, standing, share } = proved;
    match guest.purpose {
        Purpose::Control => {
            let Guest { node, name, start, .. } = guest;
            let caller = Caller { node, name, start, at: from };
            let router = match standing {
                Standing::Current => served.control.clone(),
                Standing::Expired => served.renewal.clone(),
            };
            let until_it_ends = http::serve_as(caller, stream, router, http::NODE_DEADLINE);
            let _ = running.node.unless_stopping(until_it_ends).await;
            drop(share);
        }
        Purpose::Replication { volume, replica } => match stream.into_connection() {
            Ok(connection) => {
                running.node.data.engine().accept_link(volume, replica, guest.node, connection);
                running.node.member.cut_removed(guest.node);
            }
            Err(error) => {
                tracing::warn!(peer = %guest.name, %error, "cannot hand over a connection")
            }
        },
    }
}

//! NBD for clients: a unix socket for each export, and TCP addresses on which exports are chosen
//! by name.
//!
//! The handshake is done here (its state machine is in the `exports` crate), with TLS if the
//! configuration demands it; then the socket goes to the engine.

mod clients;
mod proof;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::VolumeId;
use evenkeel_engine::{EngineError, FrontendId, FrontendMaker};
use evenkeel_exports::nbd::{Export, Exports, Handshake, Negotiated, Progress, Tls, front_end};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::data_path::DataPath;
use crate::http;
use crate::log_limit::LogLimit;
use crate::peer::stream::{Encrypted, PeerStream};
use crate::peer::tls::{ClientTls, CurrentTls};
use crate::seats::{Seats, Source};
use crate::stopping::Stopping;

use clients::{Clients, Offered, Reported};
use proof::{Client, Proof};

/// How long a client may take to choose an export.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Clients that have not yet chosen; beyond, older ones give way.
const MAX_CHOOSING: usize = 256;
/// The name of NBD's front ends begins with this.
pub const FRONTEND: &str = "nbd ";
/// What they are in the log.
const CLIENT: &str = "an NBD client";
/// Bytes that are received at once during the handshake.
const PIECE: usize = 4096;

/// What is served, and where.
pub struct NbdServer {
    served: Mutex<BTreeMap<String, Served>>,
    /// How many exports were made, without those that took the place of others.
    made: AtomicU64,
    bound: Bound,
    /// Where clients that have chosen are served.
    data: DataPath,
    choosing: Arc<Seats>,
    clients: Arc<Clients>,
    log: Arc<LogLimit>,
}

/// Where clients come to, and what they have to show there.
pub struct Bound {
    /// TCP addresses.
    tcp: Vec<String>,
    proof: Proof,
    directory: PathBuf,
    max_clients: usize,
}

struct Served {
    export: Export,
    /// Tells it apart from others of its name, before and after it. What takes its place has the
    /// same.
    number: u64,
    /// On TCP for these clients, or for all if none is named; `None`: not on TCP.
    tcp: Option<Vec<String>>,
    socket: PathBuf,
    accepting: JoinHandle<()>,
}

/// An export that a client can choose.
struct Offer {
    export: Export,
    /// As [`Served`] has it.
    number: u64,
    /// The names of the clients that may use it; none: all.
    permitted: Vec<String>,
}

/// The exports that a client on one socket can choose from.
struct Choice {
    offers: Vec<Offer>,
    client: Client,
    /// On a unix socket of its own, an export is chosen by the empty name too.
    default: bool,
    clients: Arc<Clients>,
    source: Source,
    log: Arc<LogLimit>,
}

impl Exports for Choice {
    fn find(&self, name: &str) -> Option<Export> {
        let is_it = |export: &&Export| match self.default {
            true if name.is_empty() => true,
            _ => export.name == name,
        };
        self.offers.iter().map(|offer| &offer.export).find(is_it).cloned()
    }

    fn list(&self) -> Vec<Export> {
        let admitted =
            self.offers.iter().filter(|offer| self.client.may_use(Some(&offer.permitted)));
        admitted.map(|offer| offer.export.clone()).collect()
    }

    fn admits(&self, export: &Export) -> bool {
        let is_admitted =
            self.chosen(export).is_some_and(|offer| self.client.may_use(Some(&offer.permitted)));
        if !is_admitted && let Some(left_out) = self.log.line(self.source) {
            tracing::warn!(
                volume = export.name,
                "refused an NBD client: its certificate names none of the export's clients{left_out}"
            );
        }
        is_admitted
    }

    fn has_room(&self, export: &Export) -> bool {
        let room = self.clients.has_room(export.volume);
        if !room && let Some(left_out) = self.log.line(self.source) {
            let most = self.clients.most();
            tracing::warn!(
                volume = export.name,
                most,
                "refused an NBD client: the volume has as many as nbd.max_clients permits{left_out}"
            );
        }
        room
    }
}

impl Choice {
    /// What is offered as this export.
    fn chosen(&self, export: &Export) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.export.name == export.name)
    }
}

impl Bound {
    /// Binds the TCP addresses, if any are configured. `own`: this node's own certificate.
    ///
    /// # Errors
    /// If one is in use, or the certificates cannot be read.
    pub async fn bind(
        config: &Config,
        own: &CurrentTls,
    ) -> Result<(Self, Vec<TcpListener>), String> {
        let proof = Proof::of(config, own)?;
        let mut listeners = Vec::new();
        let mut tcp = Vec::new();
        for address in &config.nbd.listen {
            let listener = http::bind_tcp(address, "nbd.listen").await?;
            tcp.push(listener.local_addr().map_err(|e| e.to_string())?.to_string());
            listeners.push(listener);
        }
        let (directory, max_clients) = (config.runtime.join("nbd"), config.nbd.max_clients);
        Ok((Self { tcp, proof, directory, max_clients }, listeners))
    }
}

impl NbdServer {
    /// A server that exports nothing yet.
    #[must_use]
    pub fn new(bound: Bound, data: DataPath) -> Arc<Self> {
        let clients = Clients::new(bound.max_clients);
        Arc::new(Self {
            served: Mutex::default(),
            made: AtomicU64::new(0),
            bound,
            data,
            choosing: Seats::new(MAX_CHOOSING, "NBD clients that have not chosen an export"),
            clients,
            log: Arc::default(),
        })
    }

    /// The TCP addresses, as bound.
    #[must_use]
    pub fn tcp(&self) -> &[String] {
        &self.bound.tcp
    }

    /// Whether clients on TCP speak TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.bound.proof.is_tls()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The unix socket of an export.
    #[must_use]
    pub fn socket(&self, name: &str) -> PathBuf {
        self.bound.directory.join(format!("{name}.sock"))
    }

    /// Serves an export on its unix socket, and on TCP if asked for: to these clients, or to all if
    /// none is named. An export of the same name is replaced, and those of its clients leave that
    /// this one is not for, or that may write what this one only lets them read; if that fails it
    /// is served as before.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub async fn export(
        self: &Arc<Self>,
        export: Export,
        tcp: Option<Vec<String>>,
    ) -> Result<(), String> {
        let socket = self.socket(&export.name);
        if socket.as_os_str().len() > 107 {
            return Err(format!(
                "the socket's path {} is longer than the 107 bytes that the kernel permits; shorten `runtime`",
                socket.display()
            ));
        }
        let before = self.lock().get(&export.name).map(|served| served.number);
        let number = before.unwrap_or_else(|| self.made.fetch_add(1, Ordering::Relaxed));
        // What is served is served until this is.
        let is_served = before.is_some();
        let place = if is_served { socket.with_extension("new") } else { socket.clone() };
        let listener = http::bind_unix(&place, 0o600).await?;
        if is_served {
            let failed = |e| format!("cannot listen on {}: {e}", socket.display());
            std::fs::rename(&place, &socket).map_err(failed)?;
        }
        let accepting = tokio::spawn(accept_unix(listener, self.clone(), export.clone(), number));
        let served = Served { tcp, socket, accepting, export, number };
        let name = served.export.name.clone();
        if let Some(before) = self.lock().insert(name.clone(), served) {
            before.accepting.abort();
        }
        self.end_unwanted(&name).await;
        Ok(())
    }

    /// Ends the connections of clients that may not use an export any more as they do.
    async fn end_unwanted(&self, name: &str) {
        let now = |served: &Served| (served.export.clone(), served.tcp.clone());
        // It was unexported meanwhile, which ends all of them.
        let Some((Export { volume, read_only, .. }, tcp)) = self.lock().get(name).map(now) else {
            return;
        };
        for frontend in self.clients.unwanted(volume, Offered { on_tcp: tcp.as_deref(), read_only })
        {
            tracing::info!(
                volume = name,
                read_only,
                "ended the connection of an NBD client that the export is not for any more, or that may write what is read-only now"
            );
            // It may have ended by itself meanwhile.
            let _ = self.data.remove_frontend(volume, frontend).await;
        }
    }

    /// Takes no new clients for an export any more. Those that are connected stay.
    pub fn unexport(&self, name: &str) {
        if let Some(served) = self.lock().remove(name) {
            served.accepting.abort();
            // Gone already is as good.
            let _ = std::fs::remove_file(served.socket);
        }
    }

    /// Takes no new clients for any export any more.
    pub fn stop(&self) {
        let names: Vec<String> = self.lock().keys().cloned().collect();
        for name in names {
            self.unexport(&name);
        }
    }

    /// The exports of all volumes that may be chosen on TCP.
    ///
    /// # Errors
    /// If nobody can be served there yet.
    fn on_tcp(&self, source: Source) -> Result<Choice, &'static str> {
        let tls = self.bound.proof.now()?;
        let on_tcp = |served: &Served| {
            let (export, permitted) = (served.export.clone(), served.tcp.clone()?);
            Some(Offer { export, number: served.number, permitted })
        };
        let offers = self.lock().values().filter_map(on_tcp).collect();
        let (clients, log) = (self.clients.clone(), self.log.clone());
        let client = Client::Tcp { tls, certificate: None };
        Ok(Choice { offers, client, default: false, clients, source, log })
    }

    fn say_closed(&self, source: Source, from: &str, why: &str) {
        if let Some(left_out) = self.log.line(source) {
            tracing::warn!(from, why, "closed the connection of an NBD client{left_out}");
        }
    }

    /// The one export of a unix socket.
    fn alone(&self, export: Export, number: u64, source: Source) -> Choice {
        let (clients, log) = (self.clients.clone(), self.log.clone());
        let offers = vec![Offer { export, number, permitted: Vec::new() }];
        Choice { offers, client: Client::Unix, default: true, clients, source, log }
    }

    /// Has the engine serve a client, if what it has chosen is served still, and for it. `None`: it
    /// is not. Whoever ends or changes an export does so under the same lock, and then orders the
    /// engine to remove clients: those that it was given before, and there are no others.
    fn hand_over(
        &self,
        name: &str,
        number: u64,
        client: &Reported,
        new: NewFrontend,
    ) -> Option<impl Future<Output = Result<(), EngineError>> + use<>> {
        let NewFrontend { volume, id, called, maker } = new;
        let all = self.lock();
        let is_it = |served: &&Served| (served.export.volume, served.number) == (volume, number);
        let served = all.get(name).filter(is_it)?;
        let (on_tcp, read_only) = (served.tcp.as_deref(), served.export.read_only);
        let is_for_it = client.may_use(Offered { on_tcp, read_only });
        is_for_it.then(|| self.data.add_frontend(volume, id, called, maker))
    }
}

/// What serves a client in the engine.
struct NewFrontend {
    volume: VolumeId,
    id: FrontendId,
    /// What it is called for people.
    called: String,
    maker: FrontendMaker,
}

async fn accept_unix(listener: UnixListener, server: Arc<NbdServer>, export: Export, number: u64) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match Source::of(&stream) {
                Ok(source) => {
                    let choice = server.alone(export.clone(), number, source);
                    greet(&server, PeerStream::Unix(stream), "unix socket".into(), choice);
                }
                Err(error) => http::accept_failed(CLIENT, &error).await,
            },
            Err(error) => http::accept_failed(CLIENT, &error).await,
        }
    }
}

/// Accepts clients on a TCP address until the daemon ends.
pub async fn accept_tcp(listener: TcpListener, server: Arc<NbdServer>, stopping: Stopping) {
    let greet = |stream, from: SocketAddr| {
        let source = Source::from(from);
        match server.on_tcp(source) {
            Ok(choice) => greet(&server, PeerStream::Tcp(stream), from.to_string(), choice),
            Err(why) => server.say_closed(source, &from.to_string(), why),
        }
    };
    http::accept_tcp(listener, &stopping, CLIENT, greet).await;
}

/// Lets a client choose, in a task of its own.
fn greet(server: &Arc<NbdServer>, stream: PeerStream, from: String, choice: Choice) {
    let source = choice.source;
    let mut seat = server.choosing.take(source);
    let server = server.clone();
    tokio::spawn(async move {
        let chosen = tokio::select! {
            chosen = tokio::time::timeout(HANDSHAKE, choose(stream, choice)) => chosen,
            () = seat.gone() => return,
        };
        drop(seat);
        let why = match chosen {
            Ok(Ok(Some(chosen))) => return serve(&server, chosen, from, source).await,
            Ok(Ok(None)) => return tracing::debug!(%from, "an NBD client chose nothing"),
            Ok(Err(why)) => why,
            Err(_) => "it did not choose in time".to_owned(),
        };
        server.say_closed(source, &from, &why);
    });
}

/// A client that has chosen an export.
struct Chosen {
    stream: PeerStream,
    negotiated: Negotiated,
    /// Of the export, as [`Served`] has it.
    number: u64,
    client: Client,
}

/// Drives the handshake. `None`: the client wants nothing.
async fn choose(mut stream: PeerStream, mut choice: Choice) -> Result<Option<Chosen>, String> {
    let mut out = Vec::new();
    let tls = choice.client.tls();
    let demand = if tls.is_some() { Tls::Required } else { Tls::Off };
    let mut handshake = Handshake::new(demand, &mut out);
    let mut piece = [0; PIECE];
    loop {
        stream.write_all(&out).await.map_err(|e| e.to_string())?;
        stream.flush().await.map_err(|e| e.to_string())?;
        out.clear();
        let length = stream.read(&mut piece).await.map_err(|e| e.to_string())?;
        if length == 0 {
            return Ok(None);
        }
        let progress = handshake.receive(&piece[..length], &choice, &mut out);
        match progress.map_err(|e| e.to_string())? {
            Progress::More => {}
            Progress::StartTls => {
                stream.write_all(&out).await.map_err(|e| e.to_string())?;
                out.clear();
                stream = start_tls(stream, tls.as_ref()).await?;
                choice.client.has_shown(stream.certificate());
                handshake.tls_started();
            }
            Progress::Ready(negotiated) => {
                stream.write_all(&out).await.map_err(|e| e.to_string())?;
                stream.flush().await.map_err(|e| e.to_string())?;
                let Some(number) = choice.chosen(&negotiated.export).map(|offer| offer.number)
                else {
                    return Ok(None);
                };
                let client = choice.client;
                return Ok(Some(Chosen { stream, negotiated: *negotiated, number, client }));
            }
            Progress::Ended => {
                stream.write_all(&out).await.map_err(|e| e.to_string())?;
                stream.flush().await.map_err(|e| e.to_string())?;
                return Ok(None);
            }
        }
    }
}

async fn start_tls(stream: PeerStream, tls: Option<&ClientTls>) -> Result<PeerStream, String> {
    match (stream, tls) {
        (PeerStream::Tcp(stream), Some(tls)) => {
            let stream = Encrypted::accept(stream, &tls.server).await;
            let stream = stream.map_err(|e| format!("TLS: {e}{}", advice(&e)))?;
            Ok(PeerStream::Tls(Box::new(stream)))
        }
        _ => Err("TLS is not to be had here".into()),
    }
}

/// What a client has to do that the TLS library turned away.
fn advice(error: &std::io::Error) -> &'static str {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)) => {
            "; a client has to show a certificate that nbd.tls.authority has signed, or without [nbd.tls] the cluster's authority (`evenkeel client certificate`)"
        }
        _ => "",
    }
}

/// Hands a client over to the engine.
async fn serve(server: &Arc<NbdServer>, chosen: Chosen, from: String, source: Source) {
    let Chosen { stream, negotiated, number, client } = chosen;
    let volume: VolumeId = negotiated.export.volume;
    let name = negotiated.export.name.clone();
    let id = server.data.next_frontend();
    // Among several that choose at the same time, room for one was seen by all.
    let client = Reported { client, may_write: !negotiated.export.read_only };
    let Some(seat) = server.clients.admit(volume, id, client.clone()) else {
        if let Some(left_out) = server.log.line(source) {
            let most = server.clients.most();
            tracing::warn!(volume = name, %from, most, "closed the connection of an NBD client: the volume has as many as nbd.max_clients permits{left_out}");
        }
        return;
    };
    let socket = match stream.into_plain_fd() {
        Ok(socket) => socket,
        Err(error) => return tracing::warn!(%from, %error, "cannot hand over an NBD client"),
    };
    let maker = clients::seated(front_end(socket, negotiated), seat);
    let new = NewFrontend { volume, id, called: format!("{FRONTEND}{from}"), maker };
    let Some(added) = server.hand_over(&name, number, &client, new) else {
        let why = "its export has ended, or is not for it any more, since it chose that";
        return server.say_closed(source, &from, why);
    };
    match added.await {
        Ok(()) => tracing::info!(volume = name, %from, "an NBD client is connected"),
        Err(error) => {
            tracing::warn!(volume = name, %from, %error, "an NBD client cannot be served");
        }
    }
}

//! The daemon's life: start, serve, end.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::types::NodeRef;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::api::server;
use crate::certificates::{self, Issuer, renewal};
use crate::clock::unix_seconds;
use crate::cluster_name::ClusterName;
use crate::config::check::{open_nbd_address, open_nvme_address};
use crate::config::{Address, Config};
use crate::coordinator::handle::Membership;
use crate::coordinator::remote::Remote;
use crate::coordinator::{Coordinator as _, Embedded, Handle, Request};
use crate::disks::Disks;
use crate::engine_glue::{self, DataPath, Events};
use crate::identity::Identity;
use crate::listener::PeerListener;
use crate::nbd::{self, NbdServer};
use crate::node::Node;
use crate::nvme::{self, NvmeServer};
use crate::peer::{Credentials, Peers, tls};
use crate::state::StateDirectory;
use crate::tasks::Tasks;
use crate::volumes::attachment::{again, leftovers};
use crate::volumes::commands::{detach, unwritable};
use crate::volumes::replicas::sweep;
use crate::volumes::status::gone;
use crate::volumes::{Volumes, status};
use crate::{admission, disk_looks, http, late_disks, log, membership, own_directory, systemd};

/// How long the end may take: mounted devices are left, the rest detaches within this.
const END: Duration = Duration::from_secs(75);
/// How long changes that are under way may take at the end. What is cut off then is repaired as
/// after a crash.
const CHANGES: Duration = Duration::from_secs(10);

/// Why the daemon does not start. The text says what, why and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

impl From<String> for StartError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

fn failed(error: impl std::fmt::Display) -> StartError {
    StartError(error.to_string())
}

/// Threads that run the control plane's tasks.
const CONTROL_THREADS: usize = 2;

/// Runs a node until it is told to end by SIGTERM or SIGINT.
///
/// # Errors
/// If it cannot start.
pub fn run(config: Config) -> Result<(), StartError> {
    let _log = log::start(&config.log)?;
    // Before there are other threads: they inherit it.
    for missing in evenkeel_attach::prepare_data_path() {
        tracing::warn!("{missing}");
    }
    evenkeel_engine::memory::heap::limit_arenas(config.workers() + CONTROL_THREADS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(|e| failed(format!("cannot start threads: {e}")))?;
    let ended = runtime.block_on(async {
        let daemon = Daemon::start(config).await?;
        let superseded = tokio::select! {
            () = daemon.until_told() => None,
            why = admission::superseded(&daemon.node) => Some(why),
        };
        match superseded {
            None => daemon.stop().await,
            Some(_) => daemon.abandon().await,
        }
        superseded.map_or(Ok(()), |why| Err(StartError(why)))
    });
    // Whoever is still connected is cut off.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

/// A running daemon.
pub struct Daemon {
    node: Arc<Node>,
}

/// Sockets that are bound before anything is served, so that a port in use ends the start.
struct Listeners {
    api: UnixListener,
    metrics: Option<TcpListener>,
    peer: PeerListener,
    nbd: Vec<TcpListener>,
    nvme: Vec<TcpListener>,
}

impl Daemon {
    /// Starts a node.
    ///
    /// # Errors
    /// If the configuration does not hold, the state directory is in use, or a port is.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        config.check().map_err(failed)?;
        tls::install_provider();
        let state = Arc::new(StateDirectory::open(&config.state).map_err(failed)?);
        let identity = Identity::load_or_create(&state, config.node_name()).map_err(failed)?;
        let (credentials, issuer) = credentials(&config, &identity, &state)?;
        refuse_unproved(&config)?;
        own_directory::prepare_for_sockets("runtime", &config.runtime)?;
        let (peer, addresses) = PeerListener::bind(&config).await?;
        let (nbd, nbd_listeners) = NbdServer::bind(&config, &credentials.tls).await?;
        let (nvme, nvme_listeners) = NvmeServer::bind(&config).await?;
        let metrics = match &config.metrics.listen {
            Some(address) => Some(http::bind_tcp(address, "metrics.listen").await?),
            None => None,
        };
        let api = server::bind(&config).await?;
        let listeners = Listeners { api, metrics, peer, nbd: nbd_listeners, nvme: nvme_listeners };
        let (node, events, opened) =
            assemble(config, state, identity, (credentials, issuer), (nbd, nvme), addresses)
                .await?;
        node.open_replicas(opened).await;
        evenkeel_engine::memory::heap::give_back();
        warn_of_open_exports(&node);
        let lacking =
            [certificates::unproved(&node.config), certificates::serves_no_clients(&node.config)];
        lacking.into_iter().flatten().for_each(|why| tracing::warn!("{why}"));
        again::load(&node);
        serve(&node, listeners, events);
        let name = &node.identity.name;
        systemd::ready(&format!("node {name} serves"));
        tracing::info!(node = name, id = %node.identity.node, addresses = ?node.addresses, api = %node.config.api_socket().display(), "the node serves");
        Ok(Self { node })
    }

    /// The running parts.
    #[must_use]
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Returns when SIGTERM or SIGINT comes.
    pub async fn until_told(&self) {
        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => tracing::info!("told to end by SIGTERM"),
            _ = interrupt.recv() => tracing::info!("told to end by SIGINT"),
        }
    }

    /// Detaches what can be, and ends. What is mounted or open is left and said.
    pub async fn stop(self) {
        systemd::stopping();
        let end = async {
            if !self.node.tasks.finish(CHANGES).await {
                tracing::warn!("changes that were asked for have not ended yet");
            }
            detach::detach_all(&self.node).await;
        };
        if tokio::time::timeout(END, end).await.is_err() {
            tracing::warn!(
                "some volumes did not detach in time; they are made equal at the next attach"
            );
        }
        let node = self.node.clone();
        self.abandon().await;
        membership::say_goodbye(&node).await;
        tracing::info!("ended");
    }

    /// Ends as a killed process would, but for writes under way.
    pub async fn abandon(self) {
        halt(&self.node).await;
    }
}

/// Serves nothing from now on.
async fn halt(node: &Arc<Node>) {
    node.stopping.send_replace(true);
    node.nbd.stop();
    node.nvme.stop();
    // The files of the sockets are of no use any more; gone already is as good.
    let _ = std::fs::remove_file(node.config.api_socket());
    let at = node.clone();
    // It only waits for disks.
    let stop = move || {
        at.data.engine().stop();
        at.disks.remember_files();
    };
    let _ = tokio::task::spawn_blocking(stop).await;
}

/// Another start speaks for this node: this one serves nothing more.
async fn halt_if_superseded(node: Arc<Node>) {
    let mut stopping = node.stopping.subscribe();
    let is_superseded = tokio::select! {
        _ = admission::superseded(&node) => true,
        _ = stopping.wait_for(|stopping| *stopping) => false,
    };
    if is_superseded {
        halt(&node).await;
    }
}

/// The configuration has permitted it; the status tells it all the same.
fn warn_of_open_exports(node: &Node) {
    if let Some(address) = open_nbd_address(&node.config) {
        node.warn(format!(
            "nbd.listen = {address:?} is reachable from other machines and nbd.insecure is set: whoever reaches it can read and write volumes exported on TCP; take nbd.insecure away, and they show certificates"
        ));
    }
    if let Some(address) = open_nvme_address(&node.config)
        && node.config.nvme.insecure
    {
        node.warn(format!(
            "nvme.listen = {address:?} is reachable from other machines and nvme.insecure is set: whoever reaches it and calls itself as a host without a key can read and write the volumes that are exported to that host; give hosts keys (`evenkeel export nvme NAME --host NQN --generate-key`) and take nvme.insecure away"
        ));
    }
}

/// One that serves the coordinator is not joined to anything: it would wait for its certificate for
/// ever.
fn refuse_unproved(config: &Config) -> Result<(), StartError> {
    match certificates::unproved(config) {
        Some(why) if config.coordinator.here => Err(StartError(why)),
        _ => Ok(()),
    }
}

fn credentials(
    config: &Config,
    identity: &Identity,
    state: &StateDirectory,
) -> Result<(Credentials, Option<Issuer>), StartError> {
    let (tls, issuer) = match &config.peer.tls {
        Some(files) => (Some(tls::PeerTls::load(files)?), None),
        None => match certificates::open(state, &identity.name, identity.node)? {
            Some(own) => (Some(own.tls), own.issuer),
            None => (None, None),
        },
    };
    let credentials = Credentials {
        node: identity.node,
        name: identity.name.clone(),
        start: identity.start.id(),
        cluster: ClusterName::load(state, &config.cluster).map_err(failed)?,
        tls: tls.into(),
        epoch: Arc::default(),
    };
    Ok((credentials, issuer))
}

async fn assemble(
    config: Config,
    state: Arc<StateDirectory>,
    identity: Identity,
    (credentials, issuer): (Credentials, Option<Issuer>),
    (nbd, nvme): (NbdServer, Arc<NvmeServer>),
    addresses: Vec<String>,
) -> Result<(Arc<Node>, Events, Vec<crate::disks::OpenReplica>), StartError> {
    let reference = NodeRef { id: identity.node.to_string(), name: identity.name.clone() };
    let (disks, opened) = Disks::open(state.clone(), reference).map_err(failed)?;
    let remembered: Membership = state.load(membership::FILE).map_err(failed)?.unwrap_or_default();
    let peers = Arc::new(Peers::new(credentials.clone()));
    let (coordinator, embedded) =
        coordinator(&config, &state, &identity, &addresses, &peers, remembered).await?;
    if let Some(embedded) = &embedded {
        // Its database knows best, should this node have died while the cluster was renamed.
        credentials.cluster.set(&state, &embedded.cluster()).map_err(failed)?;
    }
    let (data, events) = DataPath::start(&config).map_err(|e| {
        failed(format!("cannot start the data path: {e}; io_uring is needed (Linux 6.1 or later, and not forbidden by kernel.io_uring_disabled or a container's seccomp profile)"))
    })?;
    let node = Node {
        config,
        identity,
        state,
        disks,
        coordinator,
        embedded,
        peers,
        credentials,
        issuer,
        data,
        tasks: Tasks::default(),
        volumes: Volumes::default(),
        nbd,
        nvme,
        started: unix_seconds(),
        addresses,
        stopping: watch::Sender::new(false),
        standing: watch::Sender::new(admission::Standing::Waiting(None)),
        warnings: std::sync::Mutex::default(),
    };
    if node.embedded.is_some() {
        admission::admit(&node);
    }
    node.peers.learn(&node.coordinator.nodes());
    let remembered = node.coordinator.membership();
    // Nobody is connected yet.
    let _ = node.peers.learn_removed(&remembered.removed);
    node.credentials.epoch.remember(remembered.epoch);
    if node.embedded.is_some() {
        membership::fetch(&node).await;
    }
    Ok((Arc::new(node), events, opened))
}

/// The coordinator here, or the way to the one that this node has joined.
async fn coordinator(
    config: &Config,
    state: &StateDirectory,
    identity: &Identity,
    addresses: &[String],
    peers: &Arc<Peers>,
    remembered: Membership,
) -> Result<(Handle, Option<Embedded>), StartError> {
    if !config.coordinator.here {
        let joined = remembered.address.clone();
        let handle = Handle::new(identity.name.clone(), remembered);
        if let Some(address) = joined {
            let address = Address::parse(&address)?;
            handle.set(Arc::new(Remote::new(peers.clone(), address.clone())), Some(&address));
        }
        return Ok((handle, None));
    }
    if let Some(address) = &remembered.address {
        return Err(failed(format!(
            "this node joined the cluster of {address}, and the configuration makes it the coordinator of one (`here = true`): take that key away, or use another state directory"
        )));
    }
    let expiry = Duration::from_secs(config.coordinator.expiry_seconds);
    let path = state.join("coordinator.redb");
    let embedded = Embedded::open(&path, &config.cluster, identity.node, expiry).map_err(failed)?;
    let handle = Handle::new(identity.name.clone(), remembered);
    handle.set(Arc::new(embedded.clone()), None);
    handle.set_id(embedded.id().to_string());
    let registration = membership::registration(identity, addresses, false);
    embedded.call(Request::Register(registration)).await.map_err(failed)?;
    if let Ok(crate::coordinator::Answer::Nodes(nodes)) = handle.call_once(Request::Nodes).await {
        handle.set_nodes(nodes);
    }
    Ok((handle, Some(embedded)))
}

fn serve(node: &Arc<Node>, listeners: Listeners, events: Events) {
    tokio::spawn(engine_glue::serve(node.clone(), events));
    listeners.peer.serve(node);
    tokio::spawn(server::serve(listeners.api, node.clone()));
    if let Some(metrics) = listeners.metrics {
        tokio::spawn(server::serve_metrics(metrics, node.clone()));
    }
    for listener in listeners.nbd {
        tokio::spawn(nbd::accept_tcp(listener, node.clone()));
    }
    for listener in listeners.nvme {
        tokio::spawn(nvme::accept(listener, node.clone()));
    }
    tokio::spawn(halt_if_superseded(node.clone()));
    tokio::spawn(membership::heartbeats(node.clone()));
    tokio::spawn(renewal::renewals(node.clone()));
    tokio::spawn(status::sample(node.clone()));
    tokio::spawn(systemd::watchdog(node.clone()));
    tokio::spawn(again::resume(node.clone()));
    tokio::spawn(leftovers::clean(node.clone()));
    tokio::spawn(sweep::sweeps(node.clone()));
    tokio::spawn(late_disks::reopen(node.clone()));
    tokio::spawn(disk_looks::looks(node.clone()));
    tokio::spawn(gone::watch(node.clone()));
    tokio::spawn(unwritable::watch(node.clone()));
}

//! The daemon's life: start, serve, end.

mod assembling;
mod coordinator;
mod listeners;

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use self::assembling::{Assembled, Start};
use self::listeners::Listeners;
use crate::access::Rights;
use crate::certificates::{self, Issuer, renewal};
use crate::config::Config;
use crate::config::check::{open_nbd_address, open_nvme_address};
use crate::peer::{Credentials, tls};
use crate::running::Running;
use crate::state::StateDirectory;
use crate::state::cluster_name::ClusterName;
use crate::state::identity::Identity;
use crate::volumes::attachment::{again, leftovers};
use crate::volumes::commands::{detach, unwritable};
use crate::volumes::replicas::{open, sweep};
use crate::volumes::{Node, status};
use crate::{disk_looks, engine_glue, late_disks, log, membership, systemd};

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
            () = daemon.until_reported() => None,
            why = daemon.node().admission.superseded() => Some(why),
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
    running: Running,
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
        certificates::check_name(&config, &state)?;
        let identity = Identity::load_or_create(&state, config.node_name()).map_err(failed)?;
        let (credentials, issuer) = credentials(&config, &identity, &state)?;
        refuse_unproved(&config)?;
        let rights = Arc::new(Rights::new(&config.api));
        let (listeners, bound) = Listeners::bind(&config, &rights, &credentials).await?;
        let start = Start { config, state, identity, rights, credentials, issuer, bound };
        let Assembled { running, events, opened } = start.assemble().await?;
        let node = &running.node;
        open::open_all(node, opened).await;
        evenkeel_engine::memory::heap::give_back();
        warn_of_open_exports(node);
        let lacking =
            [certificates::unproved(&node.config), certificates::serves_no_clients(&node.config)];
        lacking.into_iter().flatten().for_each(|why| tracing::warn!("{why}"));
        again::load(node);
        report_unknown_users(&running);
        tokio::spawn(engine_glue::serve(node.clone(), events));
        listeners.serve(&running);
        spawn_beside(&running);
        let name = &node.identity.name;
        systemd::ready(&format!("node {name} serves"));
        tracing::info!(node = name, id = %node.identity.node, addresses = ?node.member.addresses(), api = %node.config.api_socket().display(), "the node serves");
        Ok(Self { running })
    }

    /// What users and other nodes ask.
    #[must_use]
    pub const fn running(&self) -> &Running {
        &self.running
    }

    /// The node and its volumes.
    #[must_use]
    pub const fn node(&self) -> &Arc<Node> {
        &self.running.node
    }

    /// Returns when SIGTERM or SIGINT comes.
    pub async fn until_reported(&self) {
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
            if !self.running.tasks.finish(CHANGES).await {
                tracing::warn!("changes that were asked for have not ended yet");
            }
            detach::detach_all(self.node()).await;
        };
        if tokio::time::timeout(END, end).await.is_err() {
            tracing::warn!(
                "some volumes did not detach in time; they are made equal at the next attach"
            );
        }
        let node = self.node().clone();
        self.abandon().await;
        node.member.say_goodbye().await;
        tracing::info!("ended");
    }

    /// Ends as a killed process would, but for writes under way.
    pub async fn abandon(self) {
        halt(self.node()).await;
    }
}

/// Serves nothing from now on.
async fn halt(node: &Arc<Node>) {
    node.stopping.begin();
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
    if node.unless_stopping(node.admission.superseded()).await.is_some() {
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
        on_unix: config.listens_on_unix(),
    };
    Ok((credentials, issuer))
}

/// Names to which the configuration gives a right, and that mean nobody here. To look them up may
/// take long, where a server elsewhere knows the users.
fn report_unknown_users(running: &Running) {
    let (node, rights) = (running.node.clone(), running.rights.clone());
    let look = move || rights.unknown().into_iter().for_each(|why| node.warn(why));
    tokio::task::spawn_blocking(look);
}

/// What goes on beside requests until the node ends.
fn spawn_beside(running: &Running) {
    let node = &running.node;
    tokio::spawn(halt_if_superseded(node.clone()));
    tokio::spawn(membership::heartbeats(node.member.clone()));
    tokio::spawn(renewal::renewals(running.certificates.clone()));
    tokio::spawn(status::sample(node.clone()));
    tokio::spawn(systemd::watchdog(node.clone()));
    tokio::spawn(again::resume(node.clone()));
    tokio::spawn(leftovers::clean(node.clone()));
    tokio::spawn(sweep::sweeps(node.clone()));
    tokio::spawn(late_disks::reopen(node.clone()));
    tokio::spawn(disk_looks::looks(node.clone()));
    tokio::spawn(unwritable::watch(node.clone()));
}

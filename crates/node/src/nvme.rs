//! NVMe over TCP for hosts: each exported volume as a subsystem, and discovery beside them.
//!
//! A connection is led to its queue here (the machines are in the `exports` crate). An admin queue
//! is served by a task of the control plane; one for I/O goes to the engine.
//!
//! A name is what a host says of itself. A host that the export has keys of proves it before its
//! connection is a queue (`authentication`); others are let in on addresses of this machine alone,
//! unless the configuration permits more.

pub mod names;

mod authentication;
mod connection;
mod health;
mod places;
mod reserving;
mod target;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_api::types::NvmeHost;
use evenkeel_core::VolumeId;
use evenkeel_exports::nvme::controller::{Hosts, Notice, Subsystem};
use evenkeel_exports::nvme::discovery::{MAX_RECORDS, Record, RecordKind, Security};
use tokio::net::TcpListener;

use crate::config::Config;
use crate::data_path::DataPath;
use crate::http;
use crate::log_limit::LogLimit;
use crate::seats::{Seats, Source};
use crate::stopping::Stopping;

use authentication::Prover;
use connection::From;
use target::Target;
pub use target::{HostKeys, MAX_CONNECTIONS, Shown};

/// How long a host may take to send Connect and to prove who it is, both together.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections that are no queue yet; beyond, older ones give way.
const MAX_CHOOSING: usize = 256;

/// What is served, and where.
#[derive(Debug)]
pub struct NvmeServer {
    bound: Bound,
    /// Where queues for I/O are served.
    data: DataPath,
    volumes: Arc<dyn Exported>,
    exports: Mutex<BTreeMap<VolumeId, Served>>,
    discovery: Arc<Target>,
    choosing: Arc<Seats>,
    prover: Prover,
    log: LogLimit,
}

/// Where hosts come to.
#[derive(Debug)]
pub struct Bound(Vec<SocketAddr>);

/// What is asked of the volumes of this node.
pub trait Exported: fmt::Debug + Send + Sync {
    /// Whether a volume is meant to be exported here to this host, though it may not be yet.
    fn is_wanted(&self, volume: VolumeId, host: &str) -> bool;

    /// The name of a volume that is attached here.
    fn name(&self, volume: VolumeId) -> Option<String>;
}

/// An export; or one that has ended and whose last queues have not.
#[derive(Debug)]
struct Served {
    target: Arc<Target>,
    generation: u64,
    /// `None`: it has ended.
    hosts: Option<Vec<String>>,
}

/// Where a subsystem is.
enum Found {
    Here(Arc<Target>),
    /// It is meant to be here, and is not yet.
    Soon,
    Nowhere,
}

impl Bound {
    /// Binds the addresses, if any are configured.
    ///
    /// # Errors
    /// If one is in use.
    pub async fn bind(config: &Config) -> Result<(Self, Vec<TcpListener>), String> {
        let (mut listeners, mut listen) = (Vec::new(), Vec::new());
        for address in &config.nvme.listen {
            let listener = http::bind_tcp(address, "nvme.listen").await?;
            listen.push(listener.local_addr().map_err(|e| e.to_string())?);
            listeners.push(listener);
        }
        Ok((Self(listen), listeners))
    }
}

impl NvmeServer {
    /// A server that exports nothing yet.
    #[must_use]
    pub fn new(bound: Bound, data: DataPath, volumes: Arc<dyn Exported>) -> Arc<Self> {
        Arc::new(Self {
            bound,
            data,
            volumes,
            exports: Mutex::default(),
            discovery: Arc::new(Target::discovery()),
            choosing: Seats::new(MAX_CHOOSING, "NVMe connections that are no queue yet"),
            prover: Prover::default(),
            log: LogLimit::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<VolumeId, Served>> {
        self.exports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses, as bound.
    #[must_use]
    pub fn listen(&self) -> &[SocketAddr] {
        &self.bound.0
    }

    /// Exports a volume to these hosts; those with keys have to prove who they are. One that is
    /// exported already is from now on for these; others are disconnected. `generation`: which its
    /// attachment follows.
    ///
    /// # Errors
    /// If hosts could not discover it any more.
    pub fn export(
        &self,
        volume: VolumeId,
        generation: u64,
        hosts: &[String],
        keys: HostKeys,
        shown: Shown,
    ) -> Result<(), String> {
        let mut exports = self.lock();
        exports.retain(|_, served| served.hosts.is_some() || !served.target.is_idle());
        let others = exports.iter().filter(|(id, it)| **id != volume && it.hosts.is_some()).count();
        let most = MAX_RECORDS / self.bound.0.len().max(1);
        if others >= most {
            return Err(format!(
                "{most} volumes are exported on the addresses of nvme.listen: hosts could not discover more"
            ));
        }
        let is_read_only = shown.is_read_only;
        // Queues that have not ended keep their controllers' identifiers.
        let is_same = |served: &&mut Served| served.generation == generation;
        let target = match exports.get_mut(&volume).filter(is_same) {
            Some(served) => served.target.clone(),
            None => Arc::new(Target::volume(volume, generation, shown)),
        };
        target.permit(hosts, keys, is_read_only);
        let served = Served { target, generation, hosts: Some(hosts.to_vec()) };
        if let Some(before) = exports.insert(volume, served)
            && before.generation != generation
        {
            // Nobody who is about to prove himself there gets in any more, either.
            before.target.permit(&[], HostKeys::new(), is_read_only);
            before.target.end();
        }
        self.report(&exports);
        Ok(())
    }

    /// Ends an export: queues are closed, after what the volume has begun for them. Returns whether
    /// there was one.
    pub fn unexport(&self, volume: VolumeId) -> bool {
        let mut exports = self.lock();
        let Some(served) = exports.get_mut(&volume) else { return false };
        let was_exported = served.hosts.take().is_some();
        served.target.permit(&[], HostKeys::new(), false);
        exports.retain(|_, served| served.hosts.is_some() || !served.target.is_idle());
        if was_exported {
            self.report(&exports);
        }
        was_exported
    }

    /// Ends all connections.
    pub fn stop(&self) {
        let exports = self.lock();
        for target in exports.values().map(|served| &served.target).chain([&self.discovery]) {
            target.end();
        }
    }

    /// Tells hosts what they can discover now.
    fn report(&self, exports: &BTreeMap<VolumeId, Served>) {
        let mut records = Vec::new();
        for (volume, served) in exports {
            let Some(hosts) = &served.hosts else { continue };
            for (port, address) in (1..).zip(&self.bound.0) {
                records.push(Record {
                    kind: RecordKind::Volume,
                    subsystem: names::subsystem(*volume),
                    port,
                    address: *address,
                    security: Security::None,
                    hosts: Hosts::named(hosts.iter().cloned()),
                });
            }
        }
        // An export that would be one too many was refused.
        if let Err(error) = self.discovery.replace(records) {
            tracing::warn!(%error, "NVMe hosts discover what was exported before");
        }
    }

    /// A volume has become larger: its hosts are told.
    pub fn grown(&self, volume: VolumeId) {
        if let Some(served) = self.lock().get(&volume) {
            served.target.notify(Notice::Namespace);
        }
    }

    /// The hosts that are connected to a volume.
    #[must_use]
    pub fn hosts(&self, volume: VolumeId) -> Vec<NvmeHost> {
        self.lock().get(&volume).map(|served| served.target.hosts()).unwrap_or_default()
    }

    /// The subsystem of this name, for a host.
    fn find(&self, subsystem: &str, host: &str) -> Found {
        if subsystem == Subsystem::DISCOVERY {
            return Found::Here(self.discovery.clone());
        }
        let Some(volume) = names::volume(subsystem) else { return Found::Nowhere };
        let exported = self
            .lock()
            .get(&volume)
            .and_then(|served| served.hosts.is_some().then(|| served.target.clone()));
        match exported {
            Some(target) => Found::Here(target),
            // A host that is told that there is none gives up for good.
            None if self.volumes.is_wanted(volume, host) => Found::Soon,
            None => Found::Nowhere,
        }
    }

    fn say_closed(&self, from: From, why: &str) {
        if let Some(left_out) = self.log.line(from.source) {
            let from = from.address;
            tracing::warn!(%from, why, "closed the connection of an NVMe host{left_out}");
        }
    }

    fn say_refused(&self, from: From, host: &str, subsystem: &str, why: &str) {
        if let Some(left_out) = self.log.line(from.source) {
            let from = from.address;
            tracing::warn!(%from, host, subsystem, why, "refused an NVMe host{left_out}");
        }
    }
}

/// Accepts hosts on an address until the daemon ends.
pub async fn accept(listener: TcpListener, server: Arc<NvmeServer>, stopping: Stopping) {
    let greet = |stream, address: SocketAddr| {
        connection::greet(&server, stream, From { address, source: Source::from(address) });
    };
    http::accept_tcp(listener, &stopping, "an NVMe host", greet).await;
}

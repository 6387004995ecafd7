//! The configuration file: TOML, every key optional, unknown keys refused.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_core::settings::{LagSettings, Pauses};
use evenkeel_core::{Lease, Settings};
use serde::{Deserialize, Serialize};

pub mod check;
mod keys;
mod principal;
mod size;

pub use principal::{Called, Principal};
pub use size::ByteSize;

/// Where the configuration lies unless told otherwise.
pub const DEFAULT_PATH: &str = "/etc/evenkeel/evenkeel.toml";

/// The configuration of a node. `packaging/evenkeel.toml` describes every key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The node's name; `None`: the host's.
    pub name: Option<String>,
    /// The cluster's name: nodes of different clusters refuse each other.
    pub cluster: String,
    /// The state directory: identity, disks, attached volumes, the coordinator's database.
    pub state: PathBuf,
    /// The runtime directory: sockets.
    pub runtime: PathBuf,
    /// The log.
    pub log: LogConfig,
    /// The API.
    pub api: ApiConfig,
    /// Metrics over TCP.
    pub metrics: MetricsConfig,
    /// The listener for other nodes.
    pub peer: PeerConfig,
    /// The coordinator.
    pub coordinator: CoordinatorConfig,
    /// The data path.
    pub data: DataConfig,
    /// Times by which primaries and replicas work; the same on all nodes.
    pub times: TimesConfig,
    /// NBD clients.
    pub nbd: NbdConfig,
    /// Hosts of NVMe over TCP.
    pub nvme: NvmeConfig,
}

/// The log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// `error`, `warn`, `info`, `debug`, `trace`, or a filter as in `info,evenkeel_engine=debug`.
    pub level: String,
    /// The shape of a line.
    pub format: LogFormat,
}

/// The shape of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiConfig {
    /// The unix socket; `None`: `api.sock` in the runtime directory.
    pub socket: Option<PathBuf>,
    /// Who may see everything, besides root and the daemon's user: users by name or number, groups
    /// with `@` before it.
    pub view: Vec<Principal>,
    /// Who may also attach and detach volumes, and re-add replicas.
    pub operate: Vec<Principal>,
    /// Who may do everything.
    pub administer: Vec<Principal>,
}

/// Metrics over TCP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// `HOST:PORT` on which `/metrics` is served; `None`: on the API's socket only.
    pub listen: Option<String>,
    /// Listen on an address that other machines can reach: whoever reaches it reads the metrics.
    pub insecure: bool,
}

/// The listener for other nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerConfig {
    /// Addresses to listen on: `HOST:PORT` or `unix:PATH`; empty: `peer.sock` in the runtime
    /// directory. See [`Config::peer_listen`].
    pub listen: Vec<String>,
    /// Addresses by which others reach this node; empty: those of `listen`.
    pub advertise: Vec<String>,
    /// Certificates of an external authority, in place of those of the cluster's own.
    pub tls: Option<PeerTlsConfig>,
    /// Seconds within which a connection must have proved who it is.
    pub handshake_seconds: u64,
    /// Connections that have not yet proved who they are; more are closed at once.
    pub max_unauthenticated: usize,
}

/// Mutual TLS between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerTlsConfig {
    /// This node's certificate with its chain, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// The authority that signs all nodes' certificates, PEM.
    pub authority: PathBuf,
    /// Names of the nodes of the cluster, with `*` for any characters: an external authority may
    /// sign for others, too. Not empty: [`check`] refuses that.
    #[serde(default)]
    pub nodes: Vec<String>,
}

/// The coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoordinatorConfig {
    /// Whether this node serves it. One node of a cluster does.
    pub here: bool,
    /// The address of the coordinator's node, joined at the first start; `None`: by
    /// `evenkeel node join`.
    pub join: Option<String>,
    /// A node from which nothing came for so many seconds is dead: others may take its volumes
    /// over.
    pub expiry_seconds: u64,
}

/// The data path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Threads; `None`: as many as the machine has cores, at most 4.
    pub workers: Option<usize>,
    /// Most bytes of buffers that one volume may hold on this node.
    pub memory_per_volume: ByteSize,
    /// Most bytes of buffers of one thread.
    pub memory_per_worker: ByteSize,
    /// How long a thread polls at most before it sleeps, while peers talk to it, in microseconds.
    pub max_poll_us: u64,
}

/// Times by which primaries and replicas work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimesConfig {
    /// A replica that leaves a request unanswered for so long leaves the view, in milliseconds.
    pub deadline_ms: u64,
    /// Of new volumes: how long one confirmation of a replica permits a primary to answer reads, in
    /// milliseconds.
    pub lease_ms: u64,
    /// Of new volumes: added to the lease by replicas, for drifting clocks, in milliseconds.
    pub lease_margin_ms: u64,
    /// How long a lost connection may take to return before its replica leaves, in milliseconds.
    pub reconnect_grace_ms: u64,
    /// How long requests wait for a coordinator that does not answer, in seconds.
    pub coordinator_patience_seconds: u64,
    /// How many regions a rebuilding replica copies at once.
    pub concurrent_copies: usize,
    /// Percent of the time that a rebuild takes while clients are busy.
    pub rebuild_share: u32,
    /// After how long writes become stable without a flush of the client, and unused regions of the
    /// intent log are closed, in milliseconds.
    pub stabilize_after_ms: u64,
    /// Medians of writes are taken over so long, to find slow replicas.
    pub lag_window_ms: u64,
    /// How many times the fastest peer's median is slow; 0: nobody ever is.
    pub lag_times: u32,
    /// A median below this is never slow.
    pub lag_least_ms: u64,
    /// How long a slow replica stays away at first.
    pub lag_pause_seconds: u64,
    /// How long at most.
    pub lag_longest_pause_seconds: u64,
    /// How long a replica may be stale before a spare stands in for it, in milliseconds.
    pub spare_takes_over_after_ms: u64,
}

/// NBD clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NbdConfig {
    /// `HOST:PORT` addresses to listen on; empty: unix sockets only.
    pub listen: Vec<String>,
    /// Clients that one volume takes at once; more are refused.
    pub max_clients: usize,
    /// Listen on addresses that other machines can reach even if clients need not prove who they
    /// are.
    pub insecure: bool,
    /// Requires TLS on TCP.
    pub tls: Option<NbdTlsConfig>,
}

/// Hosts of NVMe over TCP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NvmeConfig {
    /// `HOST:PORT` addresses to listen on; empty: nothing is exported by NVMe.
    pub listen: Vec<String>,
    /// On an address that other machines can reach, let hosts in that have no key.
    pub insecure: bool,
}

/// TLS for NBD clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NbdTlsConfig {
    /// The server's certificate with its chain, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Clients must show a certificate signed by this authority, PEM; `None`: any client.
    #[serde(default)]
    pub authority: Option<PathBuf>,
}

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, if it came from one.
    pub path: Option<PathBuf>,
    /// What is wrong, why, and what to do.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: None,
            cluster: "evenkeel".into(),
            state: "/var/lib/evenkeel".into(),
            runtime: "/run/evenkeel".into(),
            log: LogConfig::default(),
            api: ApiConfig::default(),
            metrics: MetricsConfig::default(),
            peer: PeerConfig::default(),
            coordinator: CoordinatorConfig::default(),
            data: DataConfig::default(),
            times: TimesConfig::default(),
            nbd: NbdConfig::default(),
            nvme: NvmeConfig::default(),
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Text }
    }
}

impl Default for PeerConfig {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            advertise: Vec::new(),
            tls: None,
            handshake_seconds: 5,
            max_unauthenticated: 64,
        }
    }
}

impl Default for CoordinatorConfig {
    fn default() -> Self {
        Self { here: false, join: None, expiry_seconds: 10 }
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            workers: None,
            memory_per_volume: ByteSize(64 << 20),
            memory_per_worker: ByteSize(512 << 20),
            max_poll_us: 100,
        }
    }
}

impl Default for NbdConfig {
    fn default() -> Self {
        Self { listen: Vec::new(), max_clients: 64, insecure: false, tls: None }
    }
}

impl Default for TimesConfig {
    fn default() -> Self {
        let (settings, lease) = (Settings::default(), Lease::default());
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        Self {
            deadline_ms: ms(settings.deadline),
            lease_ms: ms(lease.time()),
            lease_margin_ms: ms(lease.margin()),
            reconnect_grace_ms: ms(settings.reconnect_grace),
            coordinator_patience_seconds: settings.coordinator_patience.as_secs(),
            concurrent_copies: settings.concurrent_copies,
            rebuild_share: settings.rebuild_share,
            stabilize_after_ms: ms(settings.stabilize_after),
            lag_window_ms: ms(settings.lag.window),
            lag_times: settings.lag.times,
            lag_least_ms: ms(settings.lag.least),
            lag_pause_seconds: settings.lag.pause.first.as_secs(),
            lag_longest_pause_seconds: settings.lag.pause.longest.as_secs(),
            spare_takes_over_after_ms: ms(settings.spare_takes_over_after),
        }
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// If it cannot be read, is not TOML, holds an unknown key, or fails [`Config::check`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let located = |message| ConfigError { path: Some(path.to_owned()), message };
        let text = std::fs::read_to_string(path)
            .map_err(|e| located(format!("cannot be read: {e}; name another file by --config")))?;
        Self::parse(&text).map_err(|e| located(e.message))
    }

    /// Reads and checks the text of a configuration.
    ///
    /// # Errors
    /// If it is not TOML, holds an unknown key, or fails [`Config::check`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let refuse = |message| ConfigError { path: None, message };
        let table: toml::Table = text.parse().map_err(|e| refuse(format!("not TOML: {e}")))?;
        keys::check(&table).map_err(refuse)?;
        let config: Self =
            toml::from_str(text).map_err(|e| refuse(keys::in_words(&e.to_string())))?;
        config.check()?;
        Ok(config)
    }

    /// Whether the values fit together. Touches neither files nor sockets.
    ///
    /// # Errors
    /// Names the key, what is wrong with it, and what to do.
    pub fn check(&self) -> Result<(), ConfigError> {
        check::check(self).map_err(|message| ConfigError { path: None, message })
    }

    /// The node's name: the configured one, else the host's.
    #[must_use]
    pub fn node_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let uname = rustix::system::uname();
            uname.nodename().to_string_lossy().into_owned()
        })
    }

    /// The API's unix socket.
    #[must_use]
    pub fn api_socket(&self) -> PathBuf {
        self.api.socket.clone().unwrap_or_else(|| self.runtime.join("api.sock"))
    }

    /// Where the node listens for others: by default on a unix socket, which only nodes of this
    /// machine reach that run as the same user or as root.
    #[must_use]
    pub fn peer_listen(&self) -> Vec<String> {
        match self.peer.listen.is_empty() {
            true => vec![format!("unix:{}", self.runtime.join("peer.sock").display())],
            false => self.peer.listen.clone(),
        }
    }

    /// Whether nodes of this machine reach this one on a unix socket.
    #[must_use]
    pub fn listens_on_unix(&self) -> bool {
        self.peer_listen().iter().any(|text| Address::parse(text).is_ok_and(|it| it.is_unix()))
    }

    /// Threads of the data path.
    #[must_use]
    pub fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from).min(4);
        self.data.workers.unwrap_or_else(cores)
    }

    /// The lease of volumes that are created here.
    #[must_use]
    pub fn lease(&self) -> Lease {
        let (time, margin) = (self.times.lease_ms, self.times.lease_margin_ms);
        let lease = Lease::new(Duration::from_millis(time), Duration::from_millis(margin));
        // A configuration that was checked has a possible one.
        lease.unwrap_or_default()
    }

    /// The core's settings.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let times = &self.times;
        Settings {
            deadline: Duration::from_millis(times.deadline_ms),
            reconnect_grace: Duration::from_millis(times.reconnect_grace_ms),
            coordinator_patience: Duration::from_secs(times.coordinator_patience_seconds),
            concurrent_copies: times.concurrent_copies,
            rebuild_share: times.rebuild_share,
            stabilize_after: Duration::from_millis(times.stabilize_after_ms),
            lag: LagSettings {
                window: Duration::from_millis(times.lag_window_ms),
                times: times.lag_times,
                least: Duration::from_millis(times.lag_least_ms),
                pause: Pauses::new(
                    Duration::from_secs(times.lag_pause_seconds),
                    Duration::from_secs(times.lag_longest_pause_seconds),
                ),
            },
            spare_takes_over_after: Duration::from_millis(times.spare_takes_over_after_ms),
            ..Settings::default()
        }
    }
}

/// Where a node listens or is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// `HOST:PORT`.
    Tcp(String),
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl Address {
    /// Reads `HOST:PORT`, `HOST` (port 7740) or `unix:PATH`.
    ///
    /// # Errors
    /// Says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            // The kernel's limit for the path of a unix socket.
            let fits = path.is_absolute() && path.as_os_str().len() <= 107;
            return fits.then_some(Self::Unix(path)).ok_or_else(|| {
                format!(
                    "{text:?} is not an address: unix: takes an absolute path of at most 107 bytes"
                )
            });
        }
        let (host, port) = split_port(text);
        let port: u16 = port.parse().map_err(|_| {
            format!("{text:?} is not an address: expected HOST:PORT (as in 10.0.0.1:7740, [fe80::1]:7740) or unix:PATH")
        })?;
        match host.is_empty() || host.contains(char::is_whitespace) {
            true => Err(format!(
                "{text:?} is not an address: the host is missing; 0.0.0.0 stands for all"
            )),
            false => Ok(Self::Tcp(format!("{host}:{port}"))),
        }
    }

    /// Whether it is a unix socket.
    #[must_use]
    pub const fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Whether only this machine can reach it. A host name counts only as what it resolves to.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.to_socket_addrs().is_ok_and(|mut found| {
                let found: Vec<SocketAddr> = found.by_ref().collect();
                !found.is_empty() && found.iter().all(|a| a.ip().is_loopback())
            }),
        }
    }
}

/// The host and the port of an address; the port is 7740 if there is none.
fn split_port(text: &str) -> (&str, &str) {
    let default = "7740";
    match text.rsplit_once(':') {
        // `::1` is a host alone, `[::1]:7740` a host with a port.
        Some((host, _)) if host.contains(':') && !host.starts_with('[') => (text, default),
        Some((host, port)) if !text.ends_with(']') => (host, port),
        _ => (text, default),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests;

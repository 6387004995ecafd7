//! Whether the values of a configuration fit together.

use std::ops::RangeInclusive;

use evenkeel_format::{NAME_RULE, NEW_NAME_RULE, is_name, is_new_name};
use tracing_subscriber::filter::LevelFilter;

use super::{Address, Config};

pub(super) fn check(config: &Config) -> Result<(), String> {
    names(config)?;
    log_level(&config.log.level)?;
    paths(config)?;
    addresses(config)?;
    coordinator(config)?;
    numbers(config)
}

fn names(config: &Config) -> Result<(), String> {
    let name = config.node_name();
    if !is_name(&name) {
        return Err(format!("name = {name:?} is not permitted: {NAME_RULE}"));
    }
    match is_name(&config.cluster) {
        true => Ok(()),
        false => Err(format!("cluster = {:?} is not permitted: {NAME_RULE}", config.cluster)),
    }
}

/// Why a new node may not have the name that is configured, or that the host has; one that has been
/// in a cluster under it keeps it.
pub(crate) fn unfit_for_new(config: &Config) -> Option<String> {
    let name = config.node_name();
    let why = || format!("name = {name:?} is not permitted for a new node: {NEW_NAME_RULE}");
    (!is_new_name(&name)).then(why)
}

/// A word that is no level would be taken for the name of a part of the program, and nothing be
/// logged.
fn log_level(text: &str) -> Result<(), String> {
    let is_known = |part: &str| part.contains('=') || part.trim().parse::<LevelFilter>().is_ok();
    match text.split(',').find(|part| !is_known(part)) {
        Some(part) => Err(format!(
            "log.level = {text:?}: {part:?} is no level; use error, warn, info, debug or trace, or a filter as in \"info,evenkeel_engine=debug\""
        )),
        None => Ok(()),
    }
}

fn paths(config: &Config) -> Result<(), String> {
    for (key, path) in [("state", &config.state), ("runtime", &config.runtime)] {
        if !path.is_absolute() {
            return Err(format!("{key} = {path:?} is not permitted: give an absolute path"));
        }
    }
    // The longest socket in the runtime directory is that of an export; the kernel permits 107.
    let longest = config.runtime.join("nbd").as_os_str().len() + "/x.sock".len();
    if longest > 107 || config.api_socket().as_os_str().len() > 107 {
        return Err(format!(
            "runtime = {:?} is too long: the path of a unix socket has at most 107 bytes; choose a shorter one",
            config.runtime
        ));
    }
    Ok(())
}

fn addresses(config: &Config) -> Result<(), String> {
    for text in &config.peer.listen {
        Address::parse(text).map_err(|e| format!("peer.listen: {e}"))?;
    }
    for text in config.peer.advertise.iter().chain(&config.coordinator.join) {
        Address::parse(text).map_err(|e| format!("peer.advertise, coordinator.join: {e}"))?;
    }
    let tcp = config.nbd.listen.iter().chain(&config.metrics.listen).chain(&config.nvme.listen);
    for text in tcp {
        match Address::parse(text)
            .map_err(|e| format!("nbd.listen, metrics.listen, nvme.listen: {e}"))?
        {
            Address::Tcp(_) => {}
            Address::Unix(_) => {
                return Err(format!(
                    "{text:?}: nbd.listen, metrics.listen and nvme.listen take HOST:PORT"
                ));
            }
        }
    }
    named_nodes(config)?;
    open_nbd(config)?;
    nvme(config)?;
    open_metrics(config)?;
    wildcard(config)
}

/// An external authority may sign for others than nodes: who is one has to be said.
fn named_nodes(config: &Config) -> Result<(), String> {
    match &config.peer.tls {
        Some(tls) if tls.nodes.is_empty() => Err(
            "[peer.tls] names no nodes: whoever has a certificate of that authority would be a member of the cluster; \
             name them, as in nodes = [\"n1\", \"n2\"], or with a pattern that nothing else fits, as in \
             nodes = [\"*.storage.example\"], the same on all nodes"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

/// Whether NBD clients on TCP show certificates of the cluster's own authority: they do where other
/// machines reach them and nothing else is said.
pub(crate) fn is_nbd_by_cluster(config: &Config) -> bool {
    let nbd = &config.nbd;
    nbd.tls.is_none() && !nbd.insecure && nbd.listen.iter().any(|text| !is_local(text))
}

/// Whether NBD clients on TCP show certificates, by which an export can name them. TLS alone does
/// not tell who a client is.
pub(crate) fn shows_nbd_certificates(config: &Config) -> bool {
    let has_authority = config.nbd.tls.as_ref().is_some_and(|tls| tls.authority.is_some());
    has_authority || is_nbd_by_cluster(config)
}

/// The first address on which whoever reaches it from another machine may read and write volumes.
pub(crate) fn open_nbd_address(config: &Config) -> Option<&str> {
    let mut listen = config.nbd.listen.iter().filter(|_| !shows_nbd_certificates(config));
    listen.find(|text| !is_local(text)).map(String::as_str)
}

fn open_nbd(config: &Config) -> Result<(), String> {
    if is_nbd_by_cluster(config) && config.peer.tls.is_some() {
        return Err(
            "nbd.listen has an address that other machines reach, and [peer.tls] names an external authority, so that \
             the cluster has none of its own for NBD clients: set [nbd.tls] with an `authority` that signs their \
             certificates, or say `insecure = true` under [nbd] if the network itself keeps strangers out"
                .to_owned(),
        );
    }
    match open_nbd_address(config) {
        Some(text) if !config.nbd.insecure => Err(format!(
            "nbd.listen = {text:?} is reachable from other machines, and whoever reaches it could read and write \
             the volumes exported on TCP: add an `authority` to [nbd.tls] that signs the clients' certificates; or \
             take [nbd.tls] away, then they show certificates of the cluster's own authority; or say \
             `insecure = true` under [nbd] if the network itself keeps strangers out"
        )),
        _ => Ok(()),
    }
}

/// The first address that other machines reach: an NVMe export there lets nobody in who has proved
/// nothing, unless `nvme.insecure` says so.
pub(crate) fn open_nvme_address(config: &Config) -> Option<&str> {
    config.nvme.listen.iter().find(|text| !is_local(text)).map(String::as_str)
}

fn nvme(config: &Config) -> Result<(), String> {
    match config.nvme.listen.len() {
        0..=MAX_NVME_ADDRESSES => Ok(()),
        many => Err(format!(
            "nvme.listen has {many} addresses, and {MAX_NVME_ADDRESSES} are possible: name fewer"
        )),
    }
}

/// Each export has a record for each address in what hosts can discover.
const MAX_NVME_ADDRESSES: usize = 16;

/// Metrics name volumes, nodes and disks, and tell how much they are used.
fn open_metrics(config: &Config) -> Result<(), String> {
    match &config.metrics.listen {
        Some(text) if !config.metrics.insecure && !is_local(text) => Err(format!(
            "metrics.listen = {text:?} is reachable from other machines, and whoever reaches it could read the metrics: \
             listen on 127.0.0.1, or say `insecure = true` under [metrics] if the network itself keeps strangers out"
        )),
        _ => Ok(()),
    }
}

/// Whether only this machine reaches an address.
pub(crate) fn is_local(text: &str) -> bool {
    Address::parse(text).is_ok_and(|address| address.is_local())
}

/// `0.0.0.0` is nowhere that others could reach.
fn wildcard(config: &Config) -> Result<(), String> {
    let nowhere = |text: &&String| text.starts_with("0.0.0.0") || text.starts_with("[::]");
    match config.peer.listen.iter().find(nowhere) {
        Some(text) if config.peer.advertise.is_empty() => Err(format!(
            "peer.listen = {text:?} does not say by which address others reach this node: set peer.advertise"
        )),
        _ => Ok(()),
    }
}

fn coordinator(config: &Config) -> Result<(), String> {
    match config.coordinator.here && config.coordinator.join.is_some() {
        true => {
            Err("coordinator.here and coordinator.join exclude each other: one node serves the \
                     coordinator, the others join it"
                .into())
        }
        false => Ok(()),
    }
}

/// Leases that a volume may have, in milliseconds.
pub(crate) const LEASE: RangeInclusive<u64> = 200..=120_000;
/// They are multiples of this.
pub(crate) const LEASE_STEP: u64 = 10;
/// What replicas may add to it, in milliseconds.
pub(crate) const MARGIN: RangeInclusive<u64> = 10..=60_000;

fn numbers(config: &Config) -> Result<(), String> {
    let within =
        |key: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(format!("{key} = {value} is not permitted: choose {least} to {most}")),
        };
    let times = &config.times;
    within("peer.handshake_seconds", config.peer.handshake_seconds, 1, 60)?;
    within("peer.max_unauthenticated", config.peer.max_unauthenticated as u64, 1, 4096)?;
    within("coordinator.expiry_seconds", config.coordinator.expiry_seconds, 3, 3600)?;
    within("nbd.max_clients", config.nbd.max_clients as u64, 1, 4096)?;
    within("data.workers", config.workers() as u64, 1, 64)?;
    within("data.memory_per_volume", config.data.memory_per_volume.0, 8 << 20, 1 << 40)?;
    within("data.max_poll_us", config.data.max_poll_us, 0, 1_000)?;
    within("data.memory_per_worker", config.data.memory_per_worker.0, 16 << 20, 1 << 40)?;
    within("times.deadline_ms", times.deadline_ms, 100, 60_000)?;
    within("times.lease_ms", times.lease_ms, *LEASE.start(), *LEASE.end())?;
    within("times.lease_margin_ms", times.lease_margin_ms, *MARGIN.start(), *MARGIN.end())?;
    if !times.lease_ms.is_multiple_of(LEASE_STEP) {
        let (key, lease) = ("times.lease_ms", times.lease_ms);
        return Err(format!("{key} = {lease} is not permitted: choose a multiple of {LEASE_STEP}"));
    }
    within("times.reconnect_grace_ms", times.reconnect_grace_ms, 0, 60_000)?;
    within("times.coordinator_patience_seconds", times.coordinator_patience_seconds, 1, 86_400)?;
    within("times.concurrent_copies", times.concurrent_copies as u64, 1, 64)?;
    within("times.rebuild_share", times.rebuild_share.into(), 1, 100)?;
    within("times.stabilize_after_ms", times.stabilize_after_ms, 100, 600_000)?;
    within("times.lag_window_ms", times.lag_window_ms, 100, 600_000)?;
    within("times.lag_times", times.lag_times.into(), 0, 10_000)?;
    within("times.lag_least_ms", times.lag_least_ms, 1, 600_000)?;
    let longest = times.lag_longest_pause_seconds;
    within("times.lag_pause_seconds", times.lag_pause_seconds, 1, longest.max(1))?;
    within("times.lag_longest_pause_seconds", longest, 1, 86_400)?;
    let spare_after = times.spare_takes_over_after_ms;
    within("times.spare_takes_over_after_ms", spare_after, 0, 30 * 86_400_000)?;
    match config.data.memory_per_worker < config.data.memory_per_volume {
        true => Err("data.memory_per_worker is less than data.memory_per_volume: raise it".into()),
        false => Ok(()),
    }
}

//! What a configuration needs of the machine: looked at without changing anything, also beside a
//! daemon that runs.

use std::net::ToSocketAddrs;
use std::path::Path;

use rustix::fs::{Access, access};

use crate::access::Rights;
use evenkeel_trust::invitation::fits;

use crate::certificates;
use crate::config::{Address, Config};
use crate::files::own_directory::{exposed, refusal};
use crate::peer::tls;

/// What is probably not meant so, and keeps no node from starting: whom `[api]` names and nobody
/// is, and a node that the others refuse. A sentence each.
#[must_use]
pub fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Rights::new(&config.api).unknown();
    warnings.extend(unlisted(config));
    warnings
}

/// That nodes with this configuration refuse this one.
fn unlisted(config: &Config) -> Option<String> {
    let (tls, name) = (config.peer.tls.as_ref()?, config.node_name());
    let is_listed = tls.nodes.iter().any(|pattern| fits(pattern, &name));
    (!is_listed).then(|| {
        format!("`nodes` under [peer.tls] does not name {name}, this node: others with the same list refuse it")
    })
}

/// What keeps a node from starting with this configuration on this machine, or from listening as it
/// says, a sentence each.
/// Whether its ports are free is seen only at the start.
#[must_use]
pub fn problems(config: &Config) -> Vec<String> {
    tls::install_provider();
    let peer_tls = config.peer.tls.as_ref().map(tls::PeerTls::load);
    let nbd_tls = config.nbd.tls.as_ref().map(tls::ClientTls::load);
    let mut problems: Vec<String> = [
        peer_tls.and_then(Result::err).map(|why| format!("peer.tls: {why}")),
        nbd_tls.and_then(Result::err).map(|why| format!("nbd.tls: {why}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if config.coordinator.here {
        problems.extend(certificates::unproved(config));
    }
    let peer_listen = config.peer_listen();
    let (nbd, nvme) = (&config.nbd.listen, &config.nvme.listen);
    let listened = [("peer.listen", &peer_listen), ("nbd.listen", nbd), ("nvme.listen", nvme)];
    for (key, addresses) in listened {
        problems.extend(addresses.iter().filter_map(|address| unresolved(key, address)));
    }
    let metrics = config.metrics.listen.as_deref();
    problems.extend(metrics.and_then(|address| unresolved("metrics.listen", address)));
    for (key, path) in [("state", &config.state), ("runtime", &config.runtime)] {
        problems.extend(unusable(key, path));
    }
    problems
}

/// Why nothing can listen on an address.
fn unresolved(key: &str, text: &str) -> Option<String> {
    let wrong = |why: String| Some(format!("{key} = {text:?}: {why}; give HOST:PORT"));
    match Address::parse(text) {
        Ok(Address::Unix(_)) => None,
        Ok(Address::Tcp(address)) => match address.to_socket_addrs() {
            Ok(found) if found.len() > 0 => None,
            Ok(_) => wrong("the host has no address".to_owned()),
            Err(error) => wrong(error.to_string()),
        },
        Err(why) => wrong(why),
    }
}

/// Why a directory cannot be written to, or made, or others could put files there.
fn unusable(key: &str, path: &Path) -> Option<String> {
    if let Ok(Some(why)) = exposed(path) {
        return Some(refusal(key, path, &why));
    }
    let there = path.ancestors().find(|part| part.exists())?;
    let why = if !there.is_dir() {
        "is no directory".to_owned()
    } else if let Err(error) = access(there, Access::WRITE_OK | Access::EXEC_OK) {
        format!("cannot be written to: {error}")
    } else {
        return None;
    };
    Some(format!("{key} = {path:?} cannot be used: {} {why}", there.display()))
}

#[cfg(test)]
mod tests;

//! The configuration file of a node, for the target `configuration`.

use std::net::{IpAddr, SocketAddr};

use evenkeel_node::Config;
use evenkeel_node::config::Address;

use crate::machines::script::Script;

/// Lines of which a file may be made.
const LINES: &[&str] = &[
    "[log]",
    "[api]",
    "[metrics]",
    "[peer]",
    "[peer.tls]",
    "[coordinator]",
    "[data]",
    "[times]",
    "[nbd]",
    "[nbd.tls]",
    "[nvme]",
    "name",
    "cluster",
    "state",
    "runtime",
    "level",
    "format",
    "socket",
    "group",
    "listen",
    "advertise",
    "handshake_seconds",
    "max_unauthenticated",
    "certificate",
    "key",
    "authority",
    "here",
    "join",
    "expiry_seconds",
    "workers",
    "memory_per_volume",
    "memory_per_worker",
    "deadline_ms",
    "lease_ms",
    "lease_margin_ms",
    "reconnect_grace_ms",
    "coordinator_patience_seconds",
    "concurrent_copies",
    "rebuild_share",
    "stabilize_after_ms",
    "lag_window_ms",
    "lag_times",
    "lag_least_ms",
    "lag_pause_seconds",
    "lag_longest_pause_seconds",
    "spare_takes_over_after_ms",
    "max_clients",
    "insecure",
];
const VALUES: &[&str] = &[
    "0",
    "1",
    "100",
    "5000",
    "-1",
    "9223372036854775807",
    "true",
    "false",
    "\"\"",
    "\"a\"",
    "\"/a\"",
    "\"64M\"",
    "\"99999999P\"",
    "\"json\"",
    "[]",
    "[\"127.0.0.1:7740\"]",
    "[\"0.0.0.0:0\"]",
    "[\"192.0.2.1:1\"]",
    "[\"[::1]\", \"unix:/a\"]",
    "\"unix:/run/e.sock\"",
    "\"127.0.0.1:1\"",
    "1.5",
    "{}",
];

/// A file out of the lines that a script chooses.
pub fn composed(script: &mut Script<'_>) -> String {
    let mut text = String::new();
    while !script.is_over() {
        let line = LINES[script.choose(LINES.len())];
        text.push_str(line);
        if !line.starts_with('[') {
            text.push_str(" = ");
            match script.byte() {
                byte @ 0..=191 => text.push_str(VALUES[usize::from(byte) % VALUES.len()]),
                byte => text.push_str(&script.near(1 << (byte - 192)).to_string()),
            }
        }
        text.push('\n');
    }
    text
}

/// Whether reading this file would look names up in the network.
pub fn looks_names_up(text: &str) -> bool {
    let Ok(config) = toml::from_str::<Config>(text) else { return false };
    let is_number = |text: &String| match Address::parse(text) {
        Ok(Address::Tcp(address)) => {
            let host = address.rsplit_once(':').map_or("", |(host, _)| host);
            address.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok()
        }
        _ => true,
    };
    !config.peer.listen.iter().chain(&config.nbd.listen).chain(&config.nvme.listen).all(is_number)
}

/// What is accepted is sound and means the same when it is written again; what is refused is told
/// by its name.
pub fn check(text: &str) {
    match Config::parse(text) {
        Ok(config) => {
            let again = toml::to_string(&config).expect("it can be written");
            assert_eq!(Config::parse(&again).as_ref(), Ok(&config), "{again}");
            check_values(&config);
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.len() > 10, "{message:?} says nothing");
            let is_read = toml::from_str::<Config>(text).is_ok();
            let names = |line: &&&str| message.contains(line.trim_matches(['[', ']']));
            assert!(!is_read || LINES.iter().any(|line| names(&line)), "{message:?} names no key");
        }
    }
}

/// What the parts of a node rely on.
fn check_values(config: &Config) {
    let settings = config.settings();
    let pause = settings.lag.pause;
    assert!(!settings.deadline.is_zero() && !settings.stabilize_after.is_zero());
    assert!(!config.lease().time().is_zero() && !config.lease().margin().is_zero());
    assert!((1..=100).contains(&settings.rebuild_share) && settings.concurrent_copies > 0);
    assert!(pause.first <= pause.longest && !settings.lag.window.is_zero());
    assert!(config.workers() > 0);
    assert!(config.api_socket().as_os_str().len() <= 107);
    let peer = config.peer_listen();
    assert!(!peer.is_empty());
    let tcp = config.nbd.listen.iter().chain(&config.nvme.listen).chain(&config.metrics.listen);
    for text in peer.iter().chain(tcp) {
        let address = Address::parse(text).expect("an address");
        assert_eq!(Address::parse(&address.to_string()), Ok(address.clone()), "{text}");
    }
}

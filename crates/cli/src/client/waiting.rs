//! What a request waits for, told on standard error when its answer takes longer than a moment:
//! once in a pipe or a log, in one line that is drawn anew on a terminal.

use std::convert::Infallible;
use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_api::routes;
use evenkeel_api::types::{ClusterNode, NodeAnswer, NodesAnswer, VolumeAnswer, VolumeState};
use hyper::Method;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use super::Client;
use crate::output::{harmless, span};

/// How long a request may take before anything is said of it.
pub const MOMENT: Duration = Duration::from_secs(2);
/// Between two looks at what holds it up, on a terminal.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the node may take to say what that is.
const POLL: Duration = Duration::from_secs(1);
/// A node that was heard later than this ago, in seconds, sends no heartbeats (one each second).
const SILENT: u64 = 4;

/// What a request asks the node for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    deed: String,
    /// The volume that it is about, as it stands in paths.
    volume: Option<String>,
}

impl Asked {
    /// Of a request by this method for this path.
    pub fn new(method: &Method, path: &str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').skip(2).collect();
        let volume = match parts[..] {
            ["volumes", volume, ..] => Some(volume.to_owned()),
            _ => None,
        };
        Self { deed: deed(method, &parts), volume }
    }
}

/// What the node is to do, as in `attach volume music`.
fn deed(method: &Method, parts: &[&str]) -> String {
    if method == Method::GET {
        return "answer".to_owned();
    }
    let changes = method == Method::PATCH;
    match *parts {
        ["volumes"] => "create the volume".to_owned(),
        ["volumes", volume] if changes => format!("change volume {volume}"),
        ["volumes", volume] => format!("delete volume {volume}"),
        ["volumes", volume, "replicas"] => format!("add a replica to volume {volume}"),
        ["volumes", volume, "replicas", _, action] => {
            format!("{action} a replica of volume {volume}")
        }
        ["volumes", volume, "exports", ..] => format!("change the exports of volume {volume}"),
        ["volumes", volume, "reservation"] => format!("change the reservation of volume {volume}"),
        ["volumes", volume, action] => format!("{action} volume {volume}"),
        ["assemble"] => "put volumes together from their disks".to_owned(),
        ["node", "join"] => "join the cluster".to_owned(),
        ["nodes", node] => format!("remove node {node}"),
        ["disks"] => "add the disk".to_owned(),
        ["disks", disk] => format!("remove disk {disk}"),
        _ => "answer".to_owned(),
    }
}

/// Tells, as long as it is polled, what a request waits for.
pub async fn report(client: &Client, asked: &Asked) -> Infallible {
    let begun = Instant::now();
    sleep(MOMENT).await;
    let is_redrawn = std::io::stderr().is_terminal();
    if !is_redrawn && client.reported.load(Ordering::Relaxed) {
        return std::future::pending().await;
    }
    let mut line = Line { is_redrawn, is_shown: false };
    loop {
        let reason = reason(client, asked).await;
        client.reported.store(true, Ordering::Relaxed);
        line.show(&sentence(asked, reason.as_deref(), begun.elapsed()));
        match is_redrawn {
            true => sleep(PAUSE).await,
            false => std::future::pending().await,
        }
    }
}

/// `waiting for the node to attach volume music (2 s): the coordinator does not answer`.
fn sentence(asked: &Asked, reason: Option<&str>, waited: Duration) -> String {
    let waited = span(Duration::from_secs(waited.as_secs()));
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("waiting for the node to {} ({waited}){reason}", asked.deed)
}

/// What holds a request up, as far as the node can say within a moment.
async fn reason(client: &Client, asked: &Asked) -> Option<String> {
    let Some(node) = poll::<NodeAnswer>(client, routes::NODE).await else {
        return Some("it answers nothing at all; see its log (journalctl -u evenkeel)".to_owned());
    };
    if !node.node.coordinator.reachable {
        return Some("the coordinator does not answer".to_owned());
    }
    if let Some(reason) = of_volume(client, asked).await {
        return Some(reason);
    }
    let nodes: NodesAnswer = poll(client, routes::NODES).await?;
    silent(&nodes, now())
}

/// Why the volume that a request is about does not go on.
async fn of_volume(client: &Client, asked: &Asked) -> Option<String> {
    let volume = asked.volume.as_deref()?;
    let volume = poll::<VolumeAnswer>(client, &format!("{}/{volume}", routes::VOLUMES)).await?;
    let waits = matches!(
        volume.volume.state,
        VolumeState::Starting | VolumeState::Suspended | VolumeState::Unreachable
    );
    volume.volume.reason.filter(|_| waits)
}

/// The nodes that send no heartbeats.
fn silent(nodes: &NodesAnswer, now: u64) -> Option<String> {
    let is_silent = |node: &&ClusterNode| {
        !node.unknown && (!node.alive || node.last_seen.is_some_and(|at| at + SILENT < now))
    };
    let silent = nodes.nodes.iter().filter(is_silent);
    let names: Vec<&str> = silent.map(|node| node.name.as_str()).collect();
    match names[..] {
        [] => None,
        [one] => Some(format!("node {one} does not answer")),
        _ => Some(format!("nodes {} do not answer", names.join(", "))),
    }
}

async fn poll<T: DeserializeOwned>(client: &Client, path: &str) -> Option<T> {
    let asked = timeout(POLL, client.exchange(Method::GET, path, None)).await;
    let (status, body) = asked.ok()?.ok()?;
    if status.is_success() { harmless::read(&body).ok() } else { None }
}

fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// Where it is told. What stands on a terminal is wiped when the answer is there.
struct Line {
    is_redrawn: bool,
    is_shown: bool,
}

impl Line {
    fn show(&mut self, text: &str) {
        match self.is_redrawn {
            true => write_all(format_args!("\r{}\u{1b}[K", fitting(text, columns()))),
            false => write_all(format_args!("{text}\n")),
        }
        self.is_shown = true;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_redrawn && self.is_shown {
            write_all(format_args!("\r\u{1b}[K"));
        }
    }
}

/// Whoever closed standard error does not want to know.
fn write_all(text: fmt::Arguments<'_>) {
    let mut out = std::io::stderr().lock();
    drop(out.write_fmt(text).and_then(|()| out.flush()));
}

/// As much of a line as a terminal shows without beginning another one.
fn fitting(text: &str, columns: usize) -> String {
    match text.chars().count() < columns {
        true => text.to_owned(),
        false => text.chars().take(columns.saturating_sub(2)).chain(['…']).collect(),
    }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.map_or(80, |size| usize::from(size.ws_col)).max(20)
}

/// Says once what a loop of looks waits for; on a terminal a bar does.
#[derive(Debug, Default)]
pub struct Once {
    begun: Option<std::time::Instant>,
    is_said: bool,
}

impl Once {
    /// Says it if it has taken longer than a moment and nobody has said it.
    pub fn say(&mut self, text: impl FnOnce() -> String) {
        let begun = *self.begun.get_or_insert_with(std::time::Instant::now);
        if self.is_said || begun.elapsed() < MOMENT || std::io::stderr().is_terminal() {
            return;
        }
        self.is_said = true;
        write_all(format_args!("{}\n", text()));
    }
}

#[cfg(test)]
mod tests;

//! The state of the cluster at a moment, as text for people.

use std::fmt::Write;

use super::Cluster;
use super::clients::{Kind, Request};
use super::primaries::SimPrimary;
use super::replicas::SimReplica;
use crate::coordinator::Database;
use crate::describe;
use crate::queue::{MILLISECOND, Time};

impl Cluster {
    /// The coordinator, the nodes, the primaries with what their clients wait for, and the
    /// replicas.
    #[must_use]
    pub fn state(&self) -> String {
        let mut text = format!("at {:.6}:\n{}", self.now as f64 / 1e9, self.coordinator_state());
        for node in 0..self.nodes.len() {
            text += &self.node_state(node);
        }
        for primary in self.living_primaries() {
            text += &self.primary_state(primary);
        }
        for replica in 0..self.replicas.len() {
            text += &self.replica_state(replica);
        }
        text
    }

    fn coordinator_state(&self) -> String {
        let coordinator = &self.coordinator;
        let mut text = match coordinator.database() {
            Database::Whole if coordinator.stopped => "  the coordinator has stopped the volume",
            Database::Whole => "  the coordinator",
            Database::Gone => "  the coordinator has lost its database",
            Database::Restored => "  the coordinator has an old database",
        }
        .to_owned();
        text += &self.until(", away", coordinator.away_until);
        text + &format!("; committed last: {}\n", describe::view(coordinator.newest()))
    }

    fn node_state(&self, node: usize) -> String {
        let state = &self.nodes[node];
        let mut text = format!("  node {node} is {}", if state.up { "up" } else { "down" });
        text += &self.until(", stands still", state.paused_until);
        text += &self.until(", does not reach the coordinator", state.no_coordinator_until);
        let unreached = |other: &usize| self.network.is_blocked(node, *other);
        let unreached: Vec<_> = (0..self.nodes.len()).filter(unreached).collect();
        if !unreached.is_empty() {
            let _ = write!(text, ", does not reach {unreached:?}");
        }
        text + "\n"
    }

    fn primary_state(&self, primary: usize) -> String {
        let slot = &self.primaries[primary];
        let mut text = format!("  primary {primary} on node {}", slot.node);
        if slot.id.node.0 != slot.node as u128 + 1 {
            let _ = write!(text, " as node {}", slot.id.node.0 - 1);
        }
        text += if slot.served { " serves" } else { " does not serve yet" };
        if let Some(view) = slot.core.view() {
            let _ = write!(text, " in generation {}", view.generation);
        }
        let status = slot.core.status(self.nodes[slot.node].clock(self.now));
        if let Some(wait) = status.waiting {
            let _ = write!(text, ", waits for {:?}", wait.why);
        }
        text.push('\n');
        for peer in &status.replicas {
            let is_connected = if peer.connected { "is connected" } else { "is not connected" };
            let (replica, outstanding) = (peer.replica.0 - 1, peer.outstanding);
            let _ = write!(
                text,
                "    replica {replica} {is_connected}, {outstanding} operations under way"
            );
            if let Some((state, cause)) = peer.leaving {
                let _ = write!(text, ", leaves as {state} ({cause:?})");
            }
            text.push('\n');
        }
        text + &self.waiting_clients(slot)
    }

    fn waiting_clients(&self, slot: &SimPrimary) -> String {
        let mut text = String::new();
        for (number, request) in &slot.requests {
            let ms = (self.now - request.at) / MILLISECOND;
            let _ = writeln!(text, "    r{number} since {ms} ms: {}", asked(request));
        }
        for (number, (command, at)) in &slot.commands {
            let ms = (self.now - at) / MILLISECOND;
            let _ = writeln!(text, "    command {number} since {ms} ms: {command:?}");
        }
        text
    }

    fn replica_state(&self, replica: usize) -> String {
        let slot = &self.replicas[replica];
        let (mirror, node) = (slot.mirror, slot.node);
        let mut text = format!("  replica {replica} of mirror {mirror} on node {node}");
        match &slot.core {
            None => text += " does not run",
            Some(core) => {
                let status = core.status();
                let _ = write!(text, " has adopted generation {}", status.view.generation);
                if status.is_adopting {
                    text += ", adopts another one";
                }
                let regions = status.open_regions;
                let _ = write!(text, "; {} operations, {regions} open regions", status.operations);
            }
        }
        let _ = write!(text, ", {} disk actions under way", slot.pending.len());
        text + &self.disk_state(slot) + "\n"
    }

    fn disk_state(&self, slot: &SimReplica) -> String {
        let health = &slot.health;
        let mut text = self.until(", its disk stands still", health.frozen_until);
        text += &self.until(", its disk is slow", health.slow.0);
        text += &self.until(", its disk fails", health.errors.0);
        text += &self.until(", its disk is full", health.full_until);
        if slot.is_old {
            text += ", a stale clone of its disk was put back";
        }
        if !slot.lost.is_empty() {
            let _ = write!(text, ", {} sectors were lost", slot.lost.len());
        }
        text
    }

    /// Something lasts until then, if it does.
    fn until(&self, what: &str, time: Time) -> String {
        if time > self.now {
            format!("{what} until {:.6}", time as f64 / 1e9)
        } else {
            String::new()
        }
    }
}

/// What a client waits for.
fn asked(request: &Request) -> String {
    match request.kind() {
        Kind::Read { first, count } => format!("read of sectors {first}+{count}"),
        Kind::Map { first, count } => format!("map of sectors {first}+{count}"),
        Kind::Change { write, .. } => format!("change #{write}"),
        Kind::Compare { write, first, expected, .. } => {
            format!("compare-and-write #{write} of sectors {first}+{}", expected.cells().len())
        }
        Kind::Flush => "flush".to_owned(),
    }
}

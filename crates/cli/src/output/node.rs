//! Nodes and disks as people see them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_api::types::{
    Authentication, ClusterNode, Disk, DiskKind, DisksAnswer, InviteAnswer, NodeAnswer, NodeStatus,
    NodesAnswer,
};

use super::phrases::{count, date, moment, warnings};
use super::table::{Align, Table};
use super::{Painted as _, size, span};

/// This node, then the others, or why they are missing.
pub fn status(this: &NodeAnswer, all: Result<&NodesAnswer, &str>) -> String {
    let node = &this.node;
    let cluster = match is_member(node) {
        true => format!("of cluster {}", node.cluster.bold()),
        false => "of no cluster yet".to_owned(),
    };
    let mut text = format!(
        "node {} {cluster}, evenkeel {}, pid {}, running for {}\n",
        node.name.bold(),
        node.software,
        node.pid,
        ago(node.started),
    );
    text.push_str(&format!("  peers        {}\n", listening(node)));
    text.push_str(&format!("  disks        {}\n", stores(node.disks, node.replicas)));
    let attached = if node.attached.is_empty() { "none".into() } else { node.attached.join(", ") };
    text.push_str(&format!("  attached     {attached}\n"));
    text.push_str(&format!(
        "  memory       {} of at most {} in buffers, at most {} for one volume\n",
        size(node.memory.buffers_used),
        size(node.memory.buffers),
        size(node.memory.per_volume),
    ));
    let coordinator = &node.coordinator;
    let message =
        if coordinator.reachable { coordinator.message.clone() } else { coordinator.message.bad() };
    text.push_str(&format!("  coordinator  {message}\n"));
    text.push_str(&warnings(&dated(node)));
    match all {
        Ok(all) => text.push_str(&format!("\n{}", nodes(all))),
        Err(why) => text.push_str(&warnings(&[missing(why)])),
    }
    text
}

/// A token, and the command that uses it.
pub fn invited(answer: &InviteAnswer) -> String {
    let who = match (answer.count, answer.names.as_str()) {
        (1, "*") => "one node of any name".to_owned(),
        (1, names) if names.contains('*') => format!("one node with a name like {names}"),
        (1, name) => format!("node {name}"),
        (count, "*") => format!("{count} nodes of any name"),
        (count, names) => format!("{count} nodes with names like {names}"),
    };
    let on = match (answer.count, answer.names.as_str()) {
        (1, name) if !name.contains('*') => format!("node {name}"),
        (1, _) => "the node that is to join".to_owned(),
        _ => "each node that is to join".to_owned(),
    };
    let address = answer.addresses.iter().find(|address| !address.starts_with("unix:"));
    let at = address.map_or("ADDRESS", String::as_str);
    let missing = match address {
        Some(_) => "",
        None => {
            ". ADDRESS is where others reach this node, which has none but a socket (`listen` under [peer])"
        }
    };
    format!(
        "A token for {who}, valid until {}. Whoever has it may join. On {on}{missing}:\n\n  evenkeel node join {at} --token {}\n",
        date(answer.expires),
        answer.token
    )
}

/// What is unusual; what was so once, with when it was seen.
fn dated(node: &NodeStatus) -> Vec<String> {
    let at = node.warned_at.iter().copied().chain(std::iter::repeat(None));
    let one = |(sentence, at): (&String, Option<u64>)| match at {
        Some(at) => format!("{}: {sentence}", moment(at)),
        None => sentence.clone(),
    };
    node.warnings.iter().zip(at).map(one).collect()
}

/// That the other nodes are not listed.
fn missing(why: &str) -> String {
    format!(
        "the other nodes are not listed, as only the coordinator knows whether they live: {why}"
    )
}

/// Whether it belongs to a cluster: then it has a coordinator, here or elsewhere.
const fn is_member(node: &NodeStatus) -> bool {
    node.coordinator.here || node.coordinator.address.is_some()
}

fn listening(node: &NodeStatus) -> String {
    let how = match node.authentication {
        _ if !is_member(node) => "serves nobody before it has joined a cluster",
        Authentication::None => "no authentication (this machine only)",
        Authentication::MutualTls => "mutual TLS",
    };
    format!("{} ({how})", node.addresses.join(", "))
}

fn stores(disks: usize, replicas: usize) -> String {
    format!("{} with {}", count(disks, "disk"), count(replicas, "replica"))
}

fn nodes(answer: &NodesAnswer) -> String {
    let mut table = Table::new(&[
        ("NODE", Align::Left),
        ("STATE", Align::Left),
        ("ROLE", Align::Left),
        ("ADDRESS", Align::Left),
        ("SOFTWARE", Align::Left),
    ]);
    for node in &answer.nodes {
        table.row(vec![
            node.name.bold(),
            liveness(node),
            role(node),
            node.addresses.join(", "),
            node.software.clone(),
        ]);
    }
    table.render(2)
}

fn liveness(node: &ClusterNode) -> String {
    match (node.alive, node.last_seen) {
        (true, _) if node.answers == Some(false) => "alive, no answer here".bad(),
        (true, _) => "alive".good(),
        (false, None) if node.here => "alive, no heartbeat received yet".bad(),
        (false, Some(_)) if node.here => "alive, no heartbeat received lately".bad(),
        // The coordinator may be cut off from it.
        (false, moment) if node.answers == Some(true) => {
            let since = moment.map(|moment| format!(" for {}", ago(moment))).unwrap_or_default();
            format!("answers here, no heartbeat received by the coordinator{since}").bad()
        }
        (false, None) if node.unknown => "unknown: no heartbeat received yet".bad(),
        (false, Some(moment)) if node.unknown => {
            format!("unknown: last seen {} ago, before the coordinator stood still", ago(moment))
                .bad()
        }
        (false, Some(moment)) => format!("dead (silent for {})", ago(moment)).bad(),
        (false, None) => "dead".bad(),
    }
}

fn role(node: &ClusterNode) -> String {
    let roles: Vec<_> = [(node.here, "this node"), (node.coordinator, "coordinator")]
        .into_iter()
        .filter_map(|(is, role)| is.then_some(role))
        .collect();
    if roles.is_empty() { "-".to_owned() } else { roles.join(", ") }
}

/// How long ago a moment was, in seconds since 1970.
fn ago(moment: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    span(Duration::from_secs(now.saturating_sub(moment)))
}

/// The disks of all nodes.
pub fn disks(answer: &DisksAnswer) -> String {
    if answer.disks.is_empty() {
        // Not all nodes may have been asked.
        let text = match answer.warnings.is_empty() {
            true => "No disk yet. Give one to this node: evenkeel disk add PATH\n",
            false => "Of the nodes that have answered none has a disk.\n",
        };
        return text.to_owned() + &warnings(&answer.warnings);
    }
    let mut table = Table::new(&[
        ("NODE", Align::Left),
        ("DISK", Align::Left),
        ("KIND", Align::Left),
        ("SIZE", Align::Right),
        ("FREE", Align::Right),
        ("PROMISED", Align::Right),
        ("REPLICAS", Align::Right),
        ("PATH", Align::Left),
    ]);
    for disk in &answer.disks {
        table.row(disk_cells(disk));
        if let Some(problem) = &disk.problem {
            table.note(format!("{} {problem}", "cannot be used:".bad()));
        } else if let Some(why) = full(disk) {
            table.note(why);
        }
        for replica in &disk.replicas {
            if let Some(problem) = &replica.problem {
                let what = if replica.file_gone { "file gone:" } else { "not served:" };
                let of = replica.volume.as_ref().map(|volume| format!(" volume {volume}:"));
                table.note(format!("{}{} {problem}", what.bad(), of.unwrap_or_default()));
            }
            if let Some(warning) = &replica.warning {
                table.note(format!("{} {warning}", "warning:".warning()));
            }
        }
    }
    table.render(0) + &warnings(&answer.warnings)
}

/// What replicas may still take of a disk's room, which is not free for others: a disk may have
/// none free and not be full, and a full one may have promised more than it has. `-`: a device has
/// one replica, which has all of it.
fn promised(disk: &Disk) -> String {
    let to_replicas: u64 = disk.replicas.iter().filter_map(|replica| replica.unallocated).sum();
    let promised = |room: u64| size(room.saturating_sub(disk.free).max(to_replicas));
    disk.available.map_or_else(|| "-".to_owned(), promised)
}

/// Why a disk has nothing free for another replica though there is room on it, or more is promised
/// than there is.
fn full(disk: &Disk) -> Option<String> {
    let room = disk.available?;
    let to_replicas: u64 = disk.replicas.iter().filter_map(|replica| replica.unallocated).sum();
    let (shown, rest) = (size(to_replicas), size(room));
    match (disk.free, to_replicas) {
        (_, 1..) if to_replicas > room => Some(format!(
            "{} its replicas may still take {shown}, and {rest} are there: one that finds none becomes faulty",
            "promised too much:".warning()
        )),
        (0, _) if room > 0 => Some(format!(
            "nothing is free for more replicas: {rest} are there, and promised to these"
        )),
        _ => None,
    }
}

fn disk_cells(disk: &Disk) -> Vec<String> {
    let kind = match disk.kind {
        DiskKind::Device => "device",
        DiskKind::Directory => "directory",
    };
    vec![
        disk.node.name.clone(),
        disk.name.bold(),
        kind.to_owned(),
        // One that is not there has no size that anybody knows.
        if disk.problem.is_some() && disk.size == 0 { "-".to_owned() } else { size(disk.size) },
        // What is free on a disk that can't be used is of no use to anybody.
        if disk.problem.is_some() { "-".to_owned() } else { size(disk.free) },
        promised(disk),
        disk.replicas.len().to_string(),
        disk.path.clone(),
    ]
}

/// A disk that has just been added.
pub fn added(disk: &Disk) -> String {
    format!(
        "Added disk {}:{} at {}: {} free\n",
        disk.node.name,
        disk.name.bold(),
        disk.path,
        size(disk.free),
    )
}

#[cfg(test)]
mod tests;

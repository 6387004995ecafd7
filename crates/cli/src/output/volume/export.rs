//! Exports of a volume.

use evenkeel_api::types::{Export, NvmeExport};

use crate::output::phrases::count;

/// An export, with what to type to use it.
pub fn export_line(export: &Export) -> String {
    let mut text = format!("{} by {}", export.kind, export.node.name);
    if export.read_only {
        text.push_str(", read-only");
    }
    match export.clients {
        0 => {}
        many if export.nvme.is_some() => text.push_str(&format!(", {}", count(many, "host"))),
        1 => text.push_str(", 1 client"),
        many => text.push_str(&format!(", {many} clients")),
    }
    if !export.client_names.is_empty() {
        text.push_str(&format!(", on TCP for {}", export.client_names.join(", ")));
    }
    for uri in &export.uris {
        text.push_str(&format!("\n            {uri}"));
    }
    if let Some(nvme) = &export.nvme {
        text.push_str(&nvme_lines(export, nvme));
    }
    text
}

/// The subsystem with its addresses, who may use it, and who does.
fn nvme_lines(export: &Export, nvme: &NvmeExport) -> String {
    let mut lines = vec![format!("{} on {}", nvme.subsystem, export.tcp.join(", "))];
    lines.extend(nvme.hosts.iter().map(|host| {
        let proof = nvme.authenticated.iter().find(|it| it.nqn == *host);
        let proof = proof.map_or("", |proof| match proof.both_ways {
            true => ", which proves who it is, as the node does",
            false => ", which proves who it is",
        });
        format!("for {host}{proof}")
    }));
    lines.extend(nvme.connected.iter().map(|host| {
        let queues = count(host.queues, "I/O queue");
        format!("used by {} from {}, {queues}", host.nqn, host.address)
    }));
    lines.iter().map(|line| format!("\n            {line}")).collect()
}

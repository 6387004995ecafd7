//! What a node reports of itself.

use evenkeel_api::types::{Authentication, MemoryStatus, NodeStatus, REVISION};

use crate::certificates;
use crate::running::Running;
use crate::volumes::attachment::leftovers;

/// This node's status.
pub async fn of(running: &Running) -> NodeStatus {
    let node = &running.node;
    let disks = node.blocking(|node| Ok(node.disks.list())).await.unwrap_or_default();
    let used: usize = node.data.survey().await.iter().map(|worker| worker.memory).sum();
    let workers = node.config.workers();
    let authentication = match running.credentials.tls.get() {
        None => Authentication::None,
        Some(_) => Authentication::MutualTls,
    };
    let past = node.warnings.past(|id| node.volumes.is_to_be_shown(id));
    let (mut warned_at, mut warnings): (Vec<_>, Vec<_>) =
        past.into_iter().map(|warning| (Some(warning.at), warning.text)).unzip();
    warnings.extend(node.admission.warning());
    warnings.extend(node.cluster.isolation());
    warnings.extend(certificates::unproved(&node.config));
    warnings.extend(certificates::serves_no_clients(&node.config));
    warnings.extend(disks.iter().flat_map(|disk| {
        let of = |problem: &String| format!("disk {}: {problem}", disk.name);
        disk.problem.as_ref().map(of)
    }));
    warnings.extend(node.disks.looks().files_gone());
    warnings.extend(node.volumes.unsaved());
    warnings.extend(leftovers::warnings(node).await);
    warned_at.resize(warnings.len(), None);
    NodeStatus {
        id: node.identity.node.to_string(),
        name: node.identity.name.clone(),
        cluster: running.credentials.cluster.get(),
        software: env!("CARGO_PKG_VERSION").to_owned(),
        revision: REVISION,
        pid: std::process::id(),
        started: running.started,
        addresses: node.member.addresses().to_vec(),
        authentication,
        coordinator: node.coordinator.status(),
        workers,
        memory: MemoryStatus {
            per_volume: node.config.data.memory_per_volume.0,
            buffers: node.config.data.memory_per_worker.0 * workers as u64,
            buffers_used: used as u64,
        },
        disks: disks.len(),
        replicas: disks.iter().map(|disk| disk.replicas.len()).sum(),
        attached: node.volumes.names(),
        warnings,
        warned_at,
    }
}

//! A view in words.

use evenkeel_api::types::{ExaminedEpoch, ExaminedMember, ExaminedView};
use evenkeel_core::{ReplicaId, ReplicaRecord, View};

use crate::conversions;

pub(super) fn describe(view: &View, this: ReplicaId) -> ExaminedView {
    let epochs = view.epochs.iter().map(|epoch| ExaminedEpoch {
        coordinator: epoch.coordinator.to_string(),
        history: epoch.history.to_string(),
        last: epoch.last.0,
        ended: Some(epoch.ended).filter(|ended| *ended != 0),
    });
    let members =
        |replicas: &Vec<ReplicaRecord>| replicas.iter().map(|r| member(r, this)).collect();
    ExaminedView {
        generation: view.generation.0,
        parent: view.parent.0,
        history: view.history.to_string(),
        coordinator: view.coordinator.to_string(),
        epochs: epochs.collect(),
        size: view.geometry.size,
        block_size: view.geometry.block_size,
        chunk: view.geometry.chunk,
        protocol: conversions::protocol(view.protocol),
        bitmap: if view.is_shared() { "clustered".into() } else { view.bitmap.to_string() },
        primaries: view.primaries.iter().map(|primary| primary.id.node.to_string()).collect(),
        mirrors: view.mirrors.iter().map(|mirror| members(&mirror.replicas)).collect(),
    }
}

fn member(record: &ReplicaRecord, this: ReplicaId) -> ExaminedMember {
    ExaminedMember {
        id: record.id.to_string(),
        this: record.id == this,
        node: record.node.to_string(),
        state: conversions::state(record.state),
        cause: conversions::cause(record.cause),
        why: Some(record.cause.to_string()).filter(|why| !why.is_empty()),
        since: record.since.0,
        missing_since: record.missing_since.map(|generation| generation.0),
        incarnation: format!("{:016x}", record.incarnation.0),
    }
}

//! The table of a volume's replicas, with what there is to know of each.

use std::time::Duration;

use evenkeel_api::types::{
    MirrorStatus, ReplicaCause, ReplicaReach, ReplicaRole, ReplicaState, ReplicaStatus,
    VolumeStatus,
};

use super::rebuild::rebuild_line;
use super::words::{doubt, is_old, replica_state};
use crate::output::phrases::{moment, short};
use crate::output::table::{Align, Table};
use crate::output::{Painted as _, span};

/// One line for each replica, and its notes.
pub(super) fn replicas(volume: &VolumeStatus) -> String {
    let striped = volume.mirrors.len() > 1;
    let mut columns = vec![
        ("REPLICA", Align::Left),
        ("NODE", Align::Left),
        ("DISK", Align::Left),
        ("STATE", Align::Left),
    ];
    if striped {
        columns.insert(0, ("MIRROR", Align::Left));
    }
    let mut table = Table::new(&columns);
    for mirror in &volume.mirrors {
        for (position, replica) in mirror.replicas.iter().enumerate() {
            let mut cells = replica_cells(replica, is_old(volume));
            if striped {
                cells.insert(0, mirror_cell(mirror, position));
            }
            table.row(cells);
            notes(&mut table, replica, has_failed_reads(volume));
            table_role(&mut table, mirror, replica);
        }
    }
    table.render(2)
}

fn mirror_cell(mirror: &MirrorStatus, position: usize) -> String {
    if position == 0 { mirror.index.to_string() } else { String::new() }
}

fn replica_cells(replica: &ReplicaStatus, is_old: bool) -> Vec<String> {
    vec![
        short(&replica.id).to_owned(),
        replica.node.name.clone(),
        replica.disk.clone().unwrap_or_else(|| "?".to_owned()),
        match replica.reach {
            ReplicaReach::Answers | ReplicaReach::NotNeeded => {
                replica_state(replica.state) + doubt(is_old)
            }
            reach => reached(reach, replica.state),
        },
    ]
}

/// The word for what a replica is to its mirror, if it is there.
pub fn reached(reach: ReplicaReach, state: ReplicaState) -> String {
    match reach {
        ReplicaReach::Unreachable => "unreachable".bad(),
        ReplicaReach::Unknown => "unknown".warning(),
        ReplicaReach::FileGone => "file gone".bad(),
        ReplicaReach::ReadOnly => "read-only".bad(),
        ReplicaReach::Answers | ReplicaReach::NotNeeded => replica_state(state),
    }
}

/// Whether clients were told that reads failed: no other replica answered these.
fn has_failed_reads(volume: &VolumeStatus) -> bool {
    volume.failed.iter().any(|failed| failed.kind == "read")
}

fn notes(table: &mut Table, replica: &ReplicaStatus, has_failed_reads: bool) {
    if let Some(rebuild) = &replica.rebuild {
        table.note(rebuild_line(rebuild));
        if let Some(reason) = &rebuild.waits_for {
            table.note(format!("it waits: {reason}"));
        }
    }
    if let Some(reason) = &replica.reason {
        table.note(format!("why: {reason}"));
    }
    // One that has diverged is reached, and does not return for that.
    let is_diverged = replica.cause == Some(ReplicaCause::OtherHistory);
    if let Some(seconds) = replica.retry_seconds.filter(|_| !is_diverged) {
        let pause = span(Duration::from_secs(seconds));
        table.note(match (replica.left_again, seconds) {
            (Some(times), 1..) => format!(
                "left {times} times in a row, each time within a minute; taken in again in {pause}"
            ),
            (_, 0) => "it is being tried again".to_owned(),
            (None, _) => format!("tries again in {pause}"),
        });
    }
    if replica.node_alive == Some(false) {
        table.note(silent_node(replica));
    }
    if let Some(at) = replica.disk_failed {
        table.note(format!(
            "its disk failed a request that no other replica could answer, {}; a verify that finds nothing wrong ends this note",
            moment(at)
        ));
    }
    if let Some(failed) = replica.failed_reads.filter(|failed| *failed > 0) {
        table.note(match has_failed_reads {
            true => format!("{failed} reads failed here or contradicted their checksums"),
            false => format!(
                "{failed} reads failed or contradicted their checksums; others answered, and repaired them here"
            ),
        });
    }
}

/// A node that the coordinator does not hear may answer the primary all the same.
fn silent_node(replica: &ReplicaStatus) -> String {
    let node = &replica.node.name;
    match replica.reach {
        ReplicaReach::Answers => {
            format!("node {node} answers the primary, and the coordinator does not hear it")
        }
        _ => format!("node {node} does not answer"),
    }
}

/// In whose place a replica is.
fn table_role(table: &mut Table, mirror: &MirrorStatus, replica: &ReplicaStatus) {
    // Most replicas are in nobody's place.
    let Some(other) = &replica.instead_of else { return };
    let found = mirror.replicas.iter().find(|r| r.id == *other);
    let place = found.map_or_else(|| short(other).to_owned(), ReplicaStatus::place);
    table.note(match replica.role {
        ReplicaRole::Spare => format!("it stands in for {place}"),
        _ => format!("it is to replace {place}, which is removed then"),
    });
}

//! What a command would take away.

use evenkeel_node::api::types::{LeftMirror, LostReplica, Plan};

use super::size;
use super::table::{Align, Table};
use super::volume::{count, replica_state, short};

/// The replicas that would go, and what is left.
pub fn plan(plan: &Plan) -> String {
    if plan.removes.is_empty() {
        return "no replica is lost\n".to_owned();
    }
    let words = ["VOLUME", "REPLICA", "NODE", "DISK", "STATE"].map(|name| (name, Align::Left));
    let columns: Vec<_> = words.into_iter().chain([("SIZE", Align::Right)]).collect();
    let mut table = Table::new(&columns);
    for LostReplica { volume, id, node, disk, state, size: bytes, .. } in &plan.removes {
        table.row(vec![
            volume.clone(),
            short(id).to_owned(),
            node.name.clone(),
            disk.clone(),
            replica_state(*state),
            size(*bytes),
        ]);
    }
    let left: String = plan.leaves.iter().map(left).collect();
    format!("removed for good:\n{}{left}", table.render(2))
}

fn left(mirror: &LeftMirror) -> String {
    let LeftMirror { volume, in_sync, .. } = mirror;
    let places = match in_sync.is_empty() {
        true => String::new(),
        false => format!(" on {}", in_sync.join(", ")),
    };
    let copies = count(in_sync.len(), "in-sync replica");
    format!("leaves volume `{volume}`, mirror {}: {copies}{places}\n", mirror.mirror)
}

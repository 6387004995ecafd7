//! What a command would take away.

use evenkeel_api::types::{LeftMirror, LostReplica, Plan, Registrant};

use super::phrases::{count, short};
use super::size;
use super::table::{Align, Table};
use super::volume::{reached, replica_state};

/// The replicas that would go, and what would be left.
pub fn plan(plan: &Plan) -> String {
    match plan.unregisters.is_empty() {
        true => {
            shown(plan, ["would be removed for good", "would be taken out of use", "would leave"])
        }
        false => hosts(&plan.unregisters),
    }
}

/// The replicas that have gone, and what is left.
pub fn done(plan: &Plan) -> String {
    shown(plan, ["removed for good", "taken out of use", "leaves"])
}

fn shown(plan: &Plan, [removed, failed, left]: [&str; 3]) -> String {
    if plan.removes.is_empty() && plan.fails.is_empty() {
        let names: Vec<&str> = plan.detaches.iter().map(|node| node.name.as_str()).collect();
        let from = match names.is_empty() {
            true => String::new(),
            false => format!("would be detached from: {}\n", names.join(", ")),
        };
        return from + "no replica is lost\n";
    }
    let lists = [(&plan.removes, removed), (&plan.fails, failed)];
    let lists = lists.into_iter().filter(|(replicas, _)| !replicas.is_empty());
    let lists: String = lists.map(|(replicas, verb)| list(replicas, verb)).collect();
    lists + &plan.leaves.iter().map(|mirror| rest(mirror, left)).collect::<String>()
}

fn hosts(registrants: &[Registrant]) -> String {
    let columns = ["HOST", "KEY", ""].map(|name| (name, Align::Left));
    let mut table = Table::new(&columns);
    for Registrant { host, node, key, holder } in registrants {
        let holds = if *holder { "holds the reservation" } else { "" };
        let host = node.clone().unwrap_or_else(|| host.clone());
        table.row(vec![host, key.clone(), holds.to_owned()]);
    }
    format!("would be unregistered:\n{}", table.render(2))
}

fn list(replicas: &[LostReplica], verb: &str) -> String {
    let words = ["VOLUME", "REPLICA", "NODE", "DISK", "STATE"].map(|name| (name, Align::Left));
    let columns: Vec<_> = words.into_iter().chain([("SIZE", Align::Right)]).collect();
    let mut table = Table::new(&columns);
    for LostReplica { volume, id, node, disk, state, reach, size: bytes, .. } in replicas {
        table.row(vec![
            volume.clone(),
            short(id).to_owned(),
            node.name.clone(),
            disk.clone(),
            reach.map_or_else(|| replica_state(*state), |reach| reached(reach, *state)),
            size(*bytes),
        ]);
    }
    format!("{verb}:\n{}", table.render(2))
}

fn rest(mirror: &LeftMirror, left: &str) -> String {
    let LeftMirror { volume, in_sync, .. } = mirror;
    let places = match in_sync.is_empty() {
        true => String::new(),
        false => format!(" on {}", in_sync.join(", ")),
    };
    let copies = count(in_sync.len(), "in-sync replica");
    format!("{left} volume `{volume}`, mirror {}: {copies}{places}\n", mirror.mirror)
}

#[cfg(test)]
mod tests;

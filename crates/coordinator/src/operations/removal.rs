//! Nodes that are removed from the cluster: what is stored of them, and what keeps one from it.

use super::{Planned as Plan, nodes};
use crate::memory::Note;
use crate::store::Space;
use crate::transaction::{Planned, Transaction};
use crate::{Answer, PlacedReplica, RemovedNode};

/// The newest of them that the others are sent.
const MAX_REPORTED: usize = 1024;
/// Most volumes that are changed, and most nodes that are removed, by one commit.
const MAX_CHANGED: usize = 24;

/// Removes a node that no view and no replica in the making names.
pub fn remove_node(
    transaction: &mut Transaction<'_>,
    node: &str,
    incarnation: Option<u64>,
) -> Planned<Plan> {
    let answer = |answer| Ok(Plan::Answer(answer));
    if node == transaction.memory.identity.here.to_string() {
        return answer(Answer::NodeInUse { why: "it serves the coordinator".into() });
    }
    let Some(record) = transaction.node(node)? else {
        // The same request again: its answer was lost.
        let is_done = transaction.has(Space::Removed, node)?;
        return answer(if is_done { Answer::Done } else { Answer::NotRegistered });
    };
    if incarnation.is_some_and(|incarnation| incarnation != record.incarnation) {
        return answer(Answer::NodeInUse { why: "it has started again meanwhile".into() });
    }
    if let Some(why) = use_of(transaction, node)? {
        return answer(Answer::NodeInUse { why });
    }
    if wants_nothing(transaction, node)? {
        return Ok(Plan::Again);
    }
    let entry = RemovedNode { id: node.into(), name: record.name, at: transaction.now.unix };
    remove(transaction, &entry)?;
    nodes::next_epoch(transaction)?;
    answer(Answer::Done)
}

fn remove(transaction: &mut Transaction<'_>, entry: &RemovedNode) -> Planned<()> {
    transaction.has(Space::Starts, &entry.id)?;
    for space in [Space::Nodes, Space::Starts, Space::Silent] {
        transaction.delete(space, &entry.id);
    }
    transaction.put(Space::Removed, &entry.id, entry)?;
    transaction.note(Note::Log(entry.to_string()));
    transaction.note(Note::Forgotten(entry.id.clone()));
    Ok(())
}

/// Nodes stay removed that this coordinator's node remembers as removed: the store may be older
/// than it was, or new. Volumes may name them still, as they did then.
pub fn stay_removed(
    transaction: &mut Transaction<'_>,
    remembered: &[RemovedNode],
) -> Planned<Plan> {
    let known = transaction.names_for_sure(Space::Removed)?;
    let is_new = |entry: &&RemovedNode| !known.contains(&entry.id);
    let new: Vec<_> = remembered.iter().filter(is_new).take(MAX_CHANGED).collect();
    if new.is_empty() {
        return Ok(Plan::Answer(Answer::Done));
    }
    for entry in &new {
        if wants_nothing(transaction, &entry.id)? {
            return Ok(Plan::Again);
        }
    }
    for entry in new {
        transaction.has(Space::Nodes, &entry.id)?;
        remove(transaction, entry)?;
    }
    nodes::next_epoch(transaction)?;
    Ok(Plan::Again)
}

/// All nodes that were removed, the newest last.
pub fn removed_nodes(transaction: &mut Transaction<'_>) -> Planned<Vec<RemovedNode>> {
    let mut all = Vec::new();
    for node in transaction.names(Space::Removed)? {
        all.extend(transaction.json::<RemovedNode>(Space::Removed, &node)?);
    }
    all.sort_by_key(|removed| removed.at);
    all.drain(..all.len().saturating_sub(MAX_REPORTED));
    Ok(all)
}

/// Refuses what names a node that was removed.
pub fn refusal<'a>(
    transaction: &mut Transaction<'_>,
    nodes: impl IntoIterator<Item = &'a str>,
) -> Planned<Option<Answer>> {
    for node in nodes {
        if let Some(entry) = transaction.json::<RemovedNode>(Space::Removed, node)? {
            return Ok(Some(Answer::NodeRemoved { why: entry.to_string() }));
        }
    }
    Ok(None)
}

/// The same for any number of nodes, with one condition.
pub fn refusal_of_many<'a>(
    transaction: &mut Transaction<'_>,
    nodes: impl IntoIterator<Item = &'a str>,
) -> Planned<Option<Answer>> {
    transaction.names_for_sure(Space::Removed)?;
    transaction.look(|t| refusal(t, nodes))
}

/// What of a volume is on a node, if anything is.
fn use_of(transaction: &mut Transaction<'_>, node: &str) -> Planned<Option<String>> {
    transaction.names_for_sure(Space::Views)?;
    for volume in transaction.names_for_sure(Space::Volumes)? {
        let used = transaction.look(|t| use_by(t, &volume, node))?;
        if used.is_some() {
            return Ok(used);
        }
    }
    Ok(None)
}

fn use_by(transaction: &mut Transaction<'_>, volume: &str, node: &str) -> Planned<Option<String>> {
    let Some(record) = transaction.volume(volume)? else { return Ok(None) };
    let name = &record.name;
    let is_made =
        |placed: &PlacedReplica| placed.node == node && !placed.removed && placed.maker.is_some();
    if record.replicas.iter().any(is_made) {
        return Ok(Some(format!("a replica of volume {name} is being made there")));
    }
    let Some(view) = transaction.view(volume)? else { return Ok(None) };
    if view.replicas().any(|(_, replica)| replica.node.to_string() == node) {
        return Ok(Some(format!("volume {name} has a replica there")));
    }
    if view.primaries.iter().any(|primary| primary.id.node.to_string() == node) {
        return Ok(Some(format!("volume {name} is attached there")));
    }
    Ok(None)
}

/// No volume is meant to be attached on this node. `true`: this is to be committed, and there may
/// be more: what is stored with a volume may be large, and a commit takes as many as fit.
fn wants_nothing(transaction: &mut Transaction<'_>, node: &str) -> Planned<bool> {
    let mut changed = 0;
    for volume in transaction.names_for_sure(Space::Volumes)? {
        let record = transaction.look(|t| t.volume(&volume))?;
        let Some(mut record) = record else { continue };
        if record.wanted_on.remove(node).is_none() {
            continue;
        }
        if changed == MAX_CHANGED || !transaction.has_room(&volume) {
            return Ok(true);
        }
        // It has not been deleted meanwhile.
        transaction.has(Space::Volumes, &volume)?;
        transaction.put_volume(&record)?;
        changed += 1;
    }
    Ok(changed > 0)
}

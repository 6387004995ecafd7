//! Members: registration, heartbeats, and the cluster's name.

use std::collections::BTreeMap;

use super::{Done, removal};
use crate::memory::{Note, Speaker};
use crate::store::Space;
use crate::transaction::{Planned, Transaction, content};
use crate::{Answer, Caller, NodeLiveness};

/// Where the store counts the changes of the membership.
const EPOCH: &str = "epoch";
/// Most silent nodes of which something is stored at once. The others are next.
const MAX_SAVED: usize = 32;

/// A node is heard. What is stored of its silence goes, before it is answered: no coordinator takes
/// it for dead then.
pub fn heartbeat(
    transaction: &mut Transaction<'_>,
    node: &str,
    caller: Option<&Caller>,
    changes: u64,
) -> Done {
    clear_silence(transaction, node)?;
    transaction.note(Note::Seen(node.to_owned()));
    let other = caller
        .and_then(|caller| transaction.memory.other(&caller.node.to_string(), transaction.now));
    if let Some(caller) = caller {
        transaction.note(Note::Speaks { node: caller.node.to_string(), by: Speaker::of(caller) });
    }
    let cluster = Some(transaction.memory.cluster.clone());
    Ok(Answer::Heard { revision: changes, cluster, other })
}

/// Takes away what is stored of a node's silence. Where nobody else has the store that can wait
/// while commits fail: each that fails may have its file opened anew, and a [tick] does it later.
pub fn clear_silence(transaction: &mut Transaction<'_>, node: &str) -> Planned<()> {
    if transaction.has(Space::Silent, node)? {
        if transaction.memory.is_alone() && transaction.memory.liveness.do_commits_fail() {
            return Ok(());
        }
        transaction.delete(Space::Silent, node);
    }
    transaction.note(Note::Cleared(node.to_owned()));
    Ok(())
}

pub fn rename(transaction: &mut Transaction<'_>, name: &str, replaces: Option<&str>) -> Done {
    let now = transaction.text(Space::Cluster, "name")?;
    if let (Some(now), Some(replaces)) = (now, replaces)
        && now != name
        && now != replaces
    {
        return Ok(Answer::ClusterNamed { name: now });
    }
    transaction.put_bytes(Space::Cluster, "name", name.into());
    transaction.note(Note::Cluster(name.to_owned()));
    Ok(Answer::Done)
}

/// Which state the membership is in.
fn epoch(transaction: &mut Transaction<'_>) -> Planned<u64> {
    let text = transaction.text(Space::Cluster, EPOCH)?;
    Ok(text.map(|text| text.parse().map_err(content)).transpose()?.unwrap_or(0))
}

/// A node is admitted or removed: one more than before, or the time in seconds since 1970. So none
/// comes again with other members after an older store was put back.
pub fn next_epoch(transaction: &mut Transaction<'_>) -> Planned<()> {
    let next = epoch(transaction)?.saturating_add(1).max(transaction.now.unix);
    transaction.put_number(Space::Cluster, EPOCH, next);
    Ok(())
}

pub fn membership(transaction: &mut Transaction<'_>) -> Done {
    let (epoch, nodes) = (epoch(transaction)?, nodes(transaction)?);
    Ok(Answer::Membership { epoch, nodes, removed: removal::removed_nodes(transaction)? })
}

pub fn nodes(transaction: &mut Transaction<'_>) -> Planned<Vec<NodeLiveness>> {
    let mut nodes = Vec::new();
    // With one read, not one for each.
    transaction.names(Space::Silent)?;
    for id in transaction.names(Space::Nodes)? {
        let Some(node) = transaction.node(&id)? else { continue };
        let last_seen = transaction.memory.liveness.last_proved(&id).map(|at| at.unix);
        let may_live = transaction.may_live(&id)?;
        let alive = transaction.memory.liveness.is_alive(&id);
        let coordinator = id == transaction.memory.identity.here.to_string();
        nodes.push(NodeLiveness { node, alive, may_live, last_seen, coordinator });
    }
    nodes.sort_by(|a, b| a.node.name.cmp(&b.node.name));
    Ok(nodes)
}

/// Stores how long members were silent, and notes what other coordinators have stored. While
/// commits fail it tries now and then whether they still do.
pub fn tick(transaction: &mut Transaction<'_>) -> Done {
    let is_trial = transaction.memory.liveness.do_commits_fail();
    if is_trial && !transaction.memory.liveness.is_trial_due() {
        return Ok(Answer::Done);
    }
    if !transaction.memory.is_alone()
        && let Some(name) = transaction.look(|t| t.text(Space::Cluster, "name"))?
    {
        transaction.note(Note::Cluster(name));
    }
    let members = transaction.names(Space::Nodes)?;
    let mut found = BTreeMap::new();
    for node in transaction.names(Space::Silent)? {
        let silent = transaction.look(|t| t.silence(&node))?;
        found.extend(silent.map(|silent| (node, silent)));
    }
    let mut saving = transaction.memory.liveness.saving(&found);
    saving.put.retain(|node, _| members.contains(node));
    let surplus: Vec<_> = saving.put.keys().skip(MAX_SAVED).cloned().collect();
    saving.put.retain(|node, _| !surplus.contains(node));
    saving.delete.truncate(MAX_SAVED);
    for (node, silent) in &saving.put {
        // It is a member still, and nobody has heard it meanwhile.
        transaction.has(Space::Nodes, node)?;
        transaction.has(Space::Silent, node)?;
        transaction.put_number(Space::Silent, node, *silent);
    }
    for node in &saving.delete {
        transaction.has(Space::Silent, node)?;
        transaction.delete(Space::Silent, node);
    }
    if is_trial && saving.put.is_empty() && saving.delete.is_empty() {
        transaction.write_again(Space::Cluster, "name")?;
    }
    members.into_iter().for_each(|node| transaction.note(Note::Member(node)));
    transaction.note(Note::Saved(saving, found));
    Ok(Answer::Done)
}

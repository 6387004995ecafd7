//! Where the replicas of volumes are, in step with the views.
//!
//! A node creates a replica on its disk before a view names it. If the node dies in between, or the
//! answer to the view is lost, the replica would belong to nothing for ever. So the node records
//! its place first. A view that names the replica makes it the volume's; or it is given up for
//! good, and no view may add it any more.

use evenkeel_core::{NodeId, ReplicaId, View};

use super::{Done, drafts, removal, volumes};
use crate::memory::Note;
use crate::store::Space;
use crate::transaction::{Planned, Transaction, volume_id};
use crate::{Answer, LostCopy, PlacedReplica, Shown, VolumeRecord, Wish, wanted};

/// Most removed replicas of a volume that are remembered. What an older one left on its disk has to
/// be deleted by hand.
const MAX_REMOVED: usize = 256;
/// Most copies of a volume that are remembered as lost.
const MAX_LOST: usize = 256;

pub fn place(
    transaction: &mut Transaction<'_>,
    volume: &str,
    replica: &PlacedReplica,
    (same_disk, alone): (bool, bool),
    revision: Option<u64>,
) -> Done {
    if let Some(refusal) = removal::refusal(transaction, [replica.node.as_str()])? {
        return Ok(refusal);
    }
    let Some(mut record) = transaction.volume(volume)? else { return Ok(Answer::NoVolume) };
    if record.replicas.iter().any(|placed| placed.id == replica.id) {
        return Ok(Answer::Done);
    }
    if let Some(refusal) = volumes::refusal(transaction, &record, revision)? {
        return Ok(refusal);
    }
    let place = |placed: &PlacedReplica| (placed.mirror, placed.node.clone(), placed.disk.clone());
    let is_in_the_way = |placed: &&PlacedReplica| {
        let is_there = !same_disk && place(placed) == place(replica);
        let is_made = alone && placed.mirror == replica.mirror && placed.maker.is_some();
        !placed.removed && (is_there || is_made)
    };
    if let Some(placed) = record.replicas.iter().find(is_in_the_way) {
        return Ok(Answer::PlacedAlready { replica: placed.id.clone() });
    }
    record.replicas.push(replica.clone());
    store(transaction, record)?;
    Ok(Answer::Done)
}

/// Gives a replica up, or what may yet be placed: the request that places it may come later than
/// this one, and is refused as the record has another revision.
pub fn forget(transaction: &mut Transaction<'_>, volume: &str, replica: &str) -> Done {
    let Some(mut record) = transaction.volume(volume)? else { return Ok(Answer::NoVolume) };
    let held = held_by_newest(transaction, volume)?;
    for placed in record.replicas.iter_mut().filter(|placed| placed.id == replica) {
        placed.removed = !held.contains(&placed.id);
        if !placed.removed {
            placed.maker = None;
        }
    }
    store(transaction, record)?;
    Ok(Answer::Done)
}

/// How a volume is shown counts only where it is attached, or meant to be again; elsewhere only the
/// swap that attaches it says that it is meant to be.
pub fn want(
    transaction: &mut Transaction<'_>,
    volume: &str,
    node: &str,
    shown: Option<Shown>,
    revision: Option<u64>,
) -> Done {
    let Some(mut record) = transaction.volume(volume)? else { return Ok(Answer::NoVolume) };
    volume_id(volume)?;
    let newest = transaction.view(volume)?;
    let is_primary =
        |view: &View| view.primaries.iter().any(|primary| primary.id.node.to_string() == node);
    // Else anybody could have any number of them stored.
    if !transaction.has(Space::Nodes, node)? {
        return Ok(Answer::NotRegistered);
    }
    let is_noted = record.wanted_on.get(node).is_some_and(Option::is_some);
    if shown.is_none() || is_noted || newest.as_ref().is_some_and(is_primary) {
        if record.wanted_on.get(node) != Some(&shown)
            && let Some(refusal) = volumes::refusal(transaction, &record, revision)?
        {
            return Ok(refusal);
        }
        record.wanted_on.insert(node.to_owned(), shown);
        store(transaction, record)?;
    }
    Ok(Answer::Done)
}

pub fn lost(
    transaction: &mut Transaction<'_>,
    volume: &str,
    lost: &[LostCopy],
    revision: Option<u64>,
) -> Done {
    let Some(mut record) = transaction.volume(volume)? else { return Ok(Answer::NoVolume) };
    if record.lost != lost
        && let Some(refusal) = volumes::refusal(transaction, &record, revision)?
    {
        return Ok(refusal);
    }
    record.lost = lost.iter().take(MAX_LOST).cloned().collect();
    store(transaction, record)?;
    Ok(Answer::Done)
}

/// What joins as a copy replaces what was lost, the oldest first.
fn replace_lost(record: &mut VolumeRecord, newest: &View, next: &View) {
    for (mirror, (before, after)) in newest.mirrors.iter().zip(&next.mirrors).enumerate() {
        let mut gained = after.copies().count().saturating_sub(before.copies().count());
        record.lost.retain(|lost| {
            let is_replaced = lost.mirror == mirror && gained > 0;
            gained -= usize::from(is_replaced);
            !is_replaced
        });
    }
}

pub fn verified(
    transaction: &mut Transaction<'_>,
    volume: &str,
    verdict: &serde_json::Value,
    revision: Option<u64>,
) -> Done {
    let Some(mut record) = transaction.volume(volume)? else { return Ok(Answer::NoVolume) };
    if record.verified.as_ref() != Some(verdict)
        && let Some(refusal) = volumes::refusal(transaction, &record, revision)?
    {
        return Ok(refusal);
    }
    record.verified = Some(verdict.clone());
    store(transaction, record)?;
    Ok(Answer::Done)
}

/// The replicas of a volume that nobody makes any more, and no view holds.
fn unmade(transaction: &mut Transaction<'_>, record: &VolumeRecord) -> Planned<Vec<String>> {
    let mut unmade = Vec::new();
    for placed in record.replicas.iter().filter(|placed| !placed.removed) {
        if let Some(maker) = &placed.maker
            && drafts::is_over(transaction, &maker.node, maker.incarnation)?
        {
            unmade.push(placed.id.clone());
        }
    }
    Ok(unmade)
}

/// Whether [`forget_unmade`] has something to do.
pub fn has_unmade(transaction: &mut Transaction<'_>, volume: &str) -> Planned<bool> {
    let Some(record) = transaction.volume(volume)? else { return Ok(false) };
    Ok(!unmade(transaction, &record)?.is_empty())
}

/// Gives up replicas whose makers' lives are over, and which no view holds.
pub fn forget_unmade(transaction: &mut Transaction<'_>, volume: &str) -> Planned<()> {
    let Some(record) = transaction.volume(volume)? else { return Ok(()) };
    for replica in unmade(transaction, &record)? {
        forget(transaction, volume, &replica)?;
        transaction.note(Note::Log(format!(
            "gave up replica {replica} of volume {}, which was cut off while it was added",
            record.name
        )));
    }
    Ok(())
}

/// Notes who joins a volume by its next view and who leaves it, who uses it, and where it is meant
/// to be attached: whoever had attached it before, and comes back, learns of it. `false`: the view
/// adds a replica that was given up, or never placed.
pub fn follow(
    transaction: &mut Transaction<'_>,
    (newest, next): (&View, &View),
    by: NodeId,
    wish: Option<Wish>,
) -> Planned<bool> {
    let ids = |view: &View| view.replicas().map(|(_, record)| record.id).collect::<Vec<_>>();
    let (before, after) = (ids(newest), ids(next));
    let only_in = |these: &[ReplicaId], others: &[ReplicaId]| {
        let only = these.iter().filter(|id| !others.contains(id));
        only.map(ToString::to_string).collect::<Vec<_>>()
    };
    let (joined, left) = (only_in(&after, &before), only_in(&before, &after));
    let moves = !joined.is_empty() || !left.is_empty();
    // What stands in a view has a record, unless the store was damaged.
    let Some(mut record) = transaction.volume(&next.volume.to_string())? else {
        return Ok(!moves);
    };
    let stored = record.clone();
    for id in joined {
        let found = record.replicas.iter_mut().find(|placed| placed.id == id && !placed.removed);
        let Some(placed) = found else { return Ok(false) };
        placed.maker = None;
    }
    for placed in record.replicas.iter_mut().filter(|placed| left.contains(&placed.id)) {
        placed.removed = true;
    }
    replace_lost(&mut record, newest, next);
    if wanted::concerns(newest, next) {
        record.follow(newest, next, by, wish);
    }
    if record != stored {
        store(transaction, record)?;
    }
    Ok(true)
}

fn held_by_newest(transaction: &mut Transaction<'_>, volume: &str) -> Planned<Vec<String>> {
    volume_id(volume)?;
    let newest = transaction.view(volume)?;
    let held = newest.iter().flat_map(View::replicas);
    Ok(held.map(|(_, record)| record.id.to_string()).collect())
}

fn store(transaction: &mut Transaction<'_>, mut record: VolumeRecord) -> Planned<()> {
    let mut surplus =
        record.replicas.iter().filter(|p| p.removed).count().saturating_sub(MAX_REMOVED);
    record.replicas.retain(|placed| {
        let is_surplus = placed.removed && surplus > 0;
        surplus -= usize::from(is_surplus);
        !is_surplus
    });
    transaction.put_volume(&record)
}

//! What nodes are to do with replicas that they find on their disks.
//!
//! An answer may be old when the node acts on it: the volume may have been assembled from its disks
//! meanwhile. So before a node deletes a replica it sends `Discard`, which decides: it is refused
//! if the replica has a volume by now, and no volume takes the replica up until it is deleted.
//!
//! The store may be old, too: a restored backup. Then a replica that was being created is a
//! volume's by now, maybe its only one, and a deleted volume may have been assembled from its
//! disks. So `Discard` carries the view that the disk has adopted last, and is refused if this
//! coordinator does not know that view.

use evenkeel_core::{Generation, View};

use super::Done;
use crate::store::Space;
use crate::transaction::{Planned, Transaction};
use crate::{Answer, Fate, FoundReplica, Maker, ViewText};

fn fate(transaction: &mut Transaction<'_>, found: &FoundReplica) -> Planned<Fate> {
    let volume = found.volume.as_str();
    if let Some(record) = transaction.volume(volume)? {
        let placed = record.replicas.iter().find(|placed| placed.id == found.replica);
        return Ok(match placed {
            Some(placed) if placed.was_given_up() => Fate::NeverMade,
            Some(placed) if placed.removed => Fate::Deleted,
            Some(_) if record.stopped => Fate::Stopped,
            Some(_) => Fate::Belongs,
            None => Fate::Unknown,
        });
    }
    Ok(if transaction.has(Space::Drafts, volume)? {
        Fate::Belongs
    } else if transaction.has(Space::GivenUp, volume)? {
        Fate::NeverMade
    } else if transaction.has(Space::Deleted, volume)? {
        Fate::Deleted
    } else {
        Fate::Unknown
    })
}

pub fn fates(transaction: &mut Transaction<'_>, found: &[FoundReplica]) -> Done {
    let fates: Planned<Vec<Fate>> = found.iter().map(|found| fate(transaction, found)).collect();
    fates.map(Answer::Fates)
}

/// Whether a replica that is not to be kept has gone no further than is known here, by the newest
/// view on its disk.
fn is_known(
    transaction: &mut Transaction<'_>,
    found: &FoundReplica,
    (fate, adopted): (Fate, &View),
) -> Planned<bool> {
    if adopted.volume.to_string() != found.volume {
        return Ok(false);
    }
    if fate == Fate::NeverMade {
        let is_member =
            adopted.replicas().any(|(_, record)| record.id.to_string() == found.replica);
        // Its volume's first view is written when it is made.
        return Ok(!is_member || adopted.generation == Generation(1));
    }
    let known = match transaction.view(&found.volume)? {
        Some(newest) => Some(newest),
        None => transaction.last_view(&found.volume)?,
    };
    Ok(known.is_some_and(|known| {
        let is_later = known.is_of_epoch(adopted) && adopted.generation > known.generation;
        known.continues(adopted) && !is_later
    }))
}

pub fn discard(
    transaction: &mut Transaction<'_>,
    by: &Maker,
    found: &FoundReplica,
    adopted: Option<&ViewText>,
) -> Done {
    let fate = fate(transaction, found)?;
    if !matches!(fate, Fate::Deleted | Fate::NeverMade) {
        return Ok(Answer::Fates(vec![fate]));
    }
    // One that this software does not read is no older than it.
    let adopted = adopted.and_then(|view| view.decode().ok());
    let is_known = match &adopted {
        Some(adopted) => is_known(transaction, found, (fate, adopted))?,
        None => false,
    };
    if !is_known {
        return Ok(Answer::Fates(vec![Fate::Unknown]));
    }
    transaction.put(Space::Discarded, &found.replica, by)?;
    Ok(Answer::Done)
}

pub fn discarded(transaction: &mut Transaction<'_>, found: &FoundReplica) -> Answer {
    transaction.delete(Space::Discarded, &found.replica);
    Answer::Done
}

/// Whether a view holds a replica that is being deleted. A daemon that has ended deletes nothing.
pub fn holds_discarded(transaction: &mut Transaction<'_>, view: &View) -> Planned<bool> {
    // One condition for all: a view may have more replicas than a commit has conditions.
    transaction.names_for_sure(Space::Discarded)?;
    for (_, record) in view.replicas() {
        let replica = record.id.to_string();
        let by: Option<Maker> = transaction.look(|t| t.json(Space::Discarded, &replica))?;
        let Some(by) = by else { continue };
        let node = transaction.node(&by.node)?;
        if node.is_some_and(|node| node.incarnation == by.incarnation) {
            return Ok(true);
        }
    }
    Ok(false)
}

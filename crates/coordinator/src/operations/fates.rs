//! What is to become of replicas that nodes find on their disks.
//!
//! An answer may be old when it is acted on: the volume may have been put together from its disks
//! meanwhile. So whoever deletes a replica has it discarded first. That decides: it is refused if the
//! replica has a volume by now, and no volume takes the replica up until it is deleted.

use evenkeel_core::View;

use super::Done;
use crate::store::Space;
use crate::transaction::{Planned, Transaction};
use crate::{Answer, Fate, FoundReplica, Maker};

fn fate(transaction: &mut Transaction<'_>, found: &FoundReplica) -> Planned<Fate> {
    let volume = found.volume.as_str();
    if let Some(record) = transaction.volume(volume)? {
        let placed = record.replicas.iter().find(|placed| placed.id == found.replica);
        return Ok(match placed {
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

pub fn discard(transaction: &mut Transaction<'_>, by: &Maker, found: &FoundReplica) -> Done {
    match fate(transaction, found)? {
        Fate::Deleted | Fate::NeverMade => {}
        fate => return Ok(Answer::Fates(vec![fate])),
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

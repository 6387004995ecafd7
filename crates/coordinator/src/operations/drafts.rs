//! Volumes that are being created.
//!
//! A node creates a volume's replicas before the coordinator records the volume. If the node dies
//! in between, or the answer is lost, the replicas would belong to nothing for ever. So the node
//! records a draft first: it becomes the volume, or is given up for good. Then its replicas are
//! deleted, unless they have been used: a database that was restored from a backup may hold a draft
//! that has become a volume since.

use serde::{Deserialize, Serialize};

use super::{Done, placements};
use crate::Answer;
use crate::memory::Note;
use crate::store::Space;
use crate::transaction::{Planned, Transaction};

/// Most that one commit of a sweep gives up.
const MAX_SWEPT: usize = 16;

/// The daemon that is creating the replicas of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Draft {
    node: String,
    incarnation: u64,
}

pub fn draft(
    transaction: &mut Transaction<'_>,
    (node, incarnation): (&str, u64),
    volume: &str,
) -> Done {
    // Also one that became a volume, which was deleted: the request comes late.
    if transaction.has(Space::GivenUp, volume)? || transaction.has(Space::Deleted, volume)? {
        return Ok(Answer::NoVolume);
    }
    // The same, and the volume is there.
    if transaction.has(Space::Volumes, volume)? {
        return Ok(Answer::Done);
    }
    let draft = Draft { node: node.to_owned(), incarnation };
    transaction.put(Space::Drafts, volume, &draft)?;
    Ok(Answer::Done)
}

/// Gives up a draft, or what may yet become one: the request that notes it may come later than this
/// one.
pub fn give_up(transaction: &mut Transaction<'_>, volume: &str) -> Done {
    // It exists, or did: the answer to its creation was lost, or a restored store holds a draft of
    // before.
    if transaction.has(Space::Volumes, volume)? || transaction.has(Space::Deleted, volume)? {
        take(transaction, volume)?;
        return Ok(Answer::Done);
    }
    // A restored store may hold it, too.
    transaction.delete(Space::Drafts, volume);
    transaction.put_now(Space::GivenUp, volume);
    Ok(Answer::Done)
}

/// Takes a draft out. `false`: there is none.
pub fn take(transaction: &mut Transaction<'_>, volume: &str) -> Planned<bool> {
    let found = transaction.has(Space::Drafts, volume)?;
    if found {
        transaction.delete(Space::Drafts, volume);
    }
    Ok(found)
}

/// Gives up what daemons were making that have ended, or have not been heard for the expiry
/// time: drafts, and replicas that no view holds. One that lives on all the same is refused its
/// volume, and makes it anew. `true`: something is to be committed, and there may be more.
pub fn sweep(transaction: &mut Transaction<'_>) -> Planned<bool> {
    transaction.names(Space::Nodes)?;
    let mut swept = 0;
    for volume in transaction.names(Space::Drafts)? {
        if swept < MAX_SWEPT && transaction.look(|t| is_dead(t, &volume))? {
            is_dead(transaction, &volume)?;
            give_up(transaction, &volume)?;
            let text = format!("gave up volume {volume}, whose creation was cut off");
            transaction.note(Note::Log(text));
            swept += 1;
        }
    }
    for volume in transaction.names(Space::Volumes)? {
        let has_room = swept < MAX_SWEPT && transaction.has_room(&volume);
        if has_room && transaction.look(|t| placements::has_unmade(t, &volume))? {
            placements::forget_unmade(transaction, &volume)?;
            swept += 1;
        }
    }
    Ok(swept > 0)
}

fn is_dead(transaction: &mut Transaction<'_>, volume: &str) -> Planned<bool> {
    match transaction.json::<Draft>(Space::Drafts, volume)? {
        Some(draft) => is_over(transaction, &draft.node, draft.incarnation),
        None => Ok(false),
    }
}

/// Whether an incarnation of a node's daemon has ended, or has not been heard for the expiry
/// time.
pub fn is_over(transaction: &mut Transaction<'_>, node: &str, incarnation: u64) -> Planned<bool> {
    let same_incarnation =
        transaction.node(node)?.is_some_and(|node| node.incarnation == incarnation);
    Ok(!same_incarnation || !transaction.may_live(node)?)
}

//! Volumes and their views.

use evenkeel_core::{NodeId, View};

use super::{Done, assembly, drafts, placements, removal};
use crate::store::Space;
use crate::transaction::{Planned, Transaction, content, refused, volume_id};
use crate::{Answer, StoredVolume, ViewText, VolumeRecord, Wish, dropped};

/// A volume as it is stored; `None` if it is not, or not whole.
fn load(transaction: &mut Transaction<'_>, id: &str) -> Planned<Option<StoredVolume>> {
    let (Some(record), Some(view)) = (transaction.volume(id)?, transaction.view(id)?) else {
        return Ok(None);
    };
    Ok(Some(StoredVolume { record, view: ViewText::encode(&view).map_err(content)? }))
}

pub fn volumes(transaction: &mut Transaction<'_>) -> Done {
    let names = transaction.names(Space::Names)?;
    // Each with one read, not one for each volume.
    transaction.names(Space::Volumes)?;
    transaction.names(Space::Views)?;
    let mut found = Vec::new();
    for name in names {
        let Some(id) = transaction.text(Space::Names, &name)? else { continue };
        found.extend(load(transaction, &id)?);
    }
    Ok(Answer::Volumes(found))
}

pub fn read(transaction: &mut Transaction<'_>, volume: &str) -> Done {
    // What is an identity means that volume, though another one may have it for a name.
    let id = match transaction.has(Space::Volumes, volume)? {
        true => Some(volume.to_owned()),
        false => transaction.text(Space::Names, volume)?,
    };
    let Some(id) = id else { return Ok(Answer::NoVolume) };
    let found = load(transaction, &id)?;
    Ok(found.map_or(Answer::NoVolume, |volume| Answer::Volume(Box::new(volume))))
}

/// Whether a name is that of another volume than this one, or its identity.
pub fn is_name_taken(transaction: &mut Transaction<'_>, name: &str, volume: &str) -> Planned<bool> {
    let holder = transaction.text(Space::Names, name)?;
    let is_identity = name != volume && transaction.has(Space::Volumes, name)?;
    Ok(is_identity || holder.is_some_and(|holder| holder != volume))
}

/// That a request was decided upon another record than there is.
pub fn refusal(
    transaction: &mut Transaction<'_>,
    record: &VolumeRecord,
    revision: Option<u64>,
) -> Planned<Option<Answer>> {
    if revision.is_none_or(|revision| revision == record.revision) {
        return Ok(None);
    }
    let now = load(transaction, &record.id)?;
    Ok(Some(now.map_or(Answer::NoVolume, |now| Answer::Changed(Box::new(now)))))
}

/// A view that is of another volume than the record would take that one's place.
pub fn is_of(view: &View, record: &VolumeRecord) -> Planned<()> {
    if view.volume.to_string() == record.id {
        return Ok(());
    }
    Err(refused(format_args!("a view of {} for volume {}", view.volume, record.id)))
}

pub fn create(transaction: &mut Transaction<'_>, volume: &StoredVolume) -> Done {
    let Ok(view) = volume.view.decode() else {
        return Err(refused("no valid view for a new volume"));
    };
    let record = &volume.record;
    is_of(&view, record)?;
    // The same request again: its answer was lost. It may have been renamed meanwhile.
    if transaction.has(Space::Volumes, &record.id)? {
        return Ok(Answer::Done);
    }
    if is_name_taken(transaction, &record.name, &record.id)? {
        return Ok(Answer::NameInUse);
    }
    let homes = record.replicas.iter().map(|placed| placed.node.as_str());
    if let Some(refusal) = removal::refusal_of_many(transaction, homes)? {
        return Ok(refusal);
    }
    if !drafts::take(transaction, &record.id)? {
        return Ok(Answer::NoVolume);
    }
    transaction.put_bytes(Space::Names, &record.name, record.id.clone().into());
    transaction.put_volume(record)?;
    transaction.put_view(&view)?;
    Ok(Answer::Done)
}

/// That a view is newer, or that there is another one.
pub fn newest(newest: &View) -> Done {
    ViewText::encode(newest).map(Answer::Newest).map_err(content)
}

pub fn swap(
    transaction: &mut Transaction<'_>,
    node: &str,
    (view, replaces): (&ViewText, Option<&ViewText>),
    wish: Option<Wish>,
) -> Done {
    let next = view.decode().map_err(|e| refused(format_args!("{e} in a view to swap")))?;
    let by: NodeId = node.parse().map_err(|_| refused(format_args!("no node {node}")))?;
    let volume = next.volume.to_string();
    let Some(before) = transaction.view(&volume)? else { return Ok(Answer::NoVolume) };
    // The same request again: its answer was lost.
    if before == next {
        return Ok(Answer::Done);
    }
    // A stopped volume is not attached, however late the request comes.
    if !next.primaries.is_empty() && assembly::is_stopped(transaction, &volume)? {
        return Ok(Answer::NoVolume);
    }
    // Numbers go on from an assembly: a primary of the epoch before may count to the same. So may
    // one that was told of views which this store has forgotten, as an older one was put back: its
    // next view is no change of the stored one.
    let replaces = replaces.map(ViewText::decode).transpose();
    let replaces = replaces.map_err(|e| refused(format_args!("{e} in a view to replace")))?;
    let is_of_branch = replaces.is_none_or(|replaces| replaces == before);
    if !next.follows(&before) || next.history != before.history || !is_of_branch {
        return newest(&before);
    }
    for node in dropped(&next, &before, by) {
        let node = node.to_string();
        if transaction.may_live(&node)? {
            return Ok(Answer::NotExpired { node });
        }
    }
    if !placements::follow(transaction, (&before, &next), by, wish)? {
        return Ok(Answer::GivenUp);
    }
    transaction.put_view(&next)?;
    Ok(Answer::Done)
}

/// Whether a view is the one that a request names: by its content, if that is given. Numbers come
/// again when an older store is put back.
pub fn is_named(view: &View, generation: u64, named: Option<&ViewText>) -> Planned<bool> {
    let named = named.map(ViewText::decode).transpose();
    let named = named.map_err(|e| refused(format_args!("{e} in a view to replace")))?;
    Ok(named.map_or(view.generation.0 == generation, |named| named == *view))
}

/// Deletes a volume that is as it was when that was decided. `force`: also if a node that is dead
/// since has it attached.
pub fn delete(
    transaction: &mut Transaction<'_>,
    (node, volume): (&str, &str),
    (generation, named, revision): (u64, Option<&ViewText>, Option<u64>),
    force: bool,
) -> Done {
    let Some(record) = transaction.volume(volume)? else {
        let known = transaction.has(Space::Deleted, volume)?;
        return Ok(if known { Answer::Done } else { Answer::NoVolume });
    };
    volume_id(volume)?;
    let last = transaction.view(volume)?;
    if let Some(view) = &last {
        if !is_named(view, generation, named)? {
            return newest(view);
        }
        for primary in &view.primaries {
            let primary = primary.id.node.to_string();
            // A silent node may serve it still: it does not need the coordinator for that.
            if primary != node && (!force || transaction.may_live(&primary)?) {
                return newest(view);
            }
        }
    }
    if let Some(refusal) = refusal(transaction, &record, revision)? {
        return Ok(refusal);
    }
    transaction.delete(Space::Volumes, volume);
    transaction.delete(Space::Names, &record.name);
    transaction.delete(Space::Views, volume);
    transaction.put_last_view(volume, last.as_ref()).map(|()| Answer::Done)
}

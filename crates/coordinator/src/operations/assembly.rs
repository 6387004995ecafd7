//! Volumes that are stopped, and volumes that come back from their disks alone.

use evenkeel_core::View;

use super::{Done, fates, volumes};
use crate::store::Space;
use crate::transaction::{Planned, Transaction, content, refused, volume_id};
use crate::{Answer, Standing, StoredVolume, ViewText, VolumeRecord};

/// Whether a volume is stopped.
pub fn is_stopped(transaction: &mut Transaction<'_>, volume: &str) -> Planned<bool> {
    Ok(transaction.volume(volume)?.is_some_and(|record| record.stopped))
}

pub fn stop(
    transaction: &mut Transaction<'_>,
    volume: &str,
    stopped: bool,
    revision: Option<u64>,
) -> Done {
    volume_id(volume)?;
    let Some(newest) = transaction.view(volume)? else { return Ok(Answer::NoVolume) };
    if stopped && !newest.primaries.is_empty() {
        return volumes::newest(&newest);
    }
    let Some(mut record) = transaction.volume(volume)? else { return Ok(Answer::NoVolume) };
    if record.stopped != stopped
        && let Some(refusal) = volumes::refusal(transaction, &record, revision)?
    {
        return Ok(refusal);
    }
    record.stopped = stopped;
    if stopped {
        record.is_wanted_nowhere();
    }
    // Also if it was so: what was decided before is not done any more.
    transaction.put_volume(&record)?;
    Ok(Answer::Done)
}

/// Why a volume that is not there is not assembled: it was so already and was deleted since, as one
/// that is meant to bring it back begins a history of its own; or another deletion was expected.
fn refusal_of_deleted(
    transaction: &mut Transaction<'_>,
    view: &View,
    stands: Option<&Standing>,
) -> Planned<Option<Answer>> {
    let last = transaction.last_view(&view.volume.to_string())?;
    if last.as_ref().is_some_and(|last| last.descends_from(view.history, view.generation)) {
        return Ok(Some(Answer::NoVolume));
    }
    let is_expected = match (stands, &last) {
        (None, _) | (Some(Standing::Nothing), None) => true,
        (Some(Standing::Deleted(named)), Some(last)) => named.decode().map_err(refused)? == *last,
        _ => false,
    };
    match last.filter(|_| !is_expected) {
        Some(last) => Ok(Some(Answer::WasDeleted(ViewText::encode(&last).map_err(content)?))),
        None => Ok((!is_expected).then_some(Answer::NoVolume)),
    }
}

pub fn assemble(
    transaction: &mut Transaction<'_>,
    volume: &StoredVolume,
    (replaces, stands): (Option<u64>, Option<&Standing>),
    node: &str,
) -> Done {
    let view = volume.view.decode().map_err(refused)?;
    let record = &volume.record;
    volumes::is_of(&view, record)?;
    let known = transaction.volume(&record.id)?;
    if let Some(newest) = transaction.view(&view.volume.to_string())? {
        // The same request again: its answer was lost.
        if newest == view {
            return Ok(Answer::Done);
        }
        let mut attached = false;
        for primary in newest.primaries.iter().map(|primary| primary.id.node.to_string()) {
            attached |= primary != node && transaction.may_live(&primary)?;
        }
        let is_renamed = known.as_ref().is_some_and(|known| known.name != record.name);
        let is_named = match (replaces, stands) {
            (Some(generation), None) => newest.generation.0 == generation,
            (_, Some(Standing::Volume(named))) => named.decode().map_err(refused)? == newest,
            _ => false,
        };
        if !is_named || attached || is_renamed {
            return volumes::newest(&newest);
        }
        let revision = stands.map(|_| record.revision);
        if let Some(known) = &known
            && let Some(refusal) = volumes::refusal(transaction, known, revision)?
        {
            return Ok(refusal);
        }
    } else if let Some(refusal) = refusal_of_deleted(transaction, &view, stands)? {
        return Ok(refusal);
    }
    if fates::holds_discarded(transaction, &view)? {
        return Ok(Answer::GivenUp);
    }
    if volumes::is_name_taken(transaction, &record.name, &record.id)? {
        return Ok(Answer::NameInUse);
    }
    transaction.put_bytes(Space::Names, &record.name, record.id.clone().into());
    let before = known.map_or(0, |known| known.revision);
    let revision = record.revision.max(before);
    transaction.put_volume(&VolumeRecord { revision, ..record.clone() })?;
    for forgotten in [Space::Deleted, Space::GivenUp] {
        // Read: a commit that happens late does not bring back what was deleted meanwhile.
        transaction.has(forgotten, &record.id)?;
        transaction.delete(forgotten, &record.id);
    }
    transaction.put_view(&view)?;
    Ok(Answer::Done)
}

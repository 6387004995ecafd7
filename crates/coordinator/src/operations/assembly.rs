//! Volumes that are stopped, and volumes that come back from their disks alone.

use super::{Done, fates, volumes};
use crate::store::Space;
use crate::transaction::{Planned, Transaction, content, volume_id};
use crate::{Answer, StoredVolume};

/// Whether a volume is stopped.
pub fn is_stopped(transaction: &mut Transaction<'_>, volume: &str) -> Planned<bool> {
    Ok(transaction.volume(volume)?.is_some_and(|record| record.stopped))
}

pub fn stop(transaction: &mut Transaction<'_>, volume: &str, stopped: bool) -> Done {
    volume_id(volume)?;
    let Some(newest) = transaction.view(volume)? else { return Ok(Answer::NoVolume) };
    if stopped && !newest.primaries.is_empty() {
        return volumes::newest(&newest);
    }
    let Some(mut record) = transaction.volume(volume)? else { return Ok(Answer::NoVolume) };
    record.stopped = stopped;
    if stopped {
        record.is_wanted_nowhere();
    }
    transaction.put(Space::Volumes, volume, &record)?;
    Ok(Answer::Done)
}

pub fn assemble(
    transaction: &mut Transaction<'_>,
    volume: &StoredVolume,
    replaces: Option<u64>,
    node: &str,
) -> Done {
    let view = volume.view.decode().map_err(content)?;
    let record = &volume.record;
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
        let is_renamed = known.is_some_and(|known| known.name != record.name);
        if replaces != Some(newest.generation.0) || attached || is_renamed {
            return volumes::newest(&newest);
        }
    }
    if fates::holds_discarded(transaction, &view)? {
        return Ok(Answer::GivenUp);
    }
    if transaction.text(Space::Names, &record.name)?.is_some_and(|holder| holder != record.id) {
        return Ok(Answer::NameInUse);
    }
    transaction.put_bytes(Space::Names, &record.name, record.id.clone().into());
    transaction.put(Space::Volumes, &record.id, record)?;
    for forgotten in [Space::Deleted, Space::GivenUp] {
        // Read: a commit that happens late does not bring back what was deleted meanwhile.
        transaction.has(forgotten, &record.id)?;
        transaction.delete(forgotten, &record.id);
    }
    transaction.put_view(&view)?;
    Ok(Answer::Done)
}

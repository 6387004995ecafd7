//! Volumes that are stopped, and volumes that come back from their disks alone.

use evenkeel_core::{View, VolumeId};
use redb::{ReadableTable as _, WriteTransaction};

use super::{
    Answer, DELETED, EmbeddedError, Inner, NAMES, Stored, VOLUMES, db, drafts, fates, json,
    newest_view, store_view, text,
};
use crate::coordinator::{StoredVolume, ViewText, VolumeRecord};

/// Whether a volume is stopped.
pub(super) fn is_stopped(transaction: &WriteTransaction, volume: VolumeId) -> Stored<bool> {
    let volumes = db(transaction.open_table(VOLUMES))?;
    let found = db(volumes.get(volume.to_string().as_str()))?;
    let record = found.map(|value| json::<VolumeRecord>(value.value())).transpose()?;
    Ok(record.is_some_and(|record| record.stopped))
}

/// The name of a volume.
fn named(transaction: &WriteTransaction, volume: &str) -> Stored<Option<String>> {
    let volumes = db(transaction.open_table(VOLUMES))?;
    let found = db(volumes.get(volume))?.map(|value| json::<VolumeRecord>(value.value()));
    Ok(found.transpose()?.map(|record| record.name))
}

fn content(error: impl ToString) -> EmbeddedError {
    EmbeddedError::Content(error.to_string())
}

fn newest_answer(newest: &View) -> Stored<Answer> {
    ViewText::encode(newest).map(Answer::Newest).map_err(content)
}

impl Inner {
    pub(super) fn stop(&self, volume: &str, stopped: bool) -> Stored<Answer> {
        let id: VolumeId = volume.parse().map_err(content)?;
        self.change(|transaction| {
            let Some(newest) = newest_view(transaction, id)? else { return Ok(Answer::NoVolume) };
            if stopped && !newest.primaries.is_empty() {
                return newest_answer(&newest);
            }
            let mut volumes = db(transaction.open_table(VOLUMES))?;
            let found = db(volumes.get(volume))?.map(|v| json::<VolumeRecord>(v.value()));
            let Some(mut record) = found.transpose()? else { return Ok(Answer::NoVolume) };
            record.stopped = stopped;
            if stopped {
                record.is_wanted_nowhere();
            }
            db(volumes.insert(volume, text(&record)?.as_slice()))?;
            Ok(Answer::Done)
        })
    }

    pub(super) fn assemble(
        &self,
        volume: &StoredVolume,
        replaces: Option<u64>,
        node: &str,
    ) -> Stored<Answer> {
        let view = volume.view.decode().map_err(content)?;
        let record = &volume.record;
        self.change(|transaction| {
            let newest = newest_view(transaction, view.volume)?;
            if let Some(newest) = &newest {
                // The same request again: its answer was lost.
                if *newest == view {
                    return Ok(Answer::Done);
                }
                let mut nodes = newest.primaries.iter().map(|primary| primary.id.node.to_string());
                let attached = nodes.any(|primary| primary != node && self.alive(&primary));
                let is_renamed = named(transaction, &record.id)?.is_some_and(|n| n != record.name);
                if replaces != Some(newest.generation.0) || attached || is_renamed {
                    return newest_answer(newest);
                }
            }
            if fates::holds_discarded(transaction, &view)? {
                return Ok(Answer::GivenUp);
            }
            let mut names = db(transaction.open_table(NAMES))?;
            let holder = db(names.get(record.name.as_str()))?.map(|id| id.value().to_owned());
            if holder.is_some_and(|holder| holder != record.id) {
                return Ok(Answer::NameInUse);
            }
            db(names.insert(record.name.as_str(), record.id.as_str()))?;
            let mut volumes = db(transaction.open_table(VOLUMES))?;
            db(volumes.insert(record.id.as_str(), text(record)?.as_slice()))?;
            for forgotten in [DELETED, drafts::GIVEN_UP] {
                db(db(transaction.open_table(forgotten))?.remove(record.id.as_str()))?;
            }
            store_view(transaction, &view)?;
            Ok(Answer::Done)
        })
    }
}

#[cfg(test)]
mod tests;

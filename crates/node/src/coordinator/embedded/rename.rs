//! Giving a volume another name.

use std::collections::BTreeSet;

use evenkeel_core::VolumeId;
use redb::ReadableTable as _;

use super::{Answer, EmbeddedError, Inner, NAMES, Stored, VOLUMES, db, json, newest_view, text};
use crate::coordinator::VolumeRecord;

impl Inner {
    /// Renames a volume that no node has attached, or is to attach again: devices, exports and what nodes
    /// remember have its name.
    pub(super) fn rename_volume(&self, volume: &str, name: &str) -> Stored<Answer> {
        let id: VolumeId =
            volume.parse().map_err(|_| EmbeddedError::Content(format!("no volume {volume}")))?;
        self.change(|transaction| {
            let mut volumes = db(transaction.open_table(VOLUMES))?;
            let found = db(volumes.get(volume))?.map(|v| json::<VolumeRecord>(v.value()));
            let (Some(mut record), Some(newest)) =
                (found.transpose()?, newest_view(transaction, id)?)
            else {
                return Ok(Answer::NoVolume);
            };
            // The same request again: its answer was lost.
            if record.name == name {
                return Ok(Answer::Done);
            }
            let mut names = db(transaction.open_table(NAMES))?;
            if db(names.get(name))?.is_some() {
                return Ok(Answer::NameInUse);
            }
            let wanted = record.wanted_on.iter().filter(|(_, shown)| shown.is_some());
            let attached = newest.primaries.iter().map(|primary| primary.id.node.to_string());
            let used: BTreeSet<String> =
                wanted.map(|(node, _)| node.clone()).chain(attached).collect();
            if !used.is_empty() {
                return Ok(Answer::UsedOn { nodes: used.into_iter().collect() });
            }
            db(names.remove(record.name.as_str()))?;
            db(names.insert(name, volume))?;
            name.clone_into(&mut record.name);
            db(volumes.insert(volume, text(&record)?.as_slice()))?;
            Ok(Answer::Done)
        })
    }
}

#[cfg(test)]
mod tests;

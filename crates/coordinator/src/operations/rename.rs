//! Giving a volume another name.

use std::collections::BTreeSet;

use super::{Done, volumes};
use crate::Answer;
use crate::store::Space;
use crate::transaction::{Transaction, volume_id};

/// Renames a volume that no node has attached, or is to attach again: devices, exports and what
/// nodes remember have its name.
pub fn rename_volume(
    transaction: &mut Transaction<'_>,
    volume: &str,
    name: &str,
    revision: Option<u64>,
) -> Done {
    volume_id(volume)?;
    let (Some(mut record), Some(newest)) = (transaction.volume(volume)?, transaction.view(volume)?)
    else {
        return Ok(Answer::NoVolume);
    };
    // The same request again, whose answer was lost. What was decided before is not done any more.
    if record.name == name {
        return transaction.put_volume(&record).map(|()| Answer::Done);
    }
    if let Some(refusal) = volumes::refusal(transaction, &record, revision)? {
        return Ok(refusal);
    }
    if volumes::is_name_taken(transaction, name, volume)? {
        return Ok(Answer::NameInUse);
    }
    let wanted = record.wanted_on.iter().filter(|(_, shown)| shown.is_some());
    let attached = newest.primaries.iter().map(|primary| primary.id.node.to_string());
    let used: BTreeSet<String> = wanted.map(|(node, _)| node.clone()).chain(attached).collect();
    if !used.is_empty() {
        return Ok(Answer::UsedOn { nodes: used.into_iter().collect() });
    }
    transaction.delete(Space::Names, &record.name);
    transaction.put_bytes(Space::Names, name, volume.into());
    name.clone_into(&mut record.name);
    transaction.put_volume(&record)?;
    Ok(Answer::Done)
}

//! Replicas that join a volume and leave it: where they are, in step with the views.
//!
//! A replica is made on its disk before a view holds it. If its maker dies in between, or the answer
//! to the view is lost, it would belong to nothing for ever. So its place is noted first; a view that
//! holds it makes it the volume's, or it is given up, once and for all: no view may add it then.

use evenkeel_core::{NodeId, ReplicaId, View, VolumeId};
use redb::{ReadableDatabase, ReadableTable, WriteTransaction};

use super::{Answer, Inner, NODES, Stored, VOLUMES, db, json, newest_view, removal, text};
use crate::coordinator::embedded::EmbeddedError;
use crate::coordinator::{PlacedReplica, Shown, VolumeRecord, Wish, wanted};

/// Most removed replicas of a volume that are remembered. What an older one left on its disk has to
/// be deleted by hand.
const MOST_REMOVED: usize = 256;

impl Inner {
    pub(super) fn place(
        &self,
        volume: &str,
        replica: PlacedReplica,
        (same_disk, alone): (bool, bool),
    ) -> Stored<Answer> {
        self.change(|transaction| {
            if let Some(refusal) = removal::refusal(transaction, [replica.node.as_str()])? {
                return Ok(refusal);
            }
            let Some(mut record) = load(transaction, volume)? else { return Ok(Answer::NoVolume) };
            if record.replicas.iter().any(|placed| placed.id == replica.id) {
                return Ok(Answer::Done);
            }
            let place =
                |placed: &PlacedReplica| (placed.mirror, placed.node.clone(), placed.disk.clone());
            let is_in_the_way = |placed: &&PlacedReplica| {
                let is_there = !same_disk && place(placed) == place(&replica);
                let is_made = alone && placed.mirror == replica.mirror && placed.maker.is_some();
                !placed.removed && (is_there || is_made)
            };
            if let Some(placed) = record.replicas.iter().find(is_in_the_way) {
                return Ok(Answer::PlacedAlready { replica: placed.id.clone() });
            }
            record.replicas.push(replica);
            store(transaction, &record)?;
            Ok(Answer::Done)
        })
    }

    pub(super) fn forget(&self, volume: &str, replica: &str) -> Stored<Answer> {
        self.change(|transaction| {
            let Some(mut record) = load(transaction, volume)? else { return Ok(Answer::NoVolume) };
            let held = held_by_newest(transaction, volume)?;
            for placed in record.replicas.iter_mut().filter(|placed| placed.id == replica) {
                placed.maker = None;
                placed.removed = !held.contains(&placed.id);
            }
            store(transaction, &record)?;
            Ok(Answer::Done)
        })
    }

    /// How a volume is shown counts only where it is attached; where it is not, only the swap that
    /// attaches it says that it is meant to be.
    pub(super) fn want(&self, volume: &str, node: &str, shown: Option<Shown>) -> Stored<Answer> {
        self.change(|transaction| {
            let Some(mut record) = load(transaction, volume)? else { return Ok(Answer::NoVolume) };
            let newest = newest_view(transaction, parse(volume)?)?;
            let is_primary = |view: &View| {
                view.primaries.iter().any(|primary| primary.id.node.to_string() == node)
            };
            if shown.is_none() || newest.as_ref().is_some_and(is_primary) {
                record.wanted_on.insert(node.to_owned(), shown);
                store(transaction, &record)?;
            }
            Ok(Answer::Done)
        })
    }

    pub(super) fn verified(&self, volume: &str, verdict: serde_json::Value) -> Stored<Answer> {
        self.change(|transaction| {
            let Some(mut record) = load(transaction, volume)? else { return Ok(Answer::NoVolume) };
            record.verified = Some(verdict);
            store(transaction, &record)?;
            Ok(Answer::Done)
        })
    }

    /// Gives up replicas whose makers' lives are over, and which no view holds.
    pub(super) fn forget_unmade(&self) -> Stored<()> {
        for (volume, replica) in self.unmade()? {
            self.forget(&volume, &replica)?;
            tracing::info!(
                volume,
                replica,
                "gave up a replica that was cut off while it was added"
            );
        }
        Ok(())
    }

    fn unmade(&self) -> Stored<Vec<(String, String)>> {
        let transaction = db(self.database.begin_read())?;
        let nodes = db(transaction.open_table(NODES))?;
        let mut unmade = Vec::new();
        for entry in db(db(transaction.open_table(VOLUMES))?.iter())? {
            let record: VolumeRecord = json(db(entry)?.1.value())?;
            for placed in record.replicas {
                let Some(maker) = placed.maker else { continue };
                if self.is_over(&nodes, &maker.node, maker.incarnation)? {
                    unmade.push((record.id.clone(), placed.id));
                }
            }
        }
        Ok(unmade)
    }
}

/// Notes who joins a volume by its next view, and who leaves it. `false`: it adds a replica that was
/// given up, or never placed.
pub(super) fn follow(transaction: &WriteTransaction, newest: &View, next: &View) -> Stored<bool> {
    let ids = |view: &View| view.replicas().map(|(_, record)| record.id).collect::<Vec<_>>();
    let (before, after) = (ids(newest), ids(next));
    let only_in = |these: &[ReplicaId], others: &[ReplicaId]| {
        let only = these.iter().filter(|id| !others.contains(id));
        only.map(ToString::to_string).collect::<Vec<_>>()
    };
    let (joined, left) = (only_in(&after, &before), only_in(&before, &after));
    if joined.is_empty() && left.is_empty() {
        return Ok(true);
    }
    let Some(mut record) = load(transaction, &next.volume.to_string())? else { return Ok(false) };
    for id in joined {
        let found = record.replicas.iter_mut().find(|placed| placed.id == id && !placed.removed);
        let Some(placed) = found else { return Ok(false) };
        placed.maker = None;
    }
    for placed in record.replicas.iter_mut().filter(|placed| left.contains(&placed.id)) {
        placed.removed = true;
    }
    store(transaction, &record)?;
    Ok(true)
}

/// Notes who uses a volume by its next view, and where it is meant to be attached: whoever had attached it
/// before, and comes back, is told.
pub(super) fn note_use(
    transaction: &WriteTransaction,
    (newest, next): (&View, &View),
    by: NodeId,
    wish: Option<Wish>,
) -> Stored<()> {
    if !wanted::concerns(newest, next) {
        return Ok(());
    }
    // What stands in a view has a record.
    let Some(before) = load(transaction, &next.volume.to_string())? else { return Ok(()) };
    let mut record = before.clone();
    record.follow(newest, next, by, wish);
    if record != before {
        store(transaction, &record)?;
    }
    Ok(())
}

/// A node is removed: no volume is meant to be attached there.
pub(super) fn wants_nothing(transaction: &WriteTransaction, node: &str) -> Stored<()> {
    let mut concerned = Vec::new();
    for entry in db(db(transaction.open_table(VOLUMES))?.iter())? {
        let mut record: VolumeRecord = json(db(entry)?.1.value())?;
        if record.wanted_on.remove(node).is_some() {
            concerned.push(record);
        }
    }
    concerned.iter().try_for_each(|record| store(transaction, record))
}

fn held_by_newest(transaction: &WriteTransaction, volume: &str) -> Stored<Vec<String>> {
    let newest = newest_view(transaction, parse(volume)?)?;
    let held = newest.iter().flat_map(View::replicas);
    Ok(held.map(|(_, record)| record.id.to_string()).collect())
}

fn parse(volume: &str) -> Stored<VolumeId> {
    volume.parse().map_err(|_| EmbeddedError::Content(format!("no volume {volume}")))
}

fn load(transaction: &WriteTransaction, volume: &str) -> Stored<Option<VolumeRecord>> {
    let volumes = db(transaction.open_table(VOLUMES))?;
    let found = db(volumes.get(volume))?.map(|v| json::<VolumeRecord>(v.value()));
    found.transpose()
}

fn store(transaction: &WriteTransaction, record: &VolumeRecord) -> Stored<()> {
    let mut record = record.clone();
    let mut surplus =
        record.replicas.iter().filter(|p| p.removed).count().saturating_sub(MOST_REMOVED);
    record.replicas.retain(|placed| {
        let is_surplus = placed.removed && surplus > 0;
        surplus -= usize::from(is_surplus);
        !is_surplus
    });
    let mut volumes = db(transaction.open_table(VOLUMES))?;
    db(volumes.insert(record.id.as_str(), text(&record)?.as_slice()))?;
    Ok(())
}

#[cfg(test)]
mod tests;

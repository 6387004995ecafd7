//! Nodes that were removed from the cluster: what is stored of them, and what keeps one from it.

use std::fmt;

use redb::{ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::{Answer, Inner, NODES, NodeRecord, Stored, VIEWS, VOLUMES, db, json, silence, starts};
use super::{EmbeddedError, PoisonError, placements, text};
use crate::coordinator::{VolumeRecord, unix_seconds};

/// By its identity.
pub(super) const REMOVED: TableDefinition<&str, &[u8]> = TableDefinition::new("removed-nodes");
/// The newest of them that are told to the others.
const MAX_TOLD: usize = 1024;

/// A node that was removed. Its identity is never admitted again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedNode {
    /// Its identity.
    pub id: String,
    /// Its name, which another node may have since.
    pub name: String,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl fmt::Display for RemovedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_second(i64::try_from(self.at).unwrap_or(0));
        let at = at.unwrap_or(jiff::Timestamp::UNIX_EPOCH).strftime("%Y-%m-%d %H:%M UTC");
        write!(f, "node {} ({}) was removed from the cluster on {at}", self.name, self.id)
    }
}

impl Inner {
    /// Removes a node that no view and no replica in the making names.
    pub(super) fn remove_node(&self, node: &str) -> Stored<Answer> {
        // Nobody acts in its name meanwhile.
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.forget_unmade()?;
        if node == self.here.to_string() {
            return Ok(Answer::NodeInUse { why: "it serves the coordinator".into() });
        }
        let answer = self.change(|transaction| {
            let mut removed = db(transaction.open_table(REMOVED))?;
            let mut nodes = db(transaction.open_table(NODES))?;
            let record = db(nodes.remove(node))?.map(|node| json::<NodeRecord>(node.value()));
            let Some(record) = record.transpose()? else {
                // The same request again: its answer was lost.
                let is_done = db(removed.get(node))?.is_some();
                return Ok(if is_done { Answer::Done } else { Answer::NotRegistered });
            };
            if let Some(why) = use_of(transaction, node)? {
                return Ok(Answer::NodeInUse { why });
            }
            placements::wants_nothing(transaction, node)?;
            db(db(transaction.open_table(starts::STARTS))?.remove(node))?;
            db(db(transaction.open_table(silence::SILENT))?.remove(node))?;
            let entry = RemovedNode { id: node.into(), name: record.name, at: unix_seconds() };
            tracing::info!("{entry}");
            db(removed.insert(node, text(&entry)?.as_slice()))?;
            Ok(Answer::Done)
        })?;
        if matches!(answer, Answer::Done) {
            self.silence().forget(node);
        }
        Ok(answer)
    }

    /// Whether a node was removed: its entry.
    pub(super) fn removed(&self, node: &str) -> Stored<Option<RemovedNode>> {
        load(&db(db(self.database.begin_read())?.open_table(REMOVED))?, node)
    }

    /// All nodes that were removed, the newest last.
    pub(super) fn removed_nodes(&self) -> Stored<Answer> {
        let transaction = db(self.database.begin_read())?;
        let mut all = Vec::new();
        for entry in db(db(transaction.open_table(REMOVED))?.iter())? {
            all.push(json::<RemovedNode>(db(entry)?.1.value())?);
        }
        all.sort_by_key(|removed| removed.at);
        all.drain(..all.len().saturating_sub(MAX_TOLD));
        Ok(Answer::RemovedNodes(all))
    }
}

fn load(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    node: &str,
) -> Stored<Option<RemovedNode>> {
    db(table.get(node))?.map(|entry| json(entry.value())).transpose()
}

/// Refuses what names a node that was removed.
pub(super) fn refusal<'a>(
    transaction: &WriteTransaction,
    nodes: impl IntoIterator<Item = &'a str>,
) -> Stored<Option<Answer>> {
    let removed = db(transaction.open_table(REMOVED))?;
    for node in nodes {
        if let Some(entry) = load(&removed, node)? {
            return Ok(Some(Answer::NodeRemoved { why: entry.to_string() }));
        }
    }
    Ok(None)
}

/// What of a volume is on a node, if anything is.
fn use_of(transaction: &WriteTransaction, node: &str) -> Stored<Option<String>> {
    let views = db(transaction.open_table(VIEWS))?;
    for entry in db(db(transaction.open_table(VOLUMES))?.iter())? {
        let record: VolumeRecord = json(db(entry)?.1.value())?;
        let name = &record.name;
        let is_made = |placed: &crate::coordinator::PlacedReplica| {
            placed.node == node && !placed.removed && placed.maker.is_some()
        };
        if record.replicas.iter().any(is_made) {
            return Ok(Some(format!("a replica of volume {name} is being made there")));
        }
        let Some(view) = db(views.get(record.id.as_str()))? else { continue };
        let view = evenkeel_format::decode_view(view.value())
            .map_err(|error| EmbeddedError::Content(error.to_string()))?;
        if view.replicas().any(|(_, replica)| replica.node.to_string() == node) {
            return Ok(Some(format!("volume {name} has a replica there")));
        }
        if view.primaries.iter().any(|primary| primary.id.node.to_string() == node) {
            return Ok(Some(format!("volume {name} is attached there")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;

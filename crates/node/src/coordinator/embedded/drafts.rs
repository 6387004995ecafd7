//! Volumes that are about to be made.
//!
//! The replicas of a volume are made before its record. If their node dies in between, or the
//! answer to it is lost, they would belong to nothing for ever. So a draft is noted first: it
//! becomes the volume, or is given up, once and for all, and then its replicas are deleted, if they
//! have not been used: a database that was restored from a backup may hold a draft that has
//! become a volume since.

use redb::{ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::{Answer, Inner, NODES, NodeRecord, Stored, VOLUMES, db, json, text};
use crate::coordinator::unix_seconds;

pub(super) const DRAFTS: TableDefinition<&str, &[u8]> = TableDefinition::new("drafts");
/// When a draft was given up, in seconds since 1970.
pub(super) const GIVEN_UP: TableDefinition<&str, u64> = TableDefinition::new("given-up");

/// Who makes a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Draft {
    node: String,
    incarnation: u64,
}

impl Inner {
    pub(super) fn draft(&self, node: String, incarnation: u64, volume: &str) -> Stored<Answer> {
        self.change(|transaction| {
            if db(db(transaction.open_table(GIVEN_UP))?.get(volume))?.is_some() {
                return Ok(Answer::NoVolume);
            }
            let draft = text(&Draft { node, incarnation })?;
            db(db(transaction.open_table(DRAFTS))?.insert(volume, draft.as_slice()))?;
            Ok(Answer::Done)
        })
    }

    pub(super) fn give_up(&self, volume: &str) -> Stored<Answer> {
        self.change(|transaction| {
            // The answer to its creation was lost, and it exists.
            if db(db(transaction.open_table(VOLUMES))?.get(volume))?.is_some() {
                return Ok(Answer::Done);
            }
            db(db(transaction.open_table(DRAFTS))?.remove(volume))?;
            db(db(transaction.open_table(GIVEN_UP))?.insert(volume, unix_seconds()))?;
            Ok(Answer::Done)
        })
    }

    /// Gives up the drafts of daemons that have ended, or have not been heard of for the expiry
    /// time. One that lives on all the same is refused its volume, and makes it anew.
    pub(super) fn give_up_dead(&self) -> Stored<()> {
        for volume in self.dead_drafts()? {
            self.give_up(&volume)?;
            tracing::info!(volume, "gave up a volume whose creation was cut off");
        }
        Ok(())
    }

    fn dead_drafts(&self) -> Stored<Vec<String>> {
        let transaction = db(self.database.begin_read())?;
        let nodes = db(transaction.open_table(NODES))?;
        let mut dead = Vec::new();
        for entry in db(db(transaction.open_table(DRAFTS))?.iter())? {
            let (volume, draft) = db(entry)?;
            let draft: Draft = json(draft.value())?;
            if self.is_over(&nodes, &draft.node, draft.incarnation)? {
                dead.push(volume.value().to_owned());
            }
        }
        Ok(dead)
    }
}

impl Inner {
    /// Whether a life of a node's daemon has ended, or has not been heard of for the expiry time.
    pub(super) fn is_over(
        &self,
        nodes: &impl ReadableTable<&'static str, &'static [u8]>,
        node: &str,
        incarnation: u64,
    ) -> Stored<bool> {
        let found = db(nodes.get(node))?;
        let found = found.map(|node| json::<NodeRecord>(node.value())).transpose()?;
        let same_life = found.is_some_and(|node| node.incarnation == incarnation);
        Ok(!same_life || !self.alive(node))
    }
}

/// Takes a draft out, to make the volume in the same transaction. `false`: there is none.
pub(super) fn take(transaction: &WriteTransaction, volume: &str) -> Stored<bool> {
    let mut drafts = db(transaction.open_table(DRAFTS))?;
    let found = db(drafts.remove(volume))?.is_some();
    Ok(found)
}

#[cfg(test)]
mod tests;

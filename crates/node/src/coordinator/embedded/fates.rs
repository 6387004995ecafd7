//! What is to become of replicas that nodes find on their disks.
//!
//! An answer may be old when it is acted on: the volume may have been put together from its disks
//! meanwhile. So whoever deletes a replica has it discarded first. That decides: it is refused if the
//! replica has a volume by now, and no volume takes the replica up until it is deleted.

use evenkeel_core::View;
use redb::{ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::{Answer, DELETED, Inner, NODES, Stored, VOLUMES, db, drafts, json, text};
use crate::coordinator::{Fate, FoundReplica, Maker, NodeRecord, VolumeRecord};

/// Which life of which node's daemon is deleting a replica.
pub(super) const DISCARDED: TableDefinition<&str, &[u8]> = TableDefinition::new("discarded");

/// What tells of replicas.
struct Tables<Records, Times> {
    volumes: Records,
    drafts: Records,
    given_up: Times,
    deleted: Times,
}

impl<Records, Times> Tables<Records, Times>
where
    Records: ReadableTable<&'static str, &'static [u8]>,
    Times: ReadableTable<&'static str, u64>,
{
    fn fate(&self, found: &FoundReplica) -> Stored<Fate> {
        let volume = found.volume.as_str();
        let record = db(self.volumes.get(volume))?.map(|v| json::<VolumeRecord>(v.value()));
        if let Some(record) = record.transpose()? {
            let placed = record.replicas.iter().find(|placed| placed.id == found.replica);
            return Ok(match placed {
                Some(placed) if placed.removed => Fate::Deleted,
                Some(_) if record.stopped => Fate::Stopped,
                Some(_) => Fate::Belongs,
                None => Fate::Unknown,
            });
        }
        Ok(if db(self.drafts.get(volume))?.is_some() {
            Fate::Belongs
        } else if db(self.given_up.get(volume))?.is_some() {
            Fate::NeverMade
        } else if db(self.deleted.get(volume))?.is_some() {
            Fate::Deleted
        } else {
            Fate::Unknown
        })
    }
}

impl Inner {
    pub(super) fn fates(&self, found: &[FoundReplica]) -> Stored<Answer> {
        self.give_up_dead()?;
        self.forget_unmade()?;
        let transaction = db(self.database.begin_read())?;
        let tables = Tables {
            volumes: db(transaction.open_table(VOLUMES))?,
            drafts: db(transaction.open_table(drafts::DRAFTS))?,
            given_up: db(transaction.open_table(drafts::GIVEN_UP))?,
            deleted: db(transaction.open_table(DELETED))?,
        };
        let fates: Stored<Vec<Fate>> = found.iter().map(|found| tables.fate(found)).collect();
        fates.map(Answer::Fates)
    }

    pub(super) fn discard(&self, by: &Maker, found: &FoundReplica) -> Stored<Answer> {
        self.change(|transaction| {
            let tables = Tables {
                volumes: db(transaction.open_table(VOLUMES))?,
                drafts: db(transaction.open_table(drafts::DRAFTS))?,
                given_up: db(transaction.open_table(drafts::GIVEN_UP))?,
                deleted: db(transaction.open_table(DELETED))?,
            };
            match tables.fate(found)? {
                Fate::Deleted | Fate::NeverMade => {}
                fate => return Ok(Answer::Fates(vec![fate])),
            }
            let mut discarded = db(transaction.open_table(DISCARDED))?;
            db(discarded.insert(found.replica.as_str(), text(by)?.as_slice()))?;
            Ok(Answer::Done)
        })
    }

    pub(super) fn discarded(&self, found: &FoundReplica) -> Stored<Answer> {
        self.change(|transaction| {
            db(db(transaction.open_table(DISCARDED))?.remove(found.replica.as_str()))?;
            Ok(Answer::Done)
        })
    }
}

/// Whether a view holds a replica that is being deleted. A daemon that has ended deletes nothing.
pub(super) fn holds_discarded(transaction: &WriteTransaction, view: &View) -> Stored<bool> {
    let discarded = db(transaction.open_table(DISCARDED))?;
    let nodes = db(transaction.open_table(NODES))?;
    for (_, record) in view.replicas() {
        let by = db(discarded.get(record.id.to_string().as_str()))?;
        let Some(by) = by.map(|by| json::<Maker>(by.value())).transpose()? else { continue };
        let node = db(nodes.get(by.node.as_str()))?;
        let node = node.map(|node| json::<NodeRecord>(node.value())).transpose()?;
        if node.is_some_and(|node| node.incarnation == by.incarnation) {
            return Ok(true);
        }
    }
    Ok(false)
}

//! A crash-safe local database as the store of a coordinator.
//!
//! Each [`Space`] is a table of the same name. Values of some are kept as texts or as numbers
//! there: so they were before there was a `Store`, and databases made then are read as they are,
//! but for the volumes that were deleted: without their last views nobody can tell what of them may
//! go. A commit is one write transaction, in which the guards are compared by value: what a task
//! writes follows from the values that it read, so it is right whenever they are the same.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_coordinator::Store;
use evenkeel_coordinator::store::{
    Commit, Entries, Entry, Guard, Key, Outcome, Range, Space, StoreError,
};
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};

type Stored<T> = Result<T, StoreError>;

/// Turns the database's several error types into one.
fn db<T, E: Into<redb::Error>>(result: Result<T, E>) -> Stored<T> {
    result.map_err(|error| {
        let error = error.into();
        StoreError::Unusable(format!(
            "the coordinator's database: {error}; check the disk, or restore the file from a backup"
        ))
    })
}

/// The table of a space, by the type of its values.
enum Table {
    Bytes(TableDefinition<'static, &'static str, &'static [u8]>),
    Text(TableDefinition<'static, &'static str, &'static str>),
    Number(TableDefinition<'static, &'static str, u64>),
}

const fn table(space: Space) -> Table {
    let name = space.prefix();
    match space {
        Space::Cluster | Space::Names => Table::Text(TableDefinition::new(name)),
        Space::Silent | Space::GivenUp => Table::Number(TableDefinition::new(name)),
        Space::Nodes
        | Space::Starts
        | Space::Removed
        | Space::Volumes
        | Space::Views
        | Space::Drafts
        | Space::Deleted
        | Space::Discarded => Table::Bytes(TableDefinition::new(name)),
    }
}

/// The database.
pub(super) struct RedbStore {
    database: Database,
    changes: AtomicU64,
}

impl RedbStore {
    /// Opens it, or makes it.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open(path: &Path) -> Stored<Self> {
        let database = db(Database::create(path))?;
        let transaction = db(database.begin_write())?;
        for space in Space::ALL {
            match table(space) {
                Table::Bytes(table) => drop(db(transaction.open_table(table))?),
                Table::Text(table) => drop(db(transaction.open_table(table))?),
                Table::Number(table) => drop(db(transaction.open_table(table))?),
            }
        }
        db(transaction.commit())?;
        Ok(Self { database, changes: AtomicU64::new(1) })
    }
}

fn entry(value: &[u8]) -> Entry {
    Entry { value: value.to_vec(), revision: 0 }
}

/// Reads a table; `$show` turns a value into bytes.
macro_rules! entries {
    ($table:expr, $range:expr, $show:expr) => {{
        let (table, show) = (db($table)?, $show);
        let mut found = Entries::new();
        match $range {
            Range::Key(key) => {
                let value = db(table.get(key.name.as_str()))?;
                found.extend(value.map(|value| (key.name.clone(), show(value.value()))));
            }
            Range::Space(_) => {
                for item in db(table.iter())? {
                    let (name, value) = db(item)?;
                    found.insert(name.value().to_owned(), show(value.value()));
                }
            }
        }
        found
    }};
}

const fn space_of(range: &Range) -> Space {
    match range {
        Range::Key(key) => key.space,
        Range::Space(space) => *space,
    }
}

/// Reads in any transaction.
macro_rules! read_in {
    ($transaction:expr, $range:expr) => {{
        let number = |number: u64| entry(number.to_string().as_bytes());
        let text = |text: &str| entry(text.as_bytes());
        match table(space_of($range)) {
            Table::Bytes(table) => entries!($transaction.open_table(table), $range, entry),
            Table::Text(table) => entries!($transaction.open_table(table), $range, text),
            Table::Number(table) => entries!($transaction.open_table(table), $range, number),
        }
    }};
}

fn holds(transaction: &WriteTransaction, guard: &Guard) -> Stored<bool> {
    let found: Entries = read_in!(transaction, &guard.range());
    Ok(match guard {
        Guard::Key(key, was) => {
            found.get(&key.name).map(|now| &now.value) == was.as_ref().map(|was| &was.value)
        }
        Guard::Space(_, was) => {
            found.iter().all(|(name, now)| was.get(name).is_some_and(|was| was.value == now.value))
        }
    })
}

fn put(transaction: &WriteTransaction, key: &Key, value: &[u8]) -> Stored<()> {
    let name = key.name.as_str();
    let wrong = || StoreError::Content(format!("no value for {key}"));
    let text = || std::str::from_utf8(value).map_err(|_| wrong());
    match table(key.space) {
        Table::Bytes(table) => {
            db(db(transaction.open_table(table))?.insert(name, value))?;
        }
        Table::Text(table) => {
            db(db(transaction.open_table(table))?.insert(name, text()?))?;
        }
        Table::Number(table) => {
            let number: u64 = text()?.parse().map_err(|_| wrong())?;
            db(db(transaction.open_table(table))?.insert(name, number))?;
        }
    }
    Ok(())
}

fn delete(transaction: &WriteTransaction, key: &Key) -> Stored<()> {
    let name = key.name.as_str();
    match table(key.space) {
        Table::Bytes(table) => drop(db(db(transaction.open_table(table))?.remove(name))?),
        Table::Text(table) => drop(db(db(transaction.open_table(table))?.remove(name))?),
        Table::Number(table) => drop(db(db(transaction.open_table(table))?.remove(name))?),
    }
    Ok(())
}

impl Store for RedbStore {
    type Snapshot = ReadTransaction;

    fn snapshot(&self) -> Stored<ReadTransaction> {
        db(self.database.begin_read())
    }

    fn read(&self, snapshot: &mut ReadTransaction, range: &Range) -> Stored<Entries> {
        Ok(read_in!(snapshot, range))
    }

    fn commit(&self, commit: &Commit) -> Stored<Outcome> {
        let transaction = db(self.database.begin_write())?;
        for guard in &commit.guards {
            if !holds(&transaction, guard)? {
                db(transaction.abort())?;
                return Ok(Outcome::Conflict(guard.range()));
            }
        }
        for write in &commit.writes {
            match &write.value {
                Some(value) => put(&transaction, &write.key, value)?,
                None => delete(&transaction, &write.key)?,
            }
        }
        db(transaction.commit())?;
        if commit.writes.iter().any(|write| write.key.space.is_told()) {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Outcome::Committed)
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;

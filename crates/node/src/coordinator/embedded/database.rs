//! A crash-safe local database as the store of a coordinator.
//!
//! Each [`Space`] is a table of the same name. Values of some are kept as texts or as numbers
//! there: so they were before there was a `Store`, and databases made then are read as they are,
//! but for the volumes that were deleted: without their last views nobody can tell what of them may
//! go. A commit is one write transaction, in which the guards are compared by value: what a task
//! writes follows from the values that it read, so it is right whenever they are the same.
//!
//! After an error of its disk `redb` refuses all that comes after. So the database is [closed and
//! opened anew](opening) before its next use: a disk that was full for a while stops nothing for
//! longer. [Marks](marks) tell whether what is found then is the same database.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use evenkeel_coordinator::Store;
use evenkeel_coordinator::store::{
    Commit, Entries, Entry, Guard, Key, Outcome, Range, Space, StoreError,
};
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};

use self::marks::Marks;
use self::opening::{DatabaseFile, Opened, Opening};

mod marks;
mod opening;

type Stored<T> = Result<T, StoreError>;

/// Turns the database's several error types into one.
fn db<T, E: Into<redb::Error>>(result: Result<T, E>) -> Stored<T> {
    result.map_err(|error| {
        let error = error.into();
        StoreError::Unusable(format!(
            "the coordinator's database: {error}; check its disk and the space on it"
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
    opened: Opened,
    marks: Arc<Marks>,
    changes: AtomicU64,
    turns: RwLock<()>,
}

/// A moment of the database, as long as it stays open.
pub(super) struct Snapshot {
    transaction: ReadTransaction,
    opening: u64,
}

impl RedbStore {
    /// Opens it, or makes it.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open(path: &Path) -> Stored<Self> {
        let file = DatabaseFile::new(path.to_owned());
        Self::over(opening::PAUSE, move |opening| file.open(opening))
    }

    /// The same in what `backend` gives, now and after each error of it, but for a pause between.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn over<B: redb::StorageBackend>(
        pause: Duration,
        backend: impl Fn(Opening) -> std::io::Result<B> + Send + Sync + 'static,
    ) -> Stored<Self> {
        let marks = Arc::new(Marks::default());
        let written = marks.clone();
        let open = move |opening| {
            let database = opening::database(backend(opening)?, opening)?;
            if opening == Opening::Again {
                written.check(&database)?;
            }
            Ok(database)
        };
        let opened = Opened::new(pause, open)?;
        opened.with(|database| make_tables(database, &marks))?;
        Ok(Self { opened, marks, changes: AtomicU64::new(1), turns: RwLock::default() })
    }

    /// It is opened anew before its next use, as after an error.
    pub fn open_anew(&self) {
        self.opened.fail();
    }
}

fn make_tables(database: &Database, marks: &Marks) -> Stored<()> {
    let transaction = db(database.begin_write())?;
    for space in Space::ALL {
        match table(space) {
            Table::Bytes(table) => drop(db(transaction.open_table(table))?),
            Table::Text(table) => drop(db(transaction.open_table(table))?),
            Table::Number(table) => drop(db(transaction.open_table(table))?),
        }
    }
    let mark = marks.begin(&transaction)?;
    db(transaction.commit())?;
    marks.committed(mark);
    Ok(())
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

fn read_from(transaction: &ReadTransaction, range: &Range) -> Stored<Entries> {
    Ok(read_in!(transaction, range))
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

fn try_commit(database: &Database, commit: &Commit, marks: &Marks) -> Stored<Outcome> {
    let transaction = db(database.begin_write())?;
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
    let mark = commit.is_news().then(|| marks.begin(&transaction)).transpose()?;
    // All of it may have reached the disk before the error.
    db(transaction.commit()).map_err(|error| StoreError::InDoubt(error.to_string()))?;
    mark.into_iter().for_each(|mark| marks.committed(mark));
    Ok(Outcome::Committed)
}

impl Store for RedbStore {
    type Snapshot = Snapshot;

    fn snapshot(&self) -> Stored<Snapshot> {
        self.opened.with_number(|database, opening| {
            Ok(Snapshot { transaction: db(database.begin_read())?, opening })
        })
    }

    fn read(&self, snapshot: &mut Snapshot, range: &Range) -> Stored<Entries> {
        self.opened.note_read(snapshot.opening, read_from(&snapshot.transaction, range))
    }

    fn commit(&self, commit: &Commit) -> Stored<Outcome> {
        let outcome = self.opened.with(|database| try_commit(database, commit, &self.marks));
        let may_be_done = matches!(outcome, Ok(Outcome::Committed) | Err(StoreError::InDoubt(_)));
        if may_be_done && commit.is_news() {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    fn turns(&self) -> Option<&RwLock<()>> {
        Some(&self.turns)
    }
}

#[cfg(test)]
pub(super) mod disk;
#[cfg(test)]
mod tests;

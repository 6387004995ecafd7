//! Which state of the database it is.
//!
//! Each commit that is news leaves a random mark. What is found when the database is opened anew
//! has to have one that this daemon may have written last: else somebody has copied another
//! database over it, as one from a backup.

use std::io;
use std::sync::{Mutex, PoisonError};

use redb::{
    Database, DatabaseError, ReadableDatabase, TableDefinition, TableError, WriteTransaction,
};

use super::opening::Replaced;
use super::{Stored, db};
use crate::random::random_u128;

/// Beside the tables of the spaces: nobody reads it but this.
const TABLE: TableDefinition<'static, &'static str, u128> = TableDefinition::new("last-commit");
const NAME: &str = "mark";

/// The marks that may be the last one: that of the last commit of which it is known that it
/// happened, and those of later ones, in their order.
#[derive(Debug, Default)]
pub(super) struct Marks(Mutex<Vec<u128>>);

impl Marks {
    /// Gives a new one to what is about to be committed.
    pub(super) fn begin(&self, transaction: &WriteTransaction) -> Stored<u128> {
        let mark = random_u128();
        db(db(transaction.open_table(TABLE))?.insert(NAME, mark))?;
        self.with(|marks| marks.push(mark));
        Ok(mark)
    }

    /// That was committed. A later one may have been already.
    pub(super) fn committed(&self, mark: u128) {
        self.with(|marks| {
            if let Some(at) = marks.iter().position(|other| *other == mark) {
                marks.drain(..at);
            }
        });
    }

    /// What was opened anew is what this daemon has written.
    pub(super) fn check(&self, database: &Database) -> Result<(), DatabaseError> {
        let found = read(database).map_err(io::Error::other)?;
        self.with(|marks| {
            let is_own = found.is_some_and(|found| marks.contains(&found));
            if !is_own {
                return Err(io::Error::other(Replaced).into());
            }
            marks.retain(|mark| Some(*mark) == found);
            Ok(())
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<u128>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn read(database: &Database) -> Result<Option<u128>, redb::Error> {
    let table = match database.begin_read()?.open_table(TABLE) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        table => table?,
    };
    Ok(table.get(NAME)?.map(|mark| mark.value()))
}

//! The coordinator: one view, changed by compare-and-swap, kept in the shipped format. Its database
//! may be lost, or be restored from an old backup; then a volume is put together from its disks.

use evenkeel_core::View;
use evenkeel_core::primary::CoordinatorAnswer;
use evenkeel_format::{decode_view, encode_view};

use crate::oracles::{Violation, views};
use crate::queue::Time;

/// A request of a primary.
#[derive(Debug, Clone)]
pub enum Question {
    /// The newest view.
    Read,
    /// To commit this one.
    Swap(Box<View>),
}

/// What the coordinator's database is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// It knows all that it ever stored.
    Whole,
    /// It knows nothing.
    Gone,
    /// It was restored from a backup.
    Restored,
}

/// The coordinator's database.
#[derive(Debug)]
pub struct Coordinator {
    stored: Vec<u8>,
    /// The last view that was committed, whatever the database still knows.
    newest: View,
    /// All that were committed.
    history: Vec<View>,
    /// What is left of it.
    database: Database,
    /// Whether the volume is stopped: nobody attaches it, and its replicas are closed.
    pub stopped: bool,
    /// Whether the database was ever lost, or the volume stopped.
    pub was_touched: bool,
    /// Until when it does not answer.
    pub away_until: Time,
}

impl Coordinator {
    /// Knows this view.
    #[must_use]
    pub fn new(view: View) -> Self {
        let stored = encode_view(&view).expect("the format takes every valid view");
        Self {
            stored,
            history: vec![view.clone()],
            newest: view,
            database: Database::Whole,
            stopped: false,
            was_touched: false,
            away_until: 0,
        }
    }

    /// What the database is worth.
    #[must_use]
    pub const fn database(&self) -> Database {
        self.database
    }

    /// Whether it knows the truth, and the volume may be attached.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.database == Database::Whole && !self.stopped
    }

    /// The view that it knows.
    #[must_use]
    pub fn known(&self) -> Option<View> {
        let is_known = self.database != Database::Gone;
        is_known.then(|| decode_view(&self.stored).expect("it was stored whole"))
    }

    /// The last view that was committed, of those that are meant.
    #[must_use]
    pub fn last(&self, is_meant: impl Fn(&View) -> bool) -> Option<&View> {
        self.history.iter().rev().find(|view| is_meant(view))
    }

    /// The view that this one has replaced, if it was committed here.
    #[must_use]
    pub fn parent_of(&self, view: &View) -> Option<&View> {
        let is_parent =
            |older: &&View| older.generation == view.parent && older.history == view.history;
        self.history.iter().rev().find(is_parent)
    }

    /// How many views were committed.
    #[must_use]
    pub fn commits(&self) -> usize {
        self.history.len()
    }

    /// The database is lost.
    pub fn lose(&mut self) {
        (self.database, self.was_touched) = (Database::Gone, true);
    }

    /// The database is restored as it was when so many views had been committed.
    pub fn restore(&mut self, commits: usize) {
        let view = &self.history[commits.min(self.history.len() - 1)];
        self.stored = encode_view(view).expect("it was stored before");
        (self.database, self.was_touched) = (Database::Restored, true);
    }

    /// The volume was assembled by the view that the database knows, or by a new one.
    pub fn assembled(&mut self, view: View) {
        self.stored = encode_view(&view).expect("the format takes every valid view");
        self.history.push(view.clone());
        self.newest = view;
        (self.database, self.stopped, self.was_touched) = (Database::Whole, false, true);
    }

    /// The newest view.
    #[must_use]
    pub const fn newest(&self) -> &View {
        &self.newest
    }

    /// Whether a view is meant to replace the one that the database knows.
    fn replaces(&self, view: &View) -> bool {
        self.known().is_some_and(|known| {
            (known.coordinator, known.generation) == (view.coordinator, view.parent)
        })
    }

    /// Answers a question.
    ///
    /// # Errors
    /// If what it is asked to commit is not a permitted successor.
    pub fn ask(&mut self, question: &Question) -> Result<CoordinatorAnswer, Violation> {
        match question {
            Question::Read | Question::Swap(_) if self.database == Database::Gone => {
                Ok(CoordinatorAnswer::NoVolume)
            }
            Question::Swap(view) if self.stopped && !view.primaries.is_empty() => {
                Ok(CoordinatorAnswer::NoVolume)
            }
            Question::Swap(view) if self.replaces(view) => {
                if let Some(known) = self.known() {
                    views::check(&known, view)?;
                }
                self.stored = encode_view(view).map_err(|error| {
                    Violation::new("internal", format!("the format refuses a view: {error}"))
                })?;
                self.newest = (**view).clone();
                self.history.push(self.newest.clone());
                Ok(CoordinatorAnswer::Committed)
            }
            _ => {
                let view = decode_view(&self.stored).map_err(|error| {
                    Violation::new("internal", format!("a stored view can't be read: {error}"))
                })?;
                Ok(CoordinatorAnswer::Newest(Box::new(view)))
            }
        }
    }
}

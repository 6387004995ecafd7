//! The coordinator: one view, changed by compare-and-swap, kept in the shipped format.

use evenkeel_core::View;
use evenkeel_core::primary::CoordinatorAnswer;
use evenkeel_format::{decode_view, encode_view};

use crate::oracles::{Violation, views};
use crate::queue::Time;

/// What a primary asks.
#[derive(Debug, Clone)]
pub enum Question {
    /// The newest view.
    Read,
    /// To commit this one.
    Swap(Box<View>),
}

/// The coordinator's database.
#[derive(Debug)]
pub struct Coordinator {
    stored: Vec<u8>,
    newest: View,
    /// Until when it does not answer.
    pub away_until: Time,
}

impl Coordinator {
    /// Knows this view.
    #[must_use]
    pub fn new(view: View) -> Self {
        let stored = encode_view(&view).expect("the format takes every valid view");
        Self { stored, newest: view, away_until: 0 }
    }

    /// The newest view.
    #[must_use]
    pub const fn newest(&self) -> &View {
        &self.newest
    }

    /// Answers a question.
    ///
    /// # Errors
    /// If what it is asked to commit is not a permitted successor.
    pub fn ask(&mut self, question: &Question) -> Result<CoordinatorAnswer, Violation> {
        match question {
            Question::Swap(view) if view.parent == self.newest.generation => {
                views::check(&self.newest, view)?;
                self.stored = encode_view(view).map_err(|error| {
                    Violation::new("internal", format!("the format refuses a view: {error}"))
                })?;
                self.newest = (**view).clone();
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

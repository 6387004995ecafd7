//! What a quickstart shows: numbered steps, each with what happens and its time.

use std::time::Instant;

use crate::output::{Painted as _, say, span};

/// Prints the steps.
#[derive(Debug)]
pub struct Steps {
    number: usize,
    all: usize,
    begun: Instant,
}

impl Steps {
    /// Before the first of `all` steps.
    pub fn new(all: usize) -> Self {
        Self { number: 0, all, begun: Instant::now() }
    }

    /// Begins the next step.
    pub fn begin(&mut self, title: &str) {
        self.number += 1;
        self.begun = Instant::now();
        let number = format!("{}/{}", self.number, self.all);
        say(&format!("\n{number:>5}  {}\n", title.bold()));
    }

    /// Says something about the present step.
    pub fn report(&self, text: &str) {
        for line in text.lines() {
            say(&format!("       {line}\n"));
        }
    }

    /// Ends the present step.
    pub fn done(&self) {
        self.report(&format!("done in {}", span(self.begun.elapsed())).dim());
    }
}

//! The event log: one line an event, made only when somebody wants it.

use std::collections::VecDeque;

use crate::queue::Time;

/// Lines that a failure shows.
pub const STORY: usize = 120;

/// Where lines go.
#[derive(Debug, Default)]
pub enum Log {
    /// Nowhere; they are not even made.
    #[default]
    Off,
    /// The last [`STORY`] are kept.
    Story(VecDeque<String>),
    /// To standard output.
    Print,
}

impl Log {
    /// Whether lines are wanted.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Adds a line.
    pub fn line(&mut self, now: Time, text: &str) {
        let line = format!("{:>5}.{:06} {text}", now / 1_000_000_000, now / 1_000 % 1_000_000);
        match self {
            Self::Off => {}
            Self::Print => println!("{line}"),
            Self::Story(lines) => {
                if lines.len() == STORY {
                    lines.pop_front();
                }
                lines.push_back(line);
            }
        }
    }

    /// The lines that were kept.
    pub fn story(&self) -> impl Iterator<Item = &String> {
        match self {
            Self::Story(lines) => lines.iter(),
            _ => const { &VecDeque::new() }.iter(),
        }
    }
}

//! The event log: one line an event, made only when somebody wants it.

use std::collections::VecDeque;

use crate::queue::Time;

/// Lines that a failure shows.
pub const STORY: usize = 120;

/// Lines of an outline: of a short run, all.
const OUTLINE: usize = 400;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// What happens: faults, views, requests, what begins and ends.
    Main,
    /// By which messages.
    Detail,
}

/// Where lines go.
#[derive(Debug, Default)]
pub enum Log {
    /// Nowhere; they are not even made.
    #[default]
    Off,
    /// The last [`STORY`] are kept.
    Story(VecDeque<String>),
    /// Those of [`Level::Main`] are kept, the last of them if there are many.
    Outline(VecDeque<String>),
    /// The last [`STORY`] are kept, until something happens.
    Until(Awaited, VecDeque<String>),
    /// To standard output.
    Print,
}

/// What a run is to stop at.
#[derive(Debug)]
pub enum Awaited {
    /// A line with this text.
    Text(String),
    /// A virtual time.
    Time(Time),
    /// It has come.
    Reached,
}

impl Awaited {
    /// A number is virtual seconds, as the log has them; anything else is text.
    #[must_use]
    pub fn from_words(words: &str) -> Self {
        match words.trim().parse::<f64>() {
            Ok(seconds) if seconds >= 0.0 => Self::Time((seconds * 1e9) as Time),
            _ => Self::Text(words.to_owned()),
        }
    }
}

impl Log {
    /// Keeps what leads to the end.
    #[must_use]
    pub const fn story() -> Self {
        Self::Story(VecDeque::new())
    }

    /// Keeps what matters most.
    #[must_use]
    pub const fn outline() -> Self {
        Self::Outline(VecDeque::new())
    }

    /// Keeps what leads to this.
    #[must_use]
    pub fn until(words: &str) -> Self {
        Self::Until(Awaited::from_words(words), VecDeque::new())
    }

    /// Whether such lines are wanted.
    #[must_use]
    pub const fn wants(&self, level: Level) -> bool {
        match self {
            Self::Off => false,
            Self::Outline(_) => matches!(level, Level::Main),
            Self::Story(_) | Self::Until(..) | Self::Print => true,
        }
    }

    /// Whether anybody reads it.
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
            Self::Story(lines) => keep(lines, STORY, line),
            Self::Outline(lines) => keep(lines, OUTLINE, line),
            Self::Until(awaited, lines) => {
                if matches!(awaited, Awaited::Text(awaited) if line.contains(awaited.as_str())) {
                    *awaited = Awaited::Reached;
                }
                keep(lines, STORY, line);
            }
        }
    }

    /// Whether the run is to stop here.
    pub fn stops(&mut self, now: Time) -> bool {
        let Self::Until(awaited, _) = self else { return false };
        if matches!(awaited, Awaited::Time(at) if *at <= now) {
            *awaited = Awaited::Reached;
        }
        matches!(awaited, Awaited::Reached)
    }

    /// The lines that were kept.
    pub fn lines(&self) -> impl Iterator<Item = &String> {
        match self {
            Self::Story(lines) | Self::Outline(lines) | Self::Until(_, lines) => lines.iter(),
            Self::Off | Self::Print => const { &VecDeque::new() }.iter(),
        }
    }
}

fn keep(lines: &mut VecDeque<String>, most: usize, line: String) {
    if lines.len() == most {
        lines.pop_front();
    }
    lines.push_back(line);
}

//! What went wrong: what, why, and what to do.

use std::fmt;

/// How a failure should be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It did not work.
    Failed,
    /// A program that is needed is not installed.
    Missing,
    /// The command line or a file makes no sense.
    Usage,
    /// Refused, because data could be lost.
    Unsafe,
    /// Ctrl-C.
    Interrupted,
}

/// A failure, as a person needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How to treat it.
    pub kind: Kind,
    /// What did not work.
    pub what: String,
    /// Why not. May have several lines.
    pub why: String,
    /// What to do about it. Empty if there is nothing to say.
    pub remedy: String,
}

impl Failure {
    /// Something that failed for this reason.
    pub fn new(what: impl Into<String>, why: impl fmt::Display) -> Self {
        let why = why.to_string().trim_end().to_owned();
        Self { kind: Kind::Failed, what: what.into(), why, remedy: String::new() }
    }

    /// The same, with advice.
    #[must_use]
    pub fn advise(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// The same, of another kind.
    #[must_use]
    pub const fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Ctrl-C.
    pub fn interrupted() -> Self {
        Self::new("stopped by Ctrl-C", "").kind(Kind::Interrupted)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match self.why.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.why.replace('\n', "; ")),
        }
    }
}

impl std::error::Error for Failure {}

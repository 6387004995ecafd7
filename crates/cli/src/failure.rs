//! What the command says when it cannot do what was asked: what, why, and what to do.

use std::fmt;

use evenkeel_api::ErrorCode;

use crate::exit::Exit;
use crate::output::Painted as _;

/// A failure, as a person needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the process ends with.
    pub exit: Exit,
    /// What did not work.
    pub what: String,
    /// Why not. Empty if `what` says it all.
    pub why: String,
    /// What to do about it. Empty if there is nothing to say.
    pub remedy: String,
    /// What the node refused with, if it did.
    pub code: Option<ErrorCode>,
    /// The error as the node sent it, for `--json`.
    pub json: Option<String>,
}

impl Failure {
    /// Something that failed for this reason.
    pub fn new(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self {
            exit: Exit::Failed,
            what: what.into(),
            why: why.to_string(),
            remedy: String::new(),
            code: None,
            json: None,
        }
    }

    /// The same, with advice.
    #[must_use]
    pub fn advise(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// The same, ending with this exit code.
    #[must_use]
    pub const fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// A mistake on the command line that clap cannot see.
    pub fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(what, "").exit(Exit::Usage).advise(remedy)
    }

    /// The shape that the API's errors have, for failures of the command itself.
    pub fn as_json(&self) -> String {
        let error = serde_json::json!({
            "code": self.exit.name(), "what": self.what, "why": self.why, "do": self.remedy,
        });
        format!("{}\n", serde_json::json!({"version": 1, "error": error}))
    }

    /// What standard error shows.
    pub fn render(&self) -> String {
        let mut text = format!("{} {}\n", "evenkeel:".bad(), self.what);
        for (label, sentence) in [("why", &self.why), ("do", &self.remedy)] {
            for (index, line) in sentence.lines().enumerate() {
                let label = if index == 0 { format!("{label}:") } else { String::new() };
                text.push_str(&format!("  {label:<5}{line}\n"));
            }
        }
        text
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match self.why.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_why_and_what_to_do() {
        let failure = Failure::new("cannot create volume `music`", "disk n3:slow has 1.2G free")
            .advise("choose a smaller --size,\nor another disk with --on NODE:DISK");
        let expected = "evenkeel: cannot create volume `music`\n  \
                        why: disk n3:slow has 1.2G free\n  \
                        do:  choose a smaller --size,\n       or another disk with --on NODE:DISK\n";
        assert_eq!(failure.render(), expected);
    }

    #[test]
    fn what_is_not_known_is_not_shown() {
        assert_eq!(Failure::new("no", "").render(), "evenkeel: no\n");
    }
}

//! Users and groups of this machine, as the configuration names them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// To whom the configuration gives a right: `NAME`, `@GROUP`, or a number in the place of either
/// name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Principal {
    /// A user.
    User(Called),
    /// All members of a group.
    Group(Called),
}

/// How a user or a group is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// By its number, written as numbers are.
    Number(u32),
    /// By its name: not empty, without white space and control characters, and no number.
    Name(String),
}

impl FromStr for Principal {
    type Err = String;

    /// An entry without a name would seem to permit somebody: it is refused.
    fn from_str(entry: &str) -> Result<Self, String> {
        let called = Called::parse(entry.strip_prefix('@').unwrap_or(entry));
        let called = called.ok_or_else(|| {
            format!(
                "{entry:?} is no user and no group; write \"alice\" for a user, \"@staff\" for a group"
            )
        })?;
        Ok(if entry.starts_with('@') { Self::Group(called) } else { Self::User(called) })
    }
}

impl Called {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return None;
        }
        let number = text.parse().ok().filter(|number: &u32| number.to_string() == text);
        Some(number.map_or_else(|| Self::Name(text.to_owned()), Self::Number))
    }
}

impl TryFrom<String> for Principal {
    type Error = String;

    fn try_from(entry: String) -> Result<Self, String> {
        entry.parse()
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> Self {
        principal.to_string()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(called) => called.fmt(f),
            Self::Group(called) => write!(f, "@{called}"),
        }
    }
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests;

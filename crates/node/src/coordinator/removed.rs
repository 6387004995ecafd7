//! What people read of a node that was removed from the cluster.

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::NodeId;

/// What to do with the machine of a node that was removed.
pub(crate) const JOIN_ANEW: &str =
    "To use that machine again, stop its node, remove its state directory, and join anew";

/// A node that was removed from the cluster is refused.
#[must_use]
pub fn refusal(what: &str, why: &str) -> ApiError {
    ApiError::new(ErrorCode::NodeRemoved, what, without_identities(why), JOIN_ANEW)
}

/// A sentence without the identities that stand behind names, in parentheses.
#[must_use]
pub fn without_identities(text: &str) -> String {
    let mut parts = text.split(" (");
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((id, rest)) if id.parse::<NodeId>().is_ok() => short.push_str(rest),
            _ => short.extend([" (", part]),
        }
    }
    short
}

#[cfg(test)]
mod tests;

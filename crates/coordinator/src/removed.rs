//! Nodes that were removed from the cluster.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A node that was removed. Its identity is never admitted again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedNode {
    /// Its identity.
    pub id: String,
    /// Its name, which another node may have since.
    pub name: String,
    /// When it was removed, in seconds since 1970.
    pub at: u64,
}

impl fmt::Display for RemovedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_second(i64::try_from(self.at).unwrap_or(0));
        let at = at.unwrap_or(jiff::Timestamp::UNIX_EPOCH).strftime("%Y-%m-%d %H:%M UTC");
        write!(f, "node {} ({}) was removed from the cluster on {at}", self.name, self.id)
    }
}

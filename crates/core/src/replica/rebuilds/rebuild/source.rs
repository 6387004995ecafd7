//! From whom a rebuild copies.

use crate::ids::*;
use crate::time::Instant;

/// The source of a rebuild, and how far the session with it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replica::rebuilds) enum Source {
    None,
    Connecting(ReplicaId),
    /// It was asked for a session at this moment.
    Opening(ReplicaId, LinkId, Instant),
    Open(ReplicaId, LinkId),
}

impl Source {
    /// The source that may be asked, and the link to it.
    pub const fn open(self) -> Option<(ReplicaId, LinkId)> {
        match self {
            Self::Open(replica, link) => Some((replica, link)),
            Self::None | Self::Connecting(_) | Self::Opening(..) => None,
        }
    }

    /// The link to it, whether it may be asked or not.
    pub const fn link(self) -> Option<LinkId> {
        match self {
            Self::Opening(_, link, _) | Self::Open(_, link) => Some(link),
            Self::None | Self::Connecting(_) => None,
        }
    }

    /// Whether a session with this replica is awaited over this link.
    pub fn is_opening(self, replica: ReplicaId, link: LinkId) -> bool {
        matches!(self, Self::Opening(id, opening, _) if (id, opening) == (replica, link))
    }

    /// Since when it has not answered that.
    pub const fn opening_since(self) -> Option<Instant> {
        match self {
            Self::Opening(_, _, since) => Some(since),
            Self::None | Self::Connecting(_) | Self::Open(..) => None,
        }
    }
}

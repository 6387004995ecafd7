//! The incarnations of a replica that its disk has recorded; a disk that lacks one is a stale
//! clone.
//!
//! A view names one incarnation of each replica. The disk's superblocks list the incarnations that
//! a view may name. A replica records a new incarnation there before it announces it, and only for
//! a primary all of whose incarnations the disk lists: the one that the primary's view names, and
//! those that it was told since. So a disk that went on with the volume lists them all. A clone
//! that was made before one of them lacks it for ever, and is recognised at its first session,
//! however often its process restarts. (A clone that was made since can't be recognised.)

use crate::ids::Incarnation;

/// Incarnations of one replica, the newest one first; zeroes where there are fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Incarnations(pub [Incarnation; Self::MAX]);

impl Incarnations {
    /// How many there are at most: the newest one, those that the own view and the asker's name,
    /// and those of which it is not known whether a view that was on its way has named them.
    pub const MAX: usize = 8;

    /// The first ones of these.
    #[must_use]
    pub fn of(incarnations: impl IntoIterator<Item = Incarnation>) -> Self {
        let mut listed = Self::default();
        listed.0.iter_mut().zip(incarnations).for_each(|(place, incarnation)| *place = incarnation);
        listed
    }

    /// The newest one.
    #[must_use]
    pub const fn newest(&self) -> Incarnation {
        self.0[0]
    }

    fn iter(&self) -> impl Iterator<Item = Incarnation> {
        self.0.into_iter().filter(|incarnation| *incarnation != Incarnation(0))
    }

    /// Whether a view that names this incarnation means this disk. Zero stands for none yet.
    #[must_use]
    pub fn knows(&self, named: Incarnation) -> bool {
        named == Incarnation(0) || self.0.contains(&named)
    }

    /// Whether every incarnation in `named` is recorded on this disk. One is recorded durably
    /// before it is announced, so a missing one means that the disk is a stale clone.
    #[must_use]
    pub fn know_all(&self, named: &Self) -> bool {
        named.0.iter().all(|incarnation| self.knows(*incarnation))
    }

    /// With a new incarnation, and without the oldest ones that are too many: rather those than one
    /// of these that a view names, or may. One of them that is not listed is not this disk's.
    #[must_use]
    pub fn followed_by(&self, incarnation: Incarnation, named: &Self) -> Self {
        let mut incarnations = vec![incarnation];
        let own = named.iter().filter(|incarnation| self.0.contains(incarnation));
        for known in own.chain(self.iter()) {
            if !incarnations.contains(&known) {
                incarnations.push(known);
            }
        }
        Self::of(incarnations)
    }
}

#[cfg(test)]
mod tests;

//! The lives of a replica that its disk knows, by which an old copy of that disk is told.
//!
//! A view names one life of each replica. The disk's superblocks list the lives that a view may name:
//! before anybody hears of a new one, it is added to them, and that is done only for a primary all of whose
//! lives they list: the one that its view names, and those that it was told since. So a disk that went on
//! with the volume lists them, and an old copy of it, made before one of these lives, does not and never
//! will: it is told at its first session, however often its process restarts. (A copy made since can't be
//! told.)

use crate::ids::Incarnation;

/// Lives of one replica, the newest one first; zeroes where there are fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lives(pub [Incarnation; Self::MOST]);

impl Lives {
    /// How many there are at most: the newest one, those that the own view and the asker's name, and those
    /// of which it is not known whether a view that was on its way has named them.
    pub const MOST: usize = 8;

    /// The first ones of these.
    #[must_use]
    pub fn of(lives: impl IntoIterator<Item = Incarnation>) -> Self {
        let mut listed = Self::default();
        listed.0.iter_mut().zip(lives).for_each(|(place, life)| *place = life);
        listed
    }

    /// The newest one.
    #[must_use]
    pub const fn newest(&self) -> Incarnation {
        self.0[0]
    }

    fn iter(&self) -> impl Iterator<Item = Incarnation> {
        self.0.into_iter().filter(|life| *life != Incarnation(0))
    }

    /// Whether a view that names this life means this disk. Zero stands for none yet.
    #[must_use]
    pub fn knows(&self, named: Incarnation) -> bool {
        named == Incarnation(0) || self.0.contains(&named)
    }

    /// Whether they are those of a disk that told its lives to whoever names these: of all of them, for each
    /// was listed before it was told.
    #[must_use]
    pub fn know_all(&self, named: &Self) -> bool {
        named.0.iter().all(|life| self.knows(*life))
    }

    /// With a new life, and without the oldest ones that are too many: rather those than one of these that a
    /// view names, or may. One of them that is not listed is not this disk's.
    #[must_use]
    pub fn followed_by(&self, life: Incarnation, named: &Self) -> Self {
        let mut lives = vec![life];
        let own = named.iter().filter(|life| self.0.contains(life));
        for known in own.chain(self.iter()) {
            if !lives.contains(&known) {
                lives.push(known);
            }
        }
        Self::of(lives)
    }
}

#[cfg(test)]
mod tests;

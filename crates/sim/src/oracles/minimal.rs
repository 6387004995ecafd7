//! I7: a rebuilding replica gets only what changed since it left, and what was open.
//!
//! Judged are regions of the intent log, because writes settle by regions. A region is dirty from the
//! moment when a write to it is sent until the replicas concerned have been told that its last write
//! has settled: all that are in-sync, and the one that leaves. When a replica leaves, it may lack what is dirty then or becomes so later,
//! and nothing else. A region that any replica finds open at its start becomes dirty; so do all regions
//! of the mirror when it finds all open, or a page of a bitmap damaged.
//!
//! Whether what is told to have settled is really everywhere, I1 and I6 see.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use evenkeel_core::Sequence;

use super::Violation;

/// Which mirror, and which of its regions.
type Place = (usize, u64);

/// That of a write of which nobody can be told that it has settled.
const NEVER: Sequence = Sequence(u64::MAX);

/// The last write of each primary to a region.
#[derive(Debug, Default)]
struct Region {
    writes: BTreeMap<usize, LastWrite>,
    /// Whether older writes there are of a primary that tells nothing any more, or of an earlier life:
    /// then what is told of newer ones does not help until all replicas are in-sync again.
    is_orphaned: bool,
}

/// A write, and the replicas that were told that it has settled.
#[derive(Debug, Default)]
struct LastWrite {
    sequence: Sequence,
    told: HashSet<usize>,
    /// Its primary is gone, and all replicas have been in-sync since.
    is_over: bool,
}

impl Region {
    /// What is told of the writes so far does not help: only of later ones.
    fn forget_told(&mut self) {
        for write in self.writes.values_mut() {
            *write = LastWrite { sequence: NEVER, ..LastWrite::default() };
        }
    }
}

/// What a view says of primaries.
#[derive(Debug, Clone, Copy)]
pub struct Primaries<'a> {
    /// Those that it names.
    pub present: &'a [usize],
    /// Whether they are others than before, and the volume is not shared: what is open is nobody's.
    pub are_others: bool,
}

/// What is dirty, and what replicas that left need not get.
#[derive(Debug, Default)]
pub struct Minimal {
    regions: HashMap<Place, Region>,
    /// Mirrors of which any region may have been found open.
    all_dirty: HashSet<usize>,
    /// In whose log these regions stay open from earlier lives; `None`: all.
    earlier: HashSet<(usize, usize, Option<u64>)>,
    /// For each replica that is not in-sync, the regions that were clean when it left and still are.
    has: HashMap<usize, HashSet<Place>>,
}

impl Minimal {
    /// A primary sends an operation that changes these regions of a mirror, perhaps again.
    pub fn sends(&mut self, operation: (usize, Sequence), mirror: usize, regions: Range<u64>) {
        let (primary, sequence) = operation;
        for region in regions {
            let place = (mirror, region);
            let writes = &mut self.regions.entry(place).or_default().writes;
            writes.retain(|_, write| !write.is_over);
            let write = writes.entry(primary).or_default();
            let last = Some(write.sequence).filter(|last| *last != NEVER);
            *write = LastWrite {
                sequence: last.max(Some(sequence)).unwrap_or(sequence),
                ..LastWrite::default()
            };
            self.becomes_dirty(place);
        }
    }

    fn becomes_dirty(&mut self, place: Place) {
        self.has.values_mut().for_each(|clean| {
            clean.remove(&place);
        });
    }

    /// A replica of a mirror starts and finds this region open; `None`: all of them.
    pub fn found_open(&mut self, (mirror, replica): (usize, usize), region: Option<u64>) {
        self.earlier.insert((mirror, replica, region));
        match region {
            Some(region) => {
                let place = (mirror, region);
                let found = self.regions.entry(place).or_default();
                found.forget_told();
                found.is_orphaned = true;
                self.becomes_dirty(place);
            }
            None => self.lose_track(mirror),
        }
    }

    /// Any region of a mirror may be dirty.
    pub fn lose_track(&mut self, mirror: usize) {
        self.all_dirty.insert(mirror);
        let regions = self.regions.iter_mut().filter(|(place, _)| place.0 == mirror);
        regions.for_each(|(_, region)| region.forget_told());
        self.has.values_mut().for_each(|clean| clean.retain(|place| place.0 != mirror));
    }

    /// A replica that stays is told that what it found open in its log has settled.
    pub fn told_of_earlier_lives(&mut self, replica: (usize, usize)) {
        self.earlier.retain(|(mirror, finder, _)| (*mirror, *finder) != replica);
    }

    /// A replica of a mirror is told that this primary's writes have settled up to `through`.
    pub fn told(&mut self, (mirror, replica): (usize, usize), by: usize, through: Sequence) {
        for (_, region) in self.regions.iter_mut().filter(|(place, _)| place.0 == mirror) {
            if let Some(write) = region.writes.get_mut(&by).filter(|w| w.sequence <= through) {
                write.told.insert(replica);
            }
        }
    }

    /// A view was committed. Tells of each replica its mirror and whether it is in-sync.
    pub fn committed(&mut self, replicas: &[(usize, bool)], primaries: Primaries<'_>) {
        for (place, region) in &mut self.regions {
            let of_mirror = || replicas.iter().enumerate().filter(|(_, r)| r.0 == place.0);
            let all_in_sync = of_mirror().all(|(_, (_, is_in_sync))| *is_in_sync);
            let is_told = |write: &LastWrite| {
                of_mirror().all(|(id, (_, is_in_sync))| !is_in_sync || write.told.contains(&id))
            };
            let is_gone = |by: &usize| !primaries.present.contains(by);
            let mut writes = region.writes.iter();
            let is_left =
                writes.any(|(by, write)| is_gone(by) && !write.is_over && !is_told(write));
            region.is_orphaned |= primaries.are_others || is_left;
            if all_in_sync && !primaries.are_others {
                region.is_orphaned = false;
                // What of them has settled will not be told any more.
                let gone = region.writes.iter_mut().filter(|(by, _)| is_gone(by));
                gone.for_each(|(_, write)| write.is_over = true);
            }
        }
        for (replica, (mirror, is_in_sync)) in replicas.iter().enumerate() {
            if *is_in_sync {
                self.has.remove(&replica);
            } else if !self.has.contains_key(&replica) {
                let clean = self.clean(replica, *mirror, replicas);
                self.has.insert(replica, clean);
            }
        }
        // Who is in-sync no more begins anew; who is it alone knows who lacks what is open.
        self.earlier.retain(|(mirror, finder, _)| {
            let others = replicas.iter().filter(|replica| **replica == (*mirror, true)).count();
            replicas.get(*finder).is_some_and(|(_, is_in_sync)| *is_in_sync) && others > 1
        });
    }

    /// What all in-sync replicas know to have settled, and the one that leaves does, too.
    fn clean(&self, leaving: usize, mirror: usize, replicas: &[(usize, bool)]) -> HashSet<Place> {
        let in_sync = || replicas.iter().enumerate().filter(|(_, r)| **r == (mirror, true));
        let is_open = |place: Place| {
            let mut finders = self.earlier.iter().filter(|found| found.0 == place.0);
            finders.any(|found| found.2.is_none_or(|region| region == place.1))
        };
        let is_clean = |place: Place, region: &Region| {
            !is_open(place)
                && !region.is_orphaned
                && !region.writes.is_empty()
                && region.writes.values().all(|write| {
                    let told = &write.told;
                    told.contains(&leaving) && in_sync().all(|(id, _)| told.contains(&id))
                })
        };
        let all = self
            .regions
            .iter()
            .filter(|(place, region)| place.0 == mirror && is_clean(**place, region));
        all.map(|(place, _)| *place).collect()
    }

    /// A replica of which it is known what it lacks gets a copy of a part of this region.
    ///
    /// # Errors
    /// If nothing there has changed since it left.
    pub fn copies(&self, replica: usize, (mirror, region): Place) -> Result<(), Violation> {
        let place = (mirror, region);
        let never_changed = !self.regions.contains_key(&place) && !self.all_dirty.contains(&mirror);
        let has_it = self.has.get(&replica).is_some_and(|clean| clean.contains(&place));
        if !never_changed && !has_it {
            return Ok(());
        }
        let why = if has_it { "has had since it left" } else { "nobody has ever changed" };
        Err(Violation::new(
            "I7",
            format!(
                "replica {replica} gets a copy of region {region} of mirror {mirror}, which {why}"
            ),
        ))
    }
}

#[cfg(test)]
mod tests;

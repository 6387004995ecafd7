//! I7: a rebuilding replica gets only what changed since it left, and what was open.
//!
//! Judged are regions of the intent log, because writes become stable by regions. A region is dirty
//! from the moment when a write to it is sent until the primary has reported to the replicas
//! concerned that its last write is stable: all that are in-sync, and the one that leaves. When a
//! replica leaves, it may lack what is dirty then or becomes so later, and nothing else. A region
//! that any replica finds open at its start becomes dirty; so do all regions of the mirror when it
//! finds all open, or a page of a bitmap damaged.
//!
//! One that rebuilds when another leaves notes what is open in its own log, too, and may not have
//! been told of what the in-sync ones know. From when it is in-sync itself, what it has noted
//! counts.
//!
//! Whether what is told to be stable is really everywhere, I1 and I6 see.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use evenkeel_core::Sequence;

use super::Violation;

/// Which mirror, and which of its regions.
type Place = (usize, u64);

/// That of a write of which nobody can be told that it is stable.
const NEVER: Sequence = Sequence(u64::MAX);

/// The last write of each primary to a region.
#[derive(Debug, Default)]
struct Region {
    writes: BTreeMap<usize, LastWrite>,
    /// Whether older writes there are of a primary that tells nothing any more, or of an earlier
    /// incarnation: then what is told of newer ones does not help until all replicas are in-sync
    /// again.
    is_orphaned: bool,
}

/// A write, and the replicas that were told that it is stable.
#[derive(Debug, Default)]
struct LastWrite {
    sequence: Sequence,
    reported: HashSet<usize>,
    /// To whom it or an older one was sent, who were not told so since: it is open there.
    open: HashSet<usize>,
    /// Its primary is gone, and all replicas have been in-sync since.
    is_over: bool,
}

impl Region {
    /// What is told of the writes so far does not help: only of later ones.
    fn forget_reported(&mut self) {
        for write in self.writes.values_mut() {
            let open = std::mem::take(&mut write.open);
            *write = LastWrite { sequence: NEVER, open, ..LastWrite::default() };
        }
    }
}

/// A replica that is not in-sync.
#[derive(Debug, Default)]
struct Left {
    /// The regions that were clean when it left and still are.
    clean: HashSet<Place>,
    /// Those of them that were open in the logs of replicas that rebuilt then.
    noted_by: HashMap<usize, HashSet<Place>>,
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
    /// In whose log these regions stay open from earlier incarnations; `None`: all.
    earlier: HashSet<(usize, usize, Option<u64>)>,
    /// The replicas that are not in-sync.
    left: HashMap<usize, Left>,
}

impl Minimal {
    /// A primary sends a replica an operation that changes these regions of its mirror, perhaps
    /// again.
    pub fn sends(
        &mut self,
        (primary, sequence): (usize, Sequence),
        (mirror, replica): (usize, usize),
        regions: Range<u64>,
    ) {
        for region in regions {
            let place = (mirror, region);
            let writes = &mut self.regions.entry(place).or_default().writes;
            writes.retain(|_, write| !write.is_over);
            let write = writes.entry(primary).or_default();
            let last = Some(write.sequence).filter(|last| *last != NEVER);
            write.sequence = last.max(Some(sequence)).unwrap_or(sequence);
            write.reported.clear();
            write.open.insert(replica);
            self.becomes_dirty(place);
        }
    }

    fn becomes_dirty(&mut self, place: Place) {
        self.left.values_mut().for_each(|left| {
            left.clean.remove(&place);
        });
    }

    /// A replica of a mirror starts and finds this region open; `None`: all of them.
    pub fn found_open(&mut self, (mirror, replica): (usize, usize), region: Option<u64>) {
        self.earlier.insert((mirror, replica, region));
        match region {
            Some(region) => {
                let place = (mirror, region);
                let found = self.regions.entry(place).or_default();
                found.forget_reported();
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
        regions.for_each(|(_, region)| region.forget_reported());
        self.left.values_mut().for_each(|left| left.clean.retain(|place| place.0 != mirror));
    }

    /// A replica that stays is told that what it found open in its log is stable.
    pub fn reported_of_earlier_incarnations(&mut self, replica: (usize, usize)) {
        self.earlier.retain(|(mirror, finder, _)| (*mirror, *finder) != replica);
    }

    /// A replica of a mirror is told that this primary's writes are stable up to `through`.
    pub fn reported(&mut self, (mirror, replica): (usize, usize), by: usize, through: Sequence) {
        for (_, region) in self.regions.iter_mut().filter(|(place, _)| place.0 == mirror) {
            if let Some(write) = region.writes.get_mut(&by).filter(|w| w.sequence <= through) {
                write.reported.insert(replica);
                write.open.remove(&replica);
            }
        }
    }

    /// A replica gets no writes any more: when it returns, it copies what is open in its log, and
    /// notes it for nobody.
    pub fn is_out(&mut self, replica: usize) {
        for write in self.regions.values_mut().flat_map(|region| region.writes.values_mut()) {
            write.open.remove(&replica);
        }
    }

    /// A view was committed. Tells of each replica its mirror and whether it is in-sync.
    pub fn committed(&mut self, replicas: &[(usize, bool)], primaries: Primaries<'_>) {
        for (place, region) in &mut self.regions {
            let of_mirror = || replicas.iter().enumerate().filter(|(_, r)| r.0 == place.0);
            let all_in_sync = of_mirror().all(|(_, (_, is_in_sync))| *is_in_sync);
            let is_reported = |write: &LastWrite| {
                of_mirror().all(|(id, (_, is_in_sync))| !is_in_sync || write.reported.contains(&id))
            };
            let is_gone = |by: &usize| !primaries.present.contains(by);
            let mut writes = region.writes.iter();
            let is_left =
                writes.any(|(by, write)| is_gone(by) && !write.is_over && !is_reported(write));
            region.is_orphaned |= primaries.are_others || is_left;
            if all_in_sync && !primaries.are_others {
                region.is_orphaned = false;
                // What of them is stable will not be told any more.
                let gone = region.writes.iter_mut().filter(|(by, _)| is_gone(by));
                gone.for_each(|(_, write)| write.is_over = true);
            }
        }
        self.follow_left(replicas);
        // Who is in-sync no more begins anew; who is it alone knows who lacks what is open.
        self.earlier.retain(|(mirror, finder, _)| {
            let others = replicas.iter().filter(|replica| **replica == (*mirror, true)).count();
            replicas.get(*finder).is_some_and(|(_, is_in_sync)| *is_in_sync) && others > 1
        });
    }

    /// Who is in-sync is not out any more, and what it has noted for others counts.
    fn follow_left(&mut self, replicas: &[(usize, bool)]) {
        let is_new = |replica: &usize| !replicas[*replica].1 && !self.left.contains_key(replica);
        let new: Vec<_> = (0..replicas.len())
            .filter(is_new)
            .map(|replica| (replica, self.leaves(replica, replicas)))
            .collect();
        for (replica, _) in replicas.iter().enumerate().filter(|(_, (_, is_in_sync))| *is_in_sync) {
            self.left.remove(&replica);
            for left in self.left.values_mut() {
                let noted = left.noted_by.remove(&replica).unwrap_or_default();
                left.clean.retain(|place| !noted.contains(place));
            }
        }
        self.left.extend(new);
    }

    /// What is known when a replica leaves. Who begins to rebuild at the same time notes nothing.
    fn leaves(&self, leaving: usize, replicas: &[(usize, bool)]) -> Left {
        let clean = self.clean(leaving, replicas[leaving].0, replicas);
        let rebuilding = |replica: &&usize| !replicas[**replica].1;
        let noted_by = self.left.keys().filter(rebuilding).map(|replica| {
            let is_open = |place: &&Place| {
                let mut writes =
                    self.regions.get(place).into_iter().flat_map(|r| r.writes.values());
                writes.any(|write| write.open.contains(replica))
            };
            (*replica, clean.iter().filter(is_open).copied().collect())
        });
        let noted_by = noted_by.collect();
        Left { clean, noted_by }
    }

    /// What all in-sync replicas know to be stable, and the one that leaves does, too.
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
                    let reported = &write.reported;
                    reported.contains(&leaving) && in_sync().all(|(id, _)| reported.contains(&id))
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
        let has_it = self.left.get(&replica).is_some_and(|left| left.clean.contains(&place));
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

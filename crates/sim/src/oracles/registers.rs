//! I1, I2 and I3 for reads: every sector is a register; what is read must fit one order of all
//! requests.
//!
//! Every write leaves a stamp of its own, so a read tells which write it saw. For each sector and
//! write there is a *cluster*: the write and the reads that returned it. Two clusters contradict
//! each other if something of each ended before something of the other began; a history of a
//! register with unique values is linearizable just if no two clusters do (Gibbons and Korach,
//! 1997). The check is made at each read, as it runs. Zeroes carry no stamp: a read of zeroes is
//! right if some zeroing, or the empty start, explains it.
//!
//! What is permitted beyond a register:
//! - A request without an answer, or answered with an error, may have taken effect or not.
//! - When a new primary begins to serve, writes that no flush covers may be gone, acknowledged or
//!   read as they are: under A and B all of them (the dead primary may have acknowledged what
//!   nobody else has), under C those in sectors that a machine crash of an in-sync replica took
//!   back (`lost`). From then on they count as unanswered.
//! - What the new primary finds is fixed by its first read of a sector: another content that is
//!   older than it may not appear later. What was sent to an ended primary after that, never.
//!
//! With several primaries at once (see [`Registers::share`]) clients see to it that no two of them
//! change a sector at once. Then only what is acknowledged counts: a change under way may be seen
//! or not, by one primary before and by another after, until it is acknowledged, or its primary is
//! gone.
//!
//! Times are counts of client events: two requests are concurrent just if they overlap there.

use std::collections::HashMap;

use super::Violation;
use crate::payload::{Cell, ZERO, stamped};

/// A count of client events.
pub type Moment = u64;

const NEVER: Moment = u64::MAX;

/// A request that changes sectors.
#[derive(Debug, Clone)]
pub struct Change {
    /// First sector of the volume.
    pub first: u32,
    /// Sectors.
    pub count: u32,
    /// Whether it makes zeroes.
    pub zero: bool,
    /// At which primary.
    pub primary: usize,
    /// When it began.
    pub invoked: Moment,
    /// When it was acknowledged.
    pub acknowledged: Option<Moment>,
    /// Whether it was answered with an error.
    pub failed: bool,
    /// Whether an acknowledged flush covers it.
    pub durable: bool,
}

#[derive(Debug, Clone, Copy)]
struct Cluster {
    write: u32,
    first_end: Moment,
    last_begin: Moment,
    may_be_lost: bool,
}

#[derive(Debug, Clone, Default)]
struct Sector {
    clusters: Vec<Cluster>,
    /// By which primary's reads the content was fixed, and what it is.
    fixed: Option<(usize, Cell)>,
}

/// A read that has ended, for [`Registers::read`].
#[derive(Debug, Clone, Copy)]
pub struct Read {
    /// At which primary.
    pub primary: usize,
    /// When it began.
    pub invoked: Moment,
    /// When it was answered.
    pub answered: Moment,
}

/// All sectors of a volume and all that was asked of them.
#[derive(Debug, Clone)]
pub struct Registers {
    sectors: Vec<Sector>,
    /// Number 0 is the empty start.
    changes: Vec<Change>,
    /// Those that are not durable.
    unflushed: Vec<u32>,
    /// For each primary, when in the order of primaries it began to serve, and at which moment.
    serving: Vec<Option<(usize, Moment)>>,
    served: usize,
    /// Whether there may be several primaries at once.
    is_shared: bool,
    /// Which compare-and-write has replaced a content: there can be one at most.
    replaced: HashMap<(u32, Cell), u32>,
}

impl Registers {
    /// A volume of this many sectors, all zeroes.
    #[must_use]
    pub fn new(sectors: u32) -> Self {
        let start = Change {
            first: 0,
            count: sectors,
            zero: true,
            primary: 0,
            invoked: 0,
            acknowledged: Some(0),
            failed: false,
            durable: true,
        };
        Self {
            sectors: (0..sectors).map(|_| Sector::default()).collect(),
            changes: vec![start],
            unflushed: Vec::new(),
            serving: Vec::new(),
            served: 0,
            is_shared: false,
            replaced: HashMap::new(),
        }
    }

    /// From now on there may be several primaries at once.
    pub fn share(&mut self) {
        self.is_shared = true;
    }

    /// A change by its number.
    #[must_use]
    pub fn change(&self, write: u32) -> Option<&Change> {
        self.changes.get(write as usize)
    }

    /// The number that the next change will get.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.changes.len() as u32
    }

    /// A write or a zeroing begins.
    pub fn begin(&mut self, first: u32, count: u32, zero: bool, primary: usize, now: Moment) {
        let write = self.next_number();
        for sector in first..first + count {
            let clusters = &mut self.sectors[sector as usize].clusters;
            if clusters.is_empty() {
                let start = Cluster { write: 0, first_end: 0, last_begin: 0, may_be_lost: false };
                clusters.push(start);
            }
            let cluster = Cluster { write, first_end: NEVER, last_begin: now, may_be_lost: false };
            clusters.push(cluster);
        }
        let (acknowledged, failed, durable) = (None, false, false);
        let change =
            Change { first, count, zero, primary, invoked: now, acknowledged, failed, durable };
        self.changes.push(change);
        self.unflushed.push(write);
    }

    /// A write or a zeroing is acknowledged; `durable` if it asked for that (FUA).
    pub fn acknowledge(&mut self, write: u32, durable: bool, now: Moment) {
        let change = &mut self.changes[write as usize];
        change.acknowledged = Some(now);
        change.durable = durable;
        let (first, count) = (change.first, change.count);
        if durable {
            self.unflushed.retain(|other| *other != write);
        }
        for sector in first..first + count {
            if let Some(cluster) = self.cluster(sector, write) {
                cluster.first_end = cluster.first_end.min(now);
            }
        }
    }

    /// A write or a zeroing was answered with an error.
    pub fn fail(&mut self, write: u32) {
        self.changes[write as usize].failed = true;
    }

    /// A flush that began at `invoked` is acknowledged: it covers what was acknowledged before.
    ///
    /// Returns those that are made durable.
    pub fn flushed(&mut self, primary: usize, invoked: Moment) -> Vec<u32> {
        let mut covered = Vec::new();
        let order = self.order_of(primary);
        let (changes, serving) = (&self.changes, &self.serving);
        self.unflushed.retain(|write| {
            let change = &changes[*write as usize];
            let earlier = serving.get(change.primary).copied().flatten().map(|(n, _)| n) <= order;
            let is_covered = earlier && change.acknowledged.is_some_and(|at| at < invoked);
            if is_covered {
                covered.push(*write);
            }
            !is_covered
        });
        for write in &covered {
            self.make_durable(*write);
        }
        covered
    }

    /// A primary detached cleanly: everything acknowledged by it or by earlier ones is durable. A
    /// later one may serve already.
    pub fn detached(&mut self, primary: usize) {
        let order = self.order_of(primary);
        for write in std::mem::take(&mut self.unflushed) {
            let change = &self.changes[write as usize];
            let is_earlier = match self.is_shared {
                // Others go on.
                true => change.primary == primary,
                false => self.order_of(change.primary) <= order,
            };
            if is_earlier && change.acknowledged.is_some() {
                self.make_durable(write);
            } else {
                self.unflushed.push(write);
            }
        }
    }

    /// A primary begins to serve. `lost` says of a sector whether a machine crash may have taken
    /// back what was not flushed there.
    pub fn serving(&mut self, primary: usize, now: Moment, lost: impl Fn(u32) -> bool) {
        if self.serving.len() <= primary {
            self.serving.resize(primary + 1, None);
        }
        if self.serving[primary].is_some() {
            return;
        }
        self.served += 1;
        self.serving[primary] = Some((self.served, now));
        for write in &self.unflushed {
            let change = &self.changes[*write as usize];
            if change.primary == primary {
                continue;
            }
            for sector in (change.first..change.first + change.count).filter(|s| lost(*s)) {
                let clusters = &mut self.sectors[sector as usize].clusters;
                if let Some(cluster) = clusters.iter_mut().find(|c| c.write == *write) {
                    cluster.may_be_lost = true;
                }
            }
        }
    }

    /// Somebody took a loss: in these sectors any write may be gone, read and flushed as it is.
    pub fn lose(&mut self, lost: impl Fn(u32) -> bool) {
        for change in &mut self.changes {
            change.durable &= !(change.first..change.first + change.count).any(&lost);
        }
        for (_, sector) in (0..).zip(&mut self.sectors).filter(|(number, _)| lost(*number)) {
            sector.clusters.iter_mut().for_each(|cluster| cluster.may_be_lost = true);
        }
    }

    /// A read has returned `cell` for a sector.
    ///
    /// # Errors
    /// If no order of all requests explains that.
    pub fn read(&mut self, sector: u32, cell: Cell, read: Read) -> Result<(), Violation> {
        if self.sectors[sector as usize].clusters.is_empty() {
            return match cell {
                ZERO => Ok(()),
                _ => Err(Violation::new(
                    "I2",
                    format!(
                        "sector {sector} was never written, but a read returned {}",
                        self.name(cell)
                    ),
                )),
            };
        }
        if !self.is_shared {
            self.check_fixed(sector, cell, read)?;
        }
        if cell == ZERO {
            return self.read_zero(sector, read);
        }
        self.check_origin(sector, cell, read)?;
        let (write, _) = stamped(cell);
        let is_own = self.change(write).is_some_and(|change| change.primary == read.primary);
        let counts_as_done = is_own || !self.is_shared;
        let Some(cluster) = self.cluster(sector, write) else {
            return Err(Violation::new(
                "I2",
                format!("nobody wrote {} to sector {sector}", self.name(cell)),
            ));
        };
        cluster.last_begin = cluster.last_begin.max(read.invoked);
        if counts_as_done {
            cluster.first_end = cluster.first_end.min(read.answered);
        }
        cluster.may_be_lost = false;
        let cluster = *cluster;
        match self.contradiction(sector, cluster) {
            Some(newer) => Err(self.stale(sector, cell, newer, read)),
            None => Ok(()),
        }
    }

    /// A compare-and-write has found `cell` in a sector and put its own content there.
    ///
    /// # Errors
    /// If another one has replaced the same content, which nobody can have written again.
    pub fn replaced(&mut self, sector: u32, cell: Cell, write: u32) -> Result<(), Violation> {
        if cell == ZERO {
            return Ok(());
        }
        match self.replaced.insert((sector, cell), write) {
            Some(other) if self.cluster(sector, other).is_some_and(|c| !c.may_be_lost) => {
                let text = format!(
                    "two compare-and-writes, #{other} and #{write}, both replaced {} in sector {sector}",
                    self.name(cell)
                );
                Err(Violation::new("I12", text))
            }
            _ => Ok(()),
        }
    }

    /// A change was answered so that it has written nothing: it miscompared, or was refused.
    ///
    /// # Errors
    /// If somebody has read what it would have written.
    pub fn never(&mut self, write: u32) -> Result<(), Violation> {
        let (first, count, invoked) = {
            let change = &self.changes[write as usize];
            (change.first, change.count, change.invoked)
        };
        self.fail(write);
        self.unflushed.retain(|other| *other != write);
        for sector in first..first + count {
            let was_read = self.cluster(sector, write).is_some_and(|c| c.last_begin != invoked);
            self.sectors[sector as usize].clusters.retain(|cluster| cluster.write != write);
            if was_read {
                let text = format!(
                    "#{write} is said to have written nothing, but was read in sector {sector}"
                );
                return Err(Violation::new("I12", text));
            }
        }
        Ok(())
    }

    /// A compare-and-write found something else than `expected`, a sector and its content.
    ///
    /// # Errors
    /// If nothing else can have been there.
    pub fn refuted(&self, expected: (u32, Cell), read: Read) -> Result<(), Violation> {
        let (sector, cell) = expected;
        let Some(writer) = self.change(stamped(cell).0).filter(|_| cell != ZERO) else {
            return Ok(());
        };
        let is_before = |change: &Change, moment| change.acknowledged.is_some_and(|at| at < moment);
        let is_older = |cluster: &Cluster| {
            let is_itself = cluster.write == stamped(cell).0;
            let is_whole = is_itself && !cluster.may_be_lost;
            is_whole || is_before(&self.changes[cluster.write as usize], writer.invoked)
        };
        let are_older = self.sectors[sector as usize].clusters.iter().all(is_older);
        if is_before(writer, read.invoked) && are_older {
            let text = format!(
                "a compare-and-write by primary {} did not find {} in sector {sector}, where nothing else can be",
                read.primary,
                self.name(cell)
            );
            return Err(Violation::new("I12", text));
        }
        Ok(())
    }

    /// Whether a sector that holds `cell` has had this write: it is the write's own content, or
    /// that of a change which nothing says to be older.
    #[must_use]
    pub fn supersedes(&self, sector: u32, cell: Cell, write: u32) -> bool {
        let Some(wanted) = self.change(write) else { return false };
        let is_later = |other: u32| {
            let Some(change) = self.change(other) else { return false };
            let is_newest_primary =
                self.is_shared || self.order_of(change.primary) >= self.order_of(wanted.primary);
            let ended_before = change.acknowledged.is_some_and(|at| at < wanted.invoked);
            other == write || (other != 0 && is_newest_primary && !ended_before)
        };
        if cell == ZERO {
            let clusters = &self.sectors[sector as usize].clusters;
            return clusters
                .iter()
                .any(|c| self.changes[c.write as usize].zero && is_later(c.write));
        }
        is_later(stamped(cell).0)
    }

    fn make_durable(&mut self, write: u32) {
        let (first, count) = {
            let change = &self.changes[write as usize];
            (change.first, change.count)
        };
        let lost = (first..first + count)
            .any(|s| self.cluster(s, write).is_some_and(|cluster| cluster.may_be_lost));
        // What may be gone already is not made durable by a later flush.
        self.changes[write as usize].durable = !lost;
    }

    fn order_of(&self, primary: usize) -> Option<usize> {
        self.serving.get(primary).copied().flatten().map(|(order, _)| order)
    }

    fn cluster(&mut self, sector: u32, write: u32) -> Option<&mut Cluster> {
        self.sectors[sector as usize].clusters.iter_mut().find(|c| c.write == write)
    }

    /// The write that contradicts what a cluster says, if there is one.
    fn contradiction(&self, sector: u32, cluster: Cluster) -> Option<u32> {
        let others = self.sectors[sector as usize].clusters.iter();
        others
            .filter(|other| other.write != cluster.write && !other.may_be_lost)
            .find(|other| {
                cluster.first_end < other.last_begin && other.first_end < cluster.last_begin
            })
            .map(|other| other.write)
    }

    fn read_zero(&mut self, sector: u32, read: Read) -> Result<(), Violation> {
        let clusters = &self.sectors[sector as usize].clusters;
        let mut newest = None;
        for cluster in clusters.iter().filter(|c| self.changes[c.write as usize].zero) {
            let mut explained = *cluster;
            explained.last_begin = explained.last_begin.max(read.invoked);
            explained.first_end = explained.first_end.min(read.answered);
            match self.contradiction(sector, explained) {
                Some(newer) => newest = newest.max(Some(newer)),
                None => return Ok(()),
            }
        }
        Err(self.stale(sector, ZERO, newest.unwrap_or(0), read))
    }

    /// What an earlier primary left behind is fixed by the first read of the one after it.
    fn check_fixed(&mut self, sector: u32, cell: Cell, read: Read) -> Result<(), Violation> {
        let writes = &self.sectors[sector as usize].clusters;
        let own = match cell {
            ZERO => writes.iter().any(|c| {
                let change = &self.changes[c.write as usize];
                c.write != 0 && change.zero && change.primary == read.primary
            }),
            _ => self.change(stamped(cell).0).is_some_and(|c| c.primary == read.primary),
        };
        if own {
            return Ok(());
        }
        match self.sectors[sector as usize].fixed {
            Some((primary, fixed)) if primary == read.primary && fixed != cell => {
                Err(Violation::new(
                    "I2",
                    format!(
                        "a read of sector {sector} returned {}, but an earlier read by the same primary found {} there; what an ended primary left behind changed afterwards",
                        self.name(cell),
                        self.name(fixed)
                    ),
                ))
            }
            _ => {
                self.sectors[sector as usize].fixed = Some((read.primary, cell));
                Ok(())
            }
        }
    }

    /// A stamp belongs to this sector, and to a primary whose writes may be seen here.
    fn check_origin(&self, sector: u32, cell: Cell, read: Read) -> Result<(), Violation> {
        let (write, place) = stamped(cell);
        let change = self.change(write).filter(|change| {
            place == sector && (change.first..change.first + change.count).contains(&sector)
        });
        let Some(change) = change else {
            return Err(Violation::new(
                "I2",
                format!(
                    "a read of sector {sector} returned {}, which was never written there",
                    self.name(cell)
                ),
            ));
        };
        if change.primary == read.primary || self.is_shared {
            return Ok(());
        }
        let (reader, writer) = (self.order_of(read.primary), self.order_of(change.primary));
        let began = self.serving.get(read.primary).copied().flatten().map(|(_, at)| at);
        let after_the_end = writer < reader && began.is_some_and(|at| change.invoked > at);
        if writer.is_none() || writer > reader || after_the_end {
            return Err(Violation::new(
                "I3",
                format!(
                    "primary {} read {} in sector {sector}: a write sent to primary {} after a newer one had begun to serve",
                    read.primary,
                    self.name(cell),
                    change.primary
                ),
            ));
        }
        Ok(())
    }

    fn stale(&self, sector: u32, cell: Cell, newer: u32, read: Read) -> Violation {
        let change = &self.changes[newer as usize];
        let later_primary = self.order_of(read.primary) > self.order_of(change.primary);
        let oracle = if change.durable && later_primary { "I1" } else { "I2" };
        let fate = match change.acknowledged {
            Some(at) if at < read.invoked => "was acknowledged before the read began",
            _ => "was already read before",
        };
        let kind = if change.durable { ", flushed" } else { "" };
        Violation::new(
            oracle,
            format!(
                "primary {} read {} in sector {sector}, although write #{newer} (by primary {}{kind}) {fate}",
                read.primary,
                self.name(cell),
                change.primary
            ),
        )
    }

    fn name(&self, cell: Cell) -> String {
        if cell == ZERO {
            return "zeroes".into();
        }
        let (write, place) = stamped(cell);
        match self.change(write) {
            Some(change) => {
                format!("write #{write} of sector {place} (by primary {})", change.primary)
            }
            None => format!("the unknown content {cell:#x}"),
        }
    }
}

#[cfg(test)]
mod tests;

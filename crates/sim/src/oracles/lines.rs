//! Branches of the data (*lines*). As long as no operator accepts a loss there is one. A forced
//! assembly begins another one, which continues what was found; the old one goes on on its own
//! replicas, until an operator chooses. A read on one branch never returns what was written on the
//! other after they diverged.

use std::collections::HashMap;

use evenkeel_core::{CoordinatorId, History, View};

use super::Violation;
use super::registers::{Change, Moment, Read, Registers};
use crate::payload::Cell;

/// What names an epoch.
pub type EpochKey = (CoordinatorId, History);

/// The epoch of a view.
#[must_use]
pub const fn epoch(view: &View) -> EpochKey {
    (view.coordinator, view.history)
}

/// The registers of all lines.
#[derive(Debug)]
pub struct Lines {
    lines: Vec<Registers>,
    /// To which line the epochs belong.
    epochs: HashMap<EpochKey, usize>,
    /// The line that each one has diverged from.
    parents: Vec<Option<usize>>,
    /// Which sectors may have lost anything in lines in which nobody has served yet. Until then
    /// primaries of the line before are heard by replicas that have not confirmed the assembly.
    unserved: HashMap<usize, Vec<bool>>,
    /// In which line each primary serves; before that, none.
    primaries: HashMap<usize, usize>,
}

impl Lines {
    /// A new volume of this many sectors, whose first views are of this epoch.
    #[must_use]
    pub fn new(sectors: u32, first: EpochKey) -> Self {
        Self {
            lines: vec![Registers::new(sectors)],
            epochs: HashMap::from([(first, 0)]),
            parents: vec![None],
            unserved: HashMap::new(),
            primaries: HashMap::new(),
        }
    }

    /// What a change is, in whatever line: for what was asked, not for what became of it.
    #[must_use]
    pub fn change(&self, write: u32) -> Option<&Change> {
        self.lines[0].change(write)
    }

    /// The number that the next change will get.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.lines[0].next_number()
    }

    /// From now on there may be several primaries at once.
    pub fn share(&mut self) {
        self.lines.iter_mut().for_each(Registers::share);
    }

    /// A write or a zeroing begins. In a line in which its primary does not serve nobody may see
    /// it.
    pub fn begin(&mut self, first: u32, count: u32, zero: bool, primary: usize, now: Moment) {
        self.lines.iter_mut().for_each(|line| line.begin(first, count, zero, primary, now));
    }

    /// A write or a zeroing was answered with an error.
    pub fn fail(&mut self, write: u32) {
        self.lines.iter_mut().for_each(|line| line.fail(write));
    }

    /// A compare-and-write wrote nothing, because it found something else than `expected` (a sector
    /// and its content).
    ///
    /// # Errors
    /// See [`Registers::refuted`].
    pub fn refuted(
        &mut self,
        write: u32,
        primary: usize,
        expected: (u32, Cell),
        read: Read,
    ) -> Result<(), Violation> {
        self.never(write)?;
        self.of(primary).refuted(expected, read)
    }

    /// A change was refused before anything was done.
    ///
    /// # Errors
    /// See [`Registers::never`].
    pub fn never(&mut self, write: u32) -> Result<(), Violation> {
        self.lines.iter_mut().try_for_each(|line| line.never(write))
    }

    /// A primary begins to serve in this epoch.
    pub fn serves(&mut self, primary: usize, epoch: EpochKey) {
        let line = self.line(epoch);
        if self.unserved.contains_key(&line) {
            self.lines[line] = self.diverged(line);
            self.unserved.remove(&line);
        }
        self.primaries.insert(primary, line);
    }

    /// What a line in which nobody has served yet goes on from.
    fn diverged(&self, line: usize) -> Registers {
        match (self.unserved.get(&line), self.parents[line]) {
            (Some(lost), Some(parent)) => {
                let mut registers = self.diverged(parent);
                registers.lose(|sector| lost.get(sector as usize).is_some_and(|lost| *lost));
                registers
            }
            _ => self.lines[line].clone(),
        }
    }

    /// The line in which a primary serves.
    #[must_use]
    pub fn of(&self, primary: usize) -> &Registers {
        &self.lines[self.primaries.get(&primary).copied().unwrap_or(0)]
    }

    /// The line in which a primary serves.
    pub fn of_mut(&mut self, primary: usize) -> &mut Registers {
        &mut self.lines[self.primaries.get(&primary).copied().unwrap_or(0)]
    }

    /// A new epoch goes on in the line of an older one.
    pub fn goes_on(&mut self, old: EpochKey, new: EpochKey) {
        let line = self.line(old);
        self.epochs.insert(new, line);
    }

    /// A new epoch begins a line of its own, in which sectors may have lost anything.
    pub fn parts(&mut self, old: EpochKey, new: EpochKey, lost: Vec<bool>) {
        let (line, parent) = (self.lines.len(), self.line(old));
        self.lines.push(self.lines[parent].clone());
        self.parents.push(Some(parent));
        self.epochs.insert(new, line);
        self.unserved.insert(line, lost);
    }

    /// Whether the line of an epoch has diverged from that of another one, or is that.
    #[must_use]
    pub fn comes_from(&self, epoch: EpochKey, older: EpochKey) -> bool {
        let mut line = Some(self.line(epoch));
        while line.is_some_and(|line| line != self.line(older)) {
            line = line.and_then(|line| self.parents[line]);
        }
        line.is_some()
    }

    /// Whether two epochs are of one line.
    #[must_use]
    pub fn are_one(&self, a: EpochKey, b: EpochKey) -> bool {
        self.line(a) == self.line(b)
    }

    fn line(&self, epoch: EpochKey) -> usize {
        self.epochs.get(&epoch).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;

//! I10: overlapping writes reach every disk in the order in which their primary sent them.

use std::collections::{HashMap, HashSet};

use evenkeel_core::Sequence;

use super::Violation;
use crate::payload::{Cell, HOLE, ZERO, stamped};

/// What was sent in which order, and what each disk took last.
#[derive(Debug, Default)]
pub struct Order {
    /// Under which number each stamp was sent, and by which primary.
    sent: HashMap<Cell, (usize, Sequence)>,
    last: HashMap<(usize, u32), Cell>,
    /// What each disk has taken from writes at any time.
    taken: HashSet<(usize, Cell)>,
    /// The write that each operation of a primary carries out, in part.
    operations: HashMap<(usize, Sequence), u32>,
    /// Writes of which some replica has failed a part: its mirror may be without them, although the
    /// client has not been told yet, because other mirrors have not answered.
    failed_in_part: HashSet<u32>,
    /// To which replica each first stamp was sent.
    reached: HashSet<(Cell, usize)>,
}

impl Order {
    /// A primary sends these stamps as one operation. `is_over` says of a write whether nobody
    /// waits for it any more: then the primary may rewrite what it has left on disks. A primary
    /// that was replaced may still send what its successor has rewritten, by the number that it
    /// had.
    ///
    /// # Errors
    /// If it has sent one of them under another number before.
    pub fn sends(
        &mut self,
        primary: usize,
        sequence: Sequence,
        cells: &[Cell],
        is_over: impl Fn(u32) -> bool,
    ) -> Result<(), Violation> {
        let first = cells.first().map(|cell| stamped(*cell).0);
        let before = first.and_then(|write| self.operations.insert((primary, sequence), write));
        for cell in cells.iter().filter(|cell| **cell != ZERO && **cell != HOLE) {
            let (by, known) = *self.sent.entry(*cell).or_insert((primary, sequence));
            let is_resend = by != primary && before == Some(stamped(*cell).0);
            if known != sequence && is_over(stamped(*cell).0) {
                self.sent.insert(*cell, (primary, sequence));
            } else if known != sequence && !is_resend {
                return Err(Violation::new(
                    "I10",
                    format!(
                        "primary {primary} sends write #{} as operation {sequence}, before as {known}",
                        stamped(*cell).0
                    ),
                ));
            }
        }
        Ok(())
    }

    /// A replica has told a primary that it failed an operation.
    pub fn fails(&mut self, primary: usize, sequence: Sequence) {
        self.failed_in_part.extend(self.operations.get(&(primary, sequence)));
    }

    /// Notes that an operation that begins with this stamp is sent to a replica; whether it was
    /// sent there before.
    pub fn is_resend(&mut self, first: Cell, replica: usize) -> bool {
        !self.reached.insert((first, replica))
    }

    /// A disk takes a stamp into one of its sectors, from a copy or from a write. `rules` says of a
    /// primary whether it runs the mirror now, and `failed` of a write whether it was answered with
    /// an error.
    ///
    /// # Errors
    /// If it took a later one of the same primary before.
    pub fn takes(
        &mut self,
        (replica, sector): (usize, u32),
        cell: Cell,
        is_copy: bool,
        rules: impl Fn(usize) -> bool,
        failed: impl Fn(u32) -> bool,
    ) -> Result<(), Violation> {
        let previous = match is_copy {
            true => self.last.remove(&(replica, sector)),
            false => self.last.insert((replica, sector), cell),
        };
        let is_repeat = !is_copy && !self.taken.insert((replica, cell));
        let Some(previous) = previous.filter(|_| !is_repeat) else { return Ok(()) };
        let (Some(before), Some(now)) = (self.sent.get(&previous), self.sent.get(&cell)) else {
            return Ok(());
        };
        let write = stamped(previous).0;
        let has_failed = failed(write) || self.failed_in_part.contains(&write);
        if before.0 != now.0 || before.1 <= now.1 || !rules(now.0) || has_failed {
            return Ok(());
        }
        Err(Violation::new(
            "I10",
            format!(
                "replica {replica} writes #{} (operation {}) over #{} (operation {}) in its sector {sector}",
                stamped(cell).0,
                now.1,
                stamped(previous).0,
                before.1
            ),
        ))
    }

    /// The disk's content is no longer what it took last (a machine crash, zeroes).
    pub fn forget(&mut self, replica: usize, sector: u32) {
        self.last.remove(&(replica, sector));
    }
}

#[cfg(test)]
mod tests;

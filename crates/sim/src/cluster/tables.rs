//! An aimed fault: a save of a table of open regions fails and leaves the disk as it was, and power
//! is cut while the next one is written. Of the two copies one is good then, and which one the
//! second save goes to decides whether a start finds what was open. Faults that are drawn by
//! themselves seldom meet so.
//!
//! In other seeds such a save fails at the device flush before it, which is to make durable what
//! the table counts on: what was written since the last flush is lost, though no client has
//! flushed.

use evenkeel_core::replica::DiskError;

use super::disks::Work;
use super::{Cluster, Event};
use crate::marks::Mark;

/// Of 1,000 saves of tables, how many are made to fail.
const FAILED: u64 = 50;
/// Of 1,000 saves that follow one of these, in how many power is cut.
const TORN: u64 = 700;

impl Cluster {
    /// How this action, which begins, is made to fail, if it is. If it follows one that was, power
    /// may be cut meanwhile.
    pub(super) fn fails_table(&mut self, replica: usize, work: &Work) -> Option<DiskError> {
        let slot = work.table().filter(|_| self.faulty)?;
        if self.profile.tears_tables {
            return self.fails_or_tears(replica, slot).then_some(DiskError::Medium);
        }
        (self.profile.tables_lose && self.aim.chance(FAILED)).then_some(DiskError::Lost)
    }

    fn fails_or_tears(&mut self, replica: usize, slot: u8) -> bool {
        if self.replicas[replica].failed_tables.remove(&slot) {
            if self.aim.chance(TORN) {
                let action = self.replicas[replica].last_action + 1;
                self.queue.push(self.now, Event::TearsTable { replica, action });
            }
            return false;
        }
        let fails = self.aim.chance(FAILED);
        if fails {
            self.replicas[replica].failed_tables.insert(slot);
        }
        fails
    }

    pub(super) fn tear_table(&mut self, replica: usize, action: u64) {
        let slot = &self.replicas[replica];
        if self.faulty && slot.pending.get(&action).is_some_and(|pending| pending.awaits_table()) {
            self.marks.reach(Mark::TableTorn);
            let (node, pause) = (slot.node, self.profile.lease.time().as_nanos() as u64 / 10);
            self.stop_for(node, true, pause);
        }
    }
}

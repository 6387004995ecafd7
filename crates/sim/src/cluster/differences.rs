//! The rule on which every rebuild and every takeover rests (W6, W7): wherever two replicas may
//! differ, something on the disk of one of them says so. It is judged whenever a fault strikes,
//! from the disks alone: what is in their caches, what is durable, the intent logs and the bitmaps
//! as they are saved.

use evenkeel_core::block_set::PAGE_BLOCKS;
use evenkeel_core::replica::FoundPage;
use evenkeel_core::*;
use evenkeel_format::decode_page;

use super::Cluster;
use super::replicas::SimReplica;
use crate::payload::SECTOR;
use crate::store::Store;

/// The unit of bitmaps, in sectors.
const BLOCK: u32 = 4096 / SECTOR;

/// Pairs of sectors that are compared for each step, on average, where every step is judged. Most
/// volumes have fewer; of a large one with many replicas a seed would take minutes.
const MAX_PAIRS: u64 = 20_000;

/// One replica of the newest view, and what its disk says.
struct Disk<'a> {
    slot: &'a SimReplica,
    record: ReplicaRecord,
    view: View,
}

impl Cluster {
    /// Judges all pairs of replicas of which one is in-sync, and the other is not known to lack
    /// everything.
    pub(super) fn judge_differences(&mut self) {
        if !self.coordinator.is_usable() {
            return;
        }
        let view = self.coordinator.newest();
        let unsaid = view.mirrors.iter().find_map(|mirror| self.unsaid(view, mirror));
        if let Some(text) = unsaid {
            self.fail("W7", text);
        }
    }

    /// A disk or the newest view has changed: judges that, or one of so many such steps that a step
    /// does not cost more than [`MAX_PAIRS`] on average.
    pub(super) fn judge_step(&mut self) {
        if self.unjudged > 0 {
            self.unjudged -= 1;
            return;
        }
        self.judge_differences();
        let pairs = |mirror: &MirrorView| (mirror.replicas.len() as u64).pow(2);
        let pairs: u64 = self.coordinator.newest().mirrors.iter().map(pairs).sum();
        self.unjudged = (pairs * u64::from(self.sectors) / MAX_PAIRS) as u32;
    }

    fn unsaid(&self, view: &View, mirror: &MirrorView) -> Option<String> {
        let disks = mirror.replicas.iter().filter_map(|record| self.look_at(view, record));
        let disks: Vec<_> = disks.collect();
        let whole = |disk: &&Disk<'_>| disk.record.state == ReplicaState::InSync;
        let pairs = disks.iter().filter(whole).flat_map(|a| disks.iter().map(move |b| (a, b)));
        for (a, b) in pairs {
            let sectors = a.slot.disk.sectors().min(b.slot.disk.sectors());
            let unsaid =
                (0..sectors).find(|sector| differ(a, b, *sector) && !is_reported(a, b, *sector));
            if let Some(sector) = unsaid {
                return Some(format!(
                    "replica {} ({}) and replica {} ({}) differ in sector {sector}, and neither an open region nor a bit on their disks says so",
                    a.record.id.0 - 1,
                    a.record.state,
                    b.record.id.0 - 1,
                    b.record.state
                ));
            }
        }
        None
    }

    fn look_at(&self, newest: &View, record: &ReplicaRecord) -> Option<Disk<'_>> {
        let mut slots = self.replicas.iter();
        let slot = slots.find(|slot| slot.id == record.id && !slot.is_old)?;
        let view = Store::examine(&slot.disk)?.view;
        let counts = record.state == ReplicaState::InSync || record.missing_since.is_some();
        let record = *record;
        (counts && newest.continues(&view)).then_some(Disk { slot, record, view })
    }
}

fn differ(a: &Disk<'_>, b: &Disk<'_>, sector: u32) -> bool {
    let (a, b) = (&a.slot.disk, &b.slot.disk);
    a.content(sector) != b.content(sector) || a.durable_content(sector) != b.durable_content(sector)
}

/// Whether the disk of one says that they may differ there; `a` is in-sync. One that is not keeps a
/// bitmap of what it lacks itself, too: its own writes that nobody else may have.
fn is_reported(a: &Disk<'_>, b: &Disk<'_>, sector: u32) -> bool {
    let lacks = |disk: &Disk<'_>| has_bit(disk, b.record.id, sector / BLOCK);
    is_open(a.slot, sector)
        || is_open(b.slot, sector)
        || (b.record.state != ReplicaState::InSync && (lacks(a) || lacks(b)))
}

fn is_open(slot: &SimReplica, sector: u32) -> bool {
    slot.open_regions.values().any(|regions| {
        let region = u64::from(sector) * u64::from(SECTOR) / regions.region;
        regions.is_all() || regions.open.binary_search(&region).is_ok()
    })
}

/// Whether a disk says that this replica lacks a block.
fn has_bit(disk: &Disk<'_>, lacking: ReplicaId, block: u32) -> bool {
    let since = disk.view.replica(lacking).and_then(|(_, record)| record.missing_since);
    let (number, bit) = (block / PAGE_BLOCKS as u32, block as usize % PAGE_BLOCKS as usize);
    let mut pages = disk.slot.disk.pages().filter(|((_, page), _)| *page == number);
    pages.any(|((place, page), bytes)| match decode_page(bytes, place, page) {
        Some(FoundPage::Whole(page)) => {
            let is_meant = page.replica == lacking && Some(page.since) == since;
            is_meant && page.bits[bit / 64] & 1 << (bit % 64) != 0
        }
        Some(FoundPage::Damaged { .. }) => true,
        None => false,
    })
}

//! Operators who change the size of the intent logs, and how many slots they have.

use evenkeel_core::primary::Command;
use evenkeel_core::settings::MOST_OPEN_REGIONS;
use evenkeel_core::view::Change;
use evenkeel_core::{IntentLayout, View};

use super::Cluster;
use crate::marks::Mark;
use crate::payload::SECTOR;

impl Cluster {
    /// Regions of another size, or another number of places.
    pub(super) fn change_intents(&mut self) {
        let region = self.random.pick(&[4096, 8192, 65536, 1 << 40]);
        let block = u64::from(self.profile.geometry.block_size);
        let longest = match self.has_whole_requests || self.random.chance(300) {
            true => u64::from(self.profile.most_sectors()) * u64::from(SECTOR),
            false => u64::from(self.profile.longest) * block,
        };
        let places = longest.div_ceil(region) + 1 + self.random.pick(&[0, 1, 3, 20, 1000]);
        if places <= MOST_OPEN_REGIONS as u64 {
            let slots = self.random.pick(&[1, 2, 4, 32]);
            let layout = IntentLayout { region, places: places as u16, slots };
            self.command_somewhere(Command::Change(Change::Intents(layout)));
        }
    }

    /// Whether the intent logs have room for a request as long as the volume.
    pub(super) fn is_log_large(&self) -> bool {
        let layout = self.coordinator.newest().intents;
        let bytes = u64::from(self.sectors) * u64::from(SECTOR);
        u64::from(layout.places) > bytes / layout.region + 1
    }

    /// A view was committed: regions may have another size, and a primary another slot.
    pub(super) fn mark_intents(&mut self, before: &View, after: &View) {
        if before.intents.region != after.intents.region {
            self.marks.reach(Mark::Relaid);
            self.is_relaid = true;
        }
        if before.intents.slots > after.intents.slots {
            self.marks.reach(Mark::FewerSlots);
        }
        if after.primaries.iter().any(|primary| primary.slot > 0) {
            self.marks.reach(Mark::OtherSlot);
        }
    }
}

//! Operators who change the size of the intent logs, and how many slots they have.

use evenkeel_core::primary::Command;
use evenkeel_core::view::Change;
use evenkeel_core::{IntentLayout, View};

use super::Cluster;
use crate::marks::Mark;

impl Cluster {
    /// Regions of another size, or another number of places.
    pub(super) fn change_intents(&mut self) {
        let region = self.random.pick(&[4096, 8192, 65536, 1 << 40]);
        let places = self.random.pick(&[1, 4, 9, 12, 20, 1000]);
        let slots = self.random.pick(&[1, 2, 4, 32]);
        let layout = IntentLayout { region, places, slots };
        self.command_somewhere(Command::Change(Change::Intents(layout)));
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

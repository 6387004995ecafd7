//! What lies on a replica's disk beside its data.

use std::collections::BTreeMap;

use evenkeel_core::replica::{FoundPage, MissingPage, OpenRegions, ReplicaConfig};
use evenkeel_core::*;

/// As it was saved last.
#[derive(Debug, Clone)]
pub struct Saved {
    view: View,
    incarnations: Incarnations,
    tables: BTreeMap<u8, OpenRegions>,
    pages: BTreeMap<(u8, u32), MissingPage>,
}

impl Saved {
    /// Of a replica that was just made.
    pub fn new(view: View, incarnations: Incarnations) -> Self {
        Self { view, incarnations, tables: BTreeMap::new(), pages: BTreeMap::new() }
    }

    /// The view in the superblocks.
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// The incarnations that they list.
    pub const fn incarnations(&self) -> Incarnations {
        self.incarnations
    }

    /// The tables of open regions, one for each slot that was ever saved.
    pub fn tables(&self) -> impl Iterator<Item = &OpenRegions> {
        self.tables.values()
    }

    /// Takes over what an action saves. One on data is no matter of this.
    pub fn save<P: Payload>(&mut self, action: DiskAction<P>) {
        match action {
            DiskAction::SaveView(view, incarnations) => {
                (self.view, self.incarnations) = (*view, incarnations);
            }
            DiskAction::SaveIntents(table) => {
                self.tables.insert(table.slot, table);
            }
            DiskAction::SaveMissing(pages) => {
                self.pages.extend(pages.into_iter().map(|page| ((page.place, page.page), page)));
            }
            DiskAction::Read { .. }
            | DiskAction::Write { .. }
            | DiskAction::Zero { .. }
            | DiskAction::Map { .. }
            | DiskAction::Flush { .. } => {}
        }
    }

    /// What a replica is started with here.
    pub fn config(&self, id: ReplicaId, incarnation: Incarnation, boot: BootId) -> ReplicaConfig {
        ReplicaConfig {
            id,
            incarnation,
            boot,
            view: self.view.clone(),
            incarnations: self.incarnations,
            open_regions: self.tables.values().cloned().collect(),
            missing: self.pages.values().cloned().map(FoundPage::Whole).collect(),
            settings: Settings::default(),
            has_fua: false,
        }
    }
}

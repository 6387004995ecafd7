//! A replica's disk: honest about what it holds, in no order, and failing when the script says so.

use std::collections::BTreeMap;
use std::ops::Range;

use evenkeel_core::block_set::page_of;
use evenkeel_core::replica::{MissingPage, OpenRegions, ReplicaConfig};
use evenkeel_core::settings::*;
use evenkeel_core::*;

use crate::machines::harness::{Blank, Saved};
use crate::machines::script::Script;

/// See the module's documentation.
pub struct Disk {
    saved: Saved,
    /// Bytes of data that there is room for.
    room: u64,
    under_way: BTreeMap<DiskTicket, DiskAction<Blank>>,
}

type Outcome = Result<DiskOutcome<Blank>, DiskError>;

impl Disk {
    /// A disk with this view in its superblocks.
    pub fn new(view: View) -> Self {
        let room = view.replica_size() + (64 << 20);
        Self {
            saved: Saved::new(view, Incarnations::of([Incarnation(5)])),
            room,
            under_way: BTreeMap::new(),
        }
    }

    /// With what a replica starts here.
    pub fn config(&self, id: ReplicaId, incarnation: u64) -> ReplicaConfig {
        let config = self.saved.config(id, Incarnation(incarnation), BootId(1));
        // Odd incarnations, so that both ways are tried with one seed.
        ReplicaConfig { has_fua: incarnation % 2 == 1, ..config }
    }

    /// The view in the superblocks.
    pub fn saved(&self) -> &View {
        self.saved.view()
    }

    /// The incarnations that they list.
    pub fn incarnations(&self) -> Incarnations {
        self.saved.incarnations()
    }

    /// What the saved view says of a replica.
    pub fn state_of(&self, id: ReplicaId) -> Option<ReplicaState> {
        self.saved().replica(id).map(|(_, record)| record.state)
    }

    /// How many actions have not ended.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub fn is_saving_view(&self) -> bool {
        self.under_way.values().any(|action| matches!(action, DiskAction::SaveView(..)))
    }

    /// An action begins, while the replica works by this view.
    pub fn begin(
        &mut self,
        ticket: DiskTicket,
        action: DiskAction<Blank>,
        view: &View,
        id: ReplicaId,
    ) {
        match &action {
            DiskAction::SaveView(next, _) => self.check_view(next, id),
            DiskAction::SaveIntents(table) => self.check_table(table, view),
            DiskAction::SaveMissing(pages) => self.check_pages(pages, view),
            DiskAction::Flush { .. } => {
                assert!(
                    !self.any(|a| matches!(a, DiskAction::Flush { .. })),
                    "two flushes at once"
                );
            }
            data => self.check_range(data, view, id),
        }
        let before = self.under_way.insert(ticket, action);
        assert!(before.is_none(), "{ticket:?} is used twice");
    }

    fn any(&self, is_it: impl Fn(&DiskAction<Blank>) -> bool) -> bool {
        self.under_way.values().any(is_it)
    }

    fn check_view(&self, next: &View, id: ReplicaId) {
        assert!(!self.is_saving_view(), "two views at once");
        assert!(next.is_valid() && next.replica(id).is_some());
        // The same one is saved with another incarnation, also while somebody copies from here.
        let is_same = next == self.saved();
        assert!(is_same || next.generation > self.saved().generation, "back to an older view");
        assert!(next.replica_size() >= self.saved().replica_size());
        let is_idle = !self.any(|a| range(a).is_some());
        assert!(is_same || is_idle, "a view is saved while data are under way");
    }

    fn check_table(&self, table: &OpenRegions, view: &View) {
        assert!(!self.any(|a| matches!(a, DiskAction::SaveIntents(_))), "two tables at once");
        assert!(usize::from(table.slot) < MAX_PRIMARIES);
        assert!(table.open.len() <= MAX_OPEN_REGIONS, "{} regions", table.open.len());
        assert!(table.open.windows(2).all(|pair| pair[0] < pair[1]));
        let regions = view.replica_size().div_ceil(table.region);
        assert!(table.is_all() || table.open.iter().all(|region| *region < regions));
    }

    fn check_pages(&self, pages: &[MissingPage], view: &View) {
        assert!(!self.any(|a| matches!(a, DiskAction::SaveMissing(_))), "two saves at once");
        let last = page_of((view.replica_size() - 1) / u64::from(BLOCK));
        assert!((1..=256).contains(&pages.len()), "{} pages", pages.len());
        for page in pages {
            assert!(usize::from(page.place) < MAX_REPLICAS);
            assert!(page.page <= last, "page {} of {last}", page.page);
        }
    }

    /// Inside the replica, in whole logical blocks, and apart from what it excludes (I10).
    fn check_range(&self, action: &DiskAction<Blank>, view: &View, id: ReplicaId) {
        let (bytes, is_write) = range(action).expect("it has a range");
        let length = bytes.end - bytes.start;
        let is_long = matches!(action, DiskAction::Zero { .. } | DiskAction::Map { .. });
        let most = if is_long { MAX_ZERO } else { MAX_PAYLOAD };
        assert!((1..=most.into()).contains(&length), "{action:?}");
        assert!(bytes.end <= view.replica_size(), "{action:?} of {}", view.replica_size());
        let block = u64::from(view.geometry.block_size);
        assert!(bytes.start % block == 0 && length % block == 0, "{action:?}, blocks of {block}");
        for (other, other_writes) in self.under_way.values().filter_map(range) {
            let overlaps = other.start < bytes.end && bytes.start < other.end;
            let excludes = is_write || other_writes;
            assert!(!(overlaps && excludes), "{action:?} beside {other:?}");
        }
        if is_write && self.state_of(id) == Some(ReplicaState::InSync) {
            self.check_open(&bytes);
        }
    }

    /// I5: the regions of a write are open in a table that a crash leaves on the disk.
    fn check_open(&self, bytes: &Range<u64>) {
        let saving = self.under_way.values().find_map(|action| match action {
            DiskAction::SaveIntents(table) => Some(table),
            _ => None,
        });
        let names = |table: &OpenRegions| {
            let regions = bytes.start / table.region..bytes.end.div_ceil(table.region);
            table.is_all() || regions.into_iter().all(|region| table.open.contains(&region))
        };
        let is_open = self.saved.tables().any(|table| {
            let next = saving.filter(|next| next.slot == table.slot);
            names(table) && next.is_none_or(names)
        });
        assert!(is_open, "{bytes:?} is written in no open region: {:?}", self.saved);
    }

    /// One action ends, as the script says.
    pub fn complete(&mut self, script: &mut Script<'_>) -> Option<(DiskTicket, Outcome)> {
        let tickets: Vec<_> = self.under_way.keys().copied().collect();
        let ticket = script.pick(&tickets)?;
        let action = self.under_way.remove(&ticket)?;
        let lacks_room =
            matches!(&action, DiskAction::SaveView(view, _) if view.replica_size() > self.room);
        let is_durable = matches!(&action, DiskAction::Write { durable: true, .. });
        let outcome = match script.byte() {
            _ if lacks_room => Err(DiskError::NoSpace),
            0..=223 => Ok(self.carry_out(script, action)),
            224..=231 if is_durable => Err(DiskError::Lost),
            224..=239 => Err(DiskError::Medium),
            _ => Err(DiskError::NoSpace),
        };
        Some((ticket, outcome))
    }

    fn carry_out(
        &mut self,
        script: &mut Script<'_>,
        action: DiskAction<Blank>,
    ) -> DiskOutcome<Blank> {
        match action {
            DiskAction::Read { length, .. } => {
                return DiskOutcome::Data(Blank { length, value: script.byte() & 1 });
            }
            DiskAction::Map { length, .. } => return DiskOutcome::Extents(map(script, length)),
            action => self.saved.save(action),
        }
        DiskOutcome::Done
    }

    /// The process is gone: each save under way was carried out, or was not.
    pub fn crash(&mut self, script: &mut Script<'_>) {
        for (_, action) in std::mem::take(&mut self.under_way) {
            if script.is_set() && range(&action).is_none() {
                self.carry_out(script, action);
            }
        }
    }
}

/// The range of an action on data, and whether it changes that.
fn range(action: &DiskAction<Blank>) -> Option<(Range<u64>, bool)> {
    let (offset, length, is_write) = action.range()?;
    Some((offset..offset + u64::from(length), is_write))
}

/// How a range is mapped: up to 3 extents, of at least 512 bytes.
fn map(script: &mut Script<'_>, length: u32) -> Vec<Extent> {
    let mut left = length;
    let mut extents = Vec::new();
    while left > 0 && extents.len() < 3 {
        let part = script.length().clamp(512, 128 << 20).next_multiple_of(512).min(left);
        extents.push(Extent { length: part.into(), allocated: script.is_set() });
        left -= part;
    }
    extents
}

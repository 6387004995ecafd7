//! What the disk is asked for, within what the core promises.

use super::*;

impl World {
    /// Whether an action under way keeps others out of these bytes.
    pub(super) fn is_busy(&self, range: &Range<u64>, is_change: bool) -> bool {
        let cover = range.start / BLOCK * BLOCK..range.end.next_multiple_of(BLOCK);
        let overlaps = |other: &Range<u64>| other.start < cover.end && cover.start < other.end;
        self.pending.values().any(|pending| match &pending.asked {
            Asked::Read(range) => is_change && overlaps(range),
            Asked::Change(change) => {
                let range = &change.range;
                overlaps(&(range.start / BLOCK * BLOCK..range.end.next_multiple_of(BLOCK)))
            }
            _ => false,
        })
    }

    pub(super) fn has(&self, is_it: impl Fn(&Asked) -> bool) -> bool {
        self.pending.values().any(|pending| is_it(&pending.asked))
    }

    pub(super) fn begin_something(&mut self) -> Result<(), Violation> {
        match self.plan.pick_kind(&mut self.random) {
            0 => self.begin_read(),
            1 => self.begin_change(false),
            2 => self.begin_change(true),
            3 => self.begin_flush(),
            4 => self.begin_map(),
            5 => self.begin_view(),
            6 => self.begin_table(),
            _ => self.begin_pages(),
        }
    }

    pub(super) fn begin(
        &mut self,
        asked: Asked,
        action: DiskAction<Buffer>,
    ) -> Result<(), Violation> {
        self.ticket += 1;
        let ticket = self.ticket;
        self.report(|| format!("{ticket}: {asked:?}"));
        self.pending.insert(ticket, Pending { asked, began: self.model.now() });
        let name = DiskTicket::Operation(OperationNumber(ticket));
        let ended = self.with_disk(|disk, means| disk.begin(means, name, action));
        ended.map_or(Ok(()), |ended| self.ended(ended))
    }

    /// Has the disk do something, and look whether it is as it must be.
    pub(super) fn with_disk<T>(
        &mut self,
        run: impl FnOnce(&mut Disk<Queue>, &mut Means<'_, Queue>) -> Option<T>,
    ) -> Option<T> {
        let now = Instant(self.now);
        let mut means =
            Means { ring: &mut self.queue, pool: &self.pool, replica: self.replica, now };
        let disk = self.disk.as_mut()?;
        let ended = run(disk, &mut means);
        disk.check_invariants();
        ended
    }

    pub(super) fn begin_read(&mut self) -> Result<(), Violation> {
        let range = self.plan.range(&mut self.random, false);
        if self.is_busy(&range, false) {
            return Ok(());
        }
        let (offset, length) = (range.start, (range.end - range.start) as u32);
        self.begin(Asked::Read(range), DiskAction::Read { offset, length })
    }

    pub(super) fn begin_change(&mut self, is_zeroing: bool) -> Result<(), Violation> {
        let range = self.plan.range(&mut self.random, is_zeroing);
        let is_open = (range.start / REGION..=(range.end - 1) / REGION)
            .all(|region| self.expected.is_open(region));
        if self.is_busy(&range, true) || !(is_open || self.is_rebuilding) {
            return Ok(());
        }
        let (offset, length) = (range.start, (range.end - range.start) as u32);
        let is_copy = !is_open;
        if let Some(written) = &mut self.written {
            written.extend(range.start >> 20..=(range.end - 1) >> 20);
        }
        if is_zeroing {
            let unmap = self.random.chance(600);
            let change = Change { range, stamp: 0, is_copy, is_durable: false };
            let action = DiskAction::Zero { offset, length, unmap };
            return self.begin(Asked::Change(change), action);
        }
        self.stamp += 1 << 20;
        let mut memory = self.pool.take(length as usize);
        for (n, sector) in (self.stamp..).zip(memory.chunks_mut(SECTOR as usize)) {
            sector.copy_from_slice(&content_of(n));
        }
        // Nobody asks for it who has seen a flush fail.
        let durable = !self.distrusts && self.durably.chance(self.plan.durable);
        let change = Change { range, stamp: self.stamp, is_copy, is_durable: durable };
        let payload = memory.freeze();
        let action = DiskAction::Write { offset, payload, durable, forgotten: None };
        self.begin(Asked::Change(change), action)
    }

    pub(super) fn begin_flush(&mut self) -> Result<(), Violation> {
        if self.distrusts || self.has(|asked| matches!(asked, Asked::Flush { .. })) {
            return Ok(());
        }
        let with_checksums = self.is_rebuilding;
        self.begin(Asked::Flush { with_checksums }, DiskAction::Flush { with_checksums })
    }

    pub(super) fn begin_map(&mut self) -> Result<(), Violation> {
        let range = self.plan.range(&mut self.random, true);
        let (offset, length) = (range.start, (range.end - range.start) as u32);
        self.begin(Asked::Map(range), DiskAction::Map { offset, length })
    }

    pub(super) fn begin_view(&mut self) -> Result<(), Violation> {
        if self.has(|asked| matches!(asked, Asked::View(_))) {
            return Ok(());
        }
        self.generation += 1;
        let generation = self.generation;
        self.expected.view_begun(generation);
        let view = View { generation: Generation(generation), ..view(self.plan.length) };
        let action = DiskAction::SaveView(Box::new(view), Incarnations::default());
        self.begin(Asked::View(generation), action)
    }

    pub(super) fn begin_table(&mut self) -> Result<(), Violation> {
        if self.has(|asked| matches!(asked, Asked::Table { .. })) {
            return Ok(());
        }
        let slot = self.random.below(SLOTS as u64) as u8;
        let last = self.expected.last_table(slot).clone();
        let mut open = last.clone();
        // All regions, by a table that could not be read: it closes them.
        open.retain(|region| *region < self.plan.length.div_ceil(REGION));
        let closes_all = self.random.chance(100);
        open.retain(|region| !self.may_close(*region) || !(closes_all || self.random.chance(300)));
        for _ in 0..self.random.below(4) {
            open.insert(self.plan.region(&mut self.random));
        }
        let closes = last.iter().any(|region| !open.contains(region));
        self.expected.table_begun(slot, &open);
        let regions = open.iter().copied().collect();
        let table = OpenRegions { slot, region: REGION, open: regions };
        self.begin(Asked::Table { slot, open, closes }, DiskAction::SaveIntents(table))
    }

    /// Whether nothing is under way in a region, and all of it is durable (W6).
    pub(super) fn may_close(&self, region: u64) -> bool {
        let range = region * REGION..(region + 1) * REGION;
        let is_flushed = self.changed.get(&region).is_none_or(|at| *at <= self.flushed);
        is_flushed && !self.is_busy(&range, true)
    }

    pub(super) fn begin_pages(&mut self) -> Result<(), Violation> {
        if self.has(|asked| matches!(asked, Asked::Pages(_))) {
            return Ok(());
        }
        let mut pages = BTreeMap::new();
        for _ in 0..=self.random.below(4) {
            self.stamp += 1 << 20;
            let place = (self.random.below(16) as u8, self.random.below(self.plan.bitmap_pages));
            pages.insert((place.0, place.1 as u32), self.stamp);
        }
        let pages: Vec<_> = pages.into_iter().map(|((s, page), stamp)| (s, page, stamp)).collect();
        self.expected.pages_begun(&pages);
        let action = DiskAction::SaveMissing(pages.iter().copied().map(missing_page).collect());
        self.begin(Asked::Pages(pages), action)
    }
}

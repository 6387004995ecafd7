//! What becomes of it, and what is judged then.

use evenkeel_core::replica::Unverified;

use super::*;

impl World {
    /// One thing that is under way goes on.
    pub(super) fn advance(&mut self) -> Result<(), Violation> {
        self.advance_one()?;
        self.learn_of_failed_flushes()
    }

    /// The flush of somebody else on the same drive fails, and drops what this disk has written.
    pub(super) fn fail_elsewhere(&mut self) -> Result<(), Violation> {
        self.note("failed flushes of others");
        self.report(|| "-- a flush of another one fails".to_owned());
        self.device.state().flush_fails();
        self.device.state().drive.flush_failed();
        self.learn_of_failed_flushes()
    }

    /// A process that is killed takes with it what only it knew: so the core, which tells others,
    /// knows of each flush that has failed (W5).
    fn learn_of_failed_flushes(&mut self) -> Result<(), Violation> {
        let is_reported =
            self.with_disk(|disk, _| disk.take_failed_flush().then_some(())).is_some();
        if is_reported && self.device.state().failures == 0 {
            return Err(("W5", "the core is told of a flush, and none has failed".to_owned()));
        }
        if is_reported && self.sabotage != Sabotage::TellNoFailures {
            self.note("flushes that failed unasked");
            self.distrusts = true;
        }
        let failed = self.device.state().failed_flushes;
        if failed > 0 && !self.distrusts && self.disk.is_some() {
            return Err((
                "W5",
                format!("{failed} flushes have failed, and the core knows of none"),
            ));
        }
        Ok(())
    }

    fn advance_one(&mut self) -> Result<(), Violation> {
        if let Some(task) = self.tasks.as_ref().and_then(|tasks| tasks.try_recv().ok()) {
            return self.advance_task(task);
        }
        let Some(completion) = self.queue.advance(&mut self.random) else { return Ok(()) };
        let Owner::Disk { job, .. } = completion.owner else { return Ok(()) };
        let ended = self.with_disk(|disk, means| disk.completed(means, job, completion));
        self.meddle();
        let store = self.disk.as_ref().and_then(|disk| disk.data.store());
        if store.is_some_and(ChecksumStore::is_evicting) {
            self.note("steps while pages go");
        }
        self.forget_unread();
        if let Some(ended) = ended {
            self.ended(ended)?;
        }
        self.advance_space()
    }

    /// What waits for the end of others goes on.
    fn advance_space(&mut self) -> Result<(), Violation> {
        if self.sabotage == Sabotage::ForgetSpace {
            return Ok(());
        }
        let ended = self.with_disk(|disk, means| Some(disk.advance_space(means)));
        self.all_ended(ended.unwrap_or_default())
    }

    /// The helper does something.
    fn advance_task(&mut self, task: Task) -> Result<(), Violation> {
        match self.run_task(task)? {
            Some(Done::Mapped { job, extents, .. }) => {
                let now = Instant(self.now);
                let ended = self.with_disk(|disk, _| disk.mapped(now, job, extents));
                if let Some(ended) = ended {
                    self.ended(ended)?;
                }
                self.advance_space()
            }
            Some(Done::SpaceMade { result, .. }) => self.space_made(result),
            _ => Ok(()),
        }
    }

    /// Checksums that could not be read are not known.
    pub(super) fn forget_unread(&mut self) {
        let unread = core::mem::take(&mut self.device.state().unread);
        for range in unread {
            let start = self.device.state().places.checksums.start + (1 << 20);
            let page = |byte: u64| byte.saturating_sub(start) / PAGE_LENGTH as u64;
            let blocks = CHECKSUMS_PER_PAGE as u64;
            self.model.forget(page(range.start) * blocks..(page(range.end) + 1) * blocks);
        }
    }

    pub(super) fn ended(&mut self, ended: Ended) -> Result<(), Violation> {
        let Some(DiskTicket::Operation(OperationNumber(ticket))) = ended.ticket else {
            self.report(|| format!("of its own: {:?} {:?}", ended.outcome, ended.failed));
            return Ok(());
        };
        let Some(pending) = self.pending.remove(&ticket) else {
            return Err(("I11", format!("action {ticket} has ended twice")));
        };
        self.report(|| format!("{ticket}: {:?} {:?}", ended.outcome, ended.failed));
        match ended.outcome {
            Ok(outcome) => self.succeeded(pending, outcome),
            Err(error) => {
                let why = ended.failed.map(|(_, why)| why).unwrap_or_default();
                self.failed(pending, error, &why)
            }
        }
    }

    pub(super) fn succeeded(
        &mut self,
        pending: Pending,
        outcome: DiskOutcome<Buffer>,
    ) -> Result<(), Violation> {
        match (pending.asked, outcome) {
            (Asked::Read(range), DiskOutcome::Data(data)) => return self.judge_read(&range, &data),
            (Asked::Read(range), DiskOutcome::Unverified(data, what)) => {
                if let Unverified::Blocks { empty, forgotten } = what {
                    self.note("reads of what no checksum vouches for");
                    self.model.not_compared(range.start, &empty)?;
                    self.model.not_compared(range.start, &forgotten)?;
                }
                return self.judge_read(&range, &data);
            }
            (Asked::Change(change), _) => {
                self.note(match (change.stamp, change.is_durable) {
                    (0, _) => "zeroings",
                    (_, true) => "durable writes",
                    (_, false) => "writes",
                });
                self.model.changed(&change);
                self.touch(&change.range);
            }
            (Asked::Flush { with_checksums }, _) => {
                self.note("flushes");
                self.model.flushed(pending.began, with_checksums);
                self.flushed = pending.began;
            }
            (Asked::Map(range), DiskOutcome::Extents(extents)) => {
                self.note("maps");
                return self.judge_map(&range, &extents);
            }
            (Asked::View(generation), _) => {
                self.note("views");
                self.expected.view_saved(generation);
            }
            (Asked::Table { slot, open, closes }, _) => {
                self.note(if closes { "tables that close" } else { "tables" });
                self.expected.table_saved(slot, &open);
            }
            (Asked::Pages(pages), _) => {
                self.note("bitmaps");
                self.expected.pages_saved(&pages);
            }
            (asked, outcome) => return Err(("contents", format!("{outcome:?} of {asked:?}"))),
        }
        Ok(())
    }

    fn judge_read(&mut self, range: &Range<u64>, data: &[u8]) -> Result<(), Violation> {
        self.note("reads");
        if range.end - range.start != data.len() as u64 {
            return Err(("contents", format!("{} bytes of {range:?}", data.len())));
        }
        self.model.read(range.start, data)
    }

    pub(super) fn touch(&mut self, range: &Range<u64>) {
        let now = self.model.now();
        for region in range.start / REGION..=(range.end - 1) / REGION {
            self.changed.insert(region, now);
        }
    }

    pub(super) fn failed(
        &mut self,
        pending: Pending,
        error: DiskError,
        why: &str,
    ) -> Result<(), Violation> {
        let is_damage = error == DiskError::Damaged;
        // A step of a growth could not be written to its end.
        let is_broken = self.disk.as_ref().is_some_and(|disk| !disk.superblocks.are_known());
        let reads_bad = self.reads_bad(&pending.asked);
        let has_failed = is_broken || reads_bad || self.device.state().failures > 0;
        let refused = self.device.state().refused > 0;
        if refused && !has_failed && !is_damage && error != DiskError::NoSpace {
            let asked = &pending.asked;
            return Err(("I11", format!("for want of space {asked:?} fails as {error:?}: {why}")));
        }
        let may_fail = match &pending.asked {
            Asked::Read(range) if is_damage => self.model.may_be_damaged(range),
            Asked::Read(_) => has_failed,
            _ => !is_damage && (has_failed || refused),
        };
        if !may_fail {
            let oracle = if is_damage { "I9" } else { "I11" };
            return Err((oracle, format!("{:?} fails without a cause: {why}", pending.asked)));
        }
        self.note(if is_damage { "damage" } else { "failures" });
        match pending.asked {
            Asked::Change(change) => {
                self.model.may_have_changed(&change);
                self.touch(&change.range);
                self.distrusts |= error == DiskError::Lost;
            }
            Asked::Flush { .. } => self.distrusts = true,
            Asked::Table { slot, .. } => {
                self.distrusts |= error == DiskError::Lost;
                if let (Sabotage::CountFailedTables, Some(disk)) = (self.sabotage, &mut self.disk) {
                    disk.tables.saved(slot);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether an action reads blocks that the device can't read.
    fn reads_bad(&self, asked: &Asked) -> bool {
        let (Asked::Read(range) | Asked::Change(Change { range, .. })) = asked else {
            return false;
        };
        let blocks = range.start / BLOCK * BLOCK..range.end.next_multiple_of(BLOCK);
        self.device.state().has_bad(&(blocks.start + DATA_OFFSET..blocks.end + DATA_OFFSET))
    }

    /// What holds data must be called allocated; what was never written to must not.
    pub(super) fn judge_map(
        &self,
        range: &Range<u64>,
        extents: &[Extent],
    ) -> Result<(), Violation> {
        let mut at = range.start;
        for extent in extents {
            let found = at..at + extent.length;
            at = found.end;
            let held = self.model.holds_data(&found).filter(|_| !extent.allocated);
            if let Some(sector) = held {
                return Err(("allocation", format!("sector {sector} is in a hole of {found:?}")));
            }
            let units = found.start >> 20..=(found.end - 1) >> 20;
            let is_new = |written: &BTreeSet<u64>| written.range(units.clone()).next().is_none();
            let is_exact = self.plan.has_map && extent.allocated;
            if is_exact && self.written.as_ref().is_some_and(is_new) {
                return Err(("allocation", format!("nothing was ever written in {found:?}")));
            }
        }
        if extents.is_empty() || at > range.end {
            return Err(("allocation", format!("{extents:?} of {range:?}")));
        }
        Ok(())
    }

    /// Changes the disk as a mistake in its code would.
    pub(super) fn meddle(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        match self.sabotage {
            Sabotage::ForgetUnsaved => {
                if let Some(store) = disk.data.store_mut() {
                    store.forget_unsaved();
                }
            }
            Sabotage::CountRefusals if self.device.state().refused > self.counted => {
                self.counted += 1;
                disk.data.raw_mut().count_failed_flush();
            }
            Sabotage::BelieveFlushes => disk.data.raw_mut().believe_flushes(),
            Sabotage::WriteOneSlotFirst if disk.superblocks.is_idle() => {
                disk.superblocks.write_copy_a_first();
            }
            _ => {}
        }
    }
}

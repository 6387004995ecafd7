//! Disk actions: begun by a replica, carried out at one moment, answered at a later one. What is
//! under way when a process ends may have been carried out or not; it never is afterwards (the next
//! process gets the disk's lock only when all is over).

use evenkeel_core::message::PayloadBlocks;
use evenkeel_core::replica::{DiskAction, DiskError, DiskOutcome, MissingPage, OpenRegions};
use evenkeel_core::*;

use super::{Cluster, Event};
use crate::disk;
use crate::marks::Mark;
use crate::payload::{Cell, HOLE, SECTOR, Sectors, ZERO, stamped};
use crate::queue::{MICROSECOND, MILLISECOND, Time};
use crate::sabotage::Sabotage;
use crate::store::{Save, TableSave, interrupt_pages, write_pages};
use crate::tape::Stream;

/// How a disk is.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Until when it fails some actions, and how many of 1,000.
    pub errors: (Time, u64),
    /// Until when it has no space left.
    pub full_until: Time,
    /// Until when it is slow, and how many times slower.
    pub slow: (Time, u64),
    /// Until when it does nothing at all.
    pub frozen_until: Time,
}

/// A disk action under way.
#[derive(Debug)]
pub(super) struct Pending {
    ticket: DiskTicket,
    work: Work,
    /// The generation in which it began.
    generation: Generation,
    result: Option<Result<DiskOutcome<Sectors>, DiskError>>,
    fails: Option<DiskError>,
    /// Whether it leaves the disk as it is if it fails.
    is_untouched: bool,
}

#[derive(Debug)]
pub(super) enum Work {
    Read { first: u32, count: u32 },
    Change { first: u32, cells: Vec<Cell>, kind: ChangeKind, is_durable: bool },
    Flush { mark: u64 },
    Map { first: u32, count: u32 },
    Save { save: Save, generation: Generation },
    SaveTable { save: TableSave, regions: OpenRegions, mark: u64 },
    SavePages(Vec<MissingPage>),
}

/// What changes data.
#[derive(Debug, Clone, Copy)]
pub(super) enum ChangeKind {
    /// A write, as this operation of a primary if that is known.
    Write(Option<(usize, Sequence)>),
    Zero,
    /// What a rebuild copies; nothing vouches for these blocks of it.
    Copy {
        /// Counted from the first one that it touches.
        forgotten: PayloadBlocks,
    },
}

impl ChangeKind {
    /// Whether a block of a change that begins with this sector gets no checksum.
    pub(super) fn forgets(self, block: u32, first: u32) -> bool {
        let Self::Copy { forgotten } = self else { return false };
        let at = block - first / disk::BLOCK;
        forgotten
            .get((at / u64::BITS) as usize)
            .is_some_and(|word| word >> (at % u64::BITS) & 1 == 1)
    }
}

impl Work {
    /// The sectors that it changes.
    fn changes(&self) -> Option<(u32, u32)> {
        match self {
            Self::Change { first, cells, .. } => Some((*first, cells.len() as u32)),
            _ => None,
        }
    }
}

impl Work {
    /// The slot of the intent log whose table it saves.
    pub(super) fn table(&self) -> Option<u8> {
        match self {
            Self::SaveTable { regions, .. } => Some(regions.slot),
            _ => None,
        }
    }
}

impl Pending {
    /// Whether it is a save of a table that was not carried out.
    pub fn awaits_table(&self) -> bool {
        self.result.is_none() && self.work.table().is_some()
    }

    /// The generation in which it began, if it changes data.
    pub fn changes_data_of(&self) -> Option<Generation> {
        self.work.changes().map(|_| self.generation)
    }
}

impl Cluster {
    pub(super) fn begin_disk(
        &mut self,
        replica: usize,
        ticket: DiskTicket,
        action: DiskAction<Sectors>,
    ) {
        self.judge_change(replica, &action);
        let slot = &mut self.replicas[replica];
        // A view may be larger than what a replica has made room for.
        let lacks_room = matches!(&action, DiskAction::SaveView(view, _)
            if view.replica_size() > u64::from(slot.disk.sectors()) * u64::from(SECTOR));
        let is_full = slot.health.full_until > self.now || lacks_room;
        let needs_space = match &action {
            DiskAction::Write { .. } | DiskAction::SaveView(..) | DiskAction::SaveMissing(_) => {
                true
            }
            DiskAction::Zero { unmap, .. } => !unmap,
            _ => false,
        };
        let Some(work) = self.work(replica, action) else { return };
        let work = self.judge_repair(replica, work);
        let fails = if is_full && needs_space {
            Some(DiskError::NoSpace)
        } else {
            self.fails_in_passing(replica).then_some(DiskError::Medium)
        };
        self.check_overlap(replica, &work);
        let fails_table = if fails.is_none() { self.fails_table(replica, &work) } else { None };
        let (fails, is_untouched) = (fails.or(fails_table), fails_table.is_some());
        let slot = &mut self.replicas[replica];
        slot.last_action += 1;
        let (generation, result) = (slot.adopted, None);
        let pending = Pending { ticket, work, generation, result, fails, is_untouched };
        slot.pending.insert(slot.last_action, pending);
        let action = slot.last_action;
        let (acts, answers) = self.disk_times(replica);
        self.queue.push(acts, Event::DiskActs { replica, action });
        self.queue.push(answers, Event::DiskAnswers { replica, action });
    }

    fn work(&mut self, replica: usize, action: DiskAction<Sectors>) -> Option<Work> {
        let sectors = self.replicas[replica].disk.sectors();
        let range = |offset: u64, length: u32| {
            let (first, count) = (offset / u64::from(SECTOR), length / SECTOR);
            let whole = offset.is_multiple_of(u64::from(SECTOR)) && length.is_multiple_of(SECTOR);
            let inside = first + u64::from(count) <= u64::from(sectors);
            (whole && inside && count > 0).then_some((first as u32, count))
        };
        let work = match &action {
            DiskAction::Read { offset, length } => {
                range(*offset, *length).map(|(first, count)| Work::Read { first, count })
            }
            DiskAction::Write { offset, payload, durable, forgotten } => {
                range(*offset, payload.length()).map(|(first, _)| {
                    let forgotten = forgotten.as_deref().copied().unwrap_or_default();
                    let copy = ChangeKind::Copy { forgotten };
                    let arrived = payload.arrived();
                    let kind = arrived.map_or(copy, |a| ChangeKind::Write(a.operation));
                    let cells = payload.cells().to_vec();
                    Work::Change { first, cells, kind, is_durable: *durable }
                })
            }
            DiskAction::Zero { offset, length, unmap } => {
                range(*offset, *length).map(|(first, n)| {
                    let cell = if *unmap { HOLE } else { ZERO };
                    let cells = vec![cell; n as usize];
                    Work::Change { first, cells, kind: ChangeKind::Zero, is_durable: false }
                })
            }
            DiskAction::Map { offset, length } => {
                range(*offset, *length).map(|(first, count)| Work::Map { first, count })
            }
            DiskAction::Flush { .. } => {
                Some(Work::Flush { mark: self.replicas[replica].disk.flush_mark() })
            }
            DiskAction::SaveView(view, incarnations) => {
                let generation = view.generation;
                self.judge_adoption(replica, view);
                let save = self.replicas[replica].store.begin(view, *incarnations);
                Some(Work::Save { save, generation })
            }
            DiskAction::SaveIntents(regions) => {
                self.log_detail(|| {
                    format!("replica {replica} saves its open regions: {regions:?}")
                });
                let slot = &mut self.replicas[replica];
                slot.tables.begins(regions);
                let save = slot.store.begin_table(regions.clone());
                let (regions, mark) = (regions.clone(), slot.disk.flush_mark());
                Some(Work::SaveTable { save, regions, mark })
            }
            DiskAction::SaveMissing(pages) => Some(Work::SavePages(pages.clone())),
        };
        if work.is_none() {
            self.fail(
                "internal",
                format!(
                    "replica {replica} asks its disk for a range that it does not have: {action:?}"
                ),
            );
        }
        work
    }

    /// Two changes of one sector are never under way at once: their order would be the disk's.
    fn check_overlap(&mut self, replica: usize, work: &Work) {
        let Some((first, count)) = work.changes() else { return };
        let pending = self.replicas[replica].pending.values();
        let overlapping = pending
            .filter(|p| p.result.is_none())
            .filter_map(|p| p.work.changes())
            .any(|(other, n)| other < first + count && first < other + n);
        if overlapping {
            self.fail("I10", format!("replica {replica} changes sectors {first}+{count} while another change of them is under way"));
        }
    }

    fn fails_in_passing(&mut self, replica: usize) -> bool {
        let (until, per_mille) = self.replicas[replica].health.errors;
        let is_failing = until > self.now;
        self.drawing_for(Stream::Disk(replica), |c| {
            let rate = c.profile.disk_errors;
            (is_failing && c.random.chance(per_mille))
                || (c.faulty && c.random.below(1_000_000) < rate)
        })
    }

    fn disk_times(&mut self, replica: usize) -> (Time, Time) {
        let health = &self.replicas[replica].health;
        let start = health.frozen_until.max(self.now);
        let (slow_until, times) = health.slow;
        let factor = if slow_until > self.now { times } else { 1 };
        self.drawing_for(Stream::Disk(replica), |c| {
            let took = 10 * MICROSECOND + c.random.waiting(c.profile.disk * factor);
            (start + c.random.below(took), start + took)
        })
    }

    pub(super) fn disk_acts(&mut self, replica: usize, action: u64) {
        let Some(mut pending) = self.replicas[replica].pending.remove(&action) else { return };
        if self.is_written_late(&pending) {
            self.replicas[replica].pending.insert(action, pending);
            return;
        }
        self.carry_out(replica, &mut pending);
        self.replicas[replica].pending.insert(action, pending);
    }

    fn is_written_late(&mut self, pending: &Pending) -> bool {
        match (self.sabotage, &pending.work) {
            (Some(Sabotage::WriteLate), Work::Change { .. }) => self.random.chance(100),
            (Some(Sabotage::CopyLate), Work::Change { kind: ChangeKind::Copy { .. }, .. }) => {
                self.random.chance(100)
            }
            _ => false,
        }
    }

    fn carry_out(&mut self, replica: usize, pending: &mut Pending) {
        let lost = self.sabotage == Some(Sabotage::LoseWrites) && self.random.chance(20);
        let stale = self.sabotage == Some(Sabotage::ReadStale) && self.random.chance(20);
        let cries = self.sabotage == Some(Sabotage::CryDamage) && self.random.chance(200);
        let forgets_view = self.forgets_view();
        let mut read_from = None;
        let (mut fails, is_untouched) = (pending.fails, pending.is_untouched);
        let mut taken: Vec<(u32, Cell)> = Vec::new();
        let mut change = ChangeKind::Zero;
        let slot = &mut self.replicas[replica];
        let mut outcome = DiskOutcome::Done;
        match &mut pending.work {
            Work::Read { first, count } => {
                let sectors = *first..*first + *count;
                let disk = &slot.disk;
                if cries || disk.is_damaged(sectors.clone()) {
                    self.marks.reach(Mark::DamageRead);
                    fails = fails.or(Some(DiskError::Damaged));
                }
                let read = |s| if stale { disk.durable_content(s) } else { disk.content(s) };
                outcome = DiskOutcome::Data(Sectors::new(sectors.map(read)));
                read_from = Some(*first).filter(|_| fails.is_none() && disk.may_forget());
                if fails.is_some() {
                    slot.failed_read = self.now;
                }
            }
            Work::Change { first, cells, kind, .. } => {
                change = *kind;
                let end = *first + cells.len() as u32;
                let is_zeroing = matches!(kind, ChangeKind::Zero);
                let mut sums = slot.disk.sums_after(*first..end, is_zeroing);
                sums.iter_mut()
                    .for_each(|(block, is_known)| *is_known &= !kind.forgets(*block, *first));
                for (sector, cell) in (*first..).zip(cells.iter()) {
                    // A change that fails may have been carried out in part.
                    if !lost && (fails.is_none() || self.random.chance(500)) {
                        slot.disk.put(sector, *cell);
                        taken.push((sector, *cell));
                    }
                }
                slot.disk.changed(&sums, fails.is_none());
                if fails.is_none() && slot.disk.repair(*first..end) {
                    self.marks.reach(Mark::DamageRepaired);
                }
            }
            Work::Flush { .. } => {}
            Work::Map { first, count } => {
                outcome = DiskOutcome::Extents(extents(&slot.disk, *first, *count));
            }
            Work::Save { save, .. } if fails.is_none() => {
                if !forgets_view {
                    slot.store.advance(save, &mut slot.disk);
                }
            }
            Work::Save { save, .. } => save.interrupt(&mut slot.disk, &mut self.random),
            Work::SaveTable { save, .. } if fails.is_some() => {
                if !is_untouched {
                    save.interrupt(&mut slot.disk, &mut self.random);
                }
                if self.sabotage == Some(Sabotage::CountFailedTables) {
                    slot.store.table_counts(save);
                }
            }
            Work::SaveTable { .. } if self.sabotage == Some(Sabotage::ForgetIntents) => {}
            Work::SaveTable { save, .. } => slot.store.save_table(save, &mut slot.disk),
            Work::SavePages(pages) if fails.is_some() => {
                interrupt_pages(&mut slot.disk, pages, &mut self.random);
            }
            Work::SavePages(_) if self.sabotage == Some(Sabotage::ForgetBits) => {}
            Work::SavePages(pages) => write_pages(&mut slot.disk, pages),
        }
        if let (Some(first), DiskOutcome::Data(cells)) = (read_from, &outcome) {
            outcome = self.read_unverified(replica, first, cells.clone());
        }
        pending.result = Some(fails.map_or(Ok(outcome), Err));
        for (sector, cell) in taken {
            self.judge_order((replica, sector), cell, change);
        }
    }

    pub(super) fn disk_answers(&mut self, replica: usize, action: u64) {
        let Some(mut pending) = self.replicas[replica].pending.remove(&action) else { return };
        let was_late = pending.result.is_none();
        if was_late {
            // Only the canary comes here: answered now, carried out afterwards.
            pending.result = Some(Ok(DiskOutcome::Done));
        }
        self.take_effect(replica, &mut pending);
        let Some(mut outcome) = pending.result.take() else { return };
        let mut is_told_apart = false;
        if matches!(outcome, Err(DiskError::Lost)) {
            // Either the table's save tells that it was a flush, or that is told apart from it.
            let hides = self.sabotage == Some(Sabotage::HideLost);
            is_told_apart = !hides && self.aim.chance(500);
            if hides || is_told_apart {
                outcome = Err(DiskError::Medium);
            }
        }
        let (ticket, changes) = (pending.ticket, pending.work.changes().is_some());
        let is_durable = matches!(pending.work, Work::Change { is_durable: true, .. });
        if was_late {
            let action = action | 1 << 63;
            self.replicas[replica].pending.insert(action, pending);
            self.queue.push(self.now + 5 * MILLISECOND, Event::DiskActs { replica, action });
        }
        if is_durable && matches!(outcome, Err(DiskError::Medium)) {
            outcome = Err(DiskError::Lost);
        }
        if let Err(error) = &outcome {
            let error = *error;
            if changes {
                self.note_failed_change(replica);
            }
            self.log(|| format!("the disk of replica {replica} fails an action: {error:?}"));
        }
        self.step_replica(replica, ReplicaEvent::Disk { ticket, outcome });
        if is_told_apart {
            self.marks.reach(Mark::FlushToldApart);
            self.step_replica(replica, ReplicaEvent::FlushFailed);
        }
    }

    /// What counts of an action only once it is answered: what is durable by it, or lost.
    fn take_effect(&mut self, replica: usize, pending: &mut Pending) {
        let forgets_view = self.forgets_view();
        let slot = &mut self.replicas[replica];
        let succeeds = pending.fails.is_none();
        match &mut pending.work {
            Work::Flush { mark } if succeeds && self.sabotage != Some(Sabotage::IgnoreFlushes) => {
                slot.disk.flushed(*mark);
            }
            Work::Flush { mark } if !succeeds && self.profile.failed_flushes_lose => {
                slot.disk.drop_unflushed(*mark);
            }
            Work::Change { first, cells, is_durable: true, .. } if succeeds => {
                self.marks.reach(Mark::DurableWrite);
                if self.sabotage != Some(Sabotage::IgnoreFua) {
                    slot.disk.made_durable(*first..*first + cells.len() as u32);
                }
            }
            Work::Change { is_durable: true, .. }
                if self.profile.failed_flushes_lose && pending.fails == Some(DiskError::Medium) =>
            {
                let mark = slot.disk.flush_mark();
                slot.disk.drop_unflushed(mark);
            }
            Work::SaveTable { mark, .. } if pending.fails == Some(DiskError::Lost) => {
                slot.disk.drop_unflushed(*mark);
                self.marks.reach(Mark::TableFlushLost);
            }
            Work::Save { save, generation } if succeeds => {
                if !forgets_view {
                    slot.store.advance(save, &mut slot.disk);
                }
                slot.adopted = *generation;
            }
            Work::SaveTable { regions, .. }
                if succeeds && self.sabotage != Some(Sabotage::ForgetIntents) =>
            {
                slot.open_regions.insert(regions.slot, regions.clone());
                slot.tables.saved(regions);
            }
            _ => {}
        }
    }

    fn note_failed_change(&mut self, replica: usize) {
        let slot = &mut self.replicas[replica];
        let record = self.coordinator.newest().replica(slot.id);
        slot.failed_change = record.map(|(_, record)| (slot.incarnation, record.since));
    }

    /// The process has ended: each action under way was carried out, or was not.
    pub(super) fn end_disk_actions(&mut self, replica: usize) {
        for (_, mut pending) in std::mem::take(&mut self.replicas[replica].pending) {
            if pending.result.is_none() && self.random.chance(500) {
                if pending.work.changes().is_some() && self.random.chance(200) {
                    // Torn: some of its sectors only.
                    pending.fails = Some(DiskError::Medium);
                }
                self.carry_out(replica, &mut pending);
            }
            let disk = &mut self.replicas[replica].disk;
            match &pending.work {
                Work::Save { save, .. } => save.interrupt(disk, &mut self.random),
                Work::SaveTable { save, .. } if pending.result.is_none() => {
                    save.interrupt(disk, &mut self.random);
                }
                Work::SavePages(pages) if pending.result.is_none() => {
                    interrupt_pages(disk, pages, &mut self.random);
                }
                _ => {}
            }
        }
    }

    /// The process of a replica has ended: what a failed flush had dropped is gone.
    pub(super) fn forget_dropped(&mut self, replica: usize) {
        let lost = self.replicas[replica].disk.forget_dropped(&mut self.random);
        if !lost.is_empty() {
            self.marks.reach(Mark::FlushLost);
            self.loses(replica, &lost);
        }
    }

    pub(super) fn power_cut_disk(&mut self, replica: usize) {
        let lost = self.replicas[replica].disk.power_cut(&mut self.random);
        self.loses(replica, &lost);
        for sector in lost {
            let is_torn = self.profile.torn > 0 && self.random.chance(self.profile.torn);
            if is_torn && self.can_damage(replica, sector) {
                self.marks.reach(Mark::SectorTorn);
                self.replicas[replica].disk.tear(sector);
            }
        }
    }

    /// A disk has gone back to older contents of these sectors.
    fn loses(&mut self, replica: usize, lost: &[u32]) {
        if lost.is_empty() {
            return;
        }
        for sector in lost {
            self.order.forget(replica, *sector);
        }
        let record = self.coordinator.newest().replica(self.replicas[replica].id);
        // A rebuilding one counts too: the view in which it is in-sync may be on its way. If the
        // next view does not make it in-sync, its losses are forgotten.
        if record.is_some_and(|(_, r)| r.state.takes_writes()) {
            self.marks.reach(Mark::UnflushedLost);
            self.replicas[replica].lost.extend(lost);
        }
        self.log(|| {
            format!(
                "the disk of replica {replica} loses unflushed writes of {} sectors",
                lost.len()
            )
        });
    }

    /// Told to the order oracle: a disk has taken this content.
    fn judge_order(&mut self, (replica, sector): (usize, u32), cell: Cell, kind: ChangeKind) {
        if cell == ZERO || cell == HOLE {
            return self.order.forget(replica, sector);
        }
        if let ChangeKind::Write(Some(operation)) = kind {
            let verdict = self.given_up.takes(replica, operation, cell);
            self.judge(verdict);
        }
        let is_copy = matches!(kind, ChangeKind::Copy { .. });
        let primaries = &self.coordinator.newest().primaries;
        let rules = |primary: usize| {
            self.primaries
                .get(primary)
                .is_some_and(|slot| slot.alive && primaries.iter().any(|p| p.id == slot.id))
        };
        let failed = |write: u32| self.lines.change(write).is_none_or(|c| c.failed);
        let verdict = self.order.takes((replica, sector), cell, is_copy, rules, failed);
        if verdict.is_err() {
            let (write, place) = stamped(cell);
            self.log(|| format!("replica {replica} takes write #{write} of sector {place}"));
        }
        self.judge(verdict);
    }
}

fn extents(disk: &crate::disk::Disk, first: u32, count: u32) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    for sector in first..first + count {
        let allocated = disk.cell(sector) != HOLE;
        match extents.last_mut() {
            Some(last) if last.allocated == allocated => last.length += u64::from(SECTOR),
            _ => extents.push(Extent { length: u64::from(SECTOR), allocated }),
        }
    }
    extents.truncate(settings::MAX_EXTENTS);
    extents
}

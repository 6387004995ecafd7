//! Verify: walks through the whole volume and has each range checked ([`super::check`]), at the
//! pace of a rebuild. Its verdict counts what was compared, and what was not.

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use super::Scrub;
use super::check::{Checked, Difference, Extent};
use crate::ids::{Generation, ReplicaId};
use crate::pace::Pace;
use crate::payload::Payload;
use crate::primary::io::{Io, Lower};
use crate::primary::views::Views;
use crate::primary::{Context, Note};
use crate::settings::MAX_PAYLOAD;
use crate::time::Instant;
use crate::view::{RebuildLimit, ReplicaRecord, ReplicaState};

/// Ranges in which something is wrong that are told one by one.
const MAX_REPORTED: usize = 64;

/// Whether a verify goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyState {
    /// It goes on.
    Running,
    /// It has been through the whole volume.
    Done,
    /// It was stopped by a command, or its primary ended.
    Stopped,
}

/// How far a verify is, and what it found. Bytes count from the start of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyStatus {
    /// Whether it goes on.
    pub state: VerifyState,
    /// Whether it rewrites what differs.
    pub repairs: bool,
    /// Bytes that it has been through.
    pub checked: u64,
    /// Bytes in all.
    pub total: u64,
    /// Of those that were checked, bytes that had only one in-sync replica: nothing to compare.
    pub alone: u64,
    /// Bytes that differed between replicas whose disks could read them.
    pub different: u64,
    /// Other bytes that contradicted their checksum on some replica.
    pub damaged: u64,
    /// Other bytes that some replica's disk could not read.
    pub unreadable: u64,
    /// Of the last two, bytes that no in-sync replica has whole.
    pub lost: u64,
    /// Of the bytes that differed, those in which checksums do not decide which content is right,
    /// and nobody was named whose content counts.
    pub undecided: u64,
    /// Of the bytes that differed, those in which the replica that was named as the source held
    /// something else than what counts: others fit their checksums there and it has none, or more
    /// that fit agree.
    pub overruled: u64,
    /// Of all that was wrong, bytes that were rewritten on all replicas.
    pub repaired: u64,
    /// The same by replicas: those that had anything wrong.
    pub replicas: BTreeMap<ReplicaId, Wrong>,
    /// What was compared, by replicas. One that left while it ran counts from its return on.
    pub covered: BTreeMap<ReplicaId, Covered>,
    /// What was read of replicas while they were alone in-sync in their mirrors: their disks and
    /// checksums were judged, and nothing was compared.
    pub read: BTreeMap<ReplicaId, Covered>,
    /// The first ranges in which something was wrong, at most 64.
    pub ranges: Vec<WrongRange>,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Option<Instant>,
}

/// What one replica had wrong, in bytes. Of a replica one byte counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wrong {
    /// It held something else than those that are right; or of several contents nobody knows which
    /// is right.
    pub different: u64,
    /// It contradicted its checksum.
    pub damaged: u64,
    /// Its disk could not read it.
    pub unreadable: u64,
    /// Of all these, what was rewritten.
    pub repaired: u64,
}

/// What was compared of one replica with at least one other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covered {
    /// Bytes of the replica.
    pub bytes: u64,
    /// The generation in which it had become in-sync. Of a replica whose record says another one
    /// nothing is covered: it left meanwhile, and holds what was copied to it since.
    pub since: Generation,
}

impl Covered {
    /// Whether it holds of what the replica is now: it has been in-sync all the time.
    #[must_use]
    pub fn holds_of(&self, record: &ReplicaRecord) -> bool {
        record.state == ReplicaState::InSync && record.since == self.since
    }
}

/// A range of whole blocks that some replicas had wrong, all in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongRange {
    /// In the volume.
    pub range: Range<u64>,
    /// Who held something else than those that are right. All that hold anything if it is
    /// undecided.
    pub different: Vec<ReplicaId>,
    /// Whose copy contradicted its checksum.
    pub damaged: Vec<ReplicaId>,
    /// Whose disk could not read it.
    pub unreadable: Vec<ReplicaId>,
    /// Whether no in-sync replica has it whole.
    pub is_lost: bool,
    /// Whether checksums do not decide which content is right, and nobody was named whose content
    /// counts.
    pub is_undecided: bool,
    /// Whether it was rewritten on all replicas.
    pub is_repaired: bool,
}

impl VerifyStatus {
    const fn new(now: Instant, repairs: bool, total: u64) -> Self {
        Self {
            state: VerifyState::Running,
            repairs,
            checked: 0,
            total,
            alone: 0,
            different: 0,
            damaged: 0,
            unreadable: 0,
            lost: 0,
            undecided: 0,
            overruled: 0,
            repaired: 0,
            replicas: BTreeMap::new(),
            covered: BTreeMap::new(),
            read: BTreeMap::new(),
            ranges: Vec::new(),
            began: now,
            ended: None,
        }
    }

    /// Counts what was found to be wrong. `source`: who was named for a repair.
    fn found(&mut self, wrong: WrongRange, source: Option<ReplicaId>) {
        let length = wrong.range.end - wrong.range.start;
        let is_overruled = source.is_some_and(|id| wrong.different.contains(&id));
        self.overruled += if is_overruled && !wrong.is_undecided { length } else { 0 };
        let of_all = match (&wrong.different[..], &wrong.damaged[..]) {
            ([_, ..], _) => &mut self.different,
            (_, [_, ..]) => &mut self.damaged,
            _ => &mut self.unreadable,
        };
        *of_all += length;
        self.lost += if wrong.is_lost { length } else { 0 };
        self.undecided += if wrong.is_undecided { length } else { 0 };
        let repaired = if wrong.is_repaired { length } else { 0 };
        self.repaired += repaired;
        let mut count = |replicas: &[ReplicaId], add: fn(&mut Wrong, u64)| {
            for replica in replicas {
                let of_it = self.replicas.entry(*replica).or_default();
                add(of_it, length);
                of_it.repaired += repaired;
            }
        };
        count(&wrong.different, |of_it, bytes| of_it.different += bytes);
        count(&wrong.damaged, |of_it, bytes| of_it.damaged += bytes);
        count(&wrong.unreadable, |of_it, bytes| of_it.unreadable += bytes);
        if self.ranges.len() < MAX_REPORTED {
            self.ranges.push(wrong);
        }
    }
}

/// Counts bytes of a replica that were compared with another one's, or read.
fn cover(all: &mut BTreeMap<ReplicaId, Covered>, record: &ReplicaRecord, bytes: u64) {
    let fresh = Covered { bytes: 0, since: record.since };
    let covered = all.entry(record.id).or_insert(fresh);
    if covered.since != record.since {
        *covered = fresh;
    }
    covered.bytes += bytes;
}

/// A verify, under way or over.
#[derive(Debug)]
pub(in crate::primary) struct Verify {
    status: VerifyStatus,
    /// Whose content counts where checksums do not decide.
    source: Option<ReplicaId>,
    pace: Pace,
}

impl Verify {
    fn is_running(&self) -> bool {
        self.status.state == VerifyState::Running
    }

    pub fn status(&self) -> &VerifyStatus {
        &self.status
    }

    /// A view has been committed: its limit may be another one.
    pub fn reset_pace(&mut self) {
        self.pace.reset();
    }

    /// Forgets a moment that has come.
    pub fn advance(&mut self, now: Instant) {
        self.pace.advance(now);
    }

    /// When the next range may begin, as far as that has been put off.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.pace.next_wakeup().filter(|_| self.is_running())
    }
}

impl Scrub {
    /// Begins a verify of so many bytes; 0 if they are not known yet. One that runs goes on.
    pub fn begin_verify(
        &mut self,
        now: Instant,
        total: u64,
        repairs: bool,
        source: Option<ReplicaId>,
    ) {
        if let Some(verify) = self.verify.as_mut().filter(|verify| verify.is_running()) {
            (verify.status.repairs, verify.source) = (repairs, source);
            return;
        }
        let status = VerifyStatus::new(now, repairs, total);
        self.verify = Some(Verify { status, source, pace: Pace::new(now) });
    }

    /// Ends a verify, if one runs.
    pub fn stop_verify(&mut self, now: Instant) {
        if let Some(verify) = self.verify.as_mut().filter(|verify| verify.is_running()) {
            verify.status.state = VerifyState::Stopped;
            verify.status.ended = Some(now);
        }
    }

    pub(super) fn verifies(&self) -> bool {
        self.verify.as_ref().is_some_and(Verify::is_running)
    }

    pub(super) fn verify_repairs(&self) -> bool {
        self.verify.as_ref().is_some_and(|verify| verify.status.repairs)
    }

    /// Whose content counts where checksums do not decide.
    pub(super) fn repair_source(&self) -> Option<ReplicaId> {
        self.verify.as_ref().filter(|verify| verify.is_running())?.source
    }

    /// The next range of the volume to check, if it is time for one.
    pub(super) fn next_to_verify<P: Payload>(
        &mut self,
        cx: &Context<'_, P>,
        io: &Io<P>,
        views: &Views,
    ) -> Option<Range<u64>> {
        let now = cx.now;
        let is_busy = io.is_busy(now);
        let (limit, size) = (views.view().rebuild_limit, views.view().geometry.size);
        let verify = self.verify.as_mut().filter(|verify| verify.is_running())?;
        if verify.status.checked == 0 {
            // It may have been asked for before the view was known.
            verify.status.total = size;
        }
        verify.pace.clients_are(now, is_busy);
        if limit == RebuildLimit::Paused || !verify.pace.may_begin(now) {
            return None;
        }
        let start = verify.status.checked;
        let end = (start + u64::from(MAX_PAYLOAD)).min(verify.status.total);
        verify.pace.began(now, end - start, limit);
        Some(start..end)
    }

    /// The range that was begun last is over. If that was for an earlier verify, which was stopped,
    /// this one has begun none yet.
    pub(super) fn range_verified<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        checked: Checked,
        held: Duration,
    ) {
        let share = cx.config.settings.rebuild_share;
        let Some(verify) = &mut self.verify else {
            debug_assert!(false, "a verify has ranges checked");
            return;
        };
        if checked.range.start != verify.status.checked {
            return;
        }
        verify.pace.ended(cx.now, held, share);
        let (source, status) = (verify.source, &mut verify.status);
        let end = checked.range.end;
        status.alone += if checked.was_compared { 0 } else { end - status.checked };
        note_extents(status, lower, checked.generation, checked.extents);
        for difference in &checked.differences {
            status.found(wrong_range(lower, difference), source);
        }
        status.checked = end;
        if verify.is_running() && end == verify.status.total {
            verify.status.state = VerifyState::Done;
            verify.status.ended = Some(cx.now);
            let VerifyStatus { different, damaged, unreadable, alone, .. } = verify.status;
            cx.note(Note::Verified { different, damaged, unreadable, alone });
        }
    }
}

/// Notes what was compared of each replica, and what was only read.
fn note_extents(
    status: &mut VerifyStatus,
    lower: &Lower<'_>,
    generation: Generation,
    extents: Vec<Extent>,
) {
    let view = lower.views.view();
    for Extent { mirror, holders, bytes, was_compared } in extents {
        let all = if was_compared { &mut status.covered } else { &mut status.read };
        for id in lower.peers.mirror(mirror).ids(holders) {
            // Who has left since the comparison, or come back, holds something else by now.
            let compared = view.replica(id).map(|(_, record)| record).filter(|record| {
                record.state == ReplicaState::InSync && record.since <= generation
            });
            if let Some(record) = compared {
                cover(all, record, bytes);
            }
        }
    }
}

/// What is wrong in a range, with its place in the volume.
fn wrong_range(lower: &Lower<'_>, difference: &Difference) -> WrongRange {
    let view = lower.views.view();
    let ids = |set| lower.peers.mirror(difference.mirror).ids(set).collect();
    let at = difference.volume_offset(view.geometry, view.mirrors.len());
    WrongRange {
        range: at..at + (difference.bytes.end - difference.bytes.start),
        different: ids(difference.differs()),
        damaged: ids(difference.damaged),
        unreadable: ids(difference.unreadable),
        is_lost: difference.is_lost,
        is_undecided: difference.is_undecided,
        is_repaired: difference.is_repaired,
    }
}

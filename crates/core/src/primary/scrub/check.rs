//! Looking after data: one range at a time is locked, compared on all in-sync replicas of its
//! mirror, and rewritten where one of them has it wrong or can't read it.
//!
//! While the range is locked every write there has reached every member, so whoever differs is
//! wrong. Replicas answer with a digest per block, or that they can't read it, so only what is
//! wrong is sent. A verify ([`super::verify`]) checks every range; a failed read has the blocks of
//! its own one repaired that somebody can't read. Where a replica has lost a block's checksum a
//! read or a repair has what is right written again, which brings it back.

mod compared;

use core::ops::Range;

use self::compared::Compared;
pub(in crate::primary) use self::compared::{Difference, Extent};
use super::Scrub;
use super::bad_ranges::BadRange;
use crate::ids::*;
use crate::payload::Payload;
use crate::primary::io::{Finding, Io, Lower, MirrorTask, PartAction, RequestNumber};
use crate::primary::{Context, Note, Stage};
use crate::settings::MAX_PAYLOAD;
use crate::stripe;
use crate::time::Instant;

/// One range that is being looked after. There is one at a time.
#[derive(Debug)]
pub(in crate::primary) struct Check {
    number: RequestNumber,
    /// In the volume.
    range: Range<u64>,
    /// In which it is compared.
    generation: Generation,
    phase: Phase,
    /// The failed read for which it is, if it is not a part of a verify.
    bad: Option<BadRange>,
    since: Instant,
    /// The parts that compare, and what came of them.
    compared: Vec<Compared>,
    /// What was found to be wrong.
    differences: Vec<Difference>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Locking,
    Comparing,
    Fetching,
    Rewriting,
}

impl Check {
    /// The request that keeps everybody out of the range.
    pub fn number(&self) -> RequestNumber {
        self.number
    }
}

/// What came of a check.
#[derive(Debug)]
pub(in crate::primary) struct Checked {
    /// In the volume.
    pub range: Range<u64>,
    pub differences: Vec<Difference>,
    /// Whether every piece was compared on two replicas or more.
    pub was_compared: bool,
    /// Whom the pieces are about.
    pub extents: Vec<Extent>,
    /// In which they were.
    pub generation: Generation,
}

impl Scrub {
    /// Takes in what was found of what replicas hold.
    pub fn take_findings<P: Payload>(&mut self, io: &mut Io<P>, lower: &Lower<'_>) {
        for finding in io.take_findings() {
            match finding {
                Finding::Unreadable { mirror, bytes } => {
                    let bad = bad_range(lower, mirror, bytes);
                    bad.into_iter().for_each(|bad| self.bad_ranges.add(bad));
                }
                Finding::Unverified { mirror, bytes, is_vouched_for } => {
                    // Else a comparison shows what is right only if all replicas can tell.
                    if let Some(bad) = bad_range(lower, mirror, bytes)
                        && (is_vouched_for || is_everyone_in_sync(lower, mirror))
                    {
                        self.bad_ranges.add_unless_undecided(bad);
                    }
                }
                Finding::Digests { part, bit, digests } => {
                    if let Some(compared) = self.compared_by(part) {
                        match digests {
                            Some(digests) => compared.take(bit, digests),
                            None => compared.take_nothing(bit),
                        }
                    }
                }
            }
        }
    }

    /// Takes the check under way as far as it goes, or begins the next one. Tells whether it has
    /// begun one: its range is asked for, and may be there at once.
    pub fn advance<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        io: &mut Io<P>,
        lower: &mut Lower<'_>,
    ) -> bool {
        if io.has_findings() {
            self.take_findings(io, lower);
        }
        if let Some(verify) = &mut self.verify {
            verify.advance(cx.now);
        }
        self.step_check(cx, io, lower);
        if self.check.is_none() {
            self.begin_next_check(cx, io, lower);
            return self.check.is_some();
        }
        false
    }

    fn step_check<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        io: &mut Io<P>,
        lower: &mut Lower<'_>,
    ) {
        let Some(check) = self.check.take() else {
            return; // Nothing is looked after.
        };
        let has_parts = io.has_parts(check.number);
        match check.phase {
            _ if has_parts || !lower.views.can_send(cx.stage) => self.check = Some(check),
            Phase::Locking => self.check = Some(check),
            Phase::Comparing => self.judge_differences(cx, io, lower, check),
            Phase::Fetching => self.rewrite(cx, io, lower, check),
            Phase::Rewriting => self.check_over(cx, io, lower, check),
        }
    }

    fn begin_next_check<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        io: &mut Io<P>,
        lower: &mut Lower<'_>,
    ) {
        // Nearly always there is nothing to check, and this is asked after every event.
        if self.bad_ranges.are_repaired() && !self.verifies() {
            return; // There is none.
        }
        if cx.stage != Stage::Serving
            || !lower.views.can_send(cx.stage)
            || lower.peers.somebody_fails()
        {
            return; // This is asked again after every event.
        }
        if let Some(bad) = self.bad_ranges.next() {
            let view = lower.views.view();
            let range = bad.in_volume(view.geometry, view.mirrors.len());
            if let Some(range) = range {
                self.begin_check(cx, io, lower, range, Some(bad));
            }
        } else if let Some(range) = self.next_to_verify(cx, io, lower.views) {
            self.begin_check(cx, io, lower, range, None);
        }
    }

    /// Locks a range of the volume, to be compared then.
    fn begin_check<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        io: &mut Io<P>,
        lower: &mut Lower<'_>,
        range: Range<u64>,
        bad: Option<BadRange>,
    ) {
        let number = io.keep_out(cx, lower, range.clone());
        self.check = Some(Check {
            number,
            range,
            generation: Generation(0),
            phase: Phase::Locking,
            bad,
            since: cx.now,
            compared: Vec::new(),
            differences: Vec::new(),
        });
    }

    /// The range is locked: has its replicas tell what they hold.
    pub fn locked<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        io: &mut Io<P>,
        lower: &mut Lower<'_>,
        number: RequestNumber,
    ) {
        let view = lower.views.view();
        let Some(mut check) = self.check.take() else {
            debug_assert!(false, "a range is locked for a check");
            return;
        };
        check.generation = view.generation;
        debug_assert!(check.number == number, "{number:?} is not of the check");
        let range = check.range.clone();
        check.since = cx.now;
        check.phase = Phase::Comparing;
        let length = range.end - range.start;
        let pieces: Vec<_> =
            stripe::pieces(view.geometry, view.mirrors.len(), range.start, length, MAX_PAYLOAD)
                .collect();
        if lower.peers.somebody_fails() {
            return self.put_off(io, check);
        }
        self.check = Some(check);
        io.expect_parts(number, pieces.len());
        for piece in pieces {
            let action = PartAction::Digest { offset: piece.offset, length: piece.length };
            let bytes = piece.offset..piece.offset + u64::from(piece.length);
            let compared = Compared::new(io.upcoming(), piece.mirror, bytes);
            if let Some(check) = &mut self.check {
                check.compared.push(compared);
            }
            let (mirror, from) = (piece.mirror, piece.from);
            io.send_part(cx, lower, number, MirrorTask { mirror, from, action });
        }
    }

    /// The range is checked later.
    fn put_off<P: Payload>(&mut self, io: &mut Io<P>, check: Check) {
        check.bad.into_iter().for_each(|bad| self.bad_ranges.put_off(bad));
        io.end_kept(check.number);
    }

    fn compared_by(&mut self, sequence: Sequence) -> Option<&mut Compared> {
        self.check.as_mut()?.compared.iter_mut().find(|compared| compared.is_of(sequence))
    }

    fn judge_differences<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        io: &mut Io<P>,
        lower: &mut Lower<'_>,
        mut check: Check,
    ) {
        let (repairs, generation) = (self.verify_repairs(), lower.views.generation());
        let source = self.repair_source().and_then(|id| lower.peers.get(&id));
        let source = source.map(|peer| (peer.mirror(), peer.bit()));
        let everyone: Vec<_> = (0..lower.peers.mirrors().len())
            .map(|mirror| is_everyone_in_sync(lower, mirror))
            .collect();
        if check.generation != generation {
            // Who answered may not be in-sync any more: this range has to be compared again.
            return self.put_off(io, check);
        }
        let is_verify = check.bad.is_none();
        // A failed read names nobody whose content counts.
        let source = source.filter(|_| is_verify);
        let compared = check.compared.iter();
        let found = compared.flat_map(|c| c.differences(source, everyone[c.mirror()]));
        let found: Vec<_> = found.collect();
        if let Some(bad) = &check.bad
            && found.iter().any(|found| found.is_undecided)
        {
            self.bad_ranges.is_undecided(bad.clone());
        }
        // Which of several contents is to stay only an operator may say.
        let is_ours = |found: &Difference| found.somebody_cannot_read() || found.is_to_be_renewed;
        check.differences = found.into_iter().filter(|found| is_verify || is_ours(found)).collect();
        if repairs || !is_verify {
            return self.fetch(cx, io, lower, check);
        }
        self.check_over(cx, io, lower, check);
    }

    /// Reads what is wrong somewhere from where it is right.
    fn fetch<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        io: &mut Io<P>,
        lower: &mut Lower<'_>,
        mut check: Check,
    ) {
        check.phase = Phase::Fetching;
        let number = check.number;
        let found = check.differences.iter().enumerate();
        let reads: Vec<_> = found
            .filter(|(_, difference)| !difference.is_lost && !difference.is_undecided)
            .map(|(index, found)| (index as u64, found.mirror, found.wrong, found.bytes.clone()))
            .collect();
        if reads.is_empty() {
            return self.check_over(cx, io, lower, check);
        }
        self.check = Some(check);
        io.expect_parts(number, reads.len());
        for (index, mirror, wrong, bytes) in reads {
            let (offset, length) = (bytes.start, (bytes.end - bytes.start) as u32);
            let action = PartAction::Read { offset, length };
            let task = MirrorTask { mirror, from: index, action };
            io.send_read_elsewhere(cx, lower, number, task, wrong);
        }
    }

    /// Writes what was read to all members: to those that have it right, too, so that it is a write
    /// like any other. What could not be read stays as it is.
    fn rewrite<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        io: &mut Io<P>,
        lower: &mut Lower<'_>,
        mut check: Check,
    ) {
        check.phase = Phase::Rewriting;
        let number = check.number;
        let mut writes = Vec::new();
        for (index, payload) in io.take_data(number) {
            // Each read has the place of its difference for the place where it begins.
            let difference = &mut check.differences[index as usize];
            difference.is_repaired = true;
            writes.push((difference.mirror, difference.bytes.start, payload));
        }
        if writes.is_empty() {
            return self.check_over(cx, io, lower, check);
        }
        self.check = Some(check);
        io.expect_parts(number, writes.len());
        for (mirror, offset, payload) in writes {
            let action = PartAction::Write { offset, payload, durable: true };
            io.send_part(cx, lower, number, MirrorTask { mirror, from: 0, action });
        }
    }

    fn check_over<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        io: &mut Io<P>,
        lower: &mut Lower<'_>,
        mut check: Check,
    ) {
        let has_failed = io.has_failed(check.number);
        io.end_kept(check.number);
        if has_failed {
            check.differences.iter_mut().for_each(|difference| difference.is_repaired = false);
        }
        if check.bad.is_none() {
            let was_compared = check.compared.iter().all(Compared::was_compared);
            let held = cx.now.since(check.since);
            // A lost checksum that came back is nothing that was wrong.
            check.differences.retain(|difference| difference.wrong != 0);
            let checked = Checked {
                range: check.range,
                extents: check.compared.iter().map(Compared::extent).collect(),
                differences: check.differences,
                was_compared,
                generation: check.generation,
            };
            return self.range_verified(cx, lower, checked, held);
        }
        let view = lower.views.view();
        let (geometry, mirrors) = (view.geometry, view.mirrors.len());
        let repaired = |found: &&Difference| found.is_repaired && found.wrong != 0;
        for repaired in check.differences.iter().filter(repaired) {
            self.bad_ranges.rewrote();
            let offset = repaired.volume_offset(geometry, mirrors);
            let length = repaired.bytes.end - repaired.bytes.start;
            cx.note(Note::Rewritten { offset, length });
        }
    }
}

fn bad_range(lower: &Lower<'_>, mirror: usize, bytes: Range<u64>) -> Option<BadRange> {
    BadRange::new(mirror, bytes, lower.views.view().replica_size())
}

/// Whether each replica of a mirror is in-sync.
fn is_everyone_in_sync(lower: &Lower<'_>, mirror: usize) -> bool {
    let replicas = lower.views.view().mirrors[mirror].replicas.len();
    replicas == lower.peers.mirror(mirror).in_sync().count_ones() as usize
}

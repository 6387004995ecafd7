//! Looking after data: one range at a time is locked, compared on all in-sync replicas of its mirror,
//! and rewritten where one of them has it wrong or can't read it.
//!
//! While the range is locked every write there has reached every member, so whoever differs is wrong.
//! Replicas answer with a digest per block, so only what differs is sent. A verify
//! ([`super::verify`]) checks every range; a failed read has just its own one rewritten.

use core::ops::Range;

use super::parts::PartAction;
use super::requests::RequestNumber;
use super::{Context, Note, Phase, Primary};
use crate::ids::*;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::settings::{BLOCK, LONGEST_PAYLOAD};
use crate::stripe;
use crate::time::Instant;
use crate::view::Geometry;

/// Failed reads that wait to be rewritten; of more, each is found when it is read again.
const MOST_BAD_RANGES: usize = 64;

/// A range of a mirror that some of its replicas could not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadRange {
    mirror: usize,
    bytes: Range<u64>,
    unreadable: ReplicaSet,
}

/// A run of blocks that some replicas of a mirror have wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    mirror: usize,
    /// In the mirror.
    pub bytes: Range<u64>,
    /// Who has it wrong, or can't read it.
    wrong: ReplicaSet,
    /// Whether contents differ; if not, it could just not be read.
    pub has_contents: bool,
}

/// One range that is being looked after. There is one at a time.
#[derive(Debug)]
pub(super) struct Check {
    number: RequestNumber,
    /// In the volume.
    range: Range<u64>,
    /// In which it is compared.
    generation: Generation,
    step: Step,
    /// Whether it is part of a verify, and not a failed read.
    is_verify: bool,
    since: Instant,
    /// The parts that compare, and what came of them.
    compared: Vec<Compared>,
    /// What was found to be wrong.
    differences: Vec<Difference>,
    /// Whether what is wrong is to be rewritten.
    repairs: bool,
}

/// What the replicas of a mirror say of one piece of the range.
#[derive(Debug)]
struct Compared {
    sequence: Sequence,
    mirror: usize,
    bytes: Range<u64>,
    digests: Vec<(ReplicaSet, Vec<u64>)>,
    unreadable: ReplicaSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Locking,
    Comparing,
    Fetching,
    Rewriting,
}

/// What came of a check.
#[derive(Debug)]
pub(super) struct Checked {
    pub differences: Vec<Difference>,
    /// Whether all of them were rewritten.
    pub is_repaired: bool,
    /// Whether every piece was compared on two replicas or more.
    pub was_compared: bool,
}

impl<P: Payload> Primary<P> {
    /// A replica could not read a range that another one may have.
    pub(super) fn must_rewrite(&mut self, mirror: usize, bytes: Range<u64>, by: ReplicaSet) {
        let bad = BadRange { mirror, bytes, unreadable: by };
        if self.bad_ranges.len() < MOST_BAD_RANGES && !self.bad_ranges.contains(&bad) {
            self.bad_ranges.push_back(bad);
        }
    }

    /// Takes the check under way as far as it goes, or begins the next one.
    pub(super) fn advance_check(&mut self, cx: &mut Context<'_, P>) {
        if let Some(verify) = &mut self.verify {
            verify.advance(cx.now);
        }
        self.step_check(cx);
        if self.check.is_none() {
            self.begin_next_check(cx);
        }
    }

    fn step_check(&mut self, cx: &mut Context<'_, P>) {
        let Some(check) = &self.check else { return };
        let Some(request) = self.requests.get(&check.number) else {
            self.check = None;
            return;
        };
        if request.unanswered > 0 || request.unfinished > 0 || !self.can_send() {
            return;
        }
        match check.step {
            Step::Locking => {}
            Step::Comparing => self.judge_differences(cx),
            Step::Fetching => self.rewrite(cx),
            Step::Rewriting => self.check_over(cx),
        }
    }

    fn begin_next_check(&mut self, cx: &mut Context<'_, P>) {
        if !matches!(self.phase, Phase::Serving) || !self.can_send() {
            return;
        }
        let Some(view) = &self.view else { return };
        let (geometry, mirrors) = (view.geometry, view.mirrors.len());
        if let Some(bad) = self.bad_ranges.pop_front() {
            let start = stripe::volume_offset(geometry, mirrors, bad.mirror, bad.bytes.start);
            let range = start..start + (bad.bytes.end - bad.bytes.start);
            let (mirror, bytes, wrong) = (bad.mirror, bad.bytes, bad.unreadable);
            self.begin_check(
                cx,
                range,
                vec![Difference { mirror, bytes, wrong, has_contents: false }],
            );
        } else if !self.somebody_fails()
            && let Some(range) = self.next_to_verify(cx.now)
        {
            self.begin_check(cx, range, Vec::new());
        }
    }

    /// Whether an in-sync replica that has failed a write is to leave: until then it differs from the
    /// others, and what it differs in is known.
    fn somebody_fails(&self) -> bool {
        let is_failing = |id| self.peers.get(&id).is_some_and(|peer| peer.failing.is_some());
        self.mirrors.iter().any(|mirror| {
            mirror.in_sync.count_ones() > 1 && mirror.ids(mirror.in_sync).any(is_failing)
        })
    }

    /// Locks a range of the volume. With known differences it is rewritten, else compared.
    fn begin_check(
        &mut self,
        cx: &mut Context<'_, P>,
        range: Range<u64>,
        differences: Vec<Difference>,
    ) {
        let is_verify = differences.is_empty();
        let number = self.accept_check(range.clone());
        self.check = Some(Check {
            number,
            range,
            generation: Generation(0),
            step: Step::Locking,
            is_verify,
            since: cx.now,
            compared: Vec::new(),
            differences,
            repairs: true,
        });
        self.dispatch_ready(cx);
    }

    pub(super) fn is_check(&self, number: RequestNumber) -> bool {
        self.check.as_ref().is_some_and(|check| check.number == number)
    }

    /// The range is locked: has its replicas tell what they hold.
    pub(super) fn check_locked(&mut self, cx: &mut Context<'_, P>) {
        let generation = self.generation();
        let Some(check) = &mut self.check else { return };
        check.generation = generation;
        let (number, range) = (check.number, check.range.clone());
        check.since = cx.now;
        if !check.is_verify {
            return self.fetch(cx);
        }
        check.step = Step::Comparing;
        if self.somebody_fails() {
            self.check = None;
            return self.end_check(number);
        }
        let Some(view) = &self.view else { return };
        let length = range.end - range.start;
        let pieces: Vec<_> =
            stripe::pieces(view.geometry, view.mirrors.len(), range.start, length, LONGEST_PAYLOAD)
                .collect();
        self.expect_parts(number, pieces.len());
        for piece in pieces {
            let action = PartAction::Digest { offset: piece.offset, length: piece.length };
            let compared = Compared {
                sequence: self.last_sequence.next(),
                mirror: piece.mirror,
                bytes: piece.offset..piece.offset + u64::from(piece.length),
                digests: Vec::new(),
                unreadable: 0,
            };
            if let Some(check) = &mut self.check {
                check.compared.push(compared);
            }
            self.send_part(cx, number, piece.mirror, piece.from, action);
        }
    }

    /// A replica says what it holds.
    pub(super) fn digested(&mut self, sequence: Sequence, bit: ReplicaSet, digests: Vec<u64>) {
        if let Some(compared) = self.compared_by(sequence) {
            compared.digests.retain(|(other, _)| *other != bit);
            compared.digests.push((bit, digests));
        }
    }

    /// A replica could not read what it was to compare.
    pub(super) fn could_not_digest(&mut self, sequence: Sequence, bit: ReplicaSet) {
        if let Some(compared) = self.compared_by(sequence) {
            compared.unreadable |= bit;
        }
    }

    fn compared_by(&mut self, sequence: Sequence) -> Option<&mut Compared> {
        self.check.as_mut()?.compared.iter_mut().find(|compared| compared.sequence == sequence)
    }

    fn judge_differences(&mut self, cx: &mut Context<'_, P>) {
        let (repairs, generation) = (self.verify_repairs(), self.generation());
        let Some(check) = &mut self.check else { return };
        if check.generation != generation {
            // Who answered may not be in-sync any more: this range has to be compared again.
            let number = check.number;
            self.check = None;
            return self.end_check(number);
        }
        check.repairs = repairs;
        check.differences = check.compared.iter().flat_map(Compared::differences).collect();
        if check.differences.is_empty() || !repairs {
            return self.check_over(cx);
        }
        self.fetch(cx);
    }

    /// Reads what is wrong somewhere from where it is right.
    fn fetch(&mut self, cx: &mut Context<'_, P>) {
        let Some(check) = &mut self.check else { return };
        check.step = Step::Fetching;
        let (number, differences) = (check.number, check.differences.clone());
        self.expect_parts(number, differences.len());
        for (index, difference) in differences.into_iter().enumerate() {
            let offset = difference.bytes.start;
            let length = (difference.bytes.end - offset) as u32;
            let action = PartAction::Read { offset, length };
            let avoiding = (difference.mirror, difference.wrong);
            self.send_read_elsewhere(cx, number, avoiding, index as u64, action);
        }
    }

    /// Writes what was read to all members: to those that have it right, too, so that it is a write
    /// like any other.
    fn rewrite(&mut self, cx: &mut Context<'_, P>) {
        let Some(check) = &mut self.check else { return };
        check.step = Step::Rewriting;
        let (number, differences) = (check.number, check.differences.clone());
        let Some(request) = self.requests.get_mut(&number) else { return };
        let data = core::mem::take(&mut request.data);
        if data.len() < differences.len() {
            check.repairs = false;
            return self.check_over(cx);
        }
        self.expect_parts(number, data.len());
        for (index, payload) in data {
            let Some(difference) = differences.get(index as usize) else { continue };
            let (mirror, offset) = (difference.mirror, difference.bytes.start);
            let action = PartAction::Write { offset, payload, durable: true };
            self.send_part(cx, number, mirror, 0, action);
        }
    }

    fn check_over(&mut self, cx: &mut Context<'_, P>) {
        let Some(check) = self.check.take() else { return };
        let has_failed = self.requests.get(&check.number).is_some_and(|r| r.error.is_some());
        self.end_check(check.number);
        let is_repaired = check.repairs && !has_failed;
        if check.is_verify {
            let was_compared = check.compared.iter().all(|c| c.digests.len() > 1);
            let held = cx.now.since(check.since);
            let differences = check.differences;
            self.range_verified(cx, Checked { differences, is_repaired, was_compared }, held);
        } else if is_repaired {
            self.rewritten += 1;
            let (offset, length) = (check.range.start, check.range.end - check.range.start);
            cx.note(Note::Rewritten { offset, length });
        }
    }
}

impl Difference {
    /// Where in the volume it begins.
    pub fn volume_offset(&self, geometry: Geometry, mirrors: usize) -> u64 {
        stripe::volume_offset(geometry, mirrors, self.mirror, self.bytes.start)
    }
}

impl Compared {
    /// Runs of blocks that some replica has wrong: what most of them hold is right, or, where no
    /// content has the most, what the first of them holds.
    fn differences(&self) -> Vec<Difference> {
        let blocks = (self.bytes.end - self.bytes.start).div_ceil(u64::from(BLOCK));
        let mut found: Vec<Difference> = Vec::new();
        for block in 0..blocks {
            let wrong = self.wrong_at(block as usize);
            let start = self.bytes.start + block * u64::from(BLOCK);
            let end = (start + u64::from(BLOCK)).min(self.bytes.end);
            match found.last_mut() {
                _ if wrong == 0 => {}
                Some(last) if last.bytes.end == start && last.wrong == wrong => {
                    last.bytes.end = end;
                }
                _ => found.push(Difference {
                    mirror: self.mirror,
                    bytes: start..end,
                    wrong,
                    has_contents: wrong != self.unreadable,
                }),
            }
        }
        found
    }

    fn wrong_at(&self, block: usize) -> ReplicaSet {
        let digest = |(bit, digests): &(ReplicaSet, Vec<u64>)| (*bit, digests.get(block).copied());
        let votes: Vec<_> = self.digests.iter().map(digest).collect();
        let support = |content: Option<u64>| votes.iter().filter(|(_, c)| *c == content).count();
        let lowest_first = |bit: ReplicaSet| core::cmp::Reverse(bit);
        let right =
            votes.iter().max_by_key(|(bit, content)| (support(*content), lowest_first(*bit)));
        let Some((_, right)) = right else { return self.unreadable };
        let wrong = votes.iter().filter(|(_, content)| content != right);
        wrong.fold(self.unreadable, |set, (bit, _)| set | bit)
    }
}

#[cfg(test)]
mod tests;

//! Clients: each primary has one, which makes requests of a small volume so that they overlap
//! often, and operators, who give commands.

use evenkeel_core::primary::Command;
use evenkeel_core::primary::{CommandError, Waiting};
use evenkeel_core::view::Change;
use evenkeel_core::*;

use super::{Cluster, Event};
use crate::describe;
use crate::marks::Mark;
use crate::oracles::lines;
use crate::oracles::registers::{Moment, Read};
use crate::payload::{SECTOR, Sectors, ZERO, stamp, stamped};
use crate::queue::{MILLISECOND, Time};
use crate::sabotage::Sabotage;
use crate::tape::Stream;

/// An unanswered request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    kind: Kind,
    invoked: Moment,
    /// When it was made.
    pub at: Time,
    /// Which operation of all clients it is, or follows.
    operation: u64,
    /// Over which path it was asked.
    path: u64,
    /// The newest link of all when it was made.
    pub newest_link: LinkId,
    /// Whether its client has cancelled it.
    is_given_up: bool,
}

impl Request {
    /// What was asked for.
    pub const fn kind(&self) -> &Kind {
        &self.kind
    }

    /// When it was made, in the order of what clients do.
    pub const fn invoked(&self) -> Moment {
        self.invoked
    }

    /// Over which path it was asked.
    pub const fn path(&self) -> u64 {
        self.path
    }

    /// Its client has cancelled it.
    pub const fn give_up(&mut self) {
        self.is_given_up = true;
    }
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Read { first: u32, count: u32 },
    Change { write: u32, durable: bool },
    Compare { write: u32, first: u32, expected: Sectors, durable: bool },
    Flush,
    Map { first: u32, count: u32 },
}

impl Cluster {
    /// The client makes its next request, if it has some left.
    pub(super) fn issue(&mut self, primary: usize) {
        let slot = &self.primaries[primary];
        if self.budget == 0 || !slot.alive || slot.requests.len() >= self.profile.depth {
            return;
        }
        self.budget -= 1;
        self.counters.operations += 1;
        let number = self.counters.operations;
        if self.reduction.asks(number) {
            self.drawing_for(Stream::Operation(number), |c| c.issue_drawn(primary));
        } else {
            let turn = self.random.recorder().and_then(|recorder| recorder.turn(number));
            let at = self.now + turn.unwrap_or(self.profile.think).max(1);
            self.queue.push(at, Event::Issue { primary });
        }
    }

    fn issue_drawn(&mut self, primary: usize) {
        if self.sabotage == Some(Sabotage::CancelHalf) {
            self.give_up_half(primary);
        }
        if self.profile.cancels > 0 && self.random.chance(self.profile.cancels) {
            self.give_up(primary);
        }
        if self.profile.compares > 0 && self.random.chance(self.profile.compares) {
            return self.issue_compare(primary);
        }
        let mix = self.profile.mix;
        let mut draw = self.random.below(mix.iter().sum());
        let choice = mix.iter().position(|weight| {
            let taken = draw < *weight;
            draw = draw.saturating_sub(*weight);
            taken
        });
        let (first, count) = self.range();
        let durable = self.random.chance(self.profile.durable);
        match choice.unwrap_or(0) {
            1 => self.issue_write(primary, first, count, durable),
            2 => self.issue_zero(primary, first, count, durable),
            3 => self.request(primary, Kind::Flush, Operation::Flush),
            4 => {
                let (offset, length) = bytes(first, count);
                let operation = Operation::Map { offset, length };
                self.request(primary, Kind::Map { first, count }, operation);
            }
            _ => self.issue_read(primary, first, count),
        }
    }

    /// A range of sectors, whole blocks: near the start, or near a border of what a rebuild copies.
    fn range(&mut self) -> (u32, u32) {
        let block = self.profile.geometry.block_size / SECTOR;
        let blocks = self.sectors / block;
        let count = (1 + self.random.below(u64::from(self.profile.longest)) as u32).min(blocks);
        let last = blocks - count;
        let first = if last > 256 && self.random.chance(700) {
            let border = settings::REGION / SECTOR / block * self.random.between(1, 2) as u32;
            (border.saturating_sub(8) + self.random.below(16) as u32).min(last)
        } else {
            self.random.below(u64::from(last.min(63)) + 1) as u32
        };
        (first * block, count * block)
    }

    pub(super) fn issue_read(&mut self, primary: usize, first: u32, count: u32) {
        let (offset, length) = bytes(first, count);
        let operation = Operation::Read { offset, length: length as u32 };
        self.request(primary, Kind::Read { first, count }, operation);
    }

    /// A client may ask at the moment at which the primary wakes.
    fn note_waking(&mut self, primary: usize) {
        let slot = &self.primaries[primary];
        let is_replaced = !self.coordinator.newest().has_primary(slot.id);
        if slot.paused_until == self.now && slot.served && is_replaced {
            self.marks.reach(Mark::PausedReplaced);
        }
    }

    /// Whatever else is under way.
    pub(super) fn issue_read_only(&mut self, primary: usize) {
        if self.primaries[primary].alive {
            self.note_waking(primary);
            let (first, count) = self.range();
            self.issue_read_of(primary, first, count);
        }
    }

    /// A client reads this, beside all that it does.
    pub(super) fn issue_read_of(&mut self, primary: usize, first: u32, count: u32) {
        self.counters.operations += 1;
        if self.reduction.asks(self.counters.operations) && first + count <= self.sectors {
            self.issue_read(primary, first, count);
        }
    }

    fn issue_write(&mut self, primary: usize, first: u32, count: u32, durable: bool) {
        if self.is_locked(primary, first, count) {
            return self.issue_read(primary, first, count);
        }
        let write = self.lines.next_number();
        self.begins_to_change(primary, (write, first, count));
        let (offset, _) = bytes(first, count);
        let payload = Sectors::new((first..first + count).map(|sector| stamp(write, sector)));
        self.lines.begin(first, count, false, primary, self.moment + 1);
        let operation = Operation::Write { offset, payload, durable };
        self.request(primary, Kind::Change { write, durable }, operation);
    }

    fn issue_zero(&mut self, primary: usize, first: u32, count: u32, durable: bool) {
        let all = self.random.chance(50);
        let (first, count) = if all { (0, self.sectors) } else { (first, count) };
        if self.is_locked(primary, first, count) {
            return self.request(primary, Kind::Flush, Operation::Flush);
        }
        let write = self.lines.next_number();
        self.begins_to_change(primary, (write, first, count));
        let (offset, length) = bytes(first, count);
        self.lines.begin(first, count, true, primary, self.moment + 1);
        let unmap = self.random.chance(500);
        let operation = Operation::Zero { offset, length, unmap, durable };
        self.request(primary, Kind::Change { write, durable }, operation);
    }

    /// At times the client of another primary wants the same, or the beginning of it, at the same
    /// moment, as hosts do that take a lock on a disk.
    fn issue_compare(&mut self, primary: usize) {
        let (first, count) = self.range();
        self.issue_compare_of(primary, first, count);
        if self.primaries.len() > 1 && self.random.chance(500) {
            let rival = self.random.below(self.primaries.len() as u64) as usize;
            let slot = &self.primaries[rival];
            if rival != primary && slot.alive && slot.requests.len() < self.profile.depth {
                self.counters.operations += 1;
                if !self.reduction.asks(self.counters.operations) {
                    return;
                }
                let block = self.profile.geometry.block_size / SECTOR;
                let count = (1 + self.random.below(u64::from(count / block)) as u32) * block;
                self.issue_compare_of(rival, first, count);
            }
        }
    }

    /// Takes no lock: to keep two of them apart is what it is for. What is expected is what
    /// somebody has seen there; several clients expect the same.
    fn issue_compare_of(&mut self, primary: usize, first: u32, count: u32) {
        let seen: Option<Vec<_>> =
            (first..first + count).map(|sector| self.seen.get(&sector).copied()).collect();
        let Some(seen) = seen else { return self.issue_read(primary, first, count) };
        let write = self.lines.next_number();
        let (offset, _) = bytes(first, count);
        let expected = Sectors::new(seen.into_iter());
        let payload = Sectors::new((first..first + count).map(|sector| stamp(write, sector)));
        let durable = self.random.chance(self.profile.durable);
        self.note_view_of(primary, write);
        self.lines.begin(first, count, false, primary, self.moment + 1);
        let kind = Kind::Compare { write, first, expected: expected.clone(), durable };
        let operation = Operation::CompareAndWrite { offset, expected, payload, durable };
        self.request(primary, kind, operation);
    }

    pub(super) fn issue_flush(&mut self, primary: usize) {
        if self.sabotage == Some(Sabotage::AnswerFlushes) {
            let invoked = self.tick_moment();
            let operation = self.counters.operations;
            let (at, path) = (self.now, self.primaries[primary].path);
            let (kind, newest_link) = (Kind::Flush, self.network.newest());
            let asked =
                Request { kind, invoked, at, operation, path, newest_link, is_given_up: false };
            let answered = self.tick_moment();
            self.queue.push(self.now + MILLISECOND, Event::Issue { primary });
            return self.succeeded(primary, asked, Reply::Done, answered);
        }
        self.request(primary, Kind::Flush, Operation::Flush);
    }

    fn request(&mut self, primary: usize, kind: Kind, operation: Operation<Sectors>) {
        let invoked = self.tick_moment();
        let bound = self.now + self.profile.patience();
        let slot = &mut self.primaries[primary];
        slot.last_request += 1;
        let request = slot.last_request;
        let number = self.counters.operations;
        let (at, path) = (self.now, slot.path);
        if let Kind::Change { write, .. } | Kind::Compare { write, .. } = &kind {
            self.note_change_asked((primary, path), *write, &operation);
        }
        let newest_link = self.network.newest();
        let asked =
            Request { kind, invoked, at, operation: number, path, newest_link, is_given_up: false };
        self.primaries[primary].requests.insert(request, asked);
        self.queue.push(bound, Event::Bound { primary, request, command: false });
        self.log(|| {
            let wanted = describe::wanted(&operation);
            format!("client of primary {primary} asks r{request}: {wanted} (operation {number})")
        });
        let (request, host, path) =
            (RequestId(request), self.host_reported(primary), PathNumber(path));
        self.step_primary(primary, PrimaryEvent::Request { request, host, path, operation });
    }

    /// A request or a command had its time.
    pub(super) fn bound(&mut self, primary: usize, request: u64, command: bool) {
        let slot = &self.primaries[primary];
        let since = if command {
            slot.commands.get(&request).map(|(_, at)| *at)
        } else {
            slot.requests.get(&request).map(|r| r.at)
        };
        let Some(since) = since.filter(|_| slot.alive) else { return };
        // While it stood still, or waited without a limit, its time did not run: it begins anew.
        let resumed = slot.paused_until.max(self.without_coordinator_until(primary));
        let resumed = resumed.max(self.could_not_join_until(primary));
        if resumed > since {
            let bound = resumed + self.profile.patience();
            if bound > self.now {
                return self.queue.push(bound, Event::Bound { primary, request, command });
            }
        }
        let what = if command { "command" } else { "request r" };
        let waiting = slot.core.status(self.nodes[slot.node].clock(self.now)).waiting;
        self.fail("I11", format!(
            "primary {primary} has not answered {what}{request} for {} ms; it says that it waits for {waiting:?}",
            (self.now - since) / 1_000_000
        ));
    }

    /// Until when a primary that joins others could not: what it locks it asks for anew in each
    /// view, so while faults change the view again and again it may never have it.
    fn could_not_join_until(&self, primary: usize) -> Time {
        let slot = &self.primaries[primary];
        let joins = !slot.served && self.coordinator.newest().has_several_primaries();
        if joins { self.committed_at } else { 0 }
    }

    /// Until when requests to a primary waited for the coordinator, if they do so without a limit.
    fn without_coordinator_until(&self, primary: usize) -> Time {
        let slot = &self.primaries[primary];
        match (self.profile.no_coordinator, slot.waiting) {
            (NoCoordinatorPolicy::FailAfter(_), _) => 0,
            (NoCoordinatorPolicy::Suspend, Some(Waiting::Coordinator)) => self.now,
            (NoCoordinatorPolicy::Suspend, _) => slot.without_coordinator_until,
        }
    }

    pub(super) fn replied(
        &mut self,
        primary: usize,
        request: RequestId,
        result: Result<Reply<Sectors>, RequestError>,
    ) {
        if self.sabotage == Some(Sabotage::DropReplies) && self.random.chance(5) {
            return;
        }
        let Some(asked) = self.primaries[primary].requests.remove(&request.0) else {
            if self.primaries[primary].answered_early.contains(&request.0) {
                return;
            }
            return self
                .fail("internal", format!("primary {primary} answers request {request} twice"));
        };
        let answered = self.tick_moment();
        let lease = self.profile.lease.time().as_nanos() as Time;
        // A client that is refused does not ask again at once.
        let is_refused = !matches!(result, Ok(_) | Err(RequestError::Cancelled));
        let pause = if is_refused { lease / 10 } else { self.profile.think };
        let pause = self.drawing_for(Stream::Client(primary), |c| c.random.waiting(pause));
        self.queue.push(self.now + pause, Event::Issue { primary });
        if let Some(recorder) = self.random.recorder() {
            recorder.note_turn(asked.operation, self.now + pause - asked.at);
        }
        match result {
            Ok(reply) => {
                self.log(|| format!("client of primary {primary} is answered r{request}"));
                self.succeeded(primary, asked, reply, answered);
            }
            Err(RequestError::Cancelled) => {
                self.log(|| format!("client of primary {primary} is told r{request}: cancelled"));
                self.judge_cancelled(primary, &asked.kind, asked.is_given_up);
                if let Kind::Change { write, .. } | Kind::Compare { write, .. } = asked.kind {
                    self.refused(primary, write, RequestError::Cancelled);
                }
            }
            Err(error) => {
                self.log(|| format!("client of primary {primary} is told r{request}: {error:?}"));
                self.marks.reach(Mark::FailedRequest);
                self.judge_patience(primary, asked.at, error);
                // One that was replaced does not know how large the volume has become.
                let newest = self.coordinator.newest();
                let is_newest = self.serving_primary() == Some(primary)
                    && newest.has_primary(self.primaries[primary].id)
                    && self.epoch_of(primary) == Some(lines::epoch(newest));
                let knows_newest =
                    !self.coordinator.newest().is_shared() || self.knows_newest(primary);
                if error == RequestError::Invalid
                    && ((is_newest && knows_newest) || !self.has_grown())
                {
                    self.fail(
                        "internal",
                        format!("primary {primary} calls request {request} invalid"),
                    );
                }
                if let Kind::Change { write, .. } | Kind::Compare { write, .. } = asked.kind {
                    self.refused(primary, write, error);
                }
            }
        }
        self.drains_early(primary);
    }

    /// A request fails for want of the coordinator only after the time for which the volume lets it
    /// wait.
    fn judge_patience(&mut self, primary: usize, asked_at: Time, error: RequestError) {
        let slot = &self.primaries[primary];
        // An attach has its own patience.
        if error != RequestError::NoCoordinator || !slot.served {
            return;
        }
        let node = &self.nodes[slot.node];
        let waited = node.clock(self.now).since(node.clock(asked_at));
        if self.profile.no_coordinator.limit().is_none_or(|limit| waited < limit) {
            let text = format!(
                "primary {primary} fails a request after {waited:?} for want of the coordinator"
            );
            self.fail("V6", text);
        }
    }

    fn succeeded(
        &mut self,
        primary: usize,
        asked: Request,
        reply: Reply<Sectors>,
        answered: Moment,
    ) {
        let read = Read { primary, invoked: asked.invoked, answered };
        self.judge_permission(primary, &asked.kind);
        let reply = self.without_garbage(primary, &asked, reply);
        match (asked.kind, reply) {
            (Kind::Change { write, durable }, Reply::Done) => {
                self.given_up.succeeds(primary, write);
                self.primaries[primary].unsure.retain(|(unsure, ..)| *unsure != write);
                self.lines.of_mut(primary).acknowledge(write, durable, answered);
                self.judge_acknowledgement(primary, write, durable);
            }
            (Kind::Compare { write, first, expected, durable }, Reply::Done) => {
                self.wrote_over(first, &expected, write, read);
                self.lines.of_mut(primary).acknowledge(write, durable, answered);
                self.judge_acknowledgement(primary, write, durable);
            }
            (Kind::Compare { write, first, expected, .. }, Reply::Miscompare { at }) => {
                self.marks.reach(Mark::Miscompared);
                let sector = at / SECTOR;
                let expected = expected.cells().get(sector as usize).copied().unwrap_or(ZERO);
                if self.met_garbage(primary, first + sector, 1, read.invoked) {
                    // It may have compared with that: with what else, if nothing else was there?
                    return;
                }
                let verdict = self.lines.refuted(write, primary, (first + sector, expected), read);
                self.judge(verdict);
            }
            (Kind::Flush, Reply::Done) => {
                let covered = self.lines.of_mut(primary).flushed(primary, asked.invoked);
                self.judge_flush(primary, &covered);
            }
            (Kind::Read { first, count }, Reply::Data(pieces)) => {
                self.check_read(first, count, &pieces, read);
            }
            (Kind::Map { first, count }, Reply::Extents(extents)) => {
                self.check_map(first, count, &extents, read);
            }
            (kind, reply) => {
                self.fail("internal", format!("{kind:?} was answered with {reply:?}"));
            }
        }
    }

    /// A compare-and-write found what it expected, and has replaced it.
    fn wrote_over(&mut self, first: u32, expected: &Sectors, write: u32, read: Read) {
        self.marks.reach(Mark::ComparedAndWrote);
        for (sector, cell) in (first..).zip(expected.cells()) {
            let line = self.lines.of_mut(read.primary);
            let verdict =
                line.read(sector, *cell, read).and_then(|()| line.replaced(sector, *cell, write));
            self.judge(verdict);
            self.seen.insert(sector, stamp(write, sector));
        }
    }

    fn check_read(&mut self, first: u32, count: u32, pieces: &[(u32, Sectors)], read: Read) {
        let mut sector = first;
        for (from, piece) in pieces {
            if *from != (sector - first) * SECTOR {
                return self.fail("internal", "the pieces of a read have a gap");
            }
            for cell in piece.cells() {
                self.mark_dirty_read(*cell, read.primary);
                let verdict = self.lines.of_mut(read.primary).read(sector, *cell, read);
                self.judge(verdict);
                self.seen.insert(sector, *cell);
                sector += 1;
            }
        }
        if sector != first + count {
            self.fail("internal", format!("a read of {count} sectors brought {}", sector - first));
        }
    }

    fn mark_dirty_read(&mut self, cell: u64, primary: usize) {
        let change = self.lines.of(primary).change(stamped(cell).0);
        if cell != ZERO && change.is_some_and(|c| c.acknowledged.is_none() && c.primary != primary)
        {
            self.marks.reach(Mark::DirtyRead);
        }
    }

    fn check_map(&mut self, first: u32, count: u32, extents: &[Extent], read: Read) {
        let mut sector = first;
        for extent in extents {
            let length = (extent.length / u64::from(SECTOR)) as u32;
            if length == 0 || sector + length > first + count {
                return self.fail("internal", format!("a map that does not fit: {extents:?}"));
            }
            for hole in (sector..sector + length).filter(|_| !extent.allocated) {
                let verdict = self.lines.of_mut(read.primary).read(hole, ZERO, read);
                self.judge(verdict);
            }
            sector += length;
        }
        if sector == first {
            self.fail("internal", "a map without an extent");
        }
    }

    /// An operator gives a command to a primary that serves, if there is one.
    pub(super) fn command_somewhere(&mut self, command: Command) {
        if let Some(primary) = self.serving_primary() {
            self.command(primary, command);
        }
    }

    /// An operator gives a command to whichever primary lives, if there is one.
    pub(super) fn command_anywhere(&mut self, command: Command) {
        let living: Vec<_> = self.living_primaries().collect();
        if !living.is_empty() {
            let primary = living[self.random.index(living.len())];
            self.command(primary, command);
        }
    }

    pub(super) fn command(&mut self, primary: usize, command: Command) {
        let bound = self.now + self.profile.patience();
        let slot = &mut self.primaries[primary];
        slot.last_command += 1;
        let number = slot.last_command;
        slot.commands.insert(number, (command, self.now));
        self.queue.push(bound, Event::Bound { primary, request: number, command: true });
        if let Command::Change(Change::Reservation(_)) = command {
            self.reserved = None;
        }
        self.log(|| format!("operator tells primary {primary}: {command:?}"));
        self.step_primary(primary, PrimaryEvent::Command { id: CommandId(number), command });
    }

    pub(super) fn command_done(
        &mut self,
        primary: usize,
        id: CommandId,
        result: Result<(), CommandError>,
    ) {
        self.log(|| format!("operator is told by primary {primary}: {result:?}"));
        match self.primaries[primary].commands.remove(&id.0) {
            None => {
                self.fail("internal", format!("primary {primary} answers command {id} twice"));
            }
            Some((Command::Grow(size), _)) if result.is_ok() => self.grown(size),
            Some((Command::Change(Change::Reservation(_)), _)) => self.reservation_changed(result),
            Some(_) => {}
        }
    }
}

fn bytes(first: u32, count: u32) -> (u64, u64) {
    (u64::from(first) * u64::from(SECTOR), u64::from(count) * u64::from(SECTOR))
}

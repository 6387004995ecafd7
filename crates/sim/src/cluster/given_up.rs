//! Clients that give requests up, and what their primaries say of that.

use evenkeel_core::stripe::shares;
use evenkeel_core::*;

use super::Cluster;
use super::clients::{Kind, Request};
use crate::marks::Mark;
use crate::network::Party;
use crate::oracles::given_up::Share;
use crate::payload::{Cell, HOLE, Sectors, ZERO};
use crate::sabotage::Sabotage;

impl Cluster {
    /// A client gives a request up; or all, as one whose connection has ended: then it wants to
    /// know when nothing of these is under way, and goes on over another path.
    pub(super) fn give_up(&mut self, primary: usize) {
        let open: Vec<u64> = self.primaries[primary].requests.keys().copied().collect();
        if self.random.chance(600) {
            if !open.is_empty() {
                let any = self.random.pick(&open);
                // What one mirror has and another one lacks is as rare as it is hard to get right.
                let half = self.half_sent(primary).unwrap_or(any);
                self.cancel(primary, half);
            }
            return;
        }
        if self.random.chance(700) {
            open.into_iter().for_each(|request| self.cancel(primary, request));
        }
        let slot = &mut self.primaries[primary];
        let path = slot.path;
        slot.path += 1;
        slot.drains.insert(path);
        self.log(|| format!("client of primary {primary} drains path {path}"));
        self.step_primary(primary, PrimaryEvent::Drain { path: PathNumber(path) });
        self.drains_early(primary);
    }

    /// The canary's client gives up whatever is sent in part.
    pub(super) fn give_up_half(&mut self, primary: usize) {
        if let Some(half) = self.half_sent(primary) {
            self.cancel(primary, half);
        }
    }

    /// The first request of which one mirror was sent its part, and another one was not.
    fn half_sent(&self, primary: usize) -> Option<u64> {
        let mut open = self.primaries[primary].requests.keys().copied();
        open.find(|request| self.is_sent_in_part(primary, *request))
    }

    fn cancel(&mut self, primary: usize, request: u64) {
        // It may have been answered by what another one's end has led to.
        let Some(asked) = self.primaries[primary].requests.get_mut(&request) else { return };
        asked.give_up();
        self.log(|| format!("client of primary {primary} cancels r{request}"));
        let request = RequestId(request);
        self.step_primary(primary, PrimaryEvent::Cancel { request });
        if self.cancels_wrongly(primary, request.0) {
            self.primaries[primary].answered_early.insert(request.0);
            self.replied(primary, request, Err(RequestError::Cancelled));
        }
    }

    /// The canaries: a request that runs is called cancelled, always or if one mirror waits for it.
    fn cancels_wrongly(&self, primary: usize, request: u64) -> bool {
        let is_open = self.primaries[primary].requests.contains_key(&request);
        match self.sabotage {
            Some(Sabotage::CancelSent) => is_open,
            Some(Sabotage::CancelHalf) => self.is_sent_in_part(primary, request),
            _ => false,
        }
    }

    /// Whether a request is open of which one mirror was sent its part, and another one was not.
    fn is_sent_in_part(&self, primary: usize, request: u64) -> bool {
        match self.primaries[primary].requests.get(&request).map(Request::kind) {
            Some(Kind::Change { write, .. } | Kind::Compare { write, .. }) => {
                self.given_up.is_sent_in_part(*write)
            }
            _ => false,
        }
    }

    /// Told to the oracle: a client asks for a change over a path.
    pub(super) fn note_change_asked(
        &mut self,
        path: (usize, u64),
        write: u32,
        operation: &Operation<Sectors>,
    ) {
        match operation {
            Operation::Write { payload, .. } | Operation::CompareAndWrite { payload, .. } => {
                self.given_up.asks(write, path, payload.cells().len());
            }
            Operation::Zero { offset, length, .. } => {
                let view = self.coordinator.newest();
                let shares = shares(view.geometry, view.mirrors.len(), *offset, *length);
                self.given_up.asks_zeroes(write, path, shares.collect());
            }
            _ => {}
        }
    }

    /// Told to the oracle: a primary sends zeroes to a replica.
    pub(super) fn judge_zeroing(&mut self, primary: usize, link: LinkId, message: &Message) {
        let Message::Zero { id, offset, length, .. } = message else { return };
        // What goes nowhere has no effect.
        let Some(Party::Replica(replica, _)) = self.network.far_end(link) else { return };
        let share: Share = (self.replicas[replica].mirror, *offset..*offset + u64::from(*length));
        let verdict = self.given_up.sends_zeroes(primary, id.sequence, &share);
        self.judge(verdict);
    }

    /// A request was cancelled: its client wanted that, and it has no effect.
    pub(super) fn judge_cancelled(&mut self, primary: usize, kind: &Kind, was_given_up: bool) {
        self.marks.reach(Mark::Cancelled);
        if !was_given_up {
            self.fail("I14", format!("primary {primary} cancels {kind:?}, which nobody wanted"));
        }
        if let Kind::Change { write, .. } | Kind::Compare { write, .. } = kind {
            let verdict = self.given_up.cancels(*write);
            self.judge(verdict);
        }
    }

    /// A primary says that nothing of a path is under way.
    pub(super) fn drained(&mut self, primary: usize, path: u64) {
        self.log(|| format!("primary {primary} says that path {path} is drained"));
        let slot = &mut self.primaries[primary];
        if !slot.drains.remove(&path) {
            if self.sabotage != Some(Sabotage::DrainEarly) {
                self.fail("internal", format!("primary {primary} drains path {path} unasked"));
            }
            return;
        }
        if slot.requests.values().any(|asked| asked.path() == path) {
            let text = format!("primary {primary} drains path {path}, and has not answered all");
            self.fail("I14", text);
        }
        self.marks.reach(Mark::Drained);
        let view = self.primaries[primary].core.view();
        let is_member = |id| {
            let record = view.and_then(|view| view.replica(id));
            record.is_some_and(|(_, record)| record.state.takes_writes())
        };
        let replicas = (0..self.replicas.len()).filter(|r| is_member(self.replicas[*r].id));
        let members = replicas.collect();
        self.given_up.drains((primary, path), members);
    }

    /// The canary: a path counts as drained when its requests are answered.
    pub(super) fn drains_early(&mut self, primary: usize) {
        if self.sabotage != Some(Sabotage::DrainEarly) {
            return;
        }
        let slot = &self.primaries[primary];
        let is_answered = |path: &u64| !slot.requests.values().any(|asked| asked.path() == *path);
        let early: Vec<u64> = slot.drains.iter().copied().filter(is_answered).collect();
        early.into_iter().for_each(|path| self.drained(primary, path));
    }

    /// A primary sends these stamps as one operation.
    pub(super) fn judge_sending(&mut self, primary: usize, sequence: Sequence, cells: &[Cell]) {
        for cell in cells.iter().filter(|cell| **cell != ZERO && **cell != HOLE) {
            let verdict = self.given_up.sends(primary, sequence, *cell);
            self.judge(verdict);
        }
    }
}

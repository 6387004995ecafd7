//! Calls to the coordinator: slow, lost on the way there or on the way back, or held up while it
//! is away. A question that was given up may still be carried out later.

use evenkeel_core::primary::CoordinatorAnswer;
use evenkeel_core::view::Cause;
use evenkeel_core::*;

use super::replicas::SimReplica;
use super::{Cluster, Event};
use crate::coordinator::{Database, Question};
use crate::describe;
use crate::marks::Mark;
use crate::queue::Time;
use crate::tape::Stream;

impl Cluster {
    pub(super) fn call(&mut self, primary: usize, call: CoordinatorCall, question: Question) {
        self.log_detail(|| {
            format!("primary {primary} asks the coordinator: {}", describe::question(&question))
        });
        if !self.primaries[primary].calls.insert(call) {
            self.fail("internal", format!("primary {primary} uses call {call} twice"));
        }
        let late = self.may_reattach(primary, &question);
        let outer = self.random.set_stream(Stream::Coordinator(primary));
        let deadline = self.profile.settings.deadline.as_nanos() as Time;
        let gives_up = self.now + self.random.between(deadline / 2, deadline);
        let answer = CoordinatorAnswer::Unknown;
        self.queue.push(gives_up, Event::CallAnswered { primary, call, answer });
        if !self.call_is_lost(primary) {
            let arrives = self.now + self.random.waiting(self.profile.coordinator) + late;
            self.queue.push(arrives, Event::CallArrives { primary, call, question });
        }
        self.random.set_stream(outer);
    }

    fn call_is_lost(&mut self, primary: usize) -> bool {
        let node = self.primaries[primary].node;
        let unreachable = self.profile.coordinator_node.is_some_and(|there| {
            !self.nodes[there].up
                || self.nodes[there].paused_until > self.now
                || self.network.is_blocked(node, there)
                || self.network.is_blocked(there, node)
        });
        let is_cut_off = self.nodes[node].no_coordinator_until > self.now;
        unreachable
            || is_cut_off
            || (self.faulty && self.random.chance(self.profile.coordinator_loss))
    }

    pub(super) fn call_arrives(
        &mut self,
        primary: usize,
        call: CoordinatorCall,
        question: &Question,
    ) {
        if self.coordinator.away_until > self.now {
            // Mostly lost; sometimes it lies in a queue until the coordinator is back.
            if self.random.chance(300) {
                let question = question.clone();
                let at = self.coordinator.away_until;
                self.queue.push(at, Event::CallArrives { primary, call, question });
            }
            return;
        }
        // While a database is restored nobody gets anything from it but that it is too old.
        let view = self.primaries[primary].core.view();
        let known = self.coordinator.known().map(|known| known.generation);
        let is_outdated = view.map(|view| view.generation) > known;
        if self.coordinator.database() == Database::Restored && !is_outdated {
            return;
        }
        let before = self.coordinator.newest().clone();
        let answer = match self.coordinator.ask(question) {
            Ok(answer) => answer,
            Err(violation) => return self.judge(Err(violation)),
        };
        let committed = matches!(answer, CoordinatorAnswer::Committed);
        if committed {
            self.judge_primaries(primary, &before);
            self.committed(primary, &before);
        } else if matches!(question, Question::Swap(_)) {
            self.marks.reach(Mark::SwapLost);
        }
        if self.call_is_lost(primary) {
            if committed {
                self.marks.reach(Mark::SwapUnanswered);
            }
            return;
        }
        let at = self.now + self.random.waiting(self.profile.coordinator);
        self.queue.push(at, Event::CallAnswered { primary, call, answer });
    }

    pub(super) fn call_answered(
        &mut self,
        primary: usize,
        call: CoordinatorCall,
        answer: CoordinatorAnswer,
    ) {
        let primary = self.who_is_answered(primary, call);
        // Only the first answer counts: the driver had given up, or the answer was there before.
        if self.primaries[primary].calls.remove(&call) {
            let answer = self.with_other_promises(answer);
            self.log_detail(|| {
                format!("primary {primary} ← coordinator: {}", describe::answer(&answer))
            });
            self.step_primary(primary, PrimaryEvent::Coordinator { call, answer });
        }
    }

    /// A view was committed: what it changes is counted, and losses of those that left are void.
    fn committed(&mut self, primary: usize, before: &View) {
        let view = self.coordinator.newest().clone();
        self.committed_at = self.now;
        self.log(|| format!("the coordinator commits {}", describe::view(&view)));
        if self.primaries[primary].served {
            self.marks.reach(Mark::ViewChanged);
        }
        let is_in_sync = |slot: &SimReplica| {
            let record = view.replica(slot.id);
            record.is_some_and(|(_, record)| record.state == ReplicaState::InSync)
        };
        for (replica, slot) in self.replicas.iter().enumerate() {
            if !view.replica(slot.id).is_some_and(|(_, record)| record.state.takes_writes()) {
                self.minimal.is_out(replica);
            }
        }
        let states: Vec<_> = self.replicas.iter().map(|r| (r.mirror, is_in_sync(r))).collect();
        self.note_primaries(&states, before);
        for (_, record) in view.replicas() {
            let old = before.replica(record.id).map(|(_, old)| old.state);
            self.mark_change(old, record);
            if record.state != ReplicaState::InSync {
                self.forget_losses(record.id);
            }
        }
        self.note_distrust();
        self.mark_members(before, &view);
        if view.replicas().count() < before.replicas().count() {
            self.marks.reach(Mark::Removed);
        }
    }

    fn mark_change(&mut self, old: Option<ReplicaState>, record: &ReplicaRecord) {
        use ReplicaState::{Faulty, InSync, Rebuilding, Stale};
        let mark = match (old, record.state, record.cause) {
            (Some(Rebuilding), InSync, _) => Mark::RebuildCompleted,
            (Some(Faulty), Stale | Rebuilding, _) => Mark::ReAdded,
            (Some(InSync | Rebuilding), Stale | Faulty, cause) => match cause {
                Cause::Disconnected => Mark::LeftDisconnected,
                Cause::Late => Mark::LeftLate,
                Cause::Lagging => Mark::LeftLagging,
                Cause::Restarted => Mark::LeftRestarted,
                Cause::StaleClone => Mark::LeftStaleClone,
                Cause::Medium => Mark::LeftMedium,
                Cause::NoSpace => Mark::LeftNoSpace,
                Cause::Operator => Mark::LeftOperator,
                _ => return,
            },
            _ => return,
        };
        self.marks.reach(mark);
    }
}

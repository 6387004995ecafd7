//! What a primary asks of the coordinator, whether or not it has a view yet: the call under way,
//! and what is wanted of the next one.

use super::calls::{Answered, Calls, Known, Outcome};
use super::change::finish_command;
use super::edits::{Edit, Edits, PendingEdit};
use crate::ids::*;
use crate::primary::{CommandError, Context, CoordinatorAnswer, PrimaryEffect};
use crate::time::Instant;
use crate::view::View;

/// What follows from an answer of the coordinator.
#[derive(Debug)]
pub(in crate::primary) enum Answer {
    Nothing,
    /// The view that was asked for is committed, and these edits are in it.
    Committed {
        view: Box<View>,
        edits: Vec<PendingEdit>,
    },
    /// This is the newest view.
    Newest(Box<View>),
    /// The volume does not exist any more.
    NoVolume,
}

/// The calls to the coordinator, and the changes that wait for one.
#[derive(Debug)]
pub(in crate::primary) struct Asking {
    pub(super) calls: Calls,
    pub(super) edits: Edits,
}

impl Asking {
    pub fn new(now: Instant) -> Self {
        Self { calls: Calls::new(now), edits: Edits::default() }
    }

    /// An operator wants a change of the view, and an answer.
    pub fn edit_for(&mut self, command: CommandId, edit: Edit, now: Instant) {
        self.edits.want_for(command, edit, now);
    }

    pub fn call_read<P>(&mut self, cx: &mut Context<'_, P>) {
        let call = CoordinatorCall(cx.next_number());
        self.calls.read(call, cx.now);
        cx.effects.push(PrimaryEffect::ReadView { call });
    }

    /// Takes an answer of the coordinator in. Edits that it has not carried out are wanted still.
    pub fn answered<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        call: CoordinatorCall,
        answer: CoordinatorAnswer,
        known: Known<'_>,
    ) -> Answer {
        let Answered { note, outcome } = self.calls.answered(call, answer, known, cx.now);
        note.into_iter().for_each(|note| cx.note(note));
        match outcome {
            None => return Answer::Nothing,
            Some(Outcome::Committed { view, edits }) => return Answer::Committed { view, edits },
            Some(Outcome::Newest { view, edits }) => {
                self.edits.put_back(edits);
                return Answer::Newest(view);
            }
            Some(Outcome::GivenUp { edits }) => {
                let (adds, others): (Vec<_>, Vec<_>) =
                    edits.into_iter().partition(|p| matches!(p.edit(), Edit::Add(_)));
                self.edits.put_back(others);
                for pending in adds {
                    finish_command(cx, pending, Err(CommandError::GivenUp));
                }
            }
            Some(Outcome::NoVolume { edits }) => {
                // With them their commands are answered.
                self.edits.put_back(edits);
                return Answer::NoVolume;
            }
            Some(Outcome::Unknown { edits, retry_at }) => {
                self.edits.put_back(edits);
                cx.wake_at(retry_at);
            }
        }
        Answer::Nothing
    }

    /// Answers commands that have waited for the coordinator for too long. What was asked of it may
    /// have been committed.
    pub fn give_up_commands<P>(&mut self, cx: &mut Context<'_, P>) {
        let patience = cx.config.settings.coordinator_patience;
        let is_long = |since: Instant| cx.now.since(since) >= patience;
        if !self.calls.unanswered_since().is_some_and(is_long) {
            return; // It may yet answer.
        }
        let limit = Instant(cx.now.0.saturating_sub(patience.as_nanos() as u64));
        let asked = self.calls.edits_mut().iter_mut();
        let mut given_up: Vec<_> = asked.filter_map(|p| p.take_command(limit)).collect();
        self.edits.give_up(limit, &mut given_up);
        for id in given_up {
            let result = Err(CommandError::NoCoordinator);
            cx.effects.push(PrimaryEffect::CommandDone { id, result });
        }
    }

    /// Whether a call may begin.
    pub fn may_begin(&self, now: Instant) -> bool {
        self.calls.may_begin(now)
    }

    /// Whether the coordinator was silent when it was last asked.
    pub fn is_unanswered(&self) -> bool {
        self.calls.are_unanswered()
    }

    /// The commands that wait for the coordinator.
    pub fn commands(&self) -> Vec<CommandId> {
        let pending = self.edits.iter().chain(self.calls.edits());
        pending.filter_map(|pending| pending.command()).collect()
    }

    /// The primary has ended.
    pub fn forget(&mut self) {
        self.edits = Edits::default();
        self.calls.forget();
    }

    /// Panics if a newer view than the one of this generation is not read, or what is wanted
    /// contradicts itself.
    pub fn check_invariants(&self, me: PrimaryId, now: Instant, generation: Generation) {
        self.calls.check_invariants(now, generation);
        self.edits.check_invariants(me, self.calls.edits());
    }
}

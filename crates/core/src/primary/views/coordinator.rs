//! Asking the coordinator, and what follows on its answers ([`super::calls`]).

use super::calls::{Answered, Known, Outcome};
use super::change::finish_command;
use super::edits::{Edit, PendingEdit};
use crate::ids::*;
use crate::payload::Payload;
use crate::primary::membership::peer::Peer;
use crate::primary::{
    CommandError, Context, CoordinatorAnswer, EndReason, Phase, Primary, PrimaryEffect,
};
use crate::time::Instant;
use crate::view::{PrimaryRecord, View};

impl<P: Payload> Primary<P> {
    /// A swap that was not answered may still be carried out, however late. Once another view has
    /// been committed it can't be any more: if nothing else is wanted, one that changes nothing.
    pub(in crate::primary) fn end_doubt(&mut self, cx: &mut Context<'_, P>) {
        if self.calls.are_in_doubt()
            && matches!(self.phase, Phase::Serving)
            && let Some(view) = &self.view
        {
            self.call_swap(cx, view.successor());
        }
    }

    /// Whether there is a newer view, as far as is known here, or there may be.
    pub(in crate::primary) fn wants_newest(&self) -> bool {
        self.calls.want_newer_than(self.generation())
    }

    pub(in crate::primary) fn call_read(&mut self, cx: &mut Context<'_, P>) {
        let call = CoordinatorCall(cx.next_number());
        self.calls.read(call, cx.now);
        cx.effects.push(PrimaryEffect::ReadView { call });
    }

    /// Looks whether others have changed the view. A replica tells that when it has adopted theirs;
    /// of one whose primary has died before that nobody would.
    pub(in crate::primary) fn poll(&mut self, cx: &mut Context<'_, P>) {
        let is_shared = self.view.as_ref().is_some_and(View::is_shared);
        let is_due = self.calls.is_poll_due(cx.now, self.lease().time());
        if is_shared && is_due && matches!(self.phase, Phase::Serving) {
            let call = CoordinatorCall(cx.next_number());
            self.calls.poll(call, cx.now);
            cx.effects.push(PrimaryEffect::ReadView { call });
        }
    }

    pub(in crate::primary) fn call_swap(&mut self, cx: &mut Context<'_, P>, view: View) {
        self.call_swap_for(cx, view, Vec::new());
    }

    pub(in crate::primary) fn call_swap_for(
        &mut self,
        cx: &mut Context<'_, P>,
        view: View,
        edits: Vec<PendingEdit>,
    ) {
        debug_assert!(
            view.mirrors.iter().all(|mirror| mirror.in_sync().next().is_some()),
            "V2: the last in-sync replica of a mirror leaves"
        );
        // Each next view is made of the one that is known here.
        let Some(replaces) = self.known_view().cloned().map(Box::new) else { return };
        debug_assert!(
            (view.parent, view.generation) == (replaces.generation, replaces.generation.next()),
            "V1: the next view does not follow the one that is known"
        );
        self.doubt_incarnations(&view);
        let call = CoordinatorCall(cx.next_number());
        let view = Box::new(view);
        cx.effects.push(PrimaryEffect::SwapView { call, view: view.clone(), replaces });
        self.calls.swap(call, view, edits, cx.now);
    }

    pub(in crate::primary) fn coordinator(
        &mut self,
        cx: &mut Context<'_, P>,
        call: CoordinatorCall,
        answer: CoordinatorAnswer,
    ) {
        let known = Known {
            volume: self.config.volume,
            view: self.view.as_ref(),
            is_starting: matches!(self.phase, Phase::Starting(_)),
        };
        let Answered { note, outcome } = self.calls.answered(call, answer, known, cx.now);
        note.into_iter().for_each(|note| cx.note(note));
        match outcome {
            None => {}
            Some(Outcome::Committed { view, edits }) => {
                edits.into_iter().for_each(|pending| self.edit_done(cx, pending));
                self.committed(cx, *view);
            }
            Some(Outcome::Newest { view, edits }) => {
                self.edits.put_back(edits);
                self.newest(cx, *view);
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
                self.end(cx, EndReason::NoVolume);
            }
            Some(Outcome::Unknown { edits, retry_at }) => {
                self.edits.put_back(edits);
                cx.wake_at(retry_at);
            }
        }
    }

    /// Answers commands that have waited for the coordinator for too long. What was asked of it may
    /// have been committed.
    pub(in crate::primary) fn give_up_commands(&mut self, cx: &mut Context<'_, P>) {
        let patience = self.config.settings.coordinator_patience;
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

    fn committed(&mut self, cx: &mut Context<'_, P>, view: View) {
        if matches!(self.phase, Phase::Starting(_)) {
            self.started(cx, view);
        } else {
            self.install(cx, view);
        }
    }

    /// The coordinator's newest view: perhaps this primary's own, committed unanswered; perhaps
    /// another's.
    fn newest(&mut self, cx: &mut Context<'_, P>, newest: View) {
        let is_primary = newest.has_primary(self.config.id);
        if matches!(self.phase, Phase::Starting(_)) {
            return if is_primary { self.started(cx, newest) } else { self.gather(cx, newest) };
        }
        let Some(view) = self.known_view() else { return };
        // Who took over from it would not be known here.
        let is_known = |other: &PrimaryRecord| view.has_primary(other.id);
        let own_detach = self.is_giving_up() && newest.primaries.iter().all(is_known);
        match newest.generation.cmp(&view.generation) {
            _ if !is_primary && self.has_given_up() => self.end(cx, EndReason::Detached),
            _ if !is_primary && !own_detach => {
                // Also if those that went on without it have ended since.
                let is_evicted = newest.is_shared() && newest.is_of_epoch(view);
                self.end(cx, if is_evicted { EndReason::Evicted } else { EndReason::Fenced });
            }
            core::cmp::Ordering::Greater => {
                self.calls.end_doubt();
                self.edits.forget_outdated();
                self.install(cx, newest);
            }
            core::cmp::Ordering::Equal if newest == *view => self.still_newest(cx),
            core::cmp::Ordering::Equal => self.end(cx, EndReason::Fenced),
            core::cmp::Ordering::Less => {
                let retry_at = self.calls.are_answered_by_the_past(cx.now);
                cx.wake_at(retry_at);
            }
        }
    }

    /// A refusal was passing: whoever refused adopted nothing newer. Ask it again.
    fn still_newest(&mut self, cx: &mut Context<'_, P>) {
        let retry_at = self.calls.pause(cx.now);
        cx.wake_at(retry_at);
        self.give_up_refusing(cx);
        self.membership.values_mut().for_each(|peer| peer.ask_again());
        let ready: Vec<_> =
            self.membership.values().filter(|peer| peer.is_ready()).map(Peer::id).collect();
        for replica in ready {
            if self.adoption.awaits(replica) {
                self.send_adopt(cx, replica);
            } else {
                self.resend(cx, replica);
            }
        }
    }
}

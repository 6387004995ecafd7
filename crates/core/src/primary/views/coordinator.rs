//! Asking the coordinator, and what follows on its answers ([`super::calls`]).

use core::cmp::Ordering;

use super::Views;
use super::asking::Answer;
use super::calls::Known;
use super::edits::PendingEdit;
use crate::ids::*;
use crate::primary::membership::Membership;
use crate::primary::{Context, CoordinatorAnswer, EndReason, PrimaryEffect, Stage};
use crate::view::{PrimaryRecord, View};

/// What the coordinator's newest view means for one that serves.
#[derive(Debug)]
pub(in crate::primary) enum Newest {
    /// It is the one to work by.
    Follows,
    /// It is the one that is known: a refusal was passing.
    Same,
    /// The coordinator tells of the past, and counts as silent.
    Older,
    /// This primary ends.
    Ends(EndReason),
}

impl Views {
    /// A swap that was not answered may still be carried out, however late. Once another view has
    /// been committed it can't be any more: if nothing else is wanted, one that changes nothing.
    pub(super) fn end_doubt<P>(&mut self, cx: &mut Context<'_, P>, peers: &mut Membership) {
        if self.asking.calls.are_in_doubt() && cx.stage == Stage::Serving {
            self.call_swap(cx, peers, self.view.successor());
        }
    }

    /// Whether there is a newer view, as far as is known here, or there may be.
    pub fn wants_newest(&self) -> bool {
        self.asking.calls.want_newer_than(self.generation())
    }

    pub fn call_read<P>(&mut self, cx: &mut Context<'_, P>) {
        self.asking.call_read(cx);
    }

    /// Looks whether others have changed the view. A replica tells that when it has adopted theirs;
    /// of one whose primary has died before that nobody would.
    pub(super) fn poll<P>(&mut self, cx: &mut Context<'_, P>) {
        let is_due = self.asking.calls.is_poll_due(cx.now, self.lease().time());
        if self.view.is_shared() && is_due && cx.stage == Stage::Serving {
            let call = CoordinatorCall(cx.next_number());
            self.asking.calls.poll(call, cx.now);
            cx.effects.push(PrimaryEffect::ReadView { call });
        }
    }

    pub fn call_swap<P>(&mut self, cx: &mut Context<'_, P>, peers: &mut Membership, view: View) {
        self.call_swap_for(cx, peers, view, Vec::new());
    }

    pub(super) fn call_swap_for<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        peers: &mut Membership,
        view: View,
        edits: Vec<PendingEdit>,
    ) {
        debug_assert!(
            view.mirrors.iter().all(|mirror| mirror.in_sync().next().is_some()),
            "V2: the last in-sync replica of a mirror leaves"
        );
        // Each next view is made of the one that is known here.
        let replaces = Box::new(self.view.clone());
        debug_assert!(
            (view.parent, view.generation) == (replaces.generation, replaces.generation.next()),
            "V1: the next view does not follow the one that is known"
        );
        self.doubt_incarnations(peers, &view);
        let call = CoordinatorCall(cx.next_number());
        let view = Box::new(view);
        cx.effects.push(PrimaryEffect::SwapView { call, view: view.clone(), replaces });
        self.asking.calls.swap(call, view, edits, cx.now);
    }

    /// Takes an answer of the coordinator in. Edits that it has not carried out are wanted still.
    pub fn answered<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        call: CoordinatorCall,
        answer: CoordinatorAnswer,
    ) -> Answer {
        let known = Known {
            volume: cx.config.volume,
            view: Some(&self.view),
            is_starting: cx.stage == Stage::Starting,
        };
        self.asking.answered(cx, call, answer, known)
    }

    /// What the coordinator's newest view means for one that serves: perhaps it is this primary's
    /// own, committed unanswered; perhaps another's. `is_giving_up`: whether the swap that gives up
    /// the volume may have been sent.
    pub fn compare_newest<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        newest: &View,
        is_giving_up: bool,
    ) -> Newest {
        let view = &self.view;
        let is_primary = newest.has_primary(cx.config.id);
        // Who took over from it would not be known here.
        let is_known = |other: &PrimaryRecord| view.has_primary(other.id);
        let own_detach = is_giving_up && newest.primaries.iter().all(is_known);
        match newest.generation.cmp(&view.generation) {
            _ if !is_primary && self.has_given_up(&cx.config) => Newest::Ends(EndReason::Detached),
            _ if !is_primary && !own_detach => {
                // Also if those that went on without it have ended since.
                let is_evicted = newest.is_shared() && newest.is_of_epoch(view);
                let fenced = if is_evicted { EndReason::Evicted } else { EndReason::Fenced };
                Newest::Ends(fenced)
            }
            Ordering::Greater => {
                self.asking.calls.end_doubt();
                self.asking.edits.forget_outdated();
                Newest::Follows
            }
            Ordering::Equal if newest == view => {
                let retry_at = self.asking.calls.pause(cx.now);
                cx.wake_at(retry_at);
                Newest::Same
            }
            Ordering::Equal => Newest::Ends(EndReason::Fenced),
            Ordering::Less => {
                let retry_at = self.asking.calls.are_answered_by_the_past(cx.now);
                cx.wake_at(retry_at);
                Newest::Older
            }
        }
    }
}

#[cfg(test)]
mod tests;

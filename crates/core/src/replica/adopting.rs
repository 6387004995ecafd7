//! Adopting a view: the fence between generations (rules V2, V3; invariant I3).
//!
//! In this order: nothing of the old generation is accepted any more; what was accepted ends on
//! the disk; primaries that the replica has confirmed and that the new view may contradict have
//! either said that they know, or their lease is over; the view is durable in both superblocks;
//! the answer.

use super::views::{Saved, Turn};
use super::{Context, DiskAction, DiskError, DiskTicket, FlushWaiter, Obeyed, Replica, Violation};
use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::view::View;

impl<P: Payload> Replica<P> {
    pub(super) fn adopt(&mut self, cx: &mut Context<'_, P>, link: LinkId, view: View) -> Obeyed {
        let adopter = self.sessions.primary_of(link).ok_or(Violation)?;
        let generation = view.generation;
        let turn = self.views.turn(link, &view);
        if turn == Turn::Refused {
            self.sessions.refuse(cx, &self.views, link, None);
            return Ok(());
        }
        self.sessions.knows(adopter, generation);
        if turn == Turn::Now && self.views.is_adopted(&view) {
            self.sessions.confirm(cx, &self.views, link, Message::Adopted { generation }, None);
            self.sessions.report_cluster_locks_to(cx, &self.views, link);
        } else if turn == Turn::Now {
            self.views.begin(view, adopter, link);
            let (rebuilds, below) = &mut self.rebuilds();
            rebuilds.pause(cx, below);
            let (data, lower) = &mut self.data();
            data.refuse_waiting(cx, lower);
        }
        Ok(())
    }

    /// Takes a pending adoption as far as it goes now.
    pub(super) fn advance_adoption(&mut self, cx: &mut Context<'_, P>) {
        if self.views.is_draining() && self.data.is_idle() {
            let until = self.sessions.fenced_until(&self.views, cx.now);
            self.views.fence_until(until);
            self.sessions.report_fenced(cx, &self.views);
        }
        if self.views.is_fencing() {
            let until = self.sessions.fenced_until(&self.views, cx.now);
            self.views.fence_until(until);
            if cx.now >= until {
                self.save_view(cx);
            }
        }
    }

    /// Panics if anything of the view before is under way while a view is fenced or saved.
    pub(super) fn check_adoption(&self) {
        let may_work = !self.views.is_adopting() || self.views.is_draining();
        let is_idle = self.data.is_idle();
        assert!(is_idle || may_work, "I3: a view is being saved while older work is under way");
    }

    fn save_view(&mut self, cx: &mut Context<'_, P>) {
        let until = self.sessions.fenced_until(&self.views, cx.now);
        debug_assert!(cx.now >= until, "V3: a primary may still be heard");
        if let Some(view) = self.views.begin_save() {
            let all = self.sessions.list_with(&self.views, &view);
            cx.disk(DiskTicket::Adoption, DiskAction::SaveView(Box::new(view), all));
        }
    }

    pub(super) fn view_saved(&mut self, cx: &mut Context<'_, P>, outcome: Result<(), DiskError>) {
        let saved = self.views.saved(outcome.is_ok());
        debug_assert!(saved.is_some(), "a driver answers each action once");
        match (saved, outcome) {
            (Some(saved), Ok(())) => self.adopted(cx, saved),
            (Some(saved), Err(error)) => self.not_saved(cx, saved, error),
            (None, _) => {}
        }
    }

    /// The generation that is refused from now on is the higher one. It can be adopted again.
    fn not_saved(&mut self, cx: &mut Context<'_, P>, saved: Saved, error: DiskError) {
        let generation = saved.view.generation;
        let (rebuilds, below) = &mut self.rebuilds();
        rebuilds.suspend(cx, below);
        self.views.refuse_below(generation);
        for link in saved.reply_to {
            let failure = error.into();
            cx.send(link, Message::DiskFailed { generation, failure }, None);
        }
    }

    fn adopted(&mut self, cx: &mut Context<'_, P>, Saved { view, reply_to, next }: Saved) {
        let generation = view.generation;
        let old = self.views.follow(view);
        self.sessions.saved_with_view();
        let has_rebuilt = self.rebuilds.has_rebuilt();
        if self.log.follow(cx, &self.views, &old, has_rebuilt) {
            let (data, lower) = &mut self.data();
            data.flush(cx, lower, FlushWaiter::Intents);
        }
        self.sessions.follow(&self.views, cx.now);
        for impostor in self.sessions.impostors(&self.views) {
            self.drop_link(cx, impostor);
        }
        for link in reply_to {
            self.sessions.confirm(cx, &self.views, link, Message::Adopted { generation }, None);
        }
        let (rebuilds, below) = &mut self.rebuilds();
        rebuilds.follow(cx, below, &old);
        if let Some((link, view)) = next {
            let obeyed = self.adopt(cx, link, view);
            self.drop_violator(cx, link, obeyed);
        }
    }
}

#[cfg(test)]
mod tests;

//! What a replica says of cluster locks as their lock manager, and what it is told of them
//! ([`super::cluster_locks`]).

use core::ops::Range;

use super::Sessions;
use super::cluster_locks::Learned;
use crate::ids::*;
use crate::message::Message;
use crate::replica::views::Views;
use crate::replica::{Context, Obeyed, Sender, Violation};

impl Sessions {
    /// A primary says what it locks.
    pub fn cluster_lock_asked<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        views: &Views,
        from: Sender,
        requester: PrimaryId,
        number: ClusterLockNumber,
        range: Option<Range<u64>>,
    ) -> Obeyed {
        if self.primary_of(from.link) != Some(requester) {
            return Err(Violation);
        }
        if !views.is_current(from.generation) || !views.view().has_primary(requester) {
            self.refuse(cx, views, from.link, None);
            return Ok(());
        }
        match self.cluster_locks.learn(requester, number, range) {
            Learned::Nothing => {}
            Learned::Again => self.grant_if_all_yield(cx, views, requester),
            Learned::New(changed) => {
                changed
                    .into_iter()
                    .for_each(|changed| self.report_cluster_lock(cx, views, changed));
            }
        }
        Ok(())
    }

    /// A primary yields for a cluster lock.
    pub fn yields<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        views: &Views,
        from: Sender,
        requester: PrimaryId,
        number: ClusterLockNumber,
    ) {
        // In another view it is said again, and who is no primary yields nothing.
        let is_current = views.is_current(from.generation);
        let yielding = self.primary_of(from.link).filter(|_| is_current);
        if yielding.is_some_and(|it| self.cluster_locks.yields(it, requester, number)) {
            self.grant_if_all_yield(cx, views, requester);
        }
    }

    fn grant_if_all_yield<P>(&self, cx: &mut Context<'_, P>, views: &Views, requester: PrimaryId) {
        let generation = views.generation();
        let link = self.open_primaries().find(|(_, primary)| *primary == requester);
        if let Some(number) = self.cluster_locks.granted(requester, views.view())
            && let Some((link, _)) = link
        {
            cx.send(link, Message::Granted { generation, requester, number }, None);
        }
    }

    /// Tells all primaries of a cluster lock.
    fn report_cluster_lock<P>(&self, cx: &mut Context<'_, P>, views: &Views, requester: PrimaryId) {
        if let Some(message) = self.cluster_locks.message(views.generation(), requester) {
            self.tell_those_of_the_view(cx, views, &message);
        }
    }

    /// A session with a primary begins, or it knows of the view: tells it of all cluster locks.
    pub fn report_cluster_locks_to<P>(&self, cx: &mut Context<'_, P>, views: &Views, link: LinkId) {
        if self.primary_of(link).is_some_and(|primary| views.view().has_primary(primary)) {
            for message in self.cluster_locks.messages(views.generation()) {
                cx.send(link, message, None);
            }
        }
    }
}

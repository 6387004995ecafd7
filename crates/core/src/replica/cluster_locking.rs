//! What a replica says of cluster locks as their lock manager, and what it is told of them
//! ([`super::cluster_locks`]).

use core::ops::Range;

use super::cluster_locks::Heard;
use super::{Context, Replica};
use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;

impl<P: Payload> Replica<P> {
    /// A primary says what it locks.
    pub(super) fn cluster_lock_asked(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        (requester, number): (PrimaryId, ClusterLockNumber),
        range: Option<Range<u64>>,
    ) {
        if self.links.primary_of(link) != Some(requester) {
            return self.drop_link(cx, link);
        }
        if !self.is_current(generation) || !self.view.has_primary(requester) {
            return self.refuse(cx, link, None);
        }
        match self.cluster_locks.hear(requester, number, range) {
            Heard::Nothing => {}
            Heard::Again => self.grant_if_all_yield(cx, requester),
            Heard::New(changed) => {
                changed.into_iter().for_each(|changed| self.tell_cluster_lock(cx, changed));
            }
        }
    }

    /// A primary yields for a cluster lock.
    pub(super) fn yields(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        (requester, number): (PrimaryId, ClusterLockNumber),
    ) {
        // In another view it is said again, and who is no primary yields nothing.
        let from = self.links.primary_of(link).filter(|_| self.is_current(generation));
        if from.is_some_and(|from| self.cluster_locks.yields(from, requester, number)) {
            self.grant_if_all_yield(cx, requester);
        }
    }

    fn grant_if_all_yield(&mut self, cx: &mut Context<'_, P>, requester: PrimaryId) {
        let generation = self.view.generation;
        let link = self.links.open_primaries().find(|(_, primary)| *primary == requester);
        if let Some(number) = self.cluster_locks.granted(requester, &self.view)
            && let Some((link, _)) = link
        {
            cx.send(link, Message::Granted { generation, requester, number }, None);
        }
    }

    /// Tells all primaries of a cluster lock.
    fn tell_cluster_lock(&self, cx: &mut Context<'_, P>, requester: PrimaryId) {
        for (link, primary) in self.links.open_primaries() {
            if self.view.has_primary(primary)
                && let Some(message) = self.cluster_locks.message(self.view.generation, requester)
            {
                cx.send(link, message, None);
            }
        }
    }

    /// A session with a primary begins, or it knows of the view: tells it of all cluster locks.
    pub(super) fn tell_cluster_locks_to(&self, cx: &mut Context<'_, P>, link: LinkId) {
        if self.links.primary_of(link).is_some_and(|primary| self.view.has_primary(primary)) {
            for message in self.cluster_locks.messages(self.view.generation) {
                cx.send(link, message, None);
            }
        }
    }
}

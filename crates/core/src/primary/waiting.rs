//! Waits have a reason, and the bound that the volume gives them (invariant I11): while requests
//! can't be served, this tells why, and fails them when they have waited for long enough.

use std::collections::BTreeSet;

use super::io::requests::{Client, RequestNumber};
use super::membership::mirror::MirrorPeers;
use super::membership::peer::Peer;
use super::suspension::Waiters;
use super::views::edits::{Edit, PendingEdit};
use super::{Context, Note, Phase, Primary, Stage, Waiting};
use crate::operation::RequestError;
use crate::payload::Payload;
use crate::settings::NoDataPolicy;
use crate::time::Instant;
use core::time::Duration;

impl<P: Payload> Primary<P> {
    /// What keeps requests from being served, if anything does.
    fn obstacle(&self, now: Instant) -> Option<Waiting> {
        if matches!(self.phase, Phase::Idle | Phase::Starting(_)) {
            return Some(Waiting::Start);
        }
        let healthy = |id| self.membership.known(id).is_some_and(Peer::is_healthy);
        let without = self
            .membership
            .mirrors()
            .iter()
            .position(|mirror| !mirror.ids(mirror.in_sync()).any(healthy));
        if let Some(mirror) = without {
            return Some(Waiting::Replica(mirror));
        }
        let patience = self.config.settings.reconnect_grace * 2;
        let is_wanted = || {
            !self.views.edits().is_empty()
                || self.views.wants_newest()
                || self.views.calls().are_awaited()
        };
        if self.views.calls().take_long(now, patience) && is_wanted() {
            return Some(Waiting::Coordinator);
        }
        self.exclusions.are_joining().then_some(Waiting::Start)
    }

    /// Follows the obstacle, and ends waits that took too long.
    pub(super) fn watch_obstacle(&mut self, cx: &mut Context<'_, P>) {
        let Some(why) = self.obstacle(cx.now) else { return self.resume(cx) };
        if self.suspension.reason() != Some(why) {
            self.suspend(cx, why);
        }
        if self.suspension.asks_again(cx.now) {
            self.views.read_soon();
        }
        let (patience, error) = self.patience(why);
        let waited = self.suspension.waited(cx.now);
        let limit = patience.filter(|limit| waited >= *limit);
        if why == Waiting::Coordinator {
            limit.into_iter().for_each(|limit| self.fail_held_up(cx, limit, error));
        } else if limit.is_some() && self.suspension.fail(error, cx.now) {
            self.fail_requests(cx, error);
        }
    }

    /// Fails the requests that have waited for so long and can't go on before the view changes.
    /// However long the coordinator is silent, I/O that does not need it goes on (V6).
    fn fail_held_up(&mut self, cx: &mut Context<'_, P>, limit: Duration, error: RequestError) {
        let now = cx.now;
        let is_long = |client: &Client| now.since(client.since) >= limit;
        self.fail_early(cx, error, is_long);
        let long = self.requests.of_clients(is_long);
        if !long.is_empty() {
            let held_up = self.held_up(cx.stage);
            self.fail_accepted(cx, error, long.into_iter().filter(held_up).collect());
        }
    }

    /// Tells of a request whether it can't be answered before the view changes. One that waits for
    /// its range counts as soon as any other does: that may be the one it waits for.
    fn held_up(&self, stage: Stage) -> impl Fn(&RequestNumber) -> bool {
        let mirrors: Vec<_> =
            self.membership.mirrors().iter().map(|m| self.is_mirror_held_up(m)).collect();
        let parts =
            self.parts.values().filter(|part| mirrors[part.mirror()] && !part.is_answered());
        let begun: BTreeSet<_> = parts.map(|part| part.request()).collect();
        let is_eviction = |pending: &PendingEdit| matches!(pending.edit(), Edit::Evict(_));
        let is_any = mirrors.contains(&true)
            || self.views.calls().edits().iter().chain(self.views.edits().iter()).any(is_eviction);
        let waiting: BTreeSet<_> = self.requests.unsent().filter(|_| is_any).collect();
        let is_all = !self.views.can_send(stage);
        move |number| is_all || begun.contains(number) || waiting.contains(number)
    }

    /// Whether some member of a mirror has to leave before it goes on: every write waits for each
    /// of them, and reads wait for their confirmation.
    fn is_mirror_held_up(&self, mirror: &MirrorPeers) -> bool {
        let is_blocked = |peer: &Peer| peer.is_failing() || peer.has_refused();
        mirror
            .ids(mirror.members())
            .any(|id| !self.is_sound(id) || self.membership.known(id).is_none_or(is_blocked))
    }

    /// There is an obstacle, or another one than before.
    fn suspend(&mut self, cx: &mut Context<'_, P>, why: Waiting) {
        if why != Waiting::Start {
            cx.note(Note::Suspended(why));
        }
        self.suspension.begin(why, self.waiters(), cx.now);
    }

    /// There is no obstacle.
    fn resume(&mut self, cx: &mut Context<'_, P>) {
        if self.suspension.reason().is_some() && self.suspension.end(self.waiters(), cx.now) {
            cx.note(Note::Resumed);
        }
    }

    /// Who waits, and whether what they wait for at present has a limit.
    fn waiters(&self) -> Waiters {
        let reason = self.suspension.reason();
        Waiters {
            oldest: self.requests.waits().min(),
            has_limit: reason.is_some_and(|why| self.patience(why).0.is_some()),
        }
    }

    /// How long requests wait for that, `None`: as long as it takes, and with what they fail then.
    fn patience(&self, why: Waiting) -> (Option<Duration>, RequestError) {
        let settings = &self.config.settings;
        match why {
            Waiting::Start => (None, RequestError::Detached),
            Waiting::Coordinator => {
                let policy = self.views.view().map(|view| view.no_coordinator).unwrap_or_default();
                (policy.limit(), RequestError::NoCoordinator)
            }
            Waiting::Replica(_) => match self.no_data() {
                NoDataPolicy::Suspend(patience) => (Some(patience), RequestError::NoData),
                NoDataPolicy::Error => (Some(settings.reconnect_grace), RequestError::NoData),
            },
        }
    }

    /// What requests do without data: as the view says, or else as this primary was told.
    fn no_data(&self) -> NoDataPolicy {
        match self.views.view().and_then(|view| view.no_data) {
            Some(0) => NoDataPolicy::Error,
            Some(limit) => NoDataPolicy::Suspend(Duration::from_millis(limit.into())),
            None => self.config.settings.no_data,
        }
    }
}

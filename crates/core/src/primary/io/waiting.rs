//! Waits have a reason, and the bound that the volume gives them (invariant I11): while requests
//! can't be served, this tells why, and fails them when they have waited for long enough.

use std::collections::BTreeSet;

use super::requests::{Client, RequestNumber};
use super::suspension::Waiters;
use super::{Io, Lower};
use crate::operation::RequestError;
use crate::payload::Payload;
use crate::primary::membership::Lacking;
use crate::primary::membership::mirror::MirrorPeers;
use crate::primary::membership::peer::Peer;
use crate::primary::views::edits::{Edit, PendingEdit};
use crate::primary::{Context, Note, Stage, Waiting};
use crate::settings::NoDataPolicy;
use core::time::Duration;

impl<P: Payload> Io<P> {
    /// What keeps requests from being served, if anything does.
    fn obstacle(&self, cx: &Context<'_, P>, lower: &Lower<'_>) -> Option<Waiting> {
        if matches!(cx.stage, Stage::Idle | Stage::Starting) {
            return Some(Waiting::Start);
        }
        let healthy = |id| lower.peers.known(id).is_some_and(Peer::is_healthy);
        let without = lower
            .peers
            .mirrors()
            .iter()
            .position(|mirror| !mirror.ids(mirror.in_sync()).any(healthy));
        if let Some(mirror) = without {
            return Some(Waiting::Replica(mirror));
        }
        let patience = cx.config.settings.reconnect_grace * 2;
        let is_wanted = || {
            !lower.views.edits().is_empty()
                || lower.views.wants_newest()
                || lower.views.calls().are_awaited()
        };
        if lower.views.calls().take_long(cx.now, patience) && is_wanted() {
            return Some(Waiting::Coordinator);
        }
        self.exclusions.are_joining().then_some(Waiting::Start)
    }

    /// Follows the obstacle, and ends waits that took too long.
    pub fn watch_obstacle(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        let Some(why) = self.obstacle(cx, lower) else { return self.resume(cx, lower) };
        if self.suspension.reason() != Some(why) {
            self.suspend(cx, lower, why);
        }
        if self.suspension.asks_again(cx.now) {
            lower.views.read_soon();
        }
        let (patience, error) = Self::patience(cx, lower, why);
        let waited = self.suspension.waited(cx.now);
        let limit = patience.filter(|limit| waited >= *limit);
        if why == Waiting::Coordinator {
            limit.into_iter().for_each(|limit| self.fail_held_up(cx, lower, limit, error));
        } else if limit.is_some() && self.suspension.fail(error, cx.now) {
            self.fail_requests(cx, error);
        }
    }

    /// Fails the requests that have waited for so long and can't go on before the view changes.
    /// However long the coordinator is silent, I/O that does not need it goes on (V6).
    fn fail_held_up(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        limit: Duration,
        error: RequestError,
    ) {
        let now = cx.now;
        let is_long = |client: &Client| now.since(client.since) >= limit;
        self.fail_early(cx, error, is_long);
        let long = self.requests.of_clients(is_long);
        if !long.is_empty() {
            let held_up = self.held_up(lower, cx.stage);
            self.fail_accepted(cx, error, long.into_iter().filter(held_up).collect());
        }
    }

    /// Tells of a request whether it can't be answered before the view changes. One that waits for
    /// its range counts as soon as any other does: that may be the one it waits for.
    fn held_up(&self, lower: &Lower<'_>, stage: Stage) -> impl Fn(&RequestNumber) -> bool {
        let mirrors: Vec<_> =
            lower.peers.mirrors().iter().map(|m| self.is_mirror_held_up(lower, m)).collect();
        let parts =
            self.parts.values().filter(|part| mirrors[part.mirror()] && !part.is_answered());
        let begun: BTreeSet<_> = parts.map(|part| part.request()).collect();
        let is_eviction = |pending: &PendingEdit| matches!(pending.edit(), Edit::Evict(_));
        let is_any = mirrors.contains(&true)
            || lower
                .views
                .calls()
                .edits()
                .iter()
                .chain(lower.views.edits().iter())
                .any(is_eviction);
        let waiting: BTreeSet<_> = self.requests.unsent().filter(|_| is_any).collect();
        let is_all = !lower.views.can_send(stage);
        move |number| is_all || begun.contains(number) || waiting.contains(number)
    }

    /// Whether some member of a mirror has to leave before it goes on: every write waits for each
    /// of them, and reads wait for their confirmation.
    fn is_mirror_held_up(&self, lower: &Lower<'_>, mirror: &MirrorPeers) -> bool {
        let lacking: Lacking<'_> = &|mirror| self.parts.lacking(mirror);
        let is_blocked = |peer: &Peer| peer.is_failing() || peer.has_refused();
        mirror.ids(mirror.members()).any(|id| {
            !lower.peers.is_sound(id, lacking) || lower.peers.known(id).is_none_or(is_blocked)
        })
    }

    /// There is an obstacle, or another one than before.
    fn suspend(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>, why: Waiting) {
        if why != Waiting::Start {
            cx.note(Note::Suspended(why));
        }
        self.suspension.begin(why, self.waiters(cx, lower), cx.now);
    }

    /// There is no obstacle.
    fn resume(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>) {
        if self.suspension.reason().is_some()
            && self.suspension.end(self.waiters(cx, lower), cx.now)
        {
            cx.note(Note::Resumed);
        }
    }

    /// Who waits, and whether what they wait for at present has a limit.
    fn waiters(&self, cx: &Context<'_, P>, lower: &Lower<'_>) -> Waiters {
        let reason = self.suspension.reason();
        Waiters {
            oldest: self.requests.waits().min(),
            has_limit: reason.is_some_and(|why| Self::patience(cx, lower, why).0.is_some()),
        }
    }

    /// How long requests wait for that, `None`: as long as it takes, and with what they fail then.
    fn patience(
        cx: &Context<'_, P>,
        lower: &Lower<'_>,
        why: Waiting,
    ) -> (Option<Duration>, RequestError) {
        let settings = &cx.config.settings;
        match why {
            Waiting::Start => (None, RequestError::Detached),
            Waiting::Coordinator => {
                let policy = lower.views.view().map(|view| view.no_coordinator).unwrap_or_default();
                (policy.limit(), RequestError::NoCoordinator)
            }
            Waiting::Replica(_) => match Self::no_data(cx, lower) {
                NoDataPolicy::Suspend(patience) => (Some(patience), RequestError::NoData),
                NoDataPolicy::Error => (Some(settings.reconnect_grace), RequestError::NoData),
            },
        }
    }

    /// What requests do without data: as the view says, or else as this primary was told.
    fn no_data(cx: &Context<'_, P>, lower: &Lower<'_>) -> NoDataPolicy {
        match lower.views.view().and_then(|view| view.no_data) {
            Some(0) => NoDataPolicy::Error,
            Some(limit) => NoDataPolicy::Suspend(Duration::from_millis(limit.into())),
            None => cx.config.settings.no_data,
        }
    }
}

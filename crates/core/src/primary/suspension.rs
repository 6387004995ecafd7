//! Waits have a reason, and the bound that the volume gives them (invariant I11): while requests can't be served,
//! this tells why, and fails them when they have waited for long enough.

use std::collections::BTreeSet;

use super::io::requests::{Client, Request, RequestNumber};
use super::membership::peers::{MirrorPeers, Peer};
use super::views::edits::{Edit, PendingEdit};
use super::{Context, Note, Phase, Primary, Waiting};
use crate::operation::RequestError;
use crate::payload::Payload;
use crate::settings::NoDataPolicy;
use crate::time::Instant;
use core::time::Duration;

/// How often a primary that can't serve asks whether it still is one.
const ASK_PERIOD: Duration = Duration::from_secs(1);

/// Requests wait for something.
#[derive(Debug)]
pub(super) struct Suspension {
    pub why: Waiting,
    pub wait: Wait,
    /// When the coordinator was last asked whether this is still a primary.
    asked_at: Instant,
    /// The wait is over: requests fail with this until the obstacle is gone.
    pub failing: Option<RequestError>,
}

/// How long requests have waited. It is one wait, however often its reason changes, or is gone for too short a
/// time to answer anybody: otherwise it has no bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub since: Instant,
    /// Since when it counts towards its limit: not while there was none, and anew when all requests have failed.
    counted_from: Instant,
}

impl<P: Payload> Primary<P> {
    /// What keeps requests from being served, if anything does.
    fn obstacle(&self, now: Instant) -> Option<Waiting> {
        if matches!(self.phase, Phase::Idle | Phase::Starting(_)) {
            return Some(Waiting::Start);
        }
        let healthy = |id| self.peers.get(&id).is_some_and(|peer| peer.is_healthy());
        let without =
            self.mirrors.iter().position(|mirror| !mirror.ids(mirror.in_sync).any(healthy));
        if let Some(mirror) = without {
            return Some(Waiting::Replica(mirror));
        }
        let patience = self.config.settings.reconnect_grace * 2;
        let is_wanted =
            || !self.edits.is_empty() || self.wants_newest() || self.calls.are_awaited();
        if self.calls.take_long(now, patience) && is_wanted() {
            return Some(Waiting::Coordinator);
        }
        self.joining.map(|_| Waiting::Start)
    }

    /// Follows the obstacle, and ends waits that took too long.
    pub(super) fn watch_obstacle(&mut self, cx: &mut Context<'_, P>) {
        let Some(why) = self.obstacle(cx.now) else { return self.resume(cx) };
        if self.suspension.as_ref().is_none_or(|suspension| suspension.why != why) {
            self.suspend(cx, why);
        }
        let (patience, error) = self.patience(why);
        let Some(suspension) = &mut self.suspension else { return };
        if why != Waiting::Start && cx.now.since(suspension.asked_at) >= ASK_PERIOD {
            // Perhaps nobody answers because another primary has taken over.
            suspension.asked_at = cx.now;
            self.calls.read_soon();
        }
        let waited = cx.now.since(suspension.wait.counted_from);
        let Some(limit) = patience.filter(|limit| waited >= *limit) else { return };
        if why == Waiting::Coordinator {
            return self.fail_held_up(cx, limit, error);
        }
        if suspension.failing.is_none() {
            suspension.failing = Some(error);
            suspension.wait.counted_from = cx.now;
            self.fail_requests(cx, error);
        }
    }

    /// Fails the requests that have waited for so long and can't go on before the view changes. However long the
    /// coordinator is silent, I/O that does not need it goes on (V6).
    fn fail_held_up(&mut self, cx: &mut Context<'_, P>, limit: Duration, error: RequestError) {
        let now = cx.now;
        let is_long = |client: &Client| now.since(client.since) >= limit;
        self.fail_early(cx, error, is_long);
        let clients = self.requests.iter().filter(|(_, r)| r.client.as_ref().is_some_and(is_long));
        let long: Vec<_> = clients.map(|(number, _)| *number).collect();
        if !long.is_empty() {
            let held_up = self.held_up();
            self.fail_accepted(cx, error, long.into_iter().filter(held_up).collect());
        }
    }

    /// Tells of a request whether it can't be answered before the view changes. One that waits for its range
    /// counts as soon as any other does: that may be the one it waits for.
    fn held_up(&self) -> impl Fn(&RequestNumber) -> bool {
        let mirrors: Vec<_> = self.mirrors.iter().map(|m| self.is_mirror_held_up(m)).collect();
        let parts = self.parts.values().filter(|part| mirrors[part.mirror] && !part.is_answered());
        let begun: BTreeSet<_> = parts.map(|part| part.request).collect();
        let is_eviction = |pending: &PendingEdit| matches!(pending.edit(), Edit::Evict(_));
        let is_any = mirrors.contains(&true)
            || self.calls.edits().iter().chain(self.edits.iter()).any(is_eviction);
        let is_waiting = |(_, request): &(&RequestNumber, &Request<P>)| request.operation.is_some();
        let waiting = self.requests.iter().filter(|_| is_any).filter(is_waiting);
        let waiting: BTreeSet<_> = waiting.map(|(number, _)| *number).collect();
        let is_all = !self.can_send();
        move |number| is_all || begun.contains(number) || waiting.contains(number)
    }

    /// Whether some member of a mirror has to leave before it goes on: every write waits for each of them, and
    /// reads wait for their confirmation.
    fn is_mirror_held_up(&self, mirror: &MirrorPeers) -> bool {
        let is_blocked = |peer: &Peer| peer.failing.is_some() || peer.has_refused;
        mirror
            .ids(mirror.members)
            .any(|id| !self.is_sound(id) || self.peers.get(&id).is_none_or(is_blocked))
    }

    /// There is an obstacle, or another one than before.
    fn suspend(&mut self, cx: &mut Context<'_, P>, why: Waiting) {
        if why != Waiting::Start {
            cx.note(Note::Suspended(why));
        }
        let before = self.suspension.take().filter(|s| s.why != Waiting::Start);
        let before = before.map(|s| self.wait_of(&s, cx.now)).or(self.unanswered.take());
        let wait = before.unwrap_or(Wait { since: cx.now, counted_from: cx.now });
        self.suspension = Some(Suspension { why, wait, asked_at: cx.now, failing: None });
    }

    /// There is no obstacle.
    fn resume(&mut self, cx: &mut Context<'_, P>) {
        let ended = self.suspension.take().filter(|s| s.why != Waiting::Start);
        if let Some(ended) = ended {
            let is_awaited = self.requests.values().any(|request| request.client.is_some());
            self.unanswered = is_awaited.then(|| self.wait_of(&ended, cx.now));
            cx.note(Note::Resumed);
        }
    }

    /// What of a wait is carried on when its reason ends. What had no limit does not count towards the next one,
    /// nor what was waited for the coordinator by nobody who waits still.
    fn wait_of(&self, ended: &Suspension, now: Instant) -> Wait {
        let clients = self.requests.values().filter_map(|request| request.client);
        let oldest = clients.map(|client| client.since).min().unwrap_or(now);
        let counted_from = match (ended.why, self.patience(ended.why).0) {
            (_, None) => now,
            (Waiting::Coordinator, Some(_)) => ended.wait.counted_from.max(oldest),
            (Waiting::Start | Waiting::Replica(_), Some(_)) => ended.wait.counted_from,
        };
        Wait { counted_from, ..ended.wait }
    }

    /// How long requests wait for that, `None`: as long as it takes, and with what they fail then.
    fn patience(&self, why: Waiting) -> (Option<Duration>, RequestError) {
        let settings = &self.config.settings;
        match why {
            Waiting::Start => (None, RequestError::Detached),
            Waiting::Coordinator => {
                let policy = self.view.as_ref().map(|view| view.no_coordinator).unwrap_or_default();
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
        match self.view.as_ref().and_then(|view| view.no_data) {
            Some(0) => NoDataPolicy::Error,
            Some(limit) => NoDataPolicy::Suspend(Duration::from_millis(limit.into())),
            None => self.config.settings.no_data,
        }
    }
}

//! Waits have a bound and a reason (invariant I11): while requests can't be served, this tells
//! why, and fails them when they have waited for long enough.

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
    pub since: Instant,
    /// When the coordinator was last asked whether this is still a primary.
    asked_at: Instant,
    /// The wait is over: requests fail with this until the obstacle is gone.
    pub failing: Option<RequestError>,
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
        let silent = self.coordinator_silent_since.is_some_and(|at| now.since(at) >= patience);
        let call = self.call.as_ref().filter(|call| call.is_wanted());
        let slow = call.is_some_and(|call| now.since(call.since()) >= patience);
        let change_wanted = !self.edits.is_empty() || self.wants_newest() || call.is_some();
        if (silent || slow) && change_wanted {
            return Some(Waiting::Coordinator);
        }
        self.joining.map(|_| Waiting::Start)
    }

    /// Follows the obstacle, and ends waits that took too long.
    pub(super) fn watch_obstacle(&mut self, cx: &mut Context<'_, P>) {
        let Some(why) = self.obstacle(cx.now) else {
            if let Some(ended) = self.suspension.take().filter(|s| s.why != Waiting::Start) {
                let is_awaited = self.requests.values().any(|request| request.client.is_some());
                self.unanswered_since = is_awaited.then_some(ended.since);
                cx.note(Note::Resumed);
            }
            return;
        };
        let begins = self.suspension.as_ref().is_none_or(|suspension| suspension.why != why);
        if begins {
            if why != Waiting::Start {
                cx.note(Note::Suspended(why));
            }
            // One wait, however often its reason changes, or is gone for too short a time to answer
            // anybody: otherwise it has no bound.
            let before = self.suspension.take().filter(|s| s.why != Waiting::Start);
            let since = before.map(|before| before.since).or(self.unanswered_since.take());
            let since = since.unwrap_or(cx.now);
            self.suspension = Some(Suspension { why, since, asked_at: cx.now, failing: None });
        }
        let (patience, error) = self.patience(why);
        let Some(suspension) = &mut self.suspension else { return };
        if why != Waiting::Start && cx.now.since(suspension.asked_at) >= ASK_PERIOD {
            // Perhaps nobody answers because another primary has taken over.
            suspension.asked_at = cx.now;
            self.must_read = true;
        }
        if suspension.failing.is_none() && cx.now.since(suspension.since) >= patience {
            // I/O that does not need the coordinator goes on without it (V6).
            suspension.failing = (why != Waiting::Coordinator).then_some(error);
            suspension.since = cx.now;
            self.fail_requests(cx, error);
        }
    }

    fn patience(&self, why: Waiting) -> (Duration, RequestError) {
        let settings = &self.config.settings;
        match why {
            Waiting::Start => (Duration::MAX, RequestError::Detached),
            Waiting::Coordinator => (settings.coordinator_patience, RequestError::NoCoordinator),
            Waiting::Replica(_) => match settings.no_data {
                NoDataPolicy::Suspend(patience) => (patience, RequestError::NoData),
                NoDataPolicy::Error => (settings.reconnect_grace, RequestError::NoData),
            },
        }
    }
}

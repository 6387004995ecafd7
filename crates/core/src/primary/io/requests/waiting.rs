//! Waits have a reason, and the bound that the volume gives them (invariant I11): while requests
//! can't be served, this tells why, and fails them when they have waited for long enough.

use super::Requests;
use super::suspension::Waiters;
use crate::operation::RequestError;
use crate::payload::Payload;
use crate::primary::io::Lower;
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, Note, Waiting};
use crate::settings::NoDataPolicy;
use crate::time::Instant;
use core::time::Duration;

/// Which requests have waited for too long, and fail.
#[derive(Debug, Clone, Copy)]
pub(in crate::primary::io) enum Overdue {
    /// All.
    All(RequestError),
    /// Those that have waited for so long and can't go on before the view changes.
    HeldUp { limit: Duration, error: RequestError },
}

impl<P: Payload> Requests<P> {
    /// Requests wait for the attach.
    pub fn wait_for_start(&mut self, now: Instant) {
        self.suspension.wait_for_start(now);
    }

    /// What keeps requests from being served, if anything does.
    fn obstacle(&self, cx: &Context<'_, P>, lower: &Lower<'_>) -> Option<Waiting> {
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

    /// Follows the obstacle. Tells which waits have taken too long.
    pub fn follow_obstacle(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
    ) -> Option<Overdue> {
        let Some(why) = self.obstacle(cx, lower) else {
            self.resume(cx, lower);
            return None;
        };
        if self.suspension.reason() != Some(why) {
            self.suspend(cx, lower, why);
        }
        if self.suspension.asks_again(cx.now) {
            lower.views.read_soon();
        }
        let (patience, error) = patience(cx, lower, why);
        let limit = patience.filter(|limit| self.suspension.waited(cx.now) >= *limit)?;
        if why == Waiting::Coordinator {
            return Some(Overdue::HeldUp { limit, error });
        }
        self.suspension.fail(error, cx.now).then_some(Overdue::All(error))
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
            oldest: self.table.waits().min(),
            has_limit: reason.is_some_and(|why| patience(cx, lower, why).0.is_some()),
        }
    }
}

/// How long requests wait for that, `None`: as long as it takes, and with what they fail then.
fn patience<P>(
    cx: &Context<'_, P>,
    lower: &Lower<'_>,
    why: Waiting,
) -> (Option<Duration>, RequestError) {
    let settings = &cx.config.settings;
    match why {
        Waiting::Start => (None, RequestError::Detached),
        Waiting::Coordinator => {
            (lower.views.view().no_coordinator.limit(), RequestError::NoCoordinator)
        }
        Waiting::Replica(_) => match no_data(cx, lower) {
            NoDataPolicy::Suspend(patience) => (Some(patience), RequestError::NoData),
            NoDataPolicy::Error => (Some(settings.reconnect_grace), RequestError::NoData),
        },
    }
}

/// What requests do without data: as the view says, or else as this primary was told.
fn no_data<P>(cx: &Context<'_, P>, lower: &Lower<'_>) -> NoDataPolicy {
    match lower.views.view().no_data {
        Some(0) => NoDataPolicy::Error,
        Some(limit) => NoDataPolicy::Suspend(Duration::from_millis(limit.into())),
        None => cx.config.settings.no_data,
    }
}

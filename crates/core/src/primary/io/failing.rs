//! Requests that fail because they have waited for too long, or because the primary ends.

use core::time::Duration;

use super::requests::{Client, Failed, Overdue, RequestNumber};
use super::{Io, Lower};
use crate::operation::RequestError;
use crate::payload::Payload;
use crate::primary::Context;
use crate::time::Instant;

impl<P: Payload> Io<P> {
    /// No request may be served yet: all wait for the attach, however long it takes.
    pub fn watch_start(&mut self, now: Instant) {
        self.requests.wait_for_start(now);
    }

    /// Follows what requests wait for, and ends waits that took too long.
    pub fn watch_obstacle(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        if !cx.stage.is_acting() {
            return self.watch_start(cx.now);
        }
        match self.requests.follow_obstacle(cx, lower) {
            None => {}
            Some(Overdue::All(error)) => self.fail_requests(cx, error),
            Some(Overdue::HeldUp { limit, error }) => self.fail_held_up(cx, lower, limit, error),
        }
    }

    /// Fails the requests that have waited for so long and can't go on before the view changes.
    /// However long the coordinator is silent, I/O that does not need it goes on (V6).
    fn fail_held_up(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        limit: Duration,
        error: RequestError,
    ) {
        let now = cx.now;
        let is_long = |client: &Client| now.since(client.since) >= limit;
        self.requests.fail_early(cx, error, is_long);
        let long = self.requests.of_clients(is_long);
        if !long.is_empty() {
            let (parts, below) = &mut self.parts(lower);
            let held_up = parts.held_up(below, cx.stage, long);
            self.fail_accepted(cx, error, held_up);
        }
    }

    /// Fails every request of a client.
    pub fn fail_requests(&mut self, cx: &mut Context<'_, P>, error: RequestError) {
        self.requests.fail_early(cx, error, |_| true);
        let waiting = self.requests.of_clients(|_| true);
        self.fail_accepted(cx, error, waiting);
    }

    /// Fails these requests of clients. Parts that were sent stay until every member has them or
    /// has left (W2).
    fn fail_accepted(
        &mut self,
        cx: &mut Context<'_, P>,
        error: RequestError,
        waiting: Vec<RequestNumber>,
    ) {
        // One after the other: so clients are answered, and ranges granted, in this order.
        for number in waiting {
            if let Some(failed) = self.requests.fail(cx, number, error) {
                if failed == Failed::Sent {
                    self.parts.forget_reads_of(&mut self.requests, number);
                }
                // Also what has read and waits to compare: nothing of it is under way.
                self.requests.forget_if_over(number);
            }
        }
        self.requests.forget_ready();
    }

    /// Fails those requests that came before any may be served.
    pub fn fail_early(
        &mut self,
        cx: &mut Context<'_, P>,
        error: RequestError,
        fails: impl Fn(&Client) -> bool,
    ) {
        self.requests.fail_early(cx, error, fails);
    }
}

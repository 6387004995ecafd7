//! Requests that whoever asked gives up: those that no replica was sent are withdrawn.

use super::{Io, Lower, RequestNumber};
use crate::ids::*;
use crate::operation::RequestError;
use crate::payload::Payload;
use crate::primary::Context;

impl<P: Payload> Io<P> {
    /// Answers a request, and forgets it, if nothing of it was sent but reads to compare.
    pub fn cancel(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>, request: RequestId) {
        self.cancel_early(cx, request);
        let Some(number) = self.requests.of_client(request) else {
            return; // It was answered meanwhile, perhaps by just this.
        };
        if !self.requests.changes_nothing_yet(number) && !self.is_unsent(number) {
            return; // Some replica may have carried it out.
        }
        if self.requests.fail(cx, number, RequestError::Cancelled).is_some() {
            let (parts, below) = &mut self.parts(lower);
            parts.forget_reads_of(below.requests, number);
            parts.withdraw(cx, below, number);
            self.requests.forget_if_over(number);
            self.requests.forget_ready();
        }
    }

    /// Answers a request that came before any may be served.
    pub fn cancel_early(&mut self, cx: &mut Context<'_, P>, request: RequestId) {
        self.fail_early(cx, RequestError::Cancelled, |client| client.request == request);
    }

    /// Somebody wants to know when nothing is under way that was asked over a path. What has failed
    /// and was never sent is not sent any more.
    pub fn drain_path(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>, path: PathNumber) {
        for number in self.requests.answered_over(path) {
            if self.is_unsent(number) {
                let (parts, below) = &mut self.parts(lower);
                parts.withdraw(cx, below, number);
                self.requests.forget_if_over(number);
            }
        }
        self.requests.forget_ready();
        self.drain_early(path);
    }

    /// The same before any request may be served.
    pub fn drain_early(&mut self, path: PathNumber) {
        self.requests.drain_path(path);
    }

    /// Whether a request has parts, and no replica was sent any: those that all have carried out
    /// are not among the parts any more.
    fn is_unsent(&self, number: RequestNumber) -> bool {
        !self.requests.has_ended_part(number) && self.parts.are_unsent(number)
    }
}

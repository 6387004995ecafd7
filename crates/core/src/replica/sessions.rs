//! Sessions: who is connected, and when each primary was last confirmed.

use super::{Context, Replica};
use crate::ids::*;
use crate::message::{Message, Opener, ReplicaReport};
use crate::payload::Payload;
use crate::time::Instant;

/// What is known of the other end of a link.
#[derive(Debug, Clone, Copy)]
pub(super) enum Session {
    /// It has not said who it is.
    New,
    /// Work of its older session has to end before it is answered (W2).
    Waiting(SessionNumber, Opener),
    /// Open.
    Open(SessionNumber, Opener),
}

/// How far a primary has been confirmed: by its answers it may serve reads for the lease's time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confirmation {
    /// When it was last answered in its generation.
    pub at: Instant,
    /// The highest generation for which it said that it knows of it.
    pub knows: Generation,
}

impl Confirmation {
    pub fn at(now: Instant) -> Self {
        Self { at: now, knows: Generation(0) }
    }
}

impl<P: Payload> Replica<P> {
    pub(super) fn open_session(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        number: SessionNumber,
        opener: Opener,
    ) {
        if !matches!(self.sessions.get(&link), Some(Session::New)) {
            return self.drop_link(cx, link);
        }
        let older = self.sessions.iter().find_map(|(other, session)| match session {
            Session::Open(n, o) | Session::Waiting(n, o) if *o == opener => Some((*other, *n)),
            _ => None,
        });
        match older {
            Some((_, newest)) if newest >= number => return self.drop_link(cx, link),
            Some((other, _)) => self.drop_link(cx, other),
            None => {}
        }
        self.sessions.insert(link, Session::Waiting(number, opener));
        self.answer_waiting_sessions(cx);
    }

    /// Answers sessions whose opener has no work of an older session left. A disk that does not end
    /// what it has begun is not offered to anybody.
    pub(super) fn answer_waiting_sessions(&mut self, cx: &mut Context<'_, P>) {
        if self.intent_work.is_saving_any() || self.is_saving_view() {
            return;
        }
        let ready: Vec<_> = self
            .sessions
            .iter()
            .filter_map(|(link, session)| match session {
                Session::Waiting(number, opener) if !self.works_for(*opener) => {
                    Some((*link, *number, *opener))
                }
                _ => None,
            })
            .collect();
        for (link, session, opener) in ready {
            self.sessions.insert(link, Session::Open(session, opener));
            cx.send(link, Message::SessionOpened { session, report: self.report() }, None);
            if let (Some(error), Opener::Primary(_)) = (self.flushes.failure(), opener) {
                let (generation, failure) = (self.view.generation, error.into());
                cx.send(link, Message::DiskFailed { generation, failure }, None);
            }
        }
    }

    fn works_for(&self, opener: Opener) -> bool {
        self.operations.values().any(|operation| operation.origin.opener() == Some(opener))
    }

    fn report(&self) -> ReplicaReport {
        ReplicaReport {
            replica: self.config.id,
            incarnation: self.config.incarnation,
            saved_life: self.config.saved_life,
            boot: self.config.boot,
            generation: self.adopted_generation(),
            lineage: self.view.lineage,
            size: self.size(),
            state: self.state(),
            open_slots: self.intents.open_slots(),
        }
    }

    /// The opener of the open session on a link.
    pub(super) fn opener(&self, link: LinkId) -> Option<Opener> {
        match self.sessions.get(&link) {
            Some(Session::Open(_, opener)) => Some(*opener),
            _ => None,
        }
    }

    /// The primary whose open session is on a link.
    pub(super) fn primary_of(&self, link: LinkId) -> Option<PrimaryId> {
        match self.opener(link) {
            Some(Opener::Primary(primary)) => Some(primary),
            _ => None,
        }
    }

    /// The primaries with open sessions, with their links.
    pub(super) fn open_primaries(&self) -> impl Iterator<Item = (LinkId, PrimaryId)> {
        self.sessions.iter().filter_map(|(link, session)| match session {
            Session::Open(_, Opener::Primary(primary)) => Some((*link, *primary)),
            _ => None,
        })
    }

    /// Closes a link that broke the protocol, or that a newer session replaces.
    pub(super) fn drop_link(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        cx.disconnect(link);
        self.link_closed(cx, link);
    }

    pub(super) fn link_closed(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        if self.source_link_closed(cx, link) {
            return;
        }
        self.sessions.remove(&link);
        self.forget_operations_of(cx, link);
        self.answer_waiting_sessions(cx);
    }

    /// Sends an answer that shows a primary that its generation is the adopted one.
    pub(super) fn confirm(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) {
        let Some(opener) = self.opener(link) else { return };
        if let Opener::Primary(primary) = opener {
            self.confirmations.entry(primary).or_insert(Confirmation::at(cx.now)).at = cx.now;
        }
        cx.send(link, message, payload);
    }

    pub(super) fn refuse(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        sequence: Option<Sequence>,
    ) {
        if self.opener(link).is_some() {
            cx.send(link, Message::Refused { adopted: self.view.generation, sequence }, None);
        }
    }

    /// Whether a message in this generation may be acted upon (W3). Of a view that could not be saved
    /// only the number is known here.
    pub(super) fn is_current(&self, generation: Generation) -> bool {
        generation == self.view.generation && self.adoption.is_none() && !self.is_unsaved()
    }

    pub(super) fn ping(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        number: u64,
    ) {
        let in_view = self.primary_of(link).is_some_and(|p| self.view.has_primary(p));
        if in_view && self.is_current(generation) {
            let open_slots = self.intents.open_slots();
            self.confirm(cx, link, Message::Pong { generation, number, open_slots }, None);
        } else {
            self.refuse(cx, link, None);
        }
    }

    pub(super) fn fence_confirmed(&mut self, link: LinkId, generation: Generation) {
        if let Some(primary) = self.primary_of(link) {
            self.knows(primary, generation);
        }
    }

    pub(super) fn knows(&mut self, primary: PrimaryId, generation: Generation) {
        if let Some(confirmation) = self.confirmations.get_mut(&primary) {
            confirmation.knows = confirmation.knows.max(generation);
        }
    }
}

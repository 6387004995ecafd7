//! Sessions: who is connected, and when each primary was last confirmed.

use core::iter;

use super::{Context, DiskAction, DiskError, DiskTicket, Replica};
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::message::{Message, Opener, ReplicaReport, SlotBits};
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::View;

/// What is known of the other end of a link.
#[derive(Debug, Clone, Copy)]
pub(super) enum Session {
    /// It has not said who it is.
    New,
    /// Work of its older session has to end before it is answered (W2).
    Waiting(Asked),
    /// Open.
    Open(SessionNumber, Opener),
}

/// A session that was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Its number.
    pub session: SessionNumber,
    /// By whom.
    pub opener: Opener,
    /// Which incarnations of this replica the opener's view names, or others may.
    pub named: Incarnations,
}

/// Whether the superblocks list the present incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IncarnationRecord {
    Unsaved,
    Saving,
    Saved,
}

/// How far a primary has been confirmed: by its answers it may serve reads for the lease's time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confirmation {
    /// When it was last answered in its generation.
    pub at: Instant,
    /// The highest generation for which it said that it knows of it.
    pub knows: Generation,
    /// What a newer primary of its node shows about it.
    pub successor: Successor,
}

/// A node's newer primary shows that its older one has ended, unless that one goes on: then one of
/// the two runs from a copy of the node's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Successor {
    /// None has come.
    None,
    /// One has opened a session, and the older one was not answered since.
    Came,
    /// The older one was answered since.
    Outlived,
}

impl Confirmation {
    pub fn at(now: Instant) -> Self {
        Self { at: now, knows: Generation(0), successor: Successor::None }
    }
}

impl<P: Payload> Replica<P> {
    pub(super) fn open_session(&mut self, cx: &mut Context<'_, P>, link: LinkId, asked: Asked) {
        let (number, opener) = (asked.session, asked.opener);
        if !matches!(self.sessions.get(&link), Some(Session::New)) {
            return self.drop_link(cx, link);
        }
        let older = self.sessions.iter().find_map(|(other, session)| match session {
            Session::Open(n, o) if *o == opener => Some((*other, *n)),
            Session::Waiting(asked) if asked.opener == opener => Some((*other, asked.session)),
            _ => None,
        });
        match older {
            Some((_, newest)) if newest >= number => return self.drop_link(cx, link),
            Some((other, _)) => self.drop_link(cx, other),
            None => {}
        }
        self.sessions.insert(link, Session::Waiting(asked));
        self.may_wait = true;
        self.answer_waiting_sessions(cx);
    }

    /// Answers sessions whose opener has no work of an older session left. A disk that does not end
    /// what it has begun is not offered to anybody.
    pub(super) fn answer_waiting_sessions(&mut self, cx: &mut Context<'_, P>) {
        // Nearly always nobody waits, and this is asked after every operation.
        if !self.may_wait || self.intent_work.is_saving_any() || self.is_saving_view() {
            return;
        }
        let sessions = self.sessions.iter();
        let ready = sessions.filter_map(|(link, session)| match session {
            Session::Waiting(asked) if !self.works_for(asked.opener) => Some((*link, *asked)),
            _ => None,
        });
        for (link, asked) in ready.collect::<Vec<_>>() {
            if !self.is_incarnation_known_to(cx, asked) {
                return;
            }
            self.answer_session(cx, link, asked);
        }
        self.may_wait = self.sessions.values().any(|it| matches!(it, Session::Waiting(_)));
    }

    fn answer_session(&mut self, cx: &mut Context<'_, P>, link: LinkId, asked: Asked) {
        let Asked { session, opener, named } = asked;
        self.sessions.insert(link, Session::Open(session, opener));
        self.note_successor(opener);
        let report = self.report(&named, cx.now);
        cx.send(link, Message::SessionOpened { session, report }, None);
        // Who was told before may not have heard it.
        if let (Some(error), Opener::Primary(_)) = (self.disk_failure(), opener) {
            let (generation, failure) = (self.view.generation, error.into());
            cx.send(link, Message::DiskFailed { generation, failure }, None);
        }
        self.tell_cluster_locks_to(cx, link);
    }

    fn note_successor(&mut self, opener: Opener) {
        let Opener::Primary(newer) = opener else { return };
        for (older, confirmation) in &mut self.confirmations {
            let is_earlier = older.node == newer.node && *older != newer;
            if is_earlier && confirmation.successor == Successor::None {
                confirmation.successor = Successor::Came;
            }
        }
    }

    /// Whether this incarnation may be told to who asks: the superblocks list it, or do not list
    /// the one that the asker's view names (see [`crate::incarnations`]). If not, it is added to
    /// them, which the session waits for.
    fn is_incarnation_known_to(&mut self, cx: &mut Context<'_, P>, asked: Asked) -> bool {
        let is_primary = matches!(asked.opener, Opener::Primary(_));
        // A view whose save has failed is not to be written over: the next adoption lists the
        // incarnation.
        if self.incarnation_record == IncarnationRecord::Unsaved
            && is_primary
            && !self.is_unsaved()
            && self.incarnations.know_all(&asked.named)
        {
            self.incarnation_record = IncarnationRecord::Saving;
            // Who asks may be of another epoch. By the own view a volume can be put together, too.
            let named = iter::once(self.incarnation_named_by(&self.view)).chain(asked.named.0);
            self.incarnations =
                self.incarnations.followed_by(self.config.incarnation, &Incarnations::of(named));
            let view = Box::new(self.view.clone());
            cx.disk(DiskTicket::Incarnation, DiskAction::SaveView(view, self.incarnations));
        }
        self.incarnation_record != IncarnationRecord::Saving
    }

    /// The incarnation of this replica that a view names; zero if none.
    pub(super) fn incarnation_named_by(&self, view: &View) -> Incarnation {
        view.replica(self.config.id).map_or(Incarnation(0), |(_, record)| record.incarnation)
    }

    /// The superblocks list this incarnation, or can't be saved: then who asked has to ask again.
    pub(super) fn incarnation_saved(
        &mut self,
        cx: &mut Context<'_, P>,
        outcome: Result<(), DiskError>,
    ) {
        // A view that was adopted meanwhile lists it, too.
        if self.incarnation_record == IncarnationRecord::Saved {
            return;
        }
        if outcome.is_ok() {
            self.incarnation_record = IncarnationRecord::Saved;
            return;
        }
        self.incarnation_record = IncarnationRecord::Unsaved;
        let sessions = self.sessions.iter();
        let waiting = sessions.filter(|(_, session)| matches!(session, Session::Waiting(..)));
        let links: Vec<_> = waiting.map(|(link, _)| *link).collect();
        links.into_iter().for_each(|link| self.drop_link(cx, link));
    }

    fn works_for(&self, opener: Opener) -> bool {
        self.operations.values().any(|operation| operation.origin.opener() == Some(opener))
    }

    fn report(&self, named: &Incarnations, now: Instant) -> ReplicaReport {
        ReplicaReport {
            replica: self.config.id,
            incarnation: self.config.incarnation,
            is_stale_clone: !self.incarnations.know_all(named),
            boot: self.config.boot,
            generation: self.adopted_generation(),
            history: self.view.history,
            size: self.size(),
            state: self.state(),
            slots: self.slot_bits(now),
        }
    }

    fn slot_bits(&self, now: Instant) -> SlotBits {
        let patience = self.view.lease.honoured();
        let is_heard = |id| {
            let confirmation = self.confirmations.get(&id);
            confirmation.is_some_and(|confirmation| now.since(confirmation.at) < patience)
        };
        let heard = self.view.primaries.iter().filter(|primary| is_heard(primary.id));
        let heard = heard.fold(0, |bits, primary| bits | 1 << primary.slot);
        SlotBits { open: self.intents.open_slots(), heard }
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
        if let Some(adoption) = &mut self.adoption {
            adoption.forget(link);
        }
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
        if let Opener::Primary(primary) = opener
            && self.view.has_primary(primary)
        {
            let confirmation =
                self.confirmations.entry(primary).or_insert(Confirmation::at(cx.now));
            confirmation.at = cx.now;
            if confirmation.successor == Successor::Came {
                confirmation.successor = Successor::Outlived;
            }
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

    /// Whether a message in this generation may be acted upon (W3). Of a view that could not be
    /// saved only the number is known here.
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
            let slots = self.slot_bits(cx.now);
            self.confirm(cx, link, Message::Pong { generation, number, slots }, None);
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

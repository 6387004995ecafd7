//! Sessions: who is connected, when each primary was last confirmed, which incarnation of the
//! replica they may be told, which primaries are fenced ([`fencing`]), and what a lock manager
//! keeps of their cluster locks.
//!
//! It uses the view ([`super::views`]). It never asks what is under way on the disk: whoever has a
//! session answered knows that.

mod cluster_locking;
mod cluster_locks;
mod confirmations;
mod fencing;
mod links;
mod recorded;

pub(super) use self::links::{Admission, Asked};

use core::iter;

use self::cluster_locks::ClusterLocks;
use self::confirmations::Confirmations;
use self::links::Links;
use self::recorded::Recorded;
use super::views::Views;
use super::{Context, DiskAction, DiskError, DiskTicket, ReplicaConfig, Sender};
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::message::{Failure, Message, Opener, ReplicaReport, SlotBits};
use crate::time::Instant;
use crate::view::View;

/// The sessions with primaries and with replicas that copy from this one.
#[derive(Debug)]
pub(super) struct Sessions {
    links: Links,
    /// The permission that each primary may still hold.
    confirmations: Confirmations,
    /// The incarnations that the superblocks list.
    recorded: Recorded,
    cluster_locks: ClusterLocks,
}

impl Sessions {
    pub fn new(config: &ReplicaConfig, now: Instant) -> Self {
        Self {
            links: Links::default(),
            confirmations: Confirmations::at_start(&config.view, now),
            recorded: Recorded::found(config.incarnation, config.incarnations),
            cluster_locks: ClusterLocks::default(),
        }
    }

    /// Somebody has connected, from this node (`None`: in memory).
    pub fn opened(&mut self, link: LinkId, from: Option<NodeId>) {
        self.links.opened(link, from);
    }

    /// A link has closed, and with it its session.
    pub fn closed(&mut self, link: LinkId) {
        self.links.closed(link);
    }

    /// Whether a session that is asked for may begin (rule W8).
    pub fn admission(&self, views: &Views, link: LinkId, asked: &Asked) -> Admission {
        self.links.admission(views.view(), link, asked)
    }

    /// A session waits from now on until it can be [answered](Self::answer).
    pub fn wait(&mut self, link: LinkId, asked: Asked) {
        self.links.wait(link, asked);
    }

    /// Whether any session may be waiting: nearly always none is, and this is asked often.
    pub const fn may_wait(&self) -> bool {
        self.links.may_wait()
    }

    /// The sessions that wait.
    pub fn waiting(&self) -> impl Iterator<Item = (LinkId, Asked)> {
        self.links.waiting()
    }

    /// All are answered that could be.
    pub fn are_answered(&mut self) {
        self.links.are_answered();
    }

    /// The opener of the open session on a link.
    pub fn opener(&self, link: LinkId) -> Option<Opener> {
        self.links.opener(link)
    }

    /// The primary whose open session is on a link.
    pub fn primary_of(&self, link: LinkId) -> Option<PrimaryId> {
        self.links.primary_of(link)
    }

    /// The replica that copies from this one over a link.
    pub fn copier_of(&self, link: LinkId) -> Option<ReplicaId> {
        self.links.copier_of(link)
    }

    /// Whether the adopted view has the copier of a link, on the node at the link's other end
    /// (rule W8).
    pub fn is_copier_of_the_view(&self, views: &Views, link: LinkId) -> bool {
        self.links.is_copier_of(views.view(), link)
    }

    /// The primaries with open sessions, with their links.
    pub fn open_primaries(&self) -> impl Iterator<Item = (LinkId, PrimaryId)> {
        self.links.open_primaries()
    }

    /// Whether every primary of the adopted view has a session here, and there is one.
    pub fn is_everyone_connected(&self, views: &Views) -> bool {
        let is_connected = |id| self.open_primaries().any(|(_, open)| open == id);
        let primaries = &views.view().primaries;
        !primaries.is_empty() && primaries.iter().all(|primary| is_connected(primary.id))
    }

    /// Answers a session that waits. `failure` is how the disk has failed, `open_slots` are those
    /// of the intent log in which anything is open.
    pub fn answer<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        views: &Views,
        link: LinkId,
        asked: Asked,
        open_slots: u32,
        failure: Option<DiskError>,
    ) {
        let Asked { session, opener, named } = asked;
        self.links.open(link, &asked);
        if let Opener::Primary(primary) = opener
            && session == SessionNumber::FIRST
        {
            self.confirmations.came(primary);
        }
        let report = Box::new(self.report(cx, views, &named, open_slots));
        cx.send(link, Message::SessionOpened { session, report }, None);
        // Who was told before may not have heard it.
        if let (Some(error), Opener::Primary(_)) = (failure, opener) {
            let (generation, failure) = (views.generation(), error.into());
            cx.send(link, Message::DiskFailed { generation, failure }, None);
        }
        self.report_cluster_locks_to(cx, views, link);
    }

    /// Whether this incarnation may be told to who asks: the superblocks list it, or do not list
    /// the one that the asker's view names (see [`crate::incarnations`]). If not, it is added to
    /// them, which the session waits for.
    pub fn is_incarnation_known_to<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        views: &Views,
        asked: Asked,
    ) -> bool {
        let is_primary = matches!(asked.opener, Opener::Primary(_));
        // A view whose save has failed is not to be written over: the next adoption lists the
        // incarnation.
        if is_primary && !views.is_unsaved() && self.recorded.lacks_present(&asked.named) {
            // Who asks may be of another epoch. By the own view a volume can be put together, too.
            let named = iter::once(views.incarnation_named_by(views.view())).chain(asked.named.0);
            let all = self.recorded.add_present(&Incarnations::of(named));
            let view = Box::new(views.view().clone());
            cx.disk(DiskTicket::Incarnation, DiskAction::SaveView(view, all));
        }
        !self.recorded.is_being_saved()
    }

    /// The superblocks list this incarnation, or can't be saved: then who asked has to ask again.
    /// Returns the links that are to be closed.
    pub fn incarnation_saved(&mut self, outcome: Result<(), DiskError>) -> Vec<LinkId> {
        match self.recorded.saved(outcome.is_ok()) {
            true => Vec::new(),
            false => self.waiting().map(|(link, _)| link).collect(),
        }
    }

    /// A view is being saved, and this incarnation with it. Returns which ones are to be listed.
    pub fn list_with(&mut self, views: &Views, view: &View) -> Incarnations {
        self.recorded.add_with_view(&Incarnations::of([views.incarnation_named_by(view)]))
    }

    /// A view is saved, and with it the present incarnation. What is kept of cluster locks has
    /// lasted as long as the one before.
    pub fn saved_with_view(&mut self) {
        self.recorded.saved_with_view();
        self.cluster_locks = ClusterLocks::default();
    }

    /// The adopted view is another one: only its primaries count.
    pub fn follow(&mut self, views: &Views, now: Instant) {
        self.confirmations.follow(views.view(), now);
    }

    fn report<P>(
        &self,
        cx: &Context<'_, P>,
        views: &Views,
        named: &Incarnations,
        open_slots: u32,
    ) -> ReplicaReport {
        ReplicaReport {
            replica: cx.me.id,
            incarnation: self.recorded.present(),
            is_stale_clone: !self.recorded.know_all(named),
            boot: cx.me.boot,
            generation: views.adopted_generation(),
            history: views.view().history,
            size: views.size(),
            state: views.state(),
            slots: self.slot_bits(views, cx.now, open_slots),
        }
    }

    fn slot_bits(&self, views: &Views, now: Instant, open: u32) -> SlotBits {
        let patience = views.view().lease.honoured();
        let was_seen = |id| self.confirmations.was_seen(id, now, patience);
        let seen = views.view().primaries.iter().filter(|primary| was_seen(primary.id));
        let seen = seen.fold(0, |bits, primary| bits | 1 << primary.slot);
        SlotBits { open, seen }
    }

    /// Sends an answer that shows a primary that its generation is the adopted one. Over a link
    /// that has closed meanwhile nobody waits for it.
    pub fn confirm<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        views: &Views,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) {
        if let Some(opener) = self.opener(link) {
            if let Opener::Primary(primary) = opener
                && views.view().has_primary(primary)
            {
                self.confirmations.answered(primary, cx.now);
            }
            cx.send(link, message, payload);
        }
    }

    pub fn refuse<P>(
        &self,
        cx: &mut Context<'_, P>,
        views: &Views,
        link: LinkId,
        sequence: Option<Sequence>,
    ) {
        if self.opener(link).is_some() {
            cx.send(link, Message::Refused { adopted: views.generation(), sequence }, None);
        }
    }

    pub fn report_primaries<P>(&self, cx: &mut Context<'_, P>, message: &Message) {
        for (link, _) in self.open_primaries() {
            cx.send(link, message.clone(), None);
        }
    }

    /// Tells those that are primaries by the adopted view.
    pub fn tell_those_of_the_view<P>(
        &self,
        cx: &mut Context<'_, P>,
        views: &Views,
        message: &Message,
    ) {
        for (link, primary) in self.open_primaries() {
            if views.view().has_primary(primary) {
                cx.send(link, message.clone(), None);
            }
        }
    }

    pub fn report_disk_failed<P>(&self, cx: &mut Context<'_, P>, views: &Views, failure: Failure) {
        let generation = views.generation();
        self.report_primaries(cx, &Message::DiskFailed { generation, failure });
    }

    /// Answers a primary that asks whether this generation is the adopted one, with the slots of
    /// the intent log in which anything is open.
    pub fn ping<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        views: &Views,
        from: Sender,
        number: PingNumber,
        open_slots: u32,
    ) {
        let Sender { link, generation } = from;
        let in_view = self.primary_of(link).is_some_and(|p| views.view().has_primary(p));
        if in_view && views.is_current(generation) {
            let slots = self.slot_bits(views, cx.now, open_slots);
            self.confirm(cx, views, link, Message::Pong { generation, number, slots }, None);
        } else {
            self.refuse(cx, views, link, None);
        }
    }

    /// The links whose sessions were opened in the name of a replica that is elsewhere by the view
    /// that is adopted now (rule W8).
    pub fn impostors(&self, views: &Views) -> Vec<LinkId> {
        self.links.impostors(views.view()).collect()
    }

    /// Panics if something of sessions or of cluster locks does not hold beside this view.
    pub fn check_invariants(&self, views: &Views) {
        self.links.check_invariants(views.view());
        self.cluster_locks.check_invariants(views.view());
    }
}

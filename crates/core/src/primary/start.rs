//! The attach: read the view, reach the replicas, become primary (rules V1, V4). If the view is the
//! first one after an assembly from the disks, those that count there adopt it before anybody is
//! primary (V7).

use core::time::Duration;
use std::collections::BTreeMap;

use super::invariants::check_sources;
use super::membership::peer::{Peer, Session};
use super::{Context, EndReason, Phase, Primary};
use crate::ids::*;
use crate::message::{Message, ReplicaReport};
use crate::payload::Payload;
use crate::settings::MAX_PRIMARIES;
use crate::time::Instant;
use crate::view::{Cause, PrimaryRecord, Protocol, ReplicaRecord, ReplicaState, View, ViewError};

/// What an attach has found so far.
#[derive(Debug)]
pub(super) struct Gathering {
    pub since: Instant,
    /// When the present view was read.
    read_at: Option<Instant>,
    pub reports: BTreeMap<ReplicaId, ReplicaReport>,
    /// How often a replica turned out to have adopted a newer view than the one read.
    surprises: u32,
    /// Whether the view is the first one of an epoch: of the primaries that it names none acts any
    /// more.
    pub is_first_of_epoch: bool,
}

impl Gathering {
    pub fn reported(&mut self, replica: ReplicaId, report: ReplicaReport) {
        self.reports.insert(replica, report);
    }
}

impl<P: Payload> Primary<P> {
    pub(super) fn start(&mut self, cx: &mut Context<'_, P>) {
        if !matches!(self.phase, Phase::Idle) {
            return; // It has been started before.
        }
        self.enter(
            cx,
            Phase::Starting(Gathering {
                since: cx.now,
                read_at: None,
                reports: BTreeMap::new(),
                surprises: 0,
                is_first_of_epoch: false,
            }),
        );
        self.call_read(cx);
    }

    /// The view was read: reach its in-sync replicas.
    pub(super) fn gather(&mut self, cx: &mut Context<'_, P>, view: View) {
        let is_needed =
            |r: &ReplicaRecord| r.state == ReplicaState::InSync || r.cause == Cause::Unconfirmed;
        let needed: Vec<_> =
            view.replicas().filter(|(_, r)| is_needed(r)).map(|(_, r)| r.id).collect();
        if self.view.as_ref() != Some(&view) {
            self.membership.end_doubt_of_incarnations();
            self.adoption.confirm_by(view.unconfirmed());
            if let Phase::Starting(gathering) = &mut self.phase {
                gathering.is_first_of_epoch = !self.adoption.is_over();
                // A coordinator that goes on has forgotten nothing.
                gathering.surprises = 0;
            }
        }
        self.membership.update(&cx.config, &view, cx.now);
        self.view = Some(view);
        if let Phase::Starting(gathering) = &mut self.phase {
            gathering.read_at = Some(cx.now);
        }
        for replica in needed {
            if self.membership.known(replica).is_some_and(|peer| peer.session() == Session::Down) {
                self.membership.connect(cx, replica);
            }
        }
    }

    /// Goes on with the attach when enough replicas have answered, or have had their time.
    pub(super) fn advance_start(&mut self, cx: &mut Context<'_, P>) {
        let Phase::Starting(Gathering { since, read_at, .. }) = self.phase else {
            return; // It has begun, or never will.
        };
        let settings = self.config.settings;
        let waited = cx.now.since(since);
        if waited >= settings.coordinator_patience && self.calls.are_unanswered() {
            return self.end(cx, EndReason::NoCoordinator);
        }
        if !self.calls.may_begin(cx.now) {
            return; // An answer is waited for, or the pause after none.
        }
        let (Some(read_at), false) = (read_at, self.calls.must_read()) else {
            return self.call_read(cx);
        };
        if self.is_surprised(cx) {
            return; // The view is read again, or never was the newest.
        }
        let (since_start, waited) = (waited, cx.now.since(read_at));
        if !self.adoption.is_over() {
            return self.await_confirmation(cx, waited);
        }
        let patience = settings.reconnect_grace * 2;
        let everyone = self.answers(|link| matches!(link, Session::Open(_)));
        let rest_refused = self.answers(|link| matches!(link, Session::Open(_) | Session::Down));
        let is_time = everyone
            || (rest_refused && waited >= patience && self.has_sources())
            || waited >= settings.deadline;
        if is_time {
            self.take_office(cx, since_start);
        }
    }

    /// A session is open with a replica that may have to adopt the view before anybody is primary.
    pub(super) fn ask_to_confirm(&self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let link = self.membership.known(replica).and_then(Peer::open_link);
        if let (Some(link), Some(view), true) = (link, &self.view, self.adoption.awaits(replica)) {
            cx.send(link, Message::Adopt { view: Box::new(view.clone()) }, None);
        }
    }

    /// The view is the first one of an epoch, and not all that counted have adopted it.
    fn await_confirmation(&mut self, cx: &mut Context<'_, P>, waited: Duration) {
        let settings = &self.config.settings;
        // They may have to wait for the lease of a primary of the epoch before.
        if waited >= settings.deadline + self.lease().honoured()
            && let Some(replica) = self.adoption.awaited().first()
        {
            self.end(cx, EndReason::Unconfirmed(*replica));
        }
    }

    fn answers(&self, wanted: impl Fn(Session) -> bool) -> bool {
        self.membership.mirrors().iter().all(|mirror| {
            mirror
                .ids(mirror.in_sync())
                .all(|id| self.membership.known(id).is_some_and(|p| wanted(p.session())))
        })
    }

    fn has_sources(&self) -> bool {
        self.membership
            .mirrors()
            .iter()
            .all(|mirror| mirror.ids(mirror.in_sync()).any(|id| self.is_usable(id)))
    }

    fn is_open(&self, replica: ReplicaId) -> bool {
        self.membership.known(replica).is_some_and(|peer| peer.open_link().is_some())
    }

    /// Whether an in-sync replica answers, and is the one that the view knows.
    pub(super) fn is_usable(&self, replica: ReplicaId) -> bool {
        self.is_open(replica) && !self.is_stale_clone(replica)
    }

    /// Whether a replica has adopted a newer view than the one read. Another primary may have been
    /// at work since; if not, the coordinator has forgotten it.
    fn is_surprised(&mut self, cx: &mut Context<'_, P>) -> bool {
        let generation = self.generation();
        let Phase::Starting(gathering) = &mut self.phase else { return false };
        if gathering.reports.values().all(|report| report.generation <= generation) {
            return false;
        }
        gathering.surprises += 1;
        if gathering.surprises > 3 {
            self.end(cx, EndReason::CoordinatorBehind);
        } else {
            self.calls.read_at(cx.now + self.config.settings.reconnect_grace);
        }
        true
    }

    /// Has a view committed in which this is the primary. `waited`: since it was started.
    fn take_office(&mut self, cx: &mut Context<'_, P>, waited: Duration) {
        if !self.has_sources() {
            let in_sync =
                self.membership.mirrors().iter().flat_map(|mirror| mirror.ids(mirror.in_sync()));
            let old = in_sync.into_iter().find(|id| self.is_stale_clone(*id));
            return self.end(cx, old.map_or(EndReason::NoData, EndReason::StaleClone));
        }
        if self.hears_predecessor() {
            return self.await_predecessor(cx, waited);
        }
        if self.must_join(cx.now) {
            return self.join(cx, waited);
        }
        let Some(next) = self.inaugural_view() else {
            debug_assert!(false, "each mirror has a replica that can be its source");
            return;
        };
        self.call_swap(cx, next);
    }

    /// Whether a replica has lately answered an earlier primary of this node of which it is not
    /// certain that it has ended.
    fn hears_predecessor(&self) -> bool {
        let (Phase::Starting(gathering), Some(view)) = (&self.phase, &self.view) else {
            return false;
        };
        let me = self.config.id;
        let may_live = |other: &&PrimaryRecord| {
            let is_earlier = other.id.node == me.node && other.id != me;
            is_earlier && self.config.earlier.may_live(other.id.incarnation)
        };
        let earlier = view.primaries.iter().filter(may_live);
        let slots = earlier.fold(0, |slots, other| slots | 1u32 << other.slot);
        !gathering.is_first_of_epoch
            && gathering.reports.values().any(|report| report.slots.heard & slots != 0)
    }

    /// A dead one's lease ends, also at a replica that was restarted in between. One that is
    /// answered longer lives.
    fn await_predecessor(&mut self, cx: &mut Context<'_, P>, waited: Duration) {
        let patience = self.config.settings.deadline + self.lease().honoured() * 2;
        match waited < patience {
            true => self.ask_again(cx),
            false => self.end(cx, EndReason::PredecessorLives),
        }
    }

    /// The view in which this primary takes over. If the last one ended without detaching, one
    /// in-sync replica per mirror is the source, and the others copy from it.
    fn inaugural_view(&self) -> Option<View> {
        let mut view = self.view.clone()?;
        view.mark_confirmed();
        let was_detached = view.primaries.is_empty();
        let mut next = view.successor();
        for (mirror, replicas) in view.mirrors.iter().enumerate() {
            let source = self.choose_source(&view, mirror)?;
            for record in &replicas.replicas {
                let (state, cause) = match record.state {
                    ReplicaState::InSync if self.is_stale_clone(record.id) => {
                        (ReplicaState::Stale, Cause::StaleClone)
                    }
                    ReplicaState::InSync if !self.is_open(record.id) => {
                        (ReplicaState::Stale, Cause::Unreachable)
                    }
                    ReplicaState::InSync if was_detached || record.id == source => {
                        (ReplicaState::InSync, Cause::None)
                    }
                    ReplicaState::InSync => (ReplicaState::Rebuilding, Cause::UncleanEnd),
                    ReplicaState::Rebuilding => (ReplicaState::Stale, record.cause),
                    state => (state, record.cause),
                };
                let incarnation = self.membership.known(record.id).and_then(Peer::incarnation);
                next.appoint(record.id, state, cause, incarnation);
                if self.is_stale_clone(record.id) {
                    let _ = next.distrust(record.id);
                }
            }
        }
        if cfg!(debug_assertions) && !was_detached {
            check_sources(&next);
        }
        next.reservations.begin_anew();
        next.primaries.clear();
        let slot = self.free_slot(&next);
        next.primaries = vec![PrimaryRecord { id: self.config.id, slot }];
        Some(next)
    }

    /// Whether these slots are all that hold anything, as far as the replicas have told.
    pub(super) fn check_slots(&self, slots: u8) -> Result<(), ViewError> {
        let open = self.membership.open_slots();
        match (slots..MAX_PRIMARIES as u8).find(|slot| open & 1 << slot != 0) {
            Some(slot) => Err(ViewError::SlotOpen(slot)),
            None => Ok(()),
        }
    }

    /// The replica whose data count if the last primary did not detach: under A and B the dead
    /// primary's own, also if it has restarted, as others may lack what was acknowledged; then one
    /// that has not restarted, as that may have cost it what no flush covers; then the one that has
    /// adopted most; then the one that is nearest.
    fn choose_source(&self, view: &View, mirror: usize) -> Option<ReplicaId> {
        let Phase::Starting(gathering) = &self.phase else { return None };
        let rank = |record: &&ReplicaRecord| {
            let report = gathering.reports.get(&record.id);
            let same_incarnation =
                report.is_some_and(|report| report.incarnation == record.incarnation);
            let was_local = view.protocol != Protocol::C
                && view.primaries.iter().any(|primary| primary.id.node == record.node);
            let generation = report.map(|report| report.generation);
            let is_here = record.node == self.config.id.node;
            (was_local, same_incarnation, generation, is_here)
        };
        let usable = view.mirrors[mirror].in_sync().filter(|record| self.is_usable(record.id));
        usable.max_by_key(rank).map(|record| record.id)
    }

    /// The inaugural view is committed: from now on this is the primary.
    pub(super) fn started(&mut self, cx: &mut Context<'_, P>, view: View) {
        let parent = self.view.as_ref();
        let follows = parent.and_then(|parent| only_primary_before(parent, &view));
        if self.view.as_ref().is_some_and(|view| !view.primaries.is_empty()) {
            self.writes.inherit();
        }
        self.enter(cx, Phase::Serving);
        self.adoption.take_over(follows);
        let is_joining = view.has_several_primaries();
        self.install(cx, view);
        if is_joining && matches!(self.phase, Phase::Serving) {
            let cluster_lock = self.cluster_lock_for_itself(cx, 0..u64::MAX);
            self.exclusions.join(cluster_lock);
        }
        self.accept_early(cx);
    }
}

/// The only primary of the view that this one replaced. `None` if there was not exactly one, or if
/// views came in between.
fn only_primary_before(parent: &View, view: &View) -> Option<PrimaryId> {
    match parent.primaries.as_slice() {
        [only] if parent.successor().generation == view.generation => Some(only.id),
        _ => None,
    }
}

//! The first view of a primary: by which it takes over from whoever the view names that was read,
//! or joins those that run the volume (rules V1, V4, V5).
//!
//! Joining is one committed view that names one more primary and changes nothing else; the replicas
//! hear of it as of any view, the others when a replica refuses them.

use std::collections::BTreeMap;

use super::adoption::Adoption;
use super::asking::Asking;
use super::primaries::{check_sources, evict, free_slot};
use super::silences::Silences;
use super::{Views, slots_of, slots_of_others};
use crate::ids::*;
use crate::message::ReplicaReport;
use crate::primary::membership::Membership;
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, PrimaryConfig};
use crate::time::Instant;
use crate::view::{Cause, PrimaryRecord, Protocol, ReplicaRecord, ReplicaState, View, ViewError};

/// How often a replica may turn out to have adopted a newer view than the one read, before the
/// coordinator counts as behind.
const MAX_SURPRISES: u32 = 3;

/// What an attach has found so far.
#[derive(Debug)]
pub(in crate::primary) struct Gathering {
    since: Instant,
    /// When the present view was read.
    read_at: Instant,
    reports: BTreeMap<ReplicaId, ReplicaReport>,
    /// How often a replica turned out to have adopted a newer view than the one read.
    surprises: u32,
    /// Whether the view is the first one of an epoch: of the primaries that it names none acts any
    /// more.
    is_first_of_epoch: bool,
}

impl Gathering {
    /// The first view was read, by a primary that was started at `since`.
    pub fn new(since: Instant, is_first_of_epoch: bool, now: Instant) -> Self {
        Self { since, read_at: now, reports: BTreeMap::new(), surprises: 0, is_first_of_epoch }
    }

    /// Since when it is gathered.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// When the present view was read.
    pub fn read_at(&self) -> Instant {
        self.read_at
    }

    pub fn reported(&mut self, replica: ReplicaId, report: ReplicaReport) {
        self.reports.insert(replica, report);
    }

    /// The replicas tell anew what they know.
    pub fn forget_reports(&mut self) {
        self.reports.clear();
    }

    /// A view was read again. `is_first_of_epoch`: if it is another one than before, whether it is
    /// the first one of an epoch.
    pub fn read(&mut self, is_first_of_epoch: Option<bool>, now: Instant) {
        if let Some(is_first_of_epoch) = is_first_of_epoch {
            // A coordinator that goes on has forgotten nothing.
            (self.is_first_of_epoch, self.surprises) = (is_first_of_epoch, 0);
        }
        self.read_at = now;
    }

    /// Whether a replica has adopted a newer view than the one read. Another primary may have been
    /// at work since; if not, the coordinator has forgotten it, which is so in the end: then this
    /// is `Some(true)`.
    pub fn surprise(&mut self, generation: Generation) -> Option<bool> {
        if self.reports.values().all(|report| report.generation <= generation) {
            return None;
        }
        self.surprises += 1;
        Some(self.surprises > MAX_SURPRISES)
    }

    /// Whether some replica has lately answered a primary that has one of these slots.
    fn has_seen(&self, slots: u32) -> bool {
        self.reports.values().any(|report| report.slots.seen & slots != 0)
    }
}

impl Views {
    /// The first view was read. The one of an epoch has to be confirmed.
    pub fn read<P>(
        cx: &Context<'_, P>,
        peers: &mut Membership,
        view: View,
        asking: Asking,
    ) -> Self {
        peers.update(&cx.config, &view, cx.now);
        let mut adoption = Adoption::new(cx.now);
        adoption.confirm_by(view.unconfirmed());
        let (silences, fence_notices) = (Silences::default(), Vec::new());
        Self { view, adoption, asking, silences, fence_notices }
    }

    /// A view was read again before this is a primary. Tells, if it is another one than before,
    /// whether it is the first one of an epoch: then it has to be confirmed.
    pub fn gathered<P>(
        &mut self,
        cx: &Context<'_, P>,
        peers: &mut Membership,
        view: View,
    ) -> Option<bool> {
        let is_other = self.view != view;
        if is_other {
            peers.end_doubt_of_incarnations();
            self.adoption.confirm_by(view.unconfirmed());
        }
        peers.update(&cx.config, &view, cx.now);
        self.view = view;
        is_other.then_some(!self.adoption.is_over())
    }

    /// Whether an in-sync replica answers, and is the one that the view knows.
    fn is_usable(&self, peers: &Membership, replica: ReplicaId) -> bool {
        peers.is_open(replica) && !self.is_stale_clone(peers, replica)
    }

    /// Whether each mirror has a replica from which the others may copy.
    pub fn has_sources(&self, peers: &Membership) -> bool {
        let is_usable = |id| self.is_usable(peers, id);
        peers.mirrors().iter().all(|mirror| mirror.ids(mirror.in_sync()).any(is_usable))
    }

    /// An in-sync replica of which a stale clone was put back.
    pub fn stale_clone(&self, peers: &Membership) -> Option<ReplicaId> {
        let mut in_sync = peers.mirrors().iter().flat_map(|mirror| mirror.ids(mirror.in_sync()));
        in_sync.find(|id| self.is_stale_clone(peers, *id))
    }

    /// Whether a replica has lately answered an earlier primary of this node of which it is not
    /// certain that it has ended.
    pub fn predecessor_was_seen(&self, config: &PrimaryConfig, gathering: &Gathering) -> bool {
        let me = config.id;
        let may_live = |other: &&PrimaryRecord| {
            let is_earlier = other.id.node == me.node && other.id != me;
            is_earlier && config.earlier.may_live(other.id.incarnation)
        };
        let slots = slots_of(self.view.primaries.iter().filter(may_live));
        !gathering.is_first_of_epoch && gathering.has_seen(slots)
    }

    /// Whether others run the volume, as far as the replicas tell, so that this primary has to join
    /// them. Otherwise it takes over from whoever the view names.
    pub fn must_join<P>(&self, cx: &Context<'_, P>, gathering: &Gathering) -> bool {
        let view = &self.view;
        // A replica that has not heard of the view can't tell of its primaries; if they live, it
        // soon will.
        let is_soon = cx.now.since(gathering.since) < view.lease.honoured();
        let is_behind = |report: &ReplicaReport| report.generation < view.generation;
        let may_be_seen = is_soon && gathering.reports.values().any(is_behind);
        let others = slots_of_others(view, &cx.config);
        let are_others = view.is_shared() && others != 0;
        are_others && !gathering.is_first_of_epoch && (may_be_seen || gathering.has_seen(others))
    }

    /// Whether some replica has lately answered one of the primaries on other nodes.
    pub fn others_were_seen(&self, config: &PrimaryConfig, gathering: &Gathering) -> bool {
        gathering.has_seen(slots_of_others(&self.view, config))
    }

    /// An in-sync replica with which no session is open, or not with the incarnation that the
    /// others rely upon.
    pub fn unreached(&self, peers: &Membership) -> Option<ReplicaId> {
        let mut in_sync = self.view.mirrors.iter().flat_map(|mirror| mirror.in_sync());
        let is_reached = |id: ReplicaId, incarnation: Incarnation| {
            let said = peers.known(id).and_then(Peer::incarnation);
            self.is_usable(peers, id) && said == Some(incarnation)
        };
        in_sync.find(|record| !is_reached(record.id, record.incarnation)).map(|record| record.id)
    }

    /// The view in which this primary joins the others.
    pub fn joining_view(
        &self,
        config: &PrimaryConfig,
        peers: &Membership,
    ) -> Result<View, ViewError> {
        let me = config.id;
        let mut view = self.view.clone();
        view.mark_confirmed();
        let mut next = view.successor();
        // They have ended, or no replica has answered them for their lease.
        let dead: Vec<_> =
            view.primaries.iter().map(|other| other.id).filter(|id| id.node == me.node).collect();
        for id in dead {
            evict(&mut next, id, me.node, |replica| self.is_usable(peers, replica));
        }
        if next.primaries.len() >= usize::from(next.intents.slots) {
            return Err(ViewError::TooManyPrimaries);
        }
        let slot = free_slot(peers, &next);
        next.primaries.push(PrimaryRecord { id: me, slot });
        Ok(next)
    }

    /// The view in which this primary takes over. If the last one ended without detaching, one
    /// in-sync replica per mirror is the source, and the others copy from it.
    pub fn inaugural_view(
        &self,
        config: &PrimaryConfig,
        peers: &Membership,
        gathering: &Gathering,
    ) -> Option<View> {
        let mut view = self.view.clone();
        view.mark_confirmed();
        let was_detached = view.primaries.is_empty();
        let mut next = view.successor();
        for (mirror, replicas) in view.mirrors.iter().enumerate() {
            let source = self.choose_source(config, peers, gathering, &view, mirror)?;
            for record in &replicas.replicas {
                let is_stale_clone = self.is_stale_clone(peers, record.id);
                let (state, cause) = match record.state {
                    ReplicaState::InSync if is_stale_clone => {
                        (ReplicaState::Stale, Cause::StaleClone)
                    }
                    ReplicaState::InSync if !peers.is_open(record.id) => {
                        (ReplicaState::Stale, Cause::Unreachable)
                    }
                    ReplicaState::InSync if was_detached || record.id == source => {
                        (ReplicaState::InSync, Cause::None)
                    }
                    ReplicaState::InSync => (ReplicaState::Rebuilding, Cause::UncleanEnd),
                    ReplicaState::Rebuilding => (ReplicaState::Stale, record.cause),
                    state => (state, record.cause),
                };
                let incarnation = peers.known(record.id).and_then(Peer::incarnation);
                next.appoint(record.id, state, cause, incarnation);
                if is_stale_clone {
                    let _ = next.distrust(record.id);
                }
            }
        }
        if cfg!(debug_assertions) && !was_detached {
            check_sources(&next);
        }
        next.reservations.begin_anew();
        next.primaries.clear();
        let slot = free_slot(peers, &next);
        next.primaries = vec![PrimaryRecord { id: config.id, slot }];
        Some(next)
    }

    /// The replica whose data count if the last primary did not detach: under A and B the dead
    /// primary's own, also if it has restarted, as others may lack what was acknowledged; then one
    /// that has not restarted, as that may have cost it what no flush covers; then the one that has
    /// adopted most; then the one that is nearest.
    fn choose_source(
        &self,
        config: &PrimaryConfig,
        peers: &Membership,
        gathering: &Gathering,
        view: &View,
        mirror: usize,
    ) -> Option<ReplicaId> {
        let rank = |record: &&ReplicaRecord| {
            let report = gathering.reports.get(&record.id);
            let same_incarnation =
                report.is_some_and(|report| report.incarnation == record.incarnation);
            let was_local = view.protocol != Protocol::C
                && view.primaries.iter().any(|primary| primary.id.node == record.node);
            let generation = report.map(|report| report.generation);
            let is_here = record.node == config.id.node;
            (was_local, same_incarnation, generation, is_here)
        };
        let in_sync = view.mirrors[mirror].in_sync();
        let usable = in_sync.filter(|record| self.is_usable(peers, record.id));
        usable.max_by_key(rank).map(|record| record.id)
    }

    /// The inaugural view is committed, and installed next. Tells whether the one before named
    /// primaries: they may have acknowledged what no flush covers.
    pub fn take_over(&mut self, view: &View) -> bool {
        self.adoption.take_over(only_primary_before(&self.view, view));
        !self.view.primaries.is_empty()
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

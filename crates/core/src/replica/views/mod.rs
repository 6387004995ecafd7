//! Views: the adopted one, by which a replica works, and the one that is being adopted
//! ([`adoption`]).
//!
//! The lowest of a replica's rooms: it uses none of the others. It never asks who is connected, nor
//! what is under way: whoever takes an adoption further brings what that depends on.

mod adoption;

pub(super) use self::adoption::{Saved, Turn};

use core::ops::Range;

use self::adoption::{Adoption, takes_anything};
use crate::ids::*;
use crate::settings::BLOCK;
use crate::time::Instant;
use crate::view::{MirrorView, ReplicaRecord, ReplicaState, View};

/// How a view goes on from the adopted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// It takes its place.
    Directly,
    /// Others lie between, which this replica has not adopted.
    AfterOthers,
    /// It is of another epoch.
    InAnotherEpoch,
}

/// The view by which a replica works, and the next one.
#[derive(Debug)]
pub(super) struct Views {
    /// The replica that works by them.
    me: ReplicaId,
    /// The adopted view: the one in the superblocks.
    view: View,
    adoption: Adoption,
}

impl Views {
    pub fn new(me: ReplicaId, view: View) -> Self {
        Self { me, view, adoption: Adoption::default() }
    }

    /// The adopted view.
    pub const fn view(&self) -> &View {
        &self.view
    }

    pub const fn generation(&self) -> Generation {
        self.view.generation
    }

    /// What the adopted view says of this replica.
    pub fn record(&self) -> Option<&ReplicaRecord> {
        self.view.replica(self.me).map(|(_, record)| record)
    }

    pub fn state(&self) -> Option<ReplicaState> {
        self.record().map(|record| record.state)
    }

    /// Whether a rebuild copies all of the replica: no bitmap says what it lacks.
    pub fn is_all_out_of_sync(&self) -> bool {
        self.record().is_some_and(|record| record.missing_since.is_none())
    }

    /// The mirror of this replica.
    pub fn mirror(&self) -> Option<&MirrorView> {
        self.view.replica(self.me).map(|(mirror, _)| &self.view.mirrors[mirror])
    }

    /// The replicas from which this one may copy.
    pub fn sources(&self) -> impl Iterator<Item = &ReplicaRecord> {
        self.mirror().into_iter().flat_map(|mirror| mirror.in_sync())
    }

    /// Whether another replica of the mirror is in-sync.
    pub fn is_beside_in_sync(&self) -> bool {
        self.sources().any(|record| record.id != self.me)
    }

    /// Bytes of the replica.
    pub fn size(&self) -> u64 {
        self.view.replica_size()
    }

    /// The blocks of the replica.
    pub fn blocks(&self) -> u64 {
        self.size().div_ceil(u64::from(BLOCK))
    }

    /// The bytes of a run of blocks, cut at the replica's end.
    pub fn bytes_of(&self, blocks: &Range<u64>) -> Range<u64> {
        let block = u64::from(BLOCK);
        blocks.start * block..(blocks.end * block).min(self.size())
    }

    /// Where the bytes of a run of blocks begin, and how many they are.
    pub fn place_of(&self, blocks: &Range<u64>) -> (u64, u32) {
        let bytes = self.bytes_of(blocks);
        (bytes.start, (bytes.end - bytes.start) as u32)
    }

    /// The incarnation of this replica that a view names; zero if none.
    pub fn incarnation_named_by(&self, view: &View) -> Incarnation {
        view.replica(self.me).map_or(Incarnation(0), |(_, record)| record.incarnation)
    }

    /// Whether a message in this generation may be acted upon (W3). Of a view that could not be
    /// saved only the number is known here.
    pub fn is_current(&self, generation: Generation) -> bool {
        generation == self.view.generation && !self.is_paused()
    }

    /// Whether nothing new may be begun: a view is being adopted, or could not be saved.
    pub const fn is_paused(&self) -> bool {
        self.is_adopting() || self.is_unsaved()
    }

    /// Whether a view is being adopted.
    pub const fn is_adopting(&self) -> bool {
        self.adoption.is_under_way()
    }

    /// Whether the last save of a view failed.
    pub const fn is_unsaved(&self) -> bool {
        self.adoption.is_unsaved()
    }

    /// Whether the superblocks are being written.
    pub const fn is_saving(&self) -> bool {
        self.adoption.is_saving()
    }

    /// Whether work of the old generation is still ending.
    pub const fn is_draining(&self) -> bool {
        self.adoption.is_draining()
    }

    /// Whether primaries are waited for.
    pub const fn is_fencing(&self) -> bool {
        self.adoption.is_fencing()
    }

    /// When the adoption is to be gone on with.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.adoption.next_wakeup()
    }

    /// The generation of the last view that was saved: what was refused after it in the hope of a
    /// newer one, whose save failed, does not count as adopted.
    pub fn adopted_generation(&self) -> Generation {
        self.adoption.unsaved_over().unwrap_or(self.view.generation)
    }

    fn adopted_view(&self) -> View {
        View { generation: self.adopted_generation(), ..self.view.clone() }
    }

    /// Whether a view is one that this replica may adopt, or has adopted.
    fn is_successor(&self, view: &View) -> bool {
        let is_same = view.generation == self.view.generation;
        // What could not be saved of an epoch that has ended does not count.
        let newest = match view.is_of_epoch(&self.view) {
            true => self.view.generation,
            false => self.adopted_generation(),
        };
        let is_newer =
            view.generation > newest || *view == self.view || (is_same && self.is_unsaved());
        view.continues(&self.adopted_view())
            && is_newer
            && view.is_valid()
            && view.geometry.is_grown_from(self.view.geometry)
            && view.mirrors.len() == self.view.mirrors.len()
            && view.replica(self.me).is_some()
    }

    /// Whether a view may be adopted now, whose adoption was asked for over this link.
    pub fn turn(&mut self, link: LinkId, view: &View) -> Turn {
        match self.is_successor(view) {
            true => self.adoption.turn(link, view),
            false => Turn::Refused,
        }
    }

    /// Whether a view that may be adopted is the one that is adopted already.
    pub fn is_adopted(&self, view: &View) -> bool {
        view.generation == self.view.generation && !self.is_unsaved()
    }

    /// A view is to be adopted, in place of one that is not being saved yet.
    pub fn begin(&mut self, view: View, adopter: PrimaryId, link: LinkId) {
        self.adoption.begin(view, adopter, link);
    }

    /// A link has closed: over it nobody waits for an adoption any more, or wants one.
    pub fn forget(&mut self, link: LinkId) {
        self.adoption.forget(link);
    }

    /// The view that is being adopted, and who asked for that first.
    pub fn pending(&self) -> Option<(&View, PrimaryId)> {
        self.adoption.pending()
    }

    /// The same, if that view takes anything from anybody: a place, or time that was granted.
    pub fn pending_that_takes(&self) -> Option<(&View, PrimaryId)> {
        self.pending().filter(|(view, _)| takes_anything(&self.view, view))
    }

    /// How a view goes on from the adopted one.
    pub fn follows(&self, view: &View) -> Follows {
        if !view.is_of_epoch(&self.view) {
            Follows::InAnotherEpoch
        } else if view.parent == self.adopted_generation() {
            Follows::Directly
        } else {
            Follows::AfterOthers
        }
    }

    /// Whether a view is being adopted that counts on the data of this replica, or that begins an
    /// epoch.
    pub fn does_pending_count_on_this(&self) -> bool {
        self.pending().is_some_and(|(view, _)| {
            let record = view.replica(self.me).map(|(_, record)| record.state);
            self.follows(view) == Follows::InAnotherEpoch || record == Some(ReplicaState::InSync)
        })
    }

    /// Work of the old generation has ended: primaries may be heard until this moment.
    pub fn fence_until(&mut self, until: Instant) {
        self.adoption.fence_until(until);
    }

    /// Begins the save of the view that is being adopted. Returns it.
    pub fn begin_save(&mut self) -> Option<View> {
        self.adoption.begin_save()
    }

    /// The save of the view has ended. One that is saved is to be [followed](Self::follow).
    pub fn saved(&mut self, succeeded: bool) -> Option<Saved> {
        self.adoption.saved(self.view.generation, succeeded)
    }

    /// This view is adopted from now on. Returns the one before.
    pub fn follow(&mut self, view: View) -> View {
        core::mem::replace(&mut self.view, view)
    }

    /// A view of this generation could not be saved: it is the one that is refused from now on, if
    /// it is the higher one. It can be adopted again.
    pub fn refuse_below(&mut self, generation: Generation) {
        self.view.generation = self.view.generation.max(generation);
    }

    /// Panics if what is being adopted, or could not be saved, is not above what is adopted.
    pub fn check_invariants(&self) {
        self.adoption.check_invariants(self.view.generation);
    }

    /// The view, for tests to break.
    #[cfg(test)]
    pub fn view_mut(&mut self) -> &mut View {
        &mut self.view
    }
}

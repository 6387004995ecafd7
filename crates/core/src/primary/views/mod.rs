//! Views: the one by which a primary works, what is wanted of the next one ([`edits`]) and what
//! becomes of that ([`change`]), its commit by the coordinator ([`calls`]), and its adoption by all
//! members ([`adoption`]); what several primaries of one volume have to do with each other
//! ([`primaries`]), and the first view of one that takes over or joins ([`takeover`]). What is
//! asked of the coordinator there is before the first view, too ([`asking`]).
//!
//! It uses what is known of the replicas ([`super::membership`]). It never touches what is written
//! or read: whoever asks for a change brings what it depends on there ([`Grounds`]), and what
//! follows from a view for requests it leaves to its caller.

pub(super) mod adoption;
mod asking;
pub(super) mod calls;
mod change;
mod coordinator;
pub(super) mod edits;
mod incarnations;
mod install;
mod members;
mod primaries;
mod silences;
pub(super) mod takeover;

pub(super) use self::asking::{Answer, Asking};
pub(super) use self::change::{Grounds, finish_command};
pub(super) use self::coordinator::Newest;
pub(super) use self::install::Installed;

use self::adoption::Adoption;
use self::calls::Calls;
use self::edits::{Edit, Edits};
use self::silences::Silences;
use super::{Context, PrimaryConfig, Stage};
use crate::ids::*;
use crate::time::Instant;
use crate::view::{Cause, Lease, PrimaryRecord, ReplicaState, View};

/// The view by which a primary works, and what becomes of it.
#[derive(Debug)]
pub(super) struct Views {
    /// The newest view in which this is a primary.
    view: View,
    adoption: Adoption,
    asking: Asking,
    silences: Silences,
    /// Links over which a replica said that a newer view excludes this primary.
    fence_notices: Vec<(LinkId, Generation)>,
}

impl Views {
    /// The view by which it works.
    #[inline]
    pub fn view(&self) -> &View {
        &self.view
    }

    #[inline]
    pub fn generation(&self) -> Generation {
        self.view.generation
    }

    /// What a confirmation in the present view is worth.
    #[inline]
    pub fn lease(&self) -> Lease {
        self.view.lease
    }

    #[inline]
    pub fn state_of(&self, replica: ReplicaId) -> Option<ReplicaState> {
        self.view.replica(replica).map(|(_, record)| record.state)
    }

    #[inline]
    pub fn is_member(&self, replica: ReplicaId) -> bool {
        self.state_of(replica).is_some_and(ReplicaState::takes_writes)
    }

    /// Whether others run the volume, too, by the present view.
    #[inline]
    pub fn has_others(&self) -> bool {
        self.view.has_several_primaries()
    }

    /// Whether this primary has had a view committed without itself.
    pub fn has_given_up(&self, config: &PrimaryConfig) -> bool {
        !self.view.has_primary(config.id)
    }

    /// Whether operations may be sent: every member has adopted the view.
    #[inline]
    pub fn can_send(&self, stage: Stage) -> bool {
        stage.is_acting() && self.adoption.is_over()
    }

    /// Who has still to adopt the view.
    #[inline]
    pub fn adoption(&self) -> &Adoption {
        &self.adoption
    }

    /// What the coordinator is asked.
    #[inline]
    pub fn calls(&self) -> &Calls {
        &self.asking.calls
    }

    /// What is wanted that the coordinator is not asked for at present.
    #[inline]
    pub fn edits(&self) -> &Edits {
        &self.asking.edits
    }

    /// Asks for a change of the view. Asking twice is asking once.
    pub fn edit(&mut self, edit: Edit) {
        self.asking.edits.want(edit);
    }

    /// An operator wants a change of the view, and an answer.
    pub fn edit_for(&mut self, command: CommandId, edit: Edit, now: Instant) {
        self.asking.edit_for(command, edit, now);
    }

    /// A member should leave. It does if the mirror can go on without it.
    pub fn wants_to_leave(&mut self, replica: ReplicaId, cause: Cause) {
        let state = match cause {
            Cause::Medium | Cause::NoSpace | Cause::Operator | Cause::OtherHistory => {
                ReplicaState::Faulty
            }
            _ => ReplicaState::Stale,
        };
        if self.is_member(replica) && !self.asking.edits.have_leave(replica) {
            self.edit(Edit::Leave { replica, state, cause });
        }
    }

    /// The view is to be read as soon as no call is under way.
    pub fn read_soon(&mut self) {
        self.asking.calls.read_soon();
    }

    /// The view is to be read at this moment, and nothing asked before.
    pub fn read_at(&mut self, at: Instant) {
        self.asking.calls.read_at(at);
    }

    /// A replica tells of a view of this generation.
    pub fn learn_of(&mut self, generation: Generation) {
        self.asking.calls.learn_of(generation);
    }

    /// A replica says that a newer view excludes this primary.
    pub fn fenced(&mut self, link: LinkId, generation: Generation) {
        if generation > self.generation() {
            self.fence_notices.retain(|(other, _)| *other != link);
            self.fence_notices.push((link, generation));
            self.asking.calls.learn_of(generation);
        }
    }

    /// Whether a replica says that it adopts a newer view, made by another primary, which the
    /// coordinator has not told yet. But for a shared volume, that one excludes this primary.
    pub fn is_said_to_be_excluded(&self) -> bool {
        self.fence_notices.iter().any(|(_, generation)| *generation > self.generation())
    }

    /// The primary ends: takes out who is to be told that it knows of the view that excludes it.
    pub fn take_fence_notices(&mut self) -> Vec<(LinkId, Generation)> {
        core::mem::take(&mut self.fence_notices)
    }

    /// Answers commands that have waited for the coordinator for too long.
    pub fn give_up_commands<P>(&mut self, cx: &mut Context<'_, P>) {
        self.asking.give_up_commands(cx);
    }

    /// The commands that wait for the coordinator.
    pub fn commands(&self) -> Vec<CommandId> {
        self.asking.commands()
    }

    /// The view, for tests to break.
    #[cfg(test)]
    pub fn view_mut(&mut self) -> &mut View {
        &mut self.view
    }

    /// The adoption, for tests to break.
    #[cfg(test)]
    pub fn adoption_mut(&mut self) -> &mut Adoption {
        &mut self.adoption
    }

    /// The primary has ended.
    pub fn forget(&mut self) {
        self.asking.forget();
        self.adoption.forget();
        self.silences.forget();
    }

    /// Panics if a replica is awaited that takes no part, a newer view is not read, or what is
    /// wanted or counted contradicts itself.
    pub fn check_invariants(&self, me: PrimaryId, now: Instant) {
        self.asking.check_invariants(me, now, self.generation());
        self.silences.check_invariants(me, now);
        self.adoption.check_invariants(|id| self.is_member(id));
    }
}

/// The slots of the primaries on other nodes, a bit each.
fn slots_of_others(view: &View, config: &PrimaryConfig) -> u32 {
    let is_other = |other: &&PrimaryRecord| other.id.node != config.id.node;
    slots_of(view.primaries.iter().filter(is_other))
}

/// The slots of these primaries, a bit each.
fn slots_of<'a>(primaries: impl Iterator<Item = &'a PrimaryRecord>) -> u32 {
    primaries.fold(0, |slots, other| slots | 1u32 << other.slot)
}

//! What is wanted of the next view, in the order in which it was wanted.

use std::collections::BTreeSet;

use crate::ids::*;
use crate::time::Instant;
use crate::view::{Cause, Change, Newcomer, ReplicaState};

/// One wanted change of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::primary) enum Edit {
    /// A member leaves.
    Leave { replica: ReplicaId, state: ReplicaState, cause: Cause },
    /// A stale replica rebuilds; from nothing, if what it has is not what it had when it left.
    Admit { replica: ReplicaId, incarnation: Incarnation, is_known: bool },
    /// A rebuilding replica has everything.
    Complete { replica: ReplicaId, incarnation: Incarnation },
    /// An in-sync replica has a new incarnation and has lost nothing.
    Renew { replica: ReplicaId, incarnation: Incarnation },
    /// A replica leaves the volume.
    Remove(ReplicaId),
    /// A faulty replica may return.
    ReAdd(ReplicaId),
    /// Something of the volume as a whole.
    Change(Change),
    /// A replica joins the volume.
    Add(Newcomer),
    /// A replica leaves the volume, whatever its state.
    Retire(ReplicaId),
    /// A spare rebuilds, in the place of one that is not there.
    StandIn { replica: ReplicaId, incarnation: Incarnation, absent: ReplicaId },
    /// The volume becomes larger.
    Grow(u64),
    /// This primary leaves.
    Detach,
    /// Another primary is dead, or was silent for too long.
    Evict(PrimaryId),
}

/// An edit, and the operator's command that it carries out.
#[derive(Debug, Clone, Copy)]
pub(in crate::primary) struct PendingEdit {
    edit: Edit,
    /// The command, and when it came.
    command: Option<(CommandId, Instant)>,
}

/// The wanted changes that the coordinator is not asked for at present.
#[derive(Debug, Default)]
pub(in crate::primary) struct Edits {
    wanted: Vec<PendingEdit>,
}

impl Edit {
    /// Whether an adoption that does not end may be waiting for just this.
    fn unblocks(&self, waits_for: &BTreeSet<ReplicaId>) -> bool {
        match self {
            Self::Leave { replica, .. } | Self::Renew { replica, .. } | Self::Retire(replica) => {
                waits_for.contains(replica)
            }
            _ => false,
        }
    }

    /// Whether it is right only as long as nobody else has changed the view.
    fn rests_on_the_view(&self) -> bool {
        match self {
            Self::Complete { .. }
            | Self::Renew { .. }
            | Self::Admit { .. }
            | Self::StandIn { .. }
            | Self::Evict(_) => true,
            Self::Leave { cause, .. } => *cause != Cause::SourceFailed,
            _ => false,
        }
    }
}

impl PendingEdit {
    pub fn edit(&self) -> Edit {
        self.edit
    }

    /// The operator's command that waits for this edit.
    pub fn command(&self) -> Option<CommandId> {
        self.command.map(|(id, _)| id)
    }

    /// Takes the command away if it came before `limit`.
    pub fn take_command(&mut self, limit: Instant) -> Option<CommandId> {
        self.command.take_if(|(_, came)| *came <= limit).map(|(id, _)| id)
    }
}

impl Edits {
    /// Something is wanted. Wanting it twice is wanting it once.
    pub fn want(&mut self, edit: Edit) {
        if !self.wanted.iter().any(|pending| pending.edit == edit) {
            self.wanted.push(PendingEdit { edit, command: None });
        }
    }

    /// An operator wants something, and an answer.
    pub fn want_for(&mut self, command: CommandId, edit: Edit, now: Instant) {
        self.wanted.push(PendingEdit { edit, command: Some((command, now)) });
    }

    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &PendingEdit> {
        self.wanted.iter()
    }

    /// Whether a replica is to leave.
    pub fn have_leave(&self, replica: ReplicaId) -> bool {
        let leaves =
            |p: &PendingEdit| matches!(p.edit, Edit::Leave { replica: r, .. } if r == replica);
        self.wanted.iter().any(leaves)
    }

    /// Whether an adoption that waits for these replicas may end by one of the edits.
    pub fn unblock(&self, waits_for: &BTreeSet<ReplicaId>) -> bool {
        self.wanted.iter().any(|pending| pending.edit.unblocks(waits_for))
    }

    /// Takes all edits out, to ask the coordinator for them.
    pub fn take(&mut self) -> Vec<PendingEdit> {
        core::mem::take(&mut self.wanted)
    }

    /// The coordinator has not carried these out: they are wanted still, before all others. What
    /// was wanted again meanwhile is wanted once: otherwise they would be more after each call that
    /// is not answered.
    pub fn put_back(&mut self, edits: Vec<PendingEdit>) {
        let since = core::mem::take(&mut self.wanted);
        for pending in edits.into_iter().chain(since) {
            match pending.command {
                Some(_) => self.wanted.push(pending),
                None => self.want(pending.edit),
            }
        }
    }

    /// These are not wanted any more.
    pub fn withdraw(&mut self, is_outdated: impl Fn(Edit) -> bool) {
        self.wanted.retain(|pending| !is_outdated(pending.edit));
    }

    /// Another primary's view is known: what was wanted because of the one before is wanted again
    /// if it is still so.
    pub fn forget_outdated(&mut self) {
        self.wanted
            .retain(|pending| pending.command().is_some() || !pending.edit.rests_on_the_view());
    }

    /// Takes out the edits of commands that came before `limit`, and tells which commands those
    /// are.
    pub fn give_up(&mut self, limit: Instant, given_up: &mut Vec<CommandId>) {
        self.wanted.retain_mut(|pending| match pending.take_command(limit) {
            Some(id) => {
                given_up.push(id);
                false
            }
            None => true,
        });
    }

    /// Panics if something is wanted twice, or a command waits twice, or this primary is to evict
    /// itself. `asked`: what the coordinator is asked for at present.
    pub fn check_invariants(&self, me: PrimaryId, asked: &[PendingEdit]) {
        let own: Vec<_> =
            self.wanted.iter().filter(|p| p.command.is_none()).map(|p| p.edit).collect();
        let twice = own.iter().enumerate().find(|(n, edit)| own[..*n].contains(edit));
        assert!(twice.is_none(), "I11: {twice:?} is wanted twice");
        let commands = self.wanted.iter().chain(asked).filter_map(PendingEdit::command);
        let mut known = BTreeSet::new();
        for command in commands {
            assert!(known.insert(command), "I11: {command:?} waits twice");
        }
        let is_own_end = |pending: &&PendingEdit| pending.edit == Edit::Evict(me);
        let evicts_itself = self.wanted.iter().chain(asked).any(|pending| is_own_end(&pending));
        assert!(!evicts_itself, "V5: this primary is to evict itself");
    }
}

#[cfg(test)]
mod tests;

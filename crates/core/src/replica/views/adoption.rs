//! The view that is being adopted, and whether the last one could be saved.

use crate::ids::*;
use crate::time::Instant;
use crate::view::View;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    pending: Option<Pending>,
    /// The last adoption could not be saved: the generation that the superblocks had before. Of the
    /// newer view, below which all is refused, only the generation is known.
    unsaved_over: Option<Generation>,
}

/// A view that is being adopted.
#[derive(Debug)]
struct Pending {
    view: View,
    /// The primary that asked first.
    adopter: PrimaryId,
    reply_to: Vec<LinkId>,
    phase: Phase,
    /// A newer view that came while the superblocks were being written.
    next: Option<(LinkId, View)>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Work of the old generation ends.
    Draining,
    /// Until this moment, unless all confirmed primaries say that they know.
    Fencing(Instant),
    /// The superblocks are being written.
    Saving,
}

/// What becomes of a view that is to be adopted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replica) enum Turn {
    /// It waits: for the end of its own adoption, or of the one whose save is under way.
    Waits,
    /// It is not newer than the one that is being adopted.
    Refused,
    /// It may be adopted now.
    Now,
}

/// An adoption whose save has ended.
#[derive(Debug)]
pub(in crate::replica) struct Saved {
    pub view: View,
    /// Who waits for the answer.
    pub reply_to: Vec<LinkId>,
    /// A newer view that came meanwhile.
    pub next: Option<(LinkId, View)>,
}

impl Adoption {
    /// Whether a view is being adopted.
    pub const fn is_under_way(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether the superblocks are being written.
    pub const fn is_saving(&self) -> bool {
        matches!(self.pending, Some(Pending { phase: Phase::Saving, .. }))
    }

    /// Whether work of the old generation is still ending.
    pub const fn is_draining(&self) -> bool {
        matches!(self.pending, Some(Pending { phase: Phase::Draining, .. }))
    }

    /// Whether primaries are waited for.
    pub const fn is_fencing(&self) -> bool {
        matches!(self.pending, Some(Pending { phase: Phase::Fencing(_), .. }))
    }

    /// Whether the last save of a view failed.
    pub const fn is_unsaved(&self) -> bool {
        self.unsaved_over.is_some()
    }

    /// The generation of the last view that was saved, if the save of the one after it failed.
    pub const fn unsaved_over(&self) -> Option<Generation> {
        self.unsaved_over
    }

    /// The view that is being adopted, and who asked for that first.
    pub fn pending(&self) -> Option<(&View, PrimaryId)> {
        self.pending.as_ref().map(|pending| (&pending.view, pending.adopter))
    }

    /// When it is to be gone on with.
    pub fn next_wakeup(&self) -> Option<Instant> {
        match self.pending.as_ref()?.phase {
            Phase::Fencing(until) => Some(until),
            Phase::Draining | Phase::Saving => None,
        }
    }

    /// Whether a view may be adopted now, whose adoption was asked for over this link.
    pub fn turn(&mut self, link: LinkId, view: &View) -> Turn {
        match &mut self.pending {
            Some(pending) if pending.view == *view => {
                if !pending.reply_to.contains(&link) {
                    pending.reply_to.push(link);
                }
                Turn::Waits
            }
            Some(pending) if pending.view.generation >= view.generation => Turn::Refused,
            Some(pending) if matches!(pending.phase, Phase::Saving) => {
                pending.next = Some((link, view.clone()));
                Turn::Waits
            }
            Some(_) | None => Turn::Now,
        }
    }

    /// A view is to be adopted, in place of one that is not being saved yet.
    pub fn begin(&mut self, view: View, adopter: PrimaryId, link: LinkId) {
        let reply_to = vec![link];
        self.pending =
            Some(Pending { view, adopter, reply_to, phase: Phase::Draining, next: None });
    }

    /// A link has closed: over it nobody waits for the answer any more, or wants a newer view
    /// adopted.
    pub fn forget(&mut self, link: LinkId) {
        if let Some(pending) = &mut self.pending {
            pending.reply_to.retain(|other| *other != link);
            pending.next.take_if(|(other, _)| *other == link);
        }
    }

    /// Work of the old generation has ended: primaries may be heard until this moment.
    pub fn fence_until(&mut self, until: Instant) {
        if let Some(pending) = &mut self.pending {
            pending.phase = Phase::Fencing(until);
        }
    }

    /// Begins the save of the view. Returns it.
    pub fn begin_save(&mut self) -> Option<View> {
        let pending = self.pending.as_mut()?;
        pending.phase = Phase::Saving;
        Some(pending.view.clone())
    }

    /// The save of the view has ended. If it failed, which of the two views the superblocks hold is
    /// unknown: `adopted` is the generation of the one before.
    pub fn saved(&mut self, adopted: Generation, succeeded: bool) -> Option<Saved> {
        let Pending { view, reply_to, next, .. } = self.pending.take()?;
        if succeeded {
            self.unsaved_over = None;
        } else {
            self.unsaved_over.get_or_insert(adopted);
        }
        Some(Saved { view, reply_to, next })
    }

    /// Panics if a view is not above the one that it takes the place of. `refused_below`: what is
    /// below is refused.
    pub fn check_invariants(&self, refused_below: Generation) {
        let adopted = self.unsaved_over.unwrap_or(refused_below);
        let is_above = self.unsaved_over.is_none_or(|adopted| adopted < refused_below);
        assert!(is_above, "I3: {adopted:?} is adopted, and {refused_below:?} could not be saved");
        // Nothing is being adopted.
        let Some(Pending { view, reply_to, phase, next, .. }) = &self.pending else { return };
        let pending = view.generation;
        assert!(pending > adopted, "I3: {pending:?} is being adopted after {adopted:?}");
        let is_saving = matches!(phase, Phase::Saving);
        let waits_rightly =
            next.as_ref().is_none_or(|(_, next)| is_saving && next.generation > pending);
        assert!(waits_rightly, "I3: another view waits for {pending:?} for nothing");
        let is_twice = |(n, link): (usize, &LinkId)| reply_to[..n].contains(link);
        let is_reported_twice = reply_to.iter().enumerate().any(is_twice);
        assert!(!is_reported_twice, "I11: {pending:?} is answered twice over one link");
    }
}

/// Whether a primary or a member of the old view is none in the new one, or the lease is shorter.
/// Who does not know of that goes on by the old view for as long as it was granted. After a restart
/// a replica knows the lease of its view only; so it adopts a shorter one when nobody counts on the
/// longer one any more.
pub(super) fn takes_anything(old: &View, new: &View) -> bool {
    new.lease.time() < old.lease.time() || drops_anyone(old, new)
}

fn drops_anyone(old: &View, new: &View) -> bool {
    let primary_dropped = old.primaries.iter().any(|record| !new.has_primary(record.id));
    let member_dropped = old.replicas().any(|(_, record)| {
        let stays = |id| new.replica(id).is_some_and(|(_, r)| r.state.takes_writes());
        record.state.takes_writes() && !stays(record.id)
    });
    primary_dropped || member_dropped
}

#[cfg(test)]
mod tests;

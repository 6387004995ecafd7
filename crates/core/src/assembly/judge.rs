//! The first view of a volume that is put together from its disks: only with every replica that the
//! newest view found calls in-sync or rebuilding, unless somebody takes the loss.

use super::Branch;
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::view::{Cause, PrimaryRecord, ReplicaRecord, ReplicaState, View};

/// What a new epoch is begun with.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// Who commits its views: drawn anew, so that no older coordinator is obeyed.
    pub coordinator: CoordinatorId,
    /// The line of descent of its data: drawn anew.
    pub history: History,
    /// Seconds since 1970.
    pub now: u64,
    /// The node that puts the volume together.
    pub here: NodeId,
    /// Go on without in-sync replicas that were not found.
    pub force: bool,
}

/// A replica that was found, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub struct Present<'a> {
    /// Its identity, as its superblocks have it.
    pub replica: ReplicaId,
    /// The incarnations that its superblocks list.
    pub incarnations: Incarnations,
    /// The view in them.
    pub view: &'a View,
    /// The node that has it.
    pub node: NodeId,
}

/// Why a volume cannot be put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Neither a replica was found, nor does the coordinator know it.
    NothingFound,
    /// There are several branches, and nobody chose one of them.
    Diverged,
    /// It is attached somewhere.
    Attached,
    /// In-sync or rebuilding replicas were not found, or what was found is an older copy of them.
    Missing(Vec<ReplicaRecord>),
    /// Of this mirror nothing was found that could be in-sync, which cannot be forced.
    NothingOf(usize),
}

/// The first view of the new epoch: `kept` is the branch that counts, `lost` are the others.
///
/// # Errors
/// See [`Refusal`].
pub fn next_view(
    kept: &View,
    present: &[Present<'_>],
    lost: &[&Branch],
    start: Start,
) -> Result<View, Refusal> {
    let mut next = supersede(kept, present, lost, start);
    for found in present {
        // One that is not in the view has been removed from it.
        let _ = next.relocate(found.replica, found.node);
    }
    let promoted = if start.force { promote(&mut next, kept, present) } else { Vec::new() };
    remember_unclean_end(&mut next, &promoted, present);
    let mut doubts = Doubts::about(kept, present, &promoted, !lost.is_empty());
    take_out(&mut next, &doubts.untrusted, &mut doubts.missing)?;
    for id in doubts.unknown {
        // It is in the view.
        let _ = next.distrust(id);
    }
    if !doubts.missing.is_empty() && !start.force {
        return Err(Refusal::Missing(doubts.missing));
    }
    let absent: Vec<_> = doubts.missing.iter().map(|r| (r.id, Cause::Unreachable)).collect();
    take_out(&mut next, &absent, &mut Vec::new())?;
    take_over(&mut next, start.here);
    for (_, record) in kept.replicas() {
        let was_member = record.state.takes_writes() || promoted.contains(&record.id);
        // One that can't adopt this is as good as one not found.
        let is_able = find(present, record.id).is_none_or(|found| can_adopt(&found, &next));
        if was_member && is_able && !absent.iter().any(|(id, _)| *id == record.id) {
            // An old primary that nobody sees may go on with it, until it has adopted this.
            next.mark_unconfirmed(record.id);
        }
    }
    Ok(next)
}

/// The kept branch's next view, of a new epoch: it supersedes all the others, and all they came
/// from, for somebody may have been left behind there.
fn supersede(kept: &View, present: &[Present<'_>], lost: &[&Branch], start: Start) -> View {
    let mut base = kept.clone();
    for branch in lost {
        base.supersede_all(&branch.head, start.now);
    }
    let mut next = base.next_epoch(start.coordinator, start.history, start.now);
    let newest = lost.iter().map(|branch| branch.head.generation).max().unwrap_or(Generation(0));
    next.generation = next.generation.max(newest.next());
    if let (Some(epoch), Some(last)) = (next.epochs.first_mut(), last_found(kept, present)) {
        epoch.last = last;
    }
    next
}

/// What can't be relied upon of what the kept view says.
#[derive(Debug, Default)]
struct Doubts {
    /// Members that may have what nobody else has, and were not found.
    missing: Vec<ReplicaRecord>,
    /// Those that were found and are not what the view says.
    untrusted: Vec<(ReplicaId, Cause)>,
    /// Those that were not found, and of which the view does not know what they lack.
    unknown: Vec<ReplicaId>,
}

impl Doubts {
    fn about(
        kept: &View,
        present: &[Present<'_>],
        promoted: &[ReplicaId],
        has_lost_branches: bool,
    ) -> Self {
        let mut doubts = Self::default();
        for (_, record) in kept.replicas().filter(|(_, r)| !promoted.contains(&r.id)) {
            match (find(present, record.id), record.state) {
                (Some(found), _) if !is_of(found.view, kept) => {
                    doubts.untrusted.push((record.id, Cause::Operator));
                }
                (Some(found), ReplicaState::InSync) if !is_as_recorded(&found, record) => {
                    doubts.untrusted.push((record.id, Cause::Restarted));
                }
                (Some(_), _) => {}
                // One that was rebuilding may have become in-sync by a view that those found were
                // dropped by.
                (None, ReplicaState::InSync | ReplicaState::Rebuilding) => {
                    doubts.missing.push(*record);
                }
                // It may have gone on before it heard of this epoch.
                (None, _) if record.cause == Cause::Unconfirmed => doubts.missing.push(*record),
                // It may have gone on with another branch, of which only its own disk tells.
                (None, ReplicaState::Stale | ReplicaState::Faulty) if has_lost_branches => {
                    doubts.unknown.push(record.id);
                }
                (None, _) => {}
            }
        }
        doubts
    }
}

/// The last generation of an epoch that a replica found has adopted. One that is missing and has
/// adopted a later one may have writes that none of those found has: should it return, it counts as
/// written apart.
fn last_found(kept: &View, present: &[Present<'_>]) -> Option<Generation> {
    let views = present.iter().map(|found| found.view);
    let of_epoch =
        views.filter(|view| view.is_of_epoch(kept) && view.generation <= kept.generation);
    of_epoch.map(|view| view.generation).max()
}

fn find<'a>(present: &[Present<'a>], id: ReplicaId) -> Option<Present<'a>> {
    present.iter().find(|found| found.replica == id).copied()
}

/// Where nothing that counts as in-sync was found of a mirror: the newest replica that was in-sync
/// in the view that it has adopted itself. It is as it was when it left, and the others are copied
/// from it as a whole. Returns who was chosen.
fn promote(next: &mut View, kept: &View, present: &[Present<'_>]) -> Vec<ReplicaId> {
    let mut promoted = Vec::new();
    for mirror in &kept.mirrors {
        let counts = |record: &ReplicaRecord| {
            find(present, record.id)
                .is_some_and(|found| is_of(found.view, kept) && is_as_recorded(&found, record))
        };
        if mirror.in_sync().any(counts) {
            continue;
        }
        let was_in_sync = |found: &Present<'_>| {
            let view = found.view;
            let own = view.replica(found.replica);
            let is_able = is_of(view, kept) && can_adopt(found, kept);
            is_able && own.is_some_and(|(_, r)| r.state == ReplicaState::InSync)
        };
        let found = mirror.replicas.iter().filter_map(|record| find(present, record.id));
        let best = found.filter(was_in_sync).max_by_key(|found| found.view.generation);
        let Some(best) = best else { continue };
        let (id, incarnation) = (best.replica, best.incarnations.newest());
        // It may be one by an incarnation that this disk does not list: then the view is to name
        // one that it does.
        if next.replica(id).is_some_and(|(_, record)| record.state.takes_writes()) {
            next.appoint(id, ReplicaState::Stale, Cause::None, None);
        }
        // It is in the view, and stale.
        let _ = next.admit(id, incarnation);
        let _ = next.complete(id, incarnation);
        for other in mirror.replicas.iter().filter(|record| record.id != id) {
            // All are in the view.
            let _ = next.distrust(other.id);
        }
        promoted.push(id);
    }
    promoted
}

/// Who is taken as it was when it left was not detached then, however the others were later: what
/// is open there may not be durable.
fn remember_unclean_end(next: &mut View, promoted: &[ReplicaId], present: &[Present<'_>]) {
    let views = promoted.iter().filter_map(|id| find(present, *id)).map(|found| found.view);
    let last = views.flat_map(|view| &view.primaries).next().copied();
    if let (Some(last), true) = (last, next.primaries.is_empty()) {
        next.primaries = vec![PrimaryRecord { slot: 0, ..last }];
    }
}

/// Whether a replica with this view belongs to the branch of `head`.
fn is_of(view: &View, head: &View) -> bool {
    view.generation <= head.generation && head.continues(view)
}

/// Whether a replica can adopt a view of another epoch: not if it has grown on another branch, for
/// it never becomes smaller.
fn can_adopt(found: &Present<'_>, next: &View) -> bool {
    found.view.replica_size() <= next.replica_size()
}

/// Whether an in-sync replica is the one that the view knows, not an older copy of its disk: it
/// lists the incarnation that the view names, and was saved since it became in-sync.
fn is_as_recorded(found: &Present<'_>, record: &ReplicaRecord) -> bool {
    found.incarnations.knows(record.incarnation) && found.view.generation >= record.since
}

/// Makes replicas stale that have to be copied as a whole. One that its mirror cannot do without is
/// told as missing.
fn take_out(
    next: &mut View,
    replicas: &[(ReplicaId, Cause)],
    missing: &mut Vec<ReplicaRecord>,
) -> Result<(), Refusal> {
    for (id, cause) in replicas {
        let Some((mirror, record)) = next.replica(*id).map(|(mirror, record)| (mirror, *record))
        else {
            continue;
        };
        let was_stale = matches!(record.state, ReplicaState::Stale);
        if !was_stale && next.leave(*id, ReplicaState::Stale, *cause).is_err() {
            match cause {
                Cause::Restarted => missing.push(record),
                _ => return Err(Refusal::NothingOf(mirror)),
            }
        }
        let is_out = next.replica(*id).is_some_and(|(_, r)| r.state == ReplicaState::Stale);
        if is_out {
            // It is in the view.
            let _ = next.distrust(*id);
        }
    }
    Ok(())
}

/// What an old primary did not finish is made equal when the volume is attached. Its node may be
/// unknown here, so it counts as one of this node.
fn take_over(next: &mut View, here: NodeId) {
    if let Some(last) = next.primaries.first() {
        let id = PrimaryId { node: here, incarnation: last.id.incarnation };
        next.primaries = vec![PrimaryRecord { id, slot: last.slot }];
    }
}

#[cfg(test)]
mod tests;

//! What putting a volume together keeps and what it discards, told before it is done.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use evenkeel_api::types::{
    AssembleOutcome, AssemblePlan, AssemblePlanAnswer, AssemblePlanQuery, AssembleRequest,
    DiscardedReplica, KeptReplica, VERSION,
};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::assembly::Branch;
use evenkeel_core::{ReplicaRecord, ReplicaState, View};

use super::{Candidate, KnownStep, Next, Refused, Refusing, Replica, register, split};
use crate::volumes::Node;

/// What putting volumes together would keep and discard. Nothing is changed.
///
/// # Errors
/// As [`super::assemble`]. What is refused of one of several volumes is told in the answer.
pub async fn plan(
    node: &Arc<Node>,
    query: AssemblePlanQuery,
) -> Result<AssemblePlanAnswer, ApiError> {
    let AssemblePlanQuery { volume, paths, force, keep, save_differing } = query;
    let paths = paths.iter().flat_map(|paths| paths.lines()).map(str::to_owned).collect();
    let request =
        AssembleRequest { volume, paths, force, keep, save_differing, ..Default::default() };
    let (candidates, warnings) = super::wanted(node, &request).await?;
    let mut volumes = Vec::new();
    for candidate in candidates {
        volumes.push(one(node, &candidate, &request).await);
    }
    Ok(AssemblePlanAnswer { version: VERSION, volumes, warnings })
}

async fn one(node: &Arc<Node>, candidate: &Candidate, request: &AssembleRequest) -> AssemblePlan {
    let mut plan = AssemblePlan {
        id: candidate.id.to_string(),
        name: candidate.name.clone(),
        outcome: AssembleOutcome::Refused,
        message: String::new(),
        error: None,
        split: None,
        keeps: Vec::new(),
        rebuilds: Vec::new(),
        discards: Vec::new(),
    };
    match reported(node, candidate, request, &mut plan).await {
        Ok((outcome, message)) => (plan.outcome, plan.message) = (outcome, message),
        Err(refused) => {
            let Refusing { error, split } = *refused;
            (plan.message, plan.error, plan.split) = (error.why.clone(), Some(error), split);
        }
    }
    plan
}

async fn reported(
    node: &Arc<Node>,
    candidate: &Candidate,
    request: &AssembleRequest,
    plan: &mut AssemblePlan,
) -> Result<(AssembleOutcome, String), Refused> {
    let name = &candidate.name;
    let what = format!("cannot assemble volume {name}");
    let next = super::judged(node, candidate, request, &what).await?;
    let Some(view) = &next.view else {
        return known(node, candidate, plan, &what).await.map_err(Into::into);
    };
    let mut parts = Parts::of(node, candidate, &next, view);
    refuse_other_than(request, &parts, &what)?;
    register::refuse_name_in_use(node, candidate, &what).await?;
    if let Some(file) = &request.save_differing {
        split::refuse_files(candidate, &next, Path::new(file), &what)?;
    }
    for branch in next.lost() {
        parts.note_losses(node, candidate, next.branch(), branch).await;
    }
    let generation = next.branch().head.generation;
    (plan.keeps, plan.rebuilds, plan.discards) = (parts.keeps, parts.rebuilds, parts.discards);
    let message = format!("volume {name} would be assembled from generation {generation}");
    Ok((AssembleOutcome::Assembled, message))
}

/// Of a volume that the coordinator knows as the disks do nothing is discarded.
async fn known(
    node: &Node,
    candidate: &Candidate,
    plan: &mut AssemblePlan,
    what: &str,
) -> Result<(AssembleOutcome, String), ApiError> {
    let name = &candidate.name;
    let (view, reported) = match super::known_step(candidate, what)? {
        KnownStep::Moves(view) => {
            register::refuse_name_in_use(node, candidate, what).await?;
            let message = format!("the new places of the replicas of volume {name} would be noted");
            (*view, (AssembleOutcome::Assembled, message))
        }
        KnownStep::Opens(view) => {
            let message = format!("volume {name} would be opened again");
            (view.clone(), (AssembleOutcome::Assembled, message))
        }
        KnownStep::Nothing(view) => {
            let message = format!("volume {name} is assembled already");
            (view.clone(), (AssembleOutcome::Unchanged, message))
        }
    };
    for (mirror, record) in view.replicas() {
        let kept = kept(node, candidate, mirror, record);
        match record.state {
            ReplicaState::InSync => plan.keeps.push(kept),
            _ => plan.rebuilds.push(kept),
        }
    }
    Ok(reported)
}

/// The replicas of a volume that goes on by a new view, by what becomes of them.
pub(super) struct Parts {
    keeps: Vec<KeptReplica>,
    rebuilds: Vec<KeptReplica>,
    discards: Vec<DiscardedReplica>,
}

impl Parts {
    /// Without what the discarded ones lose.
    pub(super) fn of(node: &Node, candidate: &Candidate, next: &Next, view: &View) -> Self {
        let mut parts = Self { keeps: Vec::new(), rebuilds: Vec::new(), discards: Vec::new() };
        for branch in next.lost() {
            for replica in split::own(candidate, branch, &next.branches) {
                parts.discards.push(discarded(&found(replica)));
            }
        }
        let head = &next.branch().head;
        for (mirror, record) in view.replicas() {
            let kept = kept(node, candidate, mirror, record);
            let was_in_sync =
                head.replica(record.id).is_some_and(|(_, r)| r.state == ReplicaState::InSync);
            match record.state {
                _ if parts.discards.iter().any(|replica| replica.id == kept.id) => {}
                ReplicaState::InSync => parts.keeps.push(kept),
                _ if was_in_sync => parts.discards.push(discarded(&kept)),
                _ => parts.rebuilds.push(kept),
            }
        }
        parts
    }

    /// How much each replica of a branch that is not kept loses: what differs from the one that is.
    async fn note_losses(
        &mut self,
        node: &Arc<Node>,
        candidate: &Candidate,
        kept: &Branch,
        lost: &Branch,
    ) {
        // Of what can't be compared it is not told how much is lost.
        let Ok(by_mirror) = split::losses(node, candidate, kept, lost).await else { return };
        let is_lost = |id: &str| {
            let mut members = lost.members.iter().filter_map(|i| candidate.replicas.get(*i));
            members.any(|replica| replica.superblock.replica.to_string() == id)
        };
        for replica in self.discards.iter_mut().filter(|replica| is_lost(&replica.id)) {
            replica.loses = by_mirror.get(replica.mirror).copied();
        }
    }
}

/// Refuses to discard what nobody has agreed to.
///
/// # Errors
/// With those that were not agreed to, if the request names what may be discarded and another
/// replica would be.
pub(super) fn refuse_other_than(
    request: &AssembleRequest,
    parts: &Parts,
    what: &str,
) -> Result<(), ApiError> {
    let Some(agreed) = &request.discards else { return Ok(()) };
    let agreed: BTreeSet<&str> = agreed.iter().map(String::as_str).collect();
    let places = |wanted: &dyn Fn(&DiscardedReplica) -> bool| -> Vec<&str> {
        let discards = parts.discards.iter().filter(|replica| wanted(replica));
        discards.map(|replica| replica.place.as_str()).collect()
    };
    let unnamed = places(&|replica| !agreed.contains(replica.id.as_str()));
    if unnamed.is_empty() {
        return Ok(());
    }
    let why = format!(
        "other replicas would be discarded than were agreed to\nto be discarded now: {}\nnot agreed to: {}",
        places(&|_| true).join(", "),
        unnamed.join(", ")
    );
    let advice = "Nothing was done. Look again (--dry-run), then give the command again";
    Err(ApiError::new(ErrorCode::WrongState, what, why, advice))
}

fn discarded(of: &KeptReplica) -> DiscardedReplica {
    let KeptReplica { id, place, mirror, generation, saved } = of.clone();
    DiscardedReplica { id, place, mirror, generation, saved, loses: None }
}

fn found(replica: &Replica) -> KeptReplica {
    let superblock = &replica.superblock;
    KeptReplica {
        id: superblock.replica.to_string(),
        place: replica.place(),
        mirror: superblock.mirror as usize,
        generation: Some(superblock.view.generation.0),
        saved: Some(superblock.saved).filter(|saved| *saved != 0),
    }
}

/// As it was found, or else as it is known.
fn kept(node: &Node, candidate: &Candidate, mirror: usize, record: &ReplicaRecord) -> KeptReplica {
    let is_it = |replica: &&Replica| replica.superblock.replica == record.id;
    if let Some(replica) = candidate.replicas.iter().find(is_it) {
        return KeptReplica { mirror, ..found(replica) };
    }
    let id = record.id.to_string();
    let name = node.coordinator.node_ref(record.node).name;
    let placed = candidate.known.iter().flat_map(|(stored, _)| &stored.record.replicas);
    let disk = placed.filter(|placed| placed.id == id).map(|placed| placed.disk.as_str()).next();
    let place = disk.map_or_else(|| name.clone(), |disk| format!("{name}:{disk}"));
    KeptReplica { id, place, mirror, generation: None, saved: None }
}

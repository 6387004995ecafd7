//! Putting volumes together from their disks: a stopped one, one that the coordinator does not know
//! (new machines with old disks, or its database was lost), one whose replicas were written apart.
//!
//! Nothing on the disks is changed here. The coordinator is given the first view of a new era, and
//! the replicas adopt that when the volume is attached, if what they hold is superseded by it:
//! see [`evenkeel_core::View::continues`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_core::{CoordinatorId, Lineage, ReplicaId, View, VolumeId};

use super::lookup::{self, unexpected};
use super::stop;
use crate::api::types::{AssembleAnswer, AssembleOutcome, AssembleRequest, Assembled, VERSION};
use crate::api::{ApiError, ErrorCode};
use crate::coordinator::{Answer, Request, StoredVolume, unix_seconds};
use crate::identity::random_u128;
use crate::node::Node;

mod compare;
pub mod found;
mod judge;
mod refusals;
mod register;
mod sides;
mod split;

pub use compare::{PIECE, read_piece};
use found::{Everything, Replica};
use judge::{Present, Start};
use register::register;
use sides::{Side, sides};

/// A volume of which something was found, or that the coordinator knows.
struct Candidate {
    id: VolumeId,
    name: String,
    /// As the coordinator knows it.
    known: Option<(StoredVolume, View)>,
    replicas: Vec<Replica>,
    /// The node on which it is attached.
    attached: Option<String>,
}

/// Puts one volume together, or all that are found.
///
/// # Errors
/// If the coordinator does not answer, or nothing is found of the volume that was named. What is
/// refused of one of several volumes is told in the answer.
pub async fn assemble(
    node: &Arc<Node>,
    request: AssembleRequest,
) -> Result<AssembleAnswer, ApiError> {
    let what = match &request.volume {
        Some(name) => format!("cannot assemble volume {name}"),
        None => "cannot assemble volumes".to_owned(),
    };
    check(&request, &what)?;
    let known = known(node, &what).await?;
    let everything = found::everything(node, &request.paths).await?;
    let (candidates, mut warnings) = candidates(known, everything);
    let wanted = |candidate: &Candidate| {
        let is = |name: &String| *name == candidate.name || *name == candidate.id.to_string();
        request.volume.as_ref().is_none_or(is)
    };
    let candidates: Vec<Candidate> = candidates.into_iter().filter(wanted).collect();
    if candidates.is_empty() && request.volume.is_some() {
        return Err(refusals::nothing_found(&what, &warnings));
    }
    if candidates.len() > 1 && request.volume.is_some() {
        return Err(refusals::ambiguous(&what, &candidates));
    }
    let mut volumes = Vec::new();
    for candidate in candidates {
        volumes.push(one(node, candidate, &request, &mut warnings).await);
    }
    Ok(AssembleAnswer { version: VERSION, volumes, warnings })
}

fn check(request: &AssembleRequest, what: &str) -> Result<(), ApiError> {
    let refuse =
        |why: &str, action: &str| Err(ApiError::new(ErrorCode::BadRequest, what, why, action));
    if request.volume.is_none() && (request.keep.is_some() || request.force) {
        return refuse("force and keep are for one volume", "Name the volume");
    }
    if request.save_differing.is_some() && request.keep.is_none() {
        return refuse("what is saved is what `keep` overwrites", "Name the replica to keep");
    }
    let paths = request.paths.iter().chain(&request.save_differing);
    match paths.into_iter().find(|path| !path.starts_with('/')) {
        Some(path) => refuse(&format!("the path {path:?} is relative"), "Give it from the root"),
        None => Ok(()),
    }
}

async fn known(node: &Node, what: &str) -> Result<Vec<(StoredVolume, View)>, ApiError> {
    match node.coordinator.ask(what, Request::Volumes).await? {
        Answer::Volumes(stored) => {
            let decode = |stored| lookup::decode(what, stored).map(|f| (f.stored, f.view));
            stored.into_iter().map(decode).collect()
        }
        other => Err(unexpected(what, &other)),
    }
}

/// What is known and what was found, by volume. A replica that is found twice is a copy of a disk:
/// the older one is left out.
fn candidates(
    known: Vec<(StoredVolume, View)>,
    everything: Everything,
) -> (Vec<Candidate>, Vec<String>) {
    let Everything { replicas, attached, mut warnings } = everything;
    let mut newest: BTreeMap<ReplicaId, Replica> = BTreeMap::new();
    for replica in replicas {
        let id = replica.superblock.replica;
        let Some(other) = newest.get(&id) else {
            newest.insert(id, replica);
            continue;
        };
        let (older, newer) = match other.superblock.sequence < replica.superblock.sequence {
            true => (other.place(), replica.place()),
            false => (replica.place(), other.place()),
        };
        warnings.push(format!(
            "replica {id} is there twice: the older copy, {older}, is left out, and {newer} counts"
        ));
        if other.superblock.sequence < replica.superblock.sequence {
            newest.insert(id, replica);
        }
    }
    let mut volumes: BTreeMap<VolumeId, Candidate> = BTreeMap::new();
    for (stored, view) in known {
        let name = stored.record.name.clone();
        let id = view.volume;
        let candidate = Candidate {
            id,
            name,
            known: Some((stored, view)),
            replicas: Vec::new(),
            attached: None,
        };
        volumes.insert(id, candidate);
    }
    for replica in newest.into_values() {
        let (id, name) = (replica.superblock.volume, replica.superblock.name.clone());
        let empty = || Candidate { id, name, known: None, replicas: Vec::new(), attached: None };
        volumes.entry(id).or_insert_with(empty).replicas.push(replica);
    }
    for (volume, place) in attached {
        let candidate = volume.parse().ok().and_then(|id| volumes.get_mut(&id));
        if let Some(candidate) = candidate {
            candidate.attached = Some(place);
        }
    }
    (volumes.into_values().collect(), warnings)
}

/// Puts one volume together, and tells what became of it.
async fn one(
    node: &Arc<Node>,
    candidate: Candidate,
    request: &AssembleRequest,
    warnings: &mut Vec<String>,
) -> Assembled {
    let (id, name) = (candidate.id.to_string(), candidate.name.clone());
    let _changing = node.volumes.change(candidate.id).await;
    match decide(node, &candidate, request, warnings).await {
        Ok((outcome, message)) => {
            tracing::info!(volume = name, "{message}");
            Assembled { id, name, outcome, message, error: None, split: None }
        }
        Err(refused) => {
            let (error, split) = *refused;
            let (outcome, message) = (AssembleOutcome::Refused, error.why.clone());
            Assembled { id, name, outcome, message, error: Some(error), split }
        }
    }
}

/// A refusal, with how the sides differ if that is why.
type Refused = Box<(ApiError, Option<crate::api::types::SplitBrain>)>;

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Box::new((error, None))
    }
}

async fn decide(
    node: &Arc<Node>,
    candidate: &Candidate,
    request: &AssembleRequest,
    warnings: &mut Vec<String>,
) -> Result<(AssembleOutcome, String), Refused> {
    let what = format!("cannot assemble volume {}", candidate.name);
    // What was found comes first, so that its numbers are those of the replicas.
    let views: Vec<&View> = candidate
        .replicas
        .iter()
        .map(|replica| &replica.superblock.view)
        .chain(candidate.known.iter().map(|(_, view)| view))
        .collect();
    let mut sides = sides(&views);
    let mut lost = Vec::new();
    if sides.len() > 1 {
        let Some(keep) = &request.keep else {
            return Err(split::refuse(node, candidate, &sides, &what).await);
        };
        if let Some(place) = &candidate.attached {
            return Err(refusals::attached(&what, place).into());
        }
        let kept = split::choose(candidate, &sides, keep, &what)?;
        let kept = sides.swap_remove(kept);
        lost = std::mem::replace(&mut sides, vec![kept]);
        if let Some(file) = &request.save_differing {
            let file = PathBuf::from(file);
            let saved = split::save(node, candidate, &sides[0], &lost, &file, &what).await?;
            warnings.extend(saved);
        }
    }
    let Some(side) = sides.first() else { return Err(refusals::nothing_found(&what, &[]).into()) };
    if lost.is_empty() && is_known(candidate, side) {
        let is_whole = || first_view(node, candidate, side, &[], false, &what).is_ok();
        if !request.force || candidate.attached.is_some() || is_whole() {
            return known_here(node, candidate, &what).await.map_err(Into::into);
        }
    }
    if let Some(place) = &candidate.attached {
        return Err(refusals::attached(&what, place).into());
    }
    let view = first_view(node, candidate, side, &lost, request.force, &what)?;
    register(node, candidate, &view, warnings, &what).await?;
    let message = words(candidate, side, &view, &lost);
    Ok((AssembleOutcome::Assembled, message))
}

/// Whether the coordinator knows the newest view. While a volume is attached its replicas may be a
/// moment ahead of what was read there.
fn is_known(candidate: &Candidate, side: &Side) -> bool {
    let Some((_, view)) = &candidate.known else { return false };
    let era = |view: &View| (view.coordinator, view.lineage);
    *view == side.head || (candidate.attached.is_some() && era(view) == era(&side.head))
}

fn words(candidate: &Candidate, side: &Side, view: &View, lost: &[Side]) -> String {
    let count = view.replicas().filter(|(_, r)| r.state == evenkeel_core::ReplicaState::InSync);
    let resolved = match lost.len() {
        0 => "",
        _ => "; the side that was not kept is rebuilt when it is attached",
    };
    format!(
        "volume {} is assembled from generation {}: {} in-sync, {} of {} replicas found{resolved}",
        candidate.name,
        side.head.generation,
        count.count(),
        candidate.replicas.len(),
        view.replicas().count(),
    )
}

/// A volume that the coordinator knows as the disks do: it is opened again if it was stopped, and
/// disks that were moved are found at their new places.
async fn known_here(
    node: &Arc<Node>,
    candidate: &Candidate,
    what: &str,
) -> Result<(AssembleOutcome, String), ApiError> {
    let Some((stored, view)) = &candidate.known else {
        return Err(refusals::nothing_found(what, &[]));
    };
    let name = &candidate.name;
    let mut next = view.successor();
    for replica in &candidate.replicas {
        // Of a replica that was taken out, nothing is to be noted.
        let _ = next.relocate(replica.superblock.replica, replica.node);
    }
    let moved = next.mirrors != view.mirrors;
    if moved && candidate.attached.is_none() {
        register(node, candidate, &next, &mut Vec::new(), what).await?;
        let message = format!("volume {name} is known: the new places of its replicas are noted");
        return Ok((AssembleOutcome::Assembled, message));
    }
    if !stored.record.stopped {
        let message = format!("volume {name} is assembled already");
        return Ok((AssembleOutcome::Unchanged, message));
    }
    stop::set(node, candidate.id, false, what).await?;
    stop::tell(node, view).await;
    Ok((AssembleOutcome::Assembled, format!("volume {name} is not stopped any more")))
}

fn first_view(
    node: &Node,
    candidate: &Candidate,
    side: &Side,
    lost: &[Side],
    force: bool,
    what: &str,
) -> Result<View, ApiError> {
    let present: Vec<Present<'_>> = candidate
        .replicas
        .iter()
        .map(|replica| Present { superblock: &replica.superblock, node: replica.node })
        .collect();
    let start = Start {
        coordinator: CoordinatorId(random_u128()),
        lineage: Lineage(random_u128()),
        now: unix_seconds(),
        here: node.identity.node,
        force,
    };
    judge::next_view(&side.head, &present, lost, start)
        .map_err(|refusal| refusals::incomplete(node, candidate, side, refusal, what))
}

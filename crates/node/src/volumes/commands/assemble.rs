//! Putting volumes together from their disks: a stopped one, one that the coordinator does not know
//! (new machines with old disks, or its database was lost), one whose replicas have diverged.
//!
//! Nothing on the disks is changed here. The coordinator is given the first view of a new epoch,
//! and the replicas adopt that when the volume is attached, if what they hold is superseded by it:
//! see [`evenkeel_core::View::continues`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_api::types::{
    AssembleAnswer, AssembleOutcome, AssembleRequest, Assembled, SplitBrain, VERSION,
};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::assembly::{Branch, Decision, Present, Question, Refusal, Start, branches};
use evenkeel_core::{CoordinatorId, History, ReplicaId, View, VolumeId};

use super::stop;
use crate::clock::unix_seconds;
use crate::coordinator::{Answer, Request, StoredVolume};
use crate::random::random_u128;
use crate::volumes::Node;
use crate::volumes::attachment::actor::{Turn, turn};
use crate::volumes::lookup::{self, unexpected};

mod compare;
mod plan;
mod refusals;
mod register;
mod split;

use crate::volumes::replicas::found::{self, Everything, Replica};
pub use compare::{PIECE, read_piece};
pub use plan::plan;
use register::register;

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
    let (candidates, mut warnings) = wanted(node, &request).await?;
    let mut volumes = Vec::new();
    for candidate in candidates {
        volumes.push(one(node, candidate, &request, &mut warnings).await);
    }
    Ok(AssembleAnswer { version: VERSION, volumes, warnings })
}

/// The volumes that are meant, with what was found of them, and what could not be looked at.
async fn wanted(
    node: &Arc<Node>,
    request: &AssembleRequest,
) -> Result<(Vec<Candidate>, Vec<String>), ApiError> {
    let what = match &request.volume {
        Some(name) => format!("cannot assemble volume {name}"),
        None => "cannot assemble volumes".to_owned(),
    };
    check(request, &what)?;
    let known = known(node, &what).await?;
    let everything = found::everything(node, &request.paths).await?;
    let (candidates, warnings) = candidates(known, everything);
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
    Ok((candidates, warnings))
}

fn check(request: &AssembleRequest, what: &str) -> Result<(), ApiError> {
    let refuse =
        |why: &str, action: &str| Err(ApiError::new(ErrorCode::BadRequest, what, why, action));
    if request.volume.is_none() && request.discards.is_some() {
        return refuse("what may be discarded is named for one volume", "Name the volume");
    }
    if request.volume.is_none() && (request.keep.is_some() || request.force) {
        return refuse("--force and --keep are for one volume", "Name the volume");
    }
    if request.save_differing.is_some() && request.keep.is_none() {
        return refuse("--save-differing saves what --keep overwrites", "Name the replica to keep");
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

/// The newest copy of each replica. Older ones are told of.
fn newest(
    replicas: impl IntoIterator<Item = Replica>,
    warnings: &mut Vec<String>,
) -> BTreeMap<ReplicaId, Replica> {
    let mut newest: BTreeMap<ReplicaId, Replica> = BTreeMap::new();
    for replica in replicas {
        let id = replica.superblock.replica;
        let Some(other) = newest.get(&id) else {
            newest.insert(id, replica);
            continue;
        };
        let is_newer = other.superblock.sequence < replica.superblock.sequence;
        let (older, newer) = match is_newer {
            true => (other.place(), replica.place()),
            false => (replica.place(), other.place()),
        };
        warnings.push(format!(
            "a replica is there twice: the older copy, {older}, is left out, and {newer} counts"
        ));
        if is_newer {
            newest.insert(id, replica);
        }
    }
    newest
}

/// What is known and what was found, by volume. A replica that is found twice is a copy of a disk:
/// the older one is left out.
fn candidates(
    known: Vec<(StoredVolume, View)>,
    everything: Everything,
) -> (Vec<Candidate>, Vec<String>) {
    let Everything { replicas, attached, mut warnings } = everything;
    let newest = newest(replicas, &mut warnings);
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
    let turn = turn(node, candidate.id).await;
    match decide(node, &turn, &candidate, request, warnings).await {
        Ok((outcome, message)) => {
            tracing::info!(volume = name, "{message}");
            Assembled { id, name, outcome, message, error: None, split: None }
        }
        Err(refused) => {
            let Refusing { error, split } = *refused;
            let (outcome, message) = (AssembleOutcome::Refused, error.why.clone());
            Assembled { id, name, outcome, message, error: Some(error), split }
        }
    }
}

/// Why a volume is not put together, boxed as it is large.
type Refused = Box<Refusing>;

struct Refusing {
    error: ApiError,
    /// How the branches differ, if that is why.
    split: Option<SplitBrain>,
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self::new(Refusing { error, split: None })
    }
}

/// How a volume is to go on.
struct Next {
    branches: Vec<Branch>,
    /// The branch that it goes on from, by its index.
    kept: usize,
    /// The first view of a new epoch. `None`: the coordinator knows the newest one.
    view: Option<Box<View>>,
}

impl Next {
    fn branch(&self) -> &Branch {
        &self.branches[self.kept]
    }

    fn lost(&self) -> impl Iterator<Item = &Branch> {
        let others = self.branches.iter().enumerate().filter(|(index, _)| *index != self.kept);
        others.map(|(_, branch)| branch)
    }
}

/// Decides how a volume is to go on. Nothing is done yet.
async fn judged(
    node: &Arc<Node>,
    candidate: &Candidate,
    request: &AssembleRequest,
    what: &str,
) -> Result<Next, Refused> {
    // What was found comes first, so that its numbers are those of the replicas.
    let views: Vec<&View> = candidate
        .replicas
        .iter()
        .map(|replica| &replica.superblock.view)
        .chain(candidate.known.iter().map(|(_, view)| view))
        .collect();
    let branches = branches(&views);
    let keep = match &request.keep {
        Some(keep) if branches.len() > 1 => Some(split::choose(candidate, &branches, keep, what)?),
        Some(keep) => {
            split::refuse_unknown(candidate, keep, what)?;
            None
        }
        None => None,
    };
    let branch = keep.map_or_else(|| branches.first(), |kept| branches.get(kept));
    let view = match question(candidate, &branches, keep, start(node, request.force)) {
        Ok(Decision::Known) => None,
        Ok(Decision::Begin(view)) => Some(view),
        Err(Refusal::Diverged) => {
            return Err(split::refuse(node, candidate, &branches, what).await);
        }
        Err(refusal) => {
            return Err(refusals::refused(node, candidate, branch, refusal, what).into());
        }
    };
    if branch.is_none() {
        return Err(refusals::nothing_found(what, &[]).into());
    }
    Ok(Next { branches, kept: keep.unwrap_or(0), view })
}

async fn decide(
    node: &Arc<Node>,
    turn: &Turn,
    candidate: &Candidate,
    request: &AssembleRequest,
    warnings: &mut Vec<String>,
) -> Result<(AssembleOutcome, String), Refused> {
    let what = format!("cannot assemble volume {}", candidate.name);
    let next = judged(node, candidate, request, &what).await?;
    let Some(view) = &next.view else {
        return known_here(node, turn, candidate, &what).await.map_err(Into::into);
    };
    let (branch, lost): (&Branch, Vec<&Branch>) = (next.branch(), next.lost().collect());
    plan::refuse_other_than(request, &plan::Parts::of(node, candidate, &next, view), &what)?;
    if let Some(file) = &request.save_differing
        && !lost.is_empty()
    {
        let saved =
            split::save(node, candidate, branch, &lost, &PathBuf::from(file), &what).await?;
        warnings.extend(saved);
    }
    register(node, turn, candidate, view, warnings, &what).await?;
    let message = words(candidate, branch, view, &lost);
    Ok((AssembleOutcome::Assembled, message))
}

fn question(
    candidate: &Candidate,
    branches: &[Branch],
    keep: Option<usize>,
    start: Start,
) -> Result<Decision, Refusal> {
    let present: Vec<Present<'_>> = candidate
        .replicas
        .iter()
        .map(|Replica { superblock, node, .. }| Present {
            replica: superblock.replica,
            incarnations: superblock.incarnations,
            view: &superblock.view,
            node: *node,
        })
        .collect();
    let known = candidate.known.as_ref().map(|(_, view)| view);
    let is_attached = candidate.attached.is_some();
    Question { present: &present, known, is_attached, branches, keep }.decide(start)
}

fn words(candidate: &Candidate, branch: &Branch, view: &View, lost: &[&Branch]) -> String {
    let count = view.replicas().filter(|(_, r)| r.state == evenkeel_core::ReplicaState::InSync);
    let resolved = match lost.len() {
        0 => "",
        _ => "; the branch that was not kept is rebuilt when it is attached",
    };
    format!(
        "volume {} is assembled from generation {}: {} in-sync, {} of {} replicas found{resolved}",
        candidate.name,
        branch.head.generation,
        count.count(),
        candidate.replicas.len(),
        view.replicas().count(),
    )
}

/// A volume that the coordinator knows as the disks do: it is opened again if it was stopped, and
/// disks that were moved are found at their new places.
async fn known_here(
    node: &Arc<Node>,
    turn: &Turn,
    candidate: &Candidate,
    what: &str,
) -> Result<(AssembleOutcome, String), ApiError> {
    let name = &candidate.name;
    match known_step(candidate, what)? {
        KnownStep::Moves(next) => {
            register(node, turn, candidate, &next, &mut Vec::new(), what).await?;
            let message =
                format!("volume {name} is known: the new places of its replicas are noted");
            Ok((AssembleOutcome::Assembled, message))
        }
        KnownStep::Nothing(_) => {
            Ok((AssembleOutcome::Unchanged, format!("volume {name} is assembled already")))
        }
        KnownStep::Opens(view) => {
            stop::set(node, candidate.id, false, what).await?;
            stop::report(node, view).await;
            Ok((AssembleOutcome::Assembled, format!("volume {name} is not stopped any more")))
        }
    }
}

/// What is to be done with a volume that the coordinator knows as the disks do.
enum KnownStep<'a> {
    /// Its replicas are elsewhere: by this view.
    Moves(Box<View>),
    /// It is stopped.
    Opens(&'a View),
    Nothing(&'a View),
}

fn known_step<'a>(candidate: &'a Candidate, what: &str) -> Result<KnownStep<'a>, ApiError> {
    let Some((stored, view)) = &candidate.known else {
        return Err(refusals::nothing_found(what, &[]));
    };
    let mut next = view.successor();
    for replica in &candidate.replicas {
        // Of a replica that was taken out, nothing is to be noted.
        let _ = next.relocate(replica.superblock.replica, replica.node);
    }
    let moved = next.mirrors != view.mirrors;
    Ok(match stored.record.stopped {
        _ if moved && candidate.attached.is_none() => KnownStep::Moves(Box::new(next)),
        true => KnownStep::Opens(view),
        false => KnownStep::Nothing(view),
    })
}

fn start(node: &Node, force: bool) -> Start {
    Start {
        coordinator: CoordinatorId(random_u128()),
        history: History(random_u128()),
        now: unix_seconds(),
        here: node.identity.node,
        force,
    }
}

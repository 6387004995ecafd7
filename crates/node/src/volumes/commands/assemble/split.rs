//! Replicas that have diverged: shown, and resolved by an explicit choice.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_api::types::{SplitBrain, SplitBranch, SplitReplica};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::assembly::Branch;
use evenkeel_core::{ReplicaState, View};

use super::compare::{self, Pair};
use super::{Candidate, Refused, Refusing, Replica};
use crate::volumes::Node;

/// The replicas of a branch that no other branch has, too.
pub(super) fn own<'a>(
    candidate: &'a Candidate,
    branch: &'a Branch,
    branches: &'a [Branch],
) -> impl Iterator<Item = &'a Replica> {
    let shared = |index: &usize| branches.iter().filter(|s| s.members.contains(index)).count() > 1;
    let members = branch.members.iter().filter(move |index| !shared(index));
    // The last of the views is the coordinator's, and no replica's.
    members.filter_map(|index| candidate.replicas.get(*index))
}

/// Refuses, and shows how the branches differ.
pub(super) async fn refuse(
    node: &Arc<Node>,
    candidate: &Candidate,
    branches: &[Branch],
    what: &str,
) -> Refused {
    let mut order: Vec<(usize, SplitBranch)> =
        (0..).zip(branches).map(|(n, branch)| (n, describe(candidate, branch, branches))).collect();
    // The newest first: by the time if it is recorded, else by the generation.
    order.sort_by_key(|(_, branch)| std::cmp::Reverse((branch.saved, branch.generation)));
    let mut split =
        SplitBrain { branches: Vec::new(), differences: Vec::new(), not_compared: None };
    let first = order[0].0;
    for (position, (index, _)) in order.iter().enumerate().skip(1) {
        match difference(node, candidate, &branches[first], &branches[*index]).await {
            Ok(difference) => split.differences.push(difference.of_branch(position)),
            Err(why) => split.not_compared = Some(why),
        }
    }
    split.branches = order.into_iter().map(|(_, branch)| branch).collect();
    let places: Vec<String> = split
        .branches
        .iter()
        .map(|branch| {
            let places: Vec<&str> = branch.replicas.iter().map(|r| r.place.as_str()).collect();
            match places.is_empty() {
                true => format!("what the coordinator knows (generation {})", branch.generation),
                false => format!("{} (generation {})", places.join(" and "), branch.generation),
            }
        })
        .collect();
    let why = format!(
        "its replicas have diverged from each other (split brain): {} went another way than {}",
        places[1..].join(", "),
        places[0]
    );
    let name = &candidate.name;
    let advice = format!(
        "Look at each branch alone if need be, then choose one: `evenkeel volume assemble {name} --keep REPLICA`. The other branch is rebuilt from it; --save-differing FILE keeps its differing blocks before"
    );
    let error = ApiError::new(ErrorCode::SplitBrain, what, why, advice);
    Refused::new(Refusing { error, split: Some(split) })
}

fn describe(candidate: &Candidate, branch: &Branch, branches: &[Branch]) -> SplitBranch {
    let replica = |replica: &Replica| SplitReplica {
        id: replica.superblock.replica.to_string(),
        place: replica.place(),
        mirror: replica.superblock.mirror as usize,
    };
    let saved = own(candidate, branch, branches).map(|replica| replica.superblock.saved).max();
    let diverged = branch.head.epochs.first().map(|epoch| epoch.ended);
    SplitBranch {
        replicas: own(candidate, branch, branches).map(replica).collect(),
        generation: branch.head.generation.0,
        history: branch.head.history.to_string(),
        coordinator: branch.head.coordinator.to_string(),
        saved: saved.filter(|saved| *saved != 0),
        diverged: diverged.filter(|diverged| *diverged != 0),
    }
}

/// The branch that is kept: that of the replica that was named.
pub(super) fn choose(
    candidate: &Candidate,
    branches: &[Branch],
    keep: &str,
    what: &str,
) -> Result<usize, ApiError> {
    let chosen = |(_, branch): &(usize, &Branch)| {
        own(candidate, branch, branches).any(|r| is_named(r, keep))
    };
    let found: Vec<usize> = (0..).zip(branches).filter(chosen).map(|(index, _)| index).collect();
    if let [index] = found[..] {
        return Ok(index);
    }
    Err(not_chosen(
        match found.len() {
            0 => format!(
                "no replica {keep:?} that belongs to one branch alone was found; found: {}",
                all(candidate)
            ),
            _ => format!("{keep:?} means replicas of several branches"),
        },
        what,
    ))
}

/// Refuses to keep a replica that was not found, though nobody has to choose.
pub(super) fn refuse_unknown(
    candidate: &Candidate,
    keep: &str,
    what: &str,
) -> Result<(), ApiError> {
    match candidate.replicas.iter().any(|replica| is_named(replica, keep)) {
        true => Ok(()),
        false => {
            let why = format!("no replica {keep:?} of it was found; found: {}", all(candidate));
            Err(not_chosen(why, what))
        }
    }
}

/// Whether a replica is meant by its node, its place, or the beginning of its identity.
fn is_named(replica: &Replica, keep: &str) -> bool {
    let id = replica.superblock.replica.to_string();
    (keep.len() >= 4 && id.starts_with(keep))
        || replica.place() == keep
        || replica.node_name == keep
}

fn all(candidate: &Candidate) -> String {
    let name = |r: &Replica| format!("{} ({})", r.place(), &r.superblock.replica.to_string()[..8]);
    candidate.replicas.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn not_chosen(why: String, what: &str) -> ApiError {
    let advice = "Name one by NODE, NODE:DISK or the first digits of its identity";
    ApiError::new(ErrorCode::NoSuchReplica, what, why, advice)
}

/// One replica of each mirror on each of two branches, to be compared.
fn pairs<'a>(
    candidate: &'a Candidate,
    kept: &Branch,
    lost: &Branch,
) -> Result<Vec<Pair<'a>>, String> {
    let mirrors = kept.head.mirrors.len();
    (0..mirrors)
        .map(|mirror| {
            let of = |branch: &Branch, other: &Branch| in_sync(candidate, branch, other, mirror);
            match (of(kept, lost), of(lost, kept)) {
                (Some(kept), Some(lost)) => Ok(Pair { mirror, kept, lost }),
                _ => Err(format!("of mirror {mirror} no in-sync replica of each branch was found")),
            }
        })
        .collect()
}

/// A replica that its branch calls in-sync; of those the one that the other branch has not.
fn in_sync<'a>(
    candidate: &'a Candidate,
    branch: &Branch,
    other: &Branch,
    mirror: usize,
) -> Option<&'a Replica> {
    let is_in_sync = |view: &View, replica: &Replica| {
        let record = view.replica(replica.superblock.replica);
        record.is_some_and(|(m, r)| m == mirror && r.state == ReplicaState::InSync)
    };
    let members = branch
        .members
        .iter()
        .filter_map(|index| Some((other.members.contains(index), candidate.replicas.get(*index)?)));
    let usable = members.filter(|(_, replica)| is_in_sync(&branch.head, replica));
    usable.min_by_key(|(shared, _)| *shared).map(|(_, replica)| replica)
}

async fn difference(
    node: &Arc<Node>,
    candidate: &Candidate,
    first: &Branch,
    other: &Branch,
) -> Result<compare::Difference, String> {
    if let Some(place) = &candidate.attached {
        return Err(format!(
            "it is attached on node {place}, and its data change: detach it there"
        ));
    }
    let mut difference = compare::Difference::default();
    for pair in pairs(candidate, first, other)? {
        compare::pair(node, &pair, &mut difference, None).await.map_err(|e| e.to_string())?;
    }
    Ok(difference)
}

/// How many bytes of each mirror of a branch differ from the one that is kept.
///
/// # Errors
/// If they cannot be compared; says why.
pub(super) async fn losses(
    node: &Arc<Node>,
    candidate: &Candidate,
    kept: &Branch,
    lost: &Branch,
) -> Result<Vec<u64>, String> {
    let mut bytes = Vec::new();
    for pair in pairs(candidate, kept, lost)? {
        let mut difference = compare::Difference::default();
        compare::pair(node, &pair, &mut difference, None).await.map_err(|e| e.to_string())?;
        bytes.push(difference.bytes());
    }
    Ok(bytes)
}

const SAVE_ELSEWHERE: &str =
    "Nothing was overwritten. Choose another file, or go on without --save-differing";

/// Refuses what [`save`] would, as far as that can be known before.
///
/// # Errors
/// If there is nothing to compare, or a file is there already.
pub(super) fn refuse_files(
    candidate: &Candidate,
    next: &super::Next,
    file: &Path,
    what: &str,
) -> Result<(), ApiError> {
    let failed = |why: String| ApiError::new(ErrorCode::System, what, why, SAVE_ELSEWHERE);
    let mut all = Vec::new();
    for branch in next.lost() {
        all.extend(pairs(candidate, next.branch(), branch).map_err(failed)?);
    }
    let paths = all.iter().map(|pair| path_for(file, pair, all.len()));
    match paths.into_iter().find(|path| path.exists()) {
        Some(path) => {
            let exists = std::io::Error::from(rustix::io::Errno::EXIST);
            Err(failed(format!("{}: {exists}", path.display())))
        }
        None => Ok(()),
    }
}

/// Where the blocks of one replica are saved: of several each has a file of its own.
fn path_for(file: &Path, pair: &Pair<'_>, count: usize) -> PathBuf {
    if count == 1 {
        return file.to_owned();
    }
    let id = pair.lost.superblock.replica.to_string();
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}", &id[..8]));
    name.into()
}

/// Saves the blocks of the branches that are not kept, where they differ from the one that is.
/// Returns what was written, a sentence each.
pub(super) async fn save(
    node: &Arc<Node>,
    candidate: &Candidate,
    kept: &Branch,
    lost: &[&Branch],
    file: &Path,
    what: &str,
) -> Result<Vec<String>, ApiError> {
    let mut saved = Vec::new();
    let failed = |why: String| ApiError::new(ErrorCode::System, what, why, SAVE_ELSEWHERE);
    let mut all = Vec::new();
    for branch in lost {
        all.extend(pairs(candidate, kept, branch).map_err(failed)?);
    }
    for pair in &all {
        let path = path_for(file, pair, all.len());
        let mut difference = compare::Difference::default();
        let written = compare::pair(node, pair, &mut difference, Some(&path)).await;
        written.map_err(|e| failed(format!("{}: {e}", path.display())))?;
        saved.push(format!(
            "{} differing bytes of {} are saved in {}, and their list in {}.list",
            difference.bytes(),
            pair.lost.place(),
            path.display(),
            path.display()
        ));
    }
    Ok(saved)
}

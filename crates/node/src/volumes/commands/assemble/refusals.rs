//! Why a volume is not assembled, in sentences.

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::ReplicaRecord;
use evenkeel_core::assembly::{Branch, Refusal};

use super::{Candidate, Replica};
use crate::clock::unix_seconds;
use crate::volumes::Node;

pub(super) fn nothing_found(what: &str, warnings: &[String]) -> ApiError {
    let mut why = "no replica of it was found, and the coordinator does not know it".to_owned();
    for warning in warnings {
        why.push_str("; ");
        why.push_str(warning);
    }
    let advice = "Name the disks that hold it; see `evenkeel examine --scan`";
    ApiError::new(ErrorCode::NoSuchVolume, what, why, advice)
}

/// Several volumes have the name.
pub(super) fn ambiguous(what: &str, candidates: &[Candidate]) -> ApiError {
    let ids: Vec<String> = candidates.iter().map(|candidate| candidate.id.to_string()).collect();
    let why = format!("several volumes of that name were found: {}", ids.join(", "));
    ApiError::new(ErrorCode::BadRequest, what, why, "Name the one that is meant by its identity")
}

pub(super) fn attached(what: &str, place: &str) -> ApiError {
    let why = format!("it is attached on node {place}");
    ApiError::new(ErrorCode::Attached, what, why, "Detach it there first, by `evenkeel detach`")
}

pub(super) fn name_in_use(what: &str, name: &str) -> ApiError {
    let why = format!("another volume of this cluster is named {name}");
    let advice = "Delete that one, or assemble this one in another cluster";
    ApiError::new(ErrorCode::NameInUse, what, why, advice)
}

pub(super) fn being_deleted(what: &str) -> ApiError {
    let why = "one of its replicas is just being deleted, as its volume was";
    let advice = "See what is left, by `evenkeel examine --scan`; then assemble it again";
    ApiError::new(ErrorCode::WrongState, what, why, advice)
}

/// Why the decision was no; of a split brain [`super::split::refuse`] tells more.
pub(super) fn refused(
    node: &Node,
    candidate: &Candidate,
    branch: Option<&Branch>,
    refusal: Refusal,
    what: &str,
) -> ApiError {
    match (refusal, branch) {
        (Refusal::Attached, _) => {
            attached(what, candidate.attached.as_deref().unwrap_or("that does not answer"))
        }
        (Refusal::Missing(records), Some(branch)) => {
            missing(node, candidate, branch, &records, what)
        }
        (Refusal::NothingOf(mirror), Some(branch)) => nothing_of(candidate, branch, mirror, what),
        _ => nothing_found(what, &[]),
    }
}

/// What was found, and how old it is.
fn found(candidate: &Candidate) -> String {
    let found: Vec<String> = candidate.replicas.iter().map(age).collect();
    match found.is_empty() {
        true => "nothing was found".to_owned(),
        false => format!("found: {}", found.join("; ")),
    }
}

/// In-sync replicas are missing: who, and how old what was found is.
fn missing(
    node: &Node,
    candidate: &Candidate,
    branch: &Branch,
    records: &[ReplicaRecord],
    what: &str,
) -> ApiError {
    let missing: Vec<String> = records.iter().map(|r| named(node, candidate, r)).collect();
    let why = format!(
        "by the newest view found (generation {}) these replicas are in-sync as well, or were about to be, and may have newer data: {}. {}",
        branch.head.generation,
        missing.join(", "),
        found(candidate)
    );
    let name = &candidate.name;
    let advice = format!(
        "Bring those disks, or start their nodes, and name their paths. If they are lost for good, `evenkeel volume assemble {name} --force` goes on with what is there: what only they have is lost"
    );
    ApiError::new(ErrorCode::Incomplete, what, why, advice)
}

fn nothing_of(candidate: &Candidate, branch: &Branch, mirror: usize, what: &str) -> ApiError {
    let why = format!(
        "of mirror {mirror} no replica was found that the newest view (generation {}) calls in-sync; {}",
        branch.head.generation,
        found(candidate)
    );
    let advice = "Bring a disk with an in-sync replica of that mirror: without one its data are gone, and this cannot be forced";
    ApiError::new(ErrorCode::Incomplete, what, why, advice)
}

/// A replica that is missing, or was found as an older copy of itself.
fn named(node: &Node, candidate: &Candidate, record: &ReplicaRecord) -> String {
    let id = record.id.to_string();
    let short = id.get(..8).unwrap_or(&id);
    match candidate.replicas.iter().find(|replica| replica.superblock.replica == record.id) {
        Some(replica) => {
            format!("{short}, of which {} holds only an older copy", replica.place())
        }
        None => format!("{short} of node {}", node.coordinator.node_ref(record.node).name),
    }
}

/// A replica that was found, and how old it is.
fn age(replica: &Replica) -> String {
    let superblock = &replica.superblock;
    let id = superblock.replica.to_string();
    let saved = match superblock.saved {
        0 => String::new(),
        saved => format!(", saved {} ago", span(unix_seconds().saturating_sub(saved))),
    };
    let short = id.get(..8).unwrap_or(&id);
    format!("{short} at {} in generation {}{saved}", replica.place(), superblock.view.generation)
}

/// Seconds in the unit that fits.
fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

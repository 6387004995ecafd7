//! No volume is taken over from a second node that does not answer, only because it has a replica
//! on the one that is removed.
//!
//! Whoever hears nobody takes all others for dead, and may be cut off itself. To take a volume over
//! ends it where it is used, makes the replicas stale that do not answer, and leaves it detached:
//! that is for somebody to say who means that volume.

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{NodeId, ReplicaRecord};

use crate::volumes::Node;
use crate::volumes::lookup::{Found, places};

/// Refuses to remove a node if a volume that has to do with it would have to be taken over from
/// others.
///
/// # Errors
/// If all that have it attached are silent, and not the removed node alone.
pub(super) fn refuse(
    node: &Node,
    removed: NodeId,
    found: &Found,
    what: &str,
) -> Result<(), ApiError> {
    let primaries: Vec<NodeId> = found.view.primaries.iter().map(|p| p.id.node).collect();
    if primaries.iter().any(|id| node.may_live(*id)) {
        return Ok(());
    }
    let others = primaries.into_iter().filter(|id| *id != removed);
    let others: Vec<String> = others.map(|id| node.coordinator.node_ref(id).name).collect();
    if others.is_empty() {
        return Ok(());
    }
    let is_silent = |record: &&ReplicaRecord| record.node != removed && !node.may_live(record.node);
    let in_sync = found.view.mirrors.iter().flat_map(|mirror| mirror.in_sync());
    let stale: Vec<String> =
        in_sync.filter(is_silent).map(|record| places(node, found, record)[0].clone()).collect();
    Err(refusal(&found.stored.record.name, &others, &stale, what))
}

fn refusal(volume: &str, others: &[String], stale: &[String], what: &str) -> ApiError {
    let others = others.join(", ");
    let then = match stale {
        [] => " and stay detached".to_owned(),
        _ => format!(", {} would become stale and {volume} stay detached", stale.join(", ")),
    };
    let why = format!(
        "{volume} is attached on {others}, which does not answer: it would be taken over{then}"
    );
    let advice = format!(
        "Nothing was removed. Bring {others} back, or take {volume} over first by `evenkeel attach {volume}`"
    );
    ApiError::new(ErrorCode::NodeInUse, what, why, advice)
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn a_refusal_says_what_would_come_of_the_volume() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let error = refusal("v2", &names(&["n4"]), &names(&["n4:b"]), "cannot");
        assert_eq!(
            error.why,
            "v2 is attached on n4, which does not answer: it would be taken over, n4:b would become stale and v2 stay detached"
        );
        assert!(error.action.contains("take v2 over first by `evenkeel attach v2`"), "{error}");
        let without = refusal("v2", &names(&["n4"]), &[], "cannot").why;
        assert!(without.ends_with("it would be taken over and stay detached"), "{without}");
    }
}

//! Ending what a dead node has attached, before any of its replicas goes.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{NodeId, View};
use tokio::time::Instant;

use super::{PAUSE, Use, takeover};
use crate::volumes::Node;
use crate::volumes::attachment::actor::turn;
use crate::volumes::attachment::start;
use crate::volumes::lookup::find;

/// For how many leases a primary is waited for that others are to evict: they do so after two, and
/// one may pass before all replicas have told them of it.
const LEASES: u32 = 4;
/// How long that may take besides: a dead replica costs a deadline, a view some requests.
const BESIDES: Duration = Duration::from_secs(10);
/// The most, however long the leases are: whoever gave the command waits for its answer.
const MOST: Duration = Duration::from_secs(40);

/// Waits until no volume is attached on a dead node. Those that it alone has attached are taken
/// over; of those that others have attached too, these evict it. Returns the names of those that
/// were taken over.
///
/// # Errors
/// If one is attached there still when the time is over, or another node that has it attached does
/// not answer either.
pub(super) async fn evict(
    node: &Arc<Node>,
    id: NodeId,
    name: &str,
    uses: &[Use],
    what: &str,
) -> Result<Vec<String>, ApiError> {
    let mut taken_over = Vec::new();
    let leases = uses.iter().map(|held| held.found.view.lease.time()).max().unwrap_or_default();
    let patience = (leases * LEASES + BESIDES).min(MOST);
    for held in uses {
        let volume = held.found.view.volume;
        let lease = held.found.view.lease.time();
        let mut deadline = Instant::now() + patience;
        let mut adopted_at: Option<Instant> = None;
        loop {
            let found = find(node, what, &volume.to_string()).await?;
            if !is_attached_on(&found.view, id) {
                break;
            }
            let may_live = found.view.primaries.iter().any(|p| node.may_live(p.id.node));
            let now = Instant::now();
            // One that joined others instead of taking over has ended by then.
            let is_due = adopted_at.is_none_or(|at| now - at >= lease * 2) && now < deadline;
            if !may_live && is_due {
                takeover::refuse(node, id, &found, what)?;
                start::adopt(node, &turn(node, volume).await, what).await?;
                adopted_at = Some(Instant::now());
                deadline += now.elapsed();
                continue;
            }
            if now >= deadline {
                let others = others(node, &found.view, id);
                let volume = &found.stored.record.name;
                return Err(not_evicted(volume, name, &others, patience, what));
            }
            tokio::time::sleep(PAUSE).await;
        }
        if adopted_at.is_some() {
            taken_over.push(held.found.stored.record.name.clone());
        }
    }
    Ok(taken_over)
}

pub(super) fn is_attached_on(view: &View, id: NodeId) -> bool {
    view.primaries.iter().any(|primary| primary.id.node == id)
}

/// The names of the other nodes that have a volume attached.
fn others(node: &Node, view: &View, id: NodeId) -> Vec<String> {
    let others = view.primaries.iter().map(|primary| primary.id.node).filter(|at| *at != id);
    others.map(|at| node.coordinator.node_ref(at).name).collect()
}

fn not_evicted(
    volume: &str,
    name: &str,
    others: &[String],
    patience: Duration,
    what: &str,
) -> ApiError {
    let who = match others {
        [] => "nobody has".to_owned(),
        _ => format!("the other nodes that have it attached ({}) have not", others.join(", ")),
    };
    let why = format!(
        "volume {volume} counts as attached on node {name} still: {who} ended that within {} s",
        patience.as_secs()
    );
    let advice = format!(
        "Nothing was removed. See by `evenkeel volume status {volume}` what keeps them from it, then try again"
    );
    ApiError::new(ErrorCode::NodeInUse, what, why, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_who_has_not_evicted_the_dead_node() {
        let others = ["n1".to_owned(), "n2".to_owned()];
        let error = not_evicted("web", "n3", &others, Duration::from_secs(14), "cannot");
        assert!(error.why.contains("attached (n1, n2) have not ended that within 14 s"), "{error}");
        let alone = not_evicted("web", "n3", &[], Duration::from_secs(14), "cannot");
        assert!(alone.why.ends_with("still: nobody has ended that within 14 s"), "{alone}");
        assert!(error.action.starts_with("Nothing was removed. "), "{error}");
    }
}

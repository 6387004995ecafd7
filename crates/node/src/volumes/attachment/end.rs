//! The end of a primary on this node: what served its clients goes with it.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_attach::Filesystems;

use super::actor::Turn;
use super::device::{device_error, place};
use super::lifecycle::{Over, Phase};
use super::wanted;
use crate::volumes::Node;
use crate::volumes::{Attached, verdict};

/// How long a detach may take before it is reported as still going on.
pub(in crate::volumes) const END: Duration = Duration::from_secs(60);

/// Tells the primary to end and waits for it. `None`: it has not ended in time.
pub(in crate::volumes) async fn end(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
) -> Option<Over> {
    verdict::end(node, attached).await;
    turn.end();
    match reach(attached, |phase| matches!(phase, Phase::Closed(_)), END).await {
        Some(Phase::Closed(over)) => {
            dismantle(node, turn, attached).await;
            Some(over)
        }
        _ => None,
    }
}

/// After a primary that has ended while nobody had the turn.
pub(super) async fn take_away(node: &Arc<Node>, turn: &Turn) {
    if let Some(attached) = node.volumes.get(turn.volume()) {
        dismantle(node, turn, &attached).await;
        turn.save().await;
        wanted::changed(node, turn).await;
    }
}

/// The primary is over: its clients and its device are of no more use.
pub(super) async fn dismantle(node: &Arc<Node>, turn: &Turn, attached: &Arc<Attached>) {
    node.nbd.unexport(attached.name());
    node.nvme.unexport(attached.id);
    if attached.device().is_some() {
        let name = attached.name().to_owned();
        let cleaned = node.blocking(move |node| {
            let cleaned = evenkeel_attach::clean_up_stale(&place(node), &name, Filesystems::Leave);
            cleaned.map_err(|e| device_error("cannot take a dead device away", &e))
        });
        match cleaned.await {
            Ok(cleaned) => {
                node.volumes.leftovers.note(attached.name(), &cleaned.still_used);
                let used = cleaned.still_used.into_iter().map(|used| used.device);
                node.volumes.note_dead(attached.id, used);
            }
            Err(error) => node.warn(error.to_string()),
        }
    }
    turn.cleared();
}

/// The phase that is wanted, when it is reached. `None`: it is not in time.
pub(super) async fn reach(
    attached: &Attached,
    wanted: impl Fn(Phase) -> bool,
    patience: Duration,
) -> Option<Phase> {
    let mut seen = attached.watch();
    let reached = tokio::time::timeout(patience, seen.wait_for(|seen| wanted(seen.phase()))).await;
    reached.ok()?.ok().map(|seen| seen.phase())
}

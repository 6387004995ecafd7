//! Where volumes are meant to be attached: what the node reports of that, and what the coordinator
//! answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::ApiError;
use evenkeel_api::types::{WantedExport, WantedStatus};
use evenkeel_core::settings::Pauses;
use evenkeel_core::{NodeId, View, VolumeId};

use super::actor::{self, Turn, turn};
use crate::coordinator::{Answer, CallError, NodeLiveness, Request, Shown, VolumeRecord};
use crate::volumes::Attached;
use crate::volumes::Node;
use crate::volumes::lookup::{Found, find, moved, unexpected};

/// What the state directory remembers: the volumes that are not wanted here any more, of which the
/// coordinator has not heard that.
pub(super) const UNREPORTED: &str = "untold.json";
/// The pauses between attempts to tell it.
const PAUSES: Pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(10));
/// How long a status waits for what the coordinator says of other nodes.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the last daemon had not told the coordinator.
pub(super) fn load_unreported(node: &Arc<Node>) {
    let ids = match node.state.load::<BTreeSet<String>>(UNREPORTED) {
        Ok(ids) => ids.unwrap_or_default(),
        Err(error) => return node.warn(error.to_string()),
    };
    for volume in ids.iter().filter_map(|id| id.parse().ok()) {
        actor::unreported(node, volume);
    }
}

/// If the volume is shown otherwise here, or is not meant to be attached here any more, the
/// coordinator is told that while whoever changed it waits. If it does not answer, it is told as
/// soon as it does.
pub(in crate::volumes) async fn changed(node: &Arc<Node>, turn: &Turn) {
    if node.volumes.is_unreported(turn.volume()) && node.coordinator.status().reachable {
        report(node, turn).await;
    }
}

/// Tells the coordinator as soon as it answers.
pub(super) async fn until_reported(node: Arc<Node>, volume: VolumeId) {
    let reports = async {
        if !node.admission.admitted().await {
            return;
        }
        let mut pause = PAUSES.first;
        while actor::next_reporting(&node, volume) {
            if report(&node, &turn(&node, volume).await).await {
                continue;
            }
            tokio::time::sleep(pause).await;
            pause = PAUSES.after(pause);
        }
    };
    let _ = node.unless_stopping(reports).await;
}

/// Returns true if the coordinator knows.
async fn report(node: &Arc<Node>, turn: &Turn) -> bool {
    if let Some(shown) = turn.news() {
        let (volume, by) = (turn.volume().to_string(), node.identity.node.to_string());
        let request = |revision| {
            let (volume, node, shown) = (volume.clone(), by.clone(), shown.clone());
            Request::Want { volume, node, shown, revision }
        };
        match node.coordinator.change_within(&volume, None, Duration::ZERO, request).await {
            // It is asked again once this start is admitted.
            Err(CallError::Unreachable(_)) | Ok(Answer::NotRegistered | Answer::Changed(_)) => {
                return false;
            }
            // A coordinator of older software refuses: it keeps nothing of this.
            Err(CallError::Refused(why)) => {
                let volume = turn.volume();
                tracing::debug!(%volume, why, "the coordinator does not note where it is wanted");
            }
            Ok(_) => {}
        }
    }
    turn.reported();
    turn.save().await;
    true
}

/// The other nodes on which a volume is meant to be attached.
pub(in crate::volumes) fn elsewhere(
    node: &Node,
    record: &VolumeRecord,
) -> impl Iterator<Item = NodeId> {
    let here = node.identity.node;
    let wanted = record.wanted_on.iter().filter(|(_, shown)| shown.is_some());
    wanted.filter_map(|(id, _)| id.parse().ok()).filter(move |id| *id != here)
}

/// A dead node is not to attach a volume any more that is not attached there. Returns true if it
/// was.
///
/// # Errors
/// If the coordinator does not answer.
pub(in crate::volumes) async fn take_back(
    node: &Node,
    found: &Found,
    target: &NodeLiveness,
    what: &str,
) -> Result<bool, ApiError> {
    let (volume, id) = (found.stored.record.id.clone(), target.node.id.clone());
    let is_attached = found.view.primaries.iter().any(|primary| primary.id.node.to_string() == id);
    let is_wanted = found.stored.record.wanted_on.get(&id).is_some_and(Option::is_some);
    if is_attached || !is_wanted {
        return Ok(false);
    }
    // If it was changed it may be attached there, or be wanted again: that is not for this command.
    let revision = Some(found.stored.record.revision);
    match node
        .coordinator
        .ask(what, Request::Want { volume, node: id, shown: None, revision })
        .await?
    {
        Answer::Done => Ok(true),
        Answer::Changed(_) => Err(moved(what)),
        other => Err(unexpected(what, &other)),
    }
}

/// Where a volume is meant to be attached and is not, for its status. The primary of a dead node
/// serves nobody, though the view names it still.
pub(in crate::volumes) fn on(node: &Node, record: &VolumeRecord, view: &View) -> Vec<WantedStatus> {
    let is_primary = |id: NodeId| view.primaries.iter().any(|primary| primary.id.node == id);
    let alive = |id: NodeId| {
        let member = node.coordinator.node(id).filter(|_| node.coordinator.status().reachable);
        member.filter(|member| member.alive == member.may_live).map(|member| member.alive)
    };
    let others = elsewhere(node, record).map(|id| (id, alive(id)));
    let waiting = others.filter(|(id, alive)| !is_primary(*id) || *alive == Some(false));
    let of = |(id, alive): (NodeId, Option<bool>)| {
        let shown = record.wanted_on.get(&id.to_string()).cloned().flatten();
        reported(node, id, shown.unwrap_or_default(), alive, None)
    };
    here(node, record).into_iter().chain(waiting.map(of)).collect()
}

/// This node waits to attach it, or to show it as it is meant to be.
fn here(node: &Node, record: &VolumeRecord) -> Option<WantedStatus> {
    let volume = record.id.parse().ok()?;
    let awaited = node.volumes.awaited(volume).map(|awaited| (awaited.how.shown(), awaited.why));
    let (shown, why) = awaited.or_else(|| missing(node, volume))?;
    Some(reported(node, node.identity.node, shown, Some(true), Some(why)))
}

fn missing(node: &Node, volume: VolumeId) -> Option<(Shown, String)> {
    node.volumes.unshown(volume).map(|unshown| (unshown.missing, unshown.why))
}

fn reported(
    node: &Node,
    id: NodeId,
    shown: Shown,
    alive: Option<bool>,
    why: Option<String>,
) -> WantedStatus {
    let (device, nbd, nvme) = (shown.device, shown.nbd.is_some(), shown.nvme.is_some());
    let (node, exports) = (node.coordinator.node_ref(id), exports(&shown));
    WantedStatus { node, alive, device, nbd, nvme, exports, why }
}

fn exports(shown: &Shown) -> Vec<WantedExport> {
    let of = |kind: &str, tcp, read_only| WantedExport { kind: kind.to_owned(), tcp, read_only };
    let nbd = shown.nbd.as_ref().map(|nbd| of("nbd", nbd.tcp, nbd.read_only));
    let nvme = shown.nvme.as_ref().map(|nvme| of("nvme", true, nvme.read_only));
    nbd.into_iter().chain(nvme).collect()
}

/// Where else a volume is meant to be attached that is attached here, and by what it is not shown
/// here yet. One that is not shared is meant to be nowhere else. Of a shared one the coordinator
/// knows; while it does not answer, nothing is said of others.
pub(in crate::volumes) async fn beside(
    node: &Node,
    attached: &Attached,
    view: &View,
) -> Vec<WantedStatus> {
    let here = || {
        let (shown, why) = missing(node, attached.id)?;
        Some(reported(node, node.identity.node, shown, Some(true), Some(why)))
    };
    if !view.is_shared() || !node.coordinator.status().reachable {
        return here().into_iter().collect();
    }
    let volume = attached.id.to_string();
    match tokio::time::timeout(PATIENCE, find(node, "", &volume)).await {
        Ok(Ok(found)) => on(node, &found.stored.record, &found.view),
        _ => here().into_iter().collect(),
    }
}

//! Where volumes are meant to be attached: what the coordinator is told of that, and what it says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_core::{NodeId, View, VolumeId};

use super::lookup::{Found, find, unexpected};
use super::{Attached, Phase, Volumes, lock};
use crate::api::ApiError;
use crate::api::types::WantedStatus;
use crate::coordinator::{Answer, CallError, NodeLife, Request, Shown, VolumeRecord, Wish};
use crate::node::Node;

/// What the state directory remembers: the volumes that are not wanted here any more, of which the
/// coordinator has not heard that.
const FILE: &str = "untold.json";
/// The pause between attempts to tell it: the first, doubled each time up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// How long a status waits for what the coordinator says of other nodes.
const PATIENCE: Duration = Duration::from_secs(1);

impl Volumes {
    /// What a swap to this view says of where its volume is meant to be attached.
    pub(crate) fn wish(&self, view: &View) -> Wish {
        let Some(attached) = self.get(view.volume) else { return Wish::AsBefore };
        match attached.asked {
            None => Wish::AsBefore,
            Some(shown) if view.has_primary(attached.primary) => Wish::Here(shown),
            Some(_) if self.is_kept(view.volume) => Wish::AsBefore,
            Some(_) => Wish::NoMore,
        }
    }

    /// Whether a volume that is detached now is attached here again: by the next daemon, or by this one.
    fn is_kept(&self, volume: VolumeId) -> bool {
        self.is_closing.load(Ordering::Relaxed) || lock(&self.awaited).contains_key(&volume)
    }

    /// From now on what is attached here stays wanted here, though it is detached.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Whether the coordinator still has to be told that this is not wanted here.
    pub(super) fn is_untold(&self, volume: VolumeId) -> bool {
        lock(&self.untold).contains(&volume)
    }

    /// Returns true if it was not to be told yet.
    async fn is_to_be_told(&self, node: &Arc<Node>, volume: VolumeId) -> bool {
        let is_new = lock(&self.untold).insert(volume);
        self.save_untold(node).await;
        is_new
    }

    async fn is_told(&self, node: &Arc<Node>, volume: VolumeId) {
        lock(&self.untold).remove(&volume);
        self.save_untold(node).await;
    }

    async fn save_untold(&self, node: &Arc<Node>) {
        let saved = node.blocking(|node| {
            node.volumes.write_untold(node);
            Ok(())
        });
        if let Err(error) = saved.await {
            node.warn(error.to_string());
        }
    }

    fn write_untold(&self, node: &Node) {
        // No older list takes the place of a newer one.
        let _alone = lock(&self.saving);
        let untold = lock(&self.untold).clone();
        let is_gone = |id: &VolumeId| self.get(*id).is_none() && !self.is_kept(*id);
        let gone: BTreeSet<String> =
            untold.into_iter().filter(is_gone).map(|id| id.to_string()).collect();
        if let Err(error) = node.state.save(FILE, &gone) {
            node.warn(format!("cannot remember which volumes are not wanted here: {error}"));
        }
    }

    /// What the coordinator is to be told. `None`: nothing, it knows.
    fn news(&self, volume: VolumeId) -> Option<Option<Shown>> {
        let serves =
            |attached: &Arc<Attached>| attached.phase() == Phase::Serving && !attached.in_passing();
        match self.get(volume).filter(serves) {
            Some(attached) => Some(Some(attached.shown())),
            None if self.is_kept(volume) => None,
            None => Some(None),
        }
    }
}

/// What the last daemon had not told the coordinator. Returns these volumes.
pub(super) fn load_untold(node: &Node) -> Vec<VolumeId> {
    let ids = match node.state.load::<BTreeSet<String>>(FILE) {
        Ok(ids) => ids.unwrap_or_default(),
        Err(error) => {
            node.warn(error.to_string());
            return Vec::new();
        }
    };
    let untold: Vec<VolumeId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    lock(&node.volumes.untold).extend(&untold);
    untold
}

/// The volume is shown otherwise here, or is not meant to be attached here any more: the coordinator is
/// told, now or as soon as it answers. Whoever calls this holds [`Volumes::change`].
pub(super) async fn changed(node: &Arc<Node>, volume: VolumeId) {
    if node.volumes.news(volume).is_none() {
        return;
    }
    let is_new = node.volumes.is_to_be_told(node, volume).await;
    let answers = node.coordinator.status().reachable;
    if !(answers && tell(node, volume).await) && is_new {
        tokio::spawn(until_told(node.clone(), volume));
    }
}

/// Tells the coordinator as soon as it answers.
pub(super) async fn until_told(node: Arc<Node>, volume: VolumeId) {
    let mut stopping = node.stopping.subscribe();
    let mut pause = PAUSE.0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        pause = (pause * 2).min(PAUSE.1);
        let _changing = node.volumes.change(volume).await;
        if !node.volumes.is_untold(volume) || tell(&node, volume).await {
            return;
        }
    }
}

/// Returns true if the coordinator knows.
async fn tell(node: &Arc<Node>, volume: VolumeId) -> bool {
    if let Some(shown) = node.volumes.news(volume) {
        let (id, by) = (volume.to_string(), node.identity.node.to_string());
        match node.coordinator.call_once(Request::Want { volume: id, node: by, shown }).await {
            // It is asked again once this start is admitted.
            Err(CallError::Unreachable(_)) | Ok(Answer::NotRegistered) => return false,
            // A coordinator of older software refuses: it keeps nothing of this.
            Err(CallError::Refused(why)) => {
                tracing::debug!(%volume, why, "the coordinator does not note where it is wanted");
            }
            Ok(_) => {}
        }
    }
    node.volumes.is_told(node, volume).await;
    true
}

/// The other nodes on which a volume is meant to be attached.
pub(super) fn elsewhere(node: &Node, record: &VolumeRecord) -> impl Iterator<Item = NodeId> {
    let here = node.identity.node;
    let wanted = record.wanted_on.iter().filter(|(_, shown)| shown.is_some());
    wanted.filter_map(|(id, _)| id.parse().ok()).filter(move |id| *id != here)
}

/// A dead node is not to attach a volume any more that is not attached there. Returns true if it was.
///
/// # Errors
/// If the coordinator does not answer.
pub(super) async fn take_back(
    node: &Node,
    found: &Found,
    target: &NodeLife,
    what: &str,
) -> Result<bool, ApiError> {
    let (volume, id) = (found.stored.record.id.clone(), target.node.id.clone());
    let is_attached = found.view.primaries.iter().any(|primary| primary.id.node.to_string() == id);
    let is_wanted = found.stored.record.wanted_on.get(&id).is_some_and(Option::is_some);
    if is_attached || !is_wanted {
        return Ok(false);
    }
    match node.coordinator.ask(what, Request::Want { volume, node: id, shown: None }).await? {
        Answer::Done => Ok(true),
        other => Err(unexpected(what, &other)),
    }
}

/// Where a volume is meant to be attached and is not, for its status. The primary of a dead node serves
/// nobody, though the view names it still.
pub(super) fn on(node: &Node, record: &VolumeRecord, view: &View) -> Vec<WantedStatus> {
    let is_primary = |id: NodeId| view.primaries.iter().any(|primary| primary.id.node == id);
    let alive = |id: NodeId| {
        let life = node.coordinator.node(id).filter(|_| node.coordinator.status().reachable);
        life.filter(|life| life.alive == life.may_live).map(|life| life.alive)
    };
    let others = elsewhere(node, record).map(|id| (id, alive(id)));
    let waiting = others.filter(|(id, alive)| !is_primary(*id) || *alive == Some(false));
    let of = |(id, alive): (NodeId, Option<bool>)| {
        let shown = record.wanted_on.get(&id.to_string()).copied().flatten();
        told(node, id, shown.unwrap_or_default(), alive, None)
    };
    here(node, record).into_iter().chain(waiting.map(of)).collect()
}

/// This node waits to attach it.
fn here(node: &Node, record: &VolumeRecord) -> Option<WantedStatus> {
    let (how, why) = node.volumes.why_awaited(record.id.parse().ok()?)?;
    Some(told(node, node.identity.node, how.shown(), Some(true), Some(why)))
}

fn told(
    node: &Node,
    id: NodeId,
    shown: Shown,
    alive: Option<bool>,
    why: Option<String>,
) -> WantedStatus {
    let (device, nbd) = (shown.device, shown.nbd.is_some());
    WantedStatus { node: node.coordinator.node_ref(id), alive, device, nbd, why }
}

/// Where else a volume is meant to be attached that is attached here. One that is not shared is meant to
/// be nowhere else. Of a shared one the coordinator knows; while it does not answer, nothing is said.
pub(super) async fn beside(node: &Node, attached: &Attached, view: &View) -> Vec<WantedStatus> {
    if !view.is_shared() || !node.coordinator.status().reachable {
        return Vec::new();
    }
    let volume = attached.id.to_string();
    match tokio::time::timeout(PATIENCE, find(node, "", &volume)).await {
        Ok(Ok(found)) => on(node, &found.stored.record, &found.view),
        _ => Vec::new(),
    }
}

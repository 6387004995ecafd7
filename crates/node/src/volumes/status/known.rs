//! What this node knows of volumes while the coordinator does not answer: what is attached here,
//! what other nodes report that have one attached, and the newest view that a replica here, or on a
//! node that answers, has adopted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::ApiError;
use evenkeel_api::types::VolumeStatus;
use evenkeel_core::{NodeId, ReplicaRecord, View, VolumeId};
use evenkeel_format::Superblock;
use tokio::task::JoinHandle;

use super::condition::Account;
use super::reports::Reports;
use super::{primaries, reports};
use crate::coordinator::{NoData, PlacedReplica, VolumeRecord, WantedOn};
use crate::disks::Unserved;
use crate::examine::examine_one;
use crate::volumes::Node;
use crate::volumes::replicas::found::{self, Everything, Replica};
use crate::volumes::{lookup, status};

/// How long the disks may take to be read: one that hangs is left out.
const PATIENCE: Duration = Duration::from_secs(3);

/// Each volume that is attached here, or has a replica here.
pub(super) async fn all(node: &Arc<Node>) -> Vec<VolumeStatus> {
    let mut asked = Vec::new();
    for attached in node.volumes.all() {
        if let Some(status) = status::of_attached(node, &attached).await {
            let node = node.clone();
            asked.push(tokio::spawn(async move { primaries::with_others(&node, status).await }));
        }
    }
    let mut volumes = Vec::new();
    for answer in asked {
        volumes.extend(answer.await);
    }
    let mut ours = on_disks(node, |_| true).await;
    ours.retain(|id, _| volumes.iter().all(|volume| volume.id != id.to_string()));
    volumes.extend(reported(node, ours.into_values().collect(), None).await);
    volumes
}

/// The volume of this name or identity, if a replica of it is here. A superblock has the name that
/// its volume had when the replica was made: if replicas of several volumes have it, one was
/// renamed, and the name does not tell which is meant.
pub(super) async fn one(node: &Arc<Node>, volume: &str) -> Option<VolumeStatus> {
    let wanted = volume.to_owned();
    let is = move |it: &Superblock| it.name == wanted || it.volume.to_string() == wanted;
    let mut found = on_disks(node, is).await.into_values();
    let newest = found.next().filter(|_| found.next().is_none())?;
    let id = newest.superblock.volume;
    reported(node, vec![newest], Some(id)).await.pop()
}

/// What the node says that has a volume attached of which nothing is known here.
///
/// # Errors
/// `refused`, if no node that answers has it attached; with the ones that know it otherwise, beside
/// what it advises.
pub(super) async fn elsewhere(
    node: &Arc<Node>,
    volume: &str,
    refused: ApiError,
) -> Result<VolumeStatus, ApiError> {
    let only = volume.parse().ok();
    let found = found::elsewhere(node, only, |member| reports::patience(member, false)).await;
    let is_it = |it: &Superblock| it.name == volume || it.volume.to_string() == volume;
    let replicas: Vec<_> = found.replicas.iter().filter(|it| is_it(&it.superblock)).collect();
    let ids: BTreeSet<_> = replicas.iter().map(|replica| replica.superblock.volume).collect();
    // One of several by this name was renamed, and the name does not tell which is meant.
    let id = match (volume.parse::<VolumeId>(), ids.len()) {
        (Ok(id), _) => id,
        (Err(_), 1) => replicas[0].superblock.volume,
        (Err(_), _) => return Err(refused),
    };
    let is_attached = |(attached, _): &&(String, String)| *attached == id.to_string();
    let attached: Vec<_> = found.attached.iter().filter(is_attached).map(|(_, at)| at).collect();
    for name in &attached {
        if let Some(status) = by_name_of_primary(node, name, id).await {
            return Ok(status);
        }
    }
    let attached = attached.into_iter().map(|name| (name, "on which it is attached"));
    let holders = replicas.iter().map(|it| (&it.node_name, "which has a replica of it"));
    Err(match attached.chain(holders).next() {
        None => refused,
        Some((name, role)) => {
            let ask = format!("Ask node {name}, {role}: `evenkeel volume status` there");
            let action = format!("{ask}. {}", refused.action);
            ApiError { action, ..refused }
        }
    })
}

/// What the node of this name says of a volume that is attached there, with what the others do.
async fn by_name_of_primary(
    node: &Arc<Node>,
    name: &str,
    volume: VolumeId,
) -> Option<VolumeStatus> {
    let member = node.coordinator.node_by_name(name)?;
    let status = primaries::reported_by(node, &member, &volume.to_string(), false).await?;
    let at = member.node.id.parse().ok()?;
    Some(primaries::beside(node, node.coordinator.node_ref(at), status).await)
}

/// What others know of these volumes, all asked at the same time: where all are silent, one wait is
/// to follow no other. `only`: nothing is asked of others.
async fn reported(
    node: &Arc<Node>,
    ours: Vec<Newest>,
    only: Option<VolumeId>,
) -> Vec<VolumeStatus> {
    if ours.is_empty() {
        return Vec::new();
    }
    let asked: Vec<_> = ours.iter().map(|newest| by_primary(node, newest)).collect();
    let views = ours.iter().map(|newest| &newest.superblock.view);
    let (mut reports, others) = tokio::join!(
        reports::ask(node, views, false),
        found::elsewhere(node, only, |member| reports::patience(member, false)),
    );
    let (mut volumes, mut unreported) = answered(ours.into_iter().zip(asked).collect()).await;
    for (newest, _) in &mut unreported {
        newest.learn(node, &others);
    }
    // Who has not answered by now is silent: only those are asked again that have.
    let is_silent = |id: NodeId| reports.answered(id) == Some(false);
    let newer = unreported.iter().filter(|(newest, _)| newest.node.is_some());
    let replicas = newer.flat_map(|(newest, _)| newest.superblock.view.replicas());
    let replicas = replicas.map(|(_, record)| (record.node, record.id));
    let replicas: Vec<_> = replicas.filter(|(at, _)| !is_silent(*at)).collect();
    let again = unreported.into_iter().map(|(newest, before)| {
        let is_new = |id: &NodeId| Some(*id) != before && !is_silent(*id);
        let asked = newest.primary(node).filter(is_new);
        let asked = asked.map(|at| ask(node, &newest, at));
        (newest, asked)
    });
    let again: Vec<_> = again.collect();
    reports.extend(reports::ask_of(node, replicas, false).await);
    let (more, unreported) = answered(again).await;
    volumes.extend(more);
    volumes.extend(unreported.iter().map(|(newest, _)| of_replica(node, newest, &reports)));
    volumes
}

/// A question to a primary's node.
type Asked = (NodeId, JoinHandle<Option<VolumeStatus>>);

/// What primaries have answered, and the volumes of which none has, with the node that was asked.
async fn answered(
    asked: Vec<(Newest, Option<Asked>)>,
) -> (Vec<VolumeStatus>, Vec<(Newest, Option<NodeId>)>) {
    let (mut reported, mut unreported) = (Vec::new(), Vec::new());
    for (newest, asked) in asked {
        let Some((at, answer)) = asked else {
            unreported.push((newest, None));
            continue;
        };
        match answer.await {
            Ok(Some(status)) => reported.push(status),
            Ok(None) => unreported.push((newest, Some(at))),
            Err(error) => {
                tracing::error!(%error, "a primary was not asked");
                unreported.push((newest, Some(at)));
            }
        }
    }
    (reported, unreported)
}

/// The newest view of a volume that a replica knows which answers.
struct Newest {
    superblock: Superblock,
    /// The node of that replica; `None`: it is here.
    node: Option<String>,
    /// The replicas of the volume that were found.
    placed: Vec<PlacedReplica>,
    /// A node that says that it has the volume attached.
    attached: Option<NodeId>,
}

impl Newest {
    /// With what other nodes say.
    fn learn(&mut self, node: &Node, others: &Everything) {
        let volume = self.superblock.volume;
        let id = volume.to_string();
        let attached = others.attached.iter().find(|(volume, _)| *volume == id);
        let at = attached.and_then(|(_, name)| node.coordinator.node_by_name(name));
        self.attached = at.and_then(|member| member.node.id.parse().ok());
        for replica in others.replicas.iter().filter(|it| it.superblock.volume == volume) {
            self.add(replica);
        }
    }

    /// With what the disk of a replica elsewhere says.
    fn add(&mut self, replica: &Replica) {
        let superblock = &replica.superblock;
        if let Some(disk) = &replica.disk {
            self.placed.push(placed(superblock, replica.node, disk.clone()));
        }
        if is_newer(&superblock.view, &self.superblock.view) {
            self.superblock = superblock.clone();
            self.node = Some(replica.node_name.clone());
        }
    }

    /// Where it is attached, if not here.
    fn primary(&self, node: &Node) -> Option<NodeId> {
        self.attached.or_else(|| lookup::primary_elsewhere(node, &self.superblock.view))
    }
}

/// Whether a view was made after another one. Of two that do not descend from each other the one
/// with more generations is taken: somebody has to choose, and that is not told here.
fn is_newer(view: &View, than: &View) -> bool {
    match (view.continues(than), than.continues(view)) {
        (true, false) => true,
        (false, true) => false,
        _ => view.generation > than.generation,
    }
}

fn placed(superblock: &Superblock, node: NodeId, disk: String) -> PlacedReplica {
    PlacedReplica {
        id: superblock.replica.to_string(),
        mirror: superblock.mirror as usize,
        node: node.to_string(),
        disk,
        removed: false,
        maker: None,
    }
}

/// Of those volumes that are wanted.
async fn on_disks(
    node: &Arc<Node>,
    is_wanted: impl Fn(&Superblock) -> bool + Send + 'static,
) -> BTreeMap<VolumeId, Newest> {
    let read = node.blocking(move |node| {
        let mut newest: BTreeMap<VolumeId, Newest> = BTreeMap::new();
        for place in node.disks.places_of(&is_wanted) {
            let read = examine_one(&place.path).superblock;
            let Some(superblock) = read.filter(&is_wanted) else { continue };
            let placed = placed(&superblock, node.identity.node, place.disk);
            let entry = newest.entry(superblock.volume).or_insert_with(|| Newest {
                superblock: superblock.clone(),
                node: None,
                placed: Vec::new(),
                attached: None,
            });
            entry.placed.push(placed);
            if is_newer(&superblock.view, &entry.superblock.view) {
                entry.superblock = superblock;
            }
        }
        Ok(newest)
    });
    let read = tokio::time::timeout(PATIENCE, read).await;
    read.ok().and_then(Result::ok).unwrap_or_default()
}

/// Asks the node on which the volume is attached, if that is known.
fn by_primary(node: &Arc<Node>, newest: &Newest) -> Option<Asked> {
    newest.primary(node).map(|at| ask(node, newest, at))
}

fn ask(node: &Arc<Node>, newest: &Newest, at: NodeId) -> Asked {
    let (node, volume) = (node.clone(), newest.superblock.volume.to_string());
    let answer = tokio::spawn(async move {
        let member = node.coordinator.node(at)?;
        let status = primaries::reported_by(&node, &member, &volume, false).await?;
        Some(primaries::beside(&node, node.coordinator.node_ref(at), status).await)
    });
    (at, answer)
}

/// Whether the nodes that answer have closed their replicas because the volume was stopped: a view
/// does not say that. One that was away when the volume was assembled again has not opened its
/// replica yet, and one that is open says so.
fn is_stopped(node: &Node, view: &View, reports: &Reports) -> bool {
    let unserved = |record: &ReplicaRecord| match record.node == node.identity.node {
        true => Some(node.disks.why_not_served(record.id)),
        false => (reports.answered(record.node) == Some(true)).then(|| reports.unserved(record.id)),
    };
    let reported: Vec<_> = view.replicas().filter_map(|(_, record)| unserved(record)).collect();
    reported.iter().all(Option::is_some)
        && reported.iter().any(|why| matches!(why, Some(Unserved::Stopped(_))))
}

/// From the view itself, which may have been replaced since.
fn of_replica(node: &Node, newest: &Newest, reports: &Reports) -> VolumeStatus {
    let superblock = &newest.superblock;
    let id = superblock.volume.to_string();
    let stopped = is_stopped(node, &superblock.view, reports);
    let record = VolumeRecord {
        id,
        name: superblock.name.clone(),
        no_data: NoData::default(),
        replicas: newest.placed.clone(),
        stopped,
        checksums: superblock.has_checksums,
        used_on: None,
        wanted_on: WantedOn::default(),
        verified: None,
        revision: 0,
        lost: Vec::new(),
    };
    let reporter = node.identity.name.clone();
    let home = newest.node.clone().unwrap_or_else(|| reporter.clone());
    let saved = Some(superblock.saved).filter(|saved| *saved > 0);
    let stopped = stopped.then(|| superblock.name.clone());
    let account = Account::Replica { node: home, saved, reporter, stopped };
    let mut status = status::of_adopted(node, &record, &superblock.view, account, reports);
    status.as_of = saved;
    status
}

#[cfg(test)]
mod tests;

//! Attaching again what is meant to be attached here: after a restart of the daemon, and after this
//! node's primary was evicted because nobody had heard of it for too long.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_attach::AttachError;
use evenkeel_core::{Incarnation, PrimaryId, VolumeId};

use super::{FILE, Volumes, Wanted, attach, export, lock, lookup, wanted};
use crate::admission;
use crate::api::{ApiError, ErrorCode};
use crate::coordinator::{Answer, CallError, Request, StoredVolume};
use crate::node::Node;

/// The pause between attempts: the first, doubled each time up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Why nothing is attached at the daemon's start.
const RESTARTED: &str = "the daemon was restarted";

/// A volume that is to be attached here again.
#[derive(Debug, Clone)]
pub(super) struct Awaited {
    how: Wanted,
    /// Why it is not attached here, as a sentence; then what it waits for.
    why: String,
}

impl Volumes {
    /// It is to be attached here again, as soon as it may.
    pub(super) fn await_again(&self, volume: VolumeId, how: Wanted, why: &str) {
        let awaited = Awaited { how, why: why.to_owned() };
        lock(&self.awaited).insert(volume, awaited);
    }

    /// It is attached, or is not to be. Returns true if it was to be attached again.
    pub(super) fn stop_awaiting(&self, volume: VolumeId) -> bool {
        lock(&self.awaited).remove(&volume).is_some()
    }

    /// The volume of this name or identity that is to be attached here again.
    pub(super) fn awaited_by_name(&self, name: &str) -> Option<VolumeId> {
        let awaited = lock(&self.awaited);
        let is = |(_, it): &(&VolumeId, &Awaited)| it.how.name == name || it.how.volume == name;
        awaited.iter().find(is).map(|(volume, _)| *volume)
    }

    /// How a volume is to be attached here again, and why it is not yet, as a sentence.
    pub(super) fn why_awaited(&self, volume: VolumeId) -> Option<(Wanted, String)> {
        self.awaited(volume).map(|awaited| (awaited.how, awaited.why))
    }

    /// What is attached here, or is to be again: for the next daemon.
    pub(super) fn all_wanted(&self) -> Vec<Wanted> {
        let attached = self.all();
        let is_attached = |id: &VolumeId| attached.iter().any(|attached| attached.id == *id);
        let awaited = lock(&self.awaited);
        let others =
            awaited.iter().filter(|(id, _)| !is_attached(id)).map(|(_, it)| it.how.clone());
        attached.iter().map(|attached| attached.wanted()).chain(others).collect()
    }

    /// These devices give errors, and are used.
    pub(super) fn note_dead(&self, volume: VolumeId, devices: impl Iterator<Item = PathBuf>) {
        if let Some(awaited) = lock(&self.awaited).get_mut(&volume) {
            awaited.how.dead.extend(devices);
        }
    }

    fn awaited(&self, volume: VolumeId) -> Option<Awaited> {
        lock(&self.awaited).get(&volume).cloned()
    }

    /// Returns true if this is news.
    fn waits_for(&self, volume: VolumeId, why: &str) -> bool {
        lock(&self.awaited).get_mut(&volume).is_some_and(|awaited| {
            let is_new = awaited.why != why;
            why.clone_into(&mut awaited.why);
            is_new
        })
    }
}

/// Attaches again what was attached when the last daemon ended, and what the coordinator says is wanted
/// here though this node has forgotten it.
pub async fn resume(node: Arc<Node>) {
    let untold = wanted::load_untold(&node);
    let awaited = await_remembered(&node);
    if !admission::admitted(&node).await {
        return;
    }
    for volume in awaited {
        tokio::spawn(until_attached(node.clone(), volume));
    }
    for volume in untold {
        tokio::spawn(wanted::until_told(node.clone(), volume));
    }
    await_what_is_wanted(&node).await;
}

/// What this node remembers. Returns the volumes.
fn await_remembered(node: &Node) -> Vec<VolumeId> {
    let wanted = match node.state.load::<Vec<Wanted>>(FILE) {
        Ok(wanted) => wanted.unwrap_or_default(),
        Err(error) => {
            node.warn(error.to_string());
            return Vec::new();
        }
    };
    let mut awaited = Vec::new();
    for mut wanted in wanted {
        let Ok(volume) = wanted.volume.parse::<VolumeId>() else {
            let (name, id) = (&wanted.name, &wanted.volume);
            node.warn(format!("cannot attach volume {name} again: {id:?} is no identity"));
            continue;
        };
        // It was detached, and the daemon ended before this list was saved.
        if node.volumes.is_untold(volume) {
            continue;
        }
        match node.identity.start.last_has_ended() {
            true => node.volumes.note_last(volume, Incarnation(wanted.incarnation)),
            // It may run on with another copy of this state directory: it is not this one's any more.
            false => wanted.incarnation = 0,
        }
        node.volumes.await_again(volume, wanted, RESTARTED);
        awaited.push(volume);
    }
    awaited
}

/// What the coordinator says is wanted here. It knows, too, what an attach was about to save when the
/// daemon died, and outlives a state directory whose list was lost.
async fn await_what_is_wanted(node: &Arc<Node>) {
    let mut stopping = node.stopping.subscribe();
    let stored = tokio::select! {
        stored = all_volumes(node) => stored,
        _ = stopping.wait_for(|stopping| *stopping) => return,
    };
    let here = node.identity.node.to_string();
    for record in stored.into_iter().map(|stored| stored.record) {
        let shown = record.wanted_on.get(&here).copied().flatten();
        let (Some(shown), Ok(volume)) = (shown, record.id.parse()) else { continue };
        let _changing = node.volumes.change(volume).await;
        let volumes = &node.volumes;
        let is_known = volumes.get(volume).is_some() || volumes.awaited(volume).is_some();
        if is_known || volumes.is_untold(volume) {
            continue;
        }
        let (volume_id, name) = (record.id, record.name);
        let how = Wanted::new(volume_id, name, 0, shown);
        node.volumes.await_again(volume, how, RESTARTED);
        tokio::spawn(until_attached(node.clone(), volume));
    }
}

/// All volumes, as soon as the coordinator answers. None if it refuses.
async fn all_volumes(node: &Node) -> Vec<StoredVolume> {
    let mut pause = PAUSE.0;
    loop {
        match node.coordinator.call_once(Request::Volumes).await {
            Ok(Answer::Volumes(stored)) => return stored,
            Err(CallError::Unreachable(_)) => {}
            other => {
                tracing::warn!(?other, "it is not known which volumes are wanted here");
                return Vec::new();
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Tries until the volume is attached, nobody wants it any more, or the daemon ends.
pub(super) async fn until_attached(node: Arc<Node>, volume: VolumeId) {
    let mut stopping = node.stopping.subscribe();
    tokio::select! {
        () = try_repeatedly(&node, volume) => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}

async fn try_repeatedly(node: &Arc<Node>, volume: VolumeId) {
    let mut pause = PAUSE.0;
    while let Err(error) = try_once(node, volume).await {
        if !passes(error.code) {
            let _changing = node.volumes.change(volume).await;
            if node.volumes.stop_awaiting(volume) {
                node.volumes.save(node).await;
                wanted::changed(node, volume).await;
            }
            return node.warn(error.to_string());
        }
        if node.volumes.waits_for(volume, &error.why) {
            tracing::warn!(%volume, %error, "cannot attach it again yet");
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Whether time may mend it, or somebody who need not say so.
const fn passes(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NoCoordinator
            | ErrorCode::NotJoined
            | ErrorCode::NoData
            | ErrorCode::OldCopy
            | ErrorCode::NodeUnreachable
            | ErrorCode::DeviceBusy
            | ErrorCode::TimedOut
    )
}

async fn try_once(node: &Arc<Node>, volume: VolumeId) -> Result<(), ApiError> {
    let _changing = node.volumes.change(volume).await;
    // It was attached or detached by hand meanwhile.
    let Some(Awaited { how, .. }) = node.volumes.awaited(volume) else { return Ok(()) };
    let what = format!("cannot attach volume {} again", how.name);
    refuse_dead(node, how.dead.clone(), &what).await?;
    refuse_unwanted(node, &how.volume, &what).await?;
    let attached = attach::start(node, &what, &how.volume, how.shown()).await?;
    if let Some(nbd) = how.nbd
        && let Err(error) = export::start(node, &attached, nbd, &what).await
    {
        node.warn(error.to_string());
    }
    // A device that outlived the last daemon is taken up only if nobody wrote in between.
    let last = PrimaryId { node: node.identity.node, incarnation: Incarnation(how.incarnation) };
    let alone = attached.follows.get() == Some(&last);
    if how.device
        && let Err(error) = attach::make_device(node, &attached, alone, &what).await
    {
        node.warn(error.to_string());
    }
    tracing::info!(volume = how.name, "attached again");
    attached.event("attached again".into());
    node.volumes.stop_awaiting(volume);
    node.volumes.save(node).await;
    if attached.shown() != how.shown() {
        wanted::changed(node, volume).await;
    }
    Ok(())
}

/// The coordinator knows whether it is wanted here still, whatever this node remembers. Where it says
/// nothing of this node, because older software noted nothing, whoever attached it elsewhere meanwhile
/// wanted it there, also if it is detached there by now; a volume that several nodes may attach is wanted
/// by each for itself.
async fn refuse_unwanted(node: &Node, volume: &str, what: &str) -> Result<(), ApiError> {
    let found = lookup::find(node, what, volume).await?;
    let record = &found.stored.record;
    let used_on = record.used_on.as_deref().and_then(|id| id.parse().ok());
    let other = used_on.filter(|id| *id != node.identity.node && !found.view.is_shared());
    let noted = record.wanted_on.get(&node.identity.node.to_string());
    let why = match (noted, other) {
        (Some(Some(_)), _) | (None, None) => return Ok(()),
        (_, Some(other)) => {
            let name = node.coordinator.node_ref(other).name;
            format!("node {name} has attached it since this one did")
        }
        (Some(None), None) => "it is not wanted here any more: it was detached or stopped since this node had it attached".into(),
    };
    let advice = "Attach it by hand, where it is wanted: `evenkeel attach`";
    Err(ApiError::new(ErrorCode::AttachedElsewhere, what, why, advice))
}

/// A device that gave errors is not replaced while it is mounted or open.
async fn refuse_dead(node: &Arc<Node>, dead: Vec<PathBuf>, what: &str) -> Result<(), ApiError> {
    let what = what.to_owned();
    let check = move |_: &Node| {
        for device in dead {
            match evenkeel_attach::users_of_dead(&device) {
                Ok(None) => {}
                Ok(Some(users)) => {
                    let error = AttachError::InUse { device, users };
                    return Err(attach::device_error(&what, &error));
                }
                Err(error) => return Err(attach::device_error(&what, &error)),
            }
        }
        Ok(())
    };
    node.blocking(check).await
}

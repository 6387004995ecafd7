//! Attaching again what is meant to be attached here: after a restart of the daemon, and after this
//! node's primary was evicted because nobody had heard of it for too long. What cannot be shown
//! then by its device or export serves without, and that is tried until it succeeds.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_attach::{AttachError, DeadDevice};
use evenkeel_core::primary::EndReason;
use evenkeel_core::settings::Pauses;
use evenkeel_core::{Incarnation, PrimaryId, VolumeId};

use super::actor::{self, Turn, turn};
use super::lifecycle::{AskedBy, Awaited};
use super::{device, export, nvme, start, wanted};
use crate::coordinator::{Answer, CallError, Fate, FoundReplica, Request, Shown, StoredVolume};
use crate::volumes::Node;
use crate::volumes::remembered::{ATTACHED, Wanted};
use crate::volumes::{Attached, lookup, messages};

/// The pauses between attempts.
const PAUSES: Pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(10));

/// Why nothing is attached at the daemon's start.
const RESTARTED: &str = "the daemon was restarted";

/// Loads what was attached when the last daemon ended, before anything can be attached or detached.
/// It is attached again as soon as the coordinator has admitted this start.
pub fn load(node: &Arc<Node>) {
    // What was saved meanwhile would lack what is not loaded yet.
    let _held = node.volumes.hold_saves();
    wanted::load_unreported(node);
    await_remembered(node);
}

/// Attaches what the coordinator says is wanted here though this node has forgotten it.
pub async fn resume(node: Arc<Node>) {
    if node.admission.admitted().await {
        await_what_is_wanted(&node).await;
    }
}

/// What this node remembers.
fn await_remembered(node: &Arc<Node>) {
    let wanted = match node.state.load::<Vec<Wanted>>(ATTACHED) {
        Ok(wanted) => wanted.unwrap_or_default(),
        Err(error) => {
            return node.warn(error.to_string());
        }
    };
    for mut wanted in wanted {
        let Ok(volume) = wanted.volume.parse::<VolumeId>() else {
            let (name, id) = (&wanted.name, &wanted.volume);
            node.warn(format!("cannot attach volume {name} again: {id:?} is no identity"));
            continue;
        };
        // It was detached, and the daemon ended before this list was saved.
        if node.volumes.is_unreported(volume) {
            continue;
        }
        let has_ended = node.identity.start.last_has_ended();
        let earlier = has_ended.then_some(Incarnation(wanted.incarnation));
        if !has_ended {
            // It may run on with another copy of this state directory: it is not this one's any
            // more.
            wanted.incarnation = 0;
        }
        actor::remembered(node, volume, wanted, RESTARTED, earlier);
    }
}

/// What the coordinator says is wanted here. It knows, too, what an attach was about to save when
/// the daemon died, and outlives a state directory whose list was lost.
async fn await_what_is_wanted(node: &Arc<Node>) {
    // The daemon ends, and the next one asks.
    let Some(stored) = node.unless_stopping(all_volumes(node)).await else { return };
    let here = node.identity.node.to_string();
    for record in stored.into_iter().map(|stored| stored.record) {
        let shown = record.wanted_on.get(&here).cloned().flatten();
        let (Some(shown), Ok(volume)) = (shown, record.id.parse()) else { continue };
        let turn = turn(node, volume).await;
        let volumes = &node.volumes;
        let is_known = volumes.get(volume).is_some() || volumes.awaited(volume).is_some();
        if is_known || volumes.is_unreported(volume) {
            continue;
        }
        let (volume_id, name) = (record.id, record.name);
        let how = Wanted::new(volume_id, name, 0, shown);
        turn.await_again(how, RESTARTED);
    }
}

/// All volumes, as soon as the coordinator answers. None if it refuses.
async fn all_volumes(node: &Node) -> Vec<StoredVolume> {
    let mut pause = PAUSES.first;
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
        pause = PAUSES.after(pause);
    }
}

/// Tries until the volume is attached and shown, nobody wants it any more, or the daemon ends.
pub(super) async fn until_attached(node: Arc<Node>, volume: VolumeId) {
    let tries = async {
        if node.admission.admitted().await {
            try_repeatedly(&node, volume).await;
        }
    };
    let _ = node.unless_stopping(tries).await;
}

async fn try_repeatedly(node: &Arc<Node>, volume: VolumeId) {
    let mut pause = PAUSES.first;
    let mut last = None;
    // It may be attached or detached by hand at any time.
    while actor::next_try(node, volume) {
        let error = match try_once(node, volume, &mut last).await {
            Ok(()) => continue,
            Err(Failed::Unwanted(error)) => {
                give_up(node, volume, &error).await;
                continue;
            }
            Err(Failed::Waits(error)) => error,
        };
        if actor::waits_for(node, volume, &error.why) {
            tracing::warn!(%volume, %error, "it is tried again");
        }
        tokio::time::sleep(pause).await;
        pause = PAUSES.after(pause);
    }
}

/// Why a volume is not attached again by an attempt.
#[derive(Debug)]
enum Failed {
    /// It is gone, or not wanted here any more.
    Unwanted(ApiError),
    /// It may pass by itself, or somebody ends it who need not say so: all else.
    Waits(ApiError),
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        match error.code {
            ErrorCode::NoSuchVolume => Self::Unwanted(error),
            _ => Self::Waits(error),
        }
    }
}

async fn give_up(node: &Arc<Node>, volume: VolumeId, error: &ApiError) {
    let turn = turn(node, volume).await;
    // It was attached by hand meanwhile, perhaps.
    if node.volumes.awaited(volume).is_none() {
        return;
    }
    node.warn(error.to_string());
    turn.unwant();
    turn.save().await;
    wanted::changed(node, &turn).await;
}

/// `last`: the primary of the last daemon here, as soon as it is known.
async fn try_once(
    node: &Arc<Node>,
    volume: VolumeId,
    last: &mut Option<PrimaryId>,
) -> Result<(), Failed> {
    let turn = turn(node, volume).await;
    if let Some(unshown) = node.volumes.unshown(volume) {
        return show_rest(node, &turn, unshown.missing, *last).await.map_err(Failed::Waits);
    }
    let Some(Awaited { how, .. }) = node.volumes.awaited(volume) else { return Ok(()) };
    let what = format!("cannot attach volume {} again", how.name);
    // What is left of the last one.
    start::alive(node, &turn, &what).await?;
    refuse_dead(node, how.dead.clone(), &what).await?;
    refuse_unwanted(node, &how, &what).await?;
    *last = Some(last_primary(node, &how));
    let (_, shown) = attach(node, &turn, &how, &what).await?;
    shown.map_err(Failed::Waits)
}

/// The primary of the last daemon here.
fn last_primary(node: &Node, how: &Wanted) -> PrimaryId {
    PrimaryId { node: node.identity.node, incarnation: Incarnation(how.incarnation) }
}

/// Attaches it, shown as it was. Also returns why it is not shown by all of that, if so: that is
/// tried until it succeeds.
async fn attach(
    node: &Arc<Node>,
    turn: &Turn,
    how: &Wanted,
    what: &str,
) -> Result<(Arc<Attached>, Result<(), ApiError>), ApiError> {
    let attached = start::start(node, turn, what, how.shown()).await?;
    let last = Some(last_primary(node, how));
    let shown = show(node, turn, &attached, how.shown(), last).await;
    let is_established = match &shown {
        Ok(()) => turn.establish(&attached),
        Err(error) => turn.establish_unshown(&attached, &error.why),
    };
    if !is_established {
        return Err(start::not_established(node, turn, &attached, what).await);
    }
    tracing::info!(volume = how.name, "attached again");
    attached.event("attached again".into());
    turn.save().await;
    wanted::changed(node, turn).await;
    if let Err(error) = &shown {
        let text = format!("{error}; it is tried again until it succeeds");
        node.warnings.warn_until_shown(attached.id, text);
    }
    Ok((attached, shown))
}

/// A command wants the volume here, before it is attached again by itself: then that is done first,
/// so that both orders end the same. `None`: it is not meant to be attached here, or not any more.
///
/// # Errors
/// If it cannot be attached.
pub(in crate::volumes) async fn take_up(
    node: &Arc<Node>,
    turn: &Turn,
    what: &str,
) -> Result<Option<Arc<Attached>>, ApiError> {
    let Some(Awaited { how, .. }) = node.volumes.awaited(turn.volume()) else { return Ok(None) };
    match refuse_unwanted(node, &how, what).await {
        Err(Failed::Unwanted(_)) => return Ok(None),
        // What else keeps this node from it by itself, somebody decides who asks for it.
        Err(Failed::Waits(_)) | Ok(()) => {}
    }
    let (attached, _) = attach(node, turn, &how, what).await?;
    Ok(Some(attached))
}

/// Makes what an attached volume is still to be shown by.
async fn show_rest(
    node: &Arc<Node>,
    turn: &Turn,
    missing: Shown,
    last: Option<PrimaryId>,
) -> Result<(), ApiError> {
    let Some(attached) = node.volumes.get(turn.volume()) else { return Ok(()) };
    show(node, turn, &attached, missing, last).await?;
    tracing::info!(volume = attached.name(), "shown again");
    attached.event("its device and exports are there again".into());
    Ok(())
}

/// Makes the device and the exports, each whether the others can be made or not.
async fn show(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    missing: Shown,
    last: Option<PrimaryId>,
) -> Result<(), ApiError> {
    let what = format!("cannot show volume {} again", attached.name());
    // A device that outlived the last daemon is taken up only if nobody wrote in between.
    let is_exported = attached.nbd().is_some() || attached.nvme().is_some();
    let alone = last.is_some() && attached.follows() == last && !is_exported;
    let made = match missing.device {
        true => device::make_device(node, turn, attached, alone, AskedBy::Before, &what).await,
        false => Ok(()),
    };
    let exported = match missing.nbd {
        Some(nbd) => export::start(node, turn, attached, nbd, &what).await,
        None => Ok(()),
    };
    let exported_nvme = match missing.nvme {
        Some(wanted) => nvme::start(node, turn, attached, wanted, &what).await,
        None => Ok(()),
    };
    made.and(exported).and(exported_nvme)
}

/// The coordinator knows whether it is wanted here still, whatever this node remembers. Where it
/// says nothing of this node, because older software noted nothing, whoever attached it elsewhere
/// meanwhile wanted it there, also if it is detached there by now; a volume that several nodes may
/// attach is wanted by each for itself.
async fn refuse_unwanted(node: &Node, how: &Wanted, what: &str) -> Result<(), Failed> {
    let found = match lookup::find(node, what, &how.volume).await {
        Err(error) if error.code == ErrorCode::NoSuchVolume => {
            return Err(of_unknown(node, &how.volume, error).await);
        }
        found => found?,
    };
    if how.replaced.as_ref().is_some_and(|replaced| replaced.is_not_before(&found.view)) {
        let why = "the coordinator's view of it is older than this node's attachment: its database was restored from an old backup";
        return Err(Failed::Waits(outdated(what, why)));
    }
    start::refuse_stopped(&found, what).map_err(Failed::Unwanted)?;
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
    Err(Failed::Unwanted(ApiError::new(ErrorCode::AttachedElsewhere, what, why, advice)))
}

/// What of a volume that the coordinator does not know. It remembers each one that was deleted.
async fn of_unknown(node: &Node, volume: &str, error: ApiError) -> Failed {
    let found = FoundReplica { volume: volume.to_owned(), replica: String::new() };
    match node.coordinator.call_once(Request::Fates(vec![found])).await {
        Ok(Answer::Fates(fates)) if fates == [Fate::Unknown] => {
            let why = "the coordinator does not know it, and has not deleted it: its database was restored from an old backup";
            Failed::Waits(outdated(&error.what, why))
        }
        Ok(Answer::Fates(_)) => Failed::Unwanted(error),
        _ => Failed::Waits(error),
    }
}

/// What the coordinator says of wishes is as old as its database.
fn outdated(what: &str, why: &str) -> ApiError {
    let (code, advice) = messages::attach_failed(EndReason::CoordinatorBehind, "NAME");
    ApiError::new(code, what, why, advice)
}

/// A device that gave errors is not replaced while it is mounted or open.
async fn refuse_dead(node: &Arc<Node>, dead: Vec<DeadDevice>, what: &str) -> Result<(), ApiError> {
    let what = what.to_owned();
    let check = move |_: &Node| {
        for device in dead {
            match evenkeel_attach::users_of_dead(&device) {
                Ok(None) => {}
                Ok(Some(users)) => {
                    let device = device.path().to_owned();
                    let error = AttachError::InUse { device, users };
                    return Err(device::device_error(&what, &error));
                }
                Err(error) => return Err(device::device_error(&what, &error)),
            }
        }
        Ok(())
    };
    node.blocking(check).await
}

#[cfg(test)]
mod tests;

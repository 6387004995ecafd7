//! Ending the use of a volume: at a command, when its primary has ended, and when the daemon ends.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::types::{DetachAnswer, DetachRequest};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_attach::AttachError;
use evenkeel_core::VolumeId;
use evenkeel_core::primary::EndReason;
use hyper::Method;
use tokio::time::Instant;

use super::unclean;
use crate::cluster;
use crate::coordinator::{NodeLiveness, Request};
use crate::volumes::Attached;
use crate::volumes::Node;
use crate::volumes::attachment::actor::{Turn, turn};
use crate::volumes::attachment::device::{self, device_error, place};
use crate::volumes::attachment::end::{END, end};
use crate::volumes::attachment::lifecycle::{Over, Phase};
use crate::volumes::attachment::start::why_ended;
use crate::volumes::attachment::{export, exports, nvme, wanted};
use crate::volumes::lookup::{Found, There, find, moved, named, not_done};

/// How long a client has that is about to leave, and how often it is looked whether it has.
const LEAVING: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Ends the use of a volume.
///
/// # Errors
/// If it is not attached, or its device or an export of it is in use.
pub async fn detach(
    node: &Arc<Node>,
    volume: &str,
    request: DetachRequest,
    forwarded: bool,
) -> Result<DetachAnswer, ApiError> {
    let what = format!("cannot detach volume {volume}");
    if let Some(id) = node.volumes.awaited_by_name(volume)
        && (forwarded || is_here(node, &what, request.node.as_deref()).await?)
        && let Some(answer) = give_up_awaiting(node, id, volume).await
    {
        return answer;
    }
    if let Some(attached) = node.volumes.by_name(volume)
        && (forwarded || is_here(node, &what, request.node.as_deref()).await?)
    {
        return detach_unused(node, &attached, &what).await;
    }
    let (found, target) = match detach_there(node, volume, &request, forwarded, &what).await? {
        Where::Left(found) => return unclean::give_up(node, &found, &what).await,
        Where::There(found, target) => (found, target),
    };
    if !target.may_live && wanted::take_back(node, &found, &target, &what).await? {
        return Ok(unclean::not_again(volume, &target.node.name));
    }
    let path = routes::fill(routes::DETACH, &[volume]);
    let (body, deadline) = (Some(&request), cluster::COMMAND);
    let answer = node.cluster.forward(&target, Method::POST, &path, body, deadline).await;
    let there = There { found: &found, target: &target, what: &what };
    match answer {
        Ok(answer) => Ok(answer),
        Err(error) => Err(not_done(node, &there, error, cluster::for_what).await),
    }
}

/// Detaches what is attached here, unless a client uses it.
async fn detach_unused(
    node: &Arc<Node>,
    attached: &Arc<Attached>,
    what: &str,
) -> Result<DetachAnswer, ApiError> {
    refuse_without_coordinator(node, what).await?;
    refuse_clients(node, attached, what).await?;
    let turn = turn(node, attached.id).await;
    detach_here(node, &turn, attached, what).await
}

/// The same for whoever has the turn: nobody exports it meanwhile.
pub(super) async fn detach_in_turn(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    what: &str,
) -> Result<DetachAnswer, ApiError> {
    refuse_without_coordinator(node, what).await?;
    refuse_clients(node, attached, what).await?;
    detach_here(node, turn, attached, what).await
}

/// It is not attached here, and is not to be again. `None`: it is attached meanwhile.
async fn give_up_awaiting(
    node: &Arc<Node>,
    volume: VolumeId,
    name: &str,
) -> Option<Result<DetachAnswer, ApiError>> {
    let turn = turn(node, volume).await;
    node.volumes.awaited(volume)?;
    Some(give_up_in_turn(node, &turn, name).await)
}

/// The same for whoever has the turn. The view may name a primary of an earlier daemon still.
///
/// # Errors
/// As [`unclean::give_up_rest`]; and if somebody uses a device of an earlier daemon that waits to
/// be served again: then the volume is still to be attached here.
pub(super) async fn give_up_in_turn(
    node: &Arc<Node>,
    turn: &Turn,
    name: &str,
) -> Result<DetachAnswer, ApiError> {
    device::refuse_waiting(node, name, &format!("cannot detach volume {name}")).await?;
    turn.unwant();
    turn.save().await;
    wanted::changed(node, turn).await;
    unclean::give_up_rest(node, turn, name).await
}

async fn is_here(node: &Node, what: &str, name: Option<&str>) -> Result<bool, ApiError> {
    match name {
        None => Ok(true),
        Some(name) => named(node, what, name).await.map(|member| member.is_none()),
    }
}

/// Where a volume is detached that nothing uses here.
enum Where {
    /// On a node on which it is attached, or meant to be.
    There(Found, NodeLiveness),
    /// Here: a primary of this node has ended, and the view names it still.
    Left(Found),
}

async fn detach_there(
    node: &Node,
    volume: &str,
    request: &DetachRequest,
    forwarded: bool,
    what: &str,
) -> Result<Where, ApiError> {
    let found = find(node, what, volume).await?;
    // Whoever names no node means this one.
    let target = match request.node.as_deref().filter(|_| !forwarded) {
        Some(name) => named(node, what, name).await?,
        None => None,
    };
    if let Some(target) = target {
        refuse_elsewhere(node, &found, Some(&target), what)?;
        return Ok(Where::There(found, target));
    }
    if unclean::is_left(node, &found.view) {
        return Ok(Where::Left(found));
    }
    if forwarded && !found.view.primaries.is_empty() {
        return Err(moved(what));
    }
    refuse_elsewhere(node, &found, None, what)?;
    let (why, advice) = ("it is not attached", "See `evenkeel volume status`");
    Err(ApiError::new(ErrorCode::NotAttached, what, why, advice))
}

/// A volume that is attached, or meant to be, but not on the node that was named, stays so.
/// `named`: `None` is this node.
fn refuse_elsewhere(
    node: &Node,
    found: &Found,
    named: Option<&NodeLiveness>,
    what: &str,
) -> Result<(), ApiError> {
    let here = node.identity.node.to_string();
    let named = named.map_or(here.as_str(), |member| &member.node.id);
    let attached: Vec<_> = found.view.primaries.iter().map(|p| p.id.node.to_string()).collect();
    let wanted = found.stored.record.wanted_on.iter().filter(|(_, shown)| shown.is_some());
    let wanted: Vec<_> = wanted.map(|(id, _)| id.clone()).collect();
    if attached.iter().chain(&wanted).any(|id| id == named) {
        return Ok(());
    }
    let (places, state) = match (attached.is_empty(), wanted.is_empty()) {
        (true, true) => return Ok(()),
        (false, _) => (attached, "attached"),
        (true, false) => (wanted, "meant to be attached"),
    };
    let name =
        |id: &str| id.parse().map_or_else(|_| id.into(), |id| node.coordinator.node_ref(id).name);
    let places: Vec<String> = places.iter().map(|id| name(id)).collect();
    let on = if places.len() > 1 { "nodes" } else { "node" };
    let why = format!("it is {state} on {on} {}, not on node {}", places.join(", "), name(named));
    let advice = format!(
        "Detach it there: `evenkeel detach {} --node {}`",
        found.stored.record.name, places[0]
    );
    Err(ApiError::new(ErrorCode::AttachedElsewhere, what, why, advice))
}

/// A detach ends with a view that the coordinator commits: without it none is begun that would end
/// for nobody who waits for it.
async fn refuse_without_coordinator(node: &Node, what: &str) -> Result<(), ApiError> {
    match node.coordinator.ask(what, Request::Nodes).await {
        Err(error) if error.code == ErrorCode::NoCoordinator => Err(error),
        // Whatever else is in the way, the detach finds out.
        _ => Ok(()),
    }
}

/// Nobody who uses an export is cut off without a word. One that has just closed its connection is
/// waited for.
async fn refuse_clients(node: &Arc<Node>, attached: &Attached, what: &str) -> Result<(), ApiError> {
    let deadline = Instant::now() + LEAVING;
    loop {
        let status = node.data.volume_status(attached.id).await;
        let frontends = status.map(|status| status.frontends).unwrap_or_default();
        let exports = exports::of(node, attached, &frontends);
        match exports.iter().map(|export| export.clients).sum() {
            0 => return Ok(()),
            _ if Instant::now() < deadline => tokio::time::sleep(LOOK_AGAIN).await,
            clients => return Err(exports::in_use(what, clients)),
        }
    }
}

async fn detach_here(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    what: &str,
) -> Result<DetachAnswer, ApiError> {
    let (over, silent) = match (node.volumes.holds(attached), attached.phase()) {
        (false, Phase::Closed(over)) => {
            turn.withdraw(attached);
            turn.save().await;
            wanted::changed(node, turn).await;
            (Some(over), Vec::new())
        }
        (false, _) => return Err(moved(what)),
        (true, _) => unclean::watch(node, attached, withdraw(node, turn, attached, what)).await?,
    };
    match over {
        Some(Over::Ended(EndReason::DetachedUnclean)) => {
            Ok(unclean::reported(node, attached, silent))
        }
        Some(Over::NotMade) => {
            let message = format!("{}: nothing used it any more", attached.name());
            Ok(unclean::given_up(true, message))
        }
        Some(Over::Ended(reason)) => {
            let message = format!("{}: {}", attached.name(), why_ended(node, attached, reason));
            Ok(unclean::given_up(reason == EndReason::Detached, message))
        }
        None => Err(ApiError::new(
            ErrorCode::TimedOut,
            what,
            format!("it did not end within {} s", END.as_secs()),
            "It goes on: see `evenkeel volume status`",
        )),
    }
}

/// Takes the device and the export away, and ends the primary. `None`: it has not ended in time.
async fn withdraw(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    what: &str,
) -> Result<Option<Over>, ApiError> {
    take_device(node, turn, attached, what).await?;
    export::stop(node, turn, attached).await;
    nvme::stop(node, turn, attached);
    let over = end(node, turn, attached).await;
    turn.save().await;
    wanted::changed(node, turn).await;
    Ok(over)
}

/// Takes the device away, if there is one: from then on there is no way back.
async fn take_device(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    what: &str,
) -> Result<(), ApiError> {
    if attached.device().is_none() {
        turn.withdraw(attached);
        return Ok(());
    }
    // Until it is gone, or not, it is this one's turn, whoever waits for that.
    let (turn, attached, what) = (turn.clone(), attached.clone(), what.to_owned());
    let gone = node.blocking(move |node| {
        match evenkeel_attach::detach(&place(node), attached.name()) {
            Ok(()) | Err(AttachError::NotAttached(_)) => turn.withdraw(&attached),
            Err(e) => return Err(device_error(&what, &e)),
        }
        Ok(())
    });
    gone.await
}

/// At the daemon's end: detaches what can be. What is mounted or open stays attached in the view,
/// so that the next daemon takes it up again.
pub async fn detach_all(node: &Arc<Node>) {
    // The next daemon attaches all of them again.
    node.volumes.close();
    for attached in node.volumes.all() {
        let turn = turn(node, attached.id).await;
        match detach_here(node, &turn, &attached, "cannot detach at the daemon's end").await {
            Ok(answer) => tracing::info!("{}", answer.message),
            Err(error) => tracing::warn!(volume = attached.name(), %error, "left as it is"),
        }
    }
    node.volumes.save(node).await;
}

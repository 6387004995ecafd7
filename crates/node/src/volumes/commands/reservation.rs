//! Reservations of a volume: asked for here, made by its primary, told in its status.

use std::sync::Arc;

use evenkeel_api::types::{
    Plan, PlanAnswer, Registrant, ReservationAction, ReservationRequest, VERSION, VolumeAnswer,
};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::HostId;
use evenkeel_core::primary::Command;
use evenkeel_core::view::{Change, ReservationChange};
use hyper::Method;

use super::{plan, view_change};
use crate::cluster;
use crate::conversions;
use crate::volumes::Node;
use crate::volumes::lookup::{Found, There, carried_out_elsewhere, find, forward, named};
use crate::volumes::status;
use crate::volumes::status::reserved::reported;

/// Changes the reservations of a volume, wherever it is attached.
///
/// # Errors
/// If there is no such volume or host, a key is missing, or the reservations do not permit it.
pub async fn change(
    node: &Arc<Node>,
    volume: &str,
    mut request: ReservationRequest,
    forwarded: bool,
) -> Result<VolumeAnswer, ApiError> {
    let what = format!("cannot change the reservation of volume {volume}");
    let host = host_of(node, &what, request.host.as_deref()).await?;
    let wanted = wanted(&request, host, &what)?;
    let found = find(node, &what, volume).await?;
    if let Some(target) = carried_out_elsewhere(node, &found, forwarded, &what)? {
        request.host = Some(host.to_string());
        let path = routes::fill(routes::RESERVATION, &[&found.stored.record.id]);
        let (body, deadline) = (Some(&request), cluster::COMMAND);
        let there = There { found: &found, target: &target, what: &what };
        return forward(node, there, Method::POST, &path, body, deadline).await;
    }
    refuse_unnamed(node, &found, &request, &what)?;
    let command = Command::Change(Change::Reservation(wanted));
    let changed = view_change::carry_out(node, &found, command, &what);
    node.nvme.reservations_change(found.view.volume, &wanted, changed).await?;
    let volume = status::one(node, &found.stored.record.id, forwarded).await?;
    Ok(VolumeAnswer { version: VERSION, volume, message: None, warnings: Vec::new() })
}

/// What dropping all reservations of a volume would take away. They are in its view, which any node
/// reads.
///
/// # Errors
/// If there is no such volume.
pub async fn plan(node: &Arc<Node>, volume: &str) -> Result<PlanAnswer, ApiError> {
    let what = format!("cannot drop the reservation of volume {volume}");
    let found = find(node, &what, volume).await?;
    let unregisters = registrants(node, &found);
    let name = &found.stored.record.name;
    let message = match unregisters.is_empty() {
        true => format!("no host is registered with volume {name}"),
        false => format!(
            "volume {name} would be open to every host again, also to those that were kept from it"
        ),
    };
    Ok(plan::answer(Plan { unregisters, ..Plan::default() }, message))
}

fn registrants(node: &Node, found: &Found) -> Vec<Registrant> {
    reported(node, &found.view.reservations).map(|status| status.registrants).unwrap_or_default()
}

/// Refuses to unregister a host that was not named.
fn refuse_unnamed(
    node: &Node,
    found: &Found,
    request: &ReservationRequest,
    what: &str,
) -> Result<(), ApiError> {
    let Some(agreed) = &request.removes else { return Ok(()) };
    let registered = registrants(node, found);
    let is_drop = request.action == ReservationAction::Drop;
    if is_drop && registered.iter().all(|registrant| agreed.contains(&registrant.host)) {
        return Ok(());
    }
    let (code, why, advice) = match is_drop {
        true => {
            let name = |it: &Registrant| it.node.clone().unwrap_or_else(|| it.host.clone());
            let unnamed = registered.iter().filter(|it| !agreed.contains(&it.host));
            let why = format!(
                "other hosts are registered than were agreed to\nregistered now: {}\nnot agreed to: {}",
                registered.iter().map(name).collect::<Vec<_>>().join(", "),
                unnamed.map(name).collect::<Vec<_>>().join(", ")
            );
            let advice = "Nothing was done. Look again (--dry-run), then give the command again";
            (ErrorCode::WrongState, why, advice)
        }
        false => {
            let why = "hosts to be unregistered are named, and it is no drop".to_owned();
            (ErrorCode::BadRequest, why, "Leave them out")
        }
    };
    Err(ApiError::new(code, what, why, advice))
}

/// The host of this name or identity.
async fn host_of(node: &Node, what: &str, name: Option<&str>) -> Result<HostId, ApiError> {
    let Some(name) = name else { return Ok(HostId(node.identity.node.0)) };
    if let Ok(host) = name.parse() {
        return Ok(host);
    }
    let id = match named(node, what, name).await? {
        Some(member) => member.node.id.parse().unwrap_or(node.identity.node),
        None => node.identity.node,
    };
    Ok(HostId(id.0))
}

fn wanted(
    request: &ReservationRequest,
    host: HostId,
    what: &str,
) -> Result<ReservationChange, ApiError> {
    let number = |text: &Option<String>, name: &str| {
        let text = text.as_deref().ok_or_else(|| bad(what, format!("{name} is missing")))?;
        number(text).ok_or_else(|| bad(what, format!("{name} is {text}, which is no number")))
    };
    let key = || match number(&request.key, "the host's key")? {
        0 => Err(bad(what, "the key is 0, which stands for none".to_owned())),
        key => Ok(key),
    };
    let expected = || request.old_key.as_ref().map(|_| number(&request.old_key, "the old key"));
    let (kind, is_persistent) = (conversions::core_reservation(request.kind), request.persistent);
    Ok(match request.action {
        ReservationAction::Register => {
            let (expected, key) = (expected().transpose()?, key()?);
            ReservationChange::Register { host, expected, key, is_persistent }
        }
        ReservationAction::Unregister => {
            let expected = expected().transpose()?;
            ReservationChange::Register { host, expected, key: 0, is_persistent }
        }
        ReservationAction::Reserve => ReservationChange::Reserve { host, key: key()?, kind },
        ReservationAction::Release => ReservationChange::Release { host, key: key()?, kind },
        ReservationAction::Preempt => {
            let victim = number(&request.victim, "the victim's key")?;
            ReservationChange::Preempt { host, key: key()?, victim, kind }
        }
        ReservationAction::Clear => ReservationChange::Clear { host, key: key()? },
        ReservationAction::Drop => ReservationChange::Drop,
    })
}

/// A number, decimal, or hexadecimal with 0x.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn bad(what: &str, why: String) -> ApiError {
    let advice = "A key is a number from 1 to 2^64 - 1, as in 17 or 0x11";
    ApiError::new(ErrorCode::BadRequest, what, why, advice)
}

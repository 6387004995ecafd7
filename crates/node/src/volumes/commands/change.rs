//! Changing a volume: its protocol, its bitmap, its intent logs, how fast rebuilds go, how many
//! replicas it has.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::types::{
    ChangeAnswer, ChangeVolumeRequest, NoCoordinator, NoData, RebuildRate, VERSION, VolumeBitmap,
    VolumeProtocol,
};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::primary::Command;
use evenkeel_core::view::{Change, LayoutError};
use evenkeel_core::{Bitmap, IntentLayout, Lease, RebuildLimit, View, settings};
use hyper::Method;

use super::fewer::{self, Fewer};
use super::members::Placing;
use super::{create, grow, members, plan, view_change};
use crate::config::check;
use crate::conversions;
use crate::coordinator::{Answer, Request};
use crate::volumes::Node;
use crate::volumes::attachment::start;
use crate::volumes::lookup::{Found, There, carried_out_elsewhere, find, forward, unexpected};
use crate::volumes::replicas::make;
use crate::volumes::status;

/// Changes a volume, wherever it is attached. What is as asked for already is left so.
///
/// # Errors
/// If there is no such volume, a value is not permitted, or the view does not permit it; with what
/// was changed before.
pub async fn change(
    node: &Arc<Node>,
    volume: &str,
    request: ChangeVolumeRequest,
    forwarded: bool,
) -> Result<ChangeAnswer, ApiError> {
    let what = format!("cannot change volume {volume}");
    check(&request, &what)?;
    let found = find(node, &what, volume).await?;
    // Another node that passes this on names the volume by its identity.
    let what = format!("cannot change volume {}", found.stored.record.name);
    start::refuse_stopped(&found, &what)?;
    if let Some(target) = carried_out_elsewhere(node, &found, forwarded, &what)? {
        let path = routes::fill(routes::VOLUME, &[&found.stored.record.id]);
        let (body, deadline) = (Some(&request), make::CREATION);
        let there = There { found: &found, target: &target, what: &what };
        return forward(node, there, Method::PATCH, &path, body, deadline).await;
    }
    let fewer = match request.replicas {
        Some(copies) => fewer::choose(node, &found, copies, &what).await?,
        None => Fewer::default(),
    };
    if let Some(copies) = request.replicas {
        // Refused before anything is done.
        let how = Placing { same_node: request.same_node, thin: request.thin };
        members::places_of_more(node, &found, copies, how, &what).await?;
        members::refuse_more_without_source(node, &found, copies, &what).await?;
    }
    let agreed = request.removes.as_ref().map(|ids| ids.iter().map(String::as_str));
    plan::refuse_other_than(&fewer.plan, agreed, &what)?;
    let mut done = Vec::new();
    let ended = carry_out(node, &found, &request, &fewer, &what, &mut done).await;
    ended.map_err(|error| after(error, &done))?;
    let (changed, message) = match done.is_empty() {
        true => (false, "it was so already".to_owned()),
        false => (true, done.join("; ")),
    };
    let volume = status::one(node, &found.stored.record.id, forwarded).await?;
    Ok(ChangeAnswer { version: VERSION, changed, message, volume })
}

/// Changes one after the other; `done` gets a sentence for each.
async fn carry_out(
    node: &Arc<Node>,
    found: &Found,
    request: &ChangeVolumeRequest,
    fewer: &Fewer,
    what: &str,
    done: &mut Vec<String>,
) -> Result<(), ApiError> {
    if let Some(size) = request.size {
        done.extend(grow::grow(node, found, size, what).await?);
    }
    for (change, reported) in wanted(request, found, what)? {
        if !is_so(&found.view, change) {
            view_change::carry_out(node, found, Command::Change(change), what).await?;
            done.push(reported);
        }
    }
    if let Some(copies) = request.replicas {
        let how = Placing { same_node: request.same_node, thin: request.thin };
        done.extend(set_copies(node, found, copies, fewer, how, what).await?);
    }
    Ok(())
}

/// A refusal, with what had been done before.
fn after(error: ApiError, done: &[String]) -> ApiError {
    if done.is_empty() {
        return error;
    }
    let why = format!("{}\ndone before: {}", error.why, done.join("; "));
    ApiError { why, ..error }
}

fn check(request: &ChangeVolumeRequest, what: &str) -> Result<(), ApiError> {
    let bad =
        |why: String, advice: &str| Err(ApiError::new(ErrorCode::BadRequest, what, why, advice));
    let (same_node, thin, removes) = (request.same_node, request.thin, request.removes.clone());
    let nothing =
        ChangeVolumeRequest { same_node, thin, removes, ..ChangeVolumeRequest::default() };
    if *request == nothing {
        let advice = "Give a size, a protocol, a bitmap, the size of the intent log, a number of replicas, a lease, a limit of rebuilds, or what happens without the coordinator or without data";
        return bad("nothing is to be changed".into(), advice);
    }
    let never = RebuildRate::Rate { bytes_per_second: 0 };
    let rebuild = request.rebuild;
    if rebuild == Some(never) || rebuild == Some(RebuildRate::Rate { bytes_per_second: u64::MAX }) {
        return bad("such a limit is none".into(), "Choose another one, or pause the rebuild");
    }
    if let Some(NoCoordinator::Fail { seconds }) = request.no_coordinator
        && !(1..=create::MAX_NO_COORDINATOR).contains(&seconds)
    {
        let advice = format!("Choose 1 to {} s, or suspend", create::MAX_NO_COORDINATOR);
        return bad(format!("{seconds} s without the coordinator are not possible"), &advice);
    }
    if let Some(NoData::Suspend { seconds }) = request.no_data
        && !(1..=create::MAX_NO_DATA).contains(&seconds)
    {
        let advice = format!("Choose 1 to {} s, or error", create::MAX_NO_DATA);
        return bad(format!("{seconds} s without data are not possible"), &advice);
    }
    match request.replicas {
        Some(copies) if !(1..=settings::MAX_REPLICAS).contains(&copies) => bad(
            format!("the number of replicas is {copies}"),
            &format!("Choose 1 to {}", settings::MAX_REPLICAS),
        ),
        _ => Ok(()),
    }
}

/// What is to be changed of the volume as a whole, each with what is told when it is done.
fn wanted(
    request: &ChangeVolumeRequest,
    found: &Found,
    what: &str,
) -> Result<Vec<(Change, String)>, ApiError> {
    let present = found.view.intents;
    let (bitmap, slots) = sharing(request.bitmap, request.primaries, present.slots, what)?;
    refuse_nvme(found, slots, what)?;
    let sizes = Layout { region: request.region_size, places: request.open_regions, slots };
    let layout = match request.region_size.is_some() || request.open_regions.is_some() {
        true => Some(layout(present, sizes, found.view.replica_size(), what)?),
        false => None,
    };
    let bitmap = bitmap.unwrap_or(found.view.bitmap);
    let shares = bitmap != found.view.bitmap || slots != present.slots;
    let shared = || (Change::Bitmap { bitmap, slots }, shared(bitmap, slots));
    // Protocols A and B are for one primary.
    let (before, after) = match slots {
        1 => (shares.then(shared), request.protocol.map(protocol)),
        _ => (request.protocol.map(protocol), shares.then(shared)),
    };
    let lease = lease(request, found.view.lease, what)?;
    let rebuild = request.rebuild.map(rebuild_rate);
    let waits = request.no_coordinator.map(no_coordinator);
    let present_data = status::no_data(&found.stored.record, &found.view);
    let data = request.no_data.filter(|wanted| *wanted != present_data).map(no_data);
    let changes = [before, after, layout.map(intents), rebuild, lease, waits, data];
    Ok(changes.into_iter().flatten().collect())
}

/// Hosts of NVMe use a volume through one node only.
fn refuse_nvme(found: &Found, slots: u8, what: &str) -> Result<(), ApiError> {
    let mut shown = found.stored.record.wanted_on.values().flatten();
    if slots == 1 || shown.all(|shown| shown.nvme.is_none()) {
        return Ok(());
    }
    let why = "it is exported by NVMe, whose hosts could use it through one node only";
    let advice = "End that export first: `evenkeel unexport NAME --only nvme`";
    Err(ApiError::new(ErrorCode::WrongState, what, why, advice))
}

/// Whether a change would change nothing.
fn is_so(view: &View, change: Change) -> bool {
    let mut changed = view.clone();
    changed.change(change).is_ok() && changed == *view
}

fn protocol(protocol: VolumeProtocol) -> (Change, String) {
    let wanted = conversions::core_protocol(protocol);
    let reported = format!("writes are acknowledged by protocol {wanted} from now on");
    (Change::Protocol(wanted), reported)
}

/// Slots of a clustered bitmap, if nobody says how many.
const CLUSTERED: u8 = 4;

/// The bitmap and the number of slots that somebody wants who says so much of both, where there are
/// `present` slots now: several with a clustered bitmap, and only with that.
///
/// # Errors
/// If the two contradict each other.
pub(super) fn sharing(
    bitmap: Option<VolumeBitmap>,
    primaries: Option<u8>,
    present: u8,
    what: &str,
) -> Result<(Option<Bitmap>, u8), ApiError> {
    let refused =
        |why: &str, advice: &str| Err(ApiError::new(ErrorCode::BadRequest, what, why, advice));
    match (bitmap, primaries) {
        (None, None) => Ok((None, present)),
        (None, Some(1)) => Ok((None, 1)),
        (Some(VolumeBitmap::Clustered), Some(1)) => refused(
            "a clustered bitmap is for several primaries",
            "Choose a bitmap of internal, or more primaries",
        ),
        (Some(VolumeBitmap::None), Some(2..)) => refused(
            "several primaries need a clustered bitmap, by which each tells what its writes left undone",
            "Choose a bitmap of clustered, or one primary",
        ),
        (Some(VolumeBitmap::None), _) => Ok((Some(Bitmap::None), 1)),
        (Some(VolumeBitmap::Internal), None) => Ok((Some(Bitmap::Internal), 1)),
        (Some(VolumeBitmap::Clustered), None) => {
            Ok((Some(Bitmap::Internal), if present > 1 { present } else { CLUSTERED }))
        }
        (_, Some(slots)) => Ok((Some(Bitmap::Internal), slots)),
    }
}

fn shared(bitmap: Bitmap, slots: u8) -> String {
    match slots {
        1 => {
            format!("its bitmap is {bitmap}, and it is attached on one node at a time from now on")
        }
        _ => format!(
            "its bitmap is clustered, and it may be attached on {slots} nodes at once from now on"
        ),
    }
}

fn intents(layout: IntentLayout) -> (Change, String) {
    let IntentLayout { region, places, slots } = layout;
    let slots = if slots == 1 { String::new() } else { format!(" in each of {slots} slots") };
    let region = region >> 10;
    let reported =
        format!("{places} regions of {region} KiB can be open at once{slots} from now on");
    (Change::Intents(layout), reported)
}

fn rebuild_rate(rate: RebuildRate) -> (Change, String) {
    let (limit, reported) = match rate {
        RebuildRate::None => (RebuildLimit::None, "rebuilds go as fast as clients leave room for"),
        RebuildRate::Paused => (RebuildLimit::Paused, "rebuilds are paused"),
        RebuildRate::Rate { bytes_per_second } => {
            (RebuildLimit::BytesPerSecond(bytes_per_second), "rebuilds are limited")
        }
    };
    (Change::RebuildLimit(limit), reported.to_owned())
}

/// The lease that is asked for, where there is `present` now.
fn lease(
    request: &ChangeVolumeRequest,
    present: Lease,
    what: &str,
) -> Result<Option<(Change, String)>, ApiError> {
    let within = |name: &str, given: Option<u64>, range: &RangeInclusive<u64>, step: u64| {
        let is_possible = |ms: &u64| range.contains(ms) && ms.is_multiple_of(step);
        let Some(ms) = given.filter(|ms| !is_possible(ms)) else { return Ok(()) };
        let (least, most) = (range.start(), range.end());
        let why = format!("{name} of {ms} ms is not possible");
        let advice = format!("Choose a multiple of {step} ms from {least} to {most} ms");
        Err(ApiError::new(ErrorCode::BadRequest, what, why, advice))
    };
    within("a lease", request.lease_ms, &check::LEASE, check::LEASE_STEP)?;
    within("a margin", request.lease_margin_ms, &check::MARGIN, 1)?;
    if request.lease_ms.is_none() && request.lease_margin_ms.is_none() {
        return Ok(None);
    }
    let or = |wanted: Option<u64>, present| wanted.map_or(present, Duration::from_millis);
    let time = or(request.lease_ms, present.time());
    let Some(lease) = Lease::new(time, or(request.lease_margin_ms, present.margin())) else {
        return Ok(None);
    };
    let (time, margin) = (lease.time().as_millis(), lease.margin().as_millis());
    let reported = format!("its lease is {time} ms, with a margin of {margin} ms, from now on");
    Ok(Some((Change::Lease(lease), reported)))
}

fn no_coordinator(policy: NoCoordinator) -> (Change, String) {
    let reported = match policy {
        NoCoordinator::Suspend => {
            "requests wait for the coordinator as long as it takes".to_owned()
        }
        NoCoordinator::Fail { seconds } => {
            format!("requests that have waited {seconds} s for the coordinator fail from now on")
        }
    };
    (Change::NoCoordinator(create::no_coordinator_policy(policy)), reported)
}

fn no_data(policy: NoData) -> (Change, String) {
    let (milliseconds, reported) = match policy {
        NoData::Error => (0, "requests fail at once without data from now on".to_owned()),
        NoData::Suspend { seconds } => {
            // At most a day, as was checked.
            let reported =
                format!("requests that have waited {seconds} s for data fail from now on");
            ((seconds.min(create::MAX_NO_DATA) * 1000) as u32, reported)
        }
    };
    (Change::NoData(milliseconds), reported)
}

/// What of the intent logs is to be otherwise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub region: Option<u64>,
    pub places: Option<u16>,
    pub slots: u8,
}

/// A layout that differs from the present one as is wanted.
///
/// # Errors
/// If the intent log of a replica of so many bytes can't have it.
pub(super) fn layout(
    present: IntentLayout,
    wanted: Layout,
    size: u64,
    what: &str,
) -> Result<IntentLayout, ApiError> {
    let layout = IntentLayout {
        region: wanted.region.unwrap_or(present.region),
        places: wanted.places.unwrap_or(present.places),
        slots: wanted.slots,
    };
    layout.check(size).map_err(|error| refused_layout(error, what))?;
    Ok(layout)
}

fn refused_layout(error: LayoutError, what: &str) -> ApiError {
    let (why, advice) = match error {
        LayoutError::TooShort { needed } if needed <= settings::MAX_OPEN_REGIONS as u64 => (
            error.to_string(),
            format!("Permit so many: `--open-regions {needed}`; or choose larger regions"),
        ),
        LayoutError::TooShort { .. } => {
            (error.to_string(), "Choose larger regions (`--region-size`)".to_owned())
        }
        LayoutError::TooSmall { needed } => {
            let needed = evenkeel_api::sizes::size(needed);
            let why = format!(
                "regions of a volume of that size have at least {needed}, for their number to fit"
            );
            (why, format!("Choose larger ones: `--region-size {needed}`"))
        }
        LayoutError::Region => (error.to_string(), "Choose another `--region-size`".to_owned()),
        LayoutError::Places => (error.to_string(), "Choose another `--open-regions`".to_owned()),
        LayoutError::Slots => (error.to_string(), "Choose another `--primaries`".to_owned()),
    };
    ApiError::new(ErrorCode::BadRequest, what, why, advice)
}

/// How many replicas have left, and how many have come, told in a sentence.
async fn set_copies(
    node: &Arc<Node>,
    found: &Found,
    copies: usize,
    fewer: &Fewer,
    how: Placing,
    what: &str,
) -> Result<Option<String>, ApiError> {
    let removed = fewer::remove(node, found, &fewer.victims, what).await?;
    let added = members::more_copies(node, found, copies, how, what).await?;
    let accepted = accept_losses(node, found, copies, what).await?;
    let then = match node.volumes.get(found.view.volume) {
        Some(_) => "copy what is missing",
        None => "rebuild when the volume is attached",
    };
    Ok(match (added.len(), removed.len()) {
        (0, 0) => accepted,
        (0, _) => Some(format!("removed the replicas on {}", removed.join(", "))),
        (1, _) => Some(format!("added a replica on {}, which is to {then}", added.join(", "))),
        _ => Some(format!("added replicas on {}, which are to {then}", added.join(", "))),
    })
}

/// What was lost with removed nodes is missed no more: the volume has as many copies as it is meant
/// to have now.
async fn accept_losses(
    node: &Arc<Node>,
    found: &Found,
    copies: usize,
    what: &str,
) -> Result<Option<String>, ApiError> {
    let id = &found.stored.record.id;
    if find(node, what, id).await?.stored.record.lost.is_empty() {
        return Ok(None);
    }
    let request = |revision| Request::Lost { volume: id.clone(), lost: Vec::new(), revision };
    match node.coordinator.change(what, id, None, request).await? {
        Answer::Done => {}
        other => return Err(unexpected(what, &other)),
    }
    Ok(Some(format!("it is meant to have {copies} copies: none is missing any more")))
}

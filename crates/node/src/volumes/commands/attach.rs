//! Beginning the use of a volume at a command: its primary, and the device or export by which it is
//! used here.

use std::sync::Arc;

use evenkeel_api::types::{AttachAnswer, AttachHow, AttachRequest, Export, VERSION};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_attach::AttachError;
use hyper::Method;

use crate::cluster;
use crate::coordinator::{ForMount, Made, Shown, WantedNbd};
use crate::volumes::Node;
use crate::volumes::attachment::actor::{Turn, turn};
use crate::volumes::attachment::device::{device_error, make_device, place};
use crate::volumes::attachment::end::end;
use crate::volumes::attachment::lifecycle::{AskedBy, Phase};
use crate::volumes::attachment::start::{alive, establish, start};
use crate::volumes::attachment::{again, export, wanted};
use crate::volumes::lookup::{Found, find, named, primaries_elsewhere};
use crate::volumes::{Attached, messages, status};

/// Most characters by which a mount is named.
const MAX_TOKEN: usize = 64;

/// Begins to use a volume on a node.
///
/// # Errors
/// If it is attached elsewhere, cannot start, or cannot be shown as asked.
pub async fn attach(
    node: &Arc<Node>,
    volume: &str,
    request: AttachRequest,
    forwarded: bool,
) -> Result<AttachAnswer, ApiError> {
    let what = format!("cannot attach volume {volume}");
    if let Some(name) = request.node.as_deref().filter(|_| !forwarded)
        && let Some(target) = named(node, &what, name).await?
    {
        let path = routes::fill(routes::ATTACH, &[volume]);
        let (body, deadline) = (Some(&request), cluster::COMMAND);
        let answer = node.cluster.forward(&target, Method::POST, &path, body, deadline).await;
        return answer.map_err(|error| cluster::for_what(&what, &target, error));
    }
    refuse_read_only_device(&request, &what)?;
    request.mount.as_deref().map_or(Ok(()), |token| refuse_token(token, &what))?;
    let id = match node.volumes.by_name(volume) {
        Some(attached) => attached.id,
        None => find(node, &what, volume).await?.view.volume,
    };
    let turn = turn(node, id).await;
    let alive = alive(node, &turn, &what).await?;
    let is_taken_up = node.volumes.awaited(id).is_some();
    let mut taken_over = None;
    let attached = match alive {
        Some(attached)
            if adds_nothing(&attached.shown(), &request) && !takes_what_is_there(&request) =>
        {
            return Err(attached_already(node, &what, ""));
        }
        Some(attached) => attached,
        None => {
            let (begun, from) = begin(node, &turn, &request, &what).await?;
            taken_over = from;
            begun
        }
    };
    if let Some(otherwise) = shown_otherwise(&meant(node, &attached), &request) {
        return Err(attached_already(node, &what, otherwise));
    }
    if !adds_nothing(&attached.shown(), &request) {
        show(node, &turn, &attached, &request, &what).await?;
    }
    establish(node, &turn, &attached, &what).await?;
    note(&turn, &attached, &request, is_taken_up);
    turn.save().await;
    wanted::changed(node, &turn).await;
    let mut answer = answer(node, &attached, &request, forwarded).await?;
    answer.warnings.extend(taken_over);
    Ok(answer)
}

/// Notes who has it from now on. `is_taken_up`: it is attached again as it was, perhaps for a
/// mount.
fn note(turn: &Turn, attached: &Attached, request: &AttachRequest, is_taken_up: bool) {
    match request.mount() {
        Some(token) if takes_what_is_there(request) => turn.add_mount(attached, token),
        None if is_taken_up => {
            turn.claim(attached, matches!(how(request), AttachHow::Device | AttachHow::Auto));
        }
        _ => {}
    }
}

async fn answer(
    node: &Arc<Node>,
    attached: &Attached,
    request: &AttachRequest,
    forwarded: bool,
) -> Result<AttachAnswer, ApiError> {
    let volume = status::one(node, &attached.id.to_string(), forwarded).await?;
    // It takes writes.
    let device = attached.device().filter(|_| !request.read_only);
    let here = |export: &&Export| export.kind == "nbd" && export.node == node.reference();
    let export = volume.exports.iter().find(here).or_else(|| volume.exports.first());
    Ok(AttachAnswer {
        version: VERSION,
        device: device.as_ref().map(|d| d.path.display().to_string()),
        device_kind: device.map(|d| d.kind),
        export: export.cloned(),
        volume,
        warnings: node.cluster.isolation().into_iter().collect(),
    })
}

/// Attaches what is not attached: as it was, if it is to be attached again, or as is asked for.
/// Also tells from whom it was taken over, if it was.
async fn begin(
    node: &Arc<Node>,
    turn: &Turn,
    request: &AttachRequest,
    what: &str,
) -> Result<(Arc<Attached>, Option<String>), ApiError> {
    // Not by its name: another one may have got that meanwhile.
    let found = find(node, what, &turn.volume().to_string()).await?;
    refuse_device(node, &found, request, what).await?;
    let attached = match again::take_up(node, turn, what).await? {
        Some(attached) => attached,
        None => start(node, turn, what, asked(request)).await?,
    };
    Ok((attached, taken_over(node, &found)))
}

/// From which node a volume was taken over that had this view before it was attached.
fn taken_over(node: &Node, before: &Found) -> Option<String> {
    let mut dead = primaries_elsewhere(node, &before.view).filter(|_| !before.view.is_shared());
    dead.next().map(|id| messages::taken_over(&node.coordinator.node_ref(id).name))
}

/// By what it is shown, or is to be as soon as that can be made.
fn meant(node: &Node, attached: &Attached) -> Shown {
    let (shown, meant) = (attached.shown(), node.volumes.meant(attached.id).unwrap_or_default());
    Shown {
        device: shown.device || meant.device,
        nbd: shown.nbd.or(meant.nbd),
        nvme: shown.nvme.or(meant.nvme),
        mount: meant.mount,
    }
}

/// `shown`: how, as the end of a sentence.
fn attached_already(node: &Node, what: &str, shown: &str) -> ApiError {
    let why = format!("it is attached on node {} already{shown}", node.identity.name);
    let advice = "Use it, or detach it first; see `evenkeel volume status`";
    ApiError::new(ErrorCode::Attached, what, why, advice)
}

/// The coordinator keeps it.
fn refuse_token(token: &str, what: &str) -> Result<(), ApiError> {
    if !token.is_empty() && token.len() <= MAX_TOKEN && token.bytes().all(|b| b.is_ascii_graphic())
    {
        return Ok(());
    }
    let why =
        format!("the name of a mount has 1 to {MAX_TOKEN} characters, all of them printable ASCII");
    Err(ApiError::new(ErrorCode::BadRequest, what, why, "Name each mount by a new UUID"))
}

fn refuse_read_only_device(request: &AttachRequest, what: &str) -> Result<(), ApiError> {
    match request.read_only && request.how == AttachHow::Device {
        true => Err(ApiError::new(
            ErrorCode::NotSupported,
            what,
            "a block device cannot be made read-only yet",
            "Mount it with `-o ro`, or attach it by nbd",
        )),
        false => Ok(()),
    }
}

/// Refuses a block device that cannot be made, before the volume is taken over from anybody.
async fn refuse_device(
    node: &Arc<Node>,
    found: &Found,
    request: &AttachRequest,
    what: &str,
) -> Result<(), ApiError> {
    let is_needed = match how(request) {
        AttachHow::Device => true,
        AttachHow::Auto => false,
        AttachHow::Nbd | AttachHow::None => return Ok(()),
    };
    let (name, what) = (found.stored.record.name.clone(), what.to_owned());
    let check = move |node: &Node| match evenkeel_attach::refuse(&place(node), &name) {
        // It is exported instead.
        Err(AttachError::Unavailable(_)) if !is_needed => Ok(()),
        checked => checked.map_err(|error| device_error(&what, &error)),
    };
    node.blocking(check).await
}

/// By what a volume is to be shown: no block device refuses writes.
const fn how(request: &AttachRequest) -> AttachHow {
    match (request.how, request.read_only) {
        (AttachHow::Auto, true) => AttachHow::Nbd,
        (how, _) => how,
    }
}

/// A mount takes the block device that is there, whoever has made it: the node itself may have been
/// quicker, and another mount has none to itself.
fn takes_what_is_there(request: &AttachRequest) -> bool {
    request.mount().is_some() && how(request) == AttachHow::Device
}

/// Whether an attached volume is shown already by what is asked for.
const fn adds_nothing(shown: &Shown, request: &AttachRequest) -> bool {
    match how(request) {
        AttachHow::None => true,
        AttachHow::Nbd => shown.nbd.is_some(),
        AttachHow::Device => shown.device,
        AttachHow::Auto => shown.device || shown.nbd.is_some(),
    }
}

/// What takes writes of a volume that was to refuse them, or the other way, as the end of a
/// sentence.
fn shown_otherwise(shown: &Shown, request: &AttachRequest) -> Option<&'static str> {
    const TAKES: &str = ", by an NBD export that takes writes";
    const REFUSES: &str = ", by an NBD export that refuses writes";
    let nbd = shown.nbd.as_ref().map(|nbd| nbd.read_only);
    let nvme = shown.nvme.as_ref().map(|nvme| nvme.read_only);
    let is_writable = shown.device || [nbd, nvme].contains(&Some(false));
    if shown.device && request.read_only && request.how == AttachHow::Auto {
        return Some(", by a block device, which takes writes");
    }
    match (how(request), request.read_only, nbd) {
        (AttachHow::Nbd, true, Some(false)) => Some(TAKES),
        (AttachHow::Nbd, false, Some(true)) => Some(REFUSES),
        (AttachHow::Auto, false, Some(true)) if !shown.device => Some(REFUSES),
        (AttachHow::None, true, _) if is_writable => Some(", by what takes writes"),
        _ => None,
    }
}

/// How a volume is to be shown, as far as it is known before that is tried.
fn asked(request: &AttachRequest) -> Shown {
    match how(request) {
        AttachHow::None => Shown::default(),
        AttachHow::Device | AttachHow::Auto => {
            let for_mount = |token| ForMount::new(Made::Attachment, token);
            let mount = request.mount().map(for_mount);
            Shown { device: true, mount, ..Shown::default() }
        }
        AttachHow::Nbd => Shown { nbd: Some(nbd(request)), ..Shown::default() },
    }
}

fn nbd(request: &AttachRequest) -> WantedNbd {
    WantedNbd { read_only: request.read_only, ..WantedNbd::default() }
}

/// Makes the device or the export that is asked for.
async fn show(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    request: &AttachRequest,
    what: &str,
) -> Result<(), ApiError> {
    // One that could not be made yet is made as it was asked for before.
    let nbd = meant(node, attached).nbd.unwrap_or_else(|| nbd(request));
    let asked_by = request.mount().map_or(AskedBy::Command, AskedBy::Mount);
    let shown = match how(request) {
        AttachHow::None => Ok(()),
        AttachHow::Nbd => export::start(node, turn, attached, nbd, what).await,
        AttachHow::Device => make_device(node, turn, attached, false, asked_by, what).await,
        AttachHow::Auto => match make_device(node, turn, attached, false, asked_by, what).await {
            Err(e) if e.code == ErrorCode::NotSupported => {
                tracing::info!(
                    volume = attached.name(),
                    why = e.why,
                    "no block device: exporting by NBD"
                );
                export::start(node, turn, attached, nbd, what).await
            }
            made => made,
        },
    };
    // Whoever tries again at once finds it detached.
    if shown.is_err() && attached.phase() == Phase::Serving {
        end(node, turn, attached).await;
        wanted::changed(node, turn).await;
    }
    shown
}

#[cfg(test)]
mod tests;

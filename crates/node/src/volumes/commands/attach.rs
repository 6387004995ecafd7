//! Beginning the use of a volume at a command: its primary, and the device or export by which it is
//! used here.

use std::sync::Arc;

use evenkeel_api::types::{AttachAnswer, AttachHow, AttachRequest, VERSION};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_attach::AttachError;
use evenkeel_core::VolumeId;
use hyper::Method;

use crate::cluster;
use crate::coordinator::{ByMount, Shown, WantedNbd};
use crate::volumes::Node;
use crate::volumes::attachment::actor::{Turn, turn};
use crate::volumes::attachment::device::{device_error, make_device, place};
use crate::volumes::attachment::end::end;
use crate::volumes::attachment::lifecycle::Phase;
use crate::volumes::attachment::start::{alive, establish, start};
use crate::volumes::attachment::{export, wanted};
use crate::volumes::lookup::{find, named};
use crate::volumes::{Attached, status};

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
    let id = match node.volumes.by_name(volume) {
        Some(attached) => attached.id,
        None => find(node, &what, volume).await?.view.volume,
    };
    let turn = turn(node, id).await;
    let before = alive(node, &turn, &what).await?;
    let is_new = before.is_none();
    let attached = match before {
        Some(attached) if adds_nothing(&attached, request.how) => {
            let why = format!("it is attached on node {} already", node.identity.name);
            let advice = "Use it, or detach it first; see `evenkeel volume status`";
            return Err(ApiError::new(ErrorCode::Attached, what, why, advice));
        }
        Some(attached) => attached,
        // Not by its name: another one may have got that meanwhile.
        None => {
            refuse_device(node, id, &request, &what).await?;
            // One that is to be attached again stays so, whatever becomes of a mount.
            let is_awaited = node.volumes.awaited(id).is_some();
            let for_mount = request.for_mount && !is_awaited;
            start(node, &turn, &what, asked(&AttachRequest { for_mount, ..request.clone() }))
                .await?
        }
    };
    if !is_new && attached.device().is_none() {
        // Before it is made: whoever leaves meanwhile leaves what is made.
        turn.for_mount(&attached, request.for_mount);
    }
    show(node, &turn, &attached, &request, &what).await?;
    establish(node, &turn, &attached, &what).await?;
    turn.save().await;
    wanted::changed(node, &turn).await;
    let volume = status::one(node, &attached.id.to_string(), forwarded).await?;
    let device = attached.device();
    Ok(AttachAnswer {
        version: VERSION,
        device: device.as_ref().map(|d| d.path.display().to_string()),
        device_kind: device.map(|d| d.kind),
        export: volume.exports.first().cloned(),
        volume,
        warnings: node.cluster.isolation().into_iter().collect(),
    })
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
    volume: VolumeId,
    request: &AttachRequest,
    what: &str,
) -> Result<(), ApiError> {
    let is_wanted = match request.how {
        AttachHow::Device => true,
        AttachHow::Auto => !request.read_only,
        AttachHow::Nbd | AttachHow::None => false,
    };
    if !is_wanted {
        return Ok(());
    }
    let name = find(node, what, &volume.to_string()).await?.stored.record.name;
    let is_needed = request.how == AttachHow::Device;
    let what = what.to_owned();
    let check = move |node: &Node| match evenkeel_attach::refuse(&place(node), &name) {
        // It is exported instead.
        Err(AttachError::Unavailable(_)) if !is_needed => Ok(()),
        checked => checked.map_err(|error| device_error(&what, &error)),
    };
    node.blocking(check).await
}

/// Whether an attached volume is shown already as it is asked for.
fn adds_nothing(attached: &Attached, how: AttachHow) -> bool {
    match how {
        AttachHow::None => true,
        AttachHow::Nbd => attached.nbd().is_some(),
        AttachHow::Device => attached.device().is_some(),
        AttachHow::Auto => attached.device().is_some() || attached.nbd().is_some(),
    }
}

/// How a volume is to be shown, as far as it is known before that is tried.
fn asked(request: &AttachRequest) -> Shown {
    let nbd = WantedNbd { read_only: request.read_only, ..WantedNbd::default() };
    let by_nbd = Shown { nbd: Some(nbd), ..Shown::default() };
    match request.how {
        AttachHow::None => Shown::default(),
        AttachHow::Auto if request.read_only => by_nbd,
        AttachHow::Device | AttachHow::Auto => {
            let by_mount = request.for_mount.then_some(ByMount::Attachment);
            Shown { device: true, by_mount, ..Shown::default() }
        }
        AttachHow::Nbd => by_nbd,
    }
}

/// Makes the device or the export that is asked for.
async fn show(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    request: &AttachRequest,
    what: &str,
) -> Result<(), ApiError> {
    let nbd = WantedNbd { read_only: request.read_only, ..WantedNbd::default() };
    let shown = match request.how {
        AttachHow::None => Ok(()),
        AttachHow::Nbd => export::start(node, turn, attached, nbd, what).await,
        AttachHow::Device => make_device(node, turn, attached, false, what).await,
        AttachHow::Auto if request.read_only => {
            export::start(node, turn, attached, nbd, what).await
        }
        AttachHow::Auto => match make_device(node, turn, attached, false, what).await {
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

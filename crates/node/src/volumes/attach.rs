//! Beginning the use of a volume: its primary, and the device or export by which it is used here.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::types::{AttachAnswer, AttachHow, AttachRequest, VERSION};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_attach::{AttachError, Options, Place};
use evenkeel_core::primary::{EndReason, PrimaryConfig};
use evenkeel_core::{MirrorView, NoDataPolicy, PrimaryId, VolumeId};
use hyper::Method;
use tokio::task::JoinHandle;

use super::actor::{self, Turn, turn};
use super::detach::{END, dismantle, end};
use super::lifecycle::{NotOpened, Over, Phase, Purpose};
use super::lookup::{Found, find, moved, named};
use super::{Attached, Device, export, messages, rename, status, wanted};
use crate::coordinator::{NoData, Shown, WantedNbd};
use crate::node::Node;
use crate::random::random_incarnation;
use crate::{admission, cluster};

/// How long an attach may take: dead replicas cost a deadline each, the coordinator a few seconds.
const START: Duration = Duration::from_secs(60);

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
        let answer = cluster::forward(node, &target, Method::POST, &path, body, deadline).await;
        return answer.map_err(|error| cluster::for_what(&what, &target, error));
    }
    refuse_read_only_device(&request, &what)?;
    let id = match node.volumes.by_name(volume) {
        Some(attached) => attached.id,
        None => find(node, &what, volume).await?.view.volume,
    };
    let turn = turn(node, id).await;
    let attached = match alive(node, &turn, &what).await? {
        Some(attached) if adds_nothing(&attached, request.how) => {
            let why = format!("it is attached on node {} already", node.identity.name);
            let advice = "Use it, or detach it first; see `evenkeel volume status`";
            return Err(ApiError::new(ErrorCode::Attached, what, why, advice));
        }
        Some(attached) => attached,
        // Not by its name: another one may have got that meanwhile.
        None => {
            refuse_device(node, id, &request, &what).await?;
            start(node, &turn, &what, asked(&request)).await?
        }
    };
    show(node, &turn, &attached, &request, &what).await?;
    settle(node, &turn, &attached, &what).await?;
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
        warnings: cluster::isolation(node).into_iter().collect(),
    })
}

/// The volume's attachment here, if its primary lives. What is left of one that has ended is taken
/// away, and one that is ending is awaited.
pub(super) async fn alive(
    node: &Arc<Node>,
    turn: &Turn,
    what: &str,
) -> Result<Option<Arc<Attached>>, ApiError> {
    let Some(attached) = node.volumes.get(turn.volume()) else { return Ok(None) };
    let is_over = |phase| matches!(phase, Phase::Closed(_));
    let ends = matches!(attached.phase(), Phase::Unwanted | Phase::Detaching);
    if ends && reach(&attached, is_over, END).await.is_none() {
        let why = "it is being detached here, and has not ended yet";
        let advice = "Try again; see `evenkeel volume status`";
        return Err(ApiError::new(ErrorCode::TimedOut, what, why, advice));
    }
    if is_over(attached.phase()) {
        dismantle(node, turn, &attached).await;
        return Ok(None);
    }
    Ok(Some(attached))
}

/// A volume that is shown stays attached. Its primary may have ended meanwhile: then nothing is
/// shown.
///
/// # Errors
/// If it has.
pub(super) async fn settle(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    what: &str,
) -> Result<(), ApiError> {
    match turn.settle(attached) {
        true => Ok(()),
        false => Err(not_settled(node, turn, attached, what).await),
    }
}

/// Why a volume that was shown does not stay attached: its primary has ended. What served it is
/// taken away.
pub(super) async fn not_settled(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    what: &str,
) -> ApiError {
    let Phase::Closed(Over::Ended(reason)) = attached.phase() else { return moved(what) };
    dismantle(node, turn, attached).await;
    let (code, advice) = messages::attach_failed(reason);
    ApiError::new(code, what, why_ended(node, attached, reason), advice)
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

/// Why a primary ended, as a sentence.
pub(super) fn why_ended(node: &Node, attached: &Attached, reason: EndReason) -> String {
    messages::ended(reason, |replica| status::place_of(node, attached, replica))
}

/// How a volume is to be shown, as far as it is known before that is tried.
fn asked(request: &AttachRequest) -> Shown {
    let nbd = WantedNbd { read_only: request.read_only, ..WantedNbd::default() };
    let by_nbd = Shown { device: false, nbd: Some(nbd) };
    match request.how {
        AttachHow::None => Shown::default(),
        AttachHow::Auto if request.read_only => by_nbd,
        AttachHow::Device | AttachHow::Auto => Shown { device: true, nbd: None },
        AttachHow::Nbd => by_nbd,
    }
}

/// Makes a primary and waits until it serves. One that is not there in time ends with the turn.
pub(super) async fn start(
    node: &Arc<Node>,
    turn: &Turn,
    what: &str,
    shown: Shown,
) -> Result<Arc<Attached>, ApiError> {
    start_for(node, turn, what, Purpose::Use(shown)).await
}

async fn start_for(
    node: &Arc<Node>,
    turn: &Turn,
    what: &str,
    purpose: Purpose,
) -> Result<Arc<Attached>, ApiError> {
    cluster::nodes(node).await;
    // Not by its name: another one may have got that meanwhile.
    let found = find(node, what, &turn.volume().to_string()).await?;
    refuse_stopped(&found, what)?;
    admission::heard_of(node).await;
    admission::demand(node, what)?;
    refuse_second_primary(node, &found, what)?;
    let primary = PrimaryId { node: node.identity.node, incarnation: random_incarnation() };
    let attached = Arc::new(Attached::new(&found.stored.record, &found.view, primary, purpose));
    let making = make_primary(node, turn, &found, &attached, what)?;
    match reach(&attached, |phase| !phase.is_opening(), START).await {
        Some(Phase::Serving) => {
            rename::refuse_renamed(node, &attached, what).await?;
            Ok(attached)
        }
        Some(Phase::Closed(Over::Ended(reason))) => {
            turn.cleared();
            wanted::changed(node, turn).await;
            Err(not_started(node, &found, &attached, reason, what).await)
        }
        Some(Phase::Closed(Over::NotMade)) => {
            turn.cleared();
            let why = making.await.map_or_else(|e| e.to_string(), |e| e.to_string());
            Err(ApiError::new(ErrorCode::System, what, why, "See the node's log"))
        }
        _ => {
            let why = format!("it did not start within {} s", START.as_secs());
            let advice = "See that the nodes of its replicas and the coordinator's node run";
            Err(ApiError::new(ErrorCode::TimedOut, what, why, advice))
        }
    }
}

/// Has the engine make a primary, whatever becomes of whoever waits for it. Gives why it does not.
fn make_primary(
    node: &Arc<Node>,
    turn: &Turn,
    found: &Found,
    attached: &Arc<Attached>,
    what: &str,
) -> Result<JoinHandle<String>, ApiError> {
    let earlier = turn.open(attached).map_err(|refused| not_opened(refused, what))?;
    let settings = evenkeel_core::Settings {
        no_data: match found.stored.record.no_data {
            NoData::Suspend { seconds } => NoDataPolicy::Suspend(Duration::from_secs(seconds)),
            NoData::Error => NoDataPolicy::Error,
        },
        ..node.config.settings()
    };
    let (id, volume) = (attached.primary, attached.id);
    let config = PrimaryConfig { id, volume, settings, earlier };
    let node = node.clone();
    Ok(tokio::spawn(async move {
        let made = node.data.attach(config).await;
        actor::made(&node, volume, id.incarnation, made.is_ok());
        made.map_or_else(|error| error.to_string(), |()| String::new())
    }))
}

fn not_opened(refused: NotOpened, what: &str) -> ApiError {
    let (code, why, advice) = match refused {
        NotOpened::Listed => (
            ErrorCode::TimedOut,
            "an earlier attachment of it here has not ended yet",
            "Try again; see `evenkeel volume status`",
        ),
        NotOpened::Closing => (
            ErrorCode::Stopping,
            "the node is stopping",
            "Ask another node, or this one when it runs again",
        ),
    };
    ApiError::new(code, what, why, advice)
}

/// Why an attach failed. Where all good replicas of a mirror are on nodes that do not answer, it
/// names them.
async fn not_started(
    node: &Node,
    found: &Found,
    attached: &Attached,
    reason: EndReason,
    what: &str,
) -> ApiError {
    let (code, advice) = messages::attach_failed(reason);
    if reason == EndReason::NoData {
        cluster::nodes(node).await;
        let is_dead = |id| node.coordinator.node(id).is_some_and(|member| !member.alive);
        let silent = |mirror: &&MirrorView| mirror.in_sync().all(|replica| is_dead(replica.node));
        if let Some(mirror) = found.view.mirrors.iter().find(silent) {
            let name = |replica| super::replica::places(node, found, replica)[0].clone();
            let names: Vec<String> = mirror.in_sync().map(name).collect();
            let why =
                format!("no in-sync replica answers: the node of {} is dead", names.join(", "));
            return ApiError::new(ErrorCode::NodeUnreachable, what, why, advice);
        }
    }
    ApiError::new(code, what, why_ended(node, attached, reason), advice)
}

/// Lets the replicas of a detached volume adopt its newest view: it is attached for a moment.
/// Returns how that has ended.
///
/// # Errors
/// If it does not start or end.
pub(super) async fn adopt(
    node: &Arc<Node>,
    turn: &Turn,
    what: &str,
) -> Result<EndReason, ApiError> {
    let attached = start_for(node, turn, what, Purpose::Passing).await?;
    match end(node, turn, &attached).await {
        Some(Over::Ended(reason)) => Ok(reason),
        Some(Over::NotMade) => Err(moved(what)),
        None => {
            let why = format!("it did not end within {} s", END.as_secs());
            let advice = "It goes on: see `evenkeel volume status`";
            Err(ApiError::new(ErrorCode::TimedOut, what, why, advice))
        }
    }
}

pub(super) async fn reach(
    attached: &Attached,
    wanted: impl Fn(Phase) -> bool,
    patience: Duration,
) -> Option<Phase> {
    let mut seen = attached.seen.subscribe();
    let reached = tokio::time::timeout(patience, seen.wait_for(|seen| wanted(seen.phase))).await;
    reached.ok()?.ok().map(|seen| seen.phase)
}

/// A stopped volume is used again only when somebody says so.
pub(super) fn refuse_stopped(found: &Found, what: &str) -> Result<(), ApiError> {
    let name = &found.stored.record.name;
    match found.stored.record.stopped {
        true => Err(ApiError::new(
            ErrorCode::WrongState,
            what,
            "the volume is stopped",
            format!("Assemble it first: `evenkeel volume assemble {name}`"),
        )),
        false => Ok(()),
    }
}

/// A volume that is not shared has one primary. One on a dead node is taken over, one that may be
/// alive is not. Of a shared one the replicas tell whether others run it: then this one joins them.
fn refuse_second_primary(node: &Node, found: &Found, what: &str) -> Result<(), ApiError> {
    let elsewhere = found.view.primaries.iter().filter(|p| p.id.node != node.identity.node);
    for primary in elsewhere.filter(|_| !found.view.is_shared()) {
        let alive = node.coordinator.node(primary.id.node).is_none_or(|member| member.may_live);
        let name = node.coordinator.node_ref(primary.id.node).name;
        if alive {
            return Err(ApiError::new(
                ErrorCode::AttachedElsewhere,
                what,
                format!(
                    "it is attached on node {name}, or was and was not given up, and that node is alive or was until a moment ago"
                ),
                format!(
                    "Detach it there (`evenkeel detach` works from any node). If that node has died, wait until it counts as dead, {} s after its last sign of life: a takeover before cannot be forced, because two nodes might write",
                    node.config.coordinator.expiry_seconds
                ),
            ));
        }
        tracing::warn!(volume = found.stored.record.name, dead = %name, "taking the volume over from a dead node");
    }
    Ok(())
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

pub(super) fn place(node: &Node) -> Place {
    Place::new(&node.config.runtime)
}

/// Makes the block device, or takes the one of a killed daemon up again.
pub(super) async fn make_device(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    resume: bool,
    what: &str,
) -> Result<(), ApiError> {
    let options = Options {
        name: attached.name().to_owned(),
        size: attached.shared_size(),
        block_size: attached.block_size,
        kind: None,
        resume,
    };
    let (data, volume) = (node.data.clone(), attached.id);
    let (frontend, runtime) = (node.volumes.next_frontend(), tokio::runtime::Handle::current());
    let what = what.to_owned();
    // Until the device is made, or not, it is this one's turn, whoever waits for that.
    let (turn, shown_of) = (turn.clone(), attached.clone());
    let made = node.blocking(move |node| {
        let serve = |maker| {
            let added = data.add_frontend(volume, frontend, "device".into(), maker);
            runtime.block_on(added).map_err(|e| e.to_string())
        };
        let made = evenkeel_attach::attach(&place(node), &options, serve);
        let made = made.map_err(|e| device_error(&what, &e))?;
        let device = Device { path: made.link.clone(), kind: made.kind.to_string() };
        turn.device(&shown_of, Some(device));
        Ok(made)
    });
    let made = made.await?;
    tracing::info!(volume = attached.name(), device = %made.device.display(), kind = %made.kind, "a block device was made");
    Ok(())
}

/// Shows on the block device that the volume has grown; tells how.
pub(super) async fn grow_device(
    node: &Arc<Node>,
    attached: &Attached,
    what: &str,
) -> Result<&'static str, ApiError> {
    let (name, size, what) = (attached.name().to_owned(), attached.size(), what.to_owned());
    let grown = move |node: &Node| match evenkeel_attach::grow(&place(node), &name, size) {
        Ok(()) => Ok("; so has its block device"),
        Err(AttachError::KeepsSize(_)) => {
            Ok("; its block device shows it after a detach and an attach")
        }
        Err(error) => Err(device_error(&what, &error)),
    };
    node.blocking(move |node| grown(node)).await
}

pub(super) fn device_error(what: &str, error: &AttachError) -> ApiError {
    let (code, action) = match error {
        AttachError::Unavailable(_) => (ErrorCode::NotSupported, "Attach it by nbd instead"),
        AttachError::InUse { .. } => (
            ErrorCode::DeviceBusy,
            "Unmount it there (`evenkeel umount`), or close what has it open",
        ),
        AttachError::NameTaken { .. } => {
            (ErrorCode::NameInUse, "Detach it where it is served, or remove the link")
        }
        AttachError::NotDurable { .. } => (ErrorCode::System, "See `evenkeel volume status`"),
        _ => (ErrorCode::System, "See the node's log and the kernel's"),
    };
    ApiError::new(code, what, error.to_string(), action)
}

//! A primary on this node: made, awaited, and why it is not there.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::primary::{EndReason, PrimaryConfig};
use evenkeel_core::{MirrorView, NoDataPolicy, PrimaryId, ReplicaRecord};
use tokio::task::JoinHandle;

use super::actor::{self, Turn};
use super::end::{END, dismantle, end, reach};
use super::lifecycle::{NotOpened, Over, Phase, Purpose};
use super::wanted;
use crate::coordinator::{NoData, Shown};
use crate::random::random_incarnation;
use crate::volumes::Node;
use crate::volumes::lookup::{Found, find, moved, place_of, places};
use crate::volumes::{Attached, messages};

/// How long an attach may take: dead replicas cost a deadline each, the coordinator a few seconds.
const START: Duration = Duration::from_secs(60);

/// Makes a primary and waits until it serves. One that is not there in time ends with the turn.
pub(in crate::volumes) async fn start(
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
    node.cluster.nodes().await;
    // Not by its name: another one may have got that meanwhile.
    let found = find(node, what, &turn.volume().to_string()).await?;
    refuse_stopped(&found, what)?;
    node.admission.learned_of().await;
    node.admission.demand(what)?;
    refuse_second_primary(node, &found, what)?;
    let primary = PrimaryId { node: node.identity.node, incarnation: random_incarnation() };
    let attached = Arc::new(Attached::new(&found.stored.record, &found.view, primary, purpose));
    let making = make_primary(node, turn, &found, &attached, what)?;
    match reach(&attached, |phase| !phase.is_opening(), START).await {
        Some(Phase::Serving) => {
            refuse_renamed(node, &attached, what).await?;
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
    let (code, advice) = messages::attach_failed(reason, &found.stored.record.name);
    if reason == EndReason::NoData {
        node.cluster.nodes().await;
        let is_dead = |replica: &ReplicaRecord| node.coordinator.is_dead(replica.node);
        let silent = |mirror: &&MirrorView| mirror.in_sync().all(is_dead);
        if let Some(mirror) = found.view.mirrors.iter().find(silent) {
            let name = |replica| places(node, found, replica)[0].clone();
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
pub(in crate::volumes) async fn adopt(
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

/// A stopped volume is used again only when somebody says so.
pub(in crate::volumes) fn refuse_stopped(found: &Found, what: &str) -> Result<(), ApiError> {
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

/// A volume that is not shared has one primary. One on a dead node is taken over, and so is one on
/// a node that was removed from the cluster, which an older database names still; one that may be
/// alive is not. Of a shared one the replicas tell whether others run it: then this one joins them.
fn refuse_second_primary(node: &Node, found: &Found, what: &str) -> Result<(), ApiError> {
    let elsewhere = found.view.primaries.iter().filter(|p| p.id.node != node.identity.node);
    for primary in elsewhere.filter(|_| !found.view.is_shared()) {
        let name = node.coordinator.node_ref(primary.id.node).name;
        if !node.coordinator.is_dead(primary.id.node) {
            return Err(ApiError::new(
                ErrorCode::AttachedElsewhere,
                what,
                format!(
                    "it is attached on node {name}, or was and was not given up, and that node is alive or was until a moment ago"
                ),
                format!(
                    "Detach it there (`evenkeel detach {} --node {name}`, from any node). If that node has died, wait until it counts as dead, {} s after its last sign of life: a takeover before cannot be forced, because two nodes might write",
                    found.stored.record.name, node.config.coordinator.expiry_seconds
                ),
            ));
        }
        tracing::warn!(volume = found.stored.record.name, dead = %name, "taking the volume over from a dead node");
    }
    Ok(())
}

/// Refuses to show a volume by the name that it had when it began to be attached, if it was renamed
/// before a view had this primary.
///
/// # Errors
/// If it was. While the coordinator does not answer, none is renamed.
pub(super) async fn refuse_renamed(
    node: &Node,
    attached: &Attached,
    what: &str,
) -> Result<(), ApiError> {
    let found = match find(node, what, &attached.id.to_string()).await {
        Ok(found) => found,
        Err(error) if error.code == ErrorCode::NoCoordinator => return Ok(()),
        Err(error) => return Err(error),
    };
    let name = &found.stored.record.name;
    if name == attached.name() {
        return Ok(());
    }
    let (why, advice) =
        (format!("it was renamed to {name} meanwhile"), "Attach it by its new name");
    Err(ApiError::new(ErrorCode::WrongState, what, why, advice))
}

/// The volume's attachment here, if its primary lives. What is left of one that has ended is taken
/// away, and one that is ending is awaited.
pub(in crate::volumes) async fn alive(
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
pub(in crate::volumes) async fn establish(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    what: &str,
) -> Result<(), ApiError> {
    match turn.establish(attached) {
        true => Ok(()),
        false => Err(not_established(node, turn, attached, what).await),
    }
}

/// Why a volume that was shown does not stay attached: its primary has ended. What served it is
/// taken away.
pub(super) async fn not_established(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    what: &str,
) -> ApiError {
    let Phase::Closed(Over::Ended(reason)) = attached.phase() else { return moved(what) };
    dismantle(node, turn, attached).await;
    let (code, advice) = messages::attach_failed(reason, attached.name());
    ApiError::new(code, what, why_ended(node, attached, reason), advice)
}

/// Why a primary ended, as a sentence.
pub(in crate::volumes) fn why_ended(node: &Node, attached: &Attached, reason: EndReason) -> String {
    messages::ended(reason, |replica| place_of(node, attached, replica))
}

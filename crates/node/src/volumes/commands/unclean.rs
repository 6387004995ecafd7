//! A detach to which not all replicas answered: nothing uses the volume any more, and the view
//! names its primary still, because what replicas have of the last writes may differ. Whoever
//! detaches it again, when they answer, has it attached for a moment, so that they become equal,
//! and given up.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::types::{DetachAnswer, VERSION};
use evenkeel_api::{ApiError, ErrorCode, Exit};
use evenkeel_core::primary::EndReason;
use evenkeel_core::{ReplicaRecord, ReplicaState, View};

use crate::volumes::Attached;
use crate::volumes::Node;
use crate::volumes::attachment::actor::{Turn, turn};
use crate::volumes::attachment::{device, start, wanted};
use crate::volumes::lookup::{Found, find, moved, place_of, places};

/// The pause between two looks at a primary that ends.
const LOOK: Duration = Duration::from_millis(200);

/// Whatever was asked for, the volume is not this node's any more.
pub(super) fn given_up(clean: bool, message: String) -> DetachAnswer {
    let (attached, silent) = (false, Vec::new());
    DetachAnswer { version: VERSION, clean, given_up: true, attached, silent, message }
}

/// Nothing uses it here any more, and the view names this node still.
fn not_given_up(silent: Vec<String>, message: String) -> DetachAnswer {
    let (clean, given_up, attached) = (false, false, false);
    DetachAnswer { version: VERSION, clean, given_up, attached, silent, message }
}

/// Waits for the end of a primary, and tells which in-sync replicas did not answer it last.
///
/// # Errors
/// Those of `end`.
pub(super) async fn watch<T>(
    node: &Arc<Node>,
    attached: &Attached,
    end: impl Future<Output = Result<T, ApiError>>,
) -> Result<(T, Vec<String>), ApiError> {
    tokio::pin!(end);
    let mut silent = Vec::new();
    loop {
        tokio::select! {
            ended = &mut end => return ended.map(|ended| (ended, silent)),
            () = tokio::time::sleep(LOOK) => {
                silent = silent_replicas(node, attached).await.unwrap_or(silent);
            }
        }
    }
}

/// `None`: the primary has ended, and has no sessions.
async fn silent_replicas(node: &Node, attached: &Attached) -> Option<Vec<String>> {
    let core = node.data.volume_status(attached.id).await?.primary?;
    let view = core.view.as_ref()?;
    if core.replicas.is_empty() {
        return None;
    }
    let is_silent = |id| core.replicas.iter().any(|peer| peer.replica == id && !peer.connected);
    let replicas = view.replicas().map(|(_, record)| record);
    let silent = replicas.filter(|r| r.state == ReplicaState::InSync && is_silent(r.id));
    Some(silent.map(|record| place_of(node, attached, record.id)).collect())
}

/// What has become of a volume whose primary could not leave it cleanly.
pub(super) fn reported(node: &Node, attached: &Attached, silent: Vec<String>) -> DetachAnswer {
    let (name, here) = (attached.name(), &node.identity.name);
    let why = match silent.len() {
        0 => "the coordinator, or a replica, did not answer in time".to_owned(),
        1 => format!("the replica on {} did not answer", silent[0]),
        _ => format!("the replicas on {} did not answer", silent.join(", ")),
    };
    let message = format!(
        "{name}: nothing uses it on node {here} any more, but it was not given up, because {why}. Replicas may differ in what was written last, and no other node can attach it before they are made equal, or node {here} is dead. When they answer: `evenkeel detach {name} --node {here}` once more, or attach it on node {here} again"
    );
    not_given_up(silent, message)
}

/// What a volume is like that this node has given up: which replicas lack writes now, that did not
/// before.
fn left_as(node: &Node, before: &View, now: &Found, here: &str) -> String {
    let was_in_sync = |id| before.replica(id).is_some_and(|(_, r)| r.state == ReplicaState::InSync);
    let lacks = |r: &&ReplicaRecord| r.state != ReplicaState::InSync && was_in_sync(r.id);
    let lacking = now.view.replicas().map(|(_, record)| record).filter(lacks);
    let lacking: Vec<String> = lacking.map(|r| places(node, now, r)[0].clone()).collect();
    let name = &now.stored.record.name;
    match lacking.len() {
        0 => format!(
            "{name}: node {here} has given it up, after its replicas were made equal; any node can attach it"
        ),
        _ => format!(
            "{name}: node {here} has given it up, and any node can attach it; what {} has is older, and rebuilt when it is attached",
            lacking.join(", ")
        ),
    }
}

/// Whether the view names a primary of this node.
pub(super) fn is_left(node: &Node, view: &View) -> bool {
    view.primaries.iter().any(|primary| primary.id.node == node.identity.node)
}

/// Gives up what a primary of this node has left behind.
///
/// # Errors
/// If it is attached here meanwhile, or the replicas do not answer still.
pub(super) async fn give_up(
    node: &Arc<Node>,
    found: &Found,
    what: &str,
) -> Result<DetachAnswer, ApiError> {
    let id = found.view.volume;
    let turn = turn(node, id).await;
    let found = find(node, what, &id.to_string()).await?;
    if node.volumes.get(id).is_some() || !is_left(node, &found.view) {
        return Err(moved(what));
    }
    let answer = give_up_in(node, &turn, &found, what).await?;
    turn.unwant();
    wanted::changed(node, &turn).await;
    Ok(answer)
}

/// Attaches it for a moment, so that its replicas become equal. Not while a device of it is used
/// that an earlier daemon has left: nobody else is to write beside that.
async fn give_up_in(
    node: &Arc<Node>,
    turn: &Turn,
    found: &Found,
    what: &str,
) -> Result<DetachAnswer, ApiError> {
    let (here, name) = (&node.identity.name, &found.stored.record.name);
    device::take_stale(node, name, what).await?;
    Ok(match start::adopt(node, turn, what).await? {
        EndReason::Detached => {
            let now = find(node, what, &found.view.volume.to_string()).await?;
            given_up(true, left_as(node, &found.view, &now, here))
        }
        _ => not_given_up(
            Vec::new(),
            format!(
                "{name}: node {here} could not give it up: a replica has stopped answering. When it answers: `evenkeel detach {name} --node {here}` once more"
            ),
        ),
    })
}

/// A volume that waited to be attached on a node is not attached there any more.
pub(super) fn not_again(volume: &str, node: &str) -> DetachAnswer {
    let what = "it was not attached on node";
    given_up(true, format!("{volume}: {what} {node}, and is not attached there again"))
}

/// The same of this node for whoever has the turn: what a primary of an earlier daemon has left
/// behind is given up, too.
///
/// # Errors
/// If it is not wanted here any more, and can't be given up, though replicas and the coordinator
/// answer.
pub(super) async fn give_up_rest(
    node: &Arc<Node>,
    turn: &Turn,
    volume: &str,
) -> Result<DetachAnswer, ApiError> {
    let here = &node.identity.name;
    let what =
        format!("volume {volume} is not attached again on node {here}, and is not given up there");
    let left = match find(node, &what, &turn.volume().to_string()).await {
        Err(error) if error.code == ErrorCode::NoSuchVolume => return Ok(not_again(volume, here)),
        Ok(found) if !is_left(node, &found.view) => return Ok(not_again(volume, here)),
        Ok(found) => give_up_in(node, turn, &found, &what).await,
        Err(error) => Err(error),
    };
    match left {
        Err(error) if error.code.exit() == Exit::Unreachable || error.code == ErrorCode::NoData => {
            Ok(not_given_up(Vec::new(), rest_stays(volume, here, &error.why)))
        }
        other => other,
    }
}

fn rest_stays(volume: &str, here: &str, why: &str) -> String {
    format!(
        "{volume}: it was not attached on node {here}, and is not attached there again; but it may count as attached there still, because {why}. Then no other node can attach it, unless node {here} is dead: `evenkeel detach {volume} --node {here}` once more gives it up"
    )
}

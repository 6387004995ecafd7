//! What the engine asks for: connections, the coordinator, and to be told of what happened.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_core::primary::CoordinatorAnswer;
use evenkeel_core::{PrimaryId, View};
use evenkeel_engine::{Caller, EngineEvent};

use crate::coordinator::{Answer, CallError, Request, ViewText};
use crate::data_path::Events;
use crate::peer;
use crate::volumes::Node;

/// How long one call to the coordinator may take before the core is told that it is unknown. The
/// core asks again for as long as requests may wait.
const COORDINATOR_DEADLINE: Duration = Duration::from_secs(3);

/// Does what the engine asks for, until it is stopped.
pub async fn serve(node: Arc<Node>, mut events: Events) {
    while let Some(event) = events.recv().await {
        match event {
            EngineEvent::Note { volume, note } => node.volumes.note(&node, volume, note),
            EngineEvent::RequestsFailed { volume, failure } => {
                node.volumes.requests_failed(&node, volume, failure);
            }
            EngineEvent::Ended { volume, primary, reason } => {
                node.volumes.ended(&node, volume, primary, reason);
            }
            EngineEvent::FrontendEnded { volume, frontend, reason } => {
                node.volumes.frontend_ended(volume, frontend, &reason);
            }
            EngineEvent::LinkClosed { volume, replica, reason } => {
                tracing::info!(%volume, %replica, %reason, "a connection has ended");
            }
            EngineEvent::DiskError { volume, replica, kind, reason } => {
                let line =
                    node.disks.in_engine().note_error(replica, kind, &reason, Instant::now());
                if let Some(left_out) = line {
                    tracing::error!(%volume, %replica, %reason, "a disk reported an error{left_out}");
                }
            }
            // These wait for others: each in a task of its own.
            event => drop(tokio::spawn(carry_out(node.clone(), event))),
        }
    }
}

async fn carry_out(node: Arc<Node>, event: EngineEvent) {
    let engine = node.data.engine();
    match event {
        EngineEvent::Connect { volume, request, replica, node: target, caller } => {
            if node.coordinator.node(target).is_none() {
                node.cluster.nodes().await;
            }
            let member = node.coordinator.node(target);
            let connection = node.peers.connect_replica(member.as_ref(), volume, replica).await;
            if let Err(error) = &connection {
                tracing::debug!(%volume, %replica, ?caller, %error, "cannot connect");
            }
            if let Caller::Primary(primary) = caller
                && let Some(attached) = node.volumes.of(volume, primary)
            {
                attached.learn_unserved(&node, replica, peer::unserved(&connection));
            }
            engine.connected(volume, request, connection.ok());
            node.member.cut_removed(target);
        }
        EngineEvent::ReadView { volume, primary, call } => {
            let request = Request::Read { volume: volume.to_string() };
            let answer = ask_coordinator(&node, request).await;
            engine.coordinator_answer(volume, primary, call, answer);
        }
        EngineEvent::SwapView { volume, primary, call, view, replaces } => {
            let answer = swap(&node, primary, &view, &replaces).await;
            engine.coordinator_answer(volume, primary, call, answer);
        }
        _ => {}
    }
}

async fn swap(node: &Node, primary: PrimaryId, view: &View, replaces: &View) -> CoordinatorAnswer {
    let (text, replaces) = match (ViewText::encode(view), ViewText::encode(replaces)) {
        (Ok(text), Ok(replaces)) => (text, replaces),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(volume = %view.volume, %error, "a view cannot be stored");
            return CoordinatorAnswer::Unknown;
        }
    };
    let attached = node.volumes.of(view.volume, primary);
    let in_passing = attached.is_some_and(|attached| attached.in_passing());
    let (by, wish) = (node.identity.node.to_string(), Some(node.volumes.wish(view)));
    let request =
        Request::Swap { node: by, view: text, replaces: Some(replaces), in_passing, wish };
    ask_coordinator(node, request).await
}

async fn ask_coordinator(node: &Node, request: Request) -> CoordinatorAnswer {
    let decode = |view: ViewText| {
        view.decode().map_or(CoordinatorAnswer::Unknown, |v| CoordinatorAnswer::Newest(Box::new(v)))
    };
    match node.coordinator.call_within(request, COORDINATOR_DEADLINE).await {
        Ok(Answer::Done) => CoordinatorAnswer::Committed,
        Ok(Answer::Volume(stored)) => decode(stored.view),
        Ok(Answer::Newest(view)) => decode(view),
        Ok(Answer::NoVolume) => CoordinatorAnswer::NoVolume,
        Ok(Answer::GivenUp) => CoordinatorAnswer::GivenUp,
        Ok(other) => {
            tracing::warn!(?other, "the coordinator did not commit a view");
            CoordinatorAnswer::Unknown
        }
        // That it does not answer is told where it is asked, once for all that ask.
        Err(CallError::Unreachable(why)) => {
            tracing::debug!(why, "the coordinator did not answer");
            CoordinatorAnswer::Unknown
        }
        Err(error) => {
            tracing::warn!(%error, "the coordinator did not commit a view");
            CoordinatorAnswer::Unknown
        }
    }
}

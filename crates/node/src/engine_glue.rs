//! The engine as the control plane uses it: calls that can be awaited, and what it asks for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_core::primary::{Command, CommandError, CoordinatorAnswer, PrimaryConfig};
use evenkeel_core::{Generation, ReplicaId, View, VolumeId};
use evenkeel_engine::{
    Caller, Engine, EngineConfig, EngineError, EngineEvent, FrontendId, FrontendMaker, RoomStep,
    RoomTask, VolumeRebuilds, VolumeStatus, WorkerStatus,
};
use tokio::sync::{mpsc, oneshot};

use crate::config::Config;
use crate::coordinator::{Answer, CallError, Request, ViewText};
use crate::disks::OpenReplica;
use crate::identity::Identity;
use crate::node::Node;
use crate::{membership, peer};

/// How long one call to the coordinator may take before the core is told that it is unknown. The
/// core asks again for as long as requests may wait.
const COORDINATOR_DEADLINE: Duration = Duration::from_secs(3);

/// What the engine asked for. It is bounded by the engine: a primary has few calls under way at a
/// time (one to the coordinator, one connection for each replica).
pub type Events = mpsc::UnboundedReceiver<EngineEvent>;

/// The engine, with answers that can be awaited.
#[derive(Debug, Clone)]
pub struct DataPath(Engine);

impl DataPath {
    /// Starts the workers.
    ///
    /// # Errors
    /// If the kernel has no io_uring, or forbids it.
    pub fn start(config: &Config) -> std::io::Result<(Self, Events)> {
        let (sender, events) = mpsc::unbounded_channel();
        let bytes = |size: crate::config::ByteSize| usize::try_from(size.0).unwrap_or(usize::MAX);
        let engine = Engine::start(EngineConfig {
            workers: config.workers(),
            memory_per_worker: bytes(config.data.memory_per_worker),
            memory_per_volume: bytes(config.data.memory_per_volume),
            memory_per_link: bytes(config.data.memory_per_volume),
            max_poll: Duration::from_micros(config.data.max_poll_us),
            // After the daemon's end nobody listens any more, and nothing is to be done.
            on_event: Arc::new(move |event| drop(sender.send(event))),
        })?;
        Ok((Self(engine), events))
    }

    /// The engine itself, for calls without an answer.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0
    }

    /// Opens a replica: from then on it accepts links.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn open_replica(
        &self,
        replica: OpenReplica,
        identity: &Identity,
        settings: evenkeel_core::Settings,
    ) -> Result<(), EngineError> {
        let incarnation = (crate::random::random_incarnation(), replica.boot(identity.boot));
        let read = move || {
            evenkeel_engine::OpenReplica::read(
                replica.file.into(),
                replica.newest,
                incarnation,
                settings,
            )
        };
        let replica = tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other)??;
        ask(|answer| self.0.open_replica(replica, answer)).await
    }

    /// Closes a replica; its file is closed when this returns.
    ///
    /// # Errors
    /// If it is not open.
    pub async fn close_replica(
        &self,
        volume: VolumeId,
        replica: ReplicaId,
    ) -> Result<(), EngineError> {
        ask(|answer| self.0.close_replica(volume, replica, answer)).await
    }

    /// One step of making room; see [`Engine::make_room`].
    ///
    /// # Errors
    /// If it is not open, is saving something, bitmaps count, or the disk fails.
    pub async fn make_room(
        &self,
        volume: VolumeId,
        replica: ReplicaId,
        length: u64,
        step: RoomStep,
        spare_in: Option<Generation>,
    ) -> Result<Option<RoomTask>, EngineError> {
        let (sender, receiver) = oneshot::channel();
        let answer = move |result| drop(sender.send(result));
        self.0.make_room(volume, replica, length, step, spare_in, answer);
        receiver.await.unwrap_or(Err(EngineError::Stopped))
    }

    /// Makes a primary and starts it.
    ///
    /// # Errors
    /// If the volume is attached here already.
    pub async fn attach(&self, primary: PrimaryConfig) -> Result<(), EngineError> {
        ask(|answer| self.0.attach(primary, None, answer)).await
    }

    /// Gives a command to a primary and waits until it is carried out.
    ///
    /// # Errors
    /// Those of the core; `Ended` if there is no primary.
    pub async fn command(&self, volume: VolumeId, command: Command) -> Result<(), CommandError> {
        let (sender, receiver) = oneshot::channel();
        self.0.command(volume, command, move |result| {
            // Whoever asked may have gone.
            let _ = sender.send(result);
        });
        receiver.await.unwrap_or(Err(CommandError::Ended))
    }

    /// Adds a front end to an attached volume.
    ///
    /// # Errors
    /// If the volume is not attached here.
    pub async fn add_frontend(
        &self,
        volume: VolumeId,
        frontend: FrontendId,
        name: String,
        make: FrontendMaker,
    ) -> Result<(), EngineError> {
        ask(|answer| self.0.add_frontend(volume, frontend, name, make, answer)).await
    }

    /// Removes a front end.
    ///
    /// # Errors
    /// If it is not there any more.
    pub async fn remove_frontend(
        &self,
        volume: VolumeId,
        frontend: FrontendId,
    ) -> Result<(), EngineError> {
        ask(|answer| self.0.remove_frontend(volume, frontend, answer)).await
    }

    /// The state of a volume on this node, if anything of it is here.
    pub async fn volume_status(&self, volume: VolumeId) -> Option<VolumeStatus> {
        let (sender, receiver) = oneshot::channel();
        self.0.volume_status(volume, move |status| drop(sender.send(status)));
        receiver.await.ok().flatten()
    }

    /// How far rebuilds have come, of the attached volumes that have some.
    pub async fn rebuilds(&self) -> VolumeRebuilds {
        let (sender, receiver) = oneshot::channel();
        self.0.rebuilds(move |rebuilds| drop(sender.send(rebuilds)));
        receiver.await.unwrap_or_default()
    }

    /// The state of all workers.
    pub async fn survey(&self) -> Vec<WorkerStatus> {
        let (sender, receiver) = oneshot::channel();
        self.0.survey(move |status| drop(sender.send(status)));
        receiver.await.unwrap_or_default()
    }
}

/// Gives an order and waits for its answer. A stopped engine drops it.
async fn ask(
    order: impl FnOnce(Box<dyn FnOnce(Result<(), EngineError>) + Send>),
) -> Result<(), EngineError> {
    let (sender, receiver) = oneshot::channel();
    order(Box::new(move |result| drop(sender.send(result))));
    receiver.await.unwrap_or(Err(EngineError::Stopped))
}

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
                let line = node.disks.note_error(replica, kind, &reason, Instant::now());
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
                crate::cluster::nodes(&node).await;
            }
            let member = node.coordinator.node(target);
            let connection = node.peers.connect_replica(member.as_ref(), volume, replica).await;
            if let Err(error) = &connection {
                tracing::debug!(%volume, %replica, ?caller, %error, "cannot connect");
            }
            if let Some(attached) = node.volumes.get(volume).filter(|_| caller == Caller::Primary) {
                attached.learn_unserved(&node, replica, peer::unserved(&connection));
            }
            engine.connected(volume, request, connection.ok());
            membership::cut_removed(&node, target);
        }
        EngineEvent::ReadView { volume, call } => {
            let request = Request::Read { volume: volume.to_string() };
            let answer = ask_coordinator(&node, request).await;
            engine.coordinator_answer(volume, call, answer);
        }
        EngineEvent::SwapView { volume, call, view, replaces } => {
            let answer = swap(&node, &view, &replaces).await;
            engine.coordinator_answer(volume, call, answer);
        }
        _ => {}
    }
}

async fn swap(node: &Node, view: &View, replaces: &View) -> CoordinatorAnswer {
    let (text, replaces) = match (ViewText::encode(view), ViewText::encode(replaces)) {
        (Ok(text), Ok(replaces)) => (text, replaces),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(volume = %view.volume, %error, "a view cannot be stored");
            return CoordinatorAnswer::Unknown;
        }
    };
    let in_passing = node.volumes.get(view.volume).is_some_and(|attached| attached.in_passing());
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

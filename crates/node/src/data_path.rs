//! The engine as the control plane uses it: calls that can be awaited.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_core::primary::{Command, CommandError, PrimaryConfig};
use evenkeel_core::{Generation, ReplicaId, VolumeId};
use evenkeel_engine::{
    Engine, EngineConfig, EngineError, EngineEvent, FrontendId, FrontendMaker, SpaceStep,
    SpaceTask, VolumeRebuilds, VolumeStatus, WorkerStatus,
};
use tokio::sync::{mpsc, oneshot};

use crate::config::Config;
use crate::disks::OpenReplica;
use crate::state::identity::Identity;

/// What the engine asked for. It is bounded by the engine: a primary has few calls under way at a
/// time (one to the coordinator, one connection for each replica).
pub type Events = mpsc::UnboundedReceiver<EngineEvent>;

/// The engine, with answers that can be awaited.
#[derive(Debug, Clone)]
pub struct DataPath(Engine, Arc<AtomicU64>);

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
        Ok((Self(engine, Arc::default()), events))
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

    /// One step of making room; see [`Engine::make_space`].
    ///
    /// # Errors
    /// If it is not open, is saving something, bitmaps count, or the disk fails.
    pub async fn make_space(
        &self,
        volume: VolumeId,
        replica: ReplicaId,
        length: u64,
        step: SpaceStep,
        spare_in: Option<Generation>,
    ) -> Result<Option<SpaceTask>, EngineError> {
        let (sender, receiver) = oneshot::channel();
        let answer = move |result| drop(sender.send(result));
        self.0.make_space(volume, replica, length, step, spare_in, answer);
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

    /// A number for a front end, which no other has.
    #[must_use]
    pub fn next_frontend(&self) -> FrontendId {
        FrontendId(self.1.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds a front end to an attached volume. That is ordered at once, not when the answer is
    /// awaited: what is ordered of the volume later is done later.
    ///
    /// # Errors
    /// If the volume is not attached here.
    pub fn add_frontend(
        &self,
        volume: VolumeId,
        frontend: FrontendId,
        name: String,
        make: FrontendMaker,
    ) -> impl Future<Output = Result<(), EngineError>> + use<> {
        let (sender, receiver) = oneshot::channel();
        let answer = move |result| drop(sender.send(result));
        self.0.add_frontend(volume, frontend, name, make, answer);
        async { receiver.await.unwrap_or(Err(EngineError::Stopped)) }
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

    /// Tells a front end something, unless it has ended.
    pub fn tell_frontend(&self, volume: VolumeId, frontend: FrontendId, what: u64) {
        self.0.tell_frontend(volume, frontend, what);
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

//! What all parts of the daemon share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::types::NodeRef;
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{NodeId, VolumeId};
use evenkeel_engine::EngineError;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::admission::Standing;
use crate::certificates::Issuer;
use crate::clock::unix_seconds;
use crate::config::Config;
use crate::coordinator::{Embedded, Handle};
use crate::disks::{Disks, OpenReplica};
use crate::engine_glue::DataPath;
use crate::identity::Identity;
use crate::nbd::NbdServer;
use crate::nvme::NvmeServer;
use crate::peer::{Credentials, Peers};
use crate::state::StateDirectory;
use crate::tasks::Tasks;
use crate::volumes::Volumes;

/// A running daemon.
pub struct Node {
    /// As configured.
    pub config: Config,
    /// Who it is.
    pub identity: Identity,
    /// Its memory across restarts.
    pub state: Arc<StateDirectory>,
    /// Its disks.
    pub disks: Disks,
    /// The way to the coordinator.
    pub coordinator: Handle,
    /// The coordinator itself, if it is here.
    pub embedded: Option<Embedded>,
    /// The way to other nodes.
    pub peers: Arc<Peers>,
    /// Who it is to other nodes.
    pub credentials: Credentials,
    /// The cluster's authority, if its key is here.
    pub issuer: Option<Issuer>,
    /// The data path.
    pub data: DataPath,
    /// Changes that were asked for and are under way.
    pub tasks: Tasks,
    /// Volumes attached here.
    pub volumes: Volumes,
    /// NBD for clients.
    pub nbd: NbdServer,
    /// NVMe over TCP for hosts.
    pub nvme: Arc<NvmeServer>,
    /// Since when it runs, in seconds since 1970.
    pub started: u64,
    /// Where peers reach it.
    pub addresses: Vec<String>,
    /// Becomes true when the daemon is to end.
    pub stopping: watch::Sender<bool>,
    /// Whether this start of the daemon speaks for the node.
    pub standing: watch::Sender<Standing>,
    /// What was unusual since the start.
    pub warnings: std::sync::Mutex<Vec<Warning>>,
}

/// Something unusual that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// When it was seen last, in seconds since 1970.
    pub at: u64,
    /// What, as a sentence.
    pub text: String,
    /// The volume that is not attached or shown here yet, as it is meant to be: it is told until it
    /// is, or nobody wants that any more.
    pub until_shown: Option<VolumeId>,
}

/// Adds what was seen, for the first time or again. Of one volume only the last is kept that ends
/// when it is shown. Of too many the oldest is forgotten.
fn keep(warnings: &mut Vec<Warning>, warning: Warning) {
    let is_of_it = |before: &Warning| {
        before.until_shown.is_some() && before.until_shown == warning.until_shown
    };
    warnings.retain(|before| before.text != warning.text && !is_of_it(before));
    if warnings.len() == MAX_WARNINGS {
        warnings.remove(0);
    }
    warnings.push(warning);
}

/// Most warnings that are kept.
const MAX_WARNINGS: usize = 64;

/// How long whoever gives replicas to the engine waits for their disks.
const OPENING: Duration = Duration::from_secs(5);
/// Replicas of one disk that are opened at once: each takes a thread meanwhile.
const OPENED_AT_ONCE: usize = 8;

impl Node {
    /// This node's two names.
    #[must_use]
    pub fn reference(&self) -> NodeRef {
        NodeRef { id: self.identity.node.to_string(), name: self.identity.name.clone() }
    }

    /// Whether a node may run still, as far as the coordinator's last answer tells: this one does,
    /// and one that is not known does not.
    #[must_use]
    pub fn may_live(&self, id: NodeId) -> bool {
        id == self.identity.node || self.coordinator.node(id).is_some_and(|member| member.may_live)
    }

    /// Keeps a sentence for the status, with the time, and logs it.
    pub fn warn(&self, text: String) {
        self.keep_warning(text, None);
    }

    /// The same of a volume that is not attached or shown here yet, as it is meant to be: it is told
    /// until it is, or nobody wants that any more.
    pub fn warn_until_shown(&self, volume: VolumeId, text: String) {
        self.keep_warning(text, Some(volume));
    }

    fn keep_warning(&self, text: String, until_shown: Option<VolumeId>) {
        tracing::warn!("{text}");
        let mut warnings = self.warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        keep(&mut warnings, Warning { at: unix_seconds(), text, until_shown });
    }

    /// What was unusual since the start, and is not over.
    pub fn past_warnings(&self) -> Vec<Warning> {
        let mut warnings = self.warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        warnings
            .retain(|warning| warning.until_shown.is_none_or(|id| self.volumes.is_to_be_shown(id)));
        warnings.clone()
    }

    /// Runs something that blocks on a disk.
    ///
    /// # Errors
    /// Its own, or that the daemon ends.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let node = self.clone();
        tokio::task::spawn_blocking(move || work(&node)).await.unwrap_or_else(|e| {
            let advice = "Please report this, with the node's log";
            Err(ApiError::new(ErrorCode::System, "the work was cut off", e.to_string(), advice))
        })
    }

    /// Gives replicas that were found to the engine, those of different disks at the same time. One
    /// that it refuses is reported and left alone; one whose disk does not answer in time is served
    /// as soon as it does.
    pub async fn open_replicas(self: &Arc<Self>, opened: Vec<OpenReplica>) {
        let end = Instant::now() + OPENING;
        let mut disks: BTreeMap<_, Arc<Semaphore>> = BTreeMap::new();
        let begin = |replica: OpenReplica| {
            let id = replica.newest.superblock.replica;
            let turns = disks
                .entry(self.disks.disk_of(id))
                .or_insert_with(|| Arc::new(Semaphore::new(OPENED_AT_ONCE)));
            let (node, turns) = (self.clone(), turns.clone());
            let task = tokio::spawn(async move {
                let _turn = turns.acquire().await;
                node.open_replica(replica).await;
            });
            (id, task)
        };
        let tasks: Vec<_> = opened.into_iter().map(begin).collect();
        for (replica, task) in tasks {
            if timeout_at(end, task).await.is_err() {
                tracing::warn!(%replica, "a replica is not served yet: its disk does not answer");
                self.disks.note_slow(replica);
            }
        }
    }

    async fn open_replica(self: Arc<Self>, replica: OpenReplica) {
        let id = replica.newest.superblock.replica;
        let _held = self.volumes.replica(id).await;
        // It may have been deleted, or its volume stopped, since its disk was opened.
        if !self.disks.is_open(id) {
            return;
        }
        let path = replica.path.display().to_string();
        let settings = self.config.settings();
        match self.data.open_replica(replica, &self.identity, settings).await {
            Ok(()) => self.disks.note_served(id),
            // What the system reports may pass.
            Err(EngineError::System(error)) if error.raw_os_error().is_some() => {
                tracing::warn!(path, %error, "a replica cannot be served yet");
                self.disks.note_trouble(id, error);
            }
            Err(error) => {
                self.disks.note_problem(id, &error.to_string());
                self.warn(format!("the replica {path} is not served: {error}"));
            }
        }
    }
}

#[cfg(test)]
mod tests;

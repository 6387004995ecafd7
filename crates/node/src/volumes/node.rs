//! This node, as what is done with its volumes asks it.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::ApiError;
use evenkeel_api::types::NodeRef;
use evenkeel_core::NodeId;

use crate::admission::Admission;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::coordinator::Handle;
use crate::data_path::DataPath;
use crate::disks::Disks;
use crate::membership::Member;
use crate::nbd::NbdServer;
use crate::nvme::NvmeServer;
use crate::peer::Peers;
use crate::state::StateDirectory;
use crate::state::identity::Identity;
use crate::stopping::Stopping;
use crate::tasks;
use crate::volumes::Volumes;
use crate::warnings::Warnings;

/// What is done with volumes is done with these parts of their node. What else a daemon has (its
/// certificates, the coordinator, the API) is not theirs to ask.
pub struct Node {
    /// As configured.
    pub config: Arc<Config>,
    /// Who it is.
    pub identity: Arc<Identity>,
    /// Its memory across restarts.
    pub state: Arc<StateDirectory>,
    /// Its disks.
    pub disks: Arc<Disks>,
    /// The way to the coordinator.
    pub coordinator: Arc<Handle>,
    /// As a member of its cluster.
    pub member: Arc<Member>,
    /// Asking other nodes.
    pub cluster: Cluster,
    /// The way to other nodes.
    pub peers: Arc<Peers>,
    /// The data path.
    pub data: DataPath,
    /// Volumes attached here.
    pub volumes: Arc<Volumes>,
    /// NBD for clients.
    pub nbd: Arc<NbdServer>,
    /// NVMe over TCP for hosts.
    pub nvme: Arc<NvmeServer>,
    /// Whether the daemon is to end.
    pub stopping: Stopping,
    /// Whether this start of the daemon speaks for the node.
    pub admission: Arc<Admission>,
    /// What was unusual since the start.
    pub warnings: Warnings,
}

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
        self.warnings.warn(text);
    }

    /// What work gives; `None` as soon as the daemon is to end: the work is left as it is then.
    pub async fn unless_stopping<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.stopping.unless_begun(work).await
    }

    /// Waits for so long. Returns false as soon as the daemon is to end.
    pub async fn pause(&self, length: Duration) -> bool {
        self.stopping.pause(length).await
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
        tasks::blocking(move || work(&node)).await
    }
}

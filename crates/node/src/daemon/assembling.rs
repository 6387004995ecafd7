//! Makes the parts of a node, each from those before it.

use std::sync::Arc;

use evenkeel_api::types::NodeRef;

use super::listeners::Bound;
use super::{StartError, coordinator, failed};
use crate::access::Rights;
use crate::admission::Admission;
use crate::audit::{self, Audit};
use crate::certificates::{Certificates, Issuer};
use crate::clock::unix_seconds;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::coordinator::Handle;
use crate::data_path::{DataPath, Events};
use crate::disks::{Disks, OpenReplica};
use crate::membership::Member;
use crate::nbd::NbdServer;
use crate::nvme::NvmeServer;
use crate::own::Own;
use crate::peer::{Credentials, Peers};
use crate::running::Running;
use crate::state::StateDirectory;
use crate::state::identity::Identity;
use crate::volumes::{Node, Volumes};

/// What a start begins with: what the node is, and where it is reached.
pub(super) struct Start {
    pub(super) config: Config,
    pub(super) state: Arc<StateDirectory>,
    pub(super) identity: Identity,
    pub(super) rights: Arc<Rights>,
    pub(super) credentials: Credentials,
    /// Of certificates, where this node is the authority.
    pub(super) issuer: Option<Issuer>,
    pub(super) bound: Bound,
}

/// A node that is to be served.
pub(super) struct Assembled {
    pub(super) running: Running,
    /// What the engine reports.
    pub(super) events: Events,
    /// Replicas whose files are open, and which the engine is to have.
    pub(super) opened: Vec<OpenReplica>,
}

/// The parts below a node.
struct Parts {
    disks: Arc<Disks>,
    peers: Arc<Peers>,
    coordinator: Arc<Handle>,
    data: DataPath,
}

impl Start {
    /// Makes the node. It knows the cluster as far as this node remembers it.
    ///
    /// # Errors
    /// If disks, the coordinator or the data path can't be opened.
    pub(super) async fn assemble(self) -> Result<Assembled, StartError> {
        let reference =
            NodeRef { id: self.identity.node.to_string(), name: self.identity.name.clone() };
        let (disks, opened) = Disks::open(self.state.clone(), reference).map_err(failed)?;
        let peers = Arc::new(Peers::new(self.credentials.clone()));
        let (coordinator, embedded) = coordinator::open(&self, &peers).await?;
        let (data, events) = data_path(&self.config)?;
        let (credentials, rights) = (self.credentials.clone(), self.rights.clone());
        let (disks, coordinator) = (Arc::new(disks), Arc::new(coordinator));
        let (node, certificates) = self.node(Parts { disks, peers, coordinator, data });
        introduce(&node, embedded.is_some(), &credentials).await;
        let start = node.identity.start.id().counter;
        let audit = Audit::new(node.state.join(audit::FILE), start, node.warnings.clone());
        let running = Running {
            rights,
            audit,
            node: Arc::new(node),
            embedded,
            credentials,
            certificates: Arc::new(certificates),
            tasks: Arc::default(),
            started: unix_seconds(),
        };
        Ok(Assembled { running, events, opened })
    }

    fn node(self, parts: Parts) -> (Node, Certificates) {
        let Self { config, state, identity, credentials, issuer, bound, .. } = self;
        let Parts { disks, peers, coordinator, data } = parts;
        let (config, identity) = (Arc::new(config), Arc::new(identity));
        let own = Own::new(config.clone(), identity.clone(), state.clone());
        let admission = Arc::new(Admission::new(own.clone()));
        let cluster =
            Cluster::new(identity.clone(), coordinator.clone(), peers.clone(), disks.clone());
        let member = Member::new(
            own.clone(),
            cluster.clone(),
            credentials.clone(),
            admission.clone(),
            data.clone(),
            bound.addresses,
        );
        let addresses = member.addresses().to_vec();
        let certificates =
            Certificates::new(own.clone(), cluster.clone(), credentials, issuer, addresses);
        let volumes = Arc::new(Volumes::default());
        let nbd = NbdServer::new(bound.nbd, data.clone());
        let nvme = NvmeServer::new(bound.nvme, data.clone(), volumes.clone());
        let Own { stopping, warnings, .. } = own;
        let node = Node {
            config,
            identity,
            state,
            disks,
            coordinator,
            member: Arc::new(member),
            cluster,
            peers,
            data,
            volumes,
            nbd,
            nvme,
            stopping,
            admission,
            warnings,
        };
        (node, certificates)
    }
}

fn data_path(config: &Config) -> Result<(DataPath, Events), StartError> {
    DataPath::start(config).map_err(|e| {
        failed(format!("cannot start the data path: {e}; io_uring is needed (Linux 6.1 or later, and not forbidden by kernel.io_uring_disabled or a container's seccomp profile)"))
    })
}

/// Tells the parts of a node what it remembers of its cluster. A node that has the coordinator
/// speaks for itself, and knows at once what the cluster has decided.
async fn introduce(node: &Node, has_coordinator: bool, credentials: &Credentials) {
    if has_coordinator {
        node.admission.admit();
    }
    node.peers.learn(&node.coordinator.nodes());
    let remembered = node.coordinator.membership();
    // Nobody is connected yet.
    let _ = node.peers.learn_removed(&remembered.removed);
    credentials.epoch.remember(remembered.epoch);
    if has_coordinator {
        node.member.fetch().await;
    }
}

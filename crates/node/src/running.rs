//! A running daemon, as those serve it who are asked by users and by other nodes.

use std::sync::Arc;

use axum::extract::FromRef;

use crate::access::Rights;
use crate::audit::Audit;
use crate::certificates::Certificates;
use crate::coordinator::Embedded;
use crate::peer::Credentials;
use crate::tasks::Tasks;
use crate::volumes::Node;

/// The node, and what is asked of a daemon beside its volumes.
#[derive(Clone)]
pub struct Running {
    /// The node and its volumes.
    pub node: Arc<Node>,
    /// The coordinator itself, if it is here.
    pub embedded: Option<Embedded>,
    /// Who this node is to others.
    pub credentials: Credentials,
    /// How it gets its certificate, and makes those of others.
    pub certificates: Arc<Certificates>,
    /// Which users may ask for what.
    pub rights: Arc<Rights>,
    /// Who has asked for which change.
    pub audit: Arc<Audit>,
    /// Changes that were asked for and are under way.
    pub tasks: Arc<Tasks>,
    /// Since when it runs, in seconds since 1970.
    pub started: u64,
}

impl FromRef<Running> for Arc<Node> {
    fn from_ref(running: &Running) -> Self {
        running.node.clone()
    }
}

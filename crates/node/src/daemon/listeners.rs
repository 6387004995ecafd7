//! The sockets of a node: bound before anything is served, so that a port in use ends the start.

use tokio::net::{TcpListener, UnixListener};

use super::StartError;
use crate::access::Rights;
use crate::api::server;
use crate::config::Config;
use crate::files::own_directory;
use crate::http;
use crate::listener::PeerListener;
use crate::nbd;
use crate::nvme;
use crate::peer::Credentials;
use crate::running::Running;

/// See the module's documentation.
pub(super) struct Listeners {
    api: UnixListener,
    metrics: Option<TcpListener>,
    peer: PeerListener,
    nbd: Vec<TcpListener>,
    nvme: Vec<TcpListener>,
}

/// What a node is reached by.
pub(super) struct Bound {
    /// Where other nodes reach it.
    pub(super) addresses: Vec<String>,
    pub(super) nbd: nbd::Bound,
    pub(super) nvme: nvme::Bound,
}

impl Listeners {
    /// Binds all that the configuration names.
    ///
    /// # Errors
    /// If one can't be: the text says which, and why.
    pub(super) async fn bind(
        config: &Config,
        rights: &Rights,
        credentials: &Credentials,
    ) -> Result<(Self, Bound), StartError> {
        own_directory::prepare_for_sockets("runtime", &config.runtime)?;
        let (peer, addresses) = PeerListener::bind(config).await?;
        let (nbd, nbd_listeners) = nbd::Bound::bind(config, &credentials.tls).await?;
        let (nvme, nvme_listeners) = nvme::Bound::bind(config).await?;
        let metrics = match &config.metrics.listen {
            Some(address) => Some(http::bind_tcp(address, "metrics.listen").await?),
            None => None,
        };
        let api = server::bind(config, rights).await?;
        let listeners = Self { api, metrics, peer, nbd: nbd_listeners, nvme: nvme_listeners };
        Ok((listeners, Bound { addresses, nbd, nvme }))
    }

    /// Serves all of them until the node stops.
    pub(super) fn serve(self, running: &Running) {
        let node = &running.node;
        self.peer.serve(running);
        tokio::spawn(server::serve(self.api, running.clone()));
        if let Some(metrics) = self.metrics {
            tokio::spawn(server::serve_metrics(metrics, running.clone()));
        }
        for listener in self.nbd {
            tokio::spawn(nbd::accept_tcp(listener, node.nbd.clone(), node.stopping.clone()));
        }
        for listener in self.nvme {
            tokio::spawn(nvme::accept(listener, node.nvme.clone(), node.stopping.clone()));
        }
    }
}

//! The coordinator, as a start finds it: on this node, elsewhere, or not known yet.

use std::sync::Arc;
use std::time::Duration;

use super::assembling::Start;
use super::{StartError, failed};
use crate::config::Address;
use crate::coordinator::handle::Membership;
use crate::coordinator::remote::Remote;
use crate::coordinator::{Answer, Coordinator as _, Embedded, Handle, Request};
use crate::membership;
use crate::peer::Peers;

/// The coordinator here, or the way to the one that this node has joined.
///
/// # Errors
/// If its database can't be opened, or the node has joined another one.
pub(super) async fn open(
    start: &Start,
    peers: &Arc<Peers>,
) -> Result<(Handle, Option<Embedded>), StartError> {
    let remembered = start.state.load(membership::FILE).map_err(failed)?.unwrap_or_default();
    if start.config.coordinator.here {
        let (handle, embedded) = here(start, remembered).await?;
        Ok((handle, Some(embedded)))
    } else {
        Ok((elsewhere(start, peers, remembered)?, None))
    }
}

fn elsewhere(
    start: &Start,
    peers: &Arc<Peers>,
    remembered: Membership,
) -> Result<Handle, StartError> {
    let joined = remembered.address.clone();
    let handle = Handle::new(start.identity.name.clone(), remembered);
    if let Some(address) = joined {
        let address = Address::parse(&address)?;
        handle.set(Arc::new(Remote::new(peers.clone(), address.clone())), Some(&address));
    }
    Ok(handle)
}

async fn here(start: &Start, remembered: Membership) -> Result<(Handle, Embedded), StartError> {
    let Start { config, identity, credentials, .. } = start;
    if let Some(address) = &remembered.address {
        return Err(failed(format!(
            "this node joined the cluster of {address}, and the configuration makes it the coordinator of one (`here = true`): take that key away, or use another state directory"
        )));
    }
    let expiry = Duration::from_secs(config.coordinator.expiry_seconds);
    let path = start.state.join(crate::coordinator::DATABASE);
    let embedded = Embedded::open(&path, &config.cluster, identity.node, expiry).map_err(failed)?;
    // Before anybody is answered: the database may have been restored from a backup, or made anew.
    embedded.stay_removed(remembered.removed.clone()).map_err(failed)?;
    let handle = Handle::new(identity.name.clone(), remembered);
    handle.set(Arc::new(embedded.clone()), None);
    handle.set_id(embedded.id().to_string());
    let registration = membership::registration(identity, &start.bound.addresses, false);
    embedded.call(Request::Register(registration)).await.map_err(failed)?;
    if let Ok(Answer::Nodes(nodes)) = handle.call_once(Request::Nodes).await {
        handle.set_nodes(nodes);
    }
    // Its database knows best, should this node have died while the cluster was renamed.
    credentials.cluster.set(&start.state, &embedded.cluster()).map_err(failed)?;
    Ok((handle, embedded))
}

//! New certificates in time: each node asks for one when two thirds of the present one's validity
//! are over.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::CoordinatorId;
use evenkeel_trust::PublicKey;
use rustls::pki_types::CertificateDer;

use super::{Certificate, key};
use crate::certificates::joining::accept;
use crate::clock::unix_seconds;
use crate::config::Address;
use crate::node::Node;
use crate::peer::requests::{self, NewCertificate, WantedCertificate};

/// How often it is looked whether one is due.
const PERIOD: Duration = Duration::from_secs(60);
/// How long the authority's node may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Renews this node's certificate whenever that is due, until the daemon ends.
pub async fn renewals(node: Arc<Node>) {
    let mut stopping = node.stopping.subscribe();
    loop {
        tokio::select! {
            () = renew_if_due(&node) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}

async fn renew_if_due(node: &Arc<Node>) {
    if node.config.peer.tls.is_some() {
        return;
    }
    let load = |node: &Node| Ok(Certificate::load(&node.state));
    let present = match node.blocking(load).await {
        Ok(Ok(Some(present))) => present,
        Ok(Ok(None)) => return,
        Ok(Err(why)) => return node.warn(why),
        Err(error) => return node.warn(error.to_string()),
    };
    if present.is_due(unix_seconds())
        && let Err(why) = renew(node, present).await
    {
        node.warn(format!("this node's certificate is not renewed yet: {why}"));
    }
}

async fn renew(node: &Arc<Node>, present: Certificate) -> Result<(), String> {
    let key = node.blocking(|node| Ok(key(&node.state))).await.map_err(|e| e.to_string())??;
    let made = match &node.issuer {
        Some(issuer) => issuer.certify(&node.identity.name, node.identity.node, &key.public())?,
        None => {
            let asked = ask(node, &key.public()).await?;
            let (made, certificate) = asked.read(present.cluster)?;
            Certificate { made, certificate, ..present }
        }
    };
    let (made, tls) = accept(made, node, &key)?;
    let saved = node.blocking(move |node| Ok(made.save(&node.state))).await;
    saved.map_err(|e| e.to_string())??;
    node.credentials.tls.set(tls);
    node.peers.forget_idle();
    tracing::info!("this node's certificate was renewed");
    Ok(())
}

async fn ask(node: &Node, key: &PublicKey) -> Result<NewCertificate, String> {
    let address = node.coordinator.membership().address;
    let address = address.or_else(|| node.config.coordinator.join.clone());
    let address = address.ok_or("the coordinator's address is not known: join its cluster")?;
    let address = Address::parse(&address)?;
    let wanted = WantedCertificate::new(key);
    let to = (&address, &node.peers.coordinator());
    let answer = node.peers.post_json(to, requests::CERTIFICATE, &wanted, DEADLINE).await;
    answer.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

impl NewCertificate {
    fn read(&self, of: CoordinatorId) -> Result<(u64, CertificateDer<'static>), String> {
        let (cluster, made, certificate) = self.parts().ok_or("the answer is no certificate")?;
        match cluster == of {
            true => Ok((made, certificate.into())),
            false => Err("the answer is of another cluster".into()),
        }
    }
}

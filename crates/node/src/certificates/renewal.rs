//! New certificates in time: each node asks for one when two thirds of the present one's validity
//! are over.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::CoordinatorId;
use evenkeel_trust::PublicKey;
use rustls::pki_types::CertificateDer;

use super::{Certificate, Certificates, key};
use crate::clock::unix_seconds;
use crate::config::Address;
use crate::peer::Destination;
use crate::peer::requests::{self, NewCertificate, WantedCertificate};

/// How often it is looked whether one is due.
const PERIOD: Duration = Duration::from_secs(60);
/// How long the authority's node may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Renews this node's certificate whenever that is due, until the daemon ends.
pub async fn renewals(certificates: Arc<Certificates>) {
    loop {
        let done = certificates.own.stopping.unless_begun(certificates.renew_if_due()).await;
        if done.is_none() || !certificates.own.stopping.pause(PERIOD).await {
            return;
        }
    }
}

impl Certificates {
    async fn renew_if_due(&self) {
        if self.own.config.peer.tls.is_some() {
            return;
        }
        let present = match self.with_state(Certificate::load).await {
            Ok(Ok(Some(present))) => present,
            Ok(Ok(None)) => return,
            Ok(Err(why)) => return self.own.warnings.warn(why),
            Err(error) => return self.own.warnings.warn(error.to_string()),
        };
        if present.is_due(unix_seconds())
            && let Err(why) = self.renew(present).await
        {
            self.own.warnings.warn(format!("this node's certificate is not renewed yet: {why}"));
        }
    }

    async fn renew(&self, present: Certificate) -> Result<(), String> {
        let key = self.with_state(key).await.map_err(|e| e.to_string())??;
        let made = match &self.issuer {
            Some(issuer) => {
                issuer.certify(&self.own.identity.name, self.own.identity.node, &key.public())?
            }
            None => {
                let asked = self.ask_for_new(&key.public()).await?;
                let (made, certificate) = asked.read(present.cluster)?;
                Certificate { made, certificate, ..present }
            }
        };
        let (made, tls) = self.accept(made, &key)?;
        let saved = self.with_state(move |state| made.save(state)).await;
        saved.map_err(|e| e.to_string())??;
        self.credentials.tls.set(tls);
        self.cluster.peers().proved_anew();
        tracing::info!("this node's certificate was renewed");
        Ok(())
    }

    async fn ask_for_new(&self, key: &PublicKey) -> Result<NewCertificate, String> {
        let address = self.cluster.coordinator().membership().address;
        let address = address.or_else(|| self.own.config.coordinator.join.clone());
        let address = address.ok_or("the coordinator's address is not known: join its cluster")?;
        let address = Address::parse(&address)?;
        let wanted = WantedCertificate::new(key);
        let coordinator = self.cluster.peers().coordinator();
        let to = Destination { address: &address, wanted: &coordinator };
        let answer =
            self.cluster.peers().post_json(to, requests::CERTIFICATE, &wanted, DEADLINE).await;
        answer.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }
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

//! How this node gets its first certificate: by a token.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::CoordinatorId;
use evenkeel_trust::token::{Asked, CHANNEL_LABEL};
use evenkeel_trust::verifier::JoinVerifier;
use evenkeel_trust::{JoinAnswer, JoinRequest, Key, Standing, Token, exchange};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::version::TLS13;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Certificate, Certificates, FILE, key};
use crate::clock::unix_seconds;
use crate::config::Address;
use crate::coordinator::handle::Membership;
use crate::peer::stream::{self, PeerStream};

/// By how much the authority's clock may have been set, in seconds, between a token and its use.
const CLOCK_STEP: u64 = 3600;
/// How long the other node may take for all of it.
const DEADLINE: Duration = Duration::from_secs(10);

impl Certificates {
    /// Gets a certificate from the authority's node at this address, and uses it from now on.
    /// Giving the same token again is no error: an answer may have been lost.
    ///
    /// # Errors
    /// If this node trusts another authority than the token's already, the token is not valid
    /// there, or the other node is not of its authority or does not answer. Nothing has changed
    /// then.
    pub async fn join(&self, address: &str, token: &str) -> Result<(), ApiError> {
        let what = format!("cannot get a certificate from {address}");
        let token: Token = token.parse().map_err(|e| {
            let why = format!("the token: {e}");
            ApiError::new(ErrorCode::BadRequest, &what, why, "Copy it from where it was made")
        })?;
        let parsed = tcp_address(address, &what)?;
        self.refuse_join(&what)?;
        let system = |why: String| {
            let advice = "Repair the state directory's file system, then join again";
            ApiError::new(ErrorCode::System, &what, why, advice)
        };
        let trusted = self.with_state(Certificate::load).await?.map_err(system)?;
        if trusted.is_some_and(|trusted| trusted.fingerprint() != Some(token.authority())) {
            let file = self.own.state.join(FILE);
            let (why, advice) = another_authority(&file);
            return Err(ApiError::new(ErrorCode::AlreadyJoined, what, why, advice));
        }
        // It is stored before anybody certifies it: with the same one an answer can be asked for
        // again.
        let key = self.with_state(key).await?.map_err(system)?;
        let asked = tokio::time::timeout(DEADLINE, self.ask_by_token(&parsed, &token, &key)).await;
        let late =
            || Err(Failed::Unreachable(format!("no answer within {} s", DEADLINE.as_secs())));
        let asked = asked.unwrap_or_else(|_| late());
        let (made, tls) = asked.map_err(|failed| failed.into_error(&what))?;
        self.refuse_other_cluster(&parsed, made.cluster, &what)?;
        self.with_state(move |state| made.save(state)).await?.map_err(system)?;
        self.credentials.tls.set(tls);
        self.cluster.peers().proved_anew();
        tracing::info!(%address, "got a certificate by a token");
        Ok(())
    }

    /// Refuses a node that gets its certificate otherwise.
    fn refuse_join(&self, what: &str) -> Result<(), ApiError> {
        if self.own.config.peer.tls.is_some() {
            let why = "[peer.tls] names certificates of an external authority";
            let advice = "Leave --token away, or take that table away and restart the node";
            return Err(ApiError::new(ErrorCode::BadRequest, what, why, advice));
        }
        if self.own.config.coordinator.here {
            let why = "this node serves the coordinator (`here = true` under [coordinator])";
            let advice = "Run `evenkeel cluster init` here, and join the others to this node";
            return Err(ApiError::new(ErrorCode::AlreadyJoined, what, why, advice));
        }
        Ok(())
    }

    /// Refuses a certificate of another cluster than this node belongs to. Where its own
    /// coordinator is, another one is that one with a new database.
    fn refuse_other_cluster(
        &self,
        asked: &Address,
        cluster: CoordinatorId,
        what: &str,
    ) -> Result<(), ApiError> {
        let Membership { coordinator: known, address: at, .. } =
            self.cluster.coordinator().membership();
        let is_elsewhere = at.is_none_or(|at| at != asked.to_string());
        if is_elsewhere && known.is_some_and(|known| known != cluster.to_string()) {
            let why = "this node belongs to another cluster";
            let advice =
                "A node keeps its cluster; use another state directory for another cluster";
            return Err(ApiError::new(ErrorCode::AlreadyJoined, what, why, advice));
        }
        Ok(())
    }

    async fn ask_by_token(
        &self,
        address: &Address,
        token: &Token,
        key: &Key,
    ) -> Result<(Certificate, crate::peer::tls::PeerTls), Failed> {
        let verifier =
            Arc::new(JoinVerifier::new(token.authority(), (token.made(), token.expires())));
        let client = ClientConfig::builder_with_protocol_versions(&[&TLS13])
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_no_client_auth();
        // No node is wanted: the token names the authority, and proves this node to it alone.
        let connected = stream::connect_with(address, &client).await;
        let mut stream = connected.map_err(|error| {
            unreachable(format!("{error} (does the token come from that node's cluster?)"))
        })?;
        let authority = authority(&stream, &verifier).ok_or_else(|| unreachable("no authority"))?;
        let channel = stream.export(CHANNEL_LABEL).ok_or_else(|| unreachable("no TLS 1.3"))?;
        let (id, name, public) =
            (self.own.identity.node, self.own.identity.name.clone(), key.public());
        let asked = Asked { channel: &channel, key: &public, node: id, name: &name };
        let proof = token.key().prove(token.id(), &asked);
        let request =
            JoinRequest { token: token.id(), node: id, name: name.clone(), key: public, proof };
        stream.write_all(&request.encode()).await.map_err(unreachable)?;
        stream.flush().await.map_err(unreachable)?;
        match answer(&mut stream).await? {
            JoinAnswer::Refused { why } => Err(Failed::Refused(why)),
            JoinAnswer::Admitted { cluster, made, certificate } => {
                if !is_in_time(token, made) {
                    let why = "it answered with a certificate that was not made while the token was valid";
                    return Err(refused(why));
                }
                let certificate = CertificateDer::from(certificate);
                let made = Certificate { cluster, made, authority, certificate };
                self.accept(made, key).map_err(refused)
            }
        }
    }

    /// A certificate is used only if it is what was asked for.
    pub(super) fn accept(
        &self,
        made: Certificate,
        key: &Key,
    ) -> Result<(Certificate, crate::peer::tls::PeerTls), String> {
        let tls = made.tls(key)?;
        let (name, id) = (&self.own.identity.name, self.own.identity.node);
        match tls.check_at(&made.certificate, name, id, made.made.max(unix_seconds()))? {
        Standing::Current => Ok((made, tls)),
        Standing::Expired => Err(
            "the certificate has expired already: compare this node's clock with that of the coordinator's"
                .into(),
        ),
    }
    }
}

/// Why a token is refused where a certificate of another authority is, and what to do.
fn another_authority(file: &Path) -> (String, String) {
    let file = file.display();
    let why = format!("this node trusts another authority than the token's, by its {file}");
    let advice = format!(
        "A token changes no authority. Take one of this node's cluster; if the cluster has got a new authority, move {file} away, then join again"
    );
    (why, advice)
}

/// Whether a certificate was made while a token was valid, which has got it. A node takes the time
/// for proved, so nobody may make it up.
const fn is_in_time(token: &Token, made: u64) -> bool {
    made >= token.made().saturating_sub(CLOCK_STEP) && made <= token.expires() + CLOCK_STEP
}

enum Failed {
    Unreachable(String),
    Refused(String),
}

impl Failed {
    fn into_error(self, what: &str) -> ApiError {
        match self {
            Self::Unreachable(why) => {
                let advice = "Check the address, and that the coordinator's node runs, with the authority of `evenkeel cluster init`";
                ApiError::new(ErrorCode::NodeUnreachable, what, why, advice)
            }
            Self::Refused(why) => {
                let advice = "Make a token by `evenkeel node invite` on the coordinator's node";
                ApiError::new(ErrorCode::NotAuthorised, what, why, advice)
            }
        }
    }
}

/// The address of a node that takes tokens.
fn tcp_address(address: &str, what: &str) -> Result<Address, ApiError> {
    let bad =
        |why: String, advice: &str| Err(ApiError::new(ErrorCode::BadRequest, what, why, advice));
    match Address::parse(address) {
        Ok(Address::Unix(_)) => bad(
            "a token is for joining over TCP".to_owned(),
            "Leave --token away: unix sockets need no certificate",
        ),
        Ok(tcp) => Ok(tcp),
        Err(why) => bad(why, "Check the address"),
    }
}

fn unreachable(error: impl std::fmt::Display) -> Failed {
    Failed::Unreachable(error.to_string())
}

fn refused(error: impl std::fmt::Display) -> Failed {
    Failed::Refused(error.to_string())
}

async fn answer(stream: &mut PeerStream) -> Result<JoinAnswer, Failed> {
    let length = usize::from(stream.read_u16().await.map_err(unreachable)?);
    if length > exchange::MAX_ANSWER {
        return Err(unreachable("its answer is too long"));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.map_err(unreachable)?;
    JoinAnswer::decode(&bytes).map_err(unreachable)
}

/// The authority's certificate, as the other side has sent it.
fn authority(stream: &PeerStream, verifier: &JoinVerifier) -> Option<CertificateDer<'static>> {
    verifier.find(stream.certificates()).cloned()
}

#[cfg(test)]
mod tests;

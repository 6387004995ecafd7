//! Which certificates a node accepts: those of the cluster's authority.
//!
//! The TLS library's own verifiers do the work; this module decides when they run, and with which
//! time.
//!
//! - **Names** are not compared with the address that was dialed, because an address does not
//!   identify a node. The listening node states its identity in the hello, and
//!   [`Verifier::is_node`] checks it against the certificate. The caller then checks that this is
//!   the node that it wanted to reach.
//! - **Expired certificates** of connecting nodes are accepted, because a node that was off for
//!   months has to be able to ask for a new one. [`Verifier::standing`] says that it may do nothing
//!   else. Expired certificates of listening nodes are refused.
//! - **Clocks** may be wrong: a time that can't be right is replaced by the one at which this
//!   node's own certificate was made (see [`time`]). A node's certificate is valid from 1970, so
//!   that none is too new for a clock that is behind.
//! - **Connections without a certificate** are accepted, because a node that joins has none yet.
//!   The caller has to check: without a certificate, a connection is for joining only.

use std::sync::Arc;

use evenkeel_core::{CoordinatorId, NodeId};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, DnsName, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};

use crate::fingerprint::Fingerprint;
use crate::{names, time};

/// What a certificate permits at a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Everything.
    Current,
    /// Only to ask for a new one.
    Expired,
}

/// Why a verifier cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum VerifierError {
    /// It is no certificate of an authority.
    #[error("it is no certificate of an authority: {0}")]
    Authority(Error),
    /// The TLS library refuses.
    #[error("{0}")]
    Library(VerifierBuilderError),
}

/// Verifies certificates of one cluster's nodes.
#[derive(Debug)]
pub struct Verifier {
    cluster: CoordinatorId,
    roots: Arc<RootCertStore>,
    clients: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
    /// In seconds since 1970.
    floor: u64,
}

impl Verifier {
    /// For a cluster whose authority this is. `floor`: the time that counts while the clock can't
    /// be right, in seconds since 1970.
    ///
    /// # Errors
    /// If it is no certificate of an authority.
    pub fn new(
        cluster: CoordinatorId,
        authority: &CertificateDer<'_>,
        floor: u64,
    ) -> Result<Self, VerifierError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned()).map_err(VerifierError::Authority)?;
        let roots = Arc::new(roots);
        let clients =
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let clients = clients.map_err(VerifierError::Library)?;
        Ok(Self { cluster, roots, clients, provider, floor })
    }

    /// Whether a certificate names this node, by its name and its identity. Says nothing of who has
    /// signed it.
    #[must_use]
    pub fn is_node(&self, certificate: &CertificateDer<'_>, name: &str, node: NodeId) -> bool {
        names::node(name, self.cluster).is_ok_and(|name| has_name(certificate, name))
            && has_name(certificate, names::identity(node, self.cluster))
    }

    /// Whether a certificate names this client of exports. Says nothing of who has signed it.
    #[must_use]
    pub fn is_client(&self, certificate: &CertificateDer<'_>, name: &str) -> bool {
        names::client(name, self.cluster).is_ok_and(|name| has_name(certificate, name))
    }

    /// Verifies clients of exports: each has to show a certificate that this authority has signed
    /// and that has not expired.
    #[must_use]
    pub fn of_clients(&self) -> Arc<dyn ClientCertVerifier> {
        self.clients.clone()
    }

    /// What a certificate permits at `now`, in seconds since 1970, to whoever connects with it.
    ///
    /// # Errors
    /// If the authority has not signed it, it is not valid yet, or it is not for connecting.
    pub fn standing(&self, certificate: &CertificateDer<'_>, now: u64) -> Result<Standing, Error> {
        let now = self.time(UnixTime::since_unix_epoch(std::time::Duration::from_secs(now)));
        match self.clients.verify_client_cert(certificate, &[], now) {
            Ok(_) => Ok(Standing::Current),
            Err(error) => {
                let then = expired_after(&error).ok_or(error)?;
                let then = self.clients.verify_client_cert(certificate, &[], then);
                then.map(|_| Standing::Expired)
            }
        }
    }

    fn time(&self, now: UnixTime) -> UnixTime {
        let seconds = time::now(now.as_secs(), self.floor);
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
    }
}

/// The last moment at which a certificate was valid, if that is all that is wrong with it as far as
/// is known.
fn expired_after(error: &Error) -> Option<UnixTime> {
    match error {
        Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
            Some(*not_after)
        }
        _ => None,
    }
}

fn has_name(certificate: &CertificateDer<'_>, name: String) -> bool {
    ParsedCertificate::try_from(certificate).is_ok_and(|certificate| {
        DnsName::try_from(name)
            .is_ok_and(|name| verify_server_name(&certificate, &ServerName::DnsName(name)).is_ok())
    })
}

/// Verifies that a listener's certificate is one of these authorities' at that time, whatever it
/// names.
fn verify_listener(
    certificate: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
    now: UnixTime,
    provider: &CryptoProvider,
) -> Result<ServerCertVerified, Error> {
    let certificate = ParsedCertificate::try_from(certificate)?;
    let algorithms = provider.signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
    Ok(ServerCertVerified::assertion())
}

/// Signatures of handshakes are verified as the library does it.
macro_rules! signatures_by_the_library {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls12_signature(message, certificate, signature, algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signature, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _dialed: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let now = self.time(now);
        verify_listener(certificate, intermediates, &self.roots, now, &self.provider)
    }

    signatures_by_the_library!();
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.clients.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let at = |now| self.clients.verify_client_cert(certificate, intermediates, now);
        at(self.time(now)).or_else(|error| at(expired_after(&error).ok_or(error)?))
    }

    signatures_by_the_library!();
}

/// Verifies the node that a new one joins by, of which the token tells the authority.
#[derive(Debug)]
pub struct JoinVerifier {
    authority: Fingerprint,
    provider: Arc<CryptoProvider>,
    /// In seconds since 1970.
    span: (u64, u64),
}

impl JoinVerifier {
    /// For nodes of the authority with this fingerprint. `span`: from when to when the token is
    /// valid, in seconds since 1970; a clock that tells another time is wrong.
    #[must_use]
    pub fn new(authority: Fingerprint, span: (u64, u64)) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Self { authority, provider, span }
    }

    /// The authority's certificate, among those that a listener has sent beside its own.
    #[must_use]
    pub fn find<'a, 'b>(&self, sent: &'a [CertificateDer<'b>]) -> Option<&'a CertificateDer<'b>> {
        sent.iter().find(|one| Fingerprint::of(one) == Some(self.authority))
    }
}

impl ServerCertVerifier for JoinVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        _dialed: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authority = self.find(sent).ok_or_else(unknown)?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let seconds = now.as_secs().clamp(self.span.0, self.span.1.max(self.span.0));
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        verify_listener(certificate, &[], &roots, now, &self.provider)
    }

    signatures_by_the_library!();
}

#[cfg(test)]
mod tests;

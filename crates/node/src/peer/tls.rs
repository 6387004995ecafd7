//! TLS between nodes and for NBD clients: from PEM files that the configuration names, or with the
//! certificate that the cluster's own authority has given this node.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use evenkeel_core::NodeId;
use evenkeel_trust::invitation::fits;
use evenkeel_trust::{Standing, Verifier};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ALL_VERSIONS, ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::clock::unix_seconds;
use crate::config::{NbdTlsConfig, PeerTlsConfig};

/// Both roles of a node towards its peers: each shows its certificate and demands the other's.
#[derive(Clone)]
pub struct PeerTls {
    /// For connections from others.
    pub server: Arc<ServerConfig>,
    /// For connections to others.
    pub client: Arc<ClientConfig>,
    authority: Authority,
}

/// Who has signed the nodes' certificates.
#[derive(Clone)]
enum Authority {
    /// The cluster's own.
    Own(Own),
    /// An external one, whose certificates have the nodes' names as they are: those that fit one of
    /// these patterns are nodes.
    External(Arc<[String]>),
}

/// The cluster's own authority, to a node that has its certificate.
#[derive(Clone)]
struct Own {
    verifier: Arc<Verifier>,
    /// For connections from clients of exports.
    clients: Arc<ServerConfig>,
}

impl fmt::Debug for PeerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerTls")
    }
}

impl PeerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn load(config: &PeerTlsConfig) -> Result<Self, String> {
        let roots = Arc::new(roots(&config.authority)?);
        let server = server(&config.certificate, &config.key, Some(roots.clone()), &[&TLS13])?;
        let client = ClientConfig::builder_with_protocol_versions(&[&TLS13])
            .with_root_certificates(roots)
            .with_client_auth_cert(chain(&config.certificate)?, key(&config.key)?)
            .map_err(|e| unusable(&config.certificate, &e.to_string()))?;
        let authority = Authority::External(config.nodes.clone().into());
        Ok(Self { server: Arc::new(server), client: Arc::new(client), authority })
    }

    /// With a certificate of the cluster's own authority. A node that connects without one may only
    /// ask for one: see [`Self::admits_joiners`].
    ///
    /// # Errors
    /// If the private key is not that of the certificate.
    pub fn own(
        verifier: Arc<Verifier>,
        chain: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'static>,
    ) -> Result<Self, String> {
        let server = ServerConfig::builder_with_protocol_versions(&[&TLS13])
            .with_client_cert_verifier(verifier.clone())
            .with_single_cert(chain.clone(), key.clone_key());
        let clients = ServerConfig::builder_with_protocol_versions(&[&TLS13])
            .with_client_cert_verifier(verifier.of_clients())
            .with_single_cert(chain.clone(), key.clone_key());
        let client = ClientConfig::builder_with_protocol_versions(&[&TLS13])
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_client_auth_cert(chain, key.clone_key());
        let (server, client) = (server.map_err(failed)?, client.map_err(failed)?);
        let own = Own { verifier, clients: Arc::new(clients.map_err(failed)?) };
        let authority = Authority::Own(own);
        Ok(Self { server: Arc::new(server), client: Arc::new(client), authority })
    }

    /// For clients of exports that show a certificate of the cluster's own authority; `None`: it
    /// has none.
    #[must_use]
    pub fn of_clients(&self) -> Option<ClientTls> {
        let Authority::Own(Own { verifier, clients }) = &self.authority else { return None };
        Some(ClientTls { server: clients.clone(), cluster: Some(verifier.clone()) })
    }

    /// Whether a node may connect without a certificate, to ask for one and for nothing else.
    #[must_use]
    pub const fn admits_joiners(&self) -> bool {
        matches!(self.authority, Authority::Own(_))
    }

    /// Refuses a node whose certificate is that of another one. Tells what the certificate permits.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn check(
        &self,
        certificate: &CertificateDer<'_>,
        name: &str,
        node: NodeId,
    ) -> Result<Standing, String> {
        self.check_at(certificate, name, node, unix_seconds())
    }

    /// The same at `now`, in seconds since 1970.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn check_at(
        &self,
        certificate: &CertificateDer<'_>,
        name: &str,
        node: NodeId,
        now: u64,
    ) -> Result<Standing, String> {
        let verifier = match &self.authority {
            Authority::Own(own) => &own.verifier,
            Authority::External(nodes) => {
                check_listed(nodes, name)?;
                return check_name(certificate, name).map(|()| Standing::Current);
            }
        };
        if !verifier.is_node(certificate, name, node) {
            return Err(format!(
                "the certificate is not that of node {name} with the identity {node}: join it anew by `evenkeel node join ADDRESS --token TOKEN`"
            ));
        }
        verifier.standing(certificate, now).map_err(failed)
    }
}

fn failed(error: impl fmt::Display) -> String {
    error.to_string()
}

/// TLS for clients of exports.
#[derive(Debug, Clone)]
pub struct ClientTls {
    /// The server's side.
    pub server: Arc<ServerConfig>,
    /// `None`: an external authority signs clients' certificates, which have their names as they
    /// are.
    cluster: Option<Arc<Verifier>>,
}

impl ClientTls {
    /// From the files that `[nbd.tls]` names.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn load(config: &NbdTlsConfig) -> Result<Self, String> {
        let roots = config.authority.as_deref().map(roots).transpose()?.map(Arc::new);
        let server = server(&config.certificate, &config.key, roots, ALL_VERSIONS);
        let server = server.map(Arc::new)?;
        Ok(Self { server, cluster: None })
    }

    /// Whether a certificate, which the handshake has verified, is that of this client.
    #[must_use]
    pub fn is_client(&self, certificate: &CertificateDer<'_>, name: &str) -> bool {
        match &self.cluster {
            Some(cluster) => cluster.is_client(certificate, name),
            None => has_name(certificate, name),
        }
    }
}

/// How connections over TCP are proved now: a node that joins gets its certificate while it runs,
/// and renews it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CurrentTls(Arc<RwLock<Option<PeerTls>>>);

impl CurrentTls {
    /// What counts for the next connection; `None`: nothing is proved over TCP.
    #[must_use]
    pub fn get(&self) -> Option<PeerTls> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This counts from the next connection on.
    pub fn set(&self, tls: PeerTls) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(tls);
    }
}

impl From<Option<PeerTls>> for CurrentTls {
    fn from(tls: Option<PeerTls>) -> Self {
        Self(Arc::new(RwLock::new(tls)))
    }
}

/// Refuses a name that is none of this cluster's nodes, whatever the authority has signed.
///
/// # Errors
/// Says where it is to be added.
fn check_listed(nodes: &[String], name: &str) -> Result<(), String> {
    match nodes.iter().any(|pattern| fits(pattern, name)) {
        true => Ok(()),
        false => Err(format!(
            "node {name} is none of those that `nodes` under [peer.tls] names on the node that refuses it: if it is one of this cluster, add it there on all nodes, and restart them"
        )),
    }
}

/// Refuses a node whose certificate is that of another one: the node's name has to be among its DNS
/// names.
///
/// # Errors
/// Says what is missing.
fn check_name(certificate: &CertificateDer<'_>, name: &str) -> Result<(), String> {
    match has_name(certificate, name) {
        true => Ok(()),
        false => Err(format!(
            "the certificate of node {name} does not name it: have one signed with the DNS name {name:?} among its subject alternative names"
        )),
    }
}

/// Whether a certificate has a name among its DNS names.
fn has_name(certificate: &CertificateDer<'_>, name: &str) -> bool {
    ParsedCertificate::try_from(certificate).is_ok_and(|certificate| {
        DnsName::try_from(name.to_owned())
            .is_ok_and(|name| verify_server_name(&certificate, &ServerName::DnsName(name)).is_ok())
    })
}

/// Whether a certificate can have such a name.
#[must_use]
pub fn is_dns_name(name: &str) -> bool {
    DnsName::try_from(name).is_ok()
}

/// Makes the library's cryptography known; once is enough, more do no harm.
pub fn install_provider() {
    // An error says that it was done before.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn server(
    certificate: &Path,
    key_path: &Path,
    clients: Option<Arc<RootCertStore>>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ServerConfig, String> {
    let builder = ServerConfig::builder_with_protocol_versions(versions);
    let builder = match clients {
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder(roots).build();
            builder.with_client_cert_verifier(verifier.map_err(|e| e.to_string())?)
        }
        None => builder.with_no_client_auth(),
    };
    builder
        .with_single_cert(chain(certificate)?, key(key_path)?)
        .map_err(|e| unusable(certificate, &e.to_string()))
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let chain: Vec<_> = chain.map_err(|e| unusable(path, &e.to_string()))?;
    if chain.is_empty() { Err(unusable(path, "it holds no certificate")) } else { Ok(chain) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|e| unusable(path, &e.to_string()))
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(path)? {
        roots.add(certificate).map_err(|e| unusable(path, &e.to_string()))?;
    }
    Ok(roots)
}

fn unusable(path: &Path, why: &str) -> String {
    format!("{} cannot be used for TLS: {why}; a PEM file is expected", path.display())
}

//! TLS between nodes and for NBD clients, from PEM files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::config::{NbdTlsConfig, PeerTlsConfig};

/// Both roles of a node towards its peers: each shows its certificate and demands the other's.
#[derive(Clone)]
pub struct PeerTls {
    /// For connections from others.
    pub server: Arc<ServerConfig>,
    /// For connections to others.
    pub client: Arc<ClientConfig>,
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
        let server = server(&config.certificate, &config.key, Some(roots.clone()))?;
        let client = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain(&config.certificate)?, key(&config.key)?)
            .map_err(|e| unusable(&config.certificate, &e.to_string()))?;
        Ok(Self { server: Arc::new(server), client: Arc::new(client) })
    }
}

/// Refuses a node whose certificate is that of another one: the node's name has to be among its DNS
/// names.
///
/// # Errors
/// Says what is missing.
pub fn check_name(certificate: &CertificateDer<'_>, name: &str) -> Result<(), String> {
    let is_named = ParsedCertificate::try_from(certificate).is_ok_and(|certificate| {
        DnsName::try_from(name.to_owned())
            .is_ok_and(|name| verify_server_name(&certificate, &ServerName::DnsName(name)).is_ok())
    });
    match is_named {
        true => Ok(()),
        false => Err(format!(
            "the certificate of node {name} does not name it: have one signed with the DNS name {name:?} among its subject alternative names"
        )),
    }
}

/// The server's side for NBD clients.
///
/// # Errors
/// Names the file and what is wrong with it.
pub fn nbd_server(config: &NbdTlsConfig) -> Result<Arc<ServerConfig>, String> {
    let roots = config.authority.as_deref().map(roots).transpose()?.map(Arc::new);
    server(&config.certificate, &config.key, roots).map(Arc::new)
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
) -> Result<ServerConfig, String> {
    let builder = ServerConfig::builder();
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

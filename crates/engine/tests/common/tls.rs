//! Connections with TLS, as the control plane hands them over.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use evenkeel_engine::Connection;
use evenkeel_engine::tls::Tls;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Both ends' keys.
#[derive(Clone, Debug)]
pub struct Keys(Arc<ClientConfig>, Arc<ServerConfig>);

impl Keys {
    pub fn new() -> Self {
        let provider = Arc::new(default_provider());
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["b".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("a root");
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a configuration");
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self(Arc::new(client), Arc::new(server))
    }

    /// The two ends of a connection after its handshake, the connecting one first.
    pub fn shake(&self) -> (Tls, Tls) {
        let mut client = Tls::client(self.0.clone(), "b".try_into().expect("a name")).unwrap();
        let mut server = Tls::server(self.1.clone()).unwrap();
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            speak(&mut client, &mut to_client, &mut to_server);
            speak(&mut server, &mut to_server, &mut to_client);
        }
        (client, server)
    }

    /// The same over these sockets.
    pub fn protect(&self, (ours, theirs): (OwnedFd, OwnedFd)) -> (Connection, Connection) {
        let (client, server) = self.shake();
        let ours = Connection::encrypted(ours, client, Vec::new());
        (ours, Connection::encrypted(theirs, server, Vec::new()))
    }
}

/// Lets one end read what has come, and say what it wants to.
fn speak(tls: &mut Tls, from: &mut Vec<u8>, to: &mut Vec<u8>) {
    let received = tls.receive(from, &mut []).expect("a handshake");
    from.drain(..received.taken);
    to.extend_from_slice(tls.queued());
    tls.sent(tls.queued().len());
}

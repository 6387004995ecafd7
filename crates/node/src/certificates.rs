//! The certificate by which this node proves who it is, and the cluster's authority, if its key
//! lies here. Both are files in the state directory, with mode 0600:
//!
//! | file | what |
//! |---|---|
//! | `certificate.json` | the certificate, the authority that has signed it, and when |
//! | `certificate.key` | the private key of that certificate |
//! | `authority.key` | the authority's private key, on the node where `cluster init` was run |
//! | `authority.pem` | the authority's certificate, for other programs |
//! | `invitations.json` | tokens that this authority has made, and who has used them |
//!
//! They count unless `[peer.tls]` names files of an external authority.
//! [The decision](../../../docs/decisions/0076-a-node-is-who-its-certificate-says.md).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_api::ApiError;
use evenkeel_core::{CoordinatorId, NodeId};
use evenkeel_trust::authority::{DAY, Serial, VALIDITY};
use evenkeel_trust::{Fingerprint, Key, Verifier, pem, time};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

use crate::clock::unix_seconds;
use crate::cluster::Cluster;
use crate::config::{Address, Config, check};
use crate::coordinator::Embedded;
use crate::files::own_file;
use crate::membership;
use crate::own::Own;
use crate::peer::Credentials;
use crate::peer::tls::PeerTls;
use crate::random::fill_random;
use crate::state::identity;
use crate::state::{self, StateDirectory};
use crate::tasks;

mod issuer;
pub mod joining;
pub mod renewal;

pub use issuer::Issuer;

const FILE: &str = "certificate.json";
const KEY: &str = "certificate.key";
const AUTHORITY_KEY: &str = "authority.key";
const AUTHORITY: &str = "authority.pem";
/// After this part of its validity a certificate is renewed: then a month is left for it.
const RENEWED_AFTER: u64 = VALIDITY / 3 * 2;

/// A certificate of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    cluster: CoordinatorId,
    made: u64,
    authority: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    cluster: String,
    /// In seconds since 1970.
    made: u64,
    /// Both PEM.
    authority: String,
    certificate: String,
}

impl Certificate {
    /// Reads it. `None`: this node has none.
    ///
    /// # Errors
    /// If it is damaged, or the system refuses.
    pub fn load(state: &StateDirectory) -> Result<Option<Self>, String> {
        let Some(stored) = state.load::<Stored>(FILE).map_err(|e| e.to_string())? else {
            return Ok(None);
        };
        let damaged = |what: &str| {
            format!(
                "{} holds no {what}: restore it from a backup, or move it away and join anew",
                state.join(FILE).display()
            )
        };
        let read = |text: &str, what| {
            CertificateDer::from_pem_slice(text.as_bytes()).map_err(|_| damaged(what))
        };
        Ok(Some(Self {
            cluster: stored.cluster.parse().map_err(|_| damaged("cluster"))?,
            made: stored.made,
            authority: read(&stored.authority, "authority")?,
            certificate: read(&stored.certificate, "certificate")?,
        }))
    }

    fn save(&self, state: &StateDirectory) -> Result<(), String> {
        let stored = Stored {
            cluster: self.cluster.to_string(),
            made: self.made,
            authority: pem::encode(pem::CERTIFICATE, &self.authority),
            certificate: pem::encode(pem::CERTIFICATE, &self.certificate),
        };
        state.save(FILE, &stored).map_err(|e| e.to_string())
    }

    fn verifier(&self) -> Result<Arc<Verifier>, String> {
        let verifier = Verifier::new(self.cluster, &self.authority, self.made);
        verifier.map(Arc::new).map_err(|e| e.to_string())
    }

    /// The authority that has signed it; `None`: what is stored is no certificate.
    fn fingerprint(&self) -> Option<Fingerprint> {
        Fingerprint::of(&self.authority)
    }

    /// For connections that are proved by it.
    ///
    /// # Errors
    /// If the key is another one's.
    pub fn tls(&self, key: &Key) -> Result<PeerTls, String> {
        let chain = vec![self.certificate.clone(), self.authority.clone()];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.pkcs8().to_vec()));
        PeerTls::own(self.verifier()?, chain, &key)
            .map_err(|why| format!("{FILE} and {KEY} do not belong together: {why}"))
    }

    /// Whether a new one is to be made if the clock shows `clock`, in seconds since 1970: it is
    /// old, or was made while a clock was ahead, and would be valid for far too long.
    #[must_use]
    pub const fn is_due(&self, clock: u64) -> bool {
        let now = time::now(clock, self.made);
        now >= self.made.saturating_add(RENEWED_AFTER) || self.made > now.saturating_add(DAY)
    }
}

/// What a node has of its own cluster's authority.
pub struct Opened {
    /// For connections over TCP.
    pub tls: PeerTls,
    /// If the authority's key lies here.
    pub issuer: Option<Issuer>,
}

/// What is in the state directory. The node that has the authority's key renews its own certificate
/// before it is dialed by others with a certificate that has expired.
///
/// # Errors
/// If a file is missing, damaged, or of another one.
pub fn open(state: &StateDirectory, name: &str, node: NodeId) -> Result<Option<Opened>, String> {
    let Some(mut certificate) = Certificate::load(state)? else { return Ok(None) };
    let key = load_key(state, KEY)?.ok_or_else(|| {
        let (key, file) = (state.join(KEY), state.join(FILE));
        let (key, file) = (key.display(), file.display());
        format!("{key} is missing: restore it, or move {file} away and join anew")
    })?;
    let issuer = Issuer::load(state, &certificate)?;
    if let Some(issuer) = &issuer
        && (certificate.is_due(unix_seconds())
            || !certificate.verifier()?.is_node(&certificate.certificate, name, node))
    {
        certificate = issuer.certify(name, node, &key.public())?;
        certificate.save(state)?;
    }
    Ok(Some(Opened { tls: certificate.tls(&key)?, issuer }))
}

/// This node's certificate, and the cluster's authority if its key is here, while the daemon runs.
pub struct Certificates {
    own: Own,
    cluster: Cluster,
    credentials: Credentials,
    issuer: Option<Issuer>,
    /// Where peers reach this node.
    addresses: Vec<String>,
}

impl Certificates {
    /// Of a daemon that proves who it is by `credentials`; `issuer` if the authority's key is here.
    #[must_use]
    pub fn new(
        own: Own,
        cluster: Cluster,
        credentials: Credentials,
        issuer: Option<Issuer>,
        addresses: Vec<String>,
    ) -> Self {
        Self { own, cluster, credentials, issuer, addresses }
    }

    /// Whether certificates are made here.
    #[must_use]
    pub const fn are_issued_here(&self) -> bool {
        self.issuer.is_some()
    }

    /// Work in the state directory, which blocks on a disk.
    async fn with_state<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StateDirectory) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let state = self.own.state.clone();
        tasks::blocking(move || Ok(work(&state))).await
    }
}

/// What keeps a node from listening as configured, if nothing proves who connects: whoever does
/// could do all that a node can, on loopback each user of this machine.
#[must_use]
pub fn unproved(config: &Config) -> Option<String> {
    let is_proved = config.peer.tls.is_some() || config.state.join(FILE).exists();
    let is_tcp = |text: &&String| matches!(Address::parse(text), Ok(Address::Tcp(_)));
    let text = config.peer.listen.iter().find(is_tcp).filter(|_| !is_proved)?;
    let get = how_to_get_one(config);
    Some(format!(
        "peer.listen = {text:?}: nobody is served there yet, for this node has no certificate: {get}; or set [peer.tls]; if all nodes are on this machine, listen on unix:PATH"
    ))
}

/// That NBD clients on TCP are not served, because this node has no certificate by which they would
/// know it, nor an authority that has signed theirs.
#[must_use]
pub fn serves_no_clients(config: &Config) -> Option<String> {
    if !check::is_nbd_by_cluster(config) || config.state.join(FILE).exists() {
        return None;
    }
    let get = how_to_get_one(config);
    Some(format!(
        "nbd.listen = {:?}: nobody is served there yet, for this node has no certificate: {get}; or set [nbd.tls]",
        config.nbd.listen
    ))
}

fn how_to_get_one(config: &Config) -> &'static str {
    match config.coordinator.here {
        true => "run `evenkeel cluster init` here while it does not run",
        false => {
            "let it join by `evenkeel node join ADDRESS --token TOKEN` (a token is made by `evenkeel node invite` on the coordinator's node)"
        }
    }
}

/// What was made by [`init`].
#[derive(Debug)]
pub struct Founded {
    /// The cluster's name.
    pub cluster: String,
    /// The authority's private key.
    pub key: PathBuf,
    /// The authority's certificate.
    pub certificate: PathBuf,
    /// The authority, as tokens name it.
    pub fingerprint: String,
}

/// Refuses a name that a new node may not have. One that was in a cluster before has it already.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn check_name(config: &Config, state: &StateDirectory) -> Result<(), String> {
    let Some(why) = check::unfit_for_new(config) else { return Ok(()) };
    // What a member stores: any other state directory is that of a new node.
    let of_member = [FILE, membership::FILE, crate::coordinator::DATABASE];
    if !of_member.iter().any(|file| state.join(file).exists()) {
        return Err(format!("{why}; give it another one in the configuration"));
    }
    tracing::warn!("{why}; this one keeps it, but commands take it for an identity");
    Ok(())
}

/// Makes the cluster's authority, and this node's certificate, in the state directory of a node
/// that does not run and is to serve the coordinator.
///
/// # Errors
/// If it runs, does not serve the coordinator, or has a certificate.
pub fn init(config: &Config) -> Result<Founded, String> {
    if !config.coordinator.here {
        return Err("the authority lies on the node that serves the coordinator, and this one does not: set `here = true` under [coordinator], or run this there".into());
    }
    if config.peer.tls.is_some() {
        return Err("[peer.tls] names an external authority: take that table away, or have that authority sign the nodes' certificates".into());
    }
    let state = StateDirectory::open(&config.state).map_err(|e| e.to_string())?;
    check_name(config, &state)?;
    if state.join(FILE).exists() {
        let file = state.join(FILE);
        return Err(format!(
            "there is a certificate already, {}: nothing was changed",
            file.display()
        ));
    }
    let node = identity::node_id(&state).map_err(|e| e.to_string())?;
    let expiry = std::time::Duration::from_secs(config.coordinator.expiry_seconds);
    let database = state.join(crate::coordinator::DATABASE);
    let cluster =
        Embedded::open(&database, &config.cluster, node, expiry).map_err(|e| e.to_string())?;
    let issuer = Issuer::found(&state, cluster.id())?;
    let key = key(&state)?;
    let certificate = issuer.certify(&config.node_name(), node, &key.public())?;
    let path = state.join(AUTHORITY);
    let text = pem::encode(pem::CERTIFICATE, &certificate.authority);
    write(&state, AUTHORITY, &text)?;
    // From now on the node has its identity: what was made before is found again and used.
    certificate.save(&state)?;
    let fingerprint = Fingerprint::of(&certificate.authority).map(|f| f.to_string());
    Ok(Founded {
        cluster: cluster.cluster(),
        key: state.join(AUTHORITY_KEY),
        certificate: path,
        fingerprint: fingerprint.unwrap_or_default(),
    })
}

/// This node's key, which is made when it is first needed: what was certified for it can be asked
/// for again.
fn key(state: &StateDirectory) -> Result<Key, String> {
    load_key(state, KEY)?.map_or_else(|| make_key(state, KEY), Ok)
}

fn make_key(state: &StateDirectory, name: &str) -> Result<Key, String> {
    let key = Key::generate().map_err(|e| e.to_string())?;
    write(state, name, &pem::encode(pem::PRIVATE_KEY, key.pkcs8()))?;
    Ok(key)
}

fn load_key(state: &StateDirectory, name: &str) -> Result<Option<Key>, String> {
    let path = state.join(name);
    let failed = |why: String| format!("{}: {why}", path.display());
    let text = match own_file::read_small(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|e| failed(e.to_string()))?,
    };
    Key::from_pem(&text).map(Some).map_err(|e| failed(e.to_string()))
}

fn write(state: &StateDirectory, name: &str, text: &str) -> Result<(), String> {
    let path = state.join(name);
    state::replace(&path, text.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))
}

fn serial() -> Serial {
    let mut serial = Serial::default();
    fill_random(&mut serial);
    serial
}

#[cfg(test)]
mod tests;

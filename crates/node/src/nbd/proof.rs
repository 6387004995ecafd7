//! How NBD clients on TCP prove who they are.

use rustls::pki_types::CertificateDer;

use crate::config::Config;
use crate::config::check;
use crate::peer::tls::{ClientTls, CurrentTls};

/// What this node's TCP addresses for NBD demand of a client.
#[derive(Debug)]
pub enum Proof {
    /// Nothing: only this machine reaches them, or the network itself keeps strangers out.
    Nothing,
    /// TLS with the files that `[nbd.tls]` names.
    Files(ClientTls),
    /// TLS with this node's own certificate, and one of the cluster's authority.
    Cluster(CurrentTls),
}

impl Proof {
    /// What a configuration says. Without `[nbd.tls]`, addresses that other machines reach demand
    /// certificates of the cluster's authority, unless `nbd.insecure` is set.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn of(config: &Config, own: &CurrentTls) -> Result<Self, String> {
        if let Some(files) = &config.nbd.tls {
            return ClientTls::load(files).map(Self::Files);
        }
        match check::is_nbd_by_cluster(config) {
            true => Ok(Self::Cluster(own.clone())),
            false => Ok(Self::Nothing),
        }
    }

    /// What the next client has to do; `None`: nothing.
    ///
    /// # Errors
    /// If it cannot be served, because this node has no certificate yet.
    pub fn now(&self) -> Result<Option<ClientTls>, &'static str> {
        match self {
            Self::Nothing => Ok(None),
            Self::Files(tls) => Ok(Some(tls.clone())),
            Self::Cluster(own) => match own.get().and_then(|own| own.of_clients()) {
                Some(tls) => Ok(Some(tls)),
                None => Err("this node has no certificate of the cluster's authority yet"),
            },
        }
    }

    /// Whether TLS is spoken.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

/// What is known of a client.
#[derive(Debug, Clone)]
pub enum Client {
    /// It has opened a unix socket, which its mode protects.
    Unix,
    /// It has come over TCP.
    Tcp {
        /// What it has to show; `None`: nothing.
        tls: Option<ClientTls>,
        /// What it has shown.
        certificate: Option<CertificateDer<'static>>,
    },
}

impl Client {
    /// What it has to show.
    #[must_use]
    pub fn tls(&self) -> Option<ClientTls> {
        match self {
            Self::Unix => None,
            Self::Tcp { tls, .. } => tls.clone(),
        }
    }

    /// It has shown this.
    pub fn has_shown(&mut self, shown: Option<CertificateDer<'static>>) {
        if let Self::Tcp { certificate, .. } = self {
            *certificate = shown;
        }
    }

    /// Whether it may use an export that is on TCP for these clients, for all if none is named;
    /// `None`: not on TCP.
    #[must_use]
    pub fn may_use(&self, permitted: Option<&[String]>) -> bool {
        let (Self::Tcp { tls, certificate }, names) = (self, permitted) else { return true };
        let shown = tls.as_ref().zip(certificate.as_ref());
        let is = |name: &String| shown.is_some_and(|(tls, shown)| tls.is_client(shown, name));
        names.is_some_and(|names| names.is_empty() || names.iter().any(is))
    }
}

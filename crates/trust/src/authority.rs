//! The cluster's authority: makes keys, and signs certificates of nodes and clients.
//!
//! All keys are ECDSA on P-256, which every TLS library speaks. A node's certificate is valid for
//! 90 days, a client's for as long as was asked. A client's begins one day before it was made,
//! because clocks differ; a node's in 1970: one that was made while the authority's clock was
//! ahead has to be accepted, and renewed, once that is right. The authority's own does not expire;
//! to give it up, remove it from all nodes.

use std::fmt;
use std::time::Duration;

use evenkeel_core::{CoordinatorId, NodeId};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SerialNumber, SignatureAlgorithm,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};

use crate::names::{self, NameError};
use crate::pem;

/// A day, in seconds.
pub const DAY: u64 = 86_400;
/// How long a node's certificate is valid after it was made, in seconds.
pub const VALIDITY: u64 = 90 * DAY;
/// How long a client's certificate may be valid at most, in seconds.
pub const MAX_CLIENT_VALIDITY: u64 = 3650 * DAY;
/// How long before it was made a client's is valid already, in seconds.
pub const EARLY: u64 = DAY;
/// The latest time that an X.509 certificate can hold (RFC 5280, section 4.1.2.5),
/// 9999-12-31T23:59:59, in seconds since 1970.
const NEVER: u64 = 253_402_300_799;

/// Why the authority did not sign a certificate.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The certificate cannot have that name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The private key is none of the kind that is used here.
    #[error("it is no private key of the kind that evenkeel makes (PKCS #8, ECDSA on P-256)")]
    Key,
    /// The time lies before 1970-01-02, or the certificate would end after the year 9999.
    #[error("the time, {0} s after 1970, cannot be right: set the clock")]
    Time(u64),
    /// The library refuses.
    #[error("the certificate cannot be made: {0}")]
    Library(rcgen::Error),
}

/// A private key with its public one. Not shown in logs.
pub struct Key(KeyPair);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Draws a key.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn generate() -> Result<Self, SignError> {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map(Self).map_err(SignError::Library)
    }

    /// Reads a private key in the form of PKCS #8 (DER).
    ///
    /// # Errors
    /// If it is none of ECDSA on P-256.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, SignError> {
        let der = PrivatePkcs8KeyDer::from(der);
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256);
        key.map(Self).map_err(|_| SignError::Key)
    }

    /// Reads a private key in the form of PKCS #8 (PEM).
    ///
    /// # Errors
    /// If it is none of ECDSA on P-256.
    pub fn from_pem(text: &str) -> Result<Self, SignError> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes());
        Self::from_pkcs8(key.map_err(|_| SignError::Key)?.secret_pkcs8_der())
    }

    /// The private key, as PKCS #8 (DER).
    #[must_use]
    pub fn pkcs8(&self) -> &[u8] {
        self.0.serialized_der()
    }

    /// The public key.
    ///
    /// # Panics
    /// Never: a key of this kind has a point of 65 bytes.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey::new(self.0.public_key_raw()).expect("a point of P-256")
    }
}

/// A public key: a point of P-256, not compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; Self::LENGTH]);

impl PublicKey {
    /// Bytes of a public key.
    pub const LENGTH: usize = 65;

    /// A key from its bytes; `None`: they have not the form of one. Whether they are a point
    /// of the curve shows when somebody proves that he has the private key.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; Self::LENGTH] = bytes.try_into().ok()?;
        (bytes[0] == 4).then_some(Self(bytes))
    }

    /// Reads a key in the form that OpenSSL writes: a SubjectPublicKeyInfo (RFC 5480) as PEM.
    /// `None`: it is none of P-256, or compressed.
    #[must_use]
    pub fn from_pem(text: &str) -> Option<Self> {
        let info = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).ok()?;
        Self::new(info.strip_prefix(&INFO[..])?)
    }

    /// The key in that form.
    #[must_use]
    pub fn pem(&self) -> String {
        pem::encode(pem::PUBLIC_KEY, &[&INFO[..], &self.0].concat())
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

/// What stands before a point of P-256 in a SubjectPublicKeyInfo: the lengths, id-ecPublicKey and
/// secp256r1 (RFC 5480, section 2).
const INFO: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// A certificate's number: random, so that no two of an authority have the same.
pub type Serial = [u8; 16];

/// The authority of a cluster, with its private key.
#[derive(Debug)]
pub struct Authority {
    cluster: CoordinatorId,
    key: Key,
}

impl Authority {
    /// Draws the key of a new authority.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn generate(cluster: CoordinatorId) -> Result<Self, SignError> {
        Ok(Self { cluster, key: Key::generate()? })
    }

    /// The authority that has this key.
    #[must_use]
    pub const fn new(cluster: CoordinatorId, key: Key) -> Self {
        Self { cluster, key }
    }

    /// Its private key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The cluster that it is the authority of.
    #[must_use]
    pub const fn cluster(&self) -> CoordinatorId {
        self.cluster
    }

    /// Its own certificate, made at `now`, in seconds since 1970. It may sign certificates, of
    /// which none may sign others, and it does not end.
    ///
    /// # Errors
    /// If the time cannot be right.
    pub fn certificate(
        &self,
        serial: Serial,
        now: u64,
    ) -> Result<CertificateDer<'static>, SignError> {
        let begin = span(now, 0)?.begin;
        let params = self.params(serial, begin);
        let made = params.self_signed(&self.key.0).map_err(SignError::Library)?;
        Ok(made.der().clone())
    }

    /// A certificate of a node, by its name and its identity, made at `now`, in seconds since 1970:
    /// to connect and to listen with. Its plain name is among the names as well, if a host can be
    /// called so: clients of exports compare the name that they dialed.
    ///
    /// # Errors
    /// If it cannot have that name, or the time cannot be right.
    pub fn sign_node(
        &self,
        name: &str,
        node: NodeId,
        key: &PublicKey,
        serial: Serial,
        now: u64,
    ) -> Result<CertificateDer<'static>, SignError> {
        let mut names = vec![names::node(name, self.cluster)?, names::identity(node, self.cluster)];
        names.extend(names::is_host(name).then(|| name.to_owned()));
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let validity = Validity { begin: 0, ..span(now, VALIDITY)? };
        self.sign(name, names, usages, key, serial, validity)
    }

    /// A certificate of a client of exports, made at `now`, in seconds since 1970, and valid for so
    /// many seconds: to connect with.
    ///
    /// # Errors
    /// If it cannot have that name, or the time cannot be right.
    pub fn sign_client(
        &self,
        name: &str,
        key: &PublicKey,
        serial: Serial,
        now: u64,
        lasts: u64,
    ) -> Result<CertificateDer<'static>, SignError> {
        let names = vec![names::client(name, self.cluster)?];
        let validity = span(now, lasts)?;
        let usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, names, usages, key, serial, validity)
    }

    fn sign(
        &self,
        subject: &str,
        names: Vec<String>,
        usages: Vec<ExtendedKeyUsagePurpose>,
        key: &PublicKey,
        serial: Serial,
        validity: Validity,
    ) -> Result<CertificateDer<'static>, SignError> {
        let mut params = CertificateParams::new(names).map_err(SignError::Library)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, serial, validity);
        let issuer = Issuer::new(self.params(serial, validity.begin), &self.key.0);
        let made = params.signed_by(key, &issuer).map_err(SignError::Library)?;
        Ok(made.der().clone())
    }

    fn params(&self, serial: Serial, begin: u64) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let subject = format!("evenkeel cluster {:032x}", self.cluster.0);
        params.distinguished_name.push(DnType::CommonName, subject);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        valid(&mut params, serial, Validity { begin, end: NEVER });
        params
    }
}

/// When a certificate is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
struct Validity {
    begin: u64,
    end: u64,
}

/// From one day before `now`, and for so many seconds after it.
fn span(now: u64, lasts: u64) -> Result<Validity, SignError> {
    let begin = now.checked_sub(EARLY);
    let end = now.checked_add(lasts).filter(|end| *end <= NEVER);
    begin.zip(end).map(|(begin, end)| Validity { begin, end }).ok_or(SignError::Time(now))
}

fn valid(params: &mut CertificateParams, serial: Serial, validity: Validity) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(validity.begin);
    params.not_after = epoch + Duration::from_secs(validity.end);
    // A positive number, as X.509 wants it.
    let mut positive = serial;
    positive[0] = positive[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&positive));
}

#[cfg(test)]
mod tests;

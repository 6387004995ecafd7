use std::sync::OnceLock;

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::PrivateKeyDer;
use rustls::version::TLS13;
use rustls::{
    CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, RootCertStore, SupportedCipherSuite,
    Tls13CipherSuite, crypto,
};

use super::*;

/// Records that one key may protect in tests of key updates.
const LIMIT: u64 = 64;

pub(in crate::transport) type Configs = (Arc<ClientConfig>, Arc<ServerConfig>);

fn configs(provider: CryptoProvider) -> Configs {
    let provider = Arc::new(provider);
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
        .with_single_cert(vec![certificate], key);
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(client), Arc::new(server.expect("a configuration")))
}

pub(in crate::transport) fn usual() -> &'static Configs {
    static CONFIGS: OnceLock<Configs> = OnceLock::new();
    CONFIGS.get_or_init(|| configs(ring::default_provider()))
}

/// A provider whose keys may protect only a few records.
fn limited() -> CryptoProvider {
    static SUITE: OnceLock<Tls13CipherSuite> = OnceLock::new();
    let suite = SUITE.get_or_init(|| {
        let SupportedCipherSuite::Tls13(usual) =
            crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256
        else {
            panic!("a suite of TLS 1.3")
        };
        Tls13CipherSuite {
            common: CipherSuiteCommon {
                suite: usual.common.suite,
                hash_provider: usual.common.hash_provider,
                confidentiality_limit: LIMIT,
            },
            hkdf_provider: usual.hkdf_provider,
            aead_alg: usual.aead_alg,
            quic: None,
        }
    });
    let cipher_suites = vec![SupportedCipherSuite::Tls13(suite)];
    CryptoProvider { cipher_suites, ..ring::default_provider() }
}

/// Two ends that have not spoken yet.
fn strangers((client, server): &Configs) -> (Tls, Tls) {
    let name = "b".try_into().expect("a name");
    let client = Tls::client(client.clone(), name).expect("a client");
    (client, Tls::server(server.clone()).expect("a server"))
}

/// What is queued at one end, as the network has it.
fn queued(tls: &mut Tls) -> Vec<u8> {
    let bytes = tls.queued().to_vec();
    tls.sent(bytes.len());
    bytes
}

/// Gives all of this to one end in pieces of so many bytes, and returns the plaintext.
fn feed(tls: &mut Tls, bytes: &[u8], piece: usize) -> Result<Vec<u8>, Error> {
    let (mut waiting, mut plain) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        waiting.extend_from_slice(piece);
        loop {
            let mut memory = [0; 5000];
            let received = tls.receive(&mut waiting, &mut memory)?;
            waiting.drain(..received.taken);
            plain.extend_from_slice(&memory[..received.filled]);
            if received.filled == 0 {
                break;
            }
        }
    }
    Ok(plain)
}

/// Lets the two speak until neither has anything more to say.
fn shake(client: &mut Tls, server: &mut Tls, piece: usize) {
    // What the client says first is made by its first step.
    feed(client, &[0; 0], 1).expect("nothing came");
    let _ = client.receive(&mut [], &mut []).expect("nothing came");
    loop {
        let (from_client, from_server) = (queued(client), queued(server));
        if from_client.is_empty() && from_server.is_empty() {
            break;
        }
        feed(server, &from_client, piece).expect("a handshake");
        feed(client, &from_server, piece).expect("a handshake");
    }
    assert!(!client.agreed().is_handshaking() && !server.agreed().is_handshaking());
}

pub(in crate::transport) fn pair(configs: &Configs) -> (Tls, Tls) {
    let (mut client, mut server) = strangers(configs);
    shake(&mut client, &mut server, usize::MAX);
    (client, server)
}

/// These bytes in one record, as [`Tls::seal`] writes them.
pub(in crate::transport) fn sealed(tls: &mut Tls, plain: &[u8]) -> Vec<u8> {
    let room = tls.queued().len() + KEY_UPDATES + plain.len() + RECORD_OVERHEAD;
    let mut cipher = vec![0; room];
    let length = tls.seal(plain, &mut cipher).expect("it can send");
    cipher.truncate(length);
    cipher
}

pub(in crate::transport) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|byte| (byte * 7 + length) as u8).collect()
}

#[test]
fn a_handshake_succeeds_however_the_bytes_are_cut() {
    for piece in [1, 2, 3, 5, 64, 500, usize::MAX] {
        let (mut client, mut server) = strangers(usual());
        shake(&mut client, &mut server, piece);
        let cipher = sealed(&mut client, b"to b");
        assert_eq!(feed(&mut server, &cipher, piece).expect("sound"), b"to b");
        let cipher = sealed(&mut server, b"to a");
        assert_eq!(feed(&mut client, &cipher, piece).expect("sound"), b"to a");
        assert_eq!(client.agreed().protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    }
}

#[test]
fn records_are_found_wherever_they_are_cut() {
    let (mut client, mut server) = pair(usual());
    let mut cut = 0;
    loop {
        let mut cipher = sealed(&mut client, &pattern(90));
        cipher.extend(sealed(&mut client, &pattern(1)));
        cipher.extend(sealed(&mut client, &pattern(200)));
        let plain = [pattern(90), pattern(1), pattern(200)].concat();
        let mut memory = vec![0; plain.len()];
        let mut first = cipher[..cut].to_vec();
        let got = server.receive(&mut first, &mut memory).expect("sound");
        let mut rest = cipher[got.taken..].to_vec();
        let then = server.receive(&mut rest, &mut memory[got.filled..]).expect("sound");
        assert_eq!(got.taken + then.taken, cipher.len(), "cut at {cut}");
        assert_eq!(got.filled + then.filled, plain.len(), "cut at {cut}");
        assert_eq!(memory, plain, "cut at {cut}");
        cut += 1;
        if cut > cipher.len() {
            break;
        }
    }
}

#[test]
fn records_have_every_length() {
    let (mut client, mut server) = pair(usual());
    let lengths = (1..300).chain((300..MAX_PLAIN).step_by(997)).chain([MAX_PLAIN - 1, MAX_PLAIN]);
    for length in lengths {
        let plain = pattern(length);
        let cipher = sealed(&mut server, &plain);
        assert!(cipher.len() <= length + RECORD_OVERHEAD);
        assert_eq!(feed(&mut client, &cipher, usize::MAX).expect("sound"), plain);
    }
    // More than fits into one takes several.
    let plain = pattern(MAX_PLAIN * 2 + 1);
    let mut rest = &plain[..];
    while !rest.is_empty() {
        let count = client.write(rest).expect("it can send");
        rest = &rest[count..];
    }
    let cipher = queued(&mut client);
    assert_eq!(feed(&mut server, &cipher, 1000).expect("sound"), plain);
}

#[test]
fn a_flipped_bit_ends_the_connection() {
    let length = 40 + 22;
    for byte in 0..length {
        let (mut client, mut server) = pair(usual());
        let mut cipher = sealed(&mut client, &pattern(40));
        assert_eq!(cipher.len(), length);
        cipher[byte] ^= 1 << (byte % 8);
        // A length that was made longer waits for more, up to the longest that there is.
        let mut more = sealed(&mut client, &pattern(16_000));
        more.extend(sealed(&mut client, &pattern(16_000)));
        cipher.extend(more);
        let outcome = feed(&mut server, &cipher, usize::MAX);
        if byte == 0 || byte == 2 {
            // A header's type and minor version have no meaning: the true type is encrypted
            // (RFC 8446, 5.1 and 5.2).
            let all = [pattern(40), pattern(16_000), pattern(16_000)].concat();
            assert!(outcome.expect("it has no meaning") == all);
            continue;
        }
        let Err(error) = outcome else { panic!("byte {byte} was changed unseen") };
        for _ in 0..2 {
            let mut sound = sealed(&mut client, b"later");
            assert_eq!(server.receive(&mut sound, &mut [0; 100]), Err(error.clone()));
            assert_eq!(server.write(b"answer"), Err(error.clone()));
        }
    }
}

#[test]
fn records_that_are_repeated_left_out_or_exchanged_end_the_connection() {
    for order in [&[0, 0][..], &[1], &[0, 2], &[1, 0], &[0, 1, 0]] {
        let (mut client, mut server) = pair(usual());
        let records: Vec<_> = (0..3).map(|_| sealed(&mut client, &pattern(50))).collect();
        let cipher: Vec<_> = order.iter().flat_map(|record| records[*record].clone()).collect();
        assert!(feed(&mut server, &cipher, usize::MAX).is_err(), "{order:?}");
    }
}

#[test]
fn keys_change_before_they_have_protected_too_much() {
    let (mut client, mut server) = pair(&configs(limited()));
    let (mut updates, rounds) = (0, 20 * LIMIT as usize);
    for round in 0..rounds {
        let plain = pattern(1 + round % 100);
        let cipher = sealed(&mut client, &plain);
        updates += usize::from(cipher.len() > plain.len() + RECORD_OVERHEAD);
        assert_eq!(feed(&mut server, &cipher, 64).expect("sound"), plain);
        // The other direction is used less, and so answers several updates at once.
        if round % 100 == 0 {
            let cipher = sealed(&mut server, b"answer");
            assert_eq!(feed(&mut client, &cipher, 64).expect("sound"), b"answer");
        }
    }
    assert!(updates >= rounds / LIMIT as usize, "{updates} updates in {rounds} records");
}

#[test]
fn an_end_that_only_reads_stores_no_answers_to_key_updates() {
    let (mut client, mut server) = pair(&configs(limited()));
    for _ in 0..50 * LIMIT {
        let cipher = sealed(&mut client, b"more");
        feed(&mut server, &cipher, usize::MAX).expect("sound");
    }
    let cipher = sealed(&mut server, b"at last");
    assert!(cipher.len() < 200, "{} bytes", cipher.len());
    assert_eq!(feed(&mut client, &cipher, usize::MAX).expect("sound"), b"at last");
}

#[test]
fn the_other_side_is_told_why() {
    let (mut client, mut server) =
        strangers(&(configs(ring::default_provider()).0, usual().1.clone()));
    client.receive(&mut [], &mut []).expect("nothing came");
    let hello = queued(&mut client);
    feed(&mut server, &hello, usize::MAX).expect("a hello");
    let certificate = queued(&mut server);
    let error = feed(&mut client, &certificate, usize::MAX).expect_err("a foreign authority");
    assert!(matches!(error, Error::InvalidCertificate(_)), "{error}");
    let alert = queued(&mut client);
    let error = feed(&mut server, &alert, usize::MAX).expect_err("an alert");
    assert!(matches!(error, Error::AlertReceived(_)), "{error}");
    assert_eq!(server.seal(b"no", &mut [0; 1000]), Err(error));
}

#[test]
fn nothing_is_sealed_before_the_handshake_is_over() {
    let (mut client, mut server) = strangers(usual());
    assert_eq!(client.write(b"secret"), Err(Error::HandshakeNotComplete));
    let hello = queued(&mut client);
    feed(&mut server, &hello, usize::MAX).expect("a hello");
    assert_eq!(server.write(b"secret"), Err(Error::HandshakeNotComplete));
    // It goes on all the same.
    shake(&mut client, &mut server, usize::MAX);
    assert_eq!(client.write(b"secret"), Ok(6));
}

/// Sends what the library would not.
struct Forger {
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
}

impl Forger {
    fn new(client: Tls) -> Self {
        let Side::Client(client) = client.side else { panic!("a client") };
        let (secrets, _) = client.dangerous_into_kernel_connection().expect("secrets");
        let (sequence, ConnectionTrafficSecrets::Aes128Gcm { key, iv }) = secrets.tx else {
            panic!("AES-128")
        };
        let SupportedCipherSuite::Tls13(suite) =
            crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256
        else {
            panic!("a suite of TLS 1.3")
        };
        Self { encrypter: suite.aead_alg.encrypter(key, iv), sequence }
    }

    fn record(&mut self, typ: ContentType, payload: &[u8]) -> Vec<u8> {
        let version = rustls::ProtocolVersion::TLSv1_2;
        let payload = OutboundChunks::Single(payload);
        let message = OutboundPlainMessage { typ, version, payload };
        let record = self.encrypter.encrypt(message, self.sequence).expect("it can send");
        self.sequence += 1;
        record.encode()
    }
}

#[test]
fn a_member_that_splits_or_floods_ends_its_own_connection_alone() {
    let update = [24, 0, 0, 1, 0];
    let forged = |payloads: &[(ContentType, &[u8])]| {
        let (client, server) = {
            let (client, server) = configs(limited());
            let mut client = (*client).clone();
            client.enable_secret_extraction = true;
            pair(&(Arc::new(client), server))
        };
        let mut forger = Forger::new(client);
        let records = payloads.iter().map(|(typ, payload)| forger.record(*typ, payload));
        (server, records.collect::<Vec<_>>())
    };
    // One record is an update of the keys.
    let (mut server, records) = forged(&[(ContentType::Handshake, &update)]);
    assert_eq!(feed(&mut server, &records[0], usize::MAX).expect("sound"), b"");
    assert_eq!(server.write(b"answer"), Ok(6));
    // The library would panic when it has the first part of one and is to send.
    let parts = [(ContentType::Handshake, &update[..2]), (ContentType::Handshake, &update[2..])];
    let (mut server, records) = forged(&parts);
    let error = feed(&mut server, &records[0], usize::MAX).expect_err("a part");
    assert_eq!(server.write(b"answer"), Err(error.clone()));
    assert_eq!(feed(&mut server, &records[1], usize::MAX), Err(error));
    // Records that hold nothing.
    let (mut server, records) = forged(&[(ContentType::ApplicationData, &[][..]); 50]);
    assert!(feed(&mut server, &records.concat(), usize::MAX).is_err());
}

#[test]
fn one_side_may_have_ended_and_the_other_not() {
    let (mut client, mut server) = pair(usual());
    client.write(b"last words").expect("it can send");
    client.close().expect("it can send");
    let cipher = queued(&mut client);
    let mut waiting = cipher.clone();
    let mut memory = [0; 4];
    let first = server.receive(&mut waiting, &mut memory).expect("sound");
    assert_eq!((first.filled, server.is_closed()), (4, false));
    assert_eq!(feed(&mut server, &cipher[first.taken..], 1).expect("sound"), b" words");
    assert!(server.is_closed() && !client.is_closed());
    let cipher = sealed(&mut server, b"answer");
    assert_eq!(feed(&mut client, &cipher, 1).expect("sound"), b"answer");
    // What somebody puts behind the end is not read.
    for behind in [&[0x17; 100][..], &[0x17, 3, 3, 0, 1, 0]] {
        assert_eq!(feed(&mut server, behind, usize::MAX).expect("ignored"), b"");
    }
}

#[test]
fn what_finds_no_room_is_at_most_one_record() {
    let (mut client, mut server) = pair(usual());
    let mut cipher = Vec::new();
    for _ in 0..4 {
        cipher.extend(sealed(&mut client, &pattern(MAX_PLAIN)));
    }
    let (mut waiting, mut plain) = (cipher, Vec::new());
    while plain.len() < 4 * MAX_PLAIN {
        let mut memory = [0; 777];
        let received = server.receive(&mut waiting, &mut memory).expect("sound");
        waiting.drain(..received.taken);
        plain.extend_from_slice(&memory[..received.filled]);
        assert!(server.left.len() < MAX_PLAIN);
        assert!(waiting.len() + plain.len() + server.left.len() - server.given >= 4 * MAX_PLAIN);
    }
    assert_eq!(plain, pattern(MAX_PLAIN).repeat(4));
    assert_eq!(server.receive(&mut [], &mut []), Ok(Received { taken: 0, filled: 0 }));
}

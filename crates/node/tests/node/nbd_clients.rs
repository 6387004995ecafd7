//! NBD clients on TCP that show certificates of the cluster's own authority.

use std::io;
use std::sync::Arc;

use evenkeel_node::certificates;
use evenkeel_trust::{Key, pem};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{Place, TestNode};

const OPT_STARTTLS: u32 = 5;
const OPT_GO: u32 = 7;
/// The server agrees.
pub const REP_ACK: u32 = 1;
/// The client may not.
pub const REP_ERR_POLICY: u32 = (1 << 31) + 2;

/// Sends an option of NBD's handshake; the kind of the last answer to it, and its text.
async fn option(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    option: u32,
    data: &[u8],
) -> io::Result<(u32, String)> {
    let length = (data.len() as u32).to_be_bytes();
    let bytes = [b"IHAVEOPT", &option.to_be_bytes()[..], &length, data].concat();
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head).await?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let (kind, mut text) = (number(12), vec![0; number(16) as usize]);
        stream.read_exact(&mut text).await?;
        // All but NBD_REP_INFO end it.
        if kind != 3 {
            return Ok((kind, String::from_utf8(text).unwrap()));
        }
    }
}

/// What a client is answered that knows the server by this name and chooses this export.
///
/// # Errors
/// If the server ends the connection, or is not who the client expects.
pub async fn choose(
    address: &str,
    client: Arc<ClientConfig>,
    host: &'static str,
    export: &str,
) -> io::Result<(u32, String)> {
    connect(address, client, host, export).await.map(|(_, answer)| answer)
}

/// The same, with the connection.
async fn connect(
    address: &str,
    client: Arc<ClientConfig>,
    host: &'static str,
    export: &str,
) -> io::Result<(TlsStream<TcpStream>, (u32, String))> {
    let mut stream = TcpStream::connect(address).await?;
    stream.read_exact(&mut [0; 18]).await?;
    stream.write_all(&[0, 0, 0, 3]).await?;
    assert_eq!(option(&mut stream, OPT_STARTTLS, &[]).await?.0, REP_ACK);
    let server = ServerName::try_from(host).unwrap();
    let mut stream = TlsConnector::from(client).connect(server, stream).await?;
    let name = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes(), &[0, 0]].concat();
    let answer = option(&mut stream, OPT_GO, &name).await?;
    Ok((stream, answer))
}

/// A client of that name, with a certificate that is valid for a day; and the cluster's authority.
async fn client(node: &TestNode, name: &str) -> (Arc<ClientConfig>, RootCertStore) {
    let key = Key::generate().unwrap();
    let request = json!({"name": name, "public_key": key.public().pem(), "seconds": 86_400});
    let answer = node.ok("POST", "/v1/cluster/client-certificate", request).await;
    let read = |field: &str| {
        CertificateDer::from_pem_slice(answer[field].as_str().unwrap().as_bytes()).unwrap()
    };
    let mut roots = RootCertStore::empty();
    roots.add(read("authority")).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.pkcs8().to_vec());
    let client = ClientConfig::builder()
        .with_root_certificates(roots.clone())
        .with_client_auth_cert(vec![read("certificate")], key.into());
    (Arc::new(client.unwrap()), roots)
}

/// The certificate by which a node proves who it is, in the hands of a client.
fn of_node(node: &TestNode, roots: RootCertStore) -> Arc<ClientConfig> {
    let stored = std::fs::read(node.config.state.join("certificate.json")).unwrap();
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    let certificate = stored["certificate"].as_str().unwrap().as_bytes();
    let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
    let key = std::fs::read_to_string(node.config.state.join("certificate.key")).unwrap();
    let key = PrivatePkcs8KeyDer::from(Key::from_pem(&key).unwrap().pkcs8().to_vec());
    let client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key.into());
    Arc::new(client.unwrap())
}

async fn export(node: &TestNode, clients: &[&str]) -> String {
    let request = json!({"tcp": true, "clients": clients});
    let exported = node.ok("POST", "/v1/volumes/web/exports/nbd", request).await;
    assert_eq!(exported["export"]["client_names"], json!(clients), "{exported:#}");
    assert_eq!(exported["export"]["tls"], true, "{exported:#}");
    let port = exported["export"]["tcp"][0].as_str().unwrap().rsplit_once(':').unwrap().1;
    format!("127.0.0.1:{port}")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clusters_authority_signs_certificates_of_clients() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    certificates::init(&node.config).unwrap();
    // Other machines reach it, and nothing is said of TLS.
    node.config.nbd.listen = vec!["0.0.0.0:0".into()];
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    let path = "/v1/volumes/web/exports/nbd";
    node.refused("POST", path, json!({"tcp": true}), "bad-request").await;
    node.refused("POST", path, json!({"tcp": true, "clients": ["no name"]}), "bad-request").await;
    let address = export(&node, &["VM.1"]).await;

    let (first, roots) = client(&node, "VM.1").await;
    let (second, _) = client(&node, "vm2").await;
    assert_eq!(choose(&address, first.clone(), "a", "web").await.unwrap().0, REP_ACK);
    // A client compares the name that it dials.
    choose(&address, first.clone(), "b", "web").await.unwrap_err();
    for other in [second.clone(), of_node(&node, roots.clone())] {
        let (kind, text) = choose(&address, other, "a", "web").await.unwrap();
        assert_eq!(kind, REP_ERR_POLICY, "{text}");
    }
    let nobody = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    choose(&address, Arc::new(nobody), "a", "web").await.unwrap_err();
    // Of another cluster.
    let mut stranger = TestNode::new(&place, "c");
    stranger.config.coordinator.join = None;
    stranger.config.coordinator.here = true;
    certificates::init(&stranger.config).unwrap();
    stranger.start().await.unwrap();
    let (foreign, _) = client(&stranger, "VM.1").await;
    choose(&address, foreign, "a", "web").await.unwrap_err();

    // Whom an export is not for any more is disconnected, and nobody else.
    let address = export(&node, &["VM.1", "vm2"]).await;
    let (mut of_first, _) = connect(&address, first.clone(), "a", "web").await.unwrap();
    let (mut of_second, _) = connect(&address, second.clone(), "a", "web").await.unwrap();
    export(&node, &["vm2"]).await;
    assert!(!matches!(of_first.read(&mut [0; 16]).await, Ok(1..)));
    let flush = [&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 3][..], &[0; 20]].concat();
    of_second.write_all(&flush).await.unwrap();
    of_second.flush().await.unwrap();
    of_second.read_exact(&mut [0; 16]).await.unwrap();

    assert_eq!(choose(&address, first, "a", "web").await.unwrap().0, REP_ERR_POLICY);
    assert_eq!(choose(&address, second, "a", "web").await.unwrap().0, REP_ACK);
    drop(of_second);
    node.detach("web").await;
}

/// A client of the only export of this node, on its unix socket.
pub async fn local_client(node: &TestNode) -> UnixStream {
    let mut stream = greeted(node).await;
    assert_eq!(go(&mut stream).await.unwrap().0, REP_ACK);
    stream
}

/// The same, before it chooses the export.
async fn greeted(node: &TestNode) -> UnixStream {
    let socket = node.config.runtime.join("nbd/web.sock");
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.read_exact(&mut [0; 18]).await.unwrap();
    stream.write_all(&[0, 0, 0, 3]).await.unwrap();
    stream
}

/// Chooses the export.
async fn go(stream: &mut UnixStream) -> io::Result<(u32, String)> {
    let name = [&3_u32.to_be_bytes()[..], b"web", &[0, 0]].concat();
    option(stream, OPT_GO, &name).await
}

/// The error with which a write of 4 KiB is answered.
pub async fn write(stream: &mut UnixStream) -> io::Result<u32> {
    write_at(stream, 0).await
}

async fn write_at(stream: &mut UnixStream, offset: u64) -> io::Result<u32> {
    let head = [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0, 0, 1], &[0; 8]].concat();
    let place = [&offset.to_be_bytes()[..], &4096_u32.to_be_bytes()].concat();
    stream.write_all(&[&head[..], &place, &[7; 4096]].concat()).await?;
    let mut answer = [0; 16];
    stream.read_exact(&mut answer).await?;
    Ok(u32::from_be_bytes(answer[4..8].try_into().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_write_is_disconnected_when_the_export_becomes_read_only() {
    const EPERM: u32 = 1;
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    let path = "/v1/volumes/web/exports/nbd";
    node.ok("POST", path, json!({"tcp": false})).await;
    let mut writer = local_client(&node).await;
    assert_eq!(write(&mut writer).await.unwrap(), 0);
    node.ok("POST", path, json!({"tcp": false, "read_only": true})).await;
    write(&mut writer).await.unwrap_err();

    let mut reader = local_client(&node).await;
    assert_eq!(write(&mut reader).await.unwrap(), EPERM);
    // Who reads need not leave, and was told that it may not write.
    node.ok("POST", path, json!({"tcp": false, "read_only": true})).await;
    node.ok("POST", path, json!({"tcp": false})).await;
    assert_eq!(write(&mut reader).await.unwrap(), EPERM);
    assert_eq!(write(&mut local_client(&node).await).await.unwrap(), 0);
    drop(reader);
    node.detach("web").await;
}

/// No device can be read-only, so whoever leaves the choice to the node gets NBD, and sees that.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_attached_read_only_is_exported_by_nbd() {
    const EPERM: u32 = 1;
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    let path = "/v1/volumes/web/attach";
    let device = json!({"how": "device", "read_only": true});
    let refused = node.refused("POST", path, device, "not-supported").await;
    assert_eq!(refused["why"], "a block device cannot be made read-only yet", "{refused:#}");
    let attached = node.ok("POST", path, json!({"how": "auto", "read_only": true})).await;
    assert_eq!(attached["device"], Value::Null, "{attached:#}");
    let export = &attached["export"];
    assert_eq!((&export["kind"], &export["read_only"]), (&json!("nbd"), &json!(true)));
    assert_eq!(write(&mut local_client(&node).await).await.unwrap(), EPERM);
    node.detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_not_detached_under_a_client() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    let path = "/v1/volumes/web/exports/nbd";
    node.ok("POST", path, json!({"tcp": false})).await;
    let mut client = local_client(&node).await;
    let error = node.refused("POST", "/v1/volumes/web/detach", Value::Null, "device-busy").await;
    assert_eq!(error["why"], "a client is connected to its export");
    assert!(error["do"].as_str().unwrap().contains("`evenkeel unexport`"), "{error:#}");
    assert_eq!(write(&mut client).await.unwrap(), 0);
    node.ok("DELETE", path, Value::Null).await;
    write(&mut client).await.unwrap_err();
    node.detach("web").await;
}

/// A client chooses of what there was when it came.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_not_served_by_an_export_that_has_ended_meanwhile() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    let (path, unix) = ("/v1/volumes/web/exports/nbd", json!({"tcp": false}));
    node.ok("POST", path, unix.clone()).await;
    let mut late = greeted(&node).await;
    node.ok("DELETE", path, Value::Null).await;
    assert!(go(&mut late).await.is_ok());
    write(&mut late).await.unwrap_err();

    // Another export of the same name is not what it has chosen.
    node.ok("POST", path, unix.clone()).await;
    let mut late = greeted(&node).await;
    node.detach("web").await;
    node.attach("web").await;
    node.ok("POST", path, unix.clone()).await;
    assert!(go(&mut late).await.is_ok());
    write(&mut late).await.unwrap_err();

    // One that takes its place is.
    let mut late = greeted(&node).await;
    node.ok("POST", path, unix).await;
    assert!(go(&mut late).await.is_ok());
    assert_eq!(write(&mut late).await.unwrap(), 0);
    drop(late);
    node.detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_cannot_show_a_growth_is_served_as_before_and_shows_it_later() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    node.ok("POST", "/v1/volumes/web/exports/nbd", json!({"tcp": false})).await;
    let in_the_way = node.config.runtime.join("nbd/web.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let larger = json!({"size": 8 << 20});
    node.refused("PATCH", "/v1/volumes/web", larger.clone(), "system").await;
    let beyond = async || write_at(&mut local_client(&node).await, 7 << 20).await.unwrap();
    assert_ne!(beyond().await, 0, "the export before is served still");

    std::fs::remove_dir(&in_the_way).unwrap();
    node.ok("PATCH", "/v1/volumes/web", larger).await;
    assert_eq!(beyond().await, 0);
    node.detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_refused_that_would_be_good_for_nothing() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    certificates::init(&node.config).unwrap();
    node.start().await.unwrap();
    let path = "/v1/cluster/client-certificate";
    let key = Key::generate().unwrap();
    let (public, private) = (key.public().pem(), pem::encode(pem::PRIVATE_KEY, key.pkcs8()));
    for (name, key, seconds) in [
        ("no name", &public, 86_400),
        ("", &public, 86_400),
        ("vm1", &private, 86_400),
        ("vm1", &"x".to_owned(), 86_400),
        ("vm1", &public, 0),
        ("vm1", &public, u64::MAX),
    ] {
        let request = json!({"name": name, "public_key": key, "seconds": seconds});
        node.refused("POST", path, request, "bad-request").await;
    }
    // Only the node with the authority's key signs.
    let mut other = TestNode::new(&place, "b");
    other.start().await.unwrap();
    let request = json!({"name": "vm1", "public_key": public, "seconds": 86_400});
    other.refused("POST", path, request, "wrong-state").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_served_by_a_node_without_a_certificate() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.config.nbd.listen = vec!["0.0.0.0:0".into()];
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    let address = export(&node, &["vm1"]).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(stream.read(&mut [0; 18]).await.unwrap(), 0);
    let warnings = node.get("/v1/node").await["node"]["warnings"].to_string();
    assert!(warnings.contains("nbd.listen") && warnings.contains("cluster init"), "{warnings}");
    node.detach("web").await;
}

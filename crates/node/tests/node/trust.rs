//! Nodes that get their certificates from the cluster's own authority.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_core::{CoordinatorId, Incarnation, NodeId, ReplicaId, VolumeId};
use evenkeel_node::certificates;
use evenkeel_node::config::Address;
use evenkeel_node::peer::stream::{self, PeerStream};
use evenkeel_node::peer::tls::PeerTls;
use evenkeel_node::peer::{Credentials, Destination, PeerError, Peers, Wanted};
use evenkeel_node::state::start::StartId;
use evenkeel_trust::token::{Asked, CHANNEL_LABEL};
use evenkeel_trust::verifier::JoinVerifier;
use evenkeel_trust::{Authority, JoinAnswer, JoinRequest, Key, Token, Verifier, pem};
use evenkeel_wire::hello::{Purpose, Reason};
use hyper::Method;
use hyper::body::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Place, TestNode};

pub fn node(place: &Place, name: &str) -> TestNode {
    let mut node = TestNode::new(place, name);
    node.config.peer.listen = vec!["127.0.0.1:0".into()];
    node.config.coordinator.join = None;
    node
}

/// The node with the authority, running, and its address.
pub async fn authority(place: &Place) -> (TestNode, String) {
    let mut first = node(place, "a");
    let refused = first.start().await.unwrap_err().to_string();
    assert!(refused.contains("evenkeel cluster init"), "{refused}");
    certificates::init(&first.config).unwrap();
    first.start().await.unwrap();
    let address = first.get("/v1/node").await["node"]["addresses"][0].as_str().unwrap().to_owned();
    (first, address)
}

pub async fn invite(node: &TestNode, request: Value) -> String {
    let answer = node.ok("POST", "/v1/cluster/invite", request).await;
    answer["token"].as_str().unwrap().to_owned()
}

pub async fn join(node: &TestNode, address: &str, token: &str) -> (u16, String) {
    let request = json!({"address": address, "token": token});
    let (status, answer) = node.call("POST", "/v1/node/join", request).await;
    (status, answer["error"]["why"].as_str().unwrap_or_default().to_owned())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_a_node_that_was_removed_is_free() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let (first, address) = authority(&place).await;
    let mut second = node(&place, "b");
    second.start().await.unwrap();
    let token = invite(&first, json!({})).await;
    assert_eq!(join(&second, &address, &token).await, (200, String::new()));

    let mut third = node(&elsewhere, "b");
    third.start().await.unwrap();
    let token = invite(&first, json!({})).await;
    let (status, why) = join(&third, &address, &token).await;
    assert!(status != 200 && why.contains("another node of the cluster is named b"), "{why}");
    second.stop().await;
    let is_dead = |answer: &Value| {
        let nodes = answer["nodes"].as_array().unwrap();
        nodes.iter().any(|n| n["name"] == "b" && n["alive"] == false && n.get("unknown").is_none())
    };
    first.until("/v1/nodes", is_dead).await;
    first.ok("DELETE", "/v1/nodes/b", Value::Null).await;
    assert_eq!(join(&third, &address, &token).await, (200, String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_makes_a_member() {
    let place = Place::new();
    let (first, address) = authority(&place).await;
    first.add_disk("d").await;
    let token = invite(&first, json!({})).await;

    let mut second = node(&place, "b");
    second.start().await.unwrap();
    let status = second.get("/v1/node").await;
    let warnings = status["node"]["warnings"].to_string();
    assert!(warnings.contains("evenkeel node join"), "{status:#}");
    second.refused("GET", "/v1/nodes", Value::Null, "not-joined").await;
    assert_eq!(join(&second, &address, &token).await, (200, String::new()));
    // The answer was lost: the same again.
    assert_eq!(join(&second, &address, &token).await, (200, String::new()));
    for name in ["certificate.key", "certificate.json"] {
        let mode = fs::metadata(second.config.state.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(second.get("/v1/node").await["node"]["authentication"], "mutual-tls");

    // It is served by what it has got, also after a restart, and serves the other one.
    second.stop().await;
    second.restart().await;
    second.add_disk("d").await;
    second.until("/v1/nodes", |n| n["nodes"].as_array().is_some_and(|n| n.len() == 2)).await;
    second.create("web", 2).await;
    second.attach("web").await;
    let are_connected = |status: &Value| {
        let replicas = status["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
        replicas.iter().all(|replica| replica["connected"] == true)
    };
    second.until("/v1/volumes/web?wait=10&until=serving", are_connected).await;
    second.detach("web").await;

    // Only the node with the authority's key invites, and nobody joins that one.
    second.refused("POST", "/v1/cluster/invite", json!({}), "wrong-state").await;
    first.refused("POST", "/v1/cluster/invite", json!({"member": "x"}), "no-such-node").await;
    first.refused("POST", "/v1/cluster/invite", json!({"count": 0}), "bad-request").await;
    let (status, why) = join(&first, &address, &token).await;
    assert_eq!((status, why.contains("serves the coordinator")), (409, true), "{why}");
}

/// The coordinator's machine is lost with its database and its authority: a new one takes its
/// place.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_certified_anew_where_its_coordinator_is() {
    let place = Place::new();
    let (mut first, address) = authority(&place).await;
    let mut second = node(&place, "b");
    second.start().await.unwrap();
    let token = invite(&first, json!({})).await;
    assert_eq!(join(&second, &address, &token).await, (200, String::new()));
    first.stop().await;
    fs::remove_dir_all(&first.config.state).unwrap();
    first.config.peer.listen = vec![address.clone()];
    certificates::init(&first.config).unwrap();
    first.restart().await;
    let token = invite(&first, json!({})).await;
    // By hand: a token changes no authority.
    fs::remove_file(second.config.state.join("certificate.json")).unwrap();
    assert_eq!(join(&second, &address, &token).await, (200, String::new()));
    second.until("/v1/nodes", |n| n["nodes"].as_array().is_some_and(|n| n.len() == 2)).await;

    // That of another cluster is refused still.
    let elsewhere = Place::new();
    let (other, there) = authority(&elsewhere).await;
    let token = invite(&other, json!({})).await;
    fs::remove_file(second.config.state.join("certificate.json")).unwrap();
    // Not by the API: a member is refused there whatever its token says.
    let error = second.running().certificates.join(&there, &token).await.unwrap_err();
    assert!(error.why.contains("belongs to another cluster"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lets_nobody_else_in() {
    let place = Place::new();
    let (first, address) = authority(&place).await;
    let token = invite(&first, json!({})).await;
    let mut second = node(&place, "b");
    second.start().await.unwrap();
    assert_eq!(join(&second, &address, &token).await.0, 200);

    let mut thief = node(&place, "thief");
    thief.start().await.unwrap();
    let others = invite(&first, json!({"names": "x*", "count": 5})).await;
    let second_id = second.get("/v1/node").await["node"]["id"].as_str().unwrap().to_owned();
    for (token, reported) in [
        (token.as_str(), "used up"),
        (others.as_str(), "for nodes named x*"),
        (&token[1..], "copy all of it"),
    ] {
        let (status, why) = join(&thief, &address, token).await;
        assert!(matches!(status, 400 | 403) && why.contains(reported), "{status} {why}");
    }
    thief.refused("GET", "/v1/nodes", Value::Null, "not-joined").await;
    assert!(!thief.config.state.join("certificate.json").exists());

    // Somebody who says that he is a member.
    let token = invite(&first, json!({"count": 9})).await.parse().unwrap();
    let second_id: NodeId = second_id.parse().unwrap();
    for (id, name, reported) in [
        (second_id, "b", "node b belongs to the cluster already"),
        (second_id, "c", "belongs to node b"),
        (NodeId(7), "b", "another node of the cluster is named b"),
        (NodeId(7), "a", "another node of the cluster is named a"),
    ] {
        let answer = ask(&address, &token, id, name).await;
        assert!(
            matches!(&answer, JoinAnswer::Refused { why } if why.contains(reported)),
            "{answer:?}"
        );
    }
    // One that was let in and has not registered yet keeps its name.
    assert!(matches!(ask(&address, &token, NodeId(7), "c").await, JoinAnswer::Admitted { .. }));
    let other = invite(&first, json!({})).await.parse().unwrap();
    let answer = ask(&address, &other, NodeId(8), "c").await;
    assert!(matches!(&answer, JoinAnswer::Refused { why } if why.contains("let in as c")));

    // A member that has lost its key gets another one by a token of its own.
    let token = invite(&first, json!({"member": "b"})).await;
    second.stop().await;
    fs::remove_file(second.config.state.join("certificate.key")).unwrap();
    let refused = second.start().await.unwrap_err().to_string();
    assert!(refused.contains("certificate.key is missing"), "{refused}");
    fs::remove_file(second.config.state.join("certificate.json")).unwrap();
    second.restart().await;
    assert_eq!(join(&second, &address, &token).await, (200, String::new()));
}

fn open(token: &Token) -> Arc<ClientConfig> {
    let span = (token.made(), token.expires());
    let client = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(JoinVerifier::new(token.authority(), span)))
        .with_no_client_auth();
    Arc::new(client)
}

async fn dial(address: &str, token: &Token) -> PeerStream {
    let address = Address::parse(address).unwrap();
    stream::connect_with(&address, &open(token)).await.unwrap()
}

fn request(stream: &PeerStream, token: &Token, node: NodeId, name: &str) -> JoinRequest {
    let (key, channel) = (Key::generate().unwrap().public(), stream.export(CHANNEL_LABEL).unwrap());
    let asked = Asked { channel: &channel, key: &key, node, name };
    let proof = token.key().prove(token.id(), &asked);
    JoinRequest { token: token.id(), node, name: name.to_owned(), key, proof }
}

async fn send(stream: &mut PeerStream, request: &JoinRequest) -> JoinAnswer {
    stream.write_all(&request.encode()).await.unwrap();
    let length = stream.read_u16().await.unwrap();
    let mut bytes = vec![0; length.into()];
    stream.read_exact(&mut bytes).await.unwrap();
    JoinAnswer::decode(&bytes).unwrap()
}

async fn ask(address: &str, token: &Token, node: NodeId, name: &str) -> JoinAnswer {
    let mut stream = dial(address, token).await;
    let request = request(&stream, token, node, name);
    send(&mut stream, &request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_certificate_one_request_is_answered_and_no_other_byte() {
    let place = Place::new();
    let (first, address) = authority(&place).await;
    let token: Token = invite(&first, json!({})).await.parse().unwrap();

    // What was recorded of one connection, on another one.
    let recorded = request(&dial(&address, &token).await, &token, NodeId(7), "c");
    let answer = send(&mut dial(&address, &token).await, &recorded).await;
    assert!(matches!(&answer, JoinAnswer::Refused { why } if why.contains("not valid here")));
    // A token that nobody has made gets the same answer.
    let guessed = JoinRequest { token: evenkeel_trust::TokenId([9; 8]), ..recorded };
    assert_eq!(send(&mut dial(&address, &token).await, &guessed).await, answer);

    // A hello, a request to the API, or too much: the connection is closed, and nothing said.
    let long = [&[0xff, 0xff][..], &[0; 70_000]].concat();
    for bytes in
        [&b"GET /v1/nodes HTTP/1.1\r\nhost: x\r\n\r\n"[..], &b"evenkeel\x01\0\x10\0"[..], &long]
    {
        let mut stream = dial(&address, &token).await;
        // It may be closed before all is sent.
        let _ = stream.write_all(bytes).await;
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said).await;
        assert_eq!(said, b"", "{:?}", &bytes[..8]);
    }
    // After an answer nothing more is served.
    let mut stream = dial(&address, &token).await;
    let good = request(&stream, &token, NodeId(7), "c");
    assert!(matches!(send(&mut stream, &good).await, JoinAnswer::Admitted { .. }));
    let _ = stream.write_all(&good.encode()).await;
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    assert_eq!(said, b"");

    // A node of another cluster that says it is the one of the token.
    let elsewhere = Place::new();
    let (_other, other_address) = authority(&elsewhere).await;
    let mut second = node(&place, "b");
    second.start().await.unwrap();
    let (status, why) = join(&second, &other_address, &token.to_string()).await;
    assert_eq!(status, 503, "{why}");
    assert!(!second.config.state.join("certificate.json").exists());
}

/// What a member has in its files.
struct Stolen {
    cluster: CoordinatorId,
    authority: CertificateDer<'static>,
    key: Key,
}

fn stolen(node: &TestNode) -> Stolen {
    let read = |name: &str| fs::read_to_string(node.config.state.join(name)).unwrap();
    let stored: Value = serde_json::from_str(&read("certificate.json")).unwrap();
    let key = PrivatePkcs8KeyDer::from_pem_slice(read("certificate.key").as_bytes()).unwrap();
    let authority = stored["authority"].as_str().unwrap();
    Stolen {
        cluster: stored["cluster"].as_str().unwrap().parse().unwrap(),
        authority: CertificateDer::from_pem_slice(authority.as_bytes()).unwrap(),
        key: Key::from_pkcs8(key.secret_pkcs8_der()).unwrap(),
    }
}

/// Connects as that node does with such a certificate.
fn peers(of: &Stolen, node: NodeId, name: &str, certificate: CertificateDer<'static>) -> Peers {
    let verifier = Arc::new(Verifier::new(of.cluster, &of.authority, 0).unwrap());
    let key = PrivatePkcs8KeyDer::from(of.key.pkcs8().to_vec()).into();
    let tls = PeerTls::own(verifier, vec![certificate], &key).unwrap();
    Peers::new(Credentials {
        node,
        name: name.into(),
        start: StartId { counter: 9, incarnation: Incarnation(9) },
        cluster: "evenkeel".into(),
        tls: Some(tls).into(),
        epoch: Arc::default(),
        on_unix: false,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_is_renewed_and_permits_nothing_else() {
    let place = Place::new();
    let (first, address) = authority(&place).await;
    let token = invite(&first, json!({})).await;
    let mut second = node(&place, "b");
    second.start().await.unwrap();
    assert_eq!(join(&second, &address, &token).await.0, 200);
    let id: NodeId = second.get("/v1/node").await["node"]["id"].as_str().unwrap().parse().unwrap();
    second.stop().await;

    // Powered off for a hundred days.
    let of_second = stolen(&second);
    let key = fs::read(first.config.state.join("authority.key")).unwrap();
    let key = PrivatePkcs8KeyDer::from_pem_slice(&key).unwrap();
    let signer =
        Authority::new(of_second.cluster, Key::from_pkcs8(key.secret_pkcs8_der()).unwrap());
    let public = of_second.key.public();
    let made = now() - 100 * 86_400;
    let sign =
        |name: &str, node, made| signer.sign_node(name, node, &public, [7; 16], made).unwrap();
    let old = sign("b", id, made);

    let expired = peers(&of_second, id, "b", old.clone());
    let (to, anyone) = (Address::parse(&address).unwrap(), Wanted::Anyone);
    let deadline = Duration::from_secs(60);
    for (method, path) in [
        (Method::GET, "/v1/nodes"),
        (Method::POST, "/peer/v1/coordinator"),
        (Method::GET, "/v1/node"),
    ] {
        let to_anyone = Destination { address: &to, wanted: &anyone };
        let answer = expired.request(to_anyone, method, path, "{}".into(), deadline);
        let answer = answer.await.unwrap();
        assert_eq!(answer.0, 404, "{path}");
    }
    let replication = Purpose::Replication { volume: VolumeId(1), replica: ReplicaId(2) };
    let refused = expired.connect(&to, &anyone, replication).await.unwrap_err();
    assert!(refused.to_string().contains("has expired"), "{refused}");

    // It has few connections, however many it asks for.
    let mut kept = Vec::new();
    let busy = loop {
        match expired.connect(&to, &anyone, Purpose::Control).await {
            Ok(connected) if kept.len() < 64 => kept.push(connected),
            other => break other,
        }
    };
    assert!(matches!(busy, Err(PeerError::Refused { reason: Reason::Busy, .. })), "{busy:?}");
    assert!((1..=8).contains(&kept.len()), "{}", kept.len());
    drop(kept);

    // Another one's name or identity; a member asks for a token.
    for (name, node, certificate) in [
        ("a", id, sign("b", id, now())),
        ("b", NodeId(1), sign("b", id, now())),
        ("b", id, sign("b", NodeId(1), now())),
    ] {
        let other = peers(&of_second, node, name, certificate);
        let refused = other.connect(&to, &anyone, Purpose::Control).await.unwrap_err();
        assert!(matches!(refused, PeerError::Refused { .. }), "{name} {node}: {refused}");
    }
    let member = peers(&of_second, id, "b", sign("b", id, now()));
    let path = "/v1/cluster/invite";
    let to_anyone = Destination { address: &to, wanted: &anyone };
    let asked = member.request(to_anyone, Method::POST, path, "{}".into(), deadline).await;
    assert_eq!(asked.unwrap().0, 404);
    // A node whose certificate is good, and that is not the one that was wanted there. The
    // connection that is kept to it does not serve.
    let first_id = first.get("/v1/node").await["node"]["id"].as_str().unwrap().to_owned();
    let wanted = |id: &str, name: &str| Wanted::Node { id: id.to_owned(), name: name.to_owned() };
    for (wanted, is_there) in [
        (wanted(&first_id, "a"), true),
        (wanted(&id.to_string(), "b"), false),
        (wanted(&NodeId(1).to_string(), "a"), false),
    ] {
        let (method, body) = (Method::GET, Bytes::new());
        let destination = Destination { address: &to, wanted: &wanted };
        let asked = member.request(destination, method, "/v1/node", body, deadline).await;
        match is_there {
            true => assert_eq!(asked.unwrap().0, 200),
            false => assert!(matches!(asked, Err(PeerError::Another { .. })), "{asked:?}"),
        }
    }

    // It renews by itself, and is a member again.
    let file = second.config.state.join("certificate.json");
    let mut stored: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    stored["made"] = made.into();
    stored["certificate"] = pem::encode(pem::CERTIFICATE, &old).into();
    fs::write(&file, stored.to_string()).unwrap();
    second.restart().await;
    second.until("/v1/nodes", |n| n["nodes"].as_array().is_some_and(|n| n.len() == 2)).await;
    let stored: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(stored["made"].as_u64().unwrap() >= now() - 60, "{stored:#}");
}

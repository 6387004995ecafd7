//! Nodes and NBD clients that prove themselves by certificates. Needs the openssl command to make
//! some; without it these tests say so and pass.

use std::path::Path;
use std::process::Command;

use evenkeel_node::config::{NbdTlsConfig, PeerTlsConfig};
use evenkeel_node::peer::tls::PeerTls;
use serde_json::{Value, json};

use crate::nbd_clients::{self, REP_ACK, REP_ERR_POLICY};
use crate::support::{Place, TestNode};

fn openssl(directory: &Path, arguments: &str) -> bool {
    let arguments = arguments.split(' ');
    let output = Command::new("openssl").current_dir(directory).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// An authority named `authority`, and a certificate signed by it.
fn certificates(directory: &Path, authority: &str, name: &str) -> Option<PeerTlsConfig> {
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    if !directory.join(format!("{authority}.pem")).exists() {
        let made = format!(
            "req -x509 {new_key} -keyout {authority}.key -out {authority}.pem -subj /CN={authority} -days 2"
        );
        if !openssl(directory, &made) {
            eprintln!("skipped: there is no openssl command here");
            return None;
        }
    }
    std::fs::write(
        directory.join("names"),
        format!("subjectAltName=IP:127.0.0.1,DNS:{name}\nbasicConstraints=CA:FALSE\n"),
    )
    .unwrap();
    let asked = format!("req {new_key} -keyout {name}.key -out {name}.csr -subj /CN={name}");
    let signed = format!(
        "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -out {name}.pem -days 2 -extfile names"
    );
    assert!(openssl(directory, &asked) && openssl(directory, &signed));
    Some(PeerTlsConfig {
        certificate: directory.join(format!("{name}.pem")),
        key: directory.join(format!("{name}.key")),
        authority: directory.join(format!("{authority}.pem")),
        nodes: ["a", "b", "foreign", "thief", "other"].map(String::from).into(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn replication_is_encrypted_and_both_ends_are_proved() {
    let place = Place::new();
    let mut first = TestNode::new(&place, "a");
    let Some(tls) = certificates(place.path(), "ours", "a") else { return };
    first.config.peer.tls = Some(tls);
    first.config.peer.listen = vec!["127.0.0.1:0".into()];
    first.start().await.unwrap();
    first.add_disk("d").await;
    let address = first.get("/v1/node").await["node"]["addresses"][0].as_str().unwrap().to_owned();

    let mut second = TestNode::new(&place, "b");
    second.config.peer.tls = certificates(place.path(), "ours", "b");
    second.config.peer.listen = vec!["127.0.0.1:0".into()];
    second.config.coordinator.join = Some(address.clone());
    second.start().await.unwrap();
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

    // Without a certificate, with one of another authority, and with that of another node.
    let of_second = second.config.peer.tls.clone();
    for (name, tls, why) in [
        ("plain", None, "this node has no certificate"),
        ("foreign", certificates(place.path(), "theirs", "foreign"), ""),
        ("other", of_second, "the certificate of node other does not name it"),
        ("laptop", certificates(place.path(), "ours", "laptop"), "node laptop is none of those"),
    ] {
        let mut stranger = TestNode::new(&place, name);
        stranger.config.coordinator.join = None;
        stranger.config.peer.tls = tls;
        stranger.start().await.unwrap();
        let join = json!({"address": address});
        let (status, answer) = stranger.call("POST", "/v1/node/join", join).await;
        assert!(matches!(status, 403 | 503), "{status} {answer:#}");
        assert!(answer["error"]["why"].as_str().unwrap().contains(why), "{answer:#}");
        stranger.refused("GET", "/v1/nodes", Value::Null, "not-joined").await;
    }

    // One of ours that takes the other one's identity.
    second.stop().await;
    let mut thief = second.copy(&place, "thief");
    thief.config.name = Some("thief".into());
    thief.config.peer.tls = certificates(place.path(), "ours", "thief");
    thief.config.peer.listen = vec!["127.0.0.1:0".into()];
    thief.start().await.unwrap();
    let join = json!({"address": address});
    let (status, answer) = thief.call("POST", "/v1/node/join", join).await;
    assert_eq!(status, 403, "{answer:#}");
    let why = answer["error"]["why"].as_str().unwrap();
    assert!(why.contains("this identity belongs to node b"), "{why}");
}

/// What a client with this certificate is answered that chooses this export.
async fn choose(address: &str, tls: &PeerTlsConfig, export: &str) -> (u32, String) {
    let client = PeerTls::load(tls).unwrap().client;
    nbd_clients::choose(address, client, "127.0.0.1", export).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_for_the_clients_that_it_names() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    let Some(tls) = certificates(place.path(), "ours", "a") else { return };
    let client = |name| certificates(place.path(), "ours", name).unwrap();
    let (first, second) = (client("vm1"), client("vm2"));
    let PeerTlsConfig { certificate, key, authority, .. } = tls;
    node.config.nbd.tls = Some(NbdTlsConfig { certificate, key, authority: Some(authority) });
    // Other machines reach it.
    node.config.nbd.listen = vec!["0.0.0.0:0".into()];
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    let path = "/v1/volumes/web/exports/nbd";
    let refused = node.refused("POST", path, json!({"tcp": true}), "bad-request").await;
    assert!(refused["do"].as_str().unwrap().contains("--client"), "{refused:#}");
    for bad in [json!({"tcp": true, "clients": ["no name"]}), json!({"tcp": true, "clients": [""]})]
    {
        node.refused("POST", path, bad, "bad-request").await;
    }
    node.refused("POST", path, json!({"clients": ["vm1"]}), "not-supported").await;

    let exported = node.ok("POST", path, json!({"tcp": true, "clients": ["vm1"]})).await;
    assert_eq!(exported["export"]["client_names"], json!(["vm1"]), "{exported:#}");
    let port = exported["export"]["tcp"][0].as_str().unwrap().rsplit_once(':').unwrap().1;
    let address = format!("127.0.0.1:{port}");
    assert_eq!(choose(&address, &first, "web").await.0, REP_ACK);
    let (kind, text) = choose(&address, &second, "web").await;
    assert_eq!(kind, REP_ERR_POLICY, "{text}");
    assert!(text.contains("for other clients"), "{text}");

    // Whoever it is for, it is so after a restart of the daemon, too.
    node.crash().await;
    node.restart().await;
    let is_exported = |v: &Value| v["volume"]["exports"][0]["client_names"] == json!(["vm1"]);
    let status = node.until("/v1/volumes/web", is_exported).await;
    let port = status["volume"]["exports"][0]["tcp"][0].as_str().unwrap().rsplit_once(':');
    let address = format!("127.0.0.1:{}", port.unwrap().1);
    assert_eq!(choose(&address, &first, "web").await.0, REP_ACK);
    assert_eq!(choose(&address, &second, "web").await.0, REP_ERR_POLICY);
    node.detach("web").await;
}

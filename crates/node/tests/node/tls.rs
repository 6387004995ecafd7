//! Nodes that prove themselves by certificates. Needs the openssl command to make some; without it
//! this test says so and passes.

use std::path::Path;
use std::process::Command;

use evenkeel_node::config::PeerTlsConfig;
use serde_json::{Value, json};

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
    let status = second.get("/v1/volumes/web?wait=10&until=serving").await;
    let replicas = status["volume"]["mirrors"][0]["replicas"].as_array().unwrap().clone();
    assert!(replicas.iter().all(|replica| replica["connected"] == true), "{status:#}");
    second.detach("web").await;

    // Without a certificate, with one of another authority, and with that of another node.
    let of_second = second.config.peer.tls.clone();
    for (name, tls, why) in [
        ("plain", None, ""),
        ("foreign", certificates(place.path(), "theirs", "foreign"), ""),
        ("other", of_second, "the certificate of node other does not name it"),
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

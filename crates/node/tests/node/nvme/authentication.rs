//! Hosts that prove who they are, and those who do not.

use std::os::unix::fs::PermissionsExt;

use evenkeel_exports::nvme::authentication::{Computation, Group, Hash, Proof, Secret};
use serde_json::{Value, json};

use super::initiator::{DISCOVERY, Entry, NEW, Queue};
use super::{CONNECT_INVALID_PARAMETERS, EXPORT, HOST, OTHER, export, node, pattern, shown};
use crate::support::{Place, TestNode};

const AUTHENTICATION_REQUIRED: u16 = 0x191;
/// In the answer to Connect.
const ATR: u64 = 1 << 17;
const EXPONENT: [u8; 64] = [9; 64];

/// What a host knows.
#[derive(Clone)]
struct Known {
    secret: String,
    controller: Option<String>,
    hash: u8,
    group: u8,
}

/// How a proof has ended, if not well.
#[derive(Debug, PartialEq, Eq)]
enum Failed {
    /// The node has refused it, with this explanation.
    Refused(u8),
    /// The node has another key than the host knows.
    NodeUnknown,
}

async fn send(queue: &mut Queue, message: &[u8]) {
    let mut entry = Entry::new(0x7f);
    entry.put(4, &[5]);
    entry.put(32, &(message.len() as u32).to_le_bytes());
    entry.put(39, &[1]);
    entry.put(40, &[0, 1, 1, 0xe9]);
    entry.put(44, &(message.len() as u32).to_le_bytes());
    assert_eq!(queue.call(entry, message).await.unwrap().status, 0);
}

/// The next message; or the explanation of a refusal.
async fn receive(queue: &mut Queue, kind: u8) -> Result<Vec<u8>, Failed> {
    let mut entry = Entry::new(0x7f).reads(4096);
    entry.put(4, &[6]);
    entry.put(40, &[0, 1, 1, 0xe9]);
    entry.put(44, &4096_u32.to_le_bytes());
    let answer = queue.call(entry, &[]).await.unwrap();
    assert_eq!((answer.status, answer.data.len()), (0, 4096));
    match (answer.data[0], answer.data[1]) {
        (0, 0xf1) => Err(Failed::Refused(answer.data[7])),
        it => {
            assert_eq!(it, (1, kind));
            Ok(answer.data)
        }
    }
}

/// A message's head: 16 bytes, of transaction 0x0203.
fn head(kind: u8, identifier: u8) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    (bytes[0], bytes[1], bytes[4], bytes[5]) = (kind, identifier, 3, 2);
    bytes
}

/// Proves who the host is on a queue that has just been connected.
async fn prove(
    queue: &mut Queue,
    (subsystem, host): (&str, &str),
    known: &Known,
) -> Result<(), Failed> {
    let mut offer = head(0, 0);
    offer.resize(72, 0);
    (offer[7], offer[8], offer[10], offer[11]) = (1, 1, 1, 1);
    (offer[12], offer[42]) = (known.hash, known.group);
    send(queue, &offer).await;
    let challenge = receive(queue, 1).await?;
    assert_eq!((challenge[8], challenge[9]), (known.hash, known.group));
    let (hash, group) =
        (Hash::from_number(known.hash).unwrap(), Group::from_number(known.group).unwrap());
    let length = hash.length();
    let (c1, c2) = (&challenge[16..16 + length], &vec![5; length]);
    let value = &challenge[16 + length..16 + length + group.length()];
    let exponent = EXPONENT.into();
    let own = Computation::of_generator(group, &exponent).map(|it| it.run());
    let session = Computation::of_value(group, &exponent, value).map(|it| it.run());
    let proof = |challenge, sequence| {
        let session = session.as_ref().map(|session| session.as_slice());
        Proof { hash, transaction: 0x203, challenge, sequence, session, host, subsystem }
    };
    let s1 = u32::from_le_bytes(challenge[12..16].try_into().unwrap());
    let response = proof(c1, s1).of_host(&Secret::read(&known.secret).unwrap());
    let own = own.map(|own| own.to_vec()).unwrap_or_default();
    let mut reply = head(1, 2);
    (reply[6], reply[8]) = (length as u8, known.controller.is_some().into());
    reply[10..12].copy_from_slice(&(own.len() as u16).to_le_bytes());
    reply[12] = 77;
    send(queue, &[&reply, &response[..], c2, &own].concat()).await;
    let success = receive(queue, 3).await?;
    let Some(controller) = &known.controller else {
        assert_eq!(success[8], 0);
        return Ok(());
    };
    let expected = proof(c2, 77).of_controller(&Secret::read(controller).unwrap());
    if success[8] != 1 || success[16..16 + length] != **expected {
        send(queue, &[&head(0, 0xf0)[..6], &[1, 1]].concat()).await;
        return Err(Failed::NodeUnknown);
    }
    send(queue, &head(1, 4)).await;
    Ok(())
}

/// Connects a queue and proves who the host is; and the controller.
async fn joined(
    address: &str,
    names: (&str, &str),
    (controller, queue): (u16, u16),
    known: &Known,
) -> Result<(Queue, u16), Failed> {
    let (mut queue, answer) = Queue::connect(address, names, (controller, queue)).await.unwrap();
    assert_eq!((answer.status, answer.result & !0xffff), (0, ATR));
    match prove(&mut queue, names, known).await {
        Ok(()) => Ok((queue, answer.result as u16)),
        Err(failed) => {
            queue.closed().await;
            Err(failed)
        }
    }
}

/// An admin queue of an enabled controller and a queue for I/O, both proved; and a block's bytes.
async fn connected(address: &str, names: (&str, &str), known: &Known) -> (Queue, Queue, u64) {
    let (mut admin, controller) = joined(address, names, (NEW, 0), known).await.unwrap();
    assert_eq!(admin.enable().await.status, 0);
    let block_size = 1 << admin.identify(0, 1).await[130];
    let (io, _) = joined(address, names, (controller, 1), known).await.unwrap();
    (admin, io, block_size)
}

/// Exports by keys that the node makes; the address, the subsystem, and what the host knows.
async fn export_by_key(node: &TestNode, which: &str) -> (String, String, Known) {
    let request = json!({"hosts": [HOST], "generate": which});
    let answer = node.ok("POST", EXPORT, request).await;
    let secrets = &answer["nvme_secrets"][0];
    assert_eq!(secrets["host"], HOST);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let secret = text(&secrets["secret"]).unwrap();
    let controller = text(&secrets["controller_secret"]);
    let export = &answer["export"];
    let subsystem = text(&export["nvme"]["subsystem"]).unwrap();
    let known = Known { secret, controller, hash: 1, group: 0 };
    (text(&export["tcp"][0]).unwrap(), subsystem, known)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_queue_is_proved_by_itself_and_no_answer_has_the_keys() {
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem, known) = export_by_key(&node, "both").await;
    let names = (subsystem.as_str(), HOST);
    for (hash, group, both_ways) in [(1, 0, true), (2, 1, false), (3, 2, true)] {
        let mut known = Known { hash, group, ..known.clone() };
        known.controller = known.controller.filter(|_| both_ways);
        let (admin, mut io, block_size) = connected(&address, names, &known).await;
        let data = pattern(hash);
        assert_eq!(io.write(0, &data, block_size).await.status, 0);
        assert_eq!(io.read(0, 4096, block_size).await, data);
        let status = node.get("/v1/volumes/web").await;
        let nvme = &shown(&status)["nvme"];
        assert_eq!(nvme["authenticated"], json!([{"nqn": HOST, "both_ways": true}]), "{nvme:#}");
        assert!(!status.to_string().contains("DHHC"), "{status:#}");
        drop((admin, io));
    }
    let all = node.get("/v1/volumes").await.to_string();
    assert!(!all.contains("DHHC") && all.contains(HOST), "{all}");
    // What the node remembers is for its owner alone.
    let remembered = node.config.state.join("attached.json");
    let text = std::fs::read_to_string(&remembered).unwrap();
    assert!(text.contains(&known.secret), "{text}");
    assert_eq!(remembered.metadata().unwrap().permissions().mode() & 0o077, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_prove_it_gets_nothing() {
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem, known) = export_by_key(&node, "both").await;
    let names = (subsystem.as_str(), HOST);
    let other = Secret::new(&[1; 32]).text().to_string();

    let (mut queue, answer) = Queue::connect(&address, names, (NEW, 0)).await.unwrap();
    assert_eq!((answer.status, answer.result & ATR), (0, ATR));
    let refused = queue.enable().await;
    assert_eq!((refused.status, refused.is_final), (AUTHENTICATION_REQUIRED, true));

    for group in [0, 1] {
        let wrong = Known { secret: other.clone(), group, ..known.clone() };
        let failed = joined(&address, names, (NEW, 0), &wrong).await.err();
        assert_eq!(failed, Some(Failed::Refused(1)));
    }
    let wrong = Known { controller: Some(other.clone()), ..known.clone() };
    let failed = joined(&address, names, (NEW, 0), &wrong).await.err();
    assert_eq!(failed, Some(Failed::NodeUnknown));
    let none = Known { hash: 9, ..known.clone() };
    let failed = joined(&address, names, (NEW, 0), &none).await.err();
    assert_eq!(failed, Some(Failed::Refused(4)));
    assert_eq!(shown(&node.get("/v1/volumes/web").await)["clients"], 0);

    // A queue for I/O of a host that is known is no way in either.
    let (mut admin, controller) = joined(&address, names, (NEW, 0), &known).await.unwrap();
    assert_eq!(admin.enable().await.status, 0);
    let wrong = Known { secret: other, ..known.clone() };
    let failed = joined(&address, names, (controller, 1), &wrong).await.err();
    assert_eq!(failed, Some(Failed::Refused(1)));
    let host = &shown(&node.get("/v1/volumes/web").await)["nvme"]["connected"][0];
    assert_eq!(host["queues"], 0, "{host:#}");

    // The node has no key of its own for this host any more.
    let host_only = json!({"hosts": [HOST], "secrets": [{"host": HOST, "secret": known.secret}]});
    node.ok("POST", EXPORT, host_only).await;
    admin.closed().await;
    let failed = joined(&address, names, (NEW, 0), &known).await.err();
    assert_eq!(failed, Some(Failed::Refused(1)));
    let one_way = Known { controller: None, ..known };
    joined(&address, names, (NEW, 0), &one_way).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_keep_no_host_out() {
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem, known) = export_by_key(&node, "both").await;
    let names = (subsystem.as_str(), HOST);
    let (mut admin, controller) = joined(&address, names, (NEW, 0), &known).await.unwrap();
    assert_eq!(admin.enable().await.status, 0);
    // More than a host may have of controllers, than a volume has, and the queue that is to come.
    let mut strangers = Vec::new();
    for _ in 0..70 {
        strangers.push(Queue::connect(&address, names, (NEW, 0)).await.unwrap());
        strangers.push(Queue::connect(&address, names, (controller, 1)).await.unwrap());
    }
    assert!(strangers.iter().all(|(_, answer)| (answer.status, answer.result & ATR) == (0, ATR)));
    let (mut io, _) = joined(&address, names, (controller, 1), &known).await.unwrap();
    let block_size = 1 << admin.identify(0, 1).await[130];
    assert_eq!(io.write(0, &pattern(1), block_size).await.status, 0);
    // The host itself takes the place of what it had between these addresses, once it has proved
    // that it is the host.
    let again = connected(&address, names, &known).await;
    io.closed().await;
    let is_one = |it: &Value| shown(it)["nvme"]["connected"].as_array().unwrap().len() == 1;
    node.until("/v1/volumes/web", is_one).await;
    drop((again, strangers));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_outlast_a_restart_and_new_ones_disconnect() {
    let place = Place::new();
    let mut node = node(&place).await;
    let (address, subsystem, known) = export_by_key(&node, "both").await;
    node.config.nvme.listen = vec![address.clone()];
    let names = (subsystem.as_str(), HOST);
    node.stop().await;
    node.restart().await;
    node.until("/v1/volumes/web", |it| shown(it)["kind"] == "nvme").await;
    let (admin, mut io, block_size) = connected(&address, names, &known).await;

    // Another host comes to it: this one keeps its key, and its queues.
    export(&node, &[HOST, OTHER], false).await;
    assert_eq!(io.write(0, &pattern(2), block_size).await.status, 0);
    let nvme = &shown(&node.get("/v1/volumes/web").await)["nvme"];
    assert_eq!(nvme["authenticated"].as_array().unwrap().len(), 1, "{nvme:#}");
    // On an address of this machine the other one needs none.
    Queue::admin(&address, &subsystem, OTHER).await;

    let (_, _, renewed) = export_by_key(&node, "host").await;
    admin.closed().await;
    io.closed().await;
    let failed = joined(&address, names, (NEW, 0), &known).await.err();
    assert_eq!(failed, Some(Failed::Refused(1)));
    assert_eq!(renewed.controller, None);
    connected(&address, names, &renewed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_others_reach_the_node_a_host_needs_a_key() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.config.nvme.listen = vec!["0.0.0.0:0".to_owned()];
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    let request = json!({"hosts": [HOST]});
    let refused = node.refused("POST", EXPORT, request, "not-supported").await;
    let text = refused.to_string();
    for part in ["is reachable", HOST, "--generate-key", "insecure = true"] {
        assert!(text.contains(part), "{refused:#}");
    }
    let (open, subsystem, known) = export_by_key(&node, "both").await;
    let address = format!("127.0.0.1:{}", open.rsplit_once(':').unwrap().1);
    let (mut discovery, _) = Queue::admin(&address, DISCOVERY, HOST).await;
    assert_eq!(discovery.discovered().await, [(subsystem.clone(), address.clone())]);
    connected(&address, (&subsystem, HOST), &known).await;
    let warned = |status: Value| status["node"]["warnings"].to_string().contains("nvme.listen");
    assert!(!warned(node.get("/v1/node").await));

    // A name may be enough; until the configuration does not say so any more.
    node.ok("DELETE", EXPORT, Value::Null).await;
    node.stop().await;
    node.config.nvme = evenkeel_node::config::NvmeConfig { listen: vec![open], insecure: true };
    node.restart().await;
    assert!(warned(node.get("/v1/node").await));
    node.until("/v1/volumes/web", |it| it["volume"]["state"] == "serving").await;
    export(&node, &[HOST], false).await;
    Queue::admin(&address, &subsystem, HOST).await;
    node.stop().await;
    node.config.nvme.insecure = false;
    node.restart().await;
    let says_why = |it: &Value| {
        let reason = it["volume"]["reason"].as_str().unwrap_or_default();
        it["volume"]["wanted_on"][0]["nvme"] == true && reason.contains("has no key")
    };
    node.until("/v1/volumes/web", says_why).await;
    // Nobody is let in meanwhile, and whoever it was for is to try again.
    let names = (subsystem.as_str(), HOST);
    let (_, busy) = Queue::connect(&address, names, (NEW, 0)).await.unwrap();
    assert_eq!((busy.status, busy.is_final), (super::CONTROLLER_BUSY, false));
    let stranger = (subsystem.as_str(), OTHER);
    let (_, refused) = Queue::connect(&address, stranger, (NEW, 0)).await.unwrap();
    assert_eq!(refused.status, CONNECT_INVALID_PARAMETERS);
    let (_, _, known) = export_by_key(&node, "host").await;
    connected(&address, names, &known).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_are_none_are_refused() {
    let place = Place::new();
    let node = node(&place).await;
    let secret = Secret::new(&[1; 32]).text().to_string();
    let with = |host: &str, secret: &str| json!({"hosts": [HOST], "secrets": [{"host": host, "secret": secret}]});
    for (request, expected) in
        [(with(OTHER, &secret), "not named"), (with(HOST, &secret[..30]), "its secret is none")]
    {
        let refused = node.refused("POST", EXPORT, request, "bad-request").await;
        assert!(refused["why"].as_str().unwrap().contains(expected), "{refused:#}");
        assert!(!refused.to_string().contains(&secret[..25]), "{refused:#}");
    }
    let long = json!({"hosts": ["x".repeat(100_000)]});
    let refused = node.refused("POST", EXPORT, long, "bad-request").await;
    assert!(refused["why"].as_str().unwrap().len() < 1000, "{refused:#}");
    assert_eq!(shown(&node.get("/v1/volumes/web").await), Value::Null);
}

//! Volumes over NVMe/TCP, with a small initiator.

mod authentication;
mod given_up;
mod initiator;
mod reservations;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::support::{Place, TestNode};
use initiator::{DISCOVERY, Entry, NEW, Queue};

const HOST: &str = "nqn.2026-11.org.example:host";
const OTHER: &str = "nqn.2026-11.org.example:other";
const EXPORT: &str = "/v1/volumes/web/exports/nvme";
const CONNECT_INVALID_HOST: u16 = 0x184;
const CONNECT_INVALID_PARAMETERS: u16 = 0x182;
const CONTROLLER_BUSY: u16 = 0x181;

/// A node that listens for NVMe, with an attached volume.
async fn node(place: &Place) -> TestNode {
    let mut node = TestNode::new(place, "a");
    node.config.nvme.listen = vec!["127.0.0.1:0".to_owned()];
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    node
}

/// Exports it; the address and the subsystem's name.
async fn export(node: &TestNode, hosts: &[&str], read_only: bool) -> (String, String) {
    let request = json!({"hosts": hosts, "read_only": read_only});
    let exported = node.ok("POST", EXPORT, request).await;
    let export = &exported["export"];
    assert_eq!(export["kind"], "nvme", "{export:#}");
    assert_eq!(export["nvme"]["hosts"], json!(hosts), "{export:#}");
    let subsystem = export["nvme"]["subsystem"].as_str().unwrap().to_owned();
    (export["tcp"][0].as_str().unwrap().to_owned(), subsystem)
}

/// The NVMe export in the volume's status.
fn shown(answer: &Value) -> Value {
    let exports = answer["volume"]["exports"].as_array();
    let is_it = |export: &&Value| export["kind"] == "nvme";
    exports.and_then(|all| all.iter().find(is_it)).cloned().unwrap_or_default()
}

/// What an NBD client reads from the volume's own socket.
async fn read_by_nbd(node: &TestNode, offset: u64, length: u32) -> Vec<u8> {
    let socket = node.config.runtime.join("nbd/web.sock");
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.read_exact(&mut [0; 18]).await.unwrap();
    stream.write_all(&[0, 0, 0, 3]).await.unwrap();
    // NBD_OPT_GO with the empty name.
    let go = [b"IHAVEOPT", &7_u32.to_be_bytes()[..], &6_u32.to_be_bytes(), &[0; 6]].concat();
    stream.write_all(&go).await.unwrap();
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head).await.unwrap();
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        stream.read_exact(&mut vec![0; number(16) as usize]).await.unwrap();
        match number(12) {
            1 => break,
            kind => assert_eq!(kind, 3),
        }
    }
    let magic = 0x2560_9513_u32.to_be_bytes();
    let request = [&magic[..], &[0; 12], &offset.to_be_bytes(), &length.to_be_bytes()].concat();
    stream.write_all(&request).await.unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[4..8], [0; 4], "no error");
    let mut data = vec![0; length as usize];
    stream.read_exact(&mut data).await.unwrap();
    data
}

/// An admin queue, its controller, a queue for I/O, and the bytes of a block.
async fn connected(address: &str, subsystem: &str) -> (Queue, u16, Queue, u64) {
    connected_as(HOST, address, subsystem).await
}

/// The same of this host.
async fn connected_as(host: &str, address: &str, subsystem: &str) -> (Queue, u16, Queue, u64) {
    let (mut admin, controller) = Queue::admin(address, subsystem, host).await;
    let namespace = admin.identify(0, 1).await;
    let block_size = 1 << namespace[130];
    let names = (subsystem, host);
    let (io, answer) = Queue::connect(address, names, (controller, 1)).await.unwrap();
    assert_eq!(answer.status, 0);
    (admin, controller, io, block_size)
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..4096_u32).map(|at| (at % 251) as u8 ^ seed).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_host_that_is_named_gets_in_and_discovers_it() {
    let place = Place::new();
    let node = node(&place).await;
    node.create("mail", 1).await;
    node.attach("mail").await;
    let (address, subsystem) = export(&node, &[HOST], false).await;
    let of_other = json!({"hosts": [OTHER]});
    node.ok("POST", "/v1/volumes/mail/exports/nvme", of_other).await;

    let refused = Queue::connect(&address, (&subsystem, OTHER), (NEW, 0)).await.unwrap().1;
    assert_eq!((refused.status, refused.is_final), (CONNECT_INVALID_HOST, true));
    let none = format!("{}0", &subsystem[..subsystem.len() - 1]);
    let none = if none == subsystem { none.replace("uuid:", "uuid:0") } else { none };
    let refused = Queue::connect(&address, (&none, HOST), (NEW, 0)).await.unwrap().1;
    assert_eq!(refused.status, CONNECT_INVALID_PARAMETERS);

    let (mut discovery, _) = Queue::admin(&address, DISCOVERY, HOST).await;
    assert_eq!(discovery.discovered().await, [(subsystem.clone(), address.clone())]);
    let (mut of_nobody, _) = Queue::admin(&address, DISCOVERY, "nqn.2026-11.org.example:x").await;
    assert_eq!(of_nobody.discovered().await, []);

    let (_admin, controller, _io, _) = connected(&address, &subsystem).await;
    let status = shown(&node.get("/v1/volumes/web").await);
    assert_eq!(status["clients"], 1, "{status:#}");
    let host = &status["nvme"]["connected"][0];
    assert_eq!((&host["nqn"], &host["queues"]), (&json!(HOST), &json!(1)), "{status:#}");
    assert_eq!(host["controller"], controller, "{status:#}");
    let busy = node.refused("POST", "/v1/volumes/web/stop", Value::Null, "device-busy").await;
    assert!(busy["why"].as_str().unwrap().contains("a client is connected"), "{busy:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_host_writes_is_read_by_nbd() {
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem) = export(&node, &[HOST], false).await;
    let (_admin, _, mut io, block_size) = connected(&address, &subsystem).await;
    let data = pattern(1);
    assert_eq!(io.write(8192, &data, block_size).await.status, 0);
    assert_eq!(io.read(8192, 4096, block_size).await, data);
    assert_eq!(read_by_nbd(&node, 8192, 4096).await, data);

    // Read-only from now on: whoever could write is disconnected.
    export(&node, &[HOST], true).await;
    io.closed().await;
    let (_admin, _, mut io, _) = connected(&address, &subsystem).await;
    assert_ne!(io.write(8192, &pattern(2), block_size).await.status, 0);
    assert_eq!(io.read(8192, 4096, block_size).await, data);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_ends_closes_its_queues() {
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem) = export(&node, &[HOST, OTHER], false).await;
    let (admin, _, io, _) = connected(&address, &subsystem).await;
    // Of another host it is still.
    export(&node, &[OTHER], false).await;
    admin.closed().await;
    io.closed().await;
    let refused = Queue::connect(&address, (&subsystem, HOST), (NEW, 0)).await.unwrap().1;
    assert_eq!(refused.status, CONNECT_INVALID_HOST);

    let (admin, _) = Queue::admin(&address, &subsystem, OTHER).await;
    let ended = node.ok("DELETE", EXPORT, Value::Null).await;
    assert_eq!(ended["message"], "volume web is not exported by NVMe any more");
    admin.closed().await;
    let refused = Queue::connect(&address, (&subsystem, OTHER), (NEW, 0)).await.unwrap().1;
    assert_eq!((refused.status, refused.is_final), (CONNECT_INVALID_PARAMETERS, true));
    assert_eq!(shown(&node.get("/v1/volumes/web").await), Value::Null);
    node.refused("DELETE", EXPORT, Value::Null, "no-such-export").await;

    // NBD goes on, until all exports end.
    export(&node, &[HOST], false).await;
    let shared = json!({"primaries": 2});
    node.refused("PATCH", "/v1/volumes/web", shared, "wrong-state").await;
    let (admin, _, io, _) = connected(&address, &subsystem).await;
    assert_eq!(read_by_nbd(&node, 0, 512).await.len(), 512);
    node.ok("DELETE", "/v1/volumes/web/exports", Value::Null).await;
    admin.closed().await;
    io.closed().await;
    let status = node.get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["exports"], json!([]), "{status:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_brings_it_back_with_other_controllers() {
    let place = Place::new();
    let mut node = node(&place).await;
    let (address, subsystem) = export(&node, &[HOST], false).await;
    node.config.nvme.listen = vec![address.clone()];
    let (_admin, before, mut io, block_size) = connected(&address, &subsystem).await;
    assert_eq!(io.write(0, &pattern(3), block_size).await.status, 0);
    node.stop().await;
    node.restart().await;
    // Until it is back, a host is not told that there is none.
    let (admin, after) = loop {
        let names = (subsystem.as_str(), HOST);
        let Ok((_, answer)) = Queue::connect(&address, names, (NEW, 0)).await else { continue };
        match answer.status {
            0 => break Queue::admin(&address, &subsystem, HOST).await,
            busy => assert_eq!((busy, answer.is_final), (CONTROLLER_BUSY, false)),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_ne!(before / 63, after / 63);
    drop(admin);
    let (admin, _, mut io, _) = connected(&address, &subsystem).await;
    assert_eq!(io.read(0, 4096, block_size).await, pattern(3));
    node.refused("POST", "/v1/volumes/web/detach", Value::Null, "device-busy").await;
    drop((admin, io));
    node.detach("web").await;
    let refused = Queue::connect(&address, (&subsystem, HOST), (NEW, 0)).await.unwrap().1;
    assert_eq!(refused.status, CONNECT_INVALID_PARAMETERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_told_that_a_volume_has_grown() {
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem) = export(&node, &[HOST], false).await;
    let (mut admin, _, mut io, block_size) = connected(&address, &subsystem).await;
    // Set Features: notices that a namespace has changed.
    let mut notices = Entry::new(9);
    notices.put(40, &[0x0b]);
    notices.put(44, &0x100_u32.to_le_bytes());
    assert_eq!(admin.call(notices, &[]).await.unwrap().status, 0);
    let event = admin.send(Entry::new(0x0c), &[]).await.unwrap();
    node.ok("PATCH", "/v1/volumes/web", json!({"size": 8 << 20})).await;
    let (answered, answer) = admin.answer().await.unwrap();
    // A notice, of a changed namespace, about log page 4.
    assert_eq!((answered, answer.result), (event, 0x04_00_02));
    let blocks = u64::from_le_bytes(admin.identify(0, 1).await[..8].try_into().unwrap());
    assert_eq!(blocks * block_size, 8 << 20);
    assert_eq!(io.write((8 << 20) - 4096, &pattern(4), block_size).await.status, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_exported_is_refused() {
    let place = Place::new();
    let mut node = node(&place).await;
    let refused = node.refused("POST", EXPORT, json!({"hosts": []}), "bad-request").await;
    assert!(refused["do"].as_str().unwrap().contains("--host"), "{refused:#}");
    for name in ["host", "nqn.2026-13.org.example:a", "nqn.2026-11.org.example:a b"] {
        let hosts = json!({"hosts": [HOST, name]});
        let refused = node.refused("POST", EXPORT, hosts, "bad-request").await;
        assert!(refused["why"].as_str().unwrap().contains("/etc/nvme/hostnqn"), "{refused:#}");
    }
    let many: Vec<String> = (0..65).map(|n| format!("{HOST}{n}")).collect();
    node.refused("POST", EXPORT, json!({"hosts": many}), "bad-request").await;
    node.ok("POST", EXPORT, json!({"hosts": many[..64]})).await;
    node.stop().await;
    node.config.nvme.listen.clear();
    node.restart().await;
    node.until("/v1/volumes/web", |it| it["volume"]["state"] == "serving").await;
    let hosts = json!({"hosts": [HOST]});
    let refused = node.refused("POST", EXPORT, hosts, "not-supported").await;
    assert!(refused["do"].as_str().unwrap().contains("[nvme]"), "{refused:#}");
    // It waits for an address, which the status tells; until it is not wanted any more.
    let status = node.get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["wanted_on"][0]["nvme"], true, "{status:#}");
    assert!(status["volume"]["reason"].as_str().unwrap().contains("its NVMe export could not"));
    node.ok("DELETE", EXPORT, Value::Null).await;
    let status = node.get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["wanted_on"], json!([]), "{status:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_not_keep_a_host_from_discovering() {
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem) = export(&node, &[HOST], false).await;
    let (mut discovery, _) = Queue::admin(&address, DISCOVERY, HOST).await;
    let (mut strangers, expected) = (Vec::new(), [(subsystem, address.clone())]);
    let one_source = |_| [127, 0, 0, 66];
    let many_sources = |number: u8| [127, 0, 1, number];
    let sources: [&(dyn Fn(u8) -> [u8; 4] + Sync); 2] = [&one_source, &many_sources];
    for source in sources {
        for number in 0..200 {
            let name = format!("nqn.2026-11.org.example:{number}");
            let (queue, answer) =
                Queue::discover_from(source(number), &address, &name).await.unwrap();
            assert_eq!(answer.status, 0, "it takes the place of another one");
            strangers.push(queue);
        }
        // Who was there is, and it comes once more.
        assert_eq!(discovery.discovered().await, expected);
        let (mut second, _) = Queue::admin(&address, DISCOVERY, HOST).await;
        assert_eq!(second.discovered().await, expected);
    }
    strangers.remove(0).closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_compared_is_written_only_if_it_is_the_same() {
    const COMPARE_FAILURE: u16 = 0x285;
    const FAILED_FUSED: u16 = 0x009;
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem) = export(&node, &[HOST, OTHER], false).await;
    let (mut admin, _, mut io, block_size) = connected(&address, &subsystem).await;
    assert_eq!(admin.identify(1, 0).await[522], 1, "Compare and Write is announced");
    let (old, new) = (pattern(1), pattern(2));
    assert_eq!(io.write(8192, &old, block_size).await.status, 0);
    let statuses = |[first, second]: [initiator::Answer; 2]| [first.status, second.status];
    let missed = io.compare_and_write(8192, (&new, &pattern(3)), block_size).await;
    assert_eq!(statuses(missed), [COMPARE_FAILURE, FAILED_FUSED]);
    assert_eq!(io.read(8192, 4096, block_size).await, old);
    let written = io.compare_and_write(8192, (&old, &new), block_size).await;
    assert_eq!(statuses(written), [0, 0]);
    assert_eq!(read_by_nbd(&node, 8192, 4096).await, new);
    // Two hosts that take the same lock: one has it.
    let (_admin, _, mut other, _) = connected_as(OTHER, &address, &subsystem).await;
    let mine = pattern(4);
    let (one, two) = tokio::join!(
        io.compare_and_write(8192, (&new, &mine), block_size),
        other.compare_and_write(8192, (&new, &old), block_size),
    );
    let mut ends = [statuses(one), statuses(two)];
    ends.sort_unstable();
    assert_eq!(ends, [[0, 0], [COMPARE_FAILURE, FAILED_FUSED]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_log_is_that_of_the_replicas() {
    const DEGRADED: u8 = 1 << 2;
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem) = export(&node, &[HOST], false).await;
    let (mut admin, _, mut io, block_size) = connected(&address, &subsystem).await;
    assert_eq!(io.write(0, &pattern(1), block_size).await.status, 0);
    assert_eq!(io.read(0, 4096, block_size).await, pattern(1));
    let number_of =
        |page: &[u8], at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    // A page is told for a second, and again if the replicas do not tell in time.
    let page = loop {
        let page = admin.log(2, 512).await;
        if number_of(&page, 64) >= 1 && number_of(&page, 80) >= 1 {
            break page;
        }
        assert!(Instant::now() < deadline, "its reads and writes are not counted");
        tokio::time::sleep(Duration::from_millis(1100)).await;
    };
    let number = |at: usize| number_of(&page, at);
    assert_eq!((page[0] & DEGRADED, number(160)), (0, 0));
    assert_eq!((number(32), number(48)), (1, 1), "thousands of 512 bytes, rounded up");
}

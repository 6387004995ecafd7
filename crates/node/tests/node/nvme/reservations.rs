//! Reservations: hosts that fence one another, whichever way they use the volume.

use serde_json::{Value, json};

use super::initiator::{Answer, Entry, Queue};
use super::{HOST, OTHER, connected, export, node, pattern};
use crate::support::{Place, TestNode};

const CONFLICT: u16 = 0x083;
const INVALID_FIELD: u16 = 0x002;
const THIRD: &str = "nqn.2026-11.org.example:third";
const RESERVATION: &str = "/v1/volumes/web/reservation";
/// An event of reservations, about log page 80h.
const EVENT: u64 = 0x80_00_06;
/// CPTPL: they outlast a power loss.
const PERSISTENT: u32 = 3 << 30;
const WRITE_EXCLUSIVE_REGISTRANTS: u32 = 3 << 8;

/// A host that uses the volume.
struct Host {
    admin: Queue,
    io: Queue,
    block_size: u64,
}

impl Host {
    async fn new(address: &str, subsystem: &str, name: &str) -> Self {
        let (mut admin, controller) = Queue::admin(address, subsystem, name).await;
        let block_size = 1 << admin.identify(0, 1).await[130];
        let names = (subsystem, name);
        let (io, answer) = Queue::connect(address, names, (controller, 1)).await.unwrap();
        assert_eq!(answer.status, 0);
        Self { admin, io, block_size }
    }

    async fn reserve(&mut self, opcode: u8, word: u32, keys: &[u64]) -> u16 {
        self.io.reserve(opcode, word, keys).await.status
    }

    async fn register(&mut self, word: u32, old: u64, new: u64) -> u16 {
        self.reserve(0x0d, word, &[old, new]).await
    }

    async fn acquire(&mut self, word: u32, key: u64, victim: u64) -> u16 {
        self.reserve(0x11, word, &[key, victim]).await
    }

    async fn release(&mut self, word: u32, key: u64) -> u16 {
        self.reserve(0x15, word, &[key]).await
    }

    async fn write(&mut self) -> u16 {
        let block_size = self.block_size;
        self.io.write(0, &pattern(1), block_size).await.status
    }

    async fn flush(&mut self) -> u16 {
        self.io.call(of_namespace(0), &[]).await.unwrap().status
    }

    /// Reservation Report: generation, type, whether it persists, and key and holder of each host.
    async fn report(&mut self) -> (u8, u8, u8, Vec<(u8, u64, bool)>) {
        let mut entry = of_namespace(0x0e).reads(4096);
        entry.put(40, &(4096_u32 / 4 - 1).to_le_bytes());
        entry.put(44, &[1]);
        let Answer { status, data, .. } = self.io.call(entry, &[]).await.unwrap();
        assert_eq!(status, 0);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let registrants = data[64..].chunks(64).take(data[5].into());
        let registrants = registrants.map(|it| (it[31], number(&it[8..16]), it[2] == 1));
        (data[0], data[4], data[9], registrants.collect())
    }

    /// Asks to be told of what happens.
    async fn listen(&mut self) -> u16 {
        self.admin.send(Entry::new(0x0c), &[]).await.unwrap()
    }

    /// The notice of which it is told.
    async fn notice(&mut self, event: u16) -> u8 {
        let (answered, answer) = self.admin.answer().await.unwrap();
        assert_eq!((answered, answer.result), (event, EVENT));
        self.admin.log(0x80, 64).await[8]
    }
}

fn of_namespace(opcode: u8) -> Entry {
    let mut entry = Entry::new(opcode);
    entry.put(4, &[1]);
    entry
}

/// The registrants in the volume's status: keys, and who holds the reservation.
async fn shown(node: &TestNode) -> (Value, Vec<(String, bool)>) {
    let status = node.get("/v1/volumes/web").await;
    let reservation = &status["volume"]["reservation"];
    let registrants = reservation["registrants"].as_array().cloned().unwrap_or_default();
    let of = |it: &Value| (it["key"].as_str().unwrap().to_owned(), it["holder"] == true);
    (reservation["kind"].clone(), registrants.iter().map(of).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_fence_one_another() {
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem) = export(&node, &[HOST, OTHER, THIRD], false).await;
    let mut one = Host::new(&address, &subsystem, HOST).await;
    let mut two = Host::new(&address, &subsystem, OTHER).await;
    let mut third = Host::new(&address, &subsystem, THIRD).await;
    let page = one.admin.identify(1, 0).await;
    assert_eq!((page[520] & 1 << 5, one.admin.identify(0, 1).await[31]), (1 << 5, 0xff));

    assert_eq!(one.acquire(WRITE_EXCLUSIVE_REGISTRANTS, 7, 0).await, CONFLICT, "not registered");
    assert_eq!(one.register(0, 0, 7).await, 0);
    assert_eq!(two.register(0, 0, 8).await, 0);
    assert_eq!(two.register(0, 0, 9).await, CONFLICT, "with another key");
    assert_eq!(one.acquire(WRITE_EXCLUSIVE_REGISTRANTS, 8, 0).await, CONFLICT, "another's key");
    assert_eq!(one.acquire(WRITE_EXCLUSIVE_REGISTRANTS, 7, 0).await, 0);
    assert_eq!(two.acquire(1 << 8, 8, 0).await, CONFLICT, "it is reserved");
    let registrants = vec![(7, 7, true), (8, 8, false)];
    assert_eq!(third.report().await, (2, 3, 0, registrants));
    let expected = vec![("0x7".to_owned(), true), ("0x8".to_owned(), false)];
    assert_eq!(shown(&node).await, (json!("write-exclusive-registrants"), expected));

    assert_eq!((one.write().await, two.write().await), (0, 0));
    assert_eq!((third.write().await, third.flush().await), (CONFLICT, CONFLICT));
    assert_eq!(third.io.read(0, 4096, third.block_size).await, pattern(1), "it may read");
    assert_eq!(two.release(WRITE_EXCLUSIVE_REGISTRANTS, 8).await, 0, "it holds none");
    assert_eq!(two.release(1 << 8, 8).await, INVALID_FIELD, "of another type");

    // The second one fences the first one, and takes its place.
    let event = one.listen().await;
    assert_eq!(two.acquire(WRITE_EXCLUSIVE_REGISTRANTS | 2, 8, 7).await, 0);
    assert_eq!(one.notice(event).await, 1, "its registration was preempted");
    assert_eq!((one.write().await, one.flush().await, two.write().await), (CONFLICT, CONFLICT, 0));
    assert_eq!(one.report().await, (3, 3, 0, vec![(8, 8, true)]));
    assert_eq!(one.release(WRITE_EXCLUSIVE_REGISTRANTS, 7).await, CONFLICT);

    // It comes back, and is told when the reservation ends.
    assert_eq!(one.register(2 | 8, 0, 17).await, 0, "whatever key it has");
    assert_eq!(one.register(2, 7, 27).await, CONFLICT);
    let event = one.listen().await;
    assert_eq!(two.release(WRITE_EXCLUSIVE_REGISTRANTS, 8).await, 0);
    assert_eq!(one.notice(event).await, 2, "the reservation was released");
    assert_eq!((third.write().await, third.flush().await), (0, 0));
    let event = one.listen().await;
    assert_eq!(two.release(1, 8).await, 0, "all of it is cleared");
    assert_eq!(one.notice(event).await, 3, "the reservation was preempted");
    assert_eq!(one.report().await.3, []);
    assert_eq!(one.register(1, 17, 0).await, CONFLICT, "it is not registered any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_hosts_have_the_same_reservations() {
    let place = Place::new();
    let node = node(&place).await;
    let (address, subsystem) = export(&node, &[HOST], false).await;
    let mut host = Host::new(&address, &subsystem, HOST).await;
    assert_eq!(host.register(0, 0, 7).await, 0);
    let register = json!({"action": "register", "key": "9"});
    node.ok("POST", RESERVATION, register).await;
    let reserve = json!({"action": "reserve", "key": "9", "kind": "exclusive-access"});
    node.ok("POST", RESERVATION, reserve).await;
    assert_eq!((host.write().await, host.flush().await), (CONFLICT, CONFLICT));
    let read = host.io.try_read(0, 4096, host.block_size).await;
    assert_eq!(read.status, CONFLICT);
    let (_, kind, _, registrants) = host.report().await;
    assert_eq!((kind, registrants[0], registrants[1].1), (2, (7, 7, false), 9));
    assert!(registrants[1].2, "the node holds it");

    // An administrator's way out.
    let event = host.listen().await;
    node.ok("POST", RESERVATION, json!({"action": "drop"})).await;
    assert_eq!(host.notice(event).await, 3);
    assert_eq!((host.write().await, host.flush().await), (0, 0));

    // A host that may not write may not reserve, either.
    export(&node, &[HOST], true).await;
    let (mut admin, _, mut io, _) = connected(&address, &subsystem).await;
    assert_eq!(admin.identify(0, 1).await[31], 0);
    assert_eq!(io.reserve(0x0d, 0, &[0, 7]).await.status, 0x001, "there is no such command");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_persists_outlasts_the_node() {
    let place = Place::new();
    let mut node = node(&place).await;
    let (mut address, subsystem) = export(&node, &[HOST, OTHER], false).await;
    for is_persistent in [true, false] {
        let mut one = Host::new(&address, &subsystem, HOST).await;
        let mut two = Host::new(&address, &subsystem, OTHER).await;
        // Feature 83h by the one, CPTPL by the other.
        assert_eq!(one.register(PERSISTENT, 0, 7).await, 0);
        assert_eq!(one.acquire(1 << 8, 7, 0).await, 0);
        assert_eq!(one.report().await.2, 1);
        assert_eq!(two.admin.feature(0x83).await, 1);
        if !is_persistent {
            assert_eq!(two.admin.set_feature(0x83, 0).await.status, 0);
            assert_eq!(one.report().await.2, 0);
        }
        drop((one, two));
        node.stop().await;
        node.config.nvme.listen = vec!["127.0.0.1:0".to_owned()];
        node.restart().await;
        node.until("/v1/volumes/web", |it| super::shown(it) != Value::Null).await;
        (address, _) = export(&node, &[HOST, OTHER], false).await;
        let mut two = Host::new(&address, &subsystem, OTHER).await;
        let expected = if is_persistent { CONFLICT } else { 0 };
        assert_eq!((two.write().await, two.flush().await), (expected, expected));
        let kept = two.report().await;
        let held = if is_persistent { vec![(7, 7, true)] } else { vec![] };
        assert_eq!((kept.1, kept.2, kept.3), (is_persistent.into(), is_persistent.into(), held));
        // The first one again, over another connection, with what it has.
        let mut one = Host::new(&address, &subsystem, HOST).await;
        assert_eq!(one.write().await, 0);
        if is_persistent {
            assert_eq!(one.release(1, 7).await, 0);
        }
    }
}
